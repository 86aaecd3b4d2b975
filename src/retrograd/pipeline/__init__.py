"""Pipeline parallelism: schedules, their cost, and running them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrograd._later import later

if TYPE_CHECKING:
    from retrograd.pipeline import schedules
    from retrograd.pipeline._checkpoints import whole_state_dict
    from retrograd.pipeline._instructions import Instruction, Kind, ScheduleError
    from retrograd.pipeline._layers import Lazy
    from retrograd.pipeline._partition import partition, profile
    from retrograd.pipeline._pipeline import Pipeline
    from retrograd.pipeline._simulator import DeadlockError, simulate
    from retrograd.pipeline._stats import Stats
    from retrograd.pipeline._timeline import Event, Timeline
    from retrograd.pipeline._validation import check

# Names are loaded on first use: the command line imports this package only for its options.
_NAMES = {
    "_checkpoints": ("whole_state_dict",),
    "_instructions": ("Instruction", "Kind", "ScheduleError"),
    "_layers": ("Lazy",),
    "_partition": ("partition", "profile"),
    "_pipeline": ("Pipeline",),
    "_simulator": ("DeadlockError", "simulate"),
    "_stats": ("Stats",),
    "_timeline": ("Event", "Timeline"),
    "_validation": ("check",),
}
__getattr__, __dir__ = later(__name__, ("schedules",), {
    name: f"pipeline.{module}" for module, names in _NAMES.items() for name in names
})  # fmt: skip

__all__ = [
    "DeadlockError", "Event", "Instruction", "Kind", "Lazy", "Pipeline", "ScheduleError", "Stats",
    "Timeline", "check", "partition", "profile", "schedules", "simulate", "whole_state_dict",
]  # fmt: skip
