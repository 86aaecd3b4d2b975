"""``torch.fft``: names are loaded on first use, through the index of operations."""

from typing import Any as _Any

from retrograd.tensor._public import namespace as _namespace

_operation, _OPERATIONS = _namespace(__name__, "fft")
_FREQUENCIES = ["fftfreq", "rfftfreq"]
__all__ = [*_OPERATIONS, *_FREQUENCIES]


def __getattr__(name: str) -> _Any:
    if name not in _FREQUENCIES:
        return _operation(name)
    from retrograd.tensor import _windows

    value = globals()[name] = getattr(_windows, name)
    return value


def __dir__() -> list[str]:
    return list(__all__)
