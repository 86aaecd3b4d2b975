"""Batches of values under ``vmap``, and what batching rules are written with.

How a batch goes through an operation is declared with it (``_batching_declarations``), follows from
its family and options, or is a function of its own; ``_batching_rules`` has the rules. Without any,
an operation is run entry by entry, and says so once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NoReturn

from retrograd._modes import modes, within
from retrograd.ops import linear
from retrograd.ops._batching_declarations import Refused
from retrograd.ops._dims import numel
from retrograd.ops._lifted import Level, Lifted, bare_dtype_of, bare_option, run_on_bare
from retrograd.ops._operands import NUMBERS, detached, unrecorded
from retrograd.ops._operation import Operation, TensorLike, raw


class Batched(Lifted):
    """A value for each entry of a batch, stacked along the first dimension of one value."""

    __slots__ = ("bare_dtype", "dim", "same", "value")

    bare_dtype: Any

    def __init__(self, level: Level, value: Any, same: bool = False, dim: int = 0) -> None:
        self.level = level
        self.value = value
        self.same = same  # one value for all entries, without the dimension
        self.dim = dim  # the user's batch dimension, which custom operations are told
        self.bare_dtype = bare_dtype_of(value)

    @property
    def inner(self) -> Any:
        return self.value

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = raw(self.value).shape
        return shape if self.same else shape[1:]

    @property
    def strides(self) -> tuple[int, ...]:
        strides = super().strides
        return strides if self.same else strides[1:]

    @property
    def shared(self) -> Any:
        return super().shared if self.same else None

    @property
    def differs(self) -> bool:
        return not self.same or super().differs

    def inside(self, size: tuple[int, ...]) -> tuple[int, ...]:
        return size if self.same else (self.value.shape[0], *size)

    def hold(self, as_tensor: Callable[[Any], Any]) -> None:
        self.value = as_tensor(self.value)
        self.bare_dtype = None

    def item(self) -> Any:
        if self.same:
            return self.value.item()
        raise RuntimeError(
            "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over "
            "calling .item() on a Tensor, please try to rewrite what you're doing with other "
            "operations: each of the entries may have another value."
        )

    def truth(self) -> bool:
        if self.same:
            return bool(self.value.item())
        raise RuntimeError(
            "vmap: It looks like you're attempting to use a Tensor in some data-dependent control "
            "flow. We don't support that yet: one way cannot be taken for all entries. Compute "
            "both ways and choose by torch.where()."
        )

    def tolist(self) -> Any:
        return self.value.tolist() if self.same else self.refuse("the elements")

    def __array__(self, *given: Any, **named: Any) -> Any:
        return raw(self.value).__array__(*given, **named) if self.same else self.refuse("the array")

    def detached(self) -> Lifted:
        # The value may be a bare one of a transform outside, which moves as a Tensor of it does.
        return Batched(self.level, detached(self.value), self.same, self.dim)

    def text(self, suffixes: str) -> str:
        where = "None" if self.same else "0"
        number = self.level.number
        return f"BatchedTensor(lvl={number}, bdim={where}, value={self.value!r}{suffixes})"


class BatchLevel(Level):
    """The level of ``vmap``: every operation is run for all entries of a batch at once."""

    __slots__ = ("randomness", "size")

    name = "vmap"
    takes_in = False

    def __init__(self, size: int, randomness: str = "error") -> None:
        super().__init__()
        self.size = size
        self.randomness = randomness

    def run_on_parts(
        self, operation: Operation, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        several = operation.inputs == ("tensors",)
        given: list[Any] = []
        same = True
        for x in args[0] if several else args:
            if isinstance(x, Batched) and x.level is self:
                if x.same:
                    x = x.value
                else:
                    same = False
            elif type(x) is tuple:
                x = self.opened(x)
            given.append(x)
        if options:
            options = {name: bare_option(self.opened(value)) for name, value in options.items()}
            same = same and not any(map(self.owns_any, options.values()))
        if operation.random:
            self.check_random()
            same = same and self.randomness == "same"
        if same:
            result = operation(given, **options) if several else operation(*given, **options)
        else:
            result = rule_of(operation)(self, operation, given, options)
        if isinstance(result, (tuple, list)):
            return tuple(y if self.owns(y) else Batched(self, y, same) for y in result)
        of_elements = operation.family in ("elementwise", "linear") and operation.broadcasts
        alone = of_elements and len(given) == 1 and self.owns(given[0])
        return Batched(self, result, same, given[0].dim if alone else 0)

    def run_elementwise(
        self, operation: Operation, args: Sequence[Any], options: dict[str, Any]
    ) -> Lifted:
        """If the dimensions are aligned already; otherwise ``run`` aligns them."""
        values: list[Any] = []
        rank, dim, same = -1, 0, True  # the rank of an entry
        for x in args if is_pointwise(operation) else ():
            if type(x) is Batched and x.level is self:
                value = x.value
                if isinstance(value, TensorLike):
                    if not value._is_plain:
                        break
                    value = value._data
                if not x.same:
                    own = len(value.shape) - 1
                    if rank not in (-1, own):
                        break
                    rank, dim, same = own, x.dim, False
                values.append(value)
            else:
                values.append(x)
        else:
            if values and (same or len(args) == 1 or not _any_above(args, values, rank)):
                try:
                    y = run_on_bare(operation, values, options)
                except ValueError:
                    pass  # which ``run`` explains
                else:
                    return Batched(self, y, same, dim if len(args) == 1 else 0)
        result: Lifted = self.run(operation, tuple(args), options)
        return result

    def takes_whole(self, operation: Operation) -> bool:
        rule = rule_of(operation)
        return rule is not entry_by_entry and rule is not definition_on

    def records_whole(self, operation: Operation) -> bool:
        return rule_of(operation) is not entry_by_entry

    def looks_at_no_mode(self, operation: Operation) -> bool:
        return not operation.random and is_done_by_dims(operation)

    def check_random(self) -> None:
        """Refuse to draw random numbers, unless the user chose a mode for them."""
        if self.randomness == "error":
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use "
                "the 'same' or 'different' randomness flags on vmap or perform the randomness "
                "operation out of vmap"
            )

    def below(self, x: Any) -> tuple[Any, bool]:
        return (x.value, not x.same) if self.owns(x) else (x, False)

    def take_in(self, tensor: Any) -> None:
        raise RuntimeError(
            "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a "
            "Tensor `other` in extra_args that has more elements than `self`. This happened due to "
            "`other` being vmapped over but `self` not being vmapped over in a vmap. Please try to "
            "use out-of-place operators instead of inplace arithmetic, or make `self` of something "
            "that is vmapped over, by new_zeros() for instance."
        )

    def check_write(self, target: Any, result: Any) -> None:
        if target.same and not result.same:
            self.take_in(target)

    def write(self, target: Any, result: Any, moves: bool = True) -> None:
        memory = target.value if moves else target.value.detach()
        if target.same or result.same:
            memory.copy_(result.value)
        else:  # missing dimensions are inserted after the batch dimension
            memory.copy_(self.aligned(result, len(target.shape)))

    def constant(self, x: Any) -> Lifted:
        return Batched(self, x, same=True)

    def left_of(self, x: Any) -> Any:
        return x.value if x.same else super().left_of(x)

    def opened(self, x: Any) -> Any:
        """A value that is the same for all entries, as a value of the levels below."""
        if isinstance(x, tuple) and any(isinstance(part, Lifted) for part in x):
            return tuple(self.opened(part) for part in x)
        return x.value if isinstance(x, Batched) and x.level is self and x.same else x

    def owns(self, x: Any) -> bool:
        return isinstance(x, Batched) and x.level is self

    def owns_any(self, x: Any) -> bool:
        """Whether an option, or one of a tuple of indices, has a value for each entry."""
        return any(map(self.owns, x)) if isinstance(x, tuple) else self.owns(x)

    # -- what rules are written with -----------------------------------------------------------

    def plain(self, x: Any) -> Any:
        """The underlying value of a batched argument; anything else unchanged."""
        return x.value if self.owns(x) else x

    def stacked(self, x: Any) -> Any:
        """A value with a batch dimension; one that is the same for all entries is expanded."""
        if self.owns(x):
            return x.value
        if not hasattr(x, "shape"):
            return x
        shape = tuple(x.shape)
        return linear.expand(linear.reshape(x, (1, *shape)), size=(self.size, *shape))

    def aligned(self, x: Any, rank: int) -> Any:
        """A value with ``rank`` dimensions after the batch dimension, so that they are aligned with
        those of others from the right. A value that is the same for all entries is returned
        unchanged."""
        if not self.owns(x):
            return x
        missing = rank - len(x.shape)
        if not missing:
            return x.value
        return linear.reshape(x.value, (self.size, *(1,) * missing, *x.shape))


def _any_above(args: Sequence[Any], values: Sequence[Any], rank: int) -> bool:
    """Whether a value that is the same for all entries has more dimensions than an entry."""
    return any([
        len(value.shape) > rank
        for x, value in zip(args, values, strict=True)
        if (x is value or x.same) and type(value) not in NUMBERS
    ])  # fmt: skip


def batches_of(x: Any) -> list[BatchLevel]:
    """The levels of ``vmap`` that a value is batched at, the outermost first."""
    results: list[Any] = []
    while isinstance(x, Lifted):
        if isinstance(x, Batched) and not x.same:
            results.insert(0, x.level)
        x = raw(x.layout)
    return results


def batched_on(
    levels: list[BatchLevel], shape: tuple[int, ...], fill: Callable[[tuple[int, ...]], Any]
) -> Any:
    """The result of ``fill`` for a shape, expanded over some batches, the outermost first."""
    data = fill((*(level.size for level in levels), *shape))
    for level in levels:
        data = Batched(level, data)
    return data


# A batching rule. Among the arguments, and in options that are arrays, a ``Batched`` holds a value
# for each entry along the first dimension of its ``value``; everything else is the same for all
# entries. A rule returns the result, or a tuple of results, with the batch along the first
# dimension. One that is the same for all entries may be returned as ``level.constant(result)``.
Rule = Callable[[BatchLevel, Operation, list[Any], dict[str, Any]], Any]


@cache
def rule_of(op: Operation) -> Rule:
    """The batching rule of an operation."""
    from retrograd.ops._batching_rules import find_rule  # with the rules of what is always loaded

    return find_rule(op)


@cache
def is_pointwise(op: Operation) -> bool:
    """Whether aligning dimensions is all that batching requires."""
    from retrograd.ops._batching_dims import pointwise

    return rule_of(op) is pointwise


@cache
def is_done_by_dims(op: Operation) -> bool:
    """Whether the batch is just one more dimension, and only operations on values are needed."""
    from retrograd.ops._batching_dims import along_dimensions, folding, leading, pointwise

    return rule_of(op) in (pointwise, leading, folding, along_dimensions)


def call(op: Operation, args: list[Any], options: dict[str, Any]) -> Any:
    return op(args, **options) if op.inputs == ("tensors",) else op(*args, **options)


# -- what rules are written with ---------------------------------------------------------------


def bare(args: list[Any]) -> list[Any]:
    """Arguments as raw values instead of Tensors, where that makes no difference."""
    result = unrecorded(args)
    return args if result is None else result


def folded(level: BatchLevel, x: Any) -> Any:
    """A batched value with the batch and the first dimension merged into one."""
    x = level.stacked(x)
    return linear.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))


def unfolded(level: BatchLevel, x: Any, first: int) -> Any:
    """The opposite of ``folded``, for a first dimension of size ``first``."""
    return linear.reshape(x, (level.size, first, *x.shape[1:]))


def in_channels(level: BatchLevel, x: Any) -> Any:
    """A batch of images, ``(entries, images, channels, *sizes)``, with the channels of all entries
    side by side."""
    x = level.stacked(x)
    side_by_side = linear.transpose(x, dim0=0, dim1=1)
    return linear.reshape(side_by_side, (x.shape[1], x.shape[0] * x.shape[2], *x.shape[3:]))


def out_of_channels(level: BatchLevel, x: Any) -> Any:
    """The opposite of ``in_channels``."""
    each = x.shape[1] // max(level.size, 1)
    apart = linear.reshape(x, (x.shape[0], level.size, each, *x.shape[2:]))
    return linear.transpose(apart, dim0=0, dim1=1)


def rows(level: BatchLevel, x: Any) -> Any:
    """A batch of values as a matrix, a row for each."""
    return linear.reshape(x.value, (level.size, numel(x.shape)))


def definition_on(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    """Run the definition of a composite that is recorded as one operation."""
    assert op.definition is not None
    with within(levels=(*modes.levels, level)):
        result = op.definition(*args, **options)
    # What does not depend on the batch is a value of the levels below, and may have a history.
    return level.stacked(level.opened(raw(result)) if level.owns(raw(result)) else result)


def refuse(declared: Refused) -> NoReturn:
    """Raise a RuntimeError for an operation whose number of results depends on values."""
    raise RuntimeError(
        "vmap: We do not support batching operators that can output dynamic shape. Attempted to "
        f"vmap over aten::{declared.name}: {declared.reason}"
    )


# -- entry by entry ----------------------------------------------------------------------------

_announced: set[str] = set()


def announce(name: str) -> None:
    """Warn once that an operation is run entry by entry."""
    if name not in _announced:
        _announced.add(name)
        warnings.warn(
            f"vmap: {name} has no batching rule and is run entry by entry, which takes as long as "
            "a loop",
            stacklevel=2,
        )


def entry_by_entry(
    level: BatchLevel, op: Operation, args: list[Any], options: dict[str, Any]
) -> Any:
    """Run an operation entry by entry, with a warning."""
    announce(op.name)
    check_entries(level, op.name)
    results = []
    for i in range(level.size):
        entry = {n: bare_option(_entry(level, value, i)) for n, value in options.items()}
        results.append(call(op, [_entry(level, x, i) for x in args], entry))
    if isinstance(results[0], (tuple, list)):
        return tuple(linear.stack(list(ys), dim=0) for ys in zip(*results, strict=True))
    return linear.stack(results, dim=0)


def check_entries(level: BatchLevel, name: str) -> None:
    """Raise a RuntimeError if there are no entries, from which the shape of results could be
    known."""
    if not level.size:
        raise RuntimeError(
            f"vmap: {name} has no batching rule, and a batch without entries cannot be run entry "
            "by entry: the shape of its results is not known. Leave out the empty batch."
        )


def _entry(level: BatchLevel, x: Any, i: int) -> Any:
    if level.owns(x):
        return linear.select(x.value, dim=0, index=i)
    return tuple(_entry(level, part, i) for part in x) if level.owns_any(x) else x
