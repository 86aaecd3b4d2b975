"""Checkpointing: the backward pass recomputes values that were not stored.

- ``_recompute``: ``checkpoint`` itself, in its two forms;
- ``_frames``: what is remembered of a checkpointed call, and how its values come back;
- ``_selective``: policies that say which results are worth keeping;
- ``_sequential``: a chain of functions in segments;
- ``_loop``: a loop of many steps with few states kept; ``_schedule``: which ones, and when;
- ``_interception``: a way to see operations as they run;
- ``_debug``: which operations ran, for the message that the two runs differ.
"""

from retrograd.utils.checkpoint._frames import CheckpointError, GraphExecGroup
from retrograd.utils.checkpoint._loop import checkpoint_loop
from retrograd.utils.checkpoint._recompute import (
    CheckpointFunction,
    check_backward_validity,
    checkpoint,
    detach_variable,
    noop_context_fn,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)
from retrograd.utils.checkpoint._schedule import LoopSchedule
from retrograd.utils.checkpoint._selective import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)
from retrograd.utils.checkpoint._sequential import checkpoint_sequential

__all__ = [
    "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "GraphExecGroup", "LoopSchedule",
    "SelectiveCheckpointContext", "check_backward_validity", "checkpoint", "checkpoint_loop",
    "checkpoint_sequential", "create_selective_checkpoint_contexts", "detach_variable",
    "noop_context_fn", "set_checkpoint_debug_enabled", "set_checkpoint_early_stop",
]  # fmt: skip
