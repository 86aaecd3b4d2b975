"""``torch._C``: names of PyTorch's compiled module that programs use."""

from __future__ import annotations

from retrograd._modes import modes
from retrograd.tensor._device import device
from retrograd.tensor._interception import DisableTorchFunction, DisableTorchFunctionSubclass
from retrograd.tensor._overrides import disabled as _disabled_torch_function_impl
from retrograd.tensor._rng import Generator
from retrograd.tensor._tensor import Size, Tensor
from retrograd.tensor._tensor import Tensor as TensorBase

_TensorBase = TensorBase


def _get_tracing_state() -> None:
    """What traces the calls of PyTorch: nothing does."""


def _is_tracing() -> bool:
    return False


def _are_functorch_transforms_active() -> bool:
    """Whether the caller runs under ``vmap``, ``jvp`` or another transform."""
    return bool(modes.levels)


def _log_api_usage_once(event: str) -> None:
    """Counts in PyTorch how often its parts are used; does nothing here."""


__all__ = [
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "Generator", "Size", "Tensor",
    "TensorBase", "_disabled_torch_function_impl", "device",
]  # fmt: skip
