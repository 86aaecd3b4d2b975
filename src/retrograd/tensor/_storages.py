"""Methods about the memory of a tensor as a whole: storages, other memory, other sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd.autograd._history import check_write
from retrograd.autograd._unrecorded import note_change
from retrograd.autograd._versions import version_of
from retrograd.autograd._wrap import Plug
from retrograd.ops._dims import as_shape, numel
from retrograd.ops._lifted import Lifted
from retrograd.ops._public import public
from retrograd.tensor._creation import device_like
from retrograd.tensor._memory import empty_strided
from retrograd.tensor._tensor import Tensor


def _memory(self: Tensor) -> Any:
    if isinstance(self._data, Lifted):
        self._data.refuse("its storage")
    self._data = arrays.writable(self._data)
    return self._data


@public("method")
def untyped_storage(self: Tensor) -> Any:
    """Returns a description of the memory that the tensor is part of, as bytes.

    Returns:
        An object with ``data_ptr()``, ``nbytes()`` and ``tolist()``.
    """
    from retrograd.tensor._legacy import UntypedStorage

    return UntypedStorage(_memory(self))


@public("method", alias="_typed_storage")
def storage(self: Tensor) -> Any:
    """Returns a description of the memory that the tensor is part of, as elements of its dtype.

    Returns:
        An object with ``data_ptr()``, ``size()`` and ``tolist()``.
    """
    from retrograd.tensor._legacy import TypedStorage

    return TypedStorage(_memory(self))


@public("method")
def set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None,
         stride: Any = None) -> Tensor:  # fmt: skip
    """Makes the tensor refer to other memory.

    Args:
        source: A tensor of the same dtype, or a storage. By default, the tensor becomes empty.
        storage_offset: The index of the first element in the storage.
        size: The shape. The default is that of ``source``.
        stride: The strides. The default is row-major order.

    Returns:
        The tensor itself, which shares the memory of ``source``.
    """
    check_write(self, False)
    if source is None:
        data = arrays.empty((0,), self._data.dtype)
    elif isinstance(source, Tensor):
        if source._data.dtype != self._data.dtype:
            raise RuntimeError(
                f"Could not set tensor of type {source.dtype} to a tensor of type {self.dtype}"
            )
        data = _memory(source)
    else:
        data = source._values(self._data.dtype)
    if size is not None:
        shape = as_shape((size,))
        steps = tuple(numel(shape[d + 1 :]) for d in range(len(shape)))
        start = storage_offset - arrays.layout.offset(data)
        wanted = steps if stride is None else as_shape((stride,))
        data = arrays.layout.as_strided(data, shape, wanted, start)
    before = self._data.shape, self._data.dtype
    self._data = data
    version_of(self).bump()
    note_change(self, before)
    return self


@public("method")
def resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Changes the shape, and allocates more memory if needed.

    Args:
        *sizes: The shape. Elements beyond those that there were are not initialized.
        memory_format: Accepted for compatibility; the result is in row-major order.

    Returns:
        The tensor itself.
    """
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    shape = as_shape(sizes)
    data = _memory(self)
    resized = arrays.layout.within(arrays.layout.memory(data), data, shape) if data.size else None
    if resized is None:
        resized = arrays.empty(shape, data.dtype)
        kept = min(data.size, resized.size)
        arrays.write(arrays.reshape(resized, (-1,))[:kept], arrays.reshape(data, (-1,))[:kept])
    self._data = resized
    version_of(self).bump()
    return self


@public("torch method")
def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """Changes the shape to that of another tensor. See ``resize_``.

    Args:
        the_template: The other tensor.
        memory_format: Accepted for compatibility; the result is in row-major order.

    Returns:
        The tensor itself.

    Example:
        >>> torch.resize_as_(torch.ones(4), torch.zeros(2, 2)).shape
        torch.Size([2, 2])
    """
    return resize_(self, *the_template.shape)


