"""Moving a tensor to another device, as an operation: its gradient moves back."""

from __future__ import annotations

from typing import Any

from retrograd.ops._lifted import device_value
from retrograd.ops._operation import Linear
from retrograd.tensor._device import CPU, placed
from retrograd.tensor._fast import bind

# It is no entry of the table: no program of one device contains it.
to_device: Linear = Linear(
    "to_device", lambda self, device, source: placed(self, device), inputs=("self",),
    rules={"self": lambda g, device, source: to_device(g, device=source, source=device)},
    node="ToCopyBackward0", dtypes="free", rearranges=True, table={}, batch="leading",
)  # fmt: skip
bind(to_device)


def moved(tensor: Any, target: Any) -> Any:
    """The tensor on another device. It is copied, with its history."""
    value = device_value(tensor)
    source = CPU if value is None else value.memory.device
    return to_device(tensor, device=target, source=source)
