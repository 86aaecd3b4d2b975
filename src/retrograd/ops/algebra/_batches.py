# ruff: noqa: N803, N806 - matrices are called as in PyTorch, in capitals
"""What linear algebra does to a whole batch: batching rules that several operations share."""

from __future__ import annotations

from typing import Any

from retrograd.ops import linear
from retrograd.ops._batching import BatchLevel, Rule
from retrograd.ops._operation import Operation
from retrograd.ops.algebra._matrix import as_column


def in_front(*own: int) -> Rule:
    """The rule of an operation whose inputs broadcast in all but their last dimensions, ``own`` of
    each."""

    def rule(level: BatchLevel, op: Operation, args: list[Any], options: dict[str, Any]) -> Any:
        front = max(len(x.shape) - n for x, n in zip(args, own, strict=True))
        aligned = [level.aligned(x, front + n) for x, n in zip(args, own, strict=True)]
        return op(*aligned, **options)

    return rule


def of_systems(*own: int, right: int) -> Rule:
    """As ``in_front``, for X of ``A @ X = B``. If A, or what is known of it, is one matrix for all,
    so are the right sides, the input at ``right``: next to each other."""
    general = in_front(*own)

    def rule(level: BatchLevel, op: Operation, args: list[Any], options: dict[str, Any]) -> Any:
        B = args[right]
        others = [x for n, x in enumerate(args) if n != right]
        if any(map(level.owns, others)) or any(
            len(x.shape) > n for x, n in zip(args, own, strict=True)
        ):
            return general(level, op, args, options)
        left = options.get("left", True)
        given = [together(B.value, left) if x is B else x for x in args]
        return apart(op(*given, **options), tuple(B.value.shape), left)

    return rule


def right_sides(level: BatchLevel, B: Any, vector: bool, rank: int) -> Any:
    """Right sides as matrices, with ``rank`` dimensions behind that of the batch even where they
    need fewer: a batch of matrices could be taken for one of vectors."""
    x = as_column(level.plain(B)) if vector else level.plain(B)
    size, entry = (level.size, x.shape[1:]) if level.owns(B) else (1, x.shape)
    return linear.reshape(x, (size, *(1,) * (rank - len(entry)), *entry))


def of_each(level: BatchLevel, A: Any, x: Any, shape: tuple[int, ...]) -> Any:
    """What was found of the matrices ``A``, of a ``shape`` for each entry; or once for all."""
    return linear.reshape(x, (level.size, *shape)) if level.owns(A) else level.constant(x)


def together(x: Any, beside: bool = True) -> Any:
    """A batch of matrices as one: beside or below each other."""
    count, m, n = x.shape
    if beside:
        return linear.reshape(linear.permute(x, dims=(1, 0, 2)), (m, count * n))
    return linear.reshape(x, (count * m, n))


def apart(x: Any, shape: tuple[int, ...], beside: bool = True) -> Any:
    """One matrix as a batch of matrices of a ``shape``, that of what was brought together. The
    sides that were not joined may have changed."""
    count, m, n = shape
    if beside:
        return linear.permute(linear.reshape(x, (x.shape[0], count, n)), dims=(1, 0, 2))
    return linear.reshape(x, (count, m, x.shape[1]))
