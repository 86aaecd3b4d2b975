"""The public functions for sums, means, minima and maxima."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.ops import general, linear, selecting
from retrograd.ops._arguments import invalid_combination
from retrograd.ops._dims import Dims, is_integer, many_dims, one_dim
from retrograd.ops._operands import Target
from retrograd.ops._operation import Operation, Planned, TensorLike, raw
from retrograd.ops._public import named, public
from retrograd.ops._refusals import c_name, kernel, refuses
from retrograd.ops._results import named_result
from retrograd.ops.copies import to_dtype
from retrograd.ops.piecewise import maximum, minimum

INEXACT = arrays.dtypes.INEXACT


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
    if dtype is not None and dtype.numpy.kind not in INEXACT:
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
    if dtype is not None:
        check_mean_dtype("mean", dtype)
        self = in_dtype(self, dtype)
    given = raw(self).dtype
    if given.kind not in INEXACT:
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


# -- extremes and truths ---------------------------------------------------------------------


def _extreme_dims(name: str, word: str, along: Operation, shown: str) -> Callable[..., Any]:
    """``amax`` or ``amin``."""
    refuse_complex = kernel(f"{name[1:]}_values_cpu")

    def extreme(self: Any, dim: Dims = (), keepdim: bool = False) -> Any:
        shape = raw(self).shape
        dims = many_dims(dim, len(shape))
        if 0 in shape:
            given = (dim,) if is_integer(dim) else tuple(dim or ())
            if not given:
                _check_non_empty(self, name, None)
            for said, d in zip(given, dims, strict=True):
                if shape[d] == 0:
                    raise IndexError(
                        f"{name}(): Expected reduction dim {said} to have non-zero size."
                    )
        refuse_complex(raw(self))
        return along(self, dim=dims, keepdim=bool(keepdim))

    doc = f"""The {word} along dimensions. Elements equal to it share the gradient evenly.

    Args:
        dim: dimension or dimensions to reduce; all by default.

    Example:
        >>> torch.{name}(torch.tensor([[1., 4.], [3., 2.]]), dim=1)
        {shown}
    """
    return public("torch method", out="same")(named(extreme, name, doc))


amax = _extreme_dims("amax", "maximum", selecting.amax_dim, "tensor([4., 3.])")
amin = _extreme_dims("amin", "minimum", selecting.amin_dim, "tensor([1., 2.])")


def _check_non_empty(self: Any, name: str, dim: int | None) -> None:
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


def _extreme(
    name: str, word: str, of_two: Operation, of_all: Operation, along: Operation,
    shown: tuple[str, str],
) -> Callable[..., Any]:  # fmt: skip
    """``max`` or ``min``."""
    result_type = named_result(name, "values", "indices")
    refuse_all = kernel(f"{name}_all")
    refuse_dim = refuses("c", f"{name}(): does not support complex input", RuntimeError)

    def extreme(self: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
        other = _other(name, self, dim, other)
        if other is not None:
            return of_two(self, other)
        _check_non_empty(self, name, dim)
        if dim is None:
            refuse_all(raw(self))
            return of_all(self)
        refuse_dim(raw(self))
        plain = one_dim(dim, len(self.shape))
        return result_type(along(self, dim=plain, keepdim=bool(keepdim)))

    doc = f"""The {word}imum of all elements, along a dimension, or of two tensors.

    Args:
        dim: dimension to reduce, or a tensor to compare ``input`` with, as ``other``.
        other: tensor to compare ``input`` with, element by element.

    Returns:
        The {word}imum; with ``dim``, a named tuple ``(values, indices)``; with ``other``, the
        elementwise {word}imum.

    Example:
        >>> x = torch.tensor([[1., 4.], [3., 2.]])
        >>> torch.{name}(x)
        {shown[0]}
        >>> torch.{name}(x, dim=1).indices
        {shown[1]}
    """
    return public("torch method", out="same")(named(extreme, name, doc))


max = _extreme("max", "max", maximum, selecting.max_all, selecting.max_dim,
               ("tensor(4.)", "tensor([1, 0])"))  # fmt: skip
min = _extreme("min", "min", minimum, selecting.min_all, selecting.min_dim,
               ("tensor(1.)", "tensor([0, 1])"))  # fmt: skip


def _index_of_extreme(name: str, word: str, index: Operation, shown: str) -> Callable[..., Any]:
    """``argmax`` or ``argmin``."""
    refuse_bool, refuse_complex = (
        refuses(kind, f"{name}(): does not support {word} input", RuntimeError)
        for kind, word in (("b", "bool"), ("c", "complex"))
    )

    def index_of_extreme(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        refuse_bool(raw(self))
        refuse_complex(raw(self))
        _check_non_empty(self, name, dim)
        plain = None if dim is None else one_dim(dim, len(self.shape))
        return index(self, dim=plain, keepdim=bool(keepdim))

    doc = f"""The index of the {word} element; of several equal ones, the first.

    Args:
        dim: dimension to search along; by default, the index is into the flattened tensor.

    Returns:
        A tensor of indices (int64).

    Example:
        >>> x = torch.tensor([[1., 4.], [3., 2.]])
        >>> torch.{name}(x), torch.{name}(x, dim=1)
        {shown}
    """
    return public("torch method", out="same, constant")(named(index_of_extreme, name, doc))


argmax = _index_of_extreme(
    "argmax", "largest", selecting.argmax_at, "(tensor(1), tensor([1, 0]))"
)
argmin = _index_of_extreme(
    "argmin", "smallest", selecting.argmin_at, "(tensor(0), tensor([0, 1]))"
)


def _truth(name: str, summary: str, operation: Operation, shown: str) -> Callable[..., Any]:
    """``all`` or ``any``."""

    def truth(self: Any, dim: Dims = None, keepdim: bool = False) -> Any:
        none = dim is not None and not is_integer(dim) and not len(dim)  # not all, as elsewhere
        dims = () if none else many_dims(dim, len(self.shape))
        return operation(self, dim=dims, keepdim=bool(keepdim))

    doc = f"""{summary}

    Args:
        dim: dimension or dimensions to reduce; all by default.

    Returns:
        A bool tensor without the reduced dimensions, unless ``keepdim`` is true.

    Example:
        >>> torch.{name}(torch.tensor([[False, False], [True, False], [True, True]]), dim=1)
        {shown}
    """
    return public("torch method", out="same, constant")(named(truth, name, doc))


all = _truth("all", "Whether all elements are true (nonzero).", selecting.all_of,
             "tensor([False, False,  True])")  # fmt: skip
any = _truth("any", "Whether any element is true (nonzero).", selecting.any_of,
             "tensor([False,  True,  True])")  # fmt: skip


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
