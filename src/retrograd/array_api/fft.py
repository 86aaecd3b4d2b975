"""``fft`` of the array API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import retrograd as torch
from retrograd.array_api._dtypes import Array

_ALONG_ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
_ALONG_MANY = ("fftn", "ifftn", "rfftn", "irfftn")
__all__ = sorted(
    [*_ALONG_ONE, *_ALONG_MANY, "fftfreq", "rfftfreq", "fftshift", "ifftshift"]
)


def _along_one(name: str) -> Callable[..., Any]:
    function = getattr(torch.fft, name)

    def called(x: Array, /, *, n: int | None = None, axis: int = -1,
               norm: str = "backward") -> Array:  # fmt: skip
        return function(x, n, axis, norm)

    return _named(called, name)


def _along_many(name: str) -> Callable[..., Any]:
    function = getattr(torch.fft, name)

    def called(x: Array, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Array:
        return function(x, s, axes, norm)

    return _named(called, name)


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__module__ = "retrograd.array_api.fft"
    function.__doc__ = (
        f"The array API's ``fft.{name}``.\n\nSee https://data-apis.org/array-api/2024.12/"
        f"extensions/generated/array_api.fft.{name}.html."
    )
    return function


for _name in _ALONG_ONE:
    globals()[_name] = _along_one(_name)
for _name in _ALONG_MANY:
    globals()[_name] = _along_many(_name)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The sample frequencies of ``fft``."""
    return torch.fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The sample frequencies of ``rfft``."""
    return torch.fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Array, /, *, axes: Any = None) -> Array:
    """The frequency zero moved to the middle."""
    return torch.fft.fftshift(x, axes)


def ifftshift(x: Array, /, *, axes: Any = None) -> Array:
    """The inverse of ``fftshift``."""
    return torch.fft.ifftshift(x, axes)
