"""Arithmetic with sparse tensors, and functions of tensors that are called with them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.autograd._wrap import wrap
from retrograd.ops._operation import raw
from retrograd.ops.linear import cat, stack
from retrograd.sparse._layouts import BLOCKED, sparse_coo, sparse_csr
from retrograd.sparse._products import Product, Stored, WholeProduct
from retrograd.tensor._tensor import Tensor

SparseT = TypeVar("SparseT", bound="Arithmetic")


def _own(method: Callable[..., Any]) -> Any:
    """A method that takes less than the method of the same name of dense tensors."""
    return method


def _is_sparse(x: Any) -> bool:
    return isinstance(x, Arithmetic)


class Arithmetic:
    """What is computed with sparse tensors."""

    # What ``SparseTensor`` has.
    layout: Any
    _index_array: Any
    _entries: Any
    _made: Callable[..., Any]
    _with: Callable[..., Any]
    _become: Callable[..., Any]
    _whole: Callable[[], Tensor] | None

    def _in_layout_of(self: Any, other: Any) -> Any:
        """The same tensor in the layout of another, and in blocks of the same shape."""
        if other.layout == sparse_coo:
            return self
        return self._to_compressed(other.layout, other._block or None, len(other._batch))

    def add(self: Any, other: Any, *, alpha: Any = 1) -> Any:
        """The sum with a sparse tensor of the same shape."""
        if not _is_sparse(other):
            raise RuntimeError(
                "add(sparse, dense) is not supported. Use add(dense, sparse) instead."
            )
        a, b = self, other
        if a.shape != b.shape:
            raise RuntimeError(
                "add: expected sizes of 'self' and 'other' to match, but "
                f"{list(a.shape)} != {list(b.shape)}"
            )
        if a.layout != b.layout or (a._block and a._block != b._block):
            return a.to_sparse().add(b.to_sparse(), alpha=alpha)._in_layout_of(a)
        more = b._entries if isinstance(alpha, int) and alpha == 1 else b._entries * alpha
        if arrays.sparse.same(a._index_array, b._index_array):
            return derived(a._with(a._entries + more), lambda x, y: x + y * alpha, a, b)
        if a.layout != sparse_coo:
            return a.to_sparse().add(b.to_sparse(), alpha=alpha)._in_layout_of(a)
        both = a._made(arrays.concatenate((a._index_array, b._index_array), 1),
                       cat([a._entries, more], dim=0), a.shape)  # fmt: skip
        both = both.coalesce() if a._coalesced and b._coalesced else both
        return derived(both, lambda x, y: x + y * alpha, a, b)

    def sub(self: Any, other: Any, *, alpha: Any = 1) -> Any:
        """The difference to a sparse tensor of the same shape."""
        return self.add(other, alpha=-alpha)

    def _added_to(self: Any, dense: Any, alpha: Any) -> Any:
        if isinstance(dense, (int, float, complex)):
            return self.add(dense)  # which is refused
        if not isinstance(dense, Tensor):
            return NotImplemented
        return dense + self.to_dense(masked_grad=False) * alpha

    def _add_into(self: Any, dense: Any, alpha: Any) -> Any:
        """Adds to a dense tensor in place, which touches the entries only where that is right for
        gradients, too."""
        if self._whole is None and self.layout == sparse_coo and (
            self.shape == dense.shape and self.dtype == dense.dtype
        ):
            values = self._entries if isinstance(alpha, int) and alpha == 1 else (
                self._entries * alpha)  # fmt: skip
            if len(self._index_array) == 1:
                return dense.index_add_(0, wrap(self._index_array[0]), values)
            return dense.index_put_(tuple(map(wrap, self._index_array)), values, accumulate=True)
        return dense.add_(self.to_dense(masked_grad=False), alpha=alpha)

    def mul(self: Any, other: Any) -> Any:
        """The product with a number, or with a tensor of the same shape, element by element."""
        if _is_sparse(other):
            a, b = (x.coalesce() if x.is_sparse else x for x in (self, other))
            if a.layout != b.layout or a._block != b._block:
                return a.to_sparse().mul(b.to_sparse())._in_layout_of(a)
            of_a, of_b = arrays.sparse.pairs(*[
                arrays.sparse.flat(x._index_array, x._sizes) for x in (a, b)
            ])  # fmt: skip
            values = a._entries[wrap(of_a)] * b._entries[wrap(of_b)]
            made = self._made(a._index_array[:, of_a], values, self.shape, True, self.layout)
            return derived(made, operator.mul, a, b)
        if isinstance(other, Tensor) and other.ndim:
            if self._block:
                return self.to_sparse().mul(other)._in_layout_of(self)
            made = self._with(self._entries * taken(other.expand(self.shape), self._index_array))
        else:
            made = self._with(self._entries * other)
        return derived(made, lambda x: x * other, self)

    def div(self: Any, other: Any, *, rounding_mode: Any = None) -> Any:
        """The quotient by a number."""
        if _is_sparse(other) or (isinstance(other, Tensor) and other.ndim):
            raise RuntimeError(
                "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
                f"{list(other.shape)} for divisor)"
            )
        whole = self if rounding_mode is None or self.layout != sparse_coo else self.coalesce()
        made = whole._with(whole._entries.div(other, rounding_mode=rounding_mode))
        return derived(made, lambda x: x.div(other, rounding_mode=rounding_mode), self)

    def pow(self: Any, exponent: Any) -> Any:
        """The power of each value."""
        whole = self.coalesce() if self.is_sparse else self
        return derived(whole._with(whole._entries**exponent), lambda x: x**exponent, self)

    def neg(self: Any) -> Any:
        """The tensor with the other sign."""
        return derived(self._with(-self._entries), operator.neg, self)

    @_own
    def norm(self: Any, p: Any = 2) -> Any:
        """The norm of all values."""
        return (self.coalesce() if self.is_sparse else self)._entries.norm(p)

    @_own
    def any(self: Any) -> Any:
        """Whether any element is not zero."""
        return (self.coalesce() if self.is_sparse else self)._entries.any()

    @_own
    def sum(self: Any, dim: Any = None, dtype: Any = None) -> Any:
        """The sum over all dimensions or some."""
        if dim is None and self._whole is not None:
            return self._whole().sum(dtype=dtype)
        return self._masked_sum(dim, dtype)

    def _masked_sum(self: Any, dim: Any, dtype: Any) -> Any:
        """The sum, whose gradient leads to what is stored."""
        values = self._entries if dtype is None else self._entries.to(dtype)
        if dim is None:
            return values.sum()
        if self.layout in BLOCKED:
            return self.to_sparse()._masked_sum(dim, dtype)
        dims = sorted({d % self.ndim for d in (dim if isinstance(dim, (tuple, list)) else (dim,))})
        rank = len(self._index_array)
        inside = [d - rank + 1 for d in dims if d >= rank]
        values = values.sum(inside) if inside else values
        shape = [n for d, n in enumerate(self.shape) if d not in dims]
        kept_dims = [d for d in range(rank) if d not in dims]
        if not kept_dims:
            return values.sum(0)
        indices = self._index_array[kept_dims]
        whole = len(kept_dims) == rank
        return self._made(indices, values, shape, whole and self._coalesced).coalesce()

    def softmax(self: Any, dim: int, dtype: Any = None) -> Any:
        """The softmax of the entries along a dimension, as if all others were minus infinity."""
        logs = self.log_softmax(dim, dtype)
        return logs._with(logs._entries.exp())

    def log_softmax(self: Any, dim: int, dtype: Any = None) -> Any:
        """The logarithm of ``softmax``."""
        whole = (self if dtype is None else self.to(dtype)).coalesce()
        values, dim = whole._entries, dim % self.ndim
        if dim >= self.sparse_dim():
            return whole._with(values.log_softmax(dim - self.sparse_dim() + 1))
        others = [d for d in range(self.sparse_dim()) if d != dim]
        sizes = tuple(self.shape[d] for d in others)
        flat = arrays.sparse.flat(whole._index_array[others], sizes)
        numbers, which = arrays.sparse.distinct(flat)
        at, least = wrap(which), values.detach().new_full((), -math.inf)
        top = least.expand(len(numbers), *values.shape[1:]).index_reduce(
            0, at, values.detach(), "amax"
        )
        shifted = values - top[at]
        return whole._with(shifted - added(shifted.exp(), which, len(numbers)).log()[at])

    def mm(self: Any, other: Any) -> Any:
        """The product with a matrix or a vector; sparse if both are. For a batch of matrices, the
        product with a batch of dense ones."""
        if self._batch:
            return self.bmm(other)
        if self._whole is None or _is_sparse(other):
            return self._times(other)
        entries = self.to_sparse().coalesce()  # as often as ``_whole`` has them
        _check_product(entries, other)
        columns = other if other.ndim == 2 else other[:, None]
        stored = Stored(entries._structure, arrays.asarray(entries._entries.detach()._array()))
        product: Tensor = WholeProduct.apply(self._whole(), columns, stored)
        return product if other.ndim == 2 else product[:, 0]

    mv = matmul = mm

    def _times(self: Any, other: Any, masked: bool = False) -> Any:
        """The product, whose gradient leads to what is stored."""
        if self.layout in BLOCKED:
            return self.to_sparse()._times(other, masked)
        if _is_sparse(other):
            return self._times_sparse(other, masked)
        _check_product(self, other)
        columns = other if other.ndim == 2 else other[:, None]
        product: Tensor = Product.apply(self._entries, columns, self._structure)
        return product if other.ndim == 2 else product[:, 0]

    def _times_sparse(self: Any, other: Any, masked: bool) -> Any:
        (rows, inner), (same, columns) = self._index_array, other.to_sparse()._index_array
        of_a, of_b = arrays.sparse.pairs(inner, same)
        indices = arrays.stack((rows[of_a], columns[of_b]))
        values = self._entries[wrap(of_a)] * other.to_sparse()._entries[wrap(of_b)]
        product = self._made(indices, values, (self.shape[0], other.shape[1])).coalesce()
        if not masked:
            product = derived(product, operator.matmul, self, other)
            if product._whole is not None:  # the gradient of an entry leads to all of a row
                product._entries = taken(product._whole(), product._index_array)
        return product if self.layout == sparse_coo else product.to_sparse(layout=sparse_csr)

    def bmm(self: Any, mat2: Tensor) -> Tensor:
        """The products of the matrices of two batches."""
        if not isinstance(mat2, Tensor) or self.ndim != 3 or mat2.shape[:-2] != self.shape[:1]:
            got = type(mat2).__name__ if not isinstance(mat2, Tensor) else list(mat2.shape)
            raise RuntimeError(
                f"bmm: expected batches of matrices, got {list(self.shape)} and {got}"
            )
        parts = [self.select(0, i).mm(mat2[i]) for i in range(len(self))]
        result: Tensor = stack(parts, dim=0)
        return result

    def __rmatmul__(self: Any, dense: Any) -> Any:
        if not isinstance(dense, Tensor):
            return NotImplemented
        product = self.t().mm(dense.mT if dense.ndim == 2 else dense)
        return product.mT if dense.ndim == 2 else product

    def sparse_mask(self: Any, mask: Any) -> Any:
        """The entries at the indices of another sparse tensor; zero where an entry is missing."""
        return masked(self.to_dense(), mask)

    @_own
    def backward(self: Any, gradient: Any = None, **options: Any) -> None:
        """Differentiates the values, given their gradient."""
        values_gradient = gradient._entries if _is_sparse(gradient) else gradient
        self._entries.backward(values_gradient, **options)

    def zero_(self: Any) -> Any:
        """Removes all entries."""
        return self._become(empty_like(self))

    def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
        """Takes on the entries of another sparse tensor of the same shape."""
        if not _is_sparse(src) or src.shape != self.shape:
            raise RuntimeError("copy_: expected a sparse tensor of the same shape")
        return self._become(src.to(self.dtype).clone()._in_layout_of(self))

    __add__ = add
    __sub__ = sub
    __mul__ = __rmul__ = mul
    __truediv__ = div
    __pow__ = pow
    __neg__ = neg
    __matmul__ = mm

    def __radd__(self: Any, dense: Any) -> Any:
        return self._added_to(dense, 1)

    def __rsub__(self: Any, dense: Any) -> Any:
        return self._added_to(dense, -1)

    def __rtruediv__(self: Any, dense: Any) -> Any:
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(self.shape)} for divisor)"
        )

    def _compared(self: Any, other: Any) -> Any:
        raise NotImplementedError("sparse tensors cannot be compared: use x.to_dense()")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _compared
    __hash__ = object.__hash__

    # -- functions of tensors ----------------------------------------------------------------------

    @staticmethod
    def called(name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """A function of tensors that was called with sparse ones: ``torch.mm(a, b)``."""
        if name in _FUNCTIONS and not _is_sparse(args[0]):
            return _FUNCTIONS[name](*args, **named)
        method = getattr(Arithmetic, name, None) or (
            None if not _is_sparse(args[0]) else vars(type(args[0])).get(name)
        )
        if not _is_sparse(args[0]) or method is None or name.startswith("_"):
            raise NotImplementedError(
                f"torch.{name} does not support sparse tensors. Use it on x.to_dense()."
            )
        return method(*args, **named)


def derived(made: SparseT, function: Callable[..., Any], *sources: Any) -> SparseT:
    """A sparse tensor that was computed from others, with the way in which its gradient leads to
    elements of dense tensors that these do not store: ``function`` of the dense forms."""
    if any([x._whole is not None for x in sources]):
        # What they are now: they may be written to in place.
        wholes = [x._whole or x._with(x._entries).to_dense for x in sources]
        made._whole = lambda: function(*[whole() for whole in wholes])
    return made


def empty_like(x: Any) -> Any:
    """A sparse tensor like another one, without entries."""
    none = arrays.zeros((len(x._index_array), 0), arrays.int64)
    return x._made(none, x._entries.detach()[:0], x.shape, True, x.layout)


def added(values: Tensor, which: Any, count: int) -> Tensor:
    """For each of ``count`` numbers, the sum of the values that have it."""
    zeros = wrap(arrays.zeros((count, *values.shape[1:]), raw(values).dtype))
    result: Tensor = zeros.index_add(0, wrap(which), values)
    return result


def taken(dense: Tensor, indices: Any) -> Tensor:
    """The elements at indices of the first dimensions."""
    result: Tensor = dense[tuple(wrap(row) for row in indices)]
    return result


def masked(dense: Tensor, mask: Any) -> Any:
    """The elements of a dense tensor at the indices of a sparse one, in its layout."""
    if not mask._block:
        return mask._with(taken(dense, mask._index_array))
    first, (rows, columns) = len(mask._batch), mask._sizes[-2:]
    apart = (rows, mask._block[0], columns, mask._block[1])
    blocks = dense.reshape(*mask._batch, *apart).transpose(first + 1, first + 2)
    return mask._with(taken(blocks, mask._index_array))


def _check_product(sparse: Any, dense: Any) -> None:
    if not isinstance(dense, Tensor):
        raise TypeError(f"mm: expected a Tensor, got {type(dense).__name__}")
    wanted = sparse._structure.shape[1]
    if dense.ndim not in (1, 2) or dense.shape[0] != wanted:
        raise RuntimeError(
            f"addmm: Argument #3 (dense): Expected dim 0 size {wanted}, got "
            f"{dense.shape[0] if dense.ndim in (1, 2) else list(dense.shape)}"
        )
    if sparse.dtype != dense.dtype:
        a, b = (dtypes.TYPE_WORDS[x.dtype.name] for x in (sparse, dense))
        raise RuntimeError(f"expected scalar type {a} but found {b}")


def joined(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Sparse tensors one after the other along a sparse dimension."""
    first, before, indices = tensors[0], 0, []
    dim %= first.ndim
    for x in tensors:
        indices.append(arrays.sparse.shifted(x._index_array, dim, before))
        before += x.shape[dim]
    shape = [*first.shape[:dim], before, *first.shape[dim + 1 :]]
    values = cat([x._entries for x in tensors], dim=0)
    ordered = dim == 0 and all(x._coalesced for x in tensors)
    made = first._made(arrays.concatenate(indices, 1), values, shape, ordered)
    return derived(made, lambda *wholes: cat(wholes, dim=dim), *tensors)


