"""Reductions: what users call to sum, average and find extremes."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.ops import general, linear, selecting
from retrograd.ops._arguments import invalid_combination
from retrograd.ops._dims import Dims, is_integer, many_dims, one_dim
from retrograd.ops._operands import Target
from retrograd.ops._operation import Planned, TensorLike, raw
from retrograd.ops._public import public
from retrograd.ops._refusals import c_name, refuses
from retrograd.ops._results import named_result
from retrograd.ops.copies import to_dtype
from retrograd.ops.piecewise import maximum, minimum


def in_dtype(self: Any, dtype: Any) -> Any:
    """``self`` converted to a dtype, if one is asked for."""
    if dtype is None:
        return self
    wanted, given = getattr(dtype, "numpy", dtype), raw(self).dtype
    if given == wanted:
        return self
    if isinstance(self, Target):
        raise RuntimeError(
            f"Bad in-place call: input tensor dtype {c_name(given)} and output tensor dtype "
            f"{c_name(wanted)} should match"
        )
    return to_dtype(self, dtype=wanted)


def widened(x: Any) -> Any:
    """Half-precision values in float32, in which sums over them are computed."""
    narrow = raw(x).dtype.name in ("float16", "bfloat16")
    return to_dtype(x, dtype=arrays.float32) if narrow else x


def narrowed(result: Any, dtype: Any) -> Any:
    """A sum or product in the integer dtype asked for: it is computed in a wide one."""
    if dtype is None or dtype.numpy.kind not in "biu" or isinstance(result, Planned):
        return result
    return in_dtype(result, dtype)


def _refuse(
    self: Any, kinds: str, words: str, error: type[Exception] = NotImplementedError
) -> None:
    """Raise what PyTorch raises for tensors of some kinds of dtype."""
    refuses(kinds, words, error)(raw(self))


@public("torch method", out="its dtype")
def sum(self: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum of all elements, or of the elements along dimensions.

    Args:
        dim: dimension or dimensions to reduce; all by default.

    Example:
        >>> x = torch.tensor([[1., 2.], [3., 4.]])
        >>> torch.sum(x), torch.sum(x, dim=0)
        (tensor(10.), tensor([4., 6.]))
    """
    if dtype is not None:
        self = in_dtype(self, dtype)
    if dim is None and not keepdim:
        total = linear.sum_all(self)
        return total if dtype is None else narrowed(total, dtype)
    total = linear.sum_dim(self, dim=many_dims(dim, len(self.shape)), keepdim=bool(keepdim))
    return narrowed(total, dtype)


def check_mean_dtype(name: str, dtype: Any) -> None:
    """Refuse to compute a mean in a dtype that is asked for but has no fractions."""
    if dtype is not None and dtype.numpy.kind not in dtypes.INEXACT:
        raise RuntimeError(
            f"{name}(): could not infer output dtype. Optional dtype must be either a floating "
            f"point or complex dtype. Got: {arrays.dtypes.type_word(dtype.numpy)}"
        )


