"""``torch.masked``: reductions and normalizations over the elements where a mask is true."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn, Protocol, TypeVar

from retrograd.arrays import dtypes
from retrograd.ops._sections import complete
from retrograd.tensor._tensor import Tensor

__all__ = [
    "MaskedTensor", "amax", "amin", "argmax", "argmin", "as_masked_tensor", "cumprod", "cumsum",
    "log_softmax", "logaddexp", "logsumexp", "masked_tensor", "mean", "median", "norm",
    "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip


Function = TypeVar("Function", bound=Callable[..., Any])
_MEANINGS = {
    "input": "The input tensor.",
    "keepdim": "Whether the reduced dimensions remain, with size 1.",
    "dtype": "The dtype to compute in; by default, that of ``input``.",
    "mask": "A tensor of bool, which is broadcast with ``input``; by default, all elements count.",
}
_OF_REDUCTIONS = {**_MEANINGS, "dim": "The dimensions to reduce; by default, all of them."}
_ALONG_DIMENSION = {**_MEANINGS, "dim": "The dimension."}


def _filled(input: Tensor, mask: Tensor | None, value: Any) -> Tensor:
    """The input with a value in place of what the mask leaves out."""
    filled: Tensor = input if mask is None else input.masked_fill(~mask, value)
    return filled


def _dims(input: Tensor, dim: Any) -> tuple[int, ...]:
    if dim is None or (isinstance(dim, tuple) and not dim):
        return tuple(range(input.dim()))
    return tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)


def _converted(name: str, input: Tensor, dtype: Any) -> Tensor:
    return input if dtype is None else input.to(dtype)


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


def _accumulated(name: str, input: Tensor, dtype: Any) -> Tensor:
    """The input in the dtype that sums and products are computed in."""
    kept = input.is_floating_point() or input.is_complex()
    return _converted(name, input, dtypes.int64 if dtype is None and not kept else dtype)


def _extreme(dtype: Any, largest: bool) -> Any:
    """The number that no element of a dtype is larger than, or less than."""
    from retrograd.tensor._limits import iinfo

    if dtype.is_floating_point:
        return math.inf if largest else -math.inf
    if dtype is dtypes.bool_:
        return largest
    return iinfo(dtype).max if largest else iinfo(dtype).min


def _count(input: Tensor, dims: tuple[int, ...], keepdim: bool, mask: Tensor | None) -> Tensor:
    ones = input.new_ones(input.shape, dtype=dtypes.int64)
    counted: Tensor = _filled(ones, mask, 0).sum(dims, keepdim=keepdim)
    return counted


class Reduction(Protocol):
    """How reductions are called."""

    def __call__(
        self, input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
        mask: Tensor | None = None,
    ) -> Tensor: ...  # fmt: skip


class AlongDimension(Protocol):
    """How functions are called that work along a dimension and keep the shape."""

    def __call__(
        self, input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None
    ) -> Tensor: ...


_EXAMPLE = """{summary}

Returns:
    {returns}

Example:
    >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
    >>> torch.masked.{call}
    {shown}
