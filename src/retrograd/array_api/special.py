"""Special functions under SciPy's names. The standard has no such extension yet; SciPy looks here
for what ``scipy.special.erf(x)`` and the like are to call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import retrograd as torch
from retrograd.numpy_protocols import _ufuncs
from retrograd.numpy_protocols._arguments import operands


def __getattr__(name: str) -> Callable[..., Any]:
    operation: Any = _ufuncs.OTHERS.get(name, name)
    if isinstance(operation, str):
        operation = getattr(torch.special, operation, None)
    if operation is None or name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def called(*args: Any) -> Any:
        return operation(*operands(args))

    return called


def __dir__() -> list[str]:
    renamed = [n for n, ours in _ufuncs.OTHERS.items() if hasattr(torch.special, str(ours))]
    return sorted({*renamed, *dir(torch.special)})
