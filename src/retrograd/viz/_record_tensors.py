"""The tensors that a recording has seen: which is which, what it is called, what cut it off."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from types import FrameType
from typing import Any

from retrograd._source import Place, user_frame
from retrograd.arrays import Raw
from retrograd.nn.module import Module
from retrograd.ops._lifted import Lifted
from retrograd.tensor._tensor import Tensor
from retrograd.viz._made import Described
from retrograd.viz._values import MAX_ELEMENTS, Value, dtype_name

MOST_ENTRIES = 1000  # of a list that tensors are looked for in
MOST_NUMBERS = 10_000  # how many numbers that came of item() are remembered


class Seen:
    """What is known of one tensor while it lives."""

    __slots__ = ("cut", "identity", "name", "reference", "value", "version")

    def __init__(self, tensor: Tensor, identity: int, reference: weakref.ref[Any]) -> None:
        self.reference = reference
        self.identity = identity
        self.version = version_of(tensor)
        self.name: str | None = None
        self.cut: tuple[str, Place] | None = None  # how, and where
        self.value: Value | None = None


def version_of(tensor: Tensor) -> int:
    """How often a tensor was written, without having its writes counted from now on."""
    counter = tensor._version_counter
    return 0 if counter is None else counter.count


class Tensors:
    """The tensors of one recording. They are known weakly: looking keeps nothing alive."""

    def __init__(self, max_elements: int = MAX_ELEMENTS) -> None:
        self.max_elements = max_elements
        self._seen: dict[int, Seen] = {}  # by id, as long as the tensor lives
        # What item() gave, by id: the number itself, where, and a number for it.
        self._numbers: dict[int, tuple[Any, Place, int]] = {}
        self._count = 0
        self._unnamed: list[tuple[Seen, Described]] = []

    def of(self, tensor: Tensor) -> Seen:
        """What is known of a tensor; a new number if it was written since it was last seen."""
        key = id(tensor)
        seen = self._seen.get(key)
        if seen is None or seen.reference() is not tensor:
            forget = self._seen
            reference = weakref.ref(tensor, lambda gone: _forget(forget, key, gone))
            seen = self._seen[key] = Seen(tensor, self._next(), reference)
        elif seen.version != version_of(tensor):
            seen.version = version_of(tensor)
            seen.identity = self._next()
        return seen

    def _next(self) -> int:
        self._count += 1
        return self._count

    def describe(self, x: Any) -> Described | None:
        """A tensor as it is now; None for what is none."""
        if not isinstance(x, Tensor):
            return self._describe_number(x)
        seen = self.of(x)
        cut, place = seen.cut or (None, None)
        constant = not x.requires_grad
        described = Described(
            shape=tuple(x._data.shape),
            dtype=dtype_name(x._data.dtype),
            value=self._value(seen, x._data),
            identity=seen.identity,
            name=seen.name,
            constant=constant,
            cut=cut if constant else None,
            cut_place=place if constant else None,
        )
        if described.name is None:
            self._unnamed.append((seen, described))
        return described

    def _value(self, seen: Seen, array: Raw | Lifted) -> Value | None:
        """The value of a tensor now. What has not changed is kept once."""
        value = Value.of(array, self.max_elements)
        before = seen.value
        if value is not None and before is not None and value.same_as(before):
            return before
        seen.value = value
        return value

    def _describe_number(self, x: Any) -> Described | None:
        """A number that ``item`` took out of a graph; None for all others."""
        known = self._numbers.get(id(x))
        if known is None or known[0] is not x:
            return None
        value = Value.of(x, self.max_elements)
        kind = "complex128" if isinstance(x, complex) else "float64"
        return Described((), kind, value, known[2], None, True, "item", known[1])

    # -- being cut off -----------------------------------------------------------------------

    def is_cut(self, x: Any) -> tuple[str, Place] | None:
        """How and where a constant was cut off from a history, if it was."""
        if not isinstance(x, Tensor) or x.requires_grad:
            return None
        seen = self._seen.get(id(x))
        return seen.cut if seen is not None and seen.reference() is x else None

    def cut(self, tensor: Tensor, how: str, place: Place) -> None:
        """Note that a tensor was cut off, unless it is known to have been before."""
        seen = self.of(tensor)
        seen.cut = seen.cut or (how, place)

    def number(self, value: Any, place: Place) -> None:
        """Note that a Python number was taken out of a graph. It is told by being the same object,
        which only floats that were just made can be."""
        if isinstance(value, (float, complex)) and len(self._numbers) < MOST_NUMBERS:
            self._numbers[id(value)] = (value, place, self._next())

    # -- names -------------------------------------------------------------------------------

    def name(self, tensor: Tensor, name: str) -> None:
        """Know a tensor by a name, if it has none yet."""
        seen = self.of(tensor)
        seen.name = seen.name or name

    def name_by_frames(self, frame: FrameType | None) -> None:
        """Take names from the variables of the user's code that is running, the innermost first,
        and give them to what was described without."""
        frame = user_frame(frame)
        looked: set[int] = set()
        while frame is not None:
            for space in (frame.f_locals, frame.f_globals):
                if id(space) not in looked:
                    looked.add(id(space))
                    self._name_by(list(space.items()))
            frame = user_frame(frame.f_back)
        for seen, described in self._unnamed:
            described.name = described.name or seen.name
        self._unnamed.clear()

    def _name_by(self, variables: list[tuple[str, Any]]) -> None:
        shown = [(name, value) for name, value in variables if not name.startswith("_")]
        modules = [(name, value) for name, value in shown if isinstance(value, Module)]
        for name, module in modules:
            self.name_by_module(module, name if len(modules) > 1 else "")
        for name, value in shown:
            if isinstance(value, Tensor):
                self.name(value, name)
            elif isinstance(value, (list, tuple)) and len(value) <= MOST_ENTRIES:
                for i, entry in enumerate(value):
                    if isinstance(entry, Tensor):
                        self.name(entry, f"{name}[{i}]")

    def named(self) -> Iterable[tuple[str, Tensor]]:
        """The tensors that have a name and still live."""
        for seen in list(self._seen.values()):
            tensor = seen.reference()
            if tensor is not None and seen.name is not None:
                yield seen.name, tensor

    def name_by_module(self, module: Module, prefix: str) -> None:
        """Call parameters and buffers as the module does."""
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            self.name(tensor, f"{prefix}.{name}" if prefix else name)


def _forget(seen: dict[int, Seen], key: int, gone: Any) -> None:
    if key in seen and seen[key].reference is gone:
        del seen[key]
