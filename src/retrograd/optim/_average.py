"""Moving several tensors towards others, in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd._source import user_place
from retrograd.optim._rules import memory, note_write


def lerp_all(averages: Sequence[Any], current: Sequence[Any], weight: float) -> None:
    """Move each of ``averages`` by a part ``weight`` of the way to its counterpart."""
    place = user_place()
    for average, now in zip(averages, current, strict=True):
        operands = (memory(average), now._data)
        arrays.updates.update(arrays.updates.lerp, operands, (float(weight),))
        note_write(average, place)
