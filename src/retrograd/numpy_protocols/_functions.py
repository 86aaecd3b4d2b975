"""The table of NumPy functions, and calling one with tensors.

``MODULES`` are the modules of this folder with functions that have NumPy's names and arguments. If
one has a parameter ``out``, the result is written there; the function itself need not.
``RENAMED`` has the rest: functions of ours that take the same arguments in the same order.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

import retrograd as torch
from retrograd import Tensor, arrays
from retrograd.numpy_protocols._arguments import (
    array,
    has_derivative,
    into,
    on_arrays,
    refuse,
    tensors_in,
)

FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {}
MODULES = {
    "_reductions": "numpy", "_shapes": "numpy", "_elements": "numpy", "_selecting": "numpy",
    "_products": "numpy", "_linalg": "numpy.linalg", "_writing": "numpy",
    "_windows": "numpy.lib.stride_tricks",
}  # fmt: skip


def _with_out(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    parameters = inspect.signature(function).parameters
    if "out" not in parameters:
        return function
    by_name = parameters["out"].kind is inspect.Parameter.KEYWORD_ONLY
    position = sys.maxsize if by_name else list(parameters).index("out")

    @functools.wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        out = named.pop("out", None)
        if len(args) > position:
            out, args = args[position], (*args[:position], None, *args[position + 1 :])
        return into(out, function(*args, **named), name)

    return called


def _renamed(ours: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function of ours under NumPy's name: the first argument may be an array."""

    def called(first: Any, *args: Any, out: Any = None, **named: Any) -> Any:
        for theirs in ("axis", "axes"):
            if theirs in named:
                named["dim"] = named.pop(theirs)
        return into(out, ours(array(first), *args, **named), name)

    return called


# Functions that take the same arguments with us, in the same order, under the same or another name.
RENAMED: dict[str, dict[str, str]] = {
    "numpy": {
        "i0": "i0", "sinc": "sinc", "isposinf": "isposinf", "isneginf": "isneginf", "fix": "trunc",
        "fliplr": "fliplr", "flipud": "flipud", "moveaxis": "movedim", "swapaxes": "swapaxes",
    },
    "numpy.fft": dict.fromkeys(
        ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2",
         "fftn", "ifftn", "rfftn", "irfftn", "fftshift", "ifftshift"), ""),
}  # fmt: skip
# What only looks at values: tests, printing, what dtype results have.
LOOKING = {
    "allclose", "array2string", "array_equal", "array_equiv", "array_repr", "array_str",
    "can_cast", "common_type", "iscomplexobj", "isrealobj", "may_share_memory", "min_scalar_type",
    "result_type", "shares_memory", "einsum_path",
}  # fmt: skip


def array_function(function: Any, types: Any, args: Any, named: Any) -> Any:
    """What ``Tensor.__array_function__`` returns."""
    if not all(issubclass(kind, (Tensor, arrays.ndarray)) for kind in types):
        return NotImplemented
    module, name = function.__module__, function.__name__
    ours = counterpart(module, name)
    if ours is not None:
        return ours(*args, **named)
    if name not in LOOKING and any(has_derivative(x) for x in tensors_in((args, named))):
        refuse(f"{module}.{name}")
    return on_arrays(function, args, named)


def counterpart(module: str, name: str) -> Callable[..., Any] | None:
    """The tensor function that implements a NumPy function, or None."""
    _load()
    return FUNCTIONS.get((module, name))


@functools.cache
def _load() -> None:
    """Import the modules and enter their functions, once."""
    for module, names in RENAMED.items():
        space = torch.fft if module == "numpy.fft" else torch
        for theirs, ours in names.items():
            full = f"{module}.{theirs}"
            FUNCTIONS[module, theirs] = _renamed(getattr(space, ours or theirs), full)
    for part, module in MODULES.items():
        home = importlib.import_module(f"retrograd.numpy_protocols.{part}")
        for name, function in vars(home).items():
            defined = inspect.isfunction(function) and function.__module__ == home.__name__
            if defined and not name.startswith("_"):
                FUNCTIONS[module, name] = _with_out(function, f"{module}.{name}")
