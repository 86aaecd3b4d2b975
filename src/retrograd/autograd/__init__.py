"""Differentiation: ``backward``, ``grad``, custom Functions, modes, and the graph behind them."""

from typing import TYPE_CHECKING, Any

from retrograd.autograd import grad_mode
from retrograd.autograd._backward import backward, grad
from retrograd.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)

if TYPE_CHECKING:
    from retrograd.autograd import anomaly_mode, forward_ad, function, functional, graph, profiler
    from retrograd.autograd._explaining import explain
    from retrograd.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
    from retrograd.autograd.function import Function
    from retrograd.autograd.gradcheck import gradcheck, gradgradcheck
    from retrograd.autograd.variable import Variable


_MODULES = (
    "anomaly_mode", "forward_ad", "function", "functional", "graph", "profiler", "variable"
)  # fmt: skip
_LATER = {
    "Function": "function", "Variable": "variable", "detect_anomaly": "anomaly_mode",
    "explain": "_explaining", "set_detect_anomaly": "anomaly_mode",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """What not every program uses is loaded when first used, to import faster."""
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"retrograd.autograd.{name}")
    if name in _LATER:
        module = importlib.import_module(f"retrograd.autograd.{_LATER[name]}")
        value = globals()[name] = getattr(module, name)
        return value
    if name not in ("gradcheck", "gradgradcheck"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Importing the module has set the name "gradcheck" to it; the name is the function's.
    module = importlib.import_module("retrograd.autograd.gradcheck")
    globals().update(gradcheck=module.gradcheck, gradgradcheck=module.gradgradcheck)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = ["Function", "Variable", "anomaly_mode", "backward", "detect_anomaly", "enable_grad",
           "explain", "forward_ad", "function", "functional", "grad", "grad_mode", "gradcheck",
           "gradgradcheck", "graph", "inference_mode", "is_multithreading_enabled", "no_grad",
           "profiler", "set_detect_anomaly", "set_grad_enabled",
           "set_multithreading_enabled"]  # fmt: skip