@public("torch method", out="cast")
def mean(self: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The mean of all elements, or of the elements along dimensions.

    Args:
        input: the input tensor, floating-point or complex.
        dim: dimension or dimensions to reduce; all by default.

    Example:
        >>> x = torch.tensor([[1., 2.], [3., 4.]])
        >>> torch.mean(x), torch.mean(x, dim=1)
        (tensor(2.5000), tensor([1.5000, 3.5000]))
    """
    check_mean_dtype("mean", dtype)
    self = in_dtype(self, dtype)
    given = raw(self).dtype
    if given.kind not in dtypes.INEXACT:
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or "
            f"complex dtype. Got: {arrays.dtypes.type_word(given)}"
        )
    if dim is None and not keepdim:
        return linear.mean_all(self)
    return linear.mean_dim(self, dim=many_dims(dim, len(self.shape)), keepdim=bool(keepdim))


@public("torch method", out="its dtype")
def prod(self: Any, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The product of all elements, or of the elements along a dimension.

    Args:
        dim: dimension to reduce; by default, all elements are reduced.

    Example:
        >>> torch.prod(torch.tensor([[1., 2.], [3., 4.]]), dim=1)
        tensor([ 2., 12.])
    """
    self = in_dtype(self, dtype)
    if dim is None:
        return narrowed(general.prod_all(self), dtype)
    product = general.prod_dim(self, dim=one_dim(dim, len(self.shape)), keepdim=bool(keepdim))
    return narrowed(product, dtype)


@public("torch method", out="same")
def amax(self: Any, dim: Dims = (), keepdim: bool = False) -> Any:
    """The maximum along dimensions. Elements equal to it share the gradient evenly.

    Args:
        dim: dimension or dimensions to reduce; all by default.

    Example:
        >>> torch.amax(torch.tensor([[1., 4.], [3., 2.]]), dim=1)
        tensor([4., 3.])
    """
    dims = _extreme_dims(self, "amax", "max_values_cpu", dim)
    return selecting.amax_dim(self, dim=dims, keepdim=bool(keepdim))


@public("torch method", out="same")
def amin(self: Any, dim: Dims = (), keepdim: bool = False) -> Any:
    """The minimum along dimensions. Elements equal to it share the gradient evenly.

    Args:
        dim: dimension or dimensions to reduce; all by default.

    Example:
        >>> torch.amin(torch.tensor([[1., 4.], [3., 2.]]), dim=1)
        tensor([1., 2.])
    """
    dims = _extreme_dims(self, "amin", "min_values_cpu", dim)
    return selecting.amin_dim(self, dim=dims, keepdim=bool(keepdim))


def _non_empty(self: Any, name: str, dim: int | None) -> None:
    shape = raw(self).shape
    if 0 not in shape:
        return
    if dim is None:
        missing = f"{name}(): Expected reduction dim to be specified for input.numel() == 0."
        if name.startswith("arg"):
            raise IndexError(missing)
        raise RuntimeError(f"{missing} Specify the reduction dim with the 'dim' argument.")
    plain = one_dim(dim, len(shape))
    if shape[plain] == 0:
        raise IndexError(f"{name}(): Expected reduction dim {plain} to have non-zero size.")


def _extreme_dims(self: Any, name: str, kernel: str, dim: Dims) -> tuple[int, ...]:
    """The dimensions that ``amax`` or ``amin`` reduces."""
    shape = raw(self).shape
    dims = many_dims(dim, len(shape))
    if 0 in shape:
        given = (dim,) if is_integer(dim) else tuple(dim or ())
        if not given:
            _non_empty(self, name, None)
        for said, d in zip(given, dims, strict=True):
            if shape[d] == 0:
                raise IndexError(f"{name}(): Expected reduction dim {said} to have non-zero size.")
    _refuse(self, "c", f"\"{kernel}\" not implemented for '{{}}'")
    return dims


Max = named_result("max", "values", "indices")
Min = named_result("min", "values", "indices")


def _other(name: str, self: Any, dim: Any, other: Any) -> Any:
    """The second tensor, if that is how ``max`` or ``min`` is called."""
    if not isinstance(self, TensorLike) and not arrays.is_raw(self):
        raise invalid_combination(name, *(x for x in (self, dim, other) if x is not None))
    if other is None and not isinstance(dim, TensorLike) and (dim is None or is_integer(dim)):
        return None
    other = dim if other is None else other
    if not isinstance(other, TensorLike) and not arrays.is_raw(other):
        raise invalid_combination(name, self, other)
    return other


@public("torch method", out="same")
def max(self: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The maximum of all elements, along a dimension, or of two tensors.

    Args:
        dim: dimension to reduce, or a tensor to compare ``input`` with, as ``other``.
        other: tensor to compare ``input`` with, element by element.

    Returns:
        The largest element; with ``dim``, a named tuple ``(values, indices)``; with ``other``,
        the elementwise maximum.

    Example:
        >>> x = torch.tensor([[1., 4.], [3., 2.]])
        >>> torch.max(x)
        tensor(4.)
        >>> torch.max(x, dim=1).indices
        tensor([1, 0])
    """
    other = _other("max", self, dim, other)
    if other is not None:
        return maximum(self, other)
    _non_empty(self, "max", dim)
    if dim is None:
        _refuse(self, "c", "\"max_all\" not implemented for '{}'")
        return selecting.max_all(self)
    _refuse(self, "c", "max(): does not support complex input", RuntimeError)
    plain = one_dim(dim, len(self.shape))
    return Max(selecting.max_dim(self, dim=plain, keepdim=bool(keepdim)))


@public("torch method", out="same")
def min(self: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The minimum of all elements, along a dimension, or of two tensors.

    Args:
        dim: dimension to reduce, or a tensor to compare ``input`` with, as ``other``.
        other: tensor to compare ``input`` with, element by element.

    Returns:
        The smallest element; with ``dim``, a named tuple ``(values, indices)``; with ``other``,
        the elementwise minimum.

    Example:
        >>> x = torch.tensor([[1., 4.], [3., 2.]])
        >>> torch.min(x)
        tensor(1.)
        >>> torch.min(x, dim=1).indices
        tensor([0, 1])
    """
    other = _other("min", self, dim, other)
    if other is not None:
        return minimum(self, other)
    _non_empty(self, "min", dim)
    if dim is None:
        _refuse(self, "c", "\"min_all\" not implemented for '{}'")
        return selecting.min_all(self)
    _refuse(self, "c", "min(): does not support complex input", RuntimeError)
    plain = one_dim(dim, len(self.shape))
    return Min(selecting.min_dim(self, dim=plain, keepdim=bool(keepdim)))


@public("torch method", out="same, constant")
def argmax(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The index of the largest element; of several equal ones, the first.

    Args:
        dim: dimension to search along; by default, the index is into the flattened tensor.

    Returns:
        A tensor of indices (int64).

    Example:
        >>> x = torch.tensor([[1., 4.], [3., 2.]])
        >>> torch.argmax(x), torch.argmax(x, dim=1)
        (tensor(1), tensor([1, 0]))
    """
    _refuse(self, "b", "argmax(): does not support bool input", RuntimeError)
    _refuse(self, "c", "argmax(): does not support complex input", RuntimeError)
    _non_empty(self, "argmax", dim)
    plain = None if dim is None else one_dim(dim, len(self.shape))
    return selecting.argmax_at(self, dim=plain, keepdim=bool(keepdim))


@public("torch method", out="same, constant")
def argmin(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The index of the smallest element; of several equal ones, the first.

    Args:
        dim: dimension to search along; by default, the index is into the flattened tensor.

    Returns:
        A tensor of indices (int64).

    Example:
        >>> x = torch.tensor([[1., 4.], [3., 2.]])
        >>> torch.argmin(x), torch.argmin(x, dim=1)
        (tensor(0), tensor([0, 1]))
    """
    _refuse(self, "b", "argmin(): does not support bool input", RuntimeError)
    _refuse(self, "c", "argmin(): does not support complex input", RuntimeError)
    _non_empty(self, "argmin", dim)
    plain = None if dim is None else one_dim(dim, len(self.shape))
    return selecting.argmin_at(self, dim=plain, keepdim=bool(keepdim))


@public("torch method", out="same, constant")
def all(self: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """Whether all elements are true (nonzero).

    Args:
        dim: dimension or dimensions to reduce; all by default.

    Returns:
        A bool tensor without the reduced dimensions, unless ``keepdim`` is true.

    Example:
        >>> torch.all(torch.tensor([[True, False], [True, True]]), dim=1)
        tensor([False,  True])
    """
    return selecting.all_of(self, dim=_truth_dims(self, dim), keepdim=bool(keepdim))


@public("torch method", out="same, constant")
def any(self: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """Whether any element is true (nonzero).

    Args:
        dim: dimension or dimensions to reduce; all by default.

    Returns:
        A bool tensor without the reduced dimensions, unless ``keepdim`` is true.

    Example:
        >>> torch.any(torch.tensor([[False, False], [True, False]]), dim=1)
        tensor([False,  True])
    """
    return selecting.any_of(self, dim=_truth_dims(self, dim), keepdim=bool(keepdim))


def _truth_dims(self: Any, dim: Dims) -> tuple[int, ...]:
    """The dimensions that ``all`` and ``any`` reduce: here an empty sequence names none."""
    nothing = dim is not None and not is_integer(dim) and not len(dim)
    return () if nothing else many_dims(dim, len(self.shape))


def check_running_dtype(name: str, dtype: Any) -> None:
    """Refuse running sums and products in booleans."""
    if dtype is not None and dtype.numpy.kind == "b":
        raise NotImplementedError(f"\"{name}\" not implemented for 'Bool'")


@public("torch method", in_place=True, out="its dtype, aligned")
def cumsum(self: Any, dim: int, *, dtype: Any = None) -> Any:
    """The cumulative sum of the elements along a dimension.

    Args:
        dim: dimension to accumulate along.

    Returns:
        A tensor of the same shape as ``input``.

    Example:
        >>> torch.cumsum(torch.tensor([1., 2., 3.]), dim=0)
        tensor([1., 3., 6.])
    """
    self = in_dtype(self, dtype)
    check_running_dtype("cumsum_out_cpu", dtype)
    return narrowed(linear.cumsum(self, dim=one_dim(dim, len(self.shape))), dtype)
