"""Windows to weight a signal with, and the frequencies of Fourier transforms."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops._arguments import check_int
from retrograd.ops._public import named
from retrograd.ops._refusals import c_name
from retrograd.ops._sections import complete_all, like, sections
from retrograd.tensor._creation import MEANINGS, new_tensor, numpy_dtype
from retrograd.tensor._tensor import Tensor


def _window(
    name: str, length: Any, periodic: bool, shape: Callable[[int, Any], Raw], dtype: Any,
    requires_grad: bool, device: Any,
) -> Tensor:  # fmt: skip
    """A window of ``length`` points; a periodic one is the start of one that is a point longer."""
    if not hasattr(length, "__index__"):
        raise TypeError(
            f"{name}(): argument 'window_length' (position 1) must be int, not "
            f"{type(length).__name__}"
        )
    length, wanted = operator.index(length), numpy_dtype(dtype)
    if wanted.kind not in dtypes.INEXACT:
        raise RuntimeError(
            f"{name} expects floating point dtypes, got: TensorOptions(dtype={c_name(wanted)}, "
            "device=cpu, layout=Strided (default), requires_grad=false (default), "
            "pinned_memory=false, memory_format=(nullopt))"
        )
    if length < 0:
        raise RuntimeError(
            f"{name} requires non-negative window_length, got window_length={length}"
        )
    if length < 2:
        return new_tensor(arrays.ones((length,), wanted), requires_grad, device)
    if wanted.kind == "c":
        word = dtypes.type_word(wanted)
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{word}'")
    points = shape(length + 1 if periodic else length, wanted)
    return new_tensor(arrays.copy(points[:length]), requires_grad, device)


_RETURNS = """\
Returns:
    A 1-D tensor.
"""


def _fixed(
    name: str, summary: str, shape: Callable[[int, Any], Raw], example: str
) -> Callable[..., Tensor]:
    """A window without parameters of its own."""

    def window(window_length: int, periodic: bool = True, *, dtype: Any = None,
               layout: Any = None, device: Any = None, pin_memory: bool = False,
               requires_grad: bool = False) -> Tensor:  # fmt: skip
        return _window(name, window_length, periodic, shape, dtype, requires_grad, device)

    doc = f"{summary}\n\nExample:\n    >>> torch.{name}(4){example}\n"
    return sections(_RETURNS)(named(window, name, doc))


def _triangle(count: int, wanted: Any) -> Raw:
    steps = arrays.arange(count, dtype=wanted) * wanted.type(2 / (count - 1))
    return arrays.minimum(steps, wanted.type(2) - steps)


hann_window = _fixed(
    "hann_window", "Creates a Hann window: one period of a raised cosine.",
    lambda count, wanted: arrays.fourier.cosine_window(count, (0.5, -0.5), wanted),
    "\n    tensor([0.0000, 0.5000, 1.0000, 0.5000])",
)  # fmt: skip
blackman_window = _fixed(
    "blackman_window", "Creates a Blackman window: a constant and two cosines.",
    lambda count, wanted: arrays.fourier.cosine_window(count, (0.42, -0.5, 0.08), wanted),
    "[1:]\n    tensor([0.3400, 1.0000, 0.3400])",
)  # fmt: skip
bartlett_window = _fixed(
    "bartlett_window", "Creates a Bartlett window: a triangle from 0 up to 1 and down to 0.",
    _triangle, "\n    tensor([0.0000, 0.5000, 1.0000, 0.5000])",
)  # fmt: skip


@sections(_RETURNS)
def hamming_window(window_length: int, periodic: bool = True, alpha: float = 0.54,
                   beta: float = 0.46, *, dtype: Any = None, layout: Any = None,
                   device: Any = None, pin_memory: bool = False,
                   requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Creates a Hamming window: ``alpha - beta * cos`` over one period.

    Args:
        alpha: The constant term.
        beta: The amplitude of the cosine.

    Example:
        >>> torch.hamming_window(4)
        tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """

    def shape(count: int, wanted: Any) -> Raw:
        return arrays.fourier.cosine_window(count, (alpha, -beta), wanted)

    return _window("hamming_window", window_length, periodic, shape, dtype, requires_grad, device)


@sections(_RETURNS)
def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, *,
                  dtype: Any = None, layout: Any = None, device: Any = None,
                  pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Creates a Kaiser window.

    Args:
        beta: The shape parameter. The larger it is, the narrower is the window.

    Example:
        >>> torch.kaiser_window(3, periodic=False)
        tensor([5.2773e-05, 1.0000e+00, 5.2773e-05])
    """

    def shape(count: int, wanted: Any) -> Raw:
        steps = arrays.arange(count, dtype=wanted) * wanted.type(2 / (count - 1)) - wanted.type(1)
        return arrays.fourier.kaiser(steps, beta)

    return _window("kaiser_window", window_length, periodic, shape, dtype, requires_grad, device)


# -- frequencies -----------------------------------------------------------------------------


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, layout: Any = None, device: Any = None,
            requires_grad: bool = False) -> Tensor:  # fmt: skip
    """The frequencies of the elements of ``fft``.

    Args:
        n: number of samples.
        d: time between two samples.
        dtype: a floating-point dtype; the default one if None.
        layout: ignored.
        device: must be the CPU.
        requires_grad: whether operations on the result are recorded.

    Returns:
        The frequencies, in cycles per unit of time: ``[0, 1, ..., -2, -1] / (n * d)``.

    Example:
        >>> torch.fft.fftfreq(4)
        tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    wanted = _float_dtype("fftfreq", dtype, n)
    numbers = arrays.arange(n, dtype=wanted)
    numbers[(n + 1) // 2 :] -= n
    return new_tensor(_divided(numbers, n * d), requires_grad, device)


@like(fftfreq)
def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, layout: Any = None, device: Any = None,
             requires_grad: bool = False) -> Tensor:  # fmt: skip
    """The frequencies of the elements of ``rfft``.

    Returns:
        The frequencies, in cycles per unit of time: ``[0, 1, ..., n // 2] / (n * d)``.

    Example:
        >>> torch.fft.rfftfreq(4)
        tensor([0.0000, 0.2500, 0.5000])
    """
    check_int("fft_rfftfreq", "n", 1, n)
    count = int(n / 2) + 1  # as C divides: towards zero
    numbers = arrays.arange(count, dtype=_float_dtype("rfftfreq", dtype, count))
    return new_tensor(_divided(numbers, n * d), requires_grad, device)


def _divided(numbers: Raw, by: float) -> Raw:
    return numbers * numbers.dtype.type(1 / by if by else float("inf"))


def _float_dtype(name: str, dtype: Any, count: int) -> Any:
    wanted = numpy_dtype(dtype)
    if wanted.kind not in dtypes.INEXACT:
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    if count < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {count}: [{count}]")
    if wanted.kind == "c":
        word = dtypes.type_word(wanted)
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{word}'")
    return wanted


complete_all(globals(), {
    **MEANINGS, "window_length": "The number of elements.",
    "periodic": "Whether the window is periodic, for use in ``stft``. Otherwise it is symmetric.",
})  # fmt: skip
