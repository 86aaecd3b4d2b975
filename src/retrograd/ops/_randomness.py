"""Random numbers under ``vmap``: the same for all entries of a batch, different for each, or an
error.

What is drawn without looking at a tensor is drawn here, for as many entries as it takes. What is
drawn for a tensor, or written over one, is an operation, for which ``_batching_rules`` has rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd._modes import modes
from retrograd.arrays import Raw
from retrograd.ops._batching import BatchLevel, batched_on, batches_of
from retrograd.ops._lifted import device_value, tracer
from retrograd.ops._operation import raw


def drawn(
    shape: Sequence[int], sample: Callable[[tuple[int, ...]], Raw], beside: Any = None
) -> Any:
    """The random numbers that ``sample`` draws for a shape, on the device of ``beside``. Under a
    ``vmap`` with ``randomness="different"``, it draws the numbers for all entries at once."""
    there = device_value(beside)
    if there is not None:
        on_cpu = sample
        sample = lambda size: there.placed(on_cpu(size))
    if not modes.levels:
        return sample(tuple(shape))
    tracing = tracer()
    if tracing is not None:
        sample = tracing.drawing(sample)
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
