"""The public functions that view, permute and expand tensors."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.ops import linear
from retrograd.ops._arguments import invalid_combination
from retrograd.ops._dims import as_shape, infer, many_dims, numel, one_dim
from retrograd.ops._lifted import memory_of
from retrograd.ops._operation import constant, raw
from retrograd.ops._public import public


@public("method")
def view(self: Any, *shape: Any, dtype: Any = None, size: Any = None) -> Any:
    """Creates a view of the same elements in another shape, or of the same bytes as another dtype.

    Raises RuntimeError if the new shape would need a copy.

    Args:
        *shape: The new shape, as integers or as one sequence, or else a dtype. One size may be -1,
            which is inferred.
        dtype: The new dtype, passed by keyword.
        size: The new shape as a sequence, passed by keyword.

    Returns:
        A view of ``input``.

    Example:
        >>> torch.tensor([1.0, 2.0]).view(torch.int32)
        tensor([1065353216, 1073741824], dtype=torch.int32)
    """
    if size is not None:
        shape = (size,)
    inferred = _quickly_inferred(self, shape) if dtype is None else None
    if inferred is not None:
        return linear.view(self, size=inferred)
    wanted = shape[0] if len(shape) == 1 else dtype
    if isinstance(wanted, dtypes.dtype):
        return _view_as_dtype(self, wanted.numpy)
    inferred = infer(as_shape(shape), numel(self.shape))
    if not linear.viewable(self, inferred):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return linear.view(self, size=inferred)


def _quickly_inferred(self: Any, shape: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The shape to view a tensor in whose elements lie in reading order; None if it is not such a
    tensor, or if something is wrong: then it is for others to say what."""
    data = raw(self)
    if not isinstance(data, arrays.ndarray) or not data.flags.c_contiguous:
        return None
    if len(shape) == 1 and type(shape[0]) is not int:
        shape = shape[0]
    try:
        if min(shape, default=0) < -1:
            return None
        size: tuple[int, ...] = data.reshape(shape).shape
    except (TypeError, ValueError):
        return None
    return size


def _view_as_dtype(self: Any, dtype: Any) -> Any:
    data = arrays.writable(raw(self))
    old, new = data.dtype.itemsize, dtype.itemsize
    words = f"view {dtypes.type_word(data.dtype)} as {dtypes.type_word(dtype)}"
    words += " (different element sizes)"
    if old == new:
        return as_dtype(self.detach(), dtype=dtype)  # bits have no derivative
    if not data.ndim:
        raise RuntimeError(f"self.dim() cannot be 0 to {words}")
    step = arrays.strides(data)[-1]
    if step != 1:
        raise RuntimeError(f"self.stride(-1) must be 1 to {words}, but got {step}")
    if new > old:
        ratio, size = new // old, data.shape[-1]
        if size % ratio:
            raise RuntimeError(
                f"self.size(-1) must be divisible by {ratio} to {words}, but got {size}"
            )
        for d, stride in enumerate(arrays.strides(data)[:-1]):
            if stride % ratio:
                raise RuntimeError(
                    f"self.stride({d}) must be divisible by {ratio} to {words}, but got {stride}"
                )
    return as_dtype(self.detach(), dtype=dtype)


as_dtype = constant(
    "view_dtype", lambda self, dtype: arrays.layout.view_dtype(self, dtype), view=True,
    dtypes="free", batch="leading",
)  # fmt: skip


@public("torch method")
def reshape(self: Any, *sizes: Any, shape: Any = None) -> Any:
    """Gives a tensor another shape.

    Args:
        *sizes: The new shape, as integers or as one sequence. One size may be -1, which is
            inferred.
        shape: The new shape as a sequence, passed by keyword.

    Returns:
        A view of ``input`` if possible, or else a copy.

    Example:
        >>> torch.reshape(torch.arange(4), (2, -1))
        tensor([[0, 1],
                [2, 3]])
    """
    if shape is not None:
        sizes = (shape,)
    size = _quickly_inferred(self, sizes)
    if size is not None:
        return linear.view(self, size=size)
    return linear.reshape(self, infer(as_shape(sizes), numel(self.shape)))


