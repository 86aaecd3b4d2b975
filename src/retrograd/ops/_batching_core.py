"""Batching rules of the core: operations whose options do not say all there is to say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd.ops import elementwise, general, linear, products, selecting
from retrograd.ops._batching import BatchLevel, along_dimensions
from retrograd.ops._dims import numel
from retrograd.ops._operation import Operation

Rule = Callable[..., Any]


def rule(*operations: Operation) -> Callable[[Rule], Rule]:
    """Declare how some operations are done to a batch."""

    def declare(function: Rule) -> Rule:
        for operation in operations:
            operation.batch = function
        return function

    return declare


def rows(level: BatchLevel, x: Any) -> Any:
    """A batch of values as a matrix, a row for each."""
    return linear.reshape(x.value, (level.size, numel(x.shape)))


# -- reductions of all elements: along the rows of a matrix ------------------------------------


def _whole(op: Operation, by: Operation, dim: Any) -> None:
    op.batch = lambda level, op, args, options: by(rows(level, args[0]), dim=dim, keepdim=False)


_whole(linear.sum_all, linear.sum_dim, (1,))
_whole(linear.mean_all, linear.mean_dim, (1,))
_whole(selecting.max_all, selecting.amax_dim, (1,))
_whole(selecting.min_all, selecting.amin_dim, (1,))
_whole(general.prod_all, general.prod_dim, 1)


@rule(selecting.argmax_at, selecting.argmin_at)
def _extreme_place(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    if options["dim"] is not None and args[0].shape:
        return along_dimensions(level, op, args, options)
    found = op(rows(level, args[0]), dim=1, keepdim=False)
    kept = options["keepdim"]
    return linear.reshape(found, (level.size, *(1,) * len(args[0].shape))) if kept else found


# -- shapes ------------------------------------------------------------------------------------


@rule(linear.view, linear.reshape_alias, linear.unsafe_view)
def _view(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    return linear.reshape(args[0].value, (level.size, *options["size"]))


@rule(linear.expand)
def _expand(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    size = options["size"]
    return linear.expand(level.aligned(args[0], len(size)), size=(level.size, *size))


@rule(linear.permute)
def _permute(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    return linear.permute(args[0].value, dims=(0, *(d + 1 for d in options["dims"])))


@rule(linear.t)
def _t(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    value = args[0].value
    return linear.transpose(value, dim0=1, dim1=2) if len(args[0].shape) == 2 else value


@rule(linear.unsqueeze)
def _unsqueeze(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    return linear.unsqueeze(args[0].value, dim=options["dim"] + 1)


@rule(linear.alias, elementwise.clone)
def _as_it_is(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    return op(args[0].value)


@rule(linear.cat)
def _cat(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    # An empty vector is the neutral element, whatever the others' dimensions.
    some = [x for x in args if tuple(x.shape) != (0,)] or args
    return linear.cat([level.stacked(x) for x in some], dim=options["dim"] + 1)


@rule(linear.stack)
def _stack(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    return linear.stack([level.stacked(x) for x in args], dim=options["dim"] + 1)


# -- products ----------------------------------------------------------------------------------


@rule(products.dot)
def _dot(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    a, b = map(level.plain, args)
    return linear.sum_dim(a * b, dim=(1,), keepdim=False)


@rule(products.mv)
def _mv(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    matrix, vector = args
    if not level.owns(matrix):  # one matrix for all: a single product
        return products.mm(vector.value, linear.t(matrix))
    vector = level.plain(vector)
    column = linear.unsqueeze(vector, dim=len(vector.shape))
    return linear.squeeze(products.matmul(matrix.value, column), dims=(2,))


@rule(products.mm)
def _mm(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    return products.matmul(*map(level.plain, args))


@rule(products.bmm)
def _bmm(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    return products.matmul(*map(level.plain, args))
