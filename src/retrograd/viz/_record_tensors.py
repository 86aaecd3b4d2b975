"""The tensors that a recording has seen: their identity, their names, and what detached them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from types import FrameType
from typing import Any

from retrograd._source import Place, user_frame
from retrograd.arrays import Raw
from retrograd.autograd._duals import Dual
from retrograd.nn.module import Module
from retrograd.ops._lifted import Lifted
from retrograd.ops._operation import raw
from retrograd.tensor._tensor import Tensor
from retrograd.viz._naming import Variables, modules_in, tensors_in
from retrograd.viz._node_info import Described
from retrograd.viz._values import MAX_ELEMENTS, Value, dtype_name

MOST_NUMBERS = 10_000  # how many numbers from item() are remembered


class Reference(weakref.ref[Tensor]):
    """A weak reference that knows the key it is stored under."""

    __slots__ = ("key",)

    key: int


class Seen:
    """What is known about one tensor while it is alive."""

    __slots__ = ("cut", "described", "identity", "name", "reference", "value", "version")

    def __init__(self, tensor: Tensor, identity: int, reference: Reference) -> None:
        self.reference = reference
        self.identity = identity
        self.version = version_of(tensor)
        self.name: str | None = None
        self.cut: tuple[str, Place] | None = None  # how, and where
        self.value: Value | None = None
        self.described: Described | None = None  # as it was last


class Number:
    """A Python number that ``item`` took out of a graph, recognized by object identity."""

    __slots__ = ("identity", "name", "place", "value")

    def __init__(self, value: Any, place: Place, identity: int) -> None:
        self.value, self.place, self.identity = value, place, identity
        self.name: str | None = None


def version_of(tensor: Tensor) -> int:
    """How often a tensor was written to, without creating a version counter."""
    counter = tensor._version_counter
    return 0 if counter is None else counter.count


class Tensors:
    """The tensors of one recording. They are referenced weakly: recording keeps nothing alive."""

    def __init__(self, max_elements: int = MAX_ELEMENTS) -> None:
        self.max_elements = max_elements
        self._seen = seen = dict[int, Seen]()  # by id, as long as the tensor lives

        def forget(reference: Any) -> None:
            if reference.key in seen and seen[reference.key].reference is reference:
                del seen[reference.key]

        self._forget = forget
        self._numbers: dict[int, Number] = {}  # what item() gave, by id
        self.models: dict[int, tuple[weakref.ref[Module], str]] = {}  # held by variables
        self._count = 0
        self._unnamed: list[tuple[Seen | Number, Described]] = []

    def of(self, tensor: Tensor) -> Seen:
        """What is known about a tensor; with a new number if it was written to since it was last
        seen."""
        key = id(tensor)
        seen = self._seen.get(key)
        if seen is None or seen.reference() is not tensor:
            reference = Reference(tensor, self._forget)
            reference.key = key
            seen = self._seen[key] = Seen(tensor, self._next(), reference)
        elif seen.version != version_of(tensor):
            seen.version = version_of(tensor)
            seen.identity = self._next()
        return seen

    def _next(self) -> int:
        self._count += 1
        return self._count

    def describe(self, x: Any) -> Described | None:
        """A description of a tensor as it is now; None for anything else."""
        if not isinstance(x, Tensor):
            return self._describe_number(x)
        seen = self.of(x)
        constant = not x.requires_grad
        cut, place = (seen.cut if constant else None) or (None, None)
        data, tangent = x._data, None
        if isinstance(data, Dual):
            tangent = Value.of(data.tangent, self.max_elements)
            data = raw(data.primal)
        value, last = self._value(seen, data), seen.described
        if last is not None and (last.value, last.identity, last.constant, last.cut) == (
            value, seen.identity, constant, cut
        ) and tangent is last.tangent:  # fmt: skip
            return last
        described = seen.described = Described(
            shape=tuple(x._data.shape),
            dtype=dtype_name(x._data.dtype),
            value=value,
            identity=seen.identity,
            name=seen.name,
            constant=constant,
            cut=cut,
            cut_place=place,
            tangent=tangent,
        )
        if described.name is None:
            self._unnamed.append((seen, described))
        return described

    def value_of(self, tensor: Tensor) -> Value | None:
        """The value of a tensor now."""
        return self._value(self.of(tensor), tensor._data)

    def _value(self, seen: Seen, array: Raw | Lifted) -> Value | None:
        """The value of a tensor now. Unchanged values are stored once."""
        before = seen.value
        if before is not None and not isinstance(array, Lifted) and before.holds(array):
            return before
        value = Value.of(array, self.max_elements)
        if value is not None and before is not None and value.same_as(before):
            return before
        seen.value = value
        return value

    def _describe_number(self, x: Any) -> Described | None:
        """A number that ``item`` took out of a graph; None for all others."""
        known = self._numbers.get(id(x))
        if known is None or known.value is not x:
            return None
        described = Described(
            shape=(),
            dtype="complex128" if isinstance(x, complex) else "float64",
            value=Value.of(x, self.max_elements),
            identity=known.identity,
            name=known.name,
            constant=True,
            cut="item",
            cut_place=known.place,
        )
        self._unnamed.append((known, described))
        return described

    # -- being cut off -----------------------------------------------------------------------

    def is_cut(self, x: Any) -> tuple[str, Place] | None:
        """How and where a constant was detached from its history, if it was."""
        if not isinstance(x, Tensor) or x.requires_grad:
            return None
        seen = self._seen.get(id(x))
        return seen.cut if seen is not None and seen.reference() is x else None

    def cut(self, tensor: Tensor, how: str, place: Place) -> None:
        """Record that a tensor was detached, unless that is known already."""
        seen = self.of(tensor)
        seen.cut = seen.cut or (how, place)

    def number(self, value: Any, place: Place) -> None:
        """Record that a Python number was taken out of a graph. It is recognized by object
        identity, which works only for newly created floats."""
        if isinstance(value, (float, complex)) and len(self._numbers) < MOST_NUMBERS:
            self._numbers[id(value)] = Number(value, place, self._next())

    # -- names -------------------------------------------------------------------------------

    def name(self, tensor: Tensor, name: str) -> None:
        """Know a tensor by a name, if it has none yet."""
        seen = self.of(tensor)
        seen.name = seen.name or name

    def name_of(self, tensor: Tensor) -> str | None:
        """The name of a tensor, if it has one."""
        return self.of(tensor).name

    def name_by_frames(self, frame: FrameType | None) -> None:
        """Take names from the variables of the running user code, the innermost frame first, and
        give them to tensors that were described without a name."""
        frame = user_frame(frame)
        looked: set[int] = set()
        while frame is not None:
            for space in (frame.f_locals, frame.f_globals):
                if id(space) not in looked:
                    looked.add(id(space))
                    self.name_by(list(space.items()))
            frame = user_frame(frame.f_back)
        self.name_described()

    def name_described(self) -> None:
        """Give names that have become known to what was described without."""
        for seen, described in self._unnamed:
            described.name = described.name or seen.name
        self._unnamed.clear()

    def name_by(self, variables: Variables) -> None:
        """Know tensors by the names of variables."""
        shown = [(name, value) for name, value in variables if not name.startswith("_")]
        for prefix, module in modules_in(shown):
            self.name_by_module(module, prefix)
            self.models.setdefault(id(module), (weakref.ref(module), prefix))
        for name, tensor in tensors_in(shown):
            self.name(tensor, name)
        for name, value in shown:
            known = self._numbers.get(id(value))
            if known is not None and known.value is value:
                known.name = known.name or name

    def named(self) -> Iterable[tuple[str, Tensor]]:
        """The tensors that have a name and still live."""
        for seen in list(self._seen.values()):
            tensor = seen.reference()
            if tensor is not None and seen.name is not None:
                yield seen.name, tensor

    def name_by_module(self, module: Module, prefix: str) -> None:
        """Name parameters and buffers as the module does, with a prefix."""
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            self.name(tensor, prefix + name)