@public("torch method")
def flatten(self: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Flattens a range of dimensions into one.

    Args:
        start_dim: The first dimension to flatten.
        end_dim: The last dimension to flatten.

    Returns:
        A view of ``input`` if possible, or else a copy.

    Example:
        >>> torch.flatten(torch.zeros(2, 3, 4), 1).shape
        torch.Size([2, 12])
    """
    shape = raw(self).shape
    ndim = len(shape)
    start, end = one_dim(start_dim, ndim), one_dim(end_dim, ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if ndim == 0:
        return linear.reshape(self, (1,))
    if start == end:
        return self
    joined = numel(shape[start : end + 1])  # not -1, which cannot be told of an empty tensor
    return linear.reshape(self, (*shape[:start], joined, *shape[end + 1 :]))


@public("torch method", alias="swapdims", in_place=True)
def transpose(self: Any, dim0: int, dim1: int) -> Any:
    """Swaps two dimensions.

    Args:
        dim0: The first dimension.
        dim1: The second dimension.

    Returns:
        A view of ``input`` with the two dimensions swapped.

    Example:
        >>> torch.transpose(torch.tensor([[1, 2], [3, 4]]), 0, 1)
        tensor([[1, 3],
                [2, 4]])
    """
    ndim = raw(self).ndim
    return linear.transpose(self, dim0=one_dim(dim0, ndim), dim1=one_dim(dim1, ndim))


@public("torch method", in_place=True)
def t(self: Any) -> Any:
    """Transposes a matrix.

    Args:
        input: A tensor with at most two dimensions.

    Returns:
        A view of ``input``, transposed if it has two dimensions.

    Example:
        >>> torch.t(torch.tensor([[1, 2], [3, 4]]))
        tensor([[1, 3],
                [2, 4]])
    """
    ndim = raw(self).ndim
    if ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {ndim}D")
    return linear.t(self)


@public("torch method")
def permute(self: Any, *order: Any, dims: Any = None) -> Any:
    """Reorders the dimensions.

    Args:
        *order: The dimensions in their new order, as integers or as one sequence.
        dims: The dimensions in their new order, passed by keyword.

    Returns:
        A view of ``input``.

    Example:
        >>> torch.permute(torch.zeros(2, 3, 4), (2, 0, 1)).shape
        torch.Size([4, 2, 3])
    """
    order, ndim = as_shape(order if dims is None else (dims,)), raw(self).ndim
    if len(order) != ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {ndim} is not equal "
            f"to len(dims) = {len(order)}"
        )
    plain = tuple(one_dim(d, ndim) for d in order)
    if len(set(plain)) != ndim:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return linear.permute(self, dims=plain)


@public("torch method", alias="moveaxis")
def movedim(self: Any, source: Any, destination: Any) -> Any:
    """Moves dimensions to new positions; the others keep their order.

    Args:
        source: The dimensions to move: an integer, or a sequence of them.
        destination: The new position of each.

    Returns:
        A view of ``input``.

    Example:
        >>> torch.movedim(torch.zeros(2, 3, 4), 0, 2).shape
        torch.Size([3, 4, 2])
    """
    ndim = len(self.shape)
    if hasattr(source, "__index__") != hasattr(destination, "__index__"):
        kinds = f"{type(source).__name__}, {type(destination).__name__}"
        raise TypeError(
            f"movedim() received an invalid combination of arguments - got ({kinds}), but expected "
            "one of:\n * (int source, int destination)\n"
            " * (tuple of ints source, tuple of ints destination)"
        )
    given = [as_shape((x,)) for x in (source, destination)]
    if len(given[0]) != len(given[1]):
        raise RuntimeError(
            "movedim: Invalid source or destination dims: source "
            f"({list(given[0])} dims) should contain the same number of dims as destination "
            f"({list(given[1])} dims)"
        )
    sources, targets = ([one_dim(d, ndim) for d in dims] for dims in given)
    for name, dims, said in (("source", sources, given[0]), ("destination", targets, given[1])):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(said)})")
    rest = iter(d for d in range(ndim) if d not in sources)
    moved = dict(zip(targets, sources, strict=True))
    order = tuple(moved[d] if d in moved else next(rest) for d in range(ndim))
    return linear.permute(self, dims=order)


@public("method")
def expand(self: Any, *sizes: Any, size: Any = None, implicit: bool = False) -> Any:
    """Expands dimensions of size 1 to larger sizes without copying.

    Args:
        *sizes: The new shape, as integers or as one sequence. -1 keeps the size of a dimension.
            There may be new leading dimensions.
        size: The new shape as a sequence, passed by keyword.
        implicit: Accepted for compatibility; it has no effect.

    Returns:
        A view of ``input``, in which expanded elements share memory.
    """
    target, have = as_shape(sizes if size is None else (size,)), raw(self).shape
    added = len(target) - len(have)
    if added < 0:
        raise RuntimeError(
            f"expand({_describe(self)}, size={list(target)}): the number of sizes provided "
            f"({len(target)}) must be greater or equal to the number of dimensions in the tensor "
            f"({len(have)})"
        )
    full = list(target)
    for d in range(len(full) - 1, -1, -1):
        own, wanted = have[d - added] if d >= added else 1, full[d]
        if wanted == -1 and d >= added:
            full[d] = wanted = own
        if wanted == -1:
            raise RuntimeError(
                "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing "
                f"dimension {d}"
            )
        if wanted < 0 or (own != 1 and own != wanted):
            raise RuntimeError(
                f"The expanded size of the tensor ({wanted}) must match the existing size ({own}) "
                f"at non-singleton dimension {d}.  Target sizes: {list(target)}.  "
                f"Tensor sizes: {list(have)}"
            )
    return linear.expand(self, size=tuple(full))


def _describe(self: Any) -> str:
    return f"torch.{arrays.dtypes.type_word(raw(self).dtype)}Tensor{{{list(self.shape)}}}"


@public("torch method")
def broadcast_to(self: Any, size: Sequence[int]) -> Any:
    """Broadcasts a tensor to a shape.

    Args:
        size: The shape.

    Returns:
        A view of ``input``.

    Example:
        >>> torch.broadcast_to(torch.tensor([1, 2]), (2, 2))
        tensor([[1, 2],
                [1, 2]])
    """
    return expand(self, size)


@public("torch method", in_place=True, axis=False)
def unsqueeze(self: Any, dim: int) -> Any:
    """Inserts a dimension of size 1.

    Args:
        dim: The position of the new dimension.

    Returns:
        A view of ``input``.

    Example:
        >>> torch.unsqueeze(torch.tensor([1, 2]), 1)
        tensor([[1],
                [2]])
    """
    return linear.unsqueeze(self, dim=one_dim(dim, raw(self).ndim + 1))


@public("torch method", in_place=True)
def squeeze(self: Any, dim: Any = None) -> Any:
    """Removes dimensions of size 1.

    Args:
        dim: The dimension or dimensions to remove, if their size is 1. By default, all dimensions
            of size 1.

    Returns:
        A view of ``input``.

    Example:
        >>> torch.squeeze(torch.zeros(1, 2, 1)).shape
        torch.Size([2])
    """
    shape = raw(self).shape
    ndim = len(shape)
    how, dims = linear.squeeze, tuple(range(ndim))
    if hasattr(dim, "__index__"):
        how, dims = linear.squeeze_dim, many_dims(operator.index(dim), ndim)
    elif dim is not None:
        if not isinstance(dim, (list, tuple)):
            raise invalid_combination("squeeze", self, dim)
        how, dims = linear.squeeze_dims, many_dims(dim, ndim) if dim else ()
    return how(self, dims=tuple([d for d in dims if shape[d] == 1]))


# -- complex tensors as real ones ------------------------------------------------------------


@public("torch")
def view_as_real(self: Any) -> Any:
    """Views a complex tensor as real numbers.

    Args:
        input: A complex tensor.

    Returns:
        A view with a new last dimension of size 2: the real and the imaginary parts.

    Example:
        >>> torch.view_as_real(torch.tensor([1 + 2j]))
        tensor([[1., 2.]])
    """
    if raw(self).dtype.kind != "c":
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return linear.view_as_real(self)


@public("torch")
def view_as_complex(self: Any) -> Any:
    """Views pairs of real numbers as complex numbers.

    Args:
        input: A floating-point tensor whose last dimension has size 2: the real and the imaginary
            parts.

    Returns:
        A complex view without the last dimension.

    Example:
        >>> torch.view_as_complex(torch.tensor([[1.0, 2.0]]))
        tensor([1.+2.j])
    """
    values = raw(self)
    if values.dtype.kind != "f":  # not bfloat16 either
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a "
            f"tensor of scalar type: {arrays.dtypes.type_word(values.dtype)}"
        )
    if not values.ndim:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if values.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if arrays.strides(values)[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(step % 2 for step in arrays.strides(values)[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    if arrays.layout.offset(arrays.writable(memory_of(self))) % 2:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    if values.dtype.itemsize == 2:
        raise NotImplementedError("complex numbers of halves (torch.complex32) are not supported")
    return linear.view_as_complex(self)


@public("torch")
def real(self: Any) -> Any:
    """Extracts the real part.

    Returns:
        A view of the real part. A real tensor is returned as it is.

    Example:
        >>> torch.real(torch.tensor([1 + 2j]))
        tensor([1.])
    """
    return _part(self, 0) if raw(self).dtype.kind == "c" else self


@public("torch")
def imag(self: Any) -> Any:
    """Extracts the imaginary part.

    Args:
        input: A complex tensor.

    Returns:
        A view of the imaginary part.

    Example:
        >>> torch.imag(torch.tensor([1 + 2j]))
        tensor([2.])
    """
    if raw(self).dtype.kind != "c":
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return _part(self, 1)


def _part(self: Any, index: int) -> Any:
    return linear.select(linear.view_as_real(self), dim=len(self.shape), index=index)
