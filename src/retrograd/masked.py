"""``torch.masked``: reductions and normalizations of the elements that a mask is true for."""

from __future__ import annotations

import math
from typing import Any

from retrograd.arrays import dtypes
from retrograd.tensor._tensor import Tensor

__all__ = ["amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp",
           "logsumexp", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std",
           "sum", "var"]  # fmt: skip


def _filled(input: Tensor, mask: Tensor | None, value: Any) -> Tensor:
    """The input with a value in the place of what the mask leaves out."""
    filled: Tensor = input if mask is None else input.masked_fill(~mask, value)
    return filled


def _dims(input: Tensor, dim: Any) -> tuple[int, ...]:
    if dim is None or (isinstance(dim, tuple) and not dim):
        return tuple(range(input.dim()))
    return tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)


def _floats(name: str, input: Tensor, dtype: Any) -> Tensor:
    """The input in the dtype to compute in, which must be known."""
    if dtype is not None:
        return input.to(dtype)
    if not (input.is_floating_point() or input.is_complex()):
        raise ValueError(
            f"{name}(): Could not infer output dtype. Input dtype must be either a floating point "
            f"or complex dtype. Got: {input.dtype}"
        )
    return input


def _accumulated(input: Tensor, dtype: Any) -> Tensor:
    """The input in the dtype that sums and products are computed in."""
    if dtype is None:
        kept = input.is_floating_point() or input.is_complex()
        return input if kept else input.to(dtypes.int64)
    return input.to(dtype)


def _least(dtype: Any) -> Any:
    """The number that no element of a dtype is less than."""
    from retrograd.tensor._limits import iinfo

    if dtype.is_floating_point:
        return -math.inf
    return False if dtype is dtypes.bool_ else iinfo(dtype).min


def _largest(dtype: Any) -> Any:
    """The number that no element of a dtype is larger than."""
    from retrograd.tensor._limits import iinfo

    if dtype.is_floating_point:
        return math.inf
    return True if dtype is dtypes.bool_ else iinfo(dtype).max


def _count(input: Tensor, dims: tuple[int, ...], keepdim: bool, mask: Tensor | None) -> Tensor:
    ones = input.new_ones(input.shape, dtype=dtypes.int64)
    counted: Tensor = _filled(ones, mask, 0).sum(dims, keepdim=keepdim)
    return counted


