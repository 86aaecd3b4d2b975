"""Values that stand for arrays while a transform is at work: dual numbers, batches of values.

Each transform that is open has a *level*. A value lifted to a level is made of parts that belong
to the levels below: Tensors, which may be lifted themselves. An operation is run by the highest
level among its arguments, for which everything lower is a constant; that level does what it has to
do with operations on the parts, and these are then a matter of the levels below. So transforms
nest in any order without knowing of each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, ClassVar, NoReturn

from retrograd._modes import modes, set_modes


class LooksAtValues(TypeError, AttributeError):  # noqa: N818 - it says what code does
    """Code that looks at values was given one that is not there to be looked at."""


class Lifted:
    """A value of a level: it can be computed with, by operators and operations, but it is no
    array, and what is done to arrays directly is refused."""

    __slots__ = ("level",)

    level: Level
    operations: ClassVar[dict[str, Any]] = {}  # by NumPy's names; supplied by ``operators``

    @property
    def inner(self) -> Any:
        """A part that has its dtype and, but for the batch, its shape."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.inner.shape)

    @property
    def dtype(self) -> Any:
        """As arrays have it."""
        inner = self.inner
        return getattr(inner, "_data", inner).dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        count = 1
        for s in self.shape:
            count *= s
        return count

    @property
    def itemsize(self) -> int:
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """As if it lay in memory in reading order."""
        steps, step = [], self.itemsize
        for s in reversed(self.shape):
            steps.append(step)
            step *= max(s, 1)
        return tuple(reversed(steps))

    def __len__(self) -> int:
        return self.shape[0]

    def reshape(self, *shape: Any) -> Any:
        """As arrays have it, since that is all that some code wants of one."""
        return Lifted.operations["reshape"](self, shape)

    __hash__ = object.__hash__

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        operation = Lifted.operations.get(ufunc.__name__)
        if operation is None or method != "__call__" or named or self.level.closed:
            self.refuse(ufunc.__name__)
        return operation(*inputs)

    def __array_function__(self, function: Any, *given: Any) -> Any:
        self.refuse(function.__name__)

    def __array__(self, *given: Any, **named: Any) -> Any:
        self.refuse("the array")

    def __getattr__(self, name: str) -> Any:
        self.refuse(name)

    def __getitem__(self, index: Any) -> Any:
        self.refuse("an element")

    def __bool__(self) -> bool:
        self.refuse("the truth")

    def item(self) -> Any:
        """The one element as a number, where it can be known."""
        self.refuse("the number")

    def truth(self) -> bool:
        """Whether the one element is true, where it can be known."""
        return bool(self.item())

    def tolist(self) -> Any:
        """The elements, where they can be known."""
        self.refuse("the elements")

    def detached(self) -> Lifted:
        """The same value without history and without derivatives."""
        raise NotImplementedError

    def text(self, suffixes: str) -> str:
        """How a Tensor of it prints."""
        raise NotImplementedError

    def refuse(self, what: str) -> NoReturn:
        raise LooksAtValues(f"{what} of a value under {self.level.name}")


class Level:
    """One transform that is open."""

    __slots__ = ("closed", "number")

    name: ClassVar[str] = "a transform"
    # Whether what is recorded on values of this level leads on to what its constants came from.
    transparent: ClassVar[bool] = False
    _numbers = itertools.count(1)  # what is opened later, and so inside, has a higher number

    def __init__(self) -> None:
        self.number = next(Level._numbers)
        self.closed = False

    def run(self, operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """An operation on arguments of which some are lifted to this level.

        While it does that, only the transforms outside are open.
        """
        outside = tuple(level for level in modes.levels if level.number < self.number)
        before = set_modes(levels=outside, interceptor=None)
        try:
            return self.run_on_parts(operation, args, options)
        finally:
            set_modes(**before)

    def run_on_parts(self, operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """As ``run``, by operations on the parts of what is lifted."""
        raise NotImplementedError

    def below(self, x: Any) -> tuple[Any, bool]:
        """A value as the levels below know it, and whether it depends on what the transform is
        about."""
        raise NotImplementedError

    def take_in(self, tensor: Any) -> None:
        """Make a tensor from outside, which is about to be written, one of this level."""
        raise NotImplementedError

    def check_write(self, target: Any, result: Any) -> None:
        """RuntimeError if a result cannot be written over a value."""

    def write(self, target: Any, result: Any) -> None:
        """Write a result over a value, in the memory of its parts."""
        raise NotImplementedError

    def left_of(self, x: Any) -> Any:
        """What a value is worth once the transform has ended."""
        raise RuntimeError(
            f"a value was used outside of the function under {self.name} that computed it. Return "
            "it from that function instead."
        )

    def constant(self, x: Any) -> Lifted:
        """A value of the levels below as one of this level, that does not depend on what the
        transform is about."""
        raise NotImplementedError


def highest_level(values: Iterable[Any]) -> Level | None:
    """The innermost transform among those that some values, or lists of them, belong to."""
    highest: Level | None = None
    for x in values:
        if isinstance(x, Lifted):
            level: Level | None = x.level
        elif type(x) in (list, tuple):
            level = highest_level(x)
        else:
            continue
        if level is not None and (highest is None or level.number > highest.number):
            highest = level
    return highest
