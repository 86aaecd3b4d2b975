"""Distinct values: unique, unique_consecutive."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.ops._batching_declarations import Refused
from retrograd.ops._dims import one_dim
from retrograd.ops._operation import Operation, raw, undifferentiable
from retrograd.ops._public import public


def _without_derivative(name: str, forward: Any, node: str, words: str) -> Operation:
    """Results that PyTorch gives a history but no derivative: an element of them stands for
    several of the input."""

    error = NotImplementedError(f"the derivative for '{words}' is not implemented.")
    return undifferentiable(
        name, forward, error, node=node, outputs=("values", "inverse", "counts"),
        batch=Refused(words),
    )  # fmt: skip


unique_values = _without_derivative("unique", arrays.sorting.unique, "Unique2Backward0", "_unique2")
unique_slices = _without_derivative(
    "unique_dim", arrays.sorting.unique_slices, "UniqueDimBackward0", "unique_dim"
)
unique_runs = _without_derivative(
    "unique_consecutive", arrays.sorting.unique_runs, "UniqueConsecutiveBackward0",
    "unique_consecutive",
)  # fmt: skip


def _requested(results: Any, return_inverse: bool, return_counts: bool) -> Any:
    values, inverse, counts = results
    extra = ((inverse,) if return_inverse else ()) + ((counts,) if return_counts else ())
    return (values, *extra) if extra else values


def _refuse_complex_values(input: Any) -> None:
    if raw(input).dtype.kind == "c":
        word = dtypes.type_word(raw(input).dtype)
        raise NotImplementedError(f"\"unique\" not implemented for '{word}'")


@public("torch method")
def unique(
    input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """Finds the distinct elements, or the distinct slices along a dimension.

    Args:
        sorted: Accepted for compatibility. The result is always sorted.
        return_inverse: Whether to return, for each element, the index of its value in the result.
        return_counts: Whether to return how often each value occurs.
        dim: The dimension whose slices are compared. By default, the input is flattened.

    Returns:
        The distinct elements in ascending order, or a tuple of these, the inverse indices and the
        counts, as far as they are requested.

    Example:
        >>> torch.unique(torch.tensor([3, 1, 3]), return_counts=True)
        (tensor([1, 3]), tensor([1, 2]))
    """
    if dim is None:
        _refuse_complex_values(input)
        result = unique_values(input, with_inverse=return_inverse, with_counts=return_counts)
        return _requested(result, return_inverse, return_counts)
    plain = _slices_dim(input, dim)
    return _requested(unique_slices(input, dim=plain), return_inverse, return_counts)


def _slices_dim(input: Any, dim: int) -> int:
    if not len(input.shape):
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    plain = one_dim(dim, len(input.shape))
    shape = tuple(input.shape)
    if 0 in shape[:plain] + shape[plain + 1 :]:
        raise RuntimeError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        )
    _refuse_complex_values(input)
    return plain


@public("torch method")
def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Removes all but the first element of every run of equal elements.

    Args:
        return_inverse: Whether to return, for each element, the index of its run in the result.
        return_counts: Whether to return the length of each run.
        dim: The dimension whose slices are compared. By default, the input is flattened.

    Returns:
        The remaining elements, or a tuple of these, the inverse indices and the counts, as far as
        they are requested.

    Example:
        >>> torch.unique_consecutive(torch.tensor([1, 1, 2, 1]))
        tensor([1, 2, 1])
    """
    _refuse_complex_values(input)
    plain = None if dim is None else _slices_dim(input, dim)
    return _requested(unique_runs(input, dim=plain), return_inverse, return_counts)
