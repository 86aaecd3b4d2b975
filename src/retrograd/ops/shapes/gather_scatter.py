"""Elements by index along a dimension: gather, scatter, scatter_add, scatter_reduce.

Indices are tensors of integers. They are inputs without a derivative: a node saves them, and like
every saved value they must not be written to before they are used.
"""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops import linear
from retrograd.ops._arguments import element
from retrograd.ops._batching_declarations import Dims
from retrograd.ops._dims import broadcast, numel, one_dim
from retrograd.ops._lifted import bare
from retrograd.ops._operands import is_lifted
from retrograd.ops._operation import Linear, Operation, TensorLike, raw
from retrograd.ops._public import public
from retrograd.ops.comparisons import eq, logical_and, ne
from retrograd.ops.copies import index_for, to_dtype, zeros_like
from retrograd.ops.linear import gather as gather_at
from retrograd.ops.piecewise import clamp, where
from retrograd.ops.shapes._index_arguments import (
    check_in_bounds,
    is_index,
    nonempty_size,
    size_along,
    tensor_argument,
)

# -- what goes where -------------------------------------------------------------------------


def _cut(x: Any, shape: Any) -> Any:
    """The corner of ``x`` that an index of ``shape`` speaks of."""
    shape = tuple(shape)
    if tuple(x.shape) == shape:
        return x
    if len(x.shape) != len(shape):  # no dimension is as good as one, of which the first counts
        return linear.reshape(linear.slice_(x, where=(slice(0, 1),)) if x.shape else x, shape)
    return linear.slice_(x, where=tuple(slice(0, s) for s in shape))


def _uncut(g: Any, shape: Any) -> Any:
    """The transpose of ``_cut``: zeros for what was left out."""
    shape = tuple(shape)
    if tuple(g.shape) == shape:
        return g
    if not shape:
        return linear.reshape(g, shape)
    g = linear.reshape(g, (1,)) if not g.shape else g
    return linear.put_zeros(g, shape=shape, where=tuple(slice(0, s) for s in g.shape))


def _gathered_gradient(g: Any, index: Any, shape: Any, dim: int) -> Any:
    return _uncut(gather_at(g, index, dim=dim), shape)


def _scatter(self: Raw, index: Raw, src: Raw, dim: int) -> Raw:
    return arrays.sorting.put_along(self, index, _cut(src, index.shape), dim)


def _scatter_number(self: Raw, index: Raw, dim: int, value: Any) -> Raw:
    return arrays.sorting.put_along(self, index, element(value, self.dtype), dim)


def _scatter_add(self: Raw, index: Raw, src: Raw, dim: int) -> Raw:
    return self + arrays.sorting.add_along(self.shape, index, _cut(src, index.shape), dim)


scatter_number: Linear = Linear(
    "scatter_number", _scatter_number, inputs=("self", "index"), node="ScatterBackward1",
    offset="value", batch=Dims(),
    rules={"self": lambda g, index, dim: scatter_number(g, index, dim=dim, value=0)},
)  # fmt: skip
scatter_tensor = Linear(
    "scatter", _scatter, inputs=("self", "index", "src"), batch=Dims(),
    writes="elements of others",
    rules={"self": lambda g, index, dim: scatter_number(g, index, dim=dim, value=0),
           "src": _gathered_gradient},
)  # fmt: skip
scatter_add_tensor = Linear(
    "scatter_add", _scatter_add, inputs=("self", "index", "src"), batch=Dims(),
    writes="elements of others",
    rules={"self": lambda g: g, "src": _gathered_gradient},
    words="The input gets the gradient unchanged; src gets the gradient at its indices.",
)  # fmt: skip


# -- scatter_reduce --------------------------------------------------------------------------


def _scatter_reduce(
    self: Raw, index: Raw, src: Raw, dim: int, reduce: str, include_self: bool
) -> Raw:
    cut = _cut(src, index.shape)
    return arrays.sorting.reduce_along(self, index, cut, dim, reduce, include_self)


def _as_numbers(mask: Any, like: Any) -> Any:
    return to_dtype(mask, dtype=raw(like).dtype)


def _sent(values: Any, index: Any, shape: Any, dim: int) -> Any:
    """For each element how much is sent to it."""
    indices = index_for(index, values)
    return linear.scatter_zeros(values, shape=tuple(shape), dim=dim, indices=indices)


def _share(
    g: Any, self: Any, index: Any, src: Any, result: Any, dim: int, include_self: bool
) -> Any:
    """The gradient of an extreme, divided by how many of the elements that take part reach it."""
    self, src, result = raw(self), raw(src), raw(result)  # which are only compared
    reached = eq(_cut(src, index.shape), gather_at(result, raw(index), dim=dim))
    own = _as_numbers(eq(self, result), result)
    if not include_self:
        own = scatter_number(own, raw(index), dim=dim, value=0)
    return g / (own + _sent(_as_numbers(reached, result), index, self.shape, dim))


