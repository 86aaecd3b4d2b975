"""The available devices, and their names in JAX."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import Any

from retrograd.cuda import OutOfMemoryError
from retrograd.devices import _pending

# The names of device types, and the corresponding platforms of JAX.
PLATFORMS = {"cuda": ("cuda", "rocm"), "tpu": ("tpu",), "xla:cpu": ("cpu",), "xla": (None,)}
INSTALL = "pip install 'retrograd[xla]'"


@cache
def jax() -> Any:
    """The module JAX, imported by the first call, together with all lowerings."""
    if importlib.util.find_spec("jax") is None:
        raise ModuleNotFoundError(
            f"tensors on a device need JAX, which is not installed: {INSTALL} (for NVIDIA GPUs "
            "also: pip install 'jax[cuda12]')"
        )
    from retrograd.compiler import xla

    try:
        importlib.import_module("jax")
    except (ImportError, RuntimeError) as error:  # RuntimeError: jaxlib has another version
        raise ImportError(
            f"tensors on a device need JAX, which is installed but cannot be imported: {error}. "
            f"Install versions of jax and jaxlib that fit each other: {INSTALL} --upgrade"
        ) from error
    xla.load()
    return importlib.import_module("jax")


_devices: dict[str, list[Any]] = {}
_refused: dict[str, str] = {}  # JAX's messages about types that have no devices


def all_of(kind: str) -> list[Any]:
    """JAX's devices of a type, such as ``"cuda"``, in this process. An empty list if there is no
    such hardware."""
    if kind not in _devices:
        own = jax().process_index()
        _devices[kind] = [x for x in everywhere(kind) if x.process_index == own]
    return _devices[kind]


def everywhere(kind: str) -> list[Any]:
    """JAX's devices of a type, in all processes."""
    devices: list[Any] = []
    for platform in PLATFORMS[kind]:
        try:
            devices += jax().devices(platform)
        except RuntimeError as error:  # the platform is unknown, or could not be started
            _refused[kind] = str(error)
    return devices


# The packages that JAX needs to use an accelerator. Without them, JAX need not be imported to know
# that there is none.
_PLUGINS = {"cuda": "jax_plugins", "tpu": "libtpu"}


def count(kind: str) -> int:
    """The number of devices of a type; 0 without JAX."""
    needed = ("jax", _PLUGINS.get(kind, "jax"))
    if kind not in _devices and any(importlib.util.find_spec(name) is None for name in needed):
        return 0
    return len(all_of(kind))


_current: dict[str, int] = {}  # by type, the index of the current device


def current(kind: str) -> int:
    """The index of the current device of a type, which a name without an index refers to."""
    return _current.get(kind, 0)


def set_current(kind: str, index: int) -> None:
    device_of(kind, index)
    _current[kind] = index


def device_of(kind: str, index: int | None) -> Any:
    """JAX's device by type and index; RuntimeError if it does not exist."""
    if kind in _PLUGINS and not count(kind):
        needs = {"cuda": "'jax[cuda12]'", "tpu": "'jax[tpu]'"}[kind]
        missing = [x for x in ("jax", _PLUGINS[kind]) if importlib.util.find_spec(x) is None]
        if missing:
            names = {"jax": "JAX", "jax_plugins": "JAX's GPU plugin"}
            lacking = " and ".join([names.get(x, x) for x in missing])
            why = f"(not installed: {lacking}; {INSTALL} {needs})"
        else:
            report = "nvidia-smi" if kind == "cuda" else "the logs of the TPU"
            why = (
                "through JAX, which finds no such hardware, or no driver that fits. JAX says: "
                f"{_refused.get(kind, 'nothing')!r}. To find out more: python -c \"import jax; "
                f"jax.devices('{kind}')\" and {report}"
            )
        raise RuntimeError(
            f"device '{kind}' is not available: retrograd computes on the CPU with NumPy, and on "
            f"other devices with XLA {why}. Use device='cpu', or leave it out."
        )
    devices = all_of(kind)
    number = current(kind) if index is None else index
    if number >= len(devices):
        raise RuntimeError(
            f"there is no device '{kind}:{number}': there {_are(len(devices))} of this type, "
            "numbered from 0."
        )
    return devices[number]


def target(device: Any) -> Any:
    """JAX's device for a device, or JAX's sharding over all devices of a mesh."""
    if device._mesh is not None:
        return device._mesh.sharding((), ())
    return device_of(device.type, device.index)


def settled(results: Any) -> Any:
    """The results of a function of JAX, an array or several. On a mesh of virtual devices of the
    CPU, wait for them.

    These devices share as many threads as there are devices, and a program that communicates needs
    all of them. JAX does not wait for a program before it starts the next. When 32 programs wait
    for a device, starting another blocks a thread that the first program needs, a deadlock.
    """
    several = isinstance(results, (tuple, list))
    if several and not results:
        return results
    arrays = results if several else (results,)
    devices = arrays[0].sharding.device_set
    if len(devices) > 1 and next(iter(devices)).platform == "cpu":
        wait_for(arrays)
    return results


def wait_for(arrays: Any) -> None:
    """Wait until arrays are computed. For arrays that several processes compute, this ends with an
    error if one of the processes has ended."""
    if arrays[0].is_fully_addressable:
        jax().block_until_ready(arrays)
    else:
        from retrograd.distributed import _mesh_waits

        _mesh_waits.wait_for(arrays)


def within_memory(function: Any, device: Any, *args: Any) -> Any:
    """Call a function of JAX. OutOfMemoryError if the device has no memory for the results."""
    try:
        return settled(function(*args))
    except jax().errors.JaxRuntimeError as error:
        raise explained(error, device) from None


def explained(error: Exception, device: Any, late: str | None = None) -> Exception:
    """The exception to raise for an error of XLA: an OutOfMemoryError with advice, or the error
    itself. ``late`` is the name of an operation that was queued (``_deferred.py``)."""
    if "RESOURCE_EXHAUSTED" not in str(error):
        return error
    where = "" if late is None else (
        f" It happened in {late}, which may have been called on an earlier line: operations wait "
        "until a value is needed, and run again when the value is next read."
    )  # fmt: skip
    return out_of_memory(device, error, where)


def out_of_memory(device: Any, error: Exception, where: str = "") -> OutOfMemoryError:
    """The error for a device without enough memory."""
    return OutOfMemoryError(
        f"{device} is out of memory. Existing tensors are unchanged.{where} Use a smaller batch, "
        "delete tensors that are not needed, recompute (torch.utils.checkpoint), or split the "
        f"model over several devices (fully_shard). The reason: {error}"
    )


def _are(number: int) -> str:
    return "is one" if number == 1 else f"are {number}"


def synchronize() -> None:
    """Wait until all devices have finished. A device runs programs in order, so this waits for the
    result of one more program on each."""
    module = jax()
    for devices in _devices.values():
        for device in devices:
            if device not in _last:
                _last[device] = module.device_put(0, device)
            _one_more()(_last[device]).block_until_ready()
    _pending.check()


_last: dict[Any, Any] = {}  # the argument of that program, for each device


@cache
def _one_more() -> Any:
    return jax().jit(lambda x: x + 1)
