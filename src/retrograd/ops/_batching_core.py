"""Batching rules of the core: operations whose options do not say all there is to say."""

from __future__ import annotations

from typing import Any

from retrograd.ops import _batching_places as _batching_places
from retrograd.ops import elementwise, general, linear, products, selecting
from retrograd.ops._batching import BatchLevel, along_dimensions, bare, rows, rule
from retrograd.ops._dims import numel
from retrograd.ops._operation import Operation, raw

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


# -- values written over others: as many as there are places, whoever is the same for all ------


@rule(elementwise.fill, elementwise.fill_number, elementwise.copy)
def _written(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    size = tuple(args[0].shape)
    written = op(*[level.aligned(x, len(size)) for x in args], **options)
    return linear.expand(written, size=(level.size, *size))


@rule(elementwise.masked_fill)
def _masked_fill(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    rank = max(len(x.shape) for x in args[:2])
    if not level.owns(args[2]):
        return op(*[level.aligned(x, rank) for x in args])
    self, mask, value = (level.aligned(x, rank) for x in args)
    value = elementwise.to_dtype(value, dtype=raw(self).dtype)
    return elementwise.where(mask, value, self)


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


@rule(linear.alias, linear.view_as_real, linear.view_as_complex, elementwise.zeros_like)
def _as_it_is(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    return op(args[0].value)


@rule(elementwise.clone)
def _clone(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    """A copy in which one entry lies behind the other, each as its own copy would: so that what is
    a view of that, and can be written through, is one here."""
    value, steps = args[0].value, raw(args[0].value).strides
    if steps[0] >= max(steps[1:], default=0):
        return op(value)
    order = [0, *range(1, len(steps))]
    if 0 not in steps[1:]:
        order[1:] = sorted(order[1:], key=lambda d: -abs(steps[d]))
    copied = op(linear.permute(value, dims=tuple(order)))
    shape = tuple(copied.shape)
    copied = linear.unsafe_view(copied, size=(numel(shape),))  # in one dimension there is one order
    copied = linear.unsafe_view(copied, size=shape)
    if order == sorted(order):
        return copied
    return linear.permute(copied, dims=tuple(sorted(order, key=order.__getitem__)))


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
    a, b = bare(list(map(level.plain, args)))
    if all(map(level.owns, args)):
        rows, columns = linear.unsqueeze(a, dim=1), linear.unsqueeze(b, dim=2)
        return linear.reshape(products.bmm(rows, columns), (level.size,))
    return products.mv(a, b) if level.owns(args[0]) else products.mv(b, a)


@rule(products.mv)
def _mv(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    matrix, vector = bare(list(map(level.plain, args)))
    if not level.owns(args[0]):  # one matrix for all: a single product
        return products.mm(vector, linear.t(matrix))
    rows, width = args[0].shape
    if not level.owns(args[1]):
        flat = linear.reshape(matrix, (level.size * rows, width))
        return linear.reshape(products.mv(flat, vector), (level.size, rows))
    return linear.squeeze(products.bmm(matrix, linear.unsqueeze(vector, dim=2)), dims=(2,))


@rule(products.mm, products.bmm)
def _matrix_products(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    a, b = bare(list(map(level.plain, args)))
    if args[0].shape[-1] == 1:  # columns times rows, which NumPy does several times faster as such
        return a * b
    if all(map(level.owns, args)):
        return products.bmm(a, b)
    if level.owns(args[0]):
        return _with_one(level, a, b, copies=len(b.shape) > 2)
    turned = products.transposed(b)
    return products.transposed(_with_one(level, turned, products.transposed(a), copies=True))


def _with_one(level: BatchLevel, many: Any, one: Any, copies: bool) -> Any:
    """Matrices for each entry times those that are the same for all. The rows of all entries make
    one matrix, but where that takes a copy it pays only for matrices that are single rows."""
    *front, rows, width = many.shape[1:]
    if copies and rows > 1:
        return products.bmm(many, level.stacked(one))
    d = len(front)
    last = (d + 1, d + 2)
    flat = linear.permute(many, dims=(*range(1, d + 1), 0, *last)) if front else many
    flat = linear.reshape(flat, (*front, level.size * rows, width))
    found = products.bmm(flat, one) if front else products.mm(flat, one)
    found = linear.reshape(found, (*front, level.size, rows, one.shape[-1]))
    return linear.permute(found, dims=(d, *range(d), *last)) if front else found