def _mean_share(g: Any, index: Any, dim: int, include_self: bool) -> Any:
    """The gradient of a mean, divided by how many elements it is of."""
    dtype = arrays.real(arrays.zeros((), raw(g).dtype)).dtype
    ones = to_dtype(zeros_like(raw(index)) + 1, dtype=dtype)  # where the indices are
    count = _sent(ones, index, g.shape, dim) + int(include_self)
    return g / clamp(count, min=1, max=None)


def reduced_self(
    g: Any, self: Any, index: Any, src: Any, result: Any, dim: int, reduce: str, include_self: bool
) -> Any:
    if reduce == "prod":
        zero = eq(self, 0)
        nonzero = where(zero, zeros_like(self) + 1, self)
        product = scatter_reduce_tensor(
            nonzero, index, src, dim=dim, reduce="prod", include_self=include_self
        )
        g = g * product / nonzero
    elif reduce == "mean":
        g = _mean_share(g, index, dim, include_self)
    elif reduce != "sum":
        share = _share(g, self, index, src, result, dim, include_self)
        g = share * _as_numbers(eq(raw(self), raw(result)), result)
    return g if include_self else scatter_number(g, index, dim=dim, value=0)


def reduced_src(
    g: Any, self: Any, index: Any, src: Any, result: Any, shape: Any, dim: int, reduce: str,
    include_self: bool,
) -> Any:  # fmt: skip
    if reduce == "prod":
        return _uncut(_prod_src(g, self, index, src, result, dim, include_self), shape)
    if reduce == "mean":
        g = _mean_share(g, index, dim, include_self)
    elif reduce != "sum":
        share = _share(g, self, index, src, result, dim, include_self)
        extreme = gather_at(raw(result), raw(index), dim=dim)
        reached = eq(raw(_cut(src, index.shape)), extreme)
        return _uncut(gather_at(share, index, dim=dim) * _as_numbers(reached, result), shape)
    return _gathered_gradient(g, index, shape, dim)


def _prod_src(
    g: Any, self: Any, index: Any, src: Any, result: Any, dim: int, include_self: bool
) -> Any:
    """The product of all the others, by division where an element is not zero. A zero is left out
    where it is the only one. Where there are several, all products are zero, but they move with
    those that are left out, and further derivatives need that."""
    src = _cut(src, index.shape)
    zero = eq(raw(src), 0)
    zeros_sent = _sent(_as_numbers(zero, src), index, self.shape, dim)
    only = logical_and(zero, eq(gather_at(zeros_sent, raw(index), dim=dim), 1))
    may_move = isinstance(g, TensorLike) or any(map(is_lifted, (g, self, index, src)))
    several = may_move and bool(arrays.any(bare(ne(zero, only))))
    left_out = zero if several else only
    ones = zeros_like(src) + 1
    of_others = scatter_reduce_tensor(
        self, index, where(left_out, ones, src), dim=dim, reduce="prod", include_self=include_self
    )
    of_others = gather_at(g * of_others, index, dim=dim)
    if several:
        of_others = of_others * _other_zeros(src, zero, index, self.shape[dim], dim)
    divided = gather_at(g * result, index, dim=dim) / where(zero, ones, src)
    return where(left_out, of_others, divided)


def _other_zeros(src: Any, zero: Any, index: Any, groups: int, dim: int) -> Any:
    """For each zero, the product of the other zeros that are sent to the same index."""
    from retrograd.ops.reductions.scans import product_of_fellows

    size = index.shape[dim]
    line = (size, *(1,) * (len(index.shape) - dim - 1))
    alone = arrays.arange(groups, groups + size).reshape(line)  # a group of its own
    return product_of_fellows(src, where(zero, to_dtype(raw(index), dtype=alone.dtype), alone), dim)


scatter_reduce_tensor: Operation = Operation(
    "scatter_reduce", _scatter_reduce, inputs=("self", "index", "src"), batch=Dims(),
    writes="elements of others",
    rules={"self": reduced_self, "src": reduced_src},
    reason="reduces groups of elements of any size, which no other operation does",
)  # fmt: skip


# -- what users call -------------------------------------------------------------------------


