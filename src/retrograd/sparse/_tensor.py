"""Tensors of which only some entries are stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from retrograd import arrays
from retrograd.arrays import _format, dtypes
from retrograd.autograd._wrap import wrap
from retrograd.ops._operation import raw
from retrograd.ops.linear import cat, stack
from retrograd.sparse._products import Product
from retrograd.tensor._tensor import Size, Tensor

sparse_coo, sparse_csr, sparse_csc = "torch.sparse_coo", "torch.sparse_csr", "torch.sparse_csc"
_UNCOALESCED = "Cannot get {} on an uncoalesced tensor, please call .coalesce() first"


class SparseTensor:
    """A tensor of which only some entries are stored: their indices, which are fixed, and their
    values, which are a Tensor. Entries may have dense dimensions of their own.

    It is made by ``sparse_coo_tensor``, ``sparse_csr_tensor`` or ``to_sparse``.

    Args:
        indices: The indices of the entries, an array with a row for each sparse dimension.
        values: The values of the entries, one after the other.
        shape: The shape of the whole.
        coalesced: Whether the entries are in order and none is repeated.
        layout: ``sparse_coo``, ``sparse_csr`` or ``sparse_csc``.
        leaf: Whether the values were made for this tensor.
    """

    __module__ = "retrograd.sparse"
    is_cuda = is_mkldnn = is_quantized = is_nested = is_meta = False

    def __init__(
        self, indices: Any, values: Tensor, shape: Sequence[int], coalesced: bool = False,
        layout: str = sparse_coo, leaf: bool = False,
    ) -> None:  # fmt: skip
        self._places, self._entries, self.shape = indices, values, Size(shape)
        self._coalesced, self.layout = coalesced or indices.shape[1] < 2, layout
        self.is_leaf = leaf or not values.requires_grad

    def _with(self, values: Tensor, **changed: Any) -> SparseTensor:
        """The same with other values."""
        given = {"shape": self.shape, "coalesced": self._coalesced, "layout": self.layout}
        return SparseTensor(self._places, values, **{**given, **changed})

    # -- what it is ------------------------------------------------------------------------------

    @property
    def is_sparse(self) -> bool:
        """Whether each entry has all of its indices."""
        return self.layout == sparse_coo

    @property
    def is_sparse_csr(self) -> bool:
        """Whether the entries are stored row by row."""
        return self.layout == sparse_csr

    dtype = property(lambda self: self._entries.dtype, doc="That of the values.")
    device = property(lambda self: self._entries.device, doc="That of the values.")
    requires_grad = property(lambda self: self._entries.requires_grad, doc="Of the values.")
    grad_fn = property(lambda self: None if self.is_leaf else self._entries.grad_fn,
                       doc="The node of the values.")  # fmt: skip
    ndim = property(lambda self: len(self.shape), doc="The number of dimensions.")

    @property
    def grad(self) -> SparseTensor | None:
        """The gradient of the values of a leaf, at the same indices."""
        found = self._entries.grad if self.is_leaf else None
        return None if found is None else self._with(found)

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        """Says whether the values require grad."""
        self._entries.requires_grad_(requires_grad)
        self.is_leaf = self._entries.is_leaf
        return self

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one number of it."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def numel(self) -> int:
        """The number of elements, stored or not."""
        return math.prod(self.shape)

    ndimension, nelement = dim, numel

    def sparse_dim(self) -> int:
        """The number of sparse dimensions."""
        return int(self._places.shape[0])

    def dense_dim(self) -> int:
        """The number of dense dimensions."""
        return self._entries.ndim - 1

    def is_coalesced(self) -> bool:
        """Whether the entries are in order and none is repeated."""
        return self._coalesced

    def is_floating_point(self) -> bool:
        """Whether the values are real floats."""
        return self._entries.is_floating_point()

    def is_complex(self) -> bool:
        """Whether the values are complex."""
        return self._entries.is_complex()

    def _nnz(self) -> int:
        return int(self._places.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def _indices(self) -> Tensor:
        result: Tensor = wrap(self._places)
        return result

    def _values(self) -> Tensor:
        return self._entries

    def indices(self) -> Tensor:
        """The indices of the entries: a row for each sparse dimension."""
        if not self._coalesced:
            raise RuntimeError(_UNCOALESCED.format("indices"))
        return self._indices()

    def values(self) -> Tensor:
        """The values of the entries."""
        if self.layout == sparse_coo and not self._coalesced:
            raise RuntimeError(_UNCOALESCED.format("values"))
        return self._entries

    @cached_property
    def _structure(self) -> Any:
        """The entries of a matrix, for products."""
        if self.sparse_dim() != 2 or self.dense_dim():
            raise RuntimeError(
                f"expected a sparse matrix, got {self.sparse_dim()} sparse and "
                f"{self.dense_dim()} dense dimensions"
            )
        return arrays.sparse.Structure(
            self._places[0], self._places[1], (self.shape[0], self.shape[1])
        )

    def crow_indices(self) -> Tensor:
        """For each row the number of entries before it, and the number of all at the end."""
        result: Tensor = wrap(self._structure.crow)
        return result

    def col_indices(self) -> Tensor:
        """The column of each entry."""
        result: Tensor = wrap(self._places[1])
        return result

    def ccol_indices(self) -> Tensor:
        """For each column the number of entries before it, and the number of all at the end."""
        result: Tensor = wrap(self._structure.transposed.crow)
        return result

    def row_indices(self) -> Tensor:
        """The row of each entry."""
        result: Tensor = wrap(self._places[0])
        return result

    # -- other forms -----------------------------------------------------------------------------

    @property
    def _sizes(self) -> tuple[int, ...]:
        """The sizes of the sparse dimensions."""
        return tuple(self.shape[: self.sparse_dim()])

    def coalesce(self) -> SparseTensor:
        """The same tensor with entries in order, those that are repeated added up."""
        if self._coalesced:
            return self
        numbers, which = arrays.sparse.distinct(arrays.sparse.flat(self._places, self._sizes))
        places = arrays.sparse.unflat(numbers, self._sizes)
        return SparseTensor(places, _added(self._entries, which, len(numbers)), self.shape, True)

    def to_dense(self, dtype: Any = None) -> Tensor:
        """The tensor with all its elements."""
        values = self._entries if dtype is None else self._entries.to(dtype)
        numbers = arrays.sparse.flat(self._places, self._sizes)
        return _added(values, numbers, math.prod(self._sizes)).reshape(self.shape)

    def to_sparse(self, layout: Any = sparse_coo) -> SparseTensor:
        """The tensor in another sparse layout."""
        if layout == sparse_csr:
            return self.to_sparse_csr()
        return SparseTensor(self._places, self._entries, self.shape,
                            self._coalesced or self.layout == sparse_csr)  # fmt: skip

    to_sparse_coo = to_sparse

    def to_sparse_csr(self) -> SparseTensor:
        """The matrix row by row."""
        ordered = self.to_sparse().coalesce()
        ordered._structure  # which refuses what is no matrix
        return ordered._with(ordered._entries, layout=sparse_csr)

    def detach(self) -> SparseTensor:
        """The same tensor without a history."""
        return self._with(self._entries.detach())

    def clone(self) -> SparseTensor:
        """A copy with the same history."""
        return self._with(self._entries.clone())

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """The tensor with values of another dtype."""
        return self._with(self._entries.to(*args, **kwargs))

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        """TypeError: there is no array."""
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    __array__ = numpy
    __array_ufunc__ = None  # NumPy leaves arithmetic to this class

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        """The tensor with two sparse dimensions exchanged."""
        order, rank = list(range(self.ndim)), self.ndim
        order[dim0 % rank], order[dim1 % rank] = dim1 % rank, dim0 % rank
        if max(dim0 % rank, dim1 % rank) >= self.sparse_dim():
            raise RuntimeError(f"transpose: {dim0} and {dim1} are not sparse dimensions")
        layouts = {sparse_csr: sparse_csc, sparse_csc: sparse_csr}
        return SparseTensor(self._places[order[: self.sparse_dim()]], self._entries,
                            [self.shape[d] for d in order],
                            layout=layouts.get(self.layout, sparse_coo))  # fmt: skip

    def t(self) -> SparseTensor:
        """The matrix with rows for columns."""
        return self.transpose(0, 1)

    T = mT = property(t)  # noqa: N815 - PyTorch's names

    def unsqueeze(self, dim: int) -> SparseTensor:
        """The tensor with a new sparse dimension of size 1."""
        dim %= self.ndim + 1
        shape = [*self.shape[:dim], 1, *self.shape[dim:]]
        places = arrays.sparse.with_zeros(self._places, dim)
        return SparseTensor(places, self._entries, shape, self._coalesced)

    def index_select(self, dim: int, index: Tensor) -> SparseTensor:
        """The slices at given indices of a sparse dimension."""
        dim %= self.ndim
        new, old = arrays.sparse.pairs(raw(index), self._places[dim])
        places = self._places[:, old]
        places[dim] = new
        shape = [*self.shape[:dim], len(index), *self.shape[dim + 1 :]]
        return SparseTensor(places, self._entries[wrap(old)], shape)

    def select(self, dim: int, index: int) -> Any:
        """The slice at one index of a dimension."""
        dim %= self.ndim
        if dim >= self.sparse_dim():
            kept = self._entries.select(dim - self.sparse_dim() + 1, index)
            return self._with(kept, shape=[*self.shape[:dim], *self.shape[dim + 1 :]])
        size = self.shape[dim]
        if not -size <= index < size:
            raise IndexError(
                f"select(): index {index} out of range for tensor of size {list(self.shape)} at "
                f"dimension {dim}"
            )
        old = arrays.sparse.positions_of(self._places[dim], index % size)
        places = arrays.sparse.without(self._places[:, old], dim)
        shape = [*self.shape[:dim], *self.shape[dim + 1 :]]
        found = SparseTensor(places, self._entries[wrap(old)], shape, self._coalesced)
        return found if found.sparse_dim() else found.to_dense()

    def __getitem__(self, index: Any) -> Any:
        found: Any = self
        for i in index if isinstance(index, tuple) else (index,):
            if not isinstance(i, int):
                raise NotImplementedError(
                    "a sparse tensor is indexed by integers: use index_select, or to_dense()"
                )
            found = found.select(0, i) if isinstance(found, SparseTensor) else found[i]
        return found

    def __repr__(self) -> str:
        names = {sparse_coo: ("indices",), sparse_csr: ("crow_indices", "col_indices"),
                 sparse_csc: ("ccol_indices", "row_indices")}[self.layout]  # fmt: skip
        parts = {n: self._places if n == "indices" else raw(getattr(self, n)()) for n in names}
        parts["values"] = arrays.asarray(self._entries.detach().numpy())
        said = [f"size={tuple(self.shape)}", f"nnz={self._nnz()}"]
        default = dtypes.get_default_dtype()
        if self.dtype not in (default, default.to_complex(), dtypes.int64, dtypes.bool_):
            said.append(f"dtype={self.dtype}")
        said.append(f"layout={self.layout}")
        if self.requires_grad:
            node = self.grad_fn.name() if self.grad_fn else (
                "SparseCooTensorWithDimsAndTensorsBackward0")  # fmt: skip
            said.append("requires_grad=True" if self.is_leaf else f"grad_fn=<{node}>")
        return _format.format_sparse(parts, said, self.layout == sparse_coo)

    # -- arithmetic ------------------------------------------------------------------------------

    def add(self, other: Any, *, alpha: Any = 1) -> SparseTensor:
        """The sum with a sparse tensor of the same shape."""
        if not isinstance(other, SparseTensor):
            raise RuntimeError(
                "add(sparse, dense) is not supported. Use add(dense, sparse) instead."
            )
        if self.shape != other.shape:
            raise RuntimeError(
                "add: expected sizes of 'self' and 'other' to match, but "
                f"{list(self.shape)} != {list(other.shape)}"
            )
        more = other._entries if isinstance(alpha, int) and alpha == 1 else other._entries * alpha
        if arrays.sparse.same(self._places, other._places):
            return self._with(self._entries + more)
        both = SparseTensor(arrays.concatenate((self._places, other._places), 1),
                            cat([self._entries, more], dim=0), self.shape)  # fmt: skip
        if self.layout != sparse_coo:
            return both.to_sparse_csr()
        return both.coalesce() if self._coalesced and other._coalesced else both

    def sub(self, other: Any, *, alpha: Any = 1) -> SparseTensor:
        """The difference to a sparse tensor of the same shape."""
        return self.add(other, alpha=-alpha)

    def _added_to(self, dense: Any, alpha: Any) -> Tensor:
        if not isinstance(dense, Tensor):
            return NotImplemented  # type: ignore[no-any-return]
        result: Tensor = dense + self.to_dense() * alpha
        return result

    def mul(self, other: Any) -> SparseTensor:
        """The product with a number, or with a tensor of the same shape, element by element."""
        if isinstance(other, SparseTensor):
            a, b = self.coalesce(), other.coalesce()
            numbers = [arrays.sparse.flat(x._places, x._sizes) for x in (a, b)]
            of_a, of_b = arrays.sparse.pairs(*numbers)
            values = a._entries[wrap(of_a)] * b._entries[wrap(of_b)]
            return SparseTensor(a._places[:, of_a], values, self.shape, True, self.layout)
        if isinstance(other, Tensor) and other.ndim:
            return self._with(self._entries * _taken(other.expand(self.shape), self._places))
        return self._with(self._entries * other)

    def div(self, other: Any, *, rounding_mode: Any = None) -> SparseTensor:
        """The quotient by a number."""
        if isinstance(other, SparseTensor) or (isinstance(other, Tensor) and other.ndim):
            raise RuntimeError(
                "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
                f"{list(other.shape)} for divisor)"
            )
        whole = self if rounding_mode is None else self.coalesce()
        return whole._with(whole._entries.div(other, rounding_mode=rounding_mode))

    def pow(self, exponent: Any) -> SparseTensor:
        """The power of each value."""
        whole = self.coalesce()
        return whole._with(whole._entries**exponent)

    def neg(self) -> SparseTensor:
        """The tensor with the other sign."""
        return self._with(-self._entries)

    def norm(self, p: Any = 2) -> Tensor:
        """The norm of all values."""
        result: Tensor = self.coalesce()._entries.norm(p)
        return result

    def sum(self, dim: Any = None, dtype: Any = None) -> Any:
        """The sum over all dimensions or some."""
        values = self._entries if dtype is None else self._entries.to(dtype)
        if dim is None:
            return values.sum()
        dims = sorted({d % self.ndim for d in (dim if isinstance(dim, (tuple, list)) else (dim,))})
        inside = [d - self.sparse_dim() + 1 for d in dims if d >= self.sparse_dim()]
        values = values.sum(inside) if inside else values
        shape = [n for d, n in enumerate(self.shape) if d not in dims]
        kept = [d for d in range(self.sparse_dim()) if d not in dims]
        if not kept:
            return values.sum(0)
        places = self._places[kept]
        whole = len(kept) == self.sparse_dim()
        return SparseTensor(places, values, shape, whole and self._coalesced).coalesce()

    def softmax(self, dim: int, dtype: Any = None) -> SparseTensor:
        """The softmax of the entries along a dimension, as if all others were minus infinity."""
        logs = self.log_softmax(dim, dtype)
        return logs._with(logs._entries.exp())

    def log_softmax(self, dim: int, dtype: Any = None) -> SparseTensor:
        """The logarithm of ``softmax``."""
        whole = (self if dtype is None else self.to(dtype)).coalesce()
        values, dim = whole._entries, dim % self.ndim
        if dim >= self.sparse_dim():
            return whole._with(values.log_softmax(dim - self.sparse_dim() + 1))
        others = [d for d in range(self.sparse_dim()) if d != dim]
        sizes = tuple(self.shape[d] for d in others)
        numbers, which = arrays.sparse.distinct(arrays.sparse.flat(whole._places[others], sizes))
        at, least = wrap(which), values.detach().new_full((), -math.inf)
        top = least.expand(len(numbers), *values.shape[1:]).index_reduce(
            0, at, values.detach(), "amax"
        )
        shifted = values - top[at]
        return whole._with(shifted - _added(shifted.exp(), which, len(numbers)).log()[at])

    def mm(self, other: Any) -> Any:
        """The product with a matrix or a vector; sparse if both are."""
        if isinstance(other, SparseTensor):
            return self._times_sparse(other)
        _check_product(self, other)
        columns = other if other.ndim == 2 else other[:, None]
        found: Tensor = Product.apply(self._entries, columns, self._structure)
        return found if other.ndim == 2 else found[:, 0]

    mv = matmul = mm

    def _times_sparse(self, other: SparseTensor) -> SparseTensor:
        (rows, inner), (same, columns) = self._places, other._places
        of_a, of_b = arrays.sparse.pairs(inner, same)
        places = arrays.stack((rows[of_a], columns[of_b]))
        values = self._entries[wrap(of_a)] * other._entries[wrap(of_b)]
        found = SparseTensor(places, values, (self.shape[0], other.shape[1])).coalesce()
        return found if self.layout == sparse_coo else found.to_sparse_csr()

    def bmm(self, mat2: Tensor) -> Tensor:
        """The products of the matrices of two batches."""
        parts = [self.select(0, i).mm(mat2[i]) for i in range(len(self))]
        result: Tensor = stack(parts, dim=0)
        return result

    def __rmatmul__(self, dense: Any) -> Any:
        if not isinstance(dense, Tensor):
            return NotImplemented
        found = self.t().mm(dense.mT if dense.ndim == 2 else dense)
        return found.mT if dense.ndim == 2 else found

    def sparse_mask(self, mask: SparseTensor) -> SparseTensor:
        """The entries at the indices of another sparse tensor, zero where there is none."""
        return mask._with(_taken(self.to_dense(), mask._places))

    def backward(self, gradient: Any = None, **options: Any) -> None:
        """Differentiates the values, given their gradient."""
        given = gradient._entries if isinstance(gradient, SparseTensor) else gradient
        self._entries.backward(given, **options)

    __add__ = add
    __sub__ = sub
    __mul__ = __rmul__ = mul
    __truediv__ = div
    __pow__ = pow
    __neg__ = neg
    __matmul__ = mm

    def __radd__(self, dense: Any) -> Tensor:
        return self._added_to(dense, 1)

    def __rsub__(self, dense: Any) -> Tensor:
        return self._added_to(dense, -1)

    # -- functions of tensors ----------------------------------------------------------------------

    @staticmethod
    def called(name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """A function of tensors that was called with sparse ones: ``torch.mm(a, b)``."""
        if name in _FUNCTIONS and not isinstance(args[0], SparseTensor):
            return _FUNCTIONS[name](*args, **named)
        method = getattr(SparseTensor, name, None)
        if not isinstance(args[0], SparseTensor) or method is None or name.startswith("_"):
            raise NotImplementedError(
                f"torch.{name} is not there for sparse tensors. Use it on x.to_dense()."
            )
        return method(*args, **named)


def _added(values: Tensor, which: Any, count: int) -> Tensor:
    """For each of ``count`` numbers, the sum of the values that have it."""
    zeros = wrap(arrays.zeros((count, *values.shape[1:]), raw(values).dtype))
    result: Tensor = zeros.index_add(0, wrap(which), values)
    return result


def _taken(dense: Tensor, places: Any) -> Tensor:
    result: Tensor = dense[tuple(wrap(row) for row in places)]
    return result


def _check_product(sparse: SparseTensor, dense: Any) -> None:
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


def joined(tensors: Sequence[SparseTensor], dim: int = 0) -> SparseTensor:
    """Sparse tensors one after the other along a sparse dimension."""
    first, before, places = tensors[0], 0, []
    dim %= first.ndim
    for x in tensors:
        places.append(arrays.sparse.shifted(x._places, dim, before))
        before += x.shape[dim]
    shape = [*first.shape[:dim], before, *first.shape[dim + 1 :]]
    values = cat([x._entries for x in tensors], dim=0)
    ordered = dim == 0 and all(x._coalesced for x in tensors)
    return SparseTensor(arrays.concatenate(places, 1), values, shape, ordered)


def _with_product(input: Tensor, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    result: Tensor = input * beta + (mat1 @ mat2) * alpha
    return result


def _dense_first(of: Callable[..., Any]) -> Callable[..., Any]:
    return lambda dense, sparse, alpha=1: of(sparse, dense, alpha)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": _dense_first(SparseTensor._added_to),
    "sub": _dense_first(lambda sparse, dense, alpha: sparse._added_to(dense, -alpha)),
    "mul": lambda dense, sparse: sparse.mul(dense),
    "mm": lambda dense, sparse: dense @ sparse,
    "matmul": lambda dense, sparse: dense @ sparse,
    "addmm": _with_product,
    "cat": joined,
    "stack": lambda tensors, dim=0: joined([x.unsqueeze(dim) for x in tensors], dim),
}


def _of_values(name: str, ordered: bool) -> Callable[..., SparseTensor]:
    def method(self: SparseTensor, *args: Any, **kwargs: Any) -> SparseTensor:
        whole = self.coalesce() if ordered else self
        return whole._with(getattr(whole._entries, name)(*args, **kwargs))

    method.__name__ = name
    method.__doc__ = f"``{name}`` of the values; what is not stored stays zero."
    return method


for _name in (
    "abs", "asin", "asinh", "atan", "atanh", "ceil", "deg2rad", "erf", "erfinv", "expm1", "floor",
    "frac", "isinf", "isnan", "isneginf", "isposinf", "log1p", "nan_to_num", "rad2deg", "relu",
    "round", "sgn", "sign", "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
):  # fmt: skip
    setattr(SparseTensor, _name, _of_values(_name, True))
for _name in (
    "bfloat16", "bool", "conj", "cpu", "cuda", "double", "float", "half", "int", "long",
):  # fmt: skip
    setattr(SparseTensor, _name, _of_values(_name, False))
