"""In-place weighted averages of lists of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd._source import user_place
from retrograd.optim._rules import memory, record_write


def lerp_all(averages: Sequence[Any], current: Sequence[Any], weight: float) -> None:
    """Interpolate each of ``averages`` towards its counterpart: ``a + weight * (b - a)``."""
    place = user_place()
    for average, now in zip(averages, current, strict=True):
        operands = (memory(average), now.to(average.device)._data)
        arrays.updates.update(arrays.updates.lerp, operands, (float(weight),))
        record_write(average, place)