@public("torch method", out="same, apart")
def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """Gathers elements along a dimension by their indices.

    For a 2-D tensor and ``dim=1``, ``result[i, j] = input[i, index[i, j]]``.

    Args:
        dim: The dimension that is indexed.
        index: A tensor of integers with as many dimensions as ``input``.
        sparse_grad: Accepted for compatibility. Gradients are always dense.

    Returns:
        A tensor of the shape of ``index``.

    Example:
        >>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0, 0], [1, 0]]))
        tensor([[1, 1],
                [4, 3]])
    """
    tensor_argument("gather", "index", index, 2)
    indices, shape = raw(index), raw(input).shape
    plain = one_dim(dim, len(shape))
    if indices.size:
        if not is_index(indices):
            raise RuntimeError("gather(): Expected dtype int32/int64 for index")
        if max(len(shape), 1) != max(indices.ndim, 1):
            raise RuntimeError(
                "Index tensor must have the same number of dimensions as input tensor"
            )
        for d, (have, size) in enumerate(zip(indices.shape, shape, strict=False)):
            if d != plain and have > size:
                raise RuntimeError(
                    f"Size does not match at dimension {d} expected index {list(indices.shape)} to "
                    f"be no larger than self {list(shape)} apart from dimension {plain}"
                )
        check_in_bounds(indices, plain, size_along(shape, plain))
    if not indices.size and not (plain < max(indices.ndim, 1) and is_index(indices)):
        (nothing,) = _of_rank(len(shape), index)
        return linear.reshape(gather_at(input, nothing, dim=plain), tuple(index.shape))
    return gather_at(input, index, dim=plain)


def _of_rank(rank: int, index: Any, *sources: Any) -> tuple[Any, ...]:
    """An index and what it places. PyTorch takes an empty index of any rank and dtype, as one that
    places nothing; it, and what it might have placed, are brought to the rank they should have."""
    rank = max(rank, 1)
    if raw(index).size or (
        is_index(raw(index)) and all(raw(x).ndim == rank for x in (index, *sources))
    ):
        return (index, *sources)
    nothing = (0,) * rank
    flat = [linear.reshape(src, (numel(src.shape),)) for src in sources]
    cut = [linear.reshape(_cut(src, (0,)), nothing) for src in flat]
    return (arrays.zeros(nothing, arrays.int64), *cut)


def _check_scatter(self: Any, dim: int, index: Any, src: Any) -> int:
    """Check an index and its source tensor; returns the non-negative dimension."""
    indices, shape = raw(index), raw(self).shape
    plain = one_dim(dim, len(shape))
    if indices.size and not is_index(indices):
        raise RuntimeError("scatter(): Expected dtype int32/int64 for index")
    if src is not None and raw(src).dtype != raw(self).dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    if not indices.size:
        return plain
    if indices.shape != shape or (src is not None and raw(src).shape != shape):
        _check_sizes(shape, plain, indices.shape, None if src is None else raw(src).shape)
    check_in_bounds(indices, plain, size_along(shape, plain))
    return plain


