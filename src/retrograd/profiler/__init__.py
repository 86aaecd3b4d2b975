"""``torch.profiler``: where the time and the memory of a program go.

``profile`` measures a block, ``record_function`` names a part of it. Nothing is measured, and
nothing costs anything, outside of such a block.
"""

from __future__ import annotations

from retrograd.profiler._record_function import record_function
from retrograd.profiler.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)


def kineto_available() -> bool:
    """Whether PyTorch's tracing library is there, which it is not.

    Returns:
        False.
    """
    return False


__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
