"""The device that tests of devices use."""

from __future__ import annotations

from typing import Any

import retrograd as torch

DEVICE = "xla:cpu"
HERE = torch.device(DEVICE, 0)


def made(*values: Any, **options: Any) -> Any:
    return torch.tensor(*values, device=DEVICE, **options)
