"""A reader of pickles that can run no code.

A pickle is a program for a machine with a stack. This machine knows the instructions that build
data. Of those that look up and call objects it knows names on a list (``_globals.py``) and no
others: a name is never imported, and nothing is called but functions that were written for this.

A file costs no more memory than a fixed multiple of its size: lengths are checked against what is
there, and memo entries are kept in a dict. Keys of dicts are checked before they are hashed, since
the hash of a tuple that contains another many times over can take forever.
"""

from __future__ import annotations

import pickle
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from retrograd.files._format import FileFormatError

_LONGEST_KEY = 1000  # how many values a key may consist of
_ATOMS = (str, int, float, bool, bytes, complex, type(None))


class RefusedError(FileFormatError, pickle.UnpicklingError):
    """A file contains objects that are not data. Reading them would run code."""


class Allowed:
    """The replacement for a name of a pickle: a function that may be called with data of the file.

    Args:
        name: what PyTorch calls it.
        make: the function.
        copies: whether it makes a copy of its arguments. A pickle can have one list copied again
            and again, so what is copied is counted.
    """

    __slots__ = ("copies", "make", "name")

    def __init__(self, name: str, make: Callable[..., Any], copies: bool = False) -> None:
        self.name, self.make, self.copies = name, make, copies

    def __repr__(self) -> str:
        return f"<{self.name}>"


class Trusted(Allowed):
    """A class or function that the user trusts, and so is called as pickle calls it.

    Args:
        target: the class or function.
        given: what the user gave for it.
    """

    __slots__ = ("given",)

    def __init__(self, target: Any, given: Any) -> None:
        super().__init__(f"{target.__module__}.{target.__qualname__}", target)
        self.given = given


def checked_key(key: Any) -> Any:
    """A key of a dict or an element of a set, if it can be hashed in a reasonable time."""
    if isinstance(key, _ATOMS):
        return key
    waiting, count = [key], 0
    while waiting:
        item = waiting.pop()
        count += 1
        if type(item) in (tuple, frozenset):
            count += len(item)
            waiting.extend(item)
        elif item.__hash__ is None or hasattr(item, "retain_grad"):
            raise ValueError(f"a {type(item).__name__} is a key or in a set")
        if count > _LONGEST_KEY:
            raise ValueError("a key is too long")
    return key


