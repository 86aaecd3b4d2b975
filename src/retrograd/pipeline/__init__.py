"""Models across processes: schedules of pipelines, what they cost, and running them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrograd.pipeline import _schedules as schedules
    from retrograd.pipeline._checkpoints import whole_state_dict
    from retrograd.pipeline._instructions import Instruction, Kind, ScheduleError
    from retrograd.pipeline._layers import Lazy
    from retrograd.pipeline._partition import partition, profile
    from retrograd.pipeline._pipeline import Pipeline
    from retrograd.pipeline._simulator import DeadlockError, simulate
    from retrograd.pipeline._stats import Stats
    from retrograd.pipeline._timeline import Event, Timeline
    from retrograd.pipeline._validation import check

_LATER = {
    "DeadlockError": "_simulator", "Event": "_timeline", "Instruction": "_instructions",
    "Kind": "_instructions", "Lazy": "_layers", "Pipeline": "_pipeline",
    "ScheduleError": "_instructions", "Stats": "_stats", "Timeline": "_timeline",
    "check": "_validation", "partition": "_partition", "profile": "_partition",
    "simulate": "_simulator", "whole_state_dict": "_checkpoints",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Names are loaded on first use: the command line imports this package only for its options."""
    import importlib

    if name == "schedules":
        value: Any = importlib.import_module("retrograd.pipeline._schedules")
    elif name in _LATER:
        value = getattr(importlib.import_module(f"retrograd.pipeline.{_LATER[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


__all__ = [
    "DeadlockError", "Event", "Instruction", "Kind", "Lazy", "Pipeline", "ScheduleError", "Stats",
    "Timeline", "check", "partition", "profile", "schedules", "simulate", "whole_state_dict",
]  # fmt: skip
