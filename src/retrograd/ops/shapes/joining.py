"""Splitting, stacking and grids: tensor_split, hstack, block_diag, meshgrid, combinations."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops import linear
from retrograd.ops._arguments import check_int
from retrograd.ops._batching import BatchLevel
from retrograd.ops._batching_declarations import own
from retrograd.ops._dims import as_shape, is_integer, numel, one_dim
from retrograd.ops._operation import Linear, Operation, raw
from retrograd.ops._public import named, public
from retrograd.ops._sections import like
from retrograd.ops._words import CUT
from retrograd.ops.shapes import reshaping, slicing
from retrograd.ops.shapes.masks import masked_select_at

# -- splitting -------------------------------------------------------------------------------


@public("torch method")
def tensor_split(
    input: Any, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None,
    sections: Any = None, tensor_indices_or_sections: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Splits a tensor into pieces of nearly equal size, or at given indices.

    Args:
        indices_or_sections: The number of pieces, or the indices along ``dim`` at which to split: a
            sequence or a tensor of integers.
        dim: The dimension to split.
        indices: The indices at which to split, passed by keyword.
        sections: The number of pieces, passed by keyword.
        tensor_indices_or_sections: The number or the indices as a tensor, passed by keyword.

    Returns:
        A tuple of views of ``input``.

    Example:
        >>> [len(t) for t in torch.tensor_split(torch.arange(7), 3)]
        [3, 2, 2]
    """
    given = [indices_or_sections, indices, sections, tensor_indices_or_sections]
    how = next(x for x in given if x is not None)
    if not input.shape:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    if hasattr(how, "shape"):
        how = _as_numbers(how)
    plain = one_dim(dim, len(input.shape))
    size = input.shape[plain]
    if hasattr(how, "__index__"):
        count = operator.index(how)
        if count <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {count}")
        least, longer = divmod(size, count)
        starts = [n * least + min(n, longer) for n in range(count + 1)]
    else:
        starts = [0, *as_shape((how,)), size]
    before = (slice(None),) * plain
    pieces = [(*before, slice(start, end)) for start, end in pairwise(starts)]
    return tuple([linear.slice_(input, where=piece) for piece in pieces])


def _as_numbers(how: Any) -> Any:
    values = raw(how)
    if values.dtype != arrays.int64:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
            f"{dtypes.type_word(values.dtype)}"
        )
    if values.ndim > 1:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
            f"one-dimensional tensor, but got a tensor with {values.ndim} dims"
        )
    return values.tolist()


def _splitter(
    name: str, least: int, dim: int, example: str
) -> Callable[..., tuple[Any, ...]]:
    """``hsplit`` and its kin: ``tensor_split`` along one dimension, into equal parts only."""

    def split(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
        ndim = len(input.shape)
        if ndim < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor "
                f"with {ndim} dimensions!"
            )
        along = 0 if ndim == 1 else dim
        if hasattr(indices_or_sections, "__index__"):
            count, size = operator.index(indices_or_sections), input.shape[along]
            if count == 0 or size % count:
                raise RuntimeError(
                    f"torch.{name} attempted to split along dimension {along}, but the size of the "
                    f"dimension {size} is not divisible by the split_size {count}!"
                )
        return tensor_split(input, indices_or_sections, along)

    where = "dimension 1, or dimension 0 if it is 1-D" if least == 1 else f"dimension {dim}"
    doc = f"""Splits a tensor along {where}.

Args:
    input: The input tensor, with at least {least} dimension{"s"[: least > 1]}.
    indices_or_sections: The number of pieces of equal size, or the indices at which to split.

Returns:
    A tuple of views of ``input``.

Example:
    >>> {example}
"""
    return public("torch method")(named(split, name, doc))


hsplit = _splitter(
    "hsplit", 1, 1, "torch.hsplit(torch.tensor([1, 2]), 2)\n    (tensor([1]), tensor([2]))"
)
vsplit = _splitter(
    "vsplit", 2, 0, "torch.vsplit(torch.tensor([[1], [2]]), 2)\n    (tensor([[1]]), tensor([[2]]))"
)
dsplit = _splitter(
    "dsplit", 3, 2,
    "torch.dsplit(torch.tensor([[[1, 2]]]), 2)\n    (tensor([[[1]]]), tensor([[[2]]]))",
)  # fmt: skip


