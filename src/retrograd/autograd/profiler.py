"""``torch.autograd.profiler``: older names for ``torch.profiler``."""

from __future__ import annotations

from retrograd._later import later

__getattr__, __dir__ = later(__name__, names={
    **dict.fromkeys(("emit_itt", "emit_nvtx", "load_nvprof", "profile"), "profiler._legacy"),
    **dict.fromkeys(("EventList", "FunctionEvent", "FunctionEventAvg"), "profiler._events"),
    "record_function": "profiler._record_function",
})  # fmt: skip
