"""``index_reduce``: reduces slices that have the same index."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._batching_declarations import Dims
from retrograd.ops._dims import numel
from retrograd.ops._operation import composite
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel
from retrograd.ops.shapes._index_arguments import tensor_argument
from retrograd.ops.shapes.gather_scatter import reduced_self, reduced_src, scatter_reduce_tensor
from retrograd.ops.shapes.index_select import check_slices


def _spread(index: Any, shape: Any, dim: int) -> Any:
    """The indices of slices as an index for each of their elements."""
    if not shape:
        return linear.reshape(index, ())
    column = linear.reshape(index, (numel(index.shape), *(1,) * (len(shape) - dim - 1)))
    return linear.expand(column, size=tuple(shape))


def _index_reduce(
    self: Raw, index: Raw, source: Raw, dim: int, reduce: str, include_self: bool
) -> Raw:
    indices = _spread(index, source.shape, dim)
    return arrays.sorting.reduce_along(self, indices, source, dim, reduce, include_self)


def _self_rule(
    g: Any, self: Any, index: Any, source: Any, result: Any, dim: int, reduce: str,
    include_self: bool,
) -> Any:  # fmt: skip
    indices = _spread(index, source.shape, dim)
    return reduced_self(g, self, indices, source, result, dim, reduce, include_self)


def _source_rule(
    g: Any, self: Any, index: Any, source: Any, result: Any, dim: int, reduce: str,
    include_self: bool,
) -> Any:  # fmt: skip
    shape = source.shape
    indices = _spread(index, shape, dim)
    return reduced_src(g, self, indices, source, result, shape, dim, reduce, include_self)


def _by_elements(
    self: Any, index: Any, source: Any, dim: int, reduce: str, include_self: bool
) -> Any:
    """Element by element: the index of a slice is that of all its elements."""
    indices = _spread(index, source.shape, dim)
    return scatter_reduce_tensor(
        self, indices, source, dim=dim, reduce=reduce, include_self=include_self
    )


index_reduce_tensor = composite(
    "index_reduce", _by_elements, _index_reduce, inputs=("self", "index", "source"),
    batch=Dims(shared=("index",)),
    rules={"self": _self_rule, "source": _source_rule}, check=kernel("index_func_"),
    writes="elements of others",
)  # fmt: skip


@public("torch method", in_place=True, out="same")
def index_reduce(
    input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """Reduces slices of ``source`` into slices of a copy of ``input``.

    Args:
        dim: The dimension along which slices are taken.
        index: For each slice of ``source``, the index of the slice of ``input`` that it is combined
            with. Indices may repeat.
        source: The slices to combine.
        reduce: ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``.
        include_self: Whether the elements of ``input`` take part in the reduction.

    Example:
        >>> x = torch.tensor([[1.0, 4.0], [2.0, 3.0]])
        >>> torch.zeros(1, 2).index_reduce(0, torch.tensor([0, 0]), x, "amax")
        tensor([[2., 4.]])
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    tensor_argument("index_reduce", "index", index, 2)
    tensor_argument("index_reduce", "source", source, 3)
    words = "index out of range in self"
    plain = check_slices("index_reduce", input, dim, index, source, words)
    return index_reduce_tensor(
        input, index, source, dim=plain, reduce=reduce, include_self=include_self
    )