"""


def _declared(function: Any, name: str, meanings: dict[str, str], **words: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = _EXAMPLE.format(**words)
    return complete(function, meanings)


def _reduction(
    name: str, summary: str, returns: str, shown: str, convert: Callable[..., Tensor],
    kernel: Callable[..., Any],
) -> Reduction:  # fmt: skip
    """A reduction. The kernel is called with the input in the dtype that ``convert`` gives, with
    ``dim``, ``keepdim`` and the mask; ``shown`` is what the example prints."""

    def reduce(
        input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
        mask: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        result: Tensor = kernel(convert(name, input, dtype), dim, keepdim, mask)
        return result

    call = f"{name}(x, mask=mask)"
    declared: Reduction = _declared(
        reduce, name, _OF_REDUCTIONS, summary=summary, returns=returns, call=call, shown=shown
    )
    return declared


def _along_dimension(
    name: str, summary: str, returns: str, shown: str, kernel: Callable[..., Any]
) -> AlongDimension:
    """The same for a function that works along a dimension and keeps the shape."""

    def apply(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
        result: Tensor = kernel(_converted(name, input, dtype), dim, mask)
        return result

    call = f"{name}(x, 0, mask=mask)"
    declared: AlongDimension = _declared(
        apply, name, _ALONG_DIMENSION, summary=summary, returns=returns, call=call, shown=shown
    )
    return declared


def _documented(function: Function) -> Function:
    return complete(function, _OF_REDUCTIONS)


def _product(input: Tensor, dim: Any, keepdim: bool, mask: Any) -> Any:
    result = _filled(input, mask, 1)
    for d in sorted([d % max(input.dim(), 1) for d in _dims(input, dim)], reverse=True):
        result = result.prod(d, keepdim=keepdim)
    return result


def _mean(input: Tensor, dim: Any, keepdim: bool, mask: Any) -> Any:
    dims = _dims(input, dim)
    total = _filled(input, mask, 0).sum(dims, keepdim=keepdim)
    return total / _count(input, dims, keepdim, mask)


def _arg(name: str) -> Callable[..., Any]:
    """The kernel of ``argmax`` or ``argmin``."""

    def kernel(input: Tensor, dim: Any, keepdim: bool, mask: Any) -> Any:
        filled = _filled(input, mask, _extreme(input.dtype, largest=name == "argmin"))
        return getattr(filled, name)(dim, keepdim=keepdim).to(input.dtype)

    return kernel


sum = _reduction(
    "sum", "Computes the sum of the elements where a mask is true.",
    "The sum; 0 where there is no element.", "tensor(3.)", _accumulated,
    lambda input, dim, keepdim, mask: _filled(input, mask, 0).sum(
        _dims(input, dim), keepdim=keepdim
    ),
)  # fmt: skip
prod = _reduction(
    "prod", "Computes the product of the elements where a mask is true.",
    "The product; 1 where there is no element.", "tensor(2.)", _accumulated, _product,
)  # fmt: skip
amax = _reduction(
    "amax", "Computes the largest of the elements where a mask is true.",
    "The largest element.", "tensor(2.)", _converted,
    lambda input, dim, keepdim, mask: _filled(input, mask, _extreme(input.dtype, False)).amax(
        _dims(input, dim), keepdim=keepdim
    ),
)  # fmt: skip
amin = _reduction(
    "amin", "Computes the smallest of the elements where a mask is true.",
    "The smallest element.", "tensor(1.)", _converted,
    lambda input, dim, keepdim, mask: _filled(input, mask, _extreme(input.dtype, True)).amin(
        _dims(input, dim), keepdim=keepdim
    ),
)  # fmt: skip
argmax = _reduction(
    "argmax", "Finds the index of the largest element where a mask is true.",
    "The index, in the dtype of ``input``, as in PyTorch.", "tensor(1.)", _converted,
    _arg("argmax"),
)  # fmt: skip
argmin = _reduction(
    "argmin", "Finds the index of the smallest element where a mask is true.",
    "The index, in the dtype of ``input``, as in PyTorch.", "tensor(0.)", _converted,
    _arg("argmin"),
)  # fmt: skip
mean = _reduction(
    "mean", "Computes the mean of the elements where a mask is true.",
    "The mean; NaN where there is no element.", "tensor(1.5000)", _floats, _mean,
)  # fmt: skip
logsumexp = _reduction(
    "logsumexp", "Computes the logarithm of the sum of exponentials under a mask.",
    "The logarithm; minus infinity where there is no element.", "tensor(2.3133)", _floats,
    lambda input, dim, keepdim, mask: _filled(input, mask, -math.inf).logsumexp(
        _dims(input, dim), keepdim=keepdim
    ),
)  # fmt: skip
softmax = _along_dimension(
    "softmax", "Computes the softmax of the elements where a mask is true.",
    "The result; NaN along a dimension without any element.", "tensor([0.2689, 0.7311, 0.0000])",
    lambda input, dim, mask: _filled(input, mask, -math.inf).softmax(dim),
)  # fmt: skip
log_softmax = _along_dimension(
    "log_softmax", "Computes the logarithm of softmax of the elements where a mask is true.",
    "The result; NaN along a dimension without any element.", "tensor([-1.3133, -0.3133,    -inf])",
    lambda input, dim, mask: _filled(input, mask, -math.inf).log_softmax(dim),
)  # fmt: skip
softmin = _along_dimension(
    "softmin", "Computes the softmin of the elements where a mask is true.",
    "The result; NaN along a dimension without any element.", "tensor([0.7311, 0.2689, 0.0000])",
    lambda input, dim, mask: (-_filled(input, mask, math.inf)).softmax(dim),
)  # fmt: skip
cumsum = _along_dimension(
    "cumsum", "Computes cumulative sums of the elements where a mask is true.",
    "The sums.", "tensor([1., 3., 3.])",
    lambda input, dim, mask: _filled(input, mask, 0).cumsum(dim, dtype=input.dtype),
)  # fmt: skip
cumprod = _along_dimension(
    "cumprod", "Computes cumulative products of the elements where a mask is true.",
    "The products.", "tensor([1., 2., 2.])",
    lambda input, dim, mask: _filled(input, mask, 1).cumprod(dim, dtype=input.dtype),
)  # fmt: skip


@_documented
def var(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, *,
    correction: float | None = None, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Computes the variance of the elements where a mask is true.

    Args:
        unbiased: Whether ``correction`` is 1, the default, or 0.
        correction: What is subtracted from the number of elements to divide by.

    Returns:
        The variance; NaN where there is no element.

    Example:
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.var(x, mask=mask)
        tensor(0.5000)
    """
    return _variance("var", input, dim, unbiased, correction, keepdim, dtype, mask)


