"""Batching rules of operations with options for dimensions, or for any number of dimensions.

Most operations are of these kinds: elementwise ones need only aligned dimensions, and others have
options that are dimensions or sizes, whose names mean the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.ops import linear
from retrograd.ops._batching import (
    BatchLevel,
    Rule,
    bare,
    call,
    definition_on,
    entry_by_entry,
    folded,
    rows,
    unfolded,
)
from retrograd.ops._batching_declarations import AllElements, Dims
from retrograd.ops._dims import broadcast
from retrograd.ops._lifted import Lifted
from retrograd.ops._operation import TABLE, Operation, raw

Options = dict[str, Any]

# -- dimensions in front -----------------------------------------------------------------------


def pointwise(level: BatchLevel, op: Operation, args: list[Any], options: Options) -> Any:
    """Dimensions are aligned from the right, after the batch dimension."""
    if options and any(map(level.owns_any, options.values())):
        return entry_by_entry(level, op, args, options)
    rank = max([len(x.shape) for x in args if hasattr(x, "shape")])
    aligned = [level.aligned(x, rank) for x in args]
    try:
        return op(*(aligned if op.view else bare(aligned)), **options)
    except ValueError:
        shape: tuple[int, ...] = ()
        for x in aligned:
            shape = broadcast(shape, tuple(getattr(x, "shape", ())))  # or PyTorch's error
        raise


def overwrite(level: BatchLevel, op: Operation, args: list[Any], options: Options) -> Any:
    """Values written over those of the first operand, in its shape, whichever of them is
    batched."""
    first, *others = args
    size = (level.size, *first.shape)
    written = op(
        level.stacked(first), *[level.aligned(x, len(first.shape)) for x in others], **options
    )
    return linear.expand(written, size=size)


def leading(level: BatchLevel, op: Operation, args: list[Any], options: Options) -> Any:
    """The batch is one more dimension in front, which the operation takes any number of; of its
    options, too, if they are arrays."""
    given = {n: raw(level.stacked(v)) if is_array(v) else v for n, v in options.items()}
    return call(op, [level.stacked(x) for x in args], given)


def is_array(option: Any) -> bool:
    return isinstance(option, Lifted) or arrays.is_raw(option)


def folding(level: BatchLevel, op: Operation, args: list[Any], options: Options) -> Any:
    """The first dimension of all arrays is a batch already, which grows."""
    given = {n: raw(folded(level, v)) if is_array(v) else v for n, v in options.items()}
    first = next(x for x in args if x is not None).shape[0]
    result = call(op, [x if x is None else folded(level, x) for x in args], given)
    if isinstance(result, tuple):
        return tuple(unfolded(level, y, first) for y in result)
    return unfolded(level, result, first)


# -- dimensions and sizes in options -----------------------------------------------------------


def _shifted(level: BatchLevel, dim: Any) -> Any:
    return tuple([d + 1 for d in dim]) if isinstance(dim, tuple) else dim + 1


def _with_batch(level: BatchLevel, shape: Any) -> Any:
    return (level.size, *shape)


# How options that are dimensions or sizes are changed, by their names.
SHIFTED: dict[str, Callable[[BatchLevel, Any], Any]] = {
    **dict.fromkeys(("dim", "dims", "dim0", "dim1", "dim2", "dimension"), _shifted),
    **dict.fromkeys(("size", "shape"), _with_batch),
    "where": lambda level, where: (slice(None), *where),
    "repeats": lambda level, repeats: (1, *repeats),
}
SIZES = {"size", "shape", "sizes", "where"}
DIMENSIONS = {"dim", "dims", "dim0", "dim1", "dimension", "where"}
# Options that mean the same however many dimensions there are.
UNCHANGED = {
    "keepdim", "descending", "k", "largest", "index", "correction", "sizes", "reverse",
    "normalization", "forward", "onesided", "last_dim_size",
}  # fmt: skip


def along_dimensions(level: BatchLevel, op: Operation, args: list[Any], options: Options) -> Any:
    """Dimensions are shifted by one, for the batch dimension in front."""
    if options.get("dim", 0) is None:
        return over_all(level, op, args, options)
    scalars = all(not len(x.shape) for x in args if hasattr(x, "shape"))
    if scalars and not SIZES & options.keys():
        return _as_vectors(level, op, args, options)
    shifted = {n: SHIFTED[n](level, v) if n in SHIFTED else v for n, v in options.items()}
    return call(op, [level.stacked(x) for x in args], shifted)


def _as_vectors(level: BatchLevel, op: Operation, args: list[Any], options: Options) -> Any:
    """A value without dimensions is treated as a vector of one element; its result has none."""
    vectors = [linear.reshape(level.stacked(x), (level.size, 1)) for x in args]
    shifted = {n: SHIFTED[n](level, v) if n in SHIFTED else v for n, v in options.items()}
    result = call(op, vectors, shifted)
    if isinstance(result, (tuple, list)):
        return tuple(linear.reshape(y, (level.size,)) for y in result)
    return linear.reshape(result, (level.size,))


def over_all(
    level: BatchLevel, op: Operation, args: list[Any], options: Options, row: Any = (1,)
) -> Any:
    """All elements are reduced, which are those of a row."""
    result = op(rows(level, args[0]), **{**options, "dim": row, "keepdim": False})
    if not options["keepdim"]:
        return result
    kept = (level.size, *(1,) * len(args[0].shape))
    if isinstance(result, (tuple, list)):
        return tuple(linear.reshape(y, kept) for y in result)
    return linear.reshape(result, kept)


def all_elements(declared: AllElements, op: Operation) -> Rule:
    """All elements are reduced by another operation, which does it along dimensions."""
    by, row = TABLE[declared.by], declared.row

    def rule(level: BatchLevel, op: Operation, args: list[Any], options: Options) -> Any:
        return by(rows(level, args[0]), dim=row, keepdim=False)

    return rule


def dims(declared: Dims, op: Operation) -> Rule:
    """As ``along_dimensions``, with what a declaration says besides."""
    order, aligned, shared, row = declared.order, declared.aligned, declared.shared, declared.row
    own = [n for n, name in enumerate(op.inputs) if name not in shared]
    common = [op.inputs.index(name) for name in shared]
    changed = {n: f for n, f in SHIFTED.items() if n not in declared.unchanged}
    sized = next((n for n in ("shape", "size") if n in op.options and n in changed), None)
    if order is not None:
        changed[order] = lambda level, order: (0, *[d + 1 for d in order])

    def shifted(level: BatchLevel, options: Options) -> Options:
        return {n: changed[n](level, v) if n in changed else v for n, v in options.items()}

    def without_scalars(level: BatchLevel, op: Operation, args: list[Any], options: Options) -> Any:
        if aligned is None:
            return call(op, [level.stacked(x) for x in args], shifted(level, options))
        rank = len(options[aligned])
        return op(*[level.aligned(x, rank) for x in args], **shifted(level, options))

    def rule(level: BatchLevel, op: Operation, args: list[Any], options: Options) -> Any:
        if options.get("dim", 0) is None:
            return over_all(level, op, args, options, row)
        if options.get("dims", 0) is None:  # all elements in reading order
            result = op(rows(level, args[0]), **{**options, "dims": (1,)})
            return linear.reshape(result, (level.size, *args[0].shape))
        if any([level.owns(args[n]) for n in common]):
            return definition_on(level, op, args, options)
        scalars = sized is not None and not options[sized]
        scalars = scalars or not all([len(args[n].shape) for n in own])
        stacked = as_vectors if scalars else BatchLevel.stacked
        operands = list(args)
        for n in own:
            operands[n] = stacked(level, args[n])
        given = shifted(level, options)
        for name, value in options.items():
            if is_array(value):
                given[name] = raw(stacked(level, value))
        if not scalars:
            return op(*operands, **given)
        if sized is not None:
            given[sized] = (level.size, *(options[sized] or (1,)))
        shape = _sample(op, args, options).shape
        return linear.reshape(op(*operands, **given), (level.size, *shape))

    return rule if declared.scalars else without_scalars


def _sample(op: Operation, args: list[Any], options: Options) -> Any:
    """The shape of the result for one entry, found by running the operation on zeros."""

    def zeros(x: Any) -> Any:
        return arrays.zeros(tuple(x.shape), raw(x).dtype) if hasattr(x, "shape") else x

    return op.compute([zeros(x) for x in args], {n: zeros(v) for n, v in options.items()})


def as_vectors(level: BatchLevel, x: Any) -> Any:
    """A batch of values with a dimension of size 1 added, if they have none."""
    stacked = level.stacked(x)
    return stacked if len(x.shape) else linear.unsqueeze(stacked, dim=1)


def reshaped(level: BatchLevel, op: Operation, args: list[Any], options: Options) -> Any:
    """The same elements in another shape, copied if a view is impossible."""
    return linear.reshape(args[0].value, (level.size, *options["size"]))