# -- stacking --------------------------------------------------------------------------------


def _at_least(
    ndim: int, change: Callable[[Any], Any], summary: str, example: str
) -> Callable[..., Any]:
    """``atleast_1d`` and its kin: ``change`` of each tensor."""

    def atleast(*tensors: Any) -> Any:
        if len(tensors) == 1 and hasattr(tensors[0], "shape"):
            return change(tensors[0])
        if len(tensors) == 1:
            tensors = tuple(tensors[0])
        return tuple([change(x) for x in tensors])

    name = f"atleast_{ndim}d"
    doc = f"""{summary}

    Args:
        *tensors: One or several tensors, or one sequence of tensors.

    Returns:
        A tensor if one was given, or else a tuple of tensors.

    Example:
        >>> torch.{name}{example}
    """
    return public("torch")(named(atleast, name, doc))


def _with_2d(x: Any) -> Any:
    if len(x.shape) == 1:
        return linear.unsqueeze(x, dim=0)
    return x if x.shape else reshaping.reshape(x, (1, 1))


def _with_3d(x: Any) -> Any:
    if len(x.shape) == 1:
        return linear.unsqueeze(linear.unsqueeze(x, dim=0), dim=2)
    if len(x.shape) == 2:
        return linear.unsqueeze(x, dim=2)
    return x if x.shape else reshaping.reshape(x, (1, 1, 1))


atleast_1d = _at_least(
    1, lambda x: x if x.shape else reshaping.reshape(x, (1,)),
    "Reshapes zero-dimensional tensors to one dimension of size 1.",
    "(torch.tensor(5))\n        tensor([5])",
)  # fmt: skip
atleast_2d = _at_least(
    2, _with_2d, "Gives tensors with fewer than two dimensions leading dimensions of size 1.",
    "(torch.tensor([1, 2]))\n        tensor([[1, 2]])",
)  # fmt: skip
atleast_3d = _at_least(
    3, _with_3d, "Gives tensors with fewer than three dimensions further dimensions of size 1.",
    "(torch.tensor([1, 2])).shape\n        torch.Size([1, 2, 1])",
)  # fmt: skip


def _tensors(name: str, tensors: Any) -> list[Any]:
    listed = slicing.listed_tensors(name, tensors)
    if not listed:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return listed


@public("torch", out="joined, apart")
def hstack(tensors: Sequence[Any]) -> Any:
    """Concatenates tensors horizontally: along dimension 1, or along dimension 0 if they are 1-D.

    Returns:
        The concatenated tensor.

    Example:
        >>> torch.hstack((torch.tensor([1, 2]), torch.tensor([3])))
        tensor([1, 2, 3])
    """
    listed = [atleast_1d(x) for x in _tensors("hstack", tensors)]
    return slicing.cat(listed, 0 if len(listed[0].shape) == 1 else 1)


@public("torch torch.row_stack", out="joined, apart")
def vstack(tensors: Sequence[Any]) -> Any:
    """Concatenates tensors vertically: along dimension 0, 1-D tensors as rows.

    Returns:
        The concatenated tensor, with at least two dimensions.

    Example:
        >>> torch.vstack((torch.tensor([1, 2]), torch.tensor([3, 4])))
        tensor([[1, 2],
                [3, 4]])
    """
    return slicing.cat([_with_2d(x) for x in _tensors("vstack", tensors)], 0)


@public("torch", out="joined, apart")
def dstack(tensors: Sequence[Any]) -> Any:
    """Concatenates tensors in depth: along dimension 2.

    Returns:
        The concatenated tensor, with at least three dimensions.

    Example:
        >>> torch.dstack((torch.tensor([1, 2]), torch.tensor([3, 4])))
        tensor([[[1, 3],
                 [2, 4]]])
    """
    return slicing.cat([_with_3d(x) for x in _tensors("dstack", tensors)], 2)


@public("torch", out="joined, apart")
def column_stack(tensors: Sequence[Any]) -> Any:
    """Concatenates tensors horizontally, 1-D tensors as columns.

    Returns:
        The concatenated tensor, with at least two dimensions.

    Example:
        >>> torch.column_stack((torch.tensor([1, 2]), torch.tensor([3, 4])))
        tensor([[1, 3],
                [2, 4]])
    """
    listed = _tensors("column_stack", tensors)
    columns = [x if len(x.shape) > 1 else linear.reshape(x, (numel(x.shape), 1)) for x in listed]
    return hstack(columns)


