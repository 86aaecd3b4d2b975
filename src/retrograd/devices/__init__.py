"""Tensors on devices that XLA, the compiler behind JAX, computes on.

A tensor on a device holds a ``_values.py:DeviceValue`` instead of an array. It is a value of a
level below all transforms, like the values of the device ``meta``, so the engine, rules, hooks,
modules and optimizers work without code for devices. ``_level.py`` runs an operation by its
lowering (``compiler/xla``), compiled once for each signature (``_calls.py``), and a composite, or
the rules of a node, as one compiled function (``_fused.py``, ``_nodes.py``). Calls of such
functions wait until a value is needed, and then run together (``_deferred.py``). ``_platforms.py``
lists the available devices.

This package, and with it JAX, is imported when a program first uses such a device.
"""

from __future__ import annotations

from typing import Any

from retrograd.devices import _level as _level  # sets Lifted.device_level
from retrograd.devices._deferred import run_all, synchronize
from retrograd.devices._platforms import (
    all_of,
    count,
    current,
    device_of,
    everywhere,
    jax,
    set_current,
)
from retrograd.devices._values import DeviceValue, filled, put


def function_of(program: Any) -> Any:
    """A compiled program as a function of values on a device."""
    from retrograd.devices import _programs  # imports JAX

    return _programs.function_of(program)


__all__ = ["DeviceValue", "all_of", "count", "current", "device_of", "everywhere", "filled",
           "function_of", "jax", "put", "run_all", "set_current", "synchronize"]  # fmt: skip
