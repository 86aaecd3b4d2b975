# ruff: noqa: N803 - matrices are called as in PyTorch, in capitals
"""Helpers of the batching rules of linear systems."""

from __future__ import annotations

from typing import Any

from retrograd.ops import linear
from retrograd.ops._batching import BatchLevel
from retrograd.ops.algebra._matrix import as_column

# Why systems of equations have batching rules of their own.
SYSTEMS = (
    "the right side may be a vector; of a matrix that is the same for all entries, the factors are "
    "found once, and they are the same for all"
)


def right_sides(level: BatchLevel, B: Any, vector: bool, rank: int) -> Any:
    """Right sides as matrices, with ``rank`` dimensions behind that of the batch even where they
    need fewer: a batch of matrices could be taken for one of vectors."""
    x = as_column(level.plain(B)) if vector else level.plain(B)
    size, entry = (level.size, x.shape[1:]) if level.owns(B) else (1, x.shape)
    return linear.reshape(x, (size, *(1,) * (rank - len(entry)), *entry))


def of_each(level: BatchLevel, A: Any, x: Any, shape: tuple[int, ...]) -> Any:
    """A result that depends on the matrices ``A`` only, of a ``shape`` for each entry; or for all
    entries at once."""
    return linear.reshape(x, (level.size, *shape)) if level.owns(A) else level.constant(x)
