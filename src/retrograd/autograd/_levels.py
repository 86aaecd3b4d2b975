"""Opening and closing the levels of transforms."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from retrograd._modes import Within, modes
from retrograd.autograd._wrap import wrap
from retrograd.ops._lifted import Level, Lifted, LooksAtValues
from retrograd.ops._operation import TensorLike

L = TypeVar("L", bound=Level)


class opened(Within, Generic[L]):  # noqa: N801 - a context
    """A context in which a level is open: operations look for its values among their arguments."""

    def __init__(self, level: L) -> None:
        self.level = level

    def __enter__(self) -> L:
        self.level.opened_by = self._enter({"levels": (*modes.levels, self.level)})
        return self.level

    def _finish(self, kind: Any, error: Any, traceback: Any) -> None:
        if isinstance(error, LooksAtValues):
            raise refusal(error) from error


def refusal(error: LooksAtValues) -> RuntimeError:
    """The error for code that reads a value which is not available."""
    where = f", in {error.operation}()" if error.operation else ""
    if error.transform != "vmap":
        return RuntimeError(
            f"{error.transform}: something is done to a Tensor that takes no derivative along: "
            f"{error}{where}. Use operations on Tensors, or detach() it first if no derivative "
            "is wanted."
        )
    return RuntimeError(
        "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over "
        "calling .item() on a Tensor, or looking at its values in another way: here, at "
        f"{error}{where}. Each of the entries may have other values. Please try to rewrite "
        "what you're doing with other operations (torch.where() to choose, masks to leave "
        "out), or do it outside of the function."
    )


def is_of(level: Level, x: Any) -> bool:
    """Whether a Tensor, or a bare value, is lifted to ``level``."""
    data = value_of(x) if isinstance(x, TensorLike) else x
    return isinstance(data, Lifted) and data.level is level


def raised(tensor: Any) -> Any:
    """A Tensor of the innermost transform that is open, as a constant of it if it is from outside:
    what is recorded on it lies above all transforms, as does what is recorded inside them."""
    for level in reversed(modes.levels):
        if is_of(level, tensor):
            break
        if not level.transparent:
            return wrap(level.constant(tensor))
    return tensor


def as_tensor(x: Any) -> Any:
    """A part of a lifted value as a Tensor."""
    return x if isinstance(x, TensorLike) else wrap(x)


def value_of(tensor: Any) -> Any:
    """The value of a tensor. If the base of a view was given a tangent by a write, the view is
    updated here, so code that needs tangents must call this and not read ``_data``."""
    meta = tensor._meta
    if meta is not None and meta.view is not None:
        keep_up(tensor)
    return tensor._data


def keep_up(view: Any) -> None:
    """Make a view that was taken before its base was written with a value of a transform one of
    that transform, too."""
    base = view._meta.view.base._data
    if not isinstance(base, Lifted) or base.level.closed:
        return
    own = view._data
    if not isinstance(own, Lifted) or own.level.number < base.level.number:
        base.level.adopt(view)
