"""``torch.accelerator``: there is none.

>>> import retrograd as torch
>>> torch.accelerator.is_available(), torch.accelerator.current_accelerator()
(False, None)
"""

from __future__ import annotations

from typing import Any, NoReturn


def is_available() -> bool:
    """Whether tensors can be on a GPU or another accelerator: no."""
    return False


def device_count() -> int:
    """How many accelerators there are: none."""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """The device of the accelerator: None."""


def current_device_index() -> NoReturn:
    """The index of the current accelerator: RuntimeError, since there is none."""
    raise RuntimeError("Cannot access accelerator device when none is available.")


current_device_idx = current_device_index


def synchronize(device: Any = None) -> NoReturn:
    """Wait for the accelerator: RuntimeError, since there is none."""
    raise RuntimeError("Cannot access accelerator device when none is available.")


def empty_cache() -> None:
    """Give back what is kept of the accelerator's memory. Nothing is kept."""


__all__ = ["current_accelerator", "current_device_idx", "current_device_index", "device_count",
           "empty_cache", "is_available", "synchronize"]  # fmt: skip
