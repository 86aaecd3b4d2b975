"""Windows for spectral analysis, as ``torch.signal.windows`` has them.

>>> import retrograd as torch
>>> torch.signal.windows.hann(4)
tensor([0.0000, 0.7500, 0.7500, 0.0000])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from retrograd.arrays import dtypes
from retrograd.tensor._creation import empty, ones, tensor, zeros
from retrograd.tensor._ranges import arange, linspace
from retrograd.tensor._tensor import Tensor

_COSINES = ("blackman", "general_hamming", "hamming", "hann", "nuttall")
_OPTIONS = """\
    sym: Whether the window is symmetric; if not, it is periodic.
    dtype: The dtype of the result.
    layout: Accepted for compatibility; every tensor is strided.
    device: The device of the result.
    requires_grad: Whether operations on the result are recorded for autograd.

Returns:
    A tensor of ``M`` elements.
"""


def _window(
    summary: str, arguments: str = ""
) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """A window from a function of its length, which checks what all have in common."""

    def decorate(formula: Callable[..., Tensor]) -> Callable[..., Tensor]:
        name = formula.__name__
        # Those that are sums of cosines leave all checks to these.
        checker = "general_cosine" if name in _COSINES else name

        def function(
            M: int, *given: Any, sym: bool = True, dtype: Any = None, layout: Any = None,  # noqa: N803
            device: Any = None, requires_grad: bool = False, **named: Any,
        ) -> Tensor:  # fmt: skip
            dtype = dtypes.get_default_dtype() if dtype is None else dtype
            if M < 0:
                raise ValueError(f"{checker} requires non-negative window length, got M={M}")
            if dtype not in (dtypes.float32, dtypes.float64):
                raise ValueError(f"{checker} expects float32 or float64 dtypes, got: {dtype}")
            if given:
                count = 1 + len(given)
                raise TypeError(f"{name}() takes 1 positional argument but {count} were given")
            made = formula(max(M, 2), sym, dtype, **named)  # which checks the other arguments
            if M == 0:
                made = empty((0,), dtype=dtype)
            elif M == 1:
                made = ones((1,), dtype=dtype)
            made = made if device is None else made.to(device)
            return made.requires_grad_() if requires_grad else made

        function.__name__ = function.__qualname__ = name
        function.__doc__ = f"""{summary}

Args:
    M: The number of elements.
{arguments}{_OPTIONS}"""
        return function

    return decorate


def _steps(M: int, sym: bool, start: float, step: float, dtype: Any) -> Tensor:  # noqa: N803
    """``M`` numbers from ``start``, ``step`` apart."""
    return linspace(start, start + (M - 1) * step, M, dtype=dtype)


@_window("The exponential window: exponential decay on both sides of a center.",
         "    center: The center. The default is the middle; none if not symmetric.\n"
         "    tau: How many elements it takes to decay to 1/e.\n")  # fmt: skip
def exponential(M: int, sym: bool, dtype: Any, center: Any = None, tau: float = 1.0) -> Tensor:  # noqa: N803
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if center is None:
        center = (M if not sym and M > 1 else M - 1) / 2.0
    k = _steps(M, sym, -center / tau, 1 / tau, dtype)
    return (-k.abs()).exp()


@_window("The cosine window: half a period of a sine.")
def cosine(M: int, sym: bool, dtype: Any) -> Tensor:  # noqa: N803
    constant = math.pi / (M + 1 if not sym and M > 1 else M)
    return _steps(M, sym, 0.5 * constant, constant, dtype).sin()


@_window("The Gaussian window.", "    std: The standard deviation, in elements.\n")
def gaussian(M: int, sym: bool, dtype: Any, std: float = 1.0) -> Tensor:  # noqa: N803
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    start = -(M if not sym and M > 1 else M - 1) / 2.0
    constant = 1 / (std * math.sqrt(2))
    k = _steps(M, sym, start * constant, constant, dtype)
    return (-(k**2)).exp()


@_window("The Kaiser window.", "    beta: How narrow it is.\n")
def kaiser(M: int, sym: bool, dtype: Any, beta: float = 12.0) -> Tensor:  # noqa: N803
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if M < 2:
        return zeros((M,), dtype=dtype)
    number = tensor(beta, dtype=dtype)
    constant = 2.0 * beta / (M if not sym else M - 1)
    k = linspace(-beta, min(beta, -beta + (M - 1) * constant), M, dtype=dtype)
    inside = (beta * beta - k**2).clamp(min=0).sqrt()
    return inside.i0() / number.i0()


@_window("A sum of cosines with alternating signs.", "    a: The weights of the cosines.\n")
def general_cosine(M: int, sym: bool, dtype: Any, a: Iterable[float] = ()) -> Tensor:  # noqa: N803
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = list(a)
    if not weights:
        raise ValueError("Coefficients cannot be empty")
    constant = 2 * math.pi / (M if not sym else max(M - 1, 1))
    k = _steps(M, sym, 0, constant, dtype)
    signed = tensor([(-1) ** i * w for i, w in enumerate(weights)], dtype=dtype)
    i = arange(len(weights), dtype=dtype)
    return (signed.unsqueeze(-1) * (i.unsqueeze(-1) * k).cos()).sum(0)


_cosines = general_cosine


@_window("The general Hamming window.", "    alpha: The weight of the constant.\n")
def general_hamming(M: int, sym: bool, dtype: Any, alpha: float = 0.54) -> Tensor:  # noqa: N803
    return _cosines(M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype)


@_window("The Hamming window.")
def hamming(M: int, sym: bool, dtype: Any) -> Tensor:  # noqa: N803
    return general_hamming(M, sym=sym, dtype=dtype)


@_window("The Hann window.")
def hann(M: int, sym: bool, dtype: Any) -> Tensor:  # noqa: N803
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype)


@_window("The Blackman window.")
def blackman(M: int, sym: bool, dtype: Any) -> Tensor:  # noqa: N803
    return _cosines(M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype)


@_window("The Bartlett window, a triangle.")
def bartlett(M: int, sym: bool, dtype: Any) -> Tensor:  # noqa: N803
    return 1 - _steps(M, sym, -1, 2 / (M if not sym else max(M - 1, 1)), dtype).abs()


@_window("The Nuttall window.")
def nuttall(M: int, sym: bool, dtype: Any) -> Tensor:  # noqa: N803
    return _cosines(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, dtype=dtype)


__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
           "general_hamming", "hamming", "hann", "kaiser", "nuttall"]  # fmt: skip
