"""Errors where a library asks a tensor that requires grad for a plain array, and what to do."""

from __future__ import annotations

import os
import sys
from types import FrameType

NO_ARRAY = (
    "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
)
_ADVICE = {
    "numpy": "pass tensors to NumPy's functions as they are, which records them. In place of "
    "np.asarray(x), use x; in place of np.array([x, y]), np.stack([x, y]).",
    "scipy": "this function of SciPy computes with NumPy arrays; use what stands for it in "
    "torch.linalg, torch.special, torch.fft, torch.sparse, torch.optimize, torch.integrate, "
    "torch.interpolate or torch.distributions, which is recorded.",
    "sklearn": "this function of scikit-learn computes with NumPy arrays; if it supports the array "
    "API, call sklearn.set_config(array_api_dispatch=True) first, or else pass x.detach().",
    "pandas": "pandas holds plain numbers; pass x.detach(), or compute with tensors of its "
    "columns, torch.as_tensor(series.to_numpy()).",
    "matplotlib": "pass x.detach().",
}  # fmt: skip
_ARRAY_API = (
    " If it supports the array API, it is recorded with SCIPY_ARRAY_API=1 in the environment "
    "before SciPy is imported."
)


def no_array() -> RuntimeError:
    """The error, with advice for the library that asked."""
    asking = _asking()
    advice = _ADVICE[asking]
    if asking == "scipy" and os.environ.get("SCIPY_ARRAY_API", "0") in ("", "0"):
        advice += _ARRAY_API
    return RuntimeError(f"{NO_ARRAY}\n  What to do: {advice}")


def _asking() -> str:
    """The library whose function the program called: the outermost before a line of its own."""
    found = "numpy"
    frame: FrameType | None = sys._getframe(3)  # what called __array__
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in _ADVICE:
            break
        found, frame = package, frame.f_back
    return found
