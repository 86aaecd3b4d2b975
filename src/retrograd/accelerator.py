"""``torch.accelerator``: the GPU or the TPU, if JAX can use one.

>>> import retrograd as torch
>>> torch.accelerator.is_available(), torch.accelerator.current_accelerator()
(False, None)
"""

from __future__ import annotations

from typing import Any

from retrograd.autograd._wrap import Plug
from retrograd.tensor._device import device as _device


def _kind() -> str | None:
    """The type of the accelerator."""
    return next((kind for kind in ("cuda", "tpu") if Plug.devices().count(kind)), None)


def is_available() -> bool:
    """Whether tensors can be on a GPU or another accelerator."""
    return _kind() is not None


def device_count() -> int:
    """How many accelerators there are."""
    kind = _kind()
    return 0 if kind is None else int(Plug.devices().count(kind))


def current_accelerator(check_available: bool = False) -> Any:
    """The device of the accelerator; None if there is none."""
    kind = _kind()
    return None if kind is None else _device(kind)


def current_device_index() -> int:
    """The index of the current accelerator; RuntimeError if there is none."""
    kind = _kind()
    if kind is None:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return int(Plug.devices().current(kind))


current_device_idx = current_device_index


def synchronize(device: Any = None) -> None:
    """Wait for the accelerator; RuntimeError if there is none."""
    current_device_index()
    Plug.devices().synchronize()


def empty_cache() -> None:
    """Does nothing: no memory is cached."""


__all__ = ["current_accelerator", "current_device_idx", "current_device_index", "device_count",
           "empty_cache", "is_available", "synchronize"]  # fmt: skip
