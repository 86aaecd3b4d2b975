"""``torch.cuda``, as far as programs ask it whether there is a GPU: there is none.

>>> import retrograd as torch
>>> torch.device("cuda" if torch.cuda.is_available() else "cpu")
device(type='cpu')
"""

from __future__ import annotations

from typing import Any, NoReturn

from retrograd.cuda import amp as amp


class OutOfMemoryError(RuntimeError):
    """What programs catch where the memory of a GPU may not suffice; never raised here."""


def is_available() -> bool:
    """Whether tensors can be on a GPU: no."""
    return False


def is_initialized() -> bool:
    """Whether a GPU is in use: no."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether a GPU computes with bfloat16: there is none."""
    return False


def device_count() -> int:
    """How many GPUs there are to compute on: none."""
    return 0


def init() -> NoReturn:
    """Start using a GPU: RuntimeError, since there is none."""
    raise RuntimeError("there is no GPU: retrograd computes on the CPU with NumPy")


def _without_gpu(*given: Any, **named: Any) -> NoReturn:
    """Something that needs a GPU: RuntimeError, since there is none."""
    init()


# What needs a GPU to be answered.
current_device = current_stream = default_stream = get_device_capability = get_device_name = init
get_device_properties = set_device = synchronize = mem_get_info = stream = _without_gpu
Stream = Event = CUDAGraph = get_rng_state = set_rng_state = _without_gpu


def manual_seed(seed: int) -> None:
    """Seed the generator of the current GPU. There is none to seed."""


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all GPUs. There are none to seed."""


seed = seed_all = lambda: None


def get_rng_state_all() -> list[Any]:
    """The states of the generators of all GPUs: there are none."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Set the states of the generators of all GPUs. There are none."""


def empty_cache() -> None:
    """Give back what is kept of a GPU's memory. Nothing is kept."""


def ipc_collect() -> None:
    """Give back what other processes have let go of. There is nothing."""


def memory_allocated(device: Any = None) -> int:
    """The bytes of tensors on a GPU: none."""
    return 0


memory_reserved = max_memory_allocated = max_memory_reserved = memory_allocated
memory_cached = max_memory_cached = memory_allocated


def reset_peak_memory_stats(device: Any = None) -> None:
    """Start counting anew how much memory of a GPU is used. None is."""


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def memory_stats(device: Any = None) -> dict[str, Any]:
    """How the memory of a GPU is used: nothing to say."""
    return {}


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """How the memory of a GPU is used: nothing to say."""
    return "There is no GPU."


class device:  # noqa: N801 - PyTorch's name
    """A context in which a GPU is the current one. With -1 or None, as on machines without one,
    nothing happens.

    Args:
        device: The index of a GPU; RuntimeError if it is one.
    """

    def __init__(self, device: Any = None) -> None:
        self.index = device

    def __enter__(self) -> None:
        if self.index is not None and self.index != -1:
            init()

    def __exit__(self, *given: Any) -> None:
        pass


__all__ = [
    "CUDAGraph", "Event", "Stream", "amp", "current_device", "current_stream", "default_stream",
    "device", "device_count", "empty_cache", "get_device_capability", "get_device_name",
    "get_device_properties", "get_rng_state", "get_rng_state_all", "init", "ipc_collect",
    "is_available", "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all",
    "max_memory_allocated", "max_memory_cached", "max_memory_reserved", "mem_get_info",
    "memory_allocated", "memory_cached", "memory_reserved", "memory_stats", "memory_summary",
    "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_memory_stats", "seed",
    "seed_all", "set_device", "set_rng_state", "set_rng_state_all", "stream", "synchronize",
]  # fmt: skip