def _block_diag(tensors: Sequence[Raw]) -> Raw:
    if not tensors:  # what PyTorch gives
        return arrays.zeros((1, 0), dtypes.default_float())
    blocks = [x.reshape((1,) * (2 - x.ndim) + x.shape) for x in tensors]
    shape = tuple(sum(b.shape[d] for b in blocks) for d in (-2, -1))
    out = arrays.zeros((*blocks[0].shape[:-2], *shape), blocks[0].dtype)
    for block, where in zip(blocks, _corners([b.shape for b in blocks]), strict=True):
        out[(..., *where)] = block
    return out


def _corners(shapes: Sequence[Sequence[int]]) -> list[tuple[slice, slice]]:
    """Where blocks of some shapes are, one after the other down the diagonal."""
    result, row, column = [], 0, 0
    for shape in shapes:
        height, width = (1, 1, *shape)[-2:]
        result.append((slice(row, row + height), slice(column, column + width)))
        row, column = row + height, column + width
    return result


def _block_diag_transpose(g: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    before = (slice(None),) * (len(g.shape) - 2)
    pieces = zip(_corners(shapes), shapes, strict=True)
    return [
        linear.reshape(linear.slice_(g, where=(*before, *where)), shape) for where, shape in pieces
    ]


@own("entries of any rank are matrices before the batch is in front")
def _block_diag_of_all(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    # A batch outside of this one has made all blocks matrices, with its dimension in front.
    blocks = [(level.stacked(x), (1,) * (2 - len(x.shape)) + tuple(x.shape)) for x in args]
    return op([linear.reshape(x, (level.size, *shape)) for x, shape in blocks])


block_diagonal = Linear(
    "block_diag", _block_diag, inputs=("tensors",), joint=_block_diag_transpose, dtypes="promote",
    batch=_block_diag_of_all,
)  # fmt: skip


@public("torch")
def block_diag(*tensors: Any) -> Any:
    """Creates a block-diagonal matrix.

    Args:
        *tensors: The blocks: tensors with at most two dimensions.

    Returns:
        A matrix with the blocks on its diagonal and zeros elsewhere.

    Example:
        >>> torch.block_diag(torch.tensor([[1, 2]]), torch.tensor(3))
        tensor([[1, 2, 0],
                [0, 0, 3]])
    """
    if not tensors:
        return block_diagonal.function([])  # type: ignore[misc]
    for number, x in enumerate(slicing.listed_tensors("block_diag", tensors)):
        if len(x.shape) > 2:
            raise RuntimeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input "
                f"{number} has {len(x.shape)} dimensions"
            )
    return block_diagonal(list(tensors))


# -- grids -----------------------------------------------------------------------------------


@public("torch")
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Any, ...]:
    """Creates coordinate grids from vectors.

    Args:
        *tensors: 1-D tensors, or one sequence of them.
        indexing: ``"ij"`` if the dimensions of the grids are in the order of the vectors, or
            ``"xy"`` if the first two are swapped.

    Returns:
        A tuple of tensors, one for each vector, all of the shape of the grid.

    Example:
        >>> torch.meshgrid(torch.tensor([1, 2]), torch.tensor([3, 4]), indexing="ij")[0]
        tensor([[1, 1],
                [2, 2]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    listed = slicing.listed_tensors("meshgrid", tensors)
    if not listed:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for x in listed:
        if raw(x).dtype != raw(listed[0]).dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    for x in listed:
        if len(x.shape) > 1:
            raise RuntimeError(
                f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {x}"
            )
    order = list(range(len(listed)))
    if indexing == "xy" and len(listed) > 1:
        order[:2] = (1, 0)
    sizes = [numel(x.shape) for x in listed]
    shape = tuple(sizes[n] for n in order)
    return tuple([
        linear.expand(
            linear.view(x, size=tuple(sizes[n] if m == n else 1 for m in order)), size=shape
        )
        for n, x in enumerate(listed)
    ])  # fmt: skip


def _check_vectors(tensors: Sequence[Any]) -> None:
    for x in tensors:
        if hasattr(x, "shape") and len(x.shape) != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(x.shape)}")


@public("torch")
def cartesian_prod(*tensors: Any) -> Any:
    """Computes the Cartesian product of vectors.

    Args:
        *tensors: 1-D tensors.

    Returns:
        A matrix with one row for each combination of elements. It is a vector if only one is given.

    Example:
        >>> torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([3, 4])).tolist()
        [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    _check_vectors(tensors)
    if len(tensors) == 1 and hasattr(tensors[0], "shape"):
        return tensors[0]
    return slicing.stack([reshaping.flatten(grid) for grid in meshgrid(list(tensors))], 1)


@public("torch")
def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """Computes all combinations of the elements of a vector.

    Args:
        input: A 1-D tensor.
        r: The number of elements in a combination.
        with_replacement: Whether an element may occur more than once in a combination.

    Returns:
        A matrix with one row for each combination.

    Example:
        >>> torch.combinations(torch.tensor([1, 2, 3])).tolist()
        [[1, 2], [1, 3], [2, 3]]
    """
    check_int("combinations", "r", 2, r)
    _check_vectors([input])
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty((0,))
    mask = arrays.sorting.rising(input.shape[0], r, with_replacement)
    return slicing.stack([masked_select_at(grid, mask) for grid in meshgrid([input] * r)], 1)


# -- pieces that are no views ----------------------------------------------------------------

# As split, but for all that anybody can tell no views: whoever calls these vouches for it.
unsafe_pieces, unsafe_pieces_of_sizes = (
    Linear(
        name, linear._split, inputs=("self",), rules={"self": linear._split_transpose}, outputs=(),
        words=CUT,
    )
    for name in ("unsafe_split", "unsafe_split_with_sizes")
)  # fmt: skip


@public("torch method")
def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Splits a tensor into pieces of given sizes.

    Args:
        split_sizes: The sizes of the pieces along ``dim``, which must add up to its size.
        dim: The dimension to split.

    Returns:
        A tuple of views of ``input``.

    Example:
        >>> torch.split_with_sizes(torch.arange(3), [1, 2])
        (tensor([0]), tensor([1, 2]))
    """
    return slicing.split(input, as_shape((split_sizes,)), dim)


@public("torch method")
def unsafe_split(input: Any, split_size: int, dim: int = 0) -> tuple[Any, ...]:
    """Splits a tensor into pieces that autograd does not treat as views of it.

    The result is as that of ``split``. If a piece is modified in place, ``input`` must not be used
    again.

    Args:
        split_size: The size of each piece. The last one may be smaller.
        dim: The dimension to split.

    Returns:
        A tuple of tensors.

    Example:
        >>> torch.unsafe_split(torch.arange(3), 2)
        (tensor([0, 1]), tensor([2]))
    """
    if not hasattr(split_size, "__index__"):
        raise TypeError(
            "unsafe_split(): argument 'split_size' (position 2) must be int, not "
            f"{type(split_size).__name__}"
        )
    sizes, plain = slicing.sizes_of_pieces(input, operator.index(split_size), dim)
    return tuple(unsafe_pieces(input, sizes=sizes, dim=plain))


@public("torch method")
@like(unsafe_split)
def unsafe_split_with_sizes(
    input: Any, split_sizes: Sequence[int], dim: int = 0
) -> tuple[Any, ...]:
    """Splits a tensor into pieces of given sizes that autograd does not treat as views of it.

    The result is as that of ``split_with_sizes``. If a piece is modified in place, ``input`` must
    not be used again.

    Args:
        split_sizes: The sizes of the pieces along ``dim``, which must add up to its size.

    Example:
        >>> torch.unsafe_split_with_sizes(torch.arange(3), [1, 2])
        (tensor([0]), tensor([1, 2]))
    """
    sizes, plain = slicing.checked_sizes(input, as_shape((split_sizes,)), dim)
    return tuple(unsafe_pieces_of_sizes(input, sizes=sizes, dim=plain))


@public("torch method")
@like(unsafe_split)
def unsafe_chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """Splits a tensor into a number of pieces that autograd does not treat as views of it.

    The result is as that of ``chunk``. If a piece is modified in place, ``input`` must not be used
    again.

    Args:
        chunks: The number of pieces.

    Example:
        >>> torch.unsafe_chunk(torch.arange(3), 2)
        (tensor([0, 1]), tensor([2]))
    """
    size = slicing.size_of_chunks(input, chunks, dim)
    if is_integer(size):
        return unsafe_split(input, size, dim)
    return unsafe_split_with_sizes(input, size, dim)
