"""Finds the batching rule of an operation, from what the operation declares.

``_batching_declarations`` says what can be declared, and ``_batching.Rule`` what a rule is. This
module also has the rules about randomness, and those of the core that describe one operation each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from retrograd._records import Record
from retrograd.ops import _batching_indices as _batching_indices
from retrograd.ops import copies, linear
from retrograd.ops._batching import Batched, BatchLevel, Rule, definition_on, entry_by_entry, refuse
from retrograd.ops._batching_declarations import AllElements, Dims, Leading, Own, Refused, own
from retrograd.ops._batching_dims import (
    DIMENSIONS,
    SHIFTED,
    UNCHANGED,
    Options,
    all_elements,
    along_dimensions,
    dims,
    folding,
    leading,
    overwrite,
    pointwise,
    reshaped,
)
from retrograd.ops._batching_matrices import in_front, product
from retrograd.ops._dims import numel
from retrograd.ops._operation import Operation, raw


def find_rule(op: Operation) -> Rule:
    """The batching rule of an operation."""
    declared = op.batch
    rule: Rule
    if declared is None:
        rule = inferred(op)
    elif isinstance(declared, Own):
        rule = declared.function
    elif isinstance(declared, str):
        rule = BY_WORD[declared]
    elif isinstance(declared, Record):
        rule = BY_CLASS[type(declared)](declared, op)
    else:
        rule = declared  # a function
    return partial(drawn_for_each, rule) if op.random else rule


def inferred(op: Operation) -> Rule:
    """The rule of an operation that declares none: by its family and its options."""
    if op.family == "elementwise" or (
        op.broadcasts and op.family not in ("operation", "composite")
    ):
        return pointwise
    known = set(op.options) <= SHIFTED.keys() | UNCHANGED and DIMENSIONS & set(op.options)
    if known and (op.joint or all(op.rules) or len(op.inputs) == 1):
        return along_dimensions
    return entry_by_entry


# -- random numbers ----------------------------------------------------------------------------


def drawn_for_each(
    rule: Rule, level: BatchLevel, op: Operation, args: list[Any], options: Options
) -> Any:
    """Random numbers for the elements of the arguments, at least one of which is batched, so that
    numbers are drawn for each entry."""
    if level.randomness == "same":
        _refuse_batch(level, args)
    if not any(map(level.owns, args)):
        args = [Batched(level, level.stacked(args[0])), *args[1:]]
    return rule(level, op, args, options)


def random_overwrite(level: BatchLevel, op: Operation, args: list[Any], options: Options) -> Any:
    """Random numbers that are written over the first argument."""
    if level.randomness == "different" or not level.size:
        return pointwise(level, op, args, options)
    _refuse_batch(level, args[1:])
    one = linear.select(args[0].value, dim=0, index=0)
    return level.stacked(op(one, *args[1:], **options))


def _refuse_batch(level: BatchLevel, args: list[Any]) -> None:
    if any(map(level.owns, args)):
        raise RuntimeError(
            "Vmap does not currently support same randomness with a batched tensor input. Draw "
            "numbers that depend on no tensor, by rand() or randn(), which are then the same for "
            "all entries, and compute with them."
        )


# -- refused -----------------------------------------------------------------------------------


def refused(declared: Refused, op: Operation) -> Rule:
    """The error for an operation whose number of results depends on values."""

    def rule(level: BatchLevel, op: Operation, args: list[Any], options: Options) -> NoReturn:
        refuse(declared)

    return rule


BY_WORD: dict[str, Rule] = {
    "pointwise": pointwise, "leading": leading, "fold": folding, "dims": along_dimensions,
    "reshape": reshaped, "product": product, "overwrite": overwrite,
    "random overwrite": random_overwrite, "definition": definition_on, "each": entry_by_entry,
}  # fmt: skip
BY_CLASS: dict[type, Callable[[Any, Operation], Rule]] = {
    Dims: dims, Leading: in_front, AllElements: all_elements, Refused: refused,
}  # fmt: skip

# -- rules of single operations of the core ----------------------------------------------------


@own("vectors stay as they are, matrices do not")
def _t(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    value = args[0].value
    return linear.transpose(value, dim0=1, dim1=2) if len(args[0].shape) == 2 else value


@own("the copy of each entry has the strides of a copy of it alone: the same views can be taken")
def _clone(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    """A copy in which the entries are consecutive, each in the layout of its own copy."""
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


@own("an empty vector adds nothing, whatever the number of dimensions of the others")
def _cat(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    some = [x for x in args if tuple(x.shape) != (0,)] or args
    return linear.cat([level.stacked(x) for x in some], dim=options["dim"] + 1)


linear.t.batch, linear.cat.batch, copies.clone.batch = _t, _cat, _clone