def _check_sizes(
    shape: tuple[int, ...], dim: int, index: tuple[int, ...], src: tuple[int, ...] | None
) -> None:
    """Whether an index is small enough for a tensor, and for what it places there."""
    if max(len(shape), 1) != max(len(index), 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    dims = range(max(len(shape), 1))
    sizes = [size_along(index, d) for d in dims]
    fits = all(d == dim or sizes[d] <= size_along(shape, d) for d in dims)
    words = f"Expected index {list(index)} to be no larger than self {list(shape)} apart "
    words += f"from dimension {dim}"
    if src is not None:
        fits = fits and all(sizes[d] <= nonempty_size(src, d) for d in dims)
        if max(len(src), 1) != len(dims):
            raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
        words += f" and to be no larger size than src {list(src)}"
    if not fits:
        raise RuntimeError(words)


@public("torch method", in_place=True, out="same")
def scatter(
    input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None,
    reduce: str | None = None,
) -> Any:  # fmt: skip
    """Writes elements along a dimension of a copy of ``input``, by their indices.

    For 2-D tensors and ``dim=1``, ``result[i, index[i, j]] = src[i, j]``.

    Args:
        dim: The dimension that is indexed.
        index: A tensor of integers with as many dimensions as ``input``.
        src: The elements: a tensor at least as large as ``index``, or a number.
        value: A number to write, passed by keyword.
        reduce: ``"add"`` or ``"multiply"`` combines the elements with those of ``input`` instead of
            replacing them.

    Example:
        >>> torch.zeros(2, 3).scatter(1, torch.tensor([[2], [0]]), 1.0)
        tensor([[0., 0., 1.],
                [1., 0., 0.]])
    """
    given = src if value is None else value
    tensor_argument("scatter", "index", index, 2)
    if not hasattr(given, "shape") and not isinstance(given, (bool, int, float, complex)):
        raise TypeError(
            "scatter() received an invalid combination of arguments - got (int, Tensor, "
            f"{type(given).__name__}), but expected one of:"
        )
    is_tensor = hasattr(given, "shape")
    plain = _check_scatter(input, dim, index, given if is_tensor else None)
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    if is_tensor:
        index, given = _of_rank(len(input.shape), index, given)
    else:
        (index,) = _of_rank(len(input.shape), index)
    if reduce is None:
        if is_tensor:
            return scatter_tensor(input, index, given, dim=plain)
        return scatter_number(input, index, dim=plain, value=given)
    if not is_tensor:
        number = element(given, raw(input).dtype)
        given = arrays.full(tuple(index.shape), number, raw(input).dtype)
    if reduce == "add":
        return scatter_add_tensor(input, index, given, dim=plain)
    return scatter_reduce_tensor(input, index, given, dim=plain, reduce="prod", include_self=True)


@public("torch method", in_place=True, out="same")
def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """Adds elements along a dimension of a copy of ``input``, by their indices.

    For 2-D tensors and ``dim=1``, ``result[i, index[i, j]] += src[i, j]``.

    Args:
        dim: The dimension that is indexed.
        index: A tensor of integers with as many dimensions as ``input``. Indices may repeat.
        src: The elements to add, a tensor at least as large as ``index``.

    Example:
        >>> torch.zeros(3).scatter_add(0, torch.tensor([0, 2, 0]), torch.tensor([1., 2., 3.]))
        tensor([4., 0., 2.])
    """
    tensor_argument("scatter_add", "index", index, 2)
    tensor_argument("scatter_add", "src", src, 3)
    plain = _check_scatter(input, dim, index, src)
    index, src = _of_rank(len(input.shape), index, src)
    return scatter_add_tensor(input, index, src, dim=plain)


_REDUCTIONS = {"sum": "sum", "prod": "prod", "mean": "mean", "amax": "amax", "amin": "amin",
               "max": "amax", "min": "amin"}  # fmt: skip


@public("torch method", in_place=True, out="same")
def scatter_reduce(
    input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """Reduces elements of ``src`` into a copy of ``input``, by their indices along a dimension.

    Args:
        dim: The dimension that is indexed.
        index: For each element of ``src``, the index along ``dim`` of the element of ``input`` that
            it is combined with. Indices may repeat.
        src: The elements to combine.
        reduce: ``"sum"``, ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``.
        include_self: Whether the elements of ``input`` take part in the reduction.

    Example:
        >>> x, to = torch.tensor([1., 5., 3.]), torch.tensor([0, 1, 0])
        >>> torch.zeros(2).scatter_reduce(0, to, x, "amax")
        tensor([3., 5.])
    """
    tensor_argument("scatter_reduce", "index", index, 2)
    tensor_argument("scatter_reduce", "src", src, 3)
    plain = _check_scatter(input, dim, index, src)
    if reduce not in _REDUCTIONS:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    how = _REDUCTIONS[reduce]
    if raw(input).dtype.kind == "c" and how in ("amax", "amin"):
        word = dtypes.type_word(raw(input).dtype)
        raise NotImplementedError(
            f"\"scatter_gather_tensor_cpu_reduce_{how}\" not implemented for '{word}'"
        )
    index, src = _of_rank(len(input.shape), index, src)
    return scatter_reduce_tensor(
        input, index, src, dim=plain, reduce=how, include_self=include_self
    )


@public("torch method", out="same, apart")
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """Selects elements along a dimension, such as by the result of ``argsort``.

    Args:
        indices: A tensor of integers. Its other dimensions are broadcast with those of ``input``.
        dim: The dimension that is indexed. By default, the input is flattened.

    Returns:
        A tensor with the selected elements.

    Example:
        >>> x = torch.tensor([[3, 1], [2, 4]])
        >>> torch.take_along_dim(x, torch.argsort(x, dim=1), dim=1)
        tensor([[1, 3],
                [2, 4]])
    """
    index_array = raw(indices)
    if index_array.dtype != arrays.int64:
        raise RuntimeError(
            "torch.take_along_dim(): dtype of indices should be Long but got "
            f"{dtypes.type_word(index_array.dtype)}"
        )
    if dim is None:
        flat = linear.reshape(input, (numel(input.shape),))
        return gather(flat, 0, linear.reshape(indices, (numel(indices.shape),)))
    have, want = len(input.shape), index_array.ndim
    if have != want:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, "
            f"but got {have} dimensions for input, and {want} dimensions for indices"
        )
    plain = one_dim(dim, have)
    shape, wanted = list(input.shape), list(index_array.shape)
    both = list(broadcast((*shape[:plain], 1, *shape[plain + 1 :]),
                          (*wanted[:plain], 1, *wanted[plain + 1 :])))  # fmt: skip
    size = shape[plain]
    wrapped = indices % size if size else indices
    return gather(
        linear.expand(input, size=(*both[:plain], size, *both[plain + 1 :])), plain,
        linear.expand(wrapped, size=(*both[:plain], wanted[plain], *both[plain + 1 :])),
    )  # fmt: skip
