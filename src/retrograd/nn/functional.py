"""``torch.nn.functional``: names are loaded on first use, through the index of operations."""

from typing import Any as _Any

from retrograd.tensor._public import namespace as _namespace

_function, __all__ = _namespace(__name__, "functional")
_FRACTIONAL = ("fractional_max_pool2d", "fractional_max_pool3d")
__all__ += _FRACTIONAL


def __getattr__(name: str) -> _Any:
    if name not in _FRACTIONAL:
        return _function(name)
    import importlib

    return getattr(importlib.import_module("retrograd.nn.fractional"), name)


def __dir__() -> list[str]:
    return list(__all__)
