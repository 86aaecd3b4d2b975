"""Batching rules of matrix products and of linear algebra."""

from __future__ import annotations

from typing import Any

from retrograd.ops import linear, products
from retrograd.ops._batching import Batched, BatchLevel, Rule, bare
from retrograd.ops._batching_declarations import Leading
from retrograd.ops._batching_dims import Options, leading
from retrograd.ops._operation import Operation, raw

# -- products ----------------------------------------------------------------------------------


def product(level: BatchLevel, op: Operation, args: list[Any], options: Options) -> Any:
    """Products of matrices and vectors: a single product if only one operand is batched."""
    a, b = bare([level.plain(x) for x in args])
    many = level.owns(args[0]), level.owns(args[1])
    if len(args[1].shape) == 1:
        return _with_vector(level, a, b, *many)
    if args[0].shape[-1] == 1:  # outer products, which NumPy computes several times faster as such
        return a * b
    if all(many):
        return products.bmm(a, b)
    if many[0]:
        return _with_one(level, a, b, copies=len(b.shape) > 2)
    a, b = products.transposed(b), products.transposed(a)
    return products.transposed(_with_one(level, a, b, copies=True))


def _with_vector(level: BatchLevel, a: Any, b: Any, many_a: bool, many_b: bool) -> Any:
    """A vector, or the rows of a matrix, times a vector."""
    if not many_a:  # the vectors are the rows of a matrix
        return products.mv(b, a) if len(a.shape) == 1 else products.mm(b, linear.t(a))
    shape = tuple(a.shape[:-1])
    if not many_b:
        if len(shape) == 1:
            return products.mv(a, b)
        flat = linear.reshape(a, (shape[0] * shape[1], a.shape[-1]))
        return linear.reshape(products.mv(flat, b), shape)
    matrices = a if len(shape) == 2 else linear.unsqueeze(a, dim=1)
    return linear.reshape(products.bmm(matrices, linear.unsqueeze(b, dim=2)), shape)


def _with_one(level: BatchLevel, many: Any, one: Any, copies: bool) -> Any:
    """Batched matrices times matrices that are the same for all entries. The rows of all entries
    make one matrix, but where that takes a copy it pays only for matrices that are single rows."""
    *front, rows, width = many.shape[1:]
    if copies and rows > 1:
        return products.bmm(many, level.stacked(one))
    d = len(front)
    last = (d + 1, d + 2)
    flat = linear.permute(many, dims=(*range(1, d + 1), 0, *last)) if front else many
    flat = linear.reshape(flat, (*front, level.size * rows, width))
    result = products.bmm(flat, one) if front else products.mm(flat, one)
    result = linear.reshape(result, (*front, level.size, rows, one.shape[-1]))
    return linear.permute(result, dims=(d, *range(d), *last)) if front else result


# -- matrices with dimensions in front ---------------------------------------------------------


def in_front(declared: Leading, op: Operation) -> Rule:
    """The rule of an operation on the last dimensions of its operands."""
    own, right, optional = declared.own, declared.right_sides, declared.optional

    def rule(level: BatchLevel, op: Operation, args: list[Any], options: Options) -> Any:
        if own is None:
            result = leading(level, op, args, options)
        elif right is not None:
            result = _systems(level, op, args, options, own, right)
        else:
            result = _broadcast(level, op, args, options, own)
        if not optional:
            return result
        return tuple([
            level.constant(y) if name in optional and tuple(y.shape) == (0,) else y
            for name, y in zip(op.output_names, result, strict=True)
        ])  # fmt: skip

    return rule


def _broadcast(
    level: BatchLevel, op: Operation, args: list[Any], options: Options, own: tuple[int, ...]
) -> Any:
    """The dimensions in front are aligned; so are options that there are for each entry."""
    front = max(len(x.shape) - n for x, n in zip(args, own, strict=True))
    options = {
        n: raw(level.aligned(x, max(front, len(x.shape)))) if level.owns(x) else x
        for n, x in options.items()
    }
    if len(args) == 1:
        return op(level.stacked(args[0]), **options)
    return op(*[level.aligned(x, front + n) for x, n in zip(args, own, strict=True)], **options)


def _systems(
    level: BatchLevel, op: Operation, args: list[Any], options: Options, own: tuple[int, ...],
    right: int,
) -> Any:  # fmt: skip
    """X of ``A @ X = B``, where the operand at ``right`` is B, and the others are A or what is
    known of it. If that is the same for all entries, so are the right sides: side by side."""
    numbers = range(len(args))
    if any(level.owns(args[n]) for n in numbers if n != right):
        args = [x if n == right else Batched(level, level.stacked(x)) for n, x in enumerate(args)]
        return _broadcast(level, op, args, options, own)
    if any(len(x.shape) > n for x, n in zip(args, own, strict=True)):
        return _broadcast(level, op, args, options, own)
    B, left = args[right].value, options.get("left", True)  # noqa: N806 - as in PyTorch
    X = op(*[together(B, left) if n == right else args[n] for n in numbers], **options)  # noqa: N806
    return apart(X, tuple(B.shape), left)


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