@_documented
def std(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, *,
    correction: float | None = None, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Computes the standard deviation of the elements where a mask is true.

    Args:
        unbiased: Whether ``correction`` is 1, the default, or 0.
        correction: What is subtracted from the number of elements to divide by.

    Returns:
        The standard deviation; NaN where there is no element.

    Example:
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.std(x, mask=mask)
        tensor(0.7071)
    """
    variance = _variance("std", input, dim, unbiased, correction, keepdim, dtype, mask)
    return variance.sqrt()


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


@_documented
def norm(
    input: Tensor, ord: float | None = 2.0, dim: Any = None, *, keepdim: bool = False,
    dtype: Any = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Computes a norm of the elements where a mask is true.

    Args:
        ord: The order of the norm.

    Returns:
        The norm; 0 where there is no element.

    Example:
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


@_documented
def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Divides the elements where a mask is true by their norm.

    Args:
        ord: The order of the norm.
        dim: The dimension.
        eps: The least number to divide by.

    Returns:
        The quotients; 0 for the other elements.

    Example:
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.normalize(x, 2.0, 0, mask=mask)
        tensor([0.4472, 0.8944, 0.0000])
    """
    input = _floats("normalize", input, dtype)
    length = norm(input, ord, dim, keepdim=True, mask=mask)
    result: Tensor = _filled(input, mask, 0) / length.clamp(min=eps)
    return result


@_documented
def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Computes the median of the elements where a mask is true.

    Args:
        dim: The dimension.
        keepdim: Whether the dimension remains, with size 1.

    Returns:
        The median, the lower one of two; NaN where there is no element.

    Example:
        >>> x, mask = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([True, True, False])
        >>> torch.masked.median(x, mask=mask)
        tensor(1.)
    """
    filled = _filled(_floats("median", input, dtype), mask, math.nan)
    result: Tensor = filled.nanmedian(dim, keepdim=keepdim).values
    return result


@_documented
def logaddexp(
    input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Computes the logarithm of the sum of exponentials of two tensors under masks.

    Args:
        input: The first tensor.
        other: The second tensor.
        input_mask: A tensor of bool: which elements of ``input`` count.
        other_mask: A tensor of bool: which elements of ``other`` count.

    Returns:
        The logarithm; minus infinity where neither element counts.

    Example:
        >>> x, mask = torch.tensor([1.0, 2.0]), torch.tensor([True, False])
        >>> torch.masked.logaddexp(x, x, input_mask=mask)
        tensor([1.6931, 2.0000])
    """
    first = _filled(_floats("logaddexp", input, dtype), input_mask, -math.inf)
    second = _filled(_floats("logaddexp", other, dtype), other_mask, -math.inf)
    result: Tensor = first.logaddexp(second)
    return result


class MaskedTensor:
    """PyTorch's prototype of a tensor with a mask. It does not exist here: see ``masked_tensor``.

    Args:
        data: The tensor.
        mask: Which elements count.
        requires_grad: Whether it requires grad.

    Example:
        >>> torch.masked.MaskedTensor(torch.ones(2), torch.tensor([True, False]))
        Traceback (most recent call last):
        NotImplementedError: retrograd has no masked tensors, which are a prototype in PyTorch: ...
    """

    def __new__(cls, data: Any, mask: Any, requires_grad: bool = False) -> NoReturn:
        raise NotImplementedError(
            "retrograd has no masked tensors, which are a prototype in PyTorch: give the mask to a "
            "function of torch.masked, as in torch.masked.sum(data, mask=mask), or fill what does "
            "not count with data.masked_fill(~mask, value)."
        )


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> NoReturn:
    """Not supported: an error that says what to do.

    Args:
        data: The tensor.
        mask: Which elements count.
        requires_grad: Whether it requires grad.

    Example:
        >>> x, mask = torch.tensor([1.0, 2.0]), torch.tensor([True, False])
        >>> torch.masked.masked_tensor(x, mask)
        Traceback (most recent call last):
        NotImplementedError: retrograd has no masked tensors, which are a prototype in PyTorch: ...
        >>> torch.masked.sum(x, mask=mask)
        tensor(1.)
    """
    MaskedTensor(data, mask, requires_grad)


as_masked_tensor = masked_tensor