def sum(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Adds up the elements that a mask is true for.

    Args:
        input: The input tensor.
        dim: The dimensions to reduce; by default, all of them.
        keepdim: Whether they remain, with size 1.
        dtype: The dtype to compute in; by default, that of ``input``.
        mask: A tensor of bool, which is broadcast with ``input``; by default, all elements count.

    Returns:
        The sum; 0 where there is no element.

    Example:
        >>> import retrograd as torch
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.sum(x, mask=mask)
        tensor(3.)
    """
    input = _accumulated(input, dtype)
    result: Tensor = _filled(input, mask, 0).sum(_dims(input, dim), keepdim=keepdim)
    return result


def prod(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Multiplies the elements that a mask is true for.

    Args:
        input: The input tensor.
        dim: The dimensions to reduce; by default, all of them.
        keepdim: Whether they remain, with size 1.
        dtype: The dtype to compute in; by default, that of ``input``.
        mask: A tensor of bool, which is broadcast with ``input``; by default, all elements count.

    Returns:
        The product; 1 where there is no element.

    Example:
        >>> import retrograd as torch
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.prod(x, mask=mask)
        tensor(2.)
    """
    result = _filled(_accumulated(input, dtype), mask, 1)
    for d in sorted([d % input.dim() for d in _dims(input, dim)], reverse=True):
        result = result.prod(d, keepdim=keepdim)
    return result


def amax(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Computes the largest of the elements that a mask is true for.

    Args:
        input: The input tensor.
        dim: The dimensions to reduce; by default, all of them.
        keepdim: Whether they remain, with size 1.
        dtype: The dtype to compute in; by default, that of ``input``.
        mask: A tensor of bool, which is broadcast with ``input``; by default, all elements count.

    Returns:
        The largest element.

    Example:
        >>> import retrograd as torch
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.amax(x, mask=mask)
        tensor(2.)
    """
    input = input if dtype is None else input.to(dtype)
    filled = _filled(input, mask, _least(input.dtype))
    result: Tensor = filled.amax(_dims(input, dim), keepdim=keepdim)
    return result


def amin(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Computes the smallest of the elements that a mask is true for.

    Args:
        input: The input tensor.
        dim: The dimensions to reduce; by default, all of them.
        keepdim: Whether they remain, with size 1.
        dtype: The dtype to compute in; by default, that of ``input``.
        mask: A tensor of bool, which is broadcast with ``input``; by default, all elements count.

    Returns:
        The smallest element.

    Example:
        >>> import retrograd as torch
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.amin(x, mask=mask)
        tensor(1.)
    """
    input = input if dtype is None else input.to(dtype)
    filled = _filled(input, mask, _largest(input.dtype))
    result: Tensor = filled.amin(_dims(input, dim), keepdim=keepdim)
    return result


def argmax(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Finds the index of the largest element that a mask is true for.

    Args:
        input: The input tensor.
        dim: The dimensions to reduce; by default, all of them.
        keepdim: Whether they remain, with size 1.
        dtype: The dtype to compute in; by default, that of ``input``.
        mask: A tensor of bool, which is broadcast with ``input``; by default, all elements count.

    Returns:
        The index, in the dtype of ``input``, as in PyTorch.

    Example:
        >>> import retrograd as torch
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.argmax(x, mask=mask)
        tensor(1.)
    """
    input = input if dtype is None else input.to(dtype)
    found = _filled(input, mask, _least(input.dtype)).argmax(dim, keepdim=keepdim)
    result: Tensor = found.to(input.dtype)
    return result


def argmin(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Finds the index of the smallest element that a mask is true for.

    Args:
        input: The input tensor.
        dim: The dimensions to reduce; by default, all of them.
        keepdim: Whether they remain, with size 1.
        dtype: The dtype to compute in; by default, that of ``input``.
        mask: A tensor of bool, which is broadcast with ``input``; by default, all elements count.

    Returns:
        The index, in the dtype of ``input``, as in PyTorch.

    Example:
        >>> import retrograd as torch
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.argmin(x, mask=mask)
        tensor(0.)
    """
    input = input if dtype is None else input.to(dtype)
    found = _filled(input, mask, _largest(input.dtype)).argmin(dim, keepdim=keepdim)
    result: Tensor = found.to(input.dtype)
    return result


def mean(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Computes the mean of the elements that a mask is true for.

    Args:
        input: The input tensor.
        dim: The dimensions to reduce; by default, all of them.
        keepdim: Whether they remain, with size 1.
        dtype: The dtype to compute in; by default, that of ``input``.
        mask: A tensor of bool, which is broadcast with ``input``; by default, all elements count.

    Returns:
        The mean; NaN where there is no element.

    Example:
        >>> import retrograd as torch
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.mean(x, mask=mask)
        tensor(1.5000)
    """
    input = _floats("mean", input, dtype)
    dims = _dims(input, dim)
    result: Tensor = _filled(input, mask, 0).sum(dims, keepdim=keepdim)
    return result / _count(input, dims, keepdim, mask)


def logsumexp(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Computes the logarithm of the sum of exponentials under a mask.

    Args:
        input: The input tensor.
        dim: The dimensions to reduce; by default, all of them.
        keepdim: Whether they remain, with size 1.
        dtype: The dtype to compute in; by default, that of ``input``.
        mask: A tensor of bool, which is broadcast with ``input``; by default, all elements count.

    Returns:
        The logarithm; minus infinity where there is no element.

    Example:
        >>> import retrograd as torch
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.logsumexp(x, mask=mask)
        tensor(2.3133)
    """
    input = _floats("logsumexp", input, dtype)
    result: Tensor = _filled(input, mask, -math.inf).logsumexp(_dims(input, dim), keepdim=keepdim)
    return result


def var(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, *,
    correction: float | None = None, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Computes the variance of the elements that a mask is true for.

    Args:
        input: The input tensor.
        dim: The dimensions to reduce; by default, all of them.
        unbiased: Whether ``correction`` is 1, the default, or 0.
        correction: What is subtracted from the number of elements to divide by.
        keepdim: Whether they remain, with size 1.
        dtype: The dtype to compute in; by default, that of ``input``.
        mask: A tensor of bool, which is broadcast with ``input``; by default, all elements count.

    Returns:
        The variance; NaN where there is no element.

    Example:
        >>> import retrograd as torch
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.var(x, mask=mask)
        tensor(0.5000)
    """
    found: Tensor = _variance("var", input, dim, unbiased, correction, keepdim, dtype, mask)
    return found


def std(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, *,
    correction: float | None = None, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Computes the standard deviation of the elements that a mask is true for.

    Args:
        input: The input tensor.
        dim: The dimensions to reduce; by default, all of them.
        unbiased: Whether ``correction`` is 1, the default, or 0.
        correction: What is subtracted from the number of elements to divide by.
        keepdim: Whether they remain, with size 1.
        dtype: The dtype to compute in; by default, that of ``input``.
        mask: A tensor of bool, which is broadcast with ``input``; by default, all elements count.

    Returns:
        The standard deviation; NaN where there is no element.

    Example:
        >>> import retrograd as torch
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.std(x, mask=mask)
        tensor(0.7071)
    """
    found: Tensor = _variance("std", input, dim, unbiased, correction, keepdim, dtype, mask)
    return found.sqrt()


def _variance(
    name: str, input: Tensor, dim: Any, unbiased: bool | None, correction: float | None,
    keepdim: bool, dtype: Any, mask: Tensor | None,
) -> Tensor:  # fmt: skip
    if unbiased is not None and correction is not None:
        raise ValueError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    input = _floats(name, input, dtype)
    dims = _dims(input, dim)
    mean = _filled(input, mask, 0).sum(dims, keepdim=True) / _count(input, dims, True, mask)
    deviations = _filled(input - mean, mask, 0)
    squares = deviations * deviations.conj() if input.is_complex() else deviations * deviations
    total: Tensor = squares.sum(dims, keepdim=keepdim)
    total = total.real if input.is_complex() else total
    return total / (_count(input, dims, keepdim, mask) - correction).clamp(min=0)


def norm(
    input: Tensor, ord: float | None = 2.0, dim: Any = None, *, keepdim: bool = False,
    dtype: Any = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Computes a norm of the elements that a mask is true for.

    Args:
        input: The input tensor.
        ord: The order of the norm.
        dim: The dimensions to reduce; by default, all of them.
        keepdim: Whether they remain, with size 1.
        dtype: The dtype to compute in; by default, that of ``input``.
        mask: A tensor of bool, which is broadcast with ``input``; by default, all elements count.

    Returns:
        The norm; 0 where there is no element.

    Example:
        >>> import retrograd as torch
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.norm(x, mask=mask)
        tensor(2.2361)
    """
    from retrograd.linalg import vector_norm

    order = 2.0 if ord is None else ord
    input = _floats("norm", input, dtype)
    filled = _filled(input, mask, math.inf if order == -math.inf else 0)
    result: Tensor = vector_norm(filled, order, _dims(input, dim), keepdim=keepdim)
    return result


def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Computes the softmax of the elements that a mask is true for.

    Args:
        input: The input tensor.
        dim: The dimension.
        dtype: The dtype to compute in; by default, that of ``input``.
        mask: A tensor of bool, which is broadcast with ``input``; by default, all elements count.

    Returns:
        The result; NaN along a dimension without any element.

    Example:
        >>> import retrograd as torch
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.softmax(x, 0, mask=mask)
        tensor([0.2689, 0.7311, 0.0000])
    """
    filled = _filled(input if dtype is None else input.to(dtype), mask, -math.inf)
    result: Tensor = (filled).softmax(dim)
    return result


def log_softmax(
    input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Computes the logarithm of softmax of the elements that a mask is true for.

    Args:
        input: The input tensor.
        dim: The dimension.
        dtype: The dtype to compute in; by default, that of ``input``.
        mask: A tensor of bool, which is broadcast with ``input``; by default, all elements count.

    Returns:
        The result; NaN along a dimension without any element.

    Example:
        >>> import retrograd as torch
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.log_softmax(x, 0, mask=mask)
        tensor([-1.3133, -0.3133,    -inf])
    """
    filled = _filled(input if dtype is None else input.to(dtype), mask, -math.inf)
    result: Tensor = (filled).log_softmax(dim)
    return result


def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Computes the softmin of the elements that a mask is true for.

    Args:
        input: The input tensor.
        dim: The dimension.
        dtype: The dtype to compute in; by default, that of ``input``.
        mask: A tensor of bool, which is broadcast with ``input``; by default, all elements count.

    Returns:
        The result; NaN along a dimension without any element.

    Example:
        >>> import retrograd as torch
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.softmin(x, 0, mask=mask)
        tensor([0.7311, 0.2689, 0.0000])
    """
    filled = _filled(input if dtype is None else input.to(dtype), mask, math.inf)
    result: Tensor = (-filled).softmax(dim)
    return result


def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Computes cumulative sums of the elements that a mask is true for.

    Args:
        input: The input tensor.
        dim: The dimension.
        dtype: The dtype to compute in; by default, that of ``input``.
        mask: A tensor of bool, which is broadcast with ``input``; by default, all elements count.

    Returns:
        The sums.

    Example:
        >>> import retrograd as torch
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.cumsum(x, 0, mask=mask)
        tensor([1., 3., 3.])
    """
    input = input if dtype is None else input.to(dtype)
    result: Tensor = _filled(input, mask, 0).cumsum(dim, dtype=input.dtype)
    return result


def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Computes cumulative products of the elements that a mask is true for.

    Args:
        input: The input tensor.
        dim: The dimension.
        dtype: The dtype to compute in; by default, that of ``input``.
        mask: A tensor of bool, which is broadcast with ``input``; by default, all elements count.

    Returns:
        The products.

    Example:
        >>> import retrograd as torch
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.cumprod(x, 0, mask=mask)
        tensor([1., 2., 2.])
    """
    input = input if dtype is None else input.to(dtype)
    result: Tensor = _filled(input, mask, 1).cumprod(dim, dtype=input.dtype)
    return result


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Divides the elements that a mask is true for by their norm.

    Args:
        input: The input tensor.
        ord: The order of the norm.
        dim: The dimension.
        eps: The least number to divide by.
        dtype: The dtype to compute in; by default, that of ``input``.
        mask: A tensor of bool, which is broadcast with ``input``; by default, all elements count.

    Returns:
        The quotients; 0 for the other elements.

    Example:
        >>> import retrograd as torch
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.normalize(x, 2.0, 0, mask=mask)
        tensor([0.4472, 0.8944, 0.0000])
    """
    input = _floats("normalize", input, dtype)
    length = norm(input, ord, dim, keepdim=True, mask=mask)
    result: Tensor = _filled(input, mask, 0) / length.clamp(min=eps)
    return result


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Computes the median of the elements that a mask is true for.

    Args:
        input: The input tensor.
        dim: The dimension.
        keepdim: Whether the dimension remains, with size 1.
        dtype: The dtype to compute in; by default, that of ``input``.
        mask: A tensor of bool, which is broadcast with ``input``; by default, all elements count.

    Returns:
        The median, the lower one of two; NaN where there is no element.

    Example:
        >>> import retrograd as torch
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.median(x, mask=mask)
        tensor(1.)
    """
    filled = _filled(_floats("median", input, dtype), mask, math.nan)
    result: Tensor = filled.nanmedian(dim, keepdim=keepdim).values
    return result


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Computes the logarithm of the sum of exponentials of two tensors under masks.

    Args:
        input: The first tensor.
        other: The second tensor.
        dtype: The dtype to compute in; by default, that of ``input``.
        input_mask: A tensor of bool: which elements of ``input`` count.
        other_mask: A tensor of bool: which elements of ``other`` count.

    Returns:
        The logarithm; minus infinity where neither element counts.

    Example:
        >>> import retrograd as torch
        >>> x, mask = torch.tensor([1.0, 2.0]), torch.tensor([True, False])
        >>> torch.masked.logaddexp(x, x, input_mask=mask)
        tensor([1.6931, 2.0000])
    """
    first = _filled(_floats("logaddexp", input, dtype), input_mask, -math.inf)
    second = _filled(_floats("logaddexp", other, dtype), other_mask, -math.inf)
    result: Tensor = first.logaddexp(second)
    return result
