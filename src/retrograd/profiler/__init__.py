"""``torch.profiler``: measures the time and memory of a program.

``profile`` measures a block, ``record_function`` names a part of it. Nothing is measured, and
nothing costs anything, outside of such a block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrograd._later import later

if TYPE_CHECKING:
    from retrograd.profiler._record_function import record_function
    from retrograd.profiler.profiler import (
        ProfilerAction,
        ProfilerActivity,
        profile,
        schedule,
        supported_activities,
        tensorboard_trace_handler,
    )

_NAMES = ("ProfilerAction", "ProfilerActivity", "profile", "schedule", "supported_activities",
          "tensorboard_trace_handler")  # fmt: skip
__getattr__, __dir__ = later(__name__, ["profiler"], {
    "record_function": "profiler._record_function", **dict.fromkeys(_NAMES, "profiler.profiler"),
})  # fmt: skip


def kineto_available() -> bool:
    """Whether PyTorch's tracing library is available: False."""
    return False


__all__ = [
    "ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function",
    "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip
