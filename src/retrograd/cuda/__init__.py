"""``torch.cuda``: the available GPUs, and their state. They are those that JAX can use, if it is
installed with its GPU plugin. JAX is imported by the first call that needs it.

>>> import retrograd as torch
>>> torch.device("cuda" if torch.cuda.is_available() else "cpu")
device(type='cpu')
"""

from __future__ import annotations

from typing import Any, NoReturn

from retrograd.autograd._wrap import Plug
from retrograd.cuda import amp as amp


class OutOfMemoryError(RuntimeError):
    """Raised when a device runs out of memory."""


def is_available() -> bool:
    """Whether tensors can be on a GPU."""
    return device_count() > 0


def is_initialized() -> bool:
    """Whether a GPU is available."""
    return is_available()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether a GPU computes with bfloat16."""
    return is_available()


def device_count() -> int:
    """The number of available GPUs."""
    count: int = Plug.devices().count("cuda")
    return count


def init() -> None:
    """Raises a RuntimeError if no GPU is available."""
    if not is_available():
        raise RuntimeError(
            "there is no GPU that JAX can use. The error of torch.zeros(1, device='cuda') says "
            "what is missing"
        )


def _gpu(device: Any) -> Any:
    """JAX's device of a GPU, given by index or name, or the current one."""
    init()
    index = getattr(device, "index", device)
    if isinstance(index, str):
        index = int(index.partition(":")[2] or current_device())
    return Plug.devices().device_of("cuda", index)


def current_device() -> int:
    """The index of the current GPU, which ``"cuda"`` refers to."""
    init()
    index: int = Plug.devices().current("cuda")
    return index


def set_device(device: Any) -> None:
    """Sets the current GPU, which ``"cuda"`` refers to."""
    init()
    Plug.devices().set_current("cuda", getattr(device, "index", device))


def get_device_name(device: Any = None) -> str:
    """The name of a GPU."""
    return str(_gpu(device).device_kind)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU."""
    major, _, minor = str(_gpu(device).compute_capability).partition(".")
    return int(major), int(minor or 0)


class _Properties:
    """The name and the memory of a GPU."""

    def __init__(self, gpu: Any) -> None:
        self.name = str(gpu.device_kind)
        self.total_memory = int((gpu.memory_stats() or {}).get("bytes_limit", 0))
        capability = str(getattr(gpu, "compute_capability", "0.0")).split(".")
        self.major, self.minor = int(capability[0]), int(capability[-1])


def get_device_properties(device: Any = None) -> _Properties:
    """The name and the memory of a GPU."""
    return _Properties(_gpu(device))


def synchronize(device: Any = None) -> None:
    """Waits until all GPUs have finished their pending work."""
    init()
    Plug.devices().synchronize()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """The free and the total bytes of memory that JAX may use on a GPU."""
    stats = memory_stats(device)
    total = int(stats.get("bytes_limit", 0))
    return total - int(stats.get("bytes_in_use", 0)), total


def _without_streams(*args: Any, **named: Any) -> NoReturn:
    """Raises NotImplementedError, because XLA has no streams; RuntimeError without a GPU."""
    init()
    raise NotImplementedError(
        "streams, events and graphs are not supported: XLA schedules its own work. "
        "torch.cuda.synchronize() waits for all of it"
    )


current_stream = default_stream = stream = Stream = Event = CUDAGraph = _without_streams


def get_rng_state(device: Any = None) -> Any:
    """The state of the CPU's generator, which draws the random numbers of all devices."""
    from retrograd.tensor._rng import get_rng_state

    init()
    return get_rng_state()


def set_rng_state(new_state: Any, device: Any = None) -> None:
    """Sets the state of the CPU's generator, which draws the random numbers of all devices."""
    from retrograd.tensor._rng import set_rng_state

    init()
    set_rng_state(new_state)


def manual_seed(seed: int) -> None:
    """Does nothing: the CPU's generator draws the random numbers of all devices."""


def manual_seed_all(seed: int) -> None:
    """Does nothing: the CPU's generator draws the random numbers of all devices."""


seed = seed_all = lambda: None


def get_rng_state_all() -> list[Any]:
    """An empty list: GPUs have no generators of their own."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Does nothing: GPUs have no generators of their own."""


def empty_cache() -> None:
    """Does nothing: no memory is cached."""


def ipc_collect() -> None:
    """Does nothing: GPU memory is not shared between processes."""


def memory_stats(device: Any = None) -> dict[str, Any]:
    """JAX's memory statistics of a GPU."""
    if not is_available():
        return {}
    Plug.devices().run_all()
    return dict(_gpu(device).memory_stats() or {})


def memory_allocated(device: Any = None) -> int:
    """The bytes in use on a GPU."""
    return int(memory_stats(device).get("bytes_in_use", 0))


def max_memory_allocated(device: Any = None) -> int:
    """The peak number of bytes in use on a GPU."""
    return int(memory_stats(device).get("peak_bytes_in_use", 0))


memory_reserved = memory_cached = memory_allocated
max_memory_reserved = max_memory_cached = max_memory_allocated


def reset_peak_memory_stats(device: Any = None) -> None:
    """Does nothing: the peak cannot be reset."""


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """A summary of the memory of a GPU, as text."""
    if not is_available():
        return "There is no GPU."
    return "\n".join(f"{name}: {value}" for name, value in memory_stats(device).items())


class device:  # noqa: N801 - PyTorch's name
    """A context in which a GPU is the current one. With -1 or None, it does nothing.

    Args:
        device: The index of a GPU; RuntimeError if it is not there.
    """

    def __init__(self, device: Any = None) -> None:
        self.index = getattr(device, "index", device)
        self.before: int | None = None

    def __enter__(self) -> None:
        if self.index is not None and self.index != -1:
            self.before = current_device()
            set_device(self.index)

    def __exit__(self, *error: Any) -> None:
        if self.before is not None:
            set_device(self.before)


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