@public("method")
def new_empty_strided(
    self: Tensor, size: Sequence[int], stride: Sequence[int], *, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Creates an uninitialized tensor with a given stride, of the dtype of this one.

    Args:
        size: The shape of the result.
        stride: The stride of each dimension, in elements.
        dtype: The dtype of the result; by default, that of ``input``.
        layout: Accepted for compatibility; every tensor is strided.
        device: The device of the result.
        pin_memory: Accepted for compatibility; it has no effect.
        requires_grad: Whether operations on the result are recorded for autograd.
    """
    kind = self.dtype if dtype is None else dtype
    return empty_strided(size, stride, dtype=kind, device=device_like(self, device),
                         requires_grad=requires_grad)  # fmt: skip


@public("method")
def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Applies a Python function to each element, in place.

    Args:
        callable: A function of a number.

    Returns:
        The tensor itself.
    """
    return _mapped(self, callable, self)


@public("method")
def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Applies a Python function to pairs of elements of this and another tensor, in place.

    Args:
        tensor: The other tensor, which is broadcast.
        callable: A function of two numbers.

    Returns:
        The tensor itself.
    """
    return _mapped(self, callable, self, tensor)


def _mapped(self: Tensor, function: Callable[..., Any], *others: Tensor) -> Tensor:
    name = "apply_" if len(others) == 1 else "map_"
    if any(x.requires_grad for x in others):
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use "
                           f"var.detach().{name}() instead.")  # fmt: skip
    flat = [x.expand(self.shape).reshape(-1).tolist() for x in others]
    values = [function(*given) for given in zip(*flat, strict=True)]
    with_shape = arrays.reshape(arrays.array(values, self._data.dtype), self._data.shape)
    memory = _memory(self)
    arrays.write(memory, with_shape)
    version_of(self).bump()
    return self


@public("method")
def share_memory_(self: Tensor) -> Tensor:
    """Moves the elements to shared memory: forked processes, and processes that receive the tensor
    through ``multiprocessing``, see each other's writes. Views taken before keep the old memory.

    Returns:
        The tensor itself.

    Example:
        >>> torch.ones(2).share_memory_().is_shared()
        True
    """
    if isinstance(self._data, Lifted) or is_shared(self):
        return self
    if self._is_view():
        raise RuntimeError("share_memory_: this is a view; share the tensor that it is a view of")
    self._data = arrays.sharing.shared(_memory(self))
    return self


@public("method")
def is_shared(self: Tensor) -> bool:
    """Tests whether the elements are in shared memory.

    Returns:
        True after ``share_memory_``.

    Example:
        >>> torch.ones(2).is_shared()
        False
    """
    return arrays.sharing.memory_of(self._data) is not None


@public("method")
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Returns the tensor itself: pinned memory is not used.

    Args:
        device: Accepted for compatibility.

    Returns:
        The tensor itself.
    """
    return self


@public("method")
def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Tests whether the memory is pinned, for copying to a GPU.

    Args:
        device: Accepted for compatibility.

    Returns:
        False.
    """
    return False


# -- sparse matrices -------------------------------------------------------------------------


@public("method")
def to_sparse(self: Tensor, sparse_dim: int | None = None, *, layout: Any = None,
              blocksize: Any = None, dense_dim: int | None = None) -> Any:  # fmt: skip
    """Converts the tensor to a sparse tensor of its nonzero elements.

    Args:
        sparse_dim: The number of sparse dimensions; by default all.
        layout: The layout; by default ``torch.sparse_coo``.
        blocksize: The shape of blocks, for layouts that have them.
        dense_dim: The number of dense dimensions, for compressed layouts.

    Returns:
        A ``sparse.SparseTensor``, whose values lead back to this tensor.
    """
    return Plug.sparse().to_sparse(
        self, sparse_dim, layout=layout, blocksize=blocksize, dense_dim=dense_dim
    )


def _compressing(name: str, what: str, blocked: bool) -> None:
    """Declares ``to_sparse_csr`` and the like."""

    def by_entries(self: Tensor, dense_dim: int | None = None) -> Any:
        sparse = Plug.sparse()
        return sparse.to_sparse(self, layout=getattr(sparse, name), dense_dim=dense_dim)

    def by_blocks(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Any:
        sparse = Plug.sparse()
        layout = getattr(sparse, name)
        return sparse.to_sparse(self, layout=layout, blocksize=blocksize, dense_dim=dense_dim)

    function = by_blocks if blocked else by_entries
    function.__name__ = function.__qualname__ = f"to_{name}"
    block = "        blocksize: The shape of a block.\n" if blocked else ""
    function.__doc__ = f"""Converts a matrix to a sparse matrix in {what}.

    Args:
{block}        dense_dim: The number of dense dimensions; by default none.

    Returns:
        A ``sparse.SparseTensor``, whose values lead back to this tensor.
    """
    public("method")(function)


_compressing("sparse_csr", "CSR layout (compressed rows)", False)
_compressing("sparse_csc", "CSC layout (compressed columns)", False)
_compressing("sparse_bsr", "BSR layout (compressed rows of blocks)", True)
_compressing("sparse_bsc", "BSC layout (compressed columns of blocks)", True)


@public("method")
def sparse_mask(self: Tensor, mask: Any) -> Any:
    """Returns the elements at the indices of a sparse tensor.

    Args:
        mask: The sparse tensor, of which the values do not matter.

    Returns:
        A ``sparse.SparseTensor`` with the indices of ``mask``.
    """
    return Plug.sparse().masked(self, mask)


@public("method")
def to_dense(self: Tensor) -> Tensor:
    """Returns the tensor itself, which is dense.

    Example:
        >>> torch.ones(1).to_dense()
        tensor([1.])
    """
    return self
