"""Short-time Fourier transforms: ``stft`` and ``istft``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops import linear as moving
from retrograd.ops._dims import one_dim
from retrograd.ops._lifted import Lifted, bare
from retrograd.ops._operation import Linear, TensorLike, linear, raw
from retrograd.ops._public import public
from retrograd.ops._sections import like
from retrograd.ops.elementwise import pow_scalar
from retrograd.ops.networks.padding import constant_pad_nd
from retrograd.ops.networks.padding import pad as pad_by_mode
from retrograd.ops.signals.fourier import fft_c2c, fft_c2r, fft_r2c

Call = Callable[[], str]

# -- frames ----------------------------------------------------------------------------------


# Stretches of the last dimension, one every ``step``.
frames: Linear = linear(
    "frames", lambda self, size, step: arrays.fourier.frames(arrays.writable(self), size, step),
    lambda g, shape, step: overlap_add(g, length=shape[-1], step=step),
    node="AsStridedBackward0", view=True, batch="leading",
)  # fmt: skip
# The sum of frames, each in its place.
overlap_add: Linear = linear(
    "overlap_add", arrays.fourier.overlap_add,
    lambda g, shape, step: frames(g, size=shape[-1], step=step),
    node="UnfoldBackwardBackward0", batch="leading",
)  # fmt: skip
# Of an array that nobody else can see, and so, for all that anybody can tell, no view.
unsafe_transpose: Linear = linear(
    "unsafe_transpose", lambda self, dim0, dim1: moving.transpose.forward(self, dim0, dim1),
    lambda g, dim0, dim1: moving.transpose(g, dim0=dim0, dim1=dim1), node="TransposeBackward1",
)  # fmt: skip


def _described(x: Any) -> str:
    """A tensor as messages of ``stft`` have it."""
    word = dtypes.type_word(raw(x).dtype)
    return f"CPU{word}Type" if raw(x).dtype.kind == "c" else f"torch.{word}Tensor"


def _shown(value: Any) -> str:
    if isinstance(value, TensorLike):
        return f"{_described(value)}{{{list(raw(value).shape)}}}"
    return str(int(value)) if isinstance(value, bool) else str(value)


def _call(name: str, input: Any, **arguments: Any) -> str:
    """A call as error messages repeat it."""
    said = ", ".join(f"{n}={_shown(v)}" for n, v in arguments.items())
    return f"{name}({_described(input)}{list(input.shape)}, {said})"


def _with_zeros(x: Any, before: int, after: int) -> Any:
    """``x`` with zeros before and after it along the last dimension."""
    return constant_pad_nd(x, pad=(before, after), value=0)


def _centered(window: Any, like: Any, win_length: int, n_fft: int) -> Any:
    """A window, or one of ones, in the middle of zeros."""
    left = (n_fft - win_length) // 2
    if isinstance(raw(window), Lifted):
        return _with_zeros(window, left, n_fft - win_length - left)
    wide = (like if window is None else window).new_zeros((n_fft,))
    middle = wide.narrow(0, left, win_length)
    if window is None:
        middle.fill_(1)
    else:
        middle.copy_(window)
    return wide


# -- there -----------------------------------------------------------------------------------


@public("torch method")
def stft(
    input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Any = None, center: bool = True, pad_mode: str = "reflect", normalized: bool = False,
    onesided: bool | None = None, return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:  # fmt: skip
    """Computes the short-time Fourier transform.

    Args:
        input: A signal, or a batch of signals along the first dimension.
        n_fft: The size of each Fourier transform.
        hop_length: The distance between neighbouring frames. The default is ``n_fft // 4``.
        win_length: The size of the window, which is padded to ``n_fft`` on both sides. The default
            is ``n_fft``.
        window: The window that each frame is multiplied by. The default is all ones.
        center: Whether the signal is padded on both sides, so that frame ``t`` is centred at ``t *
            hop_length``.
        pad_mode: How the signal is padded; see ``torch.nn.functional.pad``.
        normalized: Whether the result is divided by the square root of ``n_fft``.
        onesided: Whether only the non-negative frequencies are computed. The default is true for
            real signals.
        return_complex: Whether the result is complex. Otherwise the real and imaginary parts are a
            last dimension of size 2.
        align_to_window: Whether frames are aligned to the window instead of ``n_fft``. Only allowed
            with ``center=False``.

    Returns:
        A tensor whose last dimensions are frequencies and frames.

    Example:
        >>> torch.stft(torch.ones(8), 4, center=False, return_complex=True).shape
        torch.Size([3, 5])
    """
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    if center:
        input = _padded(input, n_fft // 2, pad_mode)
    hop_length = n_fft >> 2 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    is_complex = any(x is not None and raw(x).dtype.kind == "c" for x in (input, window))
    _check_return(is_complex, return_complex)
    call = partial(
        _call, "stft", input, n_fft=n_fft, hop_length=hop_length, win_length=win_length,
        window=window, normalized=normalized, onesided=onesided, return_complex=return_complex,
        align_to_window=align_to_window,
    )  # fmt: skip
    _check_signal(call, input)
    alone = len(input.shape) == 1
    signal = moving.unsqueeze(input, dim=0) if alone else input
    _check_frames(call, signal, n_fft, hop_length, win_length, window)
    if win_length < n_fft:
        if align_to_window:
            before = (n_fft - win_length) // 2
            signal = _with_zeros(signal, before, n_fft - win_length - before)
        window = _centered(window, input, win_length, n_fft)
    onesided = not is_complex if onesided is None else onesided
    if onesided and is_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    pieces = frames(signal, size=n_fft, step=hop_length)
    if window is not None:
        pieces = pieces * window
    if (dtype := raw(pieces).dtype).itemsize == 2:
        raise RuntimeError(f"MKL FFT doesn't support tensors of type: {dtypes.type_word(dtype)}")
    scaling = 1 if normalized else 0
    if is_complex:
        spectra = fft_c2c(pieces, dim=(2,), normalization=scaling, forward=True)
    else:
        spectra = fft_r2c(pieces, dim=(2,), normalization=scaling, onesided=onesided)
    spectra = unsafe_transpose(spectra, dim0=1, dim1=2)
    if alone:
        spectra = moving.unsafe_squeeze(spectra, dims=(0,))
    return spectra if return_complex in (None, True) else moving.view_as_real(spectra)


def _padded(input: Any, count: int, mode: str) -> Any:
    """A signal with ``count`` more elements at both ends."""
    shape = tuple(input.shape)
    extended = moving.view(input, size=(1,) * (3 - len(shape)) + shape)
    padded = pad_by_mode(extended, [count, count], mode)
    return moving.view(padded, size=tuple(padded.shape)[-len(shape) :])


def _check_return(is_complex: bool, return_complex: bool | None) -> None:
    if return_complex is None and not is_complex:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will further "
            "require that return_complex=True in a future PyTorch release."
        )


def _check_signal(call: Call, input: Any) -> None:
    if raw(input).dtype.kind not in dtypes.INEXACT:
        raise RuntimeError(f"{call()} : expected a tensor of floating point or complex values")
    if len(input.shape) not in (1, 2):
        raise RuntimeError(f"{call()} : expected a 1D or 2D tensor")


def _check_frames(
    call: Call, signal: Any, n_fft: int, hop_length: int, win_length: int, window: Any
) -> None:
    length = signal.shape[1]
    if not 0 < n_fft <= length:
        raise RuntimeError(f"{call()} : expected 0 < n_fft < {length}, but got n_fft={n_fft}")
    if hop_length <= 0:
        raise RuntimeError(f"{call()} : expected hop_length > 0, but got hop_length={hop_length}")
    if not 0 < win_length <= n_fft:
        raise RuntimeError(
            f"{call()} : expected 0 < win_length <= n_fft, but got win_length={win_length}"
        )
    if window is not None and tuple(window.shape) != (win_length,):
        raise RuntimeError(
            f"{call()} : expected a 1D window tensor of size equal to win_length={win_length}, but "
            f"got window with size {list(window.shape)}"
        )


# -- and back --------------------------------------------------------------------------------


@public("torch method")
@like(stft)
def istft(
    input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Any = None, center: bool = True, normalized: bool = False,
    onesided: bool | None = None, length: int | None = None, return_complex: bool = False,
) -> Any:  # fmt: skip
    """Computes the inverse of the short-time Fourier transform.

    The result is the least-squares estimate of the signal.

    Args:
        input: A complex tensor whose last dimensions are frequencies and frames.
        window: The window that ``stft`` was called with. The default is all ones.
        center: Whether ``stft`` padded the signal on both sides.
        normalized: Whether ``stft`` divided by the square root of ``n_fft``.
        onesided: Whether ``input`` holds only the non-negative frequencies.
        length: The length of the signal, to which the result is cut or padded.
        return_complex: Whether the signal is complex.

    Returns:
        A signal, or a batch of signals along the first dimension.

    Example:
        >>> torch.istft(torch.ones(3, 5, dtype=torch.complex64), 4).shape
        torch.Size([4])
    """
    hop_length = n_fft >> 2 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    if raw(input).dtype.kind != "c":
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    call = partial(
        _call, "istft", input, n_fft=n_fft, hop_length=hop_length, win_length=win_length,
        window=window, center=center, normalized=normalized, onesided=onesided, length=length,
        return_complex=return_complex,
    )  # fmt: skip
    parts = moving.view_as_real(input)
    alone = len(parts.shape) == 3
    bins = input.shape[one_dim(-3, len(parts.shape))]
    onesided = bins != n_fft if onesided is None else onesided
    _check_spectra(call, parts, n_fft, onesided)
    _check_window(call, n_fft, hop_length, win_length, window)
    count = parts.shape[-2]
    whole = n_fft + hop_length * (count - 1)
    shape = window
    if window is None:
        shape = parts.new_ones((win_length,))
    if win_length != n_fft:
        left = (n_fft - win_length) // 2
        shape = _with_zeros(shape, left, n_fft - win_length - left)
    spectra = moving.unsqueeze(parts, dim=0) if alone else parts
    spectra = moving.view_as_complex(moving.transpose(spectra, dim0=1, dim1=2))
    pieces = _pieces(spectra, n_fft, normalized, onesided, return_complex, window)
    signal = overlap_add(pieces * moving.view(shape, size=(1, 1, n_fft)), length=whole,
                         step=hop_length)  # fmt: skip
    squares = moving.expand(pow_scalar(shape, exponent=2), size=(1, count, n_fft))
    envelope = overlap_add(squares, length=whole, step=hop_length)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else whole - start
    kept = (slice(None), slice(start, max(start, min(end, whole))))
    signal, envelope = (moving.slice_(x, where=kept) for x in (signal, envelope))
    _check_envelope(call, bare(envelope))
    signal = signal / envelope
    if alone:
        signal = moving.squeeze_dim(signal, dims=(0,))
    return _with_zeros(signal, 0, end - whole) if end > whole else signal


def _pieces(
    spectra: Any, n_fft: int, normalized: bool, onesided: bool, return_complex: bool, window: Any
) -> Any:
    """Frames of the signal from their spectra, along the last dimension."""
    scaling = 1 if normalized else 2
    if return_complex:
        if onesided:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        return fft_c2c(spectra, dim=(2,), normalization=scaling, forward=False)
    if window is not None and raw(window).dtype.kind == "c":
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    if not onesided:
        spectra = moving.slice_(
            spectra, where=(slice(None), slice(None), slice(0, n_fft // 2 + 1))
        )  # fmt: skip
    return fft_c2r(spectra, dim=(2,), normalization=scaling, last_dim_size=n_fft)


def _check_spectra(call: Call, parts: Any, n_fft: int, onesided: bool) -> None:
    if 0 in parts.shape:
        raise RuntimeError(f"{call()} : input tensor cannot be empty.")
    ndim, bins = len(parts.shape), parts.shape[-3]
    if ndim not in (3, 4):
        raise RuntimeError(f"{call()} : expected a tensor with 3 or 4 dimensions, but got {ndim}")
    if bins != (n_fft // 2 + 1 if onesided else n_fft):
        match = "n_fft / 2 + 1 when onesided=True" if onesided else "n_fft when onesided=False"
        raise RuntimeError(
            f"{call()} : expected the frequency dimension (3rd to the last) of the input tensor to "
            f"match {match}, but got {bins}"
        )


def _check_window(call: Call, n_fft: int, hop_length: int, win_length: int, window: Any) -> None:
    if not 0 < hop_length <= win_length:
        raise RuntimeError(f"{call()} : expected 0 < hop_length <= win_length")
    if not 0 < win_length <= n_fft:
        raise RuntimeError(f"{call()} : expected 0 < win_length <= n_fft")
    if window is not None and tuple(window.shape) != (win_length,):
        raise RuntimeError(
            f"{call()} : Invalid window shape. window has to be 1D and length of `win_length`"
        )


def _check_envelope(call: Call, envelope: Raw) -> None:
    if not envelope.size:
        raise RuntimeError(
            "min(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the 'dim' argument."
        )
    if arrays.amin(arrays.absolute(envelope)) < 1e-11:
        raise RuntimeError(f"{call()} window overlap add min: 1")
