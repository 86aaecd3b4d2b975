"""``SparseTensor``: tensors that store only some of their entries."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NoReturn

from retrograd import arrays
from retrograd.arrays import _format, dtypes
from retrograd.autograd._wrap import SPARSE, wrap
from retrograd.ops._lifted import device_value
from retrograd.ops._operation import raw
from retrograd.sparse._arithmetic import Arithmetic, added, derived
from retrograd.sparse._layouts import (
    BLOCKED,
    COMPRESSED,
    TRANSPOSED,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    spelled,
)
from retrograd.tensor._memory_formats import layout as Layout
from retrograd.tensor._overrides import disabled
from retrograd.tensor._tensor import Size, Tensor

_UNCOALESCED = "Cannot get {} on an uncoalesced tensor, please call .coalesce() first"
ON_DEVICE = (
    "a sparse tensor cannot be on the device {}, only on the CPU. Move tensors to the CPU with "
    ".cpu(), or use dense tensors (to_dense())."
)


class NoArrayError(NotImplementedError, AttributeError):
    """An operation needs the array of a tensor, which a sparse tensor does not have."""


def _no_array(self: SparseTensor) -> NoReturn:
    raise NoArrayError(
        "this operation is not there for sparse tensors: use it on x.to_dense(), or on x.values(), "
        "of which a sparse tensor can be made inside of a function that is transformed"
    )


class SparseTensor(Arithmetic, Tensor):
    """A tensor that stores only some of its entries: their indices, which are fixed, and their
    values, which are a Tensor. Entries may have dense dimensions.

    It is made by ``sparse_coo_tensor``, ``sparse_csr_tensor`` and the like, or by ``to_sparse``.

    Args:
        indices: The indices of the entries, or of blocks of them: an array with a row for each
            sparse dimension, after a row for each batch dimension of a compressed layout.
        values: The values of the entries, one after the other.
        shape: The shape of the whole.
        coalesced: Whether the entries are in order and none is repeated.
        layout: The layout, such as ``sparse_coo``.
        leaf: Whether the values were made for this tensor.
    """

    __module__ = "retrograd.sparse"
    __torch_function__ = disabled
    is_cuda = is_mkldnn = is_quantized = is_nested = is_meta = False
    _data = _meta = _node = _version_counter = property(_no_array)
    layout: Layout
    _entries: Tensor
    _shape: Size

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls)

    def __init__(
        self, indices: Any, values: Tensor, shape: Sequence[int], coalesced: bool = False,
        layout: Layout = sparse_coo, leaf: bool = False,
    ) -> None:  # fmt: skip
        if device_value(values) is not None:
            raise RuntimeError(ON_DEVICE.format(values.device))
        self._index_array, self._entries, self._shape = indices, values, Size(shape)
        self._coalesced, self.layout = coalesced or indices.shape[1] < 2, layout
        self.is_sparse, self.is_sparse_csr = layout == sparse_coo, layout == sparse_csr
        self._leaf = leaf or not values.requires_grad
        # For a tensor that was made from a dense one: its dense form, whose history leads to the
        # elements that are not stored, too.
        self._whole: Callable[[], Tensor] | None = None

    def _made(self, *args: Any, **kwargs: Any) -> SparseTensor:
        return SparseTensor(*args, **kwargs)

    def _with(self, values: Tensor, **changed: Any) -> SparseTensor:
        """The same with other values."""
        given = {"shape": self.shape, "coalesced": self._coalesced, "layout": self.layout}
        return SparseTensor(self._index_array, values, **{**given, **changed})

    def _become(self, other: SparseTensor) -> SparseTensor:
        """Takes on the indices and values of another, for writes in place."""
        if self.requires_grad and self.is_leaf:
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation."
            )
        self.__dict__.pop("_structure", None)
        self.__dict__.update({k: v for k, v in other.__dict__.items() if k != "_structure"})
        return self

    # -- what it is ------------------------------------------------------------------------------

    shape = property(lambda self: self._shape, doc="The size of each dimension.")
    dtype = property(lambda self: self._entries.dtype, doc="The dtype of the values.")
    device = property(lambda self: self._entries.device, doc="The device of the values.")
    requires_grad = property(lambda self: self._entries.requires_grad,
                             doc="Whether the values require grad.")  # fmt: skip
    is_leaf = property(lambda self: self._leaf, doc="Whether the values are a leaf.")
    grad_fn = property(lambda self: None if self.is_leaf else self._entries.grad_fn,
                       doc="The node of the values.")  # fmt: skip
    data = property(lambda self: self.detach(), doc="The same tensor without a history.")
    ndim = property(lambda self: len(self._shape), doc="The number of dimensions.")

    def _gradient(self) -> SparseTensor | None:
        grad = self._entries.grad if self.is_leaf else None
        return None if grad is None else self._with(grad)

    grad = property(_gradient, doc="The gradient of the values of a leaf, at the same indices.")

    def _differentiated(self) -> Tensor:
        """What ``autograd.grad`` differentiates by."""
        if self._whole is not None:
            raise RuntimeError(
                "grad: this sparse tensor was made from a dense tensor that requires grad; "
                "differentiate by that, or make the sparse tensor from a detached one"
            )
        return self._entries

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        """Sets whether the values require grad."""
        self._entries.requires_grad_(requires_grad)
        self._leaf = self._entries.is_leaf
        return self

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def numel(self) -> int:
        """The number of elements, stored or not."""
        return math.prod(self.shape)

    ndimension, nelement = dim, numel

    @property
    def _batch(self) -> Size:
        """The sizes of the batch dimensions, which compressed layouts may have."""
        return self._shape[: len(self._index_array) - 2] if self.layout in COMPRESSED else Size()

    def sparse_dim(self) -> int:
        """The number of sparse dimensions."""
        return len(self._index_array) - len(self._batch)

    def dense_dim(self) -> int:
        """The number of dense dimensions."""
        return self._entries.ndim - 1 - len(self._block)

    def is_coalesced(self) -> bool:
        """Whether the entries are in order and none is repeated."""
        self._expect_coo("is_coalesced")
        return self._coalesced

    def is_floating_point(self) -> bool:
        """Whether the values are real floats."""
        return self._entries.is_floating_point()

    def is_complex(self) -> bool:
        """Whether the values are complex."""
        return self._entries.is_complex()

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """False: sparse tensors are not contiguous."""
        return False

    def element_size(self) -> int:
        """The number of bytes of one value."""
        return self._entries.element_size()

    def _nnz(self) -> int:
        return int(self._index_array.shape[1]) // max(math.prod(self._batch), 1)

    def __len__(self) -> int:
        return self._shape[0]

    def _indices(self) -> Tensor:
        result: Tensor = wrap(self._index_array)
        return result

    def _values(self) -> Tensor:
        return self._entries

    def _expect_coo(self, name: str) -> None:
        if self.layout != sparse_coo:
            raise RuntimeError(
                f"{name} expected sparse coordinate tensor layout but got {spelled(self.layout)}"
            )

    def indices(self) -> Tensor:
        """The indices of the entries: a row for each sparse dimension."""
        self._expect_coo("indices")
        if not self._coalesced:
            raise RuntimeError(_UNCOALESCED.format("indices"))
        return self._indices()

    def values(self) -> Tensor:
        """The values of the entries, or of blocks of them."""
        if self.layout == sparse_coo and not self._coalesced:
            raise RuntimeError(_UNCOALESCED.format("values"))
        if not self._batch:
            return self._entries
        return self._entries.reshape(*self._batch, self._nnz(), *self._entries.shape[1:])

    @cached_property
    def _structure(self) -> Any:
        """The entries of a matrix, for products."""
        if len(self._index_array) != 2 or self.dense_dim() or self._block:
            raise RuntimeError(
                f"expected a sparse matrix, got {len(self._batch)} batch, {self.sparse_dim()} "
                f"sparse and {self.dense_dim()} dense dimensions"
            )
        return arrays.sparse.Structure(
            self._index_array[0], self._index_array[1], (self.shape[0], self.shape[1])
        )

    def _compressed(self, name: str, dim: int, plain: bool) -> Tensor:
        """Where the rows or columns begin, or what is stored of the others."""
        if COMPRESSED.get(self.layout) != dim:
            words = ("row", "column")[dim]
            raise RuntimeError(
                f"{name} expected sparse {words} compressed tensor layout but got "
                f"{spelled(self.layout)}"
            )
        first = len(self._batch)
        which = self._index_array[first + (1 - dim if plain else dim)]
        which = which.reshape(*self._batch, self._nnz())
        starts = arrays.sparse.starts
        result: Tensor = wrap(which if plain else starts(which, self._sizes[first + dim]))
        return result

    def crow_indices(self) -> Tensor:
        """The row pointers: the index of the first entry of each row, and the number of entries."""
        return self._compressed("crow_indices", 0, False)

    def col_indices(self) -> Tensor:
        """The column of each entry."""
        return self._compressed("col_indices", 0, True)

    def ccol_indices(self) -> Tensor:
        """The column pointers: the index of the first entry of each column, and the number of
        entries."""
        return self._compressed("ccol_indices", 1, False)

    def row_indices(self) -> Tensor:
        """The row of each entry."""
        return self._compressed("row_indices", 1, True)

    # -- other forms -----------------------------------------------------------------------------

    @property
    def _block(self) -> tuple[int, ...]:
        """The shape of a block, where blocks are stored."""
        return tuple(self._entries.shape[1:3]) if self.layout in BLOCKED else ()

    @property
    def _sizes(self) -> tuple[int, ...]:
        """The sizes of the batch and sparse dimensions, in blocks where these are stored."""
        block = (1,) * len(self._batch) + (self._block or (1,) * self.sparse_dim())
        return tuple(n // b for n, b in zip(self.shape, block, strict=False))

    def coalesce(self) -> SparseTensor:
        """The same tensor with sorted entries and duplicates summed."""
        self._expect_coo("coalesce")
        if self._coalesced:
            return self
        numbers, which = arrays.sparse.distinct(arrays.sparse.flat(self._index_array, self._sizes))
        indices = arrays.sparse.unflat(numbers, self._sizes)
        made = SparseTensor(indices, added(self._entries, which, len(numbers)), self.shape, True)
        return self._passed_on(made)

    def _passed_on(self, made: SparseTensor) -> SparseTensor:
        """The same tensor in another form."""
        made._whole = self._whole
        return made

    def to_dense(self, dtype: Any = None, *, masked_grad: Any = None) -> Tensor:
        """The dense tensor. Gradients flow to the stored elements; with ``masked_grad=False``, and
        if the tensor was created from a dense one, to all elements."""
        if self._whole is not None and masked_grad is False:
            return self._whole().to(self.dtype if dtype is None else dtype, copy=True)
        values = self._entries if dtype is None else self._entries.to(dtype)
        numbers = arrays.sparse.flat(self._index_array, self._sizes)
        dense = added(values, numbers, math.prod(self._sizes))
        if self._block:
            first = len(self._batch)
            dense = dense.reshape(*self._sizes, *dense.shape[1:]).transpose(first + 1, first + 2)
        return dense.reshape(self.shape)

    def to_sparse(
        self, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None,
        dense_dim: Any = None,
    ) -> SparseTensor:  # fmt: skip
        """The tensor in another sparse layout."""
        if sparse_dim is not None and sparse_dim != self.sparse_dim():
            raise RuntimeError(
                f"to_sparse: conversion from {spelled(self.layout)} to Sparse with sparse_dim "
                "argument !=self.sparse_dim() is not supported"
            )
        if layout is not None and layout != sparse_coo:
            if layout not in COMPRESSED:
                raise RuntimeError(f"to_sparse: {layout} is not a sparse layout")
            return self._to_compressed(layout, blocksize, len(self._batch))
        if self._block:
            indices = arrays.sparse.inside_blocks(self._index_array, self._block)
            values = self._entries.flatten(0, 2)
            return self._passed_on(SparseTensor(indices, values, self.shape))
        if self.layout == sparse_coo:
            return self
        ordered = self._coalesced and self.layout != sparse_csc
        return self._passed_on(SparseTensor(self._index_array, self._entries, self.shape, ordered))

    to_sparse_coo = to_sparse

    def _to_compressed(
        self, layout: Any, blocksize: Any = None, batch_dims: int | None = None
    ) -> SparseTensor:
        first = len(self._batch) if batch_dims is None else batch_dims
        made = self._compress(layout, blocksize, first)
        if first and not arrays.sparse.is_even(made._index_array[:first], made._batch):
            raise RuntimeError("Expect the same number of specified elements per batch.")
        return self._passed_on(made)

    def _compress(self, layout: Any, blocksize: Any, first: int) -> SparseTensor:
        """A matrix, or a batch of them, row by row or column by column, by entries or by blocks.
        ``first`` is the number of batch dimensions."""
        name = f"to_{str(layout).removeprefix('torch.')}"
        if len(self._index_array) != first + 2:
            raise RuntimeError(
                f"{name}: conversion from {spelled(self.layout)} to {spelled(layout)} for input "
                "tensors with sparse_dim()!=2 is not supported"
            )
        if layout == self.layout and blocksize in (None, self._block):
            return self
        dim = COMPRESSED[layout]
        plain = self.to_sparse()
        if layout not in BLOCKED:
            if dim == 0:
                return plain.coalesce()._with(plain.coalesce()._entries, layout=layout)
            order = [*range(first), first + 1, first]
            transposed = plain.transpose(first, first + 1).coalesce()
            rows = transposed._index_array[order]
            return SparseTensor(rows, transposed._entries, self.shape, True, layout)
        block = _block_of(name, blocksize, self.shape[first : first + 2])
        indices, which = arrays.sparse.blocks(plain._index_array, plain._sizes, block, dim)
        values = added(plain._entries, which, indices.shape[1] * math.prod(block))
        values = values.reshape(-1, *block, *plain._entries.shape[1:])
        return SparseTensor(indices, values, self.shape, True, layout)

    def to_sparse_csr(self, dense_dim: Any = None) -> SparseTensor:
        """The matrix in CSR layout (compressed rows)."""
        return self._to_compressed(sparse_csr)

    def to_sparse_csc(self, dense_dim: Any = None) -> SparseTensor:
        """The matrix in CSC layout (compressed columns)."""
        return self._to_compressed(sparse_csc)

    def to_sparse_bsr(self, blocksize: Any, dense_dim: Any = None) -> SparseTensor:
        """The matrix in BSR layout (compressed rows of blocks)."""
        return self._to_compressed(sparse_bsr, tuple(blocksize))

    def to_sparse_bsc(self, blocksize: Any, dense_dim: Any = None) -> SparseTensor:
        """The matrix in BSC layout (compressed columns of blocks)."""
        return self._to_compressed(sparse_bsc, tuple(blocksize))

    def detach(self) -> SparseTensor:
        """The same tensor without a history."""
        return self._with(self._entries.detach())

    def detach_(self) -> SparseTensor:
        """Detaches the values from the graph, in place."""
        self._entries, self._leaf, self._whole = self._entries.detach(), True, None
        return self

    def clone(self, *, memory_format: Any = None) -> SparseTensor:
        """A copy with the same history."""
        return self._passed_on(self._with(self._entries.clone()))

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """The tensor with values of another dtype."""
        if args and isinstance(args[0], SparseTensor):
            args = (args[0].dtype, *args[1:])
        values = self._entries.to(*args, **kwargs)
        if values is self._entries:
            return self
        return derived(self._with(values), lambda x: x.to(*args, **kwargs), self)

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        copied = self._with(copy.deepcopy(self._entries, memo), leaf=self.is_leaf)
        memo[id(self)] = copied
        return copied

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        given = self._index_array, self._entries, tuple(self.shape), self._coalesced
        return SparseTensor, (*given, self.layout, self._leaf)

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        """Raises a TypeError: a sparse tensor is not an array."""
        raise TypeError(
            f"can't convert {spelled(self.layout)} layout tensor to numpy. Use Tensor.to_dense() "
            "first."
        )

    __array__ = numpy
    __array_ufunc__: Any = None  # NumPy leaves arithmetic to this class

    def permute(self, *dims: Any) -> SparseTensor:
        """The tensor with its sparse dimensions in another order."""
        given = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
        order = [d % self.ndim for d in given]
        first, count = len(self._batch), len(self._index_array)
        if sorted(order) != list(range(self.ndim)):
            raise RuntimeError(f"permute: {list(given)} is no order of {self.ndim} dimensions")
        if order[:first] + order[count:] != [*range(first), *range(count, self.ndim)]:
            raise RuntimeError(
                "permute: batch and dense dimensions of a sparse tensor stay in their order"
            )
        swaps = order[first : first + 2] == [first + 1, first]
        values = self._entries.transpose(1, 2) if self._block and swaps else self._entries
        shape = [self.shape[d] for d in order]
        made = SparseTensor(self._index_array[order[:count]], values, shape,
                            layout=TRANSPOSED[self.layout] if swaps else self.layout)  # fmt: skip
        return derived(made, lambda x: x.permute(order), self)

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        """The tensor with two sparse dimensions swapped."""
        order, rank = list(range(self.ndim)), self.ndim
        order[dim0 % rank], order[dim1 % rank] = dim1 % rank, dim0 % rank
        kinds = ["Batch"] * len(self._batch) + ["Sparse"] * self.sparse_dim() + ["Dense"] * rank
        one, other = dim0 % rank, dim1 % rank
        if kinds[one] != kinds[other]:
            raise RuntimeError(
                "transpose(): can only transpose dimensions of the same type (Batch, Sparse, "
                f"Dense), got {one}({kinds[one]}) and {other}({kinds[other]})"
            )
        return self.permute(order)

    def t(self) -> SparseTensor:
        """The transposed matrix."""
        if self.ndim > 2:
            raise RuntimeError(
                f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D"
            )
        return self.transpose(0, 1)

    T = property(t)
    mT = property(lambda self: self.transpose(-2, -1))  # noqa: N815 - PyTorch's name

    def unsqueeze(self, dim: int) -> SparseTensor:
        """The tensor with a new sparse dimension of size 1."""
        self._expect_coo("unsqueeze")
        dim %= self.ndim + 1
        shape = [*self.shape[:dim], 1, *self.shape[dim:]]
        indices = arrays.sparse.with_zeros(self._index_array, dim)
        made = SparseTensor(indices, self._entries, shape, self._coalesced)
        return derived(made, lambda x: x.unsqueeze(dim), self)

    def index_select(self, dim: int, index: Tensor) -> SparseTensor:
        """The slices at given indices of a sparse dimension."""
        self._expect_coo("index_select")
        dim %= self.ndim
        new, old = arrays.sparse.pairs(raw(index), self._index_array[dim])
        indices = self._index_array[:, old]
        indices[dim] = new
        shape = [*self.shape[:dim], len(index), *self.shape[dim + 1 :]]
        made = SparseTensor(indices, self._entries[wrap(old)], shape)
        return derived(made, lambda x: x.index_select(dim, index), self)

    def select(self, dim: int, index: int) -> Any:
        """The slice at one index of a dimension."""
        dim %= self.ndim
        first, rank = len(self._batch), len(self._index_array)
        if first and first <= dim < rank:
            raise RuntimeError(
                "select(): selecting sparse dimensions is not supported for batched sparse "
                "compressed tensors."
            )
        if self._block and not first:
            return self.to_sparse().select(dim, index)
        if dim >= rank:
            kept = self._entries.select(dim - rank + 1, index)
            made = self._with(kept, shape=[*self.shape[:dim], *self.shape[dim + 1 :]])
            return derived(made, lambda x: x.select(dim, index), self)
        size = self.shape[dim]
        if not -size <= index < size:
            raise IndexError(
                f"select(): index {index} out of range for tensor of size {list(self.shape)} at "
                f"dimension {dim}"
            )
        old = arrays.sparse.positions_of(self._index_array[dim], index % size)
        indices = arrays.sparse.without(self._index_array[:, old], dim)
        shape = [*self.shape[:dim], *self.shape[dim + 1 :]]
        layout = self.layout if first else sparse_coo
        slice_ = SparseTensor(indices, self._entries[wrap(old)], shape, self._coalesced, layout)
        derived(slice_, lambda x: x.select(dim, index), self)
        return slice_ if len(indices) else slice_.to_dense()

    def __getitem__(self, index: Any) -> Any:
        result: Any = self
        for i in index if isinstance(index, tuple) else (index,):
            if not isinstance(i, int):
                raise NotImplementedError(
                    "a sparse tensor is indexed by integers: use index_select, or to_dense()"
                )
            result = result.select(0, i) if isinstance(result, SparseTensor) else result[i]
        return result

    def __iter__(self) -> Any:
        return iter([self.select(0, i) for i in range(len(self))])

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        names = {None: ("indices",), 0: ("crow_indices", "col_indices"),
                 1: ("ccol_indices", "row_indices")}[COMPRESSED.get(self.layout)]  # fmt: skip
        parts = {n: self._index_array if n == "indices" else raw(getattr(self, n)()) for n in names}
        values = self._entries if self.layout == sparse_coo else self.values()
        parts["values"] = arrays.asarray(values.detach()._array())
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


def _block_of(name: str, blocksize: Any, shape: Size) -> tuple[int, int]:
    if blocksize is None or len(blocksize) != 2:
        raise RuntimeError(f"{name}: blocksize must be given as two integers, but got {blocksize}")
    block = int(blocksize[0]), int(blocksize[1])
    if min(block) < 1 or shape[0] % block[0] or shape[1] % block[1]:
        raise RuntimeError(
            f"{name}: Tensor size({shape[0]}, {shape[1]}) needs to be divisible by "
            f"blocksize({block[0]}, {block[1]})"
        )
    return block


SPARSE.add(SparseTensor)  # operators of Tensor leave it to those of this class
