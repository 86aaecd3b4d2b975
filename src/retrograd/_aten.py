"""``torch.ops.aten``: PyTorch's kernel names, mapped to the functions of the same name."""

from __future__ import annotations

import importlib
from typing import Any

# Kernels of namespaces have names with a prefix: torch.ops.aten.linalg_inv is torch.linalg.inv.
_PREFIXES = {"linalg_": "linalg", "special_": "special", "fft_": "fft"}


class Kernel:
    """A function under the name of a kernel. Its overloads, such as ``add.Tensor`` and
    ``mm.default``, are all the function itself, which chooses by its arguments."""

    def __init__(self, name: str, function: Any) -> None:
        self.__name__ = name
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Kernel:
        if name.startswith("_"):
            raise AttributeError(f"'{self!r}' object has no attribute {name!r}")
        return Kernel(f"{self.__name__}.{name}", self._function)

    def __repr__(self) -> str:
        return self.__name__


class Kernels:
    """The namespace ``torch.ops.aten``."""

    def __getattr__(self, name: str) -> Kernel:
        function = _function(name)
        if function is None:
            raise AttributeError(
                f"'_OpNamespace' 'aten' object has no attribute {name!r}: there are the kernels "
                "that are functions or methods of the same name"
            )
        kernel = self.__dict__[name] = Kernel(f"aten.{name}", function)
        return kernel


def _function(name: str) -> Any:
    if name.startswith("__"):
        return None
    for prefix, module in _PREFIXES.items():
        if name.startswith(prefix):
            home = importlib.import_module(f"retrograd.{module}")
            return getattr(home, name.removeprefix(prefix), None)
    torch = importlib.import_module("retrograd")
    homes = (torch, importlib.import_module("retrograd.nn.functional"), torch.Tensor)
    candidates = (getattr(home, name, None) for home in homes)
    return next((f for f in candidates if callable(f) and not isinstance(f, type)), None)


aten = Kernels()
