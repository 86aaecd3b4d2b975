"""Several backward passes as one, with a batch of initial gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd.autograd._engine import Root
from retrograd.autograd._levels import as_tensor, is_of, opened
from retrograd.autograd._wrap import wrap
from retrograd.ops._batching import Batched, BatchLevel
from retrograd.ops._lifted import device_value
from retrograd.ops._operation import TensorLike


def gradients_of_rows(
    roots: Sequence[Root], given: Sequence[Any], run: Callable[[list[Root]], list[Any]]
) -> list[Any]:
    """What ``run``, a backward pass, finds for each row of the gradients given, stacked."""
    sizes = [g.shape[0] for g in given if g is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if len(set(sizes)) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    with opened(BatchLevel(sizes[0])) as level:
        lifted = [
            (node, number, g if start is None else _batch(level, g))
            for (node, number, g), start in zip(roots, given, strict=True)
        ]
        result = run(lifted)
        return [None if g is None else _own(taken_out(level, g), given) for g in result]


def _batch(level: BatchLevel, g: Any) -> Any:
    """The rows of a gradient as the entries of a batch; a Tensor if the gradient is one."""
    batch = Batched(level, g)
    return wrap(batch) if isinstance(g, TensorLike) else batch


def _own(gradient: Any, given: Sequence[Any]) -> Any:
    """A result with memory of its own, if it shows that of what was given."""
    if gradient._node is None and arrays.is_raw(gradient._data):
        for g in given:
            if (
                g is not None
                and arrays.is_raw(g._data)
                and arrays.may_overlap(gradient._data, g._data)
            ):
                return wrap(arrays.copy(gradient._data))
    return gradient


def standard_basis(tensors: Sequence[Any], first: int = 0, count: int | None = None) -> list[Any]:
    """The standard basis of the space that some tensors are points of: for each of them the batch
    of its parts of the vectors. Of ``count`` vectors, from the one numbered ``first``."""
    sizes = [math.prod(x.shape) for x in tensors]
    rows = sum(sizes) if count is None else min(count, sum(sizes) - first)
    parts, begin = [], 0
    for x, size in zip(tensors, sizes, strict=True):
        part = arrays.eye(rows, size, first - begin, dtype=x._data.dtype)
        part, like = part.reshape(rows, *x.shape), device_value(x)
        parts.append(wrap(part if like is None else like.placed(part)))
        begin += size
    return parts


def taken_out(level: BatchLevel, tensor: Any) -> Any:
    """What a Tensor of a level holds for all entries, along the first dimension. What is the same
    for all is copied for each, since a write to one entry must not reach the others."""
    value, differs = level.below(tensor._data) if is_of(level, tensor) else (tensor, False)
    return as_tensor(value) if differs else as_tensor(level.stacked(value)).clone()