def _with_product(input: Tensor, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    result: Tensor = input * beta + (mat1 @ mat2) * alpha
    return result


def _dense_first(of: Callable[..., Any]) -> Callable[..., Any]:
    return lambda dense, sparse, alpha=1: of(sparse, dense, alpha)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": _dense_first(Arithmetic._added_to),
    "add_": _dense_first(Arithmetic._add_into),
    "sub_": _dense_first(lambda sparse, dense, alpha: sparse._add_into(dense, -alpha)),
    "sub": _dense_first(lambda sparse, dense, alpha: sparse._added_to(dense, -alpha)),
    "mul": lambda dense, sparse: sparse.mul(dense),
    "mm": lambda dense, sparse: sparse.__rmatmul__(dense),
    "matmul": lambda dense, sparse: sparse.__rmatmul__(dense),
    "addmm": _with_product,
    "cat": joined,
    "stack": lambda tensors, dim=0: joined([x.unsqueeze(dim) for x in tensors], dim),
}


def _of_values(name: str, ordered: bool) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        whole = self.coalesce() if ordered and self.layout == sparse_coo else self
        made = whole._with(getattr(whole._entries, name)(*args, **kwargs))
        return derived(made, lambda x: getattr(x, name)(*args, **kwargs), self)

    method.__name__ = name
    method.__doc__ = f"``{name}`` of the values; what is not stored stays zero."
    return method


def _in_place(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._become(getattr(self, name)(*args, **kwargs))

    method.__name__ = f"{name}_"
    method.__doc__ = f"``{name}``, in place of the tensor itself."
    return method


_ZERO_AT_ZERO = (
    "abs", "asin", "asinh", "atan", "atanh", "ceil", "deg2rad", "erf", "erfinv", "expm1", "floor",
    "frac", "isinf", "isnan", "isneginf", "isposinf", "log1p", "nan_to_num", "rad2deg", "relu",
    "round", "sgn", "sign", "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
)  # fmt: skip
for _name in _ZERO_AT_ZERO:
    setattr(Arithmetic, _name, _of_values(_name, True))
for _name in (
    "bfloat16", "bool", "conj", "cpu", "cuda", "double", "float", "half", "int", "long",
):  # fmt: skip
    setattr(Arithmetic, _name, _of_values(_name, False))
for _name in ("add", "sub", "mul", "div", "neg", "pow", *_ZERO_AT_ZERO):
    setattr(Arithmetic, f"{_name}_", _in_place(_name))
for _name in ("add", "sub", "mul", "truediv", "pow"):
    setattr(Arithmetic, f"__i{_name}__", getattr(Arithmetic, f"{_name.removeprefix('true')}_"))
