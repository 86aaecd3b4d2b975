"""Opening and closing the levels of transforms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from retrograd._modes import modes, set_modes
from retrograd.autograd._wrap import wrap
from retrograd.ops import operators as operators  # what makes lifted values take part in arithmetic
from retrograd.ops._lifted import Level, Lifted
from retrograd.ops._operation import TensorLike, raw

L = TypeVar("L", bound=Level)


@contextmanager
def opened(level: L) -> Iterator[L]:
    """Within it, operations look for values of transforms among their arguments."""
    before = set_modes(levels=(*modes.levels, level))
    try:
        yield level
    finally:
        level.closed = True
        set_modes(**before)


def is_of(level: Level, x: Any) -> bool:
    """Whether a Tensor, or a bare value, is lifted to ``level``."""
    data = raw(x)
    return isinstance(data, Lifted) and data.level is level


def raised(tensor: Any) -> Any:
    """A Tensor of the innermost transform that is open, as a constant of it if it is from outside:
    what is recorded on it lies above all transforms, as does what is recorded inside them."""
    if not modes.levels or is_of(modes.levels[-1], tensor):
        return tensor
    return wrap(modes.levels[-1].constant(tensor))


def as_tensor(x: Any) -> Any:
    """A part of a lifted value as a Tensor."""
    return x if isinstance(x, TensorLike) else wrap(x)
