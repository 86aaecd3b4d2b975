"""Random numbers under ``vmap``: the same for all entries of a batch, others for each, or none.

What is drawn without looking at a tensor is drawn here, for as many entries as it takes. What is
drawn for a tensor, or written over one, is an operation, for which the rules are here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd._modes import modes
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._batching import Batched, BatchLevel, batched_on, batches_of, pointwise
from retrograd.ops._operation import Operation, raw


def drawn(shape: Sequence[int], sample: Callable[[tuple[int, ...]], Raw]) -> Any:
    """What ``sample`` gives for a shape. Under a ``vmap`` that wants other numbers for each entry,
    it is asked for all of them at once."""
    if not modes.levels:
        return sample(tuple(shape))
    levels = open_batches()
    for level in levels:
        level.check_random()
    different = [level for level in levels if level.randomness == "different"]
    return batched_on(different, tuple(shape), sample)


def open_batches() -> list[BatchLevel]:
    """The ``vmap``s that are open, the innermost last."""
    return [level for level in modes.levels if isinstance(level, BatchLevel)]


def check_write(target: Any) -> None:
    """Refuse to write random numbers over a tensor, if a ``vmap`` wants none, or wants other ones
    for each entry of what has no entries."""
    if not modes.levels:
        return
    own = batches_of(raw(target))
    for level in reversed(open_batches()):
        level.check_random()
        if level.randomness == "different" and level not in own:
            raise RuntimeError(
                "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This "
                "will appear like same randomness. Write to a tensor that is batched, as "
                "new_empty() of one is, or draw a new one."
            )


# -- rules -----------------------------------------------------------------------------------


def over_batch(level: BatchLevel, op: Operation, args: list[Any], options: dict[str, Any]) -> Any:
    """Numbers that are written over the first argument."""
    if level.randomness == "different" or not level.size:
        return pointwise(level, op, args, options)
    _refuse_batch(level, args[1:])
    one = linear.select(args[0].value, dim=0, index=0)
    return level.stacked(op(one, *args[1:], **options))


def of_batch(level: BatchLevel, op: Operation, args: list[Any], options: dict[str, Any]) -> Any:
    """Numbers for each element of the arguments."""
    return pointwise(level, op, for_each(level, args), options)


def of_rows(level: BatchLevel, op: Operation, args: list[Any], options: dict[str, Any]) -> Any:
    """Numbers for each row of a vector or a matrix."""
    weights = for_each(level, args)[0]
    shape = (level.size, *weights.shape)
    found = op(linear.reshape(weights.value, (-1, shape[-1])), **options)
    return linear.reshape(found, (*shape[:-1], options["num_samples"]))


def for_each(level: BatchLevel, args: list[Any]) -> list[Any]:
    """Arguments of which one at least is for each entry, so that numbers are drawn for each."""
    if level.randomness == "same":
        _refuse_batch(level, args)
    if any(map(level.owns, args)):
        return args
    return [Batched(level, level.stacked(args[0])), *args[1:]]


def _refuse_batch(level: BatchLevel, args: list[Any]) -> None:
    if any(map(level.owns, args)):
        raise RuntimeError(
            "Vmap does not currently support same randomness with a batched tensor input. Draw "
            "numbers that depend on no tensor, by rand() or randn(), which are then the same for "
            "all entries, and compute with them."
        )