class Unpickler:
    """The machine.

    Args:
        data: the bytes of the pickle, or the first of them.
        find: gives what a module and a name stand for.
        persistent: gives the object of a persistent id, such as a storage.
        more: reads up to so many bytes on, where ``data`` are only the first.
        encoding: of strings that Python 2 wrote; "bytes" leaves them as they are.
    """

    def __init__(
        self, data: bytes, find: Callable[[str, str], Any], persistent: Callable[[Any], Any],
        more: Callable[[int], bytes] | None = None, encoding: str = "utf-8",
    ) -> None:  # fmt: skip
        self.data, self.at = data, 0
        self._find, self._persistent, self._more, self._encoding = find, persistent, more, encoding
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []  # the stacks below marks
        self._memo: dict[int, Any] = {}
        self._copied = 0
        self._trusted: set[type] = set()  # the classes of objects that trusted functions have made

    def load(self) -> Any:
        """The object of the next pickle. ValueError, TypeError and the like say what is wrong."""
        self._stack, self._below, self._memo = [], [], {}
        while True:
            code = self.take(1)[0]
            if code == _STOP:
                if len(self._stack) != 1 or self._below:
                    raise ValueError("its pickle ends too early")
                return self._stack.pop()
            step = _STEPS.get(code)
            if step is None:
                raise ValueError(f"its pickle has the unknown instruction {code:#x}")
            step(self)

    # -- reading -------------------------------------------------------------------------------

    def take(self, count: int) -> bytes:
        """The next bytes."""
        stop = self.at + count
        if stop > len(self.data):
            self._refill(stop)
        piece = self.data[self.at : stop]
        self.at = stop
        return piece

    def _refill(self, stop: int) -> None:
        if self._more is not None:
            missing = stop - len(self.data)
            self.data += self._more(max(missing, 1 << 16, len(self.data)))
        if stop > len(self.data):
            raise ValueError("its pickle is cut off")

    def _line(self) -> str:
        end = self.data.find(b"\n", self.at)
        while end < 0:
            self._refill(len(self.data) + 1)
            end = self.data.find(b"\n", self.at)
        return self.take(end + 1 - self.at)[:-1].decode()

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    # -- the stack -----------------------------------------------------------------------------

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _pop(self) -> Any:
        if not self._stack:
            raise ValueError("its pickle takes a value where there is none")
        return self._stack.pop()

    def _top(self) -> Any:
        if not self._stack:
            raise ValueError("its pickle needs a value where there is none")
        return self._stack[-1]

    def _mark(self) -> None:
        self._below.append(self._stack)
        self._stack = []

    def _since_mark(self) -> list[Any]:
        if not self._below:
            raise ValueError("its pickle lacks a mark")
        items, self._stack = self._stack, self._below.pop()
        return items

    def _tuple(self, count: int) -> None:
        items = tuple(reversed([self._pop() for _ in range(count)]))
        self._push(items)

    # -- the memo ------------------------------------------------------------------------------

    def _put(self, index: int) -> None:
        self._memo[index] = self._top()

    def _get(self, index: int) -> None:
        if index not in self._memo:
            raise ValueError("its pickle refers to a value that does not exist")
        self._push(self._memo[index])

    # -- strings and numbers -------------------------------------------------------------------

    def _text(self, form: str) -> None:
        self._push(str(self.take(self._number(form)), "utf-8", "surrogatepass"))

    def _bytes(self, form: str) -> None:
        self._push(self.take(self._number(form)))

    def _old_string(self, form: str) -> None:
        data = self.take(self._number(form))
        self._push(data if self._encoding == "bytes" else data.decode(self._encoding))

    def _long(self, form: str) -> None:
        self._push(int.from_bytes(self.take(self._number(form)), "little", signed=True))

    def _check_protocol(self) -> None:
        protocol = self.take(1)[0]
        if not 2 <= protocol <= 5:
            raise ValueError(f"its pickle is of protocol {protocol}")

    # -- containers ----------------------------------------------------------------------------

    def _append(self, items: list[Any]) -> None:
        target = self._top()
        if type(target) is not list:
            raise ValueError("its pickle appends to what is not a list")
        target.extend(items)

    def _set_items(self, items: list[Any]) -> None:
        target = self._top()
        if type(target) not in (dict, OrderedDict, Counter) or len(items) % 2:
            raise ValueError("its pickle sets items of what is not a dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[checked_key(key)] = value

    def _set_item(self) -> None:
        value, key = self._pop(), self._pop()
        self._set_items([key, value])

    def _add_items(self) -> None:
        items = self._since_mark()
        target = self._top()
        if type(target) is not set:
            raise ValueError("its pickle adds to what is not a set")
        target.update(map(checked_key, items))

    # -- names and calls -----------------------------------------------------------------------

    def _global(self) -> None:
        module = self._line()
        self._push(self._find(module, self._line()))

    def _stack_global(self) -> None:
        name, module = self._pop(), self._pop()
        if type(name) is not str or type(module) is not str:
            raise ValueError("its pickle looks up a name that is not a string")
        self._push(self._find(module, name))

    def _call(self) -> None:
        arguments, function = self._pop(), self._pop()
        if not isinstance(function, Allowed) or type(arguments) is not tuple:
            raise ValueError("its pickle calls what is not a function")
        if function.copies:
            self._copied += sum(len(x) for x in arguments if hasattr(x, "__len__"))
            if self._copied > self.at:  # whatever is copied once takes a byte in the file at least
                raise ValueError("its pickle copies the same values again and again")
        made = function.make(*arguments)
        if isinstance(function, Trusted):
            self._trusted.add(type(made))
        self._push(made)

    def _new_object(self) -> None:
        """An object of a class that the user trusts."""
        arguments, kind = self._pop(), self._pop()
        is_class = isinstance(kind, Trusted) and isinstance(kind.make, type)
        if not is_class or type(arguments) is not tuple:
            raise ValueError("its pickle creates an object of something that is not a class")
        made: Any = kind.make
        made = made.__new__(made, *arguments)
        self._trusted.add(type(made))
        self._push(made)

    def _build(self) -> None:
        """Attributes of an object. The state of a module has them, and objects of classes that the
        user trusts; nothing else may."""
        state, target = self._pop(), self._top()
        if type(target) in self._trusted:
            if hasattr(target, "__setstate__"):
                target.__setstate__(state)
                return
            own, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
            for name, value in (*(own or {}).items(), *(slots or {}).items()):
                setattr(target, name, value)
            return
        if type(target) is not OrderedDict or type(state) is not dict:
            raise ValueError(f"its pickle gives attributes to a {type(target).__name__}")
        for name, value in state.items():
            if type(name) is not str or hasattr(OrderedDict, name):
                raise ValueError(f"an OrderedDict cannot have the attribute {str(name)[:40]!r}")
            vars(target)[name] = value

    def _persistent_id(self) -> None:
        self._push(self._persistent(self._pop()))


_STOP = ord(".")
_STEPS: dict[int, Callable[[Unpickler], object]] = {
    0x80: Unpickler._check_protocol,
    0x95: lambda u: u.take(8),
    ord("("): Unpickler._mark,
    ord("0"): lambda u: u._pop(),
    ord("1"): lambda u: u._since_mark(),
    ord("2"): lambda u: u._push(u._top()),
    ord("N"): lambda u: u._push(None),
    0x88: lambda u: u._push(True),
    0x89: lambda u: u._push(False),
    ord("J"): lambda u: u._push(u._number("<i")),
    ord("K"): lambda u: u._push(u._number("<B")),
    ord("M"): lambda u: u._push(u._number("<H")),
    ord("G"): lambda u: u._push(u._number(">d")),
    0x8A: lambda u: u._long("<B"),
    0x8B: lambda u: u._long("<I"),
    ord("X"): lambda u: u._text("<I"),
    0x8C: lambda u: u._text("<B"),
    0x8D: lambda u: u._text("<Q"),
    ord("B"): lambda u: u._bytes("<I"),
    ord("C"): lambda u: u._bytes("<B"),
    0x8E: lambda u: u._bytes("<Q"),
    ord("U"): lambda u: u._old_string("<B"),
    ord("T"): lambda u: u._old_string("<I"),
    ord(")"): lambda u: u._push(()),
    ord("]"): lambda u: u._push([]),
    ord("}"): lambda u: u._push({}),
    0x8F: lambda u: u._push(set()),
    ord("t"): lambda u: u._push(tuple(u._since_mark())),
    0x85: lambda u: u._tuple(1),
    0x86: lambda u: u._tuple(2),
    0x87: lambda u: u._tuple(3),
    ord("a"): lambda u: u._append([u._pop()]),
    ord("e"): lambda u: u._append(u._since_mark()),
    ord("s"): Unpickler._set_item,
    ord("u"): lambda u: u._set_items(u._since_mark()),
    0x90: Unpickler._add_items,
    0x91: lambda u: u._push(frozenset(map(checked_key, u._since_mark()))),
    ord("q"): lambda u: u._put(u._number("<B")),
    ord("r"): lambda u: u._put(u._number("<I")),
    0x94: lambda u: u._put(len(u._memo)),
    ord("h"): lambda u: u._get(u._number("<B")),
    ord("j"): lambda u: u._get(u._number("<I")),
    ord("c"): Unpickler._global,
    0x93: Unpickler._stack_global,
    ord("R"): Unpickler._call,
    0x81: Unpickler._new_object,
    ord("b"): Unpickler._build,
    ord("Q"): Unpickler._persistent_id,
}
