"""Copies of views: permute_copy, view_copy and so on, whose results have memory of their own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from retrograd.ops import linear
from retrograd.ops._dims import one_dim
from retrograd.ops._operands import detached
from retrograd.ops._public import declare
from retrograd.ops.shapes import diagonals, joining, reshaping, slicing, viewing


def alias(input: Any) -> Any:
    """The tensor itself.

    Args:
        input: The input tensor.
    """
    return input


def detach(input: Any) -> Any:
    """The tensor without its history.

    Args:
        input: The input tensor.
    """
    return detached(input)


def slice_(
    input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """Every ``step``-th slice of a range along a dimension.

    Args:
        input: The input tensor.
        dim: The dimension.
        start: The index of the first slice.
        end: The index that the slices end before.
        step: The distance between two slices.
    """
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    plain = one_dim(dim, len(input.shape))
    return linear.slice_(input, where=(*(slice(None),) * plain, slice(start, end, step)))


def expand(input: Any, size: Sequence[int], *, implicit: bool = False) -> Any:
    """A view with repeats.

    Args:
        input: The input tensor.
        size: The shape; -1 for the size that there is.
        implicit: Accepted for compatibility; it has no effect.
    """
    return reshaping.expand(input, size)


def permute(input: Any, dims: Sequence[int]) -> Any:
    """The dimensions in another order.

    Args:
        input: The input tensor.
        dims: The dimensions in their new order.
    """
    return reshaping.permute(input, dims)


def view(input: Any, size: Sequence[int] | None = None, dtype: Any = None) -> Any:
    """Another shape, or another dtype for the same memory.

    Args:
        input: The input tensor.
        size: The shape.
        dtype: The dtype.
    """
    # The copy need not be a view: any shape with as many elements will do.
    return reshaping.reshape(input, size) if dtype is None else reshaping.view(input, dtype)


def _copying(name: str, view: Callable[..., Any], example: str, shape: str) -> None:
    """Declare the function that copies what a view shows."""

    @functools.wraps(view)
    def copied(input: Any, *args: Any, **named: Any) -> Any:
        result = view(input, *args, **named)
        if isinstance(result, tuple):
            return tuple(x.clone(memory_format="contiguous") for x in result)
        return result.clone(memory_format="contiguous")

    arguments = inspect.cleandoc(view.__doc__ or "").partition("Args:\n")[2].partition("\n\n")[0]
    copied.__name__ = copied.__qualname__ = f"{name}_copy"
    copied.__module__ = __name__
    copied.__doc__ = f"""What ``{name}`` shows of a tensor, as a copy.

Args:
{arguments}

Returns:
    A contiguous tensor with memory of its own, or a tuple of them.

Example:
    >>> torch.{name}_copy({example}.shape
    torch.Size([{shape}])
"""
    declare(copied, f"{name}_copy", "torch")


_VIEWS: dict[str, tuple[Callable[..., Any], str, str]] = {
    "alias": (alias, "torch.ones(2))", "2"),
    "as_strided": (viewing.as_strided, "torch.ones(4), (3, 2), (1, 1))", "3, 2"),
    "detach": (detach, "torch.ones(2))", "2"),
    "diagonal": (diagonals.diagonal, "torch.ones(2, 3))", "2"),
    "expand": (expand, "torch.ones(3), (2, 3))", "2, 3"),
    "permute": (permute, "torch.ones(2, 3), (1, 0))", "3, 2"),
    "select": (slicing.select, "torch.ones(2, 3), 0, 1)", "3"),
    "slice": (slice_, "torch.ones(2, 3), 1, 0, 2)", "2, 2"),
    "split": (slicing.split_function, "torch.ones(4), 2)[0]", "2"),
    "split_with_sizes": (joining.split_with_sizes, "torch.ones(4), (1, 3))[1]", "3"),
    "squeeze": (reshaping.squeeze, "torch.ones(1, 3))", "3"),
    "t": (reshaping.t, "torch.ones(2, 3))", "3, 2"),
    "transpose": (reshaping.transpose, "torch.ones(2, 3), 0, 1)", "3, 2"),
    "unbind": (slicing.unbind, "torch.ones(2, 3))[0]", "3"),
    "unfold": (viewing.unfold, "torch.ones(4), 0, 2, 1)", "3, 2"),
    "unsqueeze": (reshaping.unsqueeze, "torch.ones(3), 0)", "1, 3"),
    "view": (view, "torch.ones(4), (2, 2))", "2, 2"),
    "view_as_complex": (reshaping.view_as_complex, "torch.ones(3, 2))", "3"),
    "view_as_real": (reshaping.view_as_real, "torch.ones(3) + 0j)", "3, 2"),
}
for _name, _declared in _VIEWS.items():
    _copying(_name, *_declared)
