"""Fourier transforms: three operations, and the many names that they go by.

``fft_c2c`` takes complex numbers to complex ones, ``fft_r2c`` real ones to complex, ``fft_c2r``
back. Their derivatives are each other. ``normalization`` is what the result is divided by: nothing
(0), the root of the number of points (1), or that number (2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops import linear as moving
from retrograd.ops._dims import is_integer, one_dim
from retrograd.ops._operation import Linear, TensorLike, elementwise, linear, raw
from retrograd.ops._public import public
from retrograd.ops.elementwise import conj, real, to_dtype
from retrograd.ops.networks.padding import constant_pad_nd
from retrograd.ops.shapes.arranging import roll

Size = int | None
Sizes = int | Sequence[int] | None
Norm = str | None

# -- the operations --------------------------------------------------------------------------


def _c2c(self: Raw, dim: tuple[int, ...], normalization: int, forward: bool) -> Raw:
    return arrays.fourier.c2c(self, dim, normalization, forward)


def _r2c(self: Raw, dim: tuple[int, ...], normalization: int, onesided: bool) -> Raw:
    return arrays.fourier.r2c(self, dim, normalization, onesided)


def _c2r(self: Raw, dim: tuple[int, ...], normalization: int, last_dim_size: int) -> Raw:
    return arrays.fourier.c2r(self, dim, normalization, last_dim_size)


def _weighted(x: Any, dim: int, size: int, inner: float) -> Any:
    """A onesided transform of ``size`` points with those weighted that have a mirror image."""
    shape = [1] * x.ndim
    shape[dim] = x.shape[dim]
    weights = arrays.fourier.mirrored_once(shape[dim], size, inner, raw(x).dtype)
    return x * arrays.reshape(weights, shape)


def _r2c_adjoint(
    g: Any, self: Any, dim: tuple[int, ...], normalization: int, onesided: bool
) -> Any:
    if not onesided:
        return real(fft_c2c(g, dim=dim, normalization=normalization, forward=False))
    # What was left out gets no gradient. The inverse fills it in by mirroring: half of each pair.
    size = self.shape[dim[-1]]
    halved = _weighted(g, dim[-1], size, 0.5)
    return fft_c2r(halved, dim=dim, normalization=normalization, last_dim_size=size)


def _c2r_adjoint(g: Any, dim: tuple[int, ...], normalization: int, last_dim_size: int) -> Any:
    half = fft_r2c(g, dim=dim, normalization=normalization, onesided=True)
    return _weighted(half, dim[-1], last_dim_size, 2.0)


fft_c2c: Linear = linear(
    "fft_c2c", _c2c,
    lambda g, dim, normalization, forward: fft_c2c(
        g, dim=dim, normalization=normalization, forward=not forward
    ), node="FftC2CBackward0", adjoint=True,
)  # fmt: skip
fft_r2c: Linear = linear(
    "fft_r2c", _r2c, _r2c_adjoint, node="FftR2CBackward0", adjoint=True, dtypes="free"
)
fft_c2r: Linear = linear(
    "fft_c2r", _c2r, _c2r_adjoint, node="FftC2RBackward0", adjoint=True, dtypes="free"
)
conj_physical = elementwise(
    "conj_of_half", arrays.conj, lambda g: conj(g), adjoint=True, node="ConjPhysicalBackward0"
)

# -- arguments made plain --------------------------------------------------------------------


def _checked_input(input: Any, name: str) -> Any:
    if not isinstance(input, TensorLike):
        raise TypeError(
            f"fft_{name}(): argument 'input' (position 1) must be Tensor, not "
            f"{type(input).__name__}"
        )
    return input


def _promoted(input: Any, to_complex: bool = False) -> Any:
    """``input`` in a dtype that there are transforms for."""
    have = raw(input).dtype
    wanted = have if have.kind in "fc" else dtypes.default_float()
    if wanted.itemsize == 2:
        raise RuntimeError("Unsupported dtype Half")
    if to_complex:
        wanted = dtypes.promote(wanted, dtypes.complex64.numpy)
    return input if have == wanted else to_dtype(input, dtype=wanted)


def _scaling(norm: Norm, forward: bool) -> int:
    if norm == "ortho":
        return 1
    if norm is None or norm == "backward":
        return 0 if forward else 2
    if norm == "forward":
        return 2 if forward else 0
    raise RuntimeError(f'Invalid normalization mode: "{norm}"')


def _one_axis(dim: int, ndim: int) -> int:
    if not ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return one_dim(dim, ndim)


def _check_count(n: int) -> None:
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")


def _axes_and_sizes(
    input: Any, s: Sizes, dim: Sizes
) -> tuple[tuple[int, ...], tuple[int, ...]]:  # fmt: skip
    """The dimensions to transform, and the number of points along each."""
    shape, ndim = tuple(input.shape), len(input.shape)
    s = (s,) if is_integer(s) else s
    dims = (dim,) if is_integer(dim) else dim
    axes: tuple[int, ...] | None = None
    if dims is not None:
        axes = tuple(_one_axis(d, ndim) for d in dims)
        if len(set(axes)) != len(axes):
            raise RuntimeError("FFT dims must be unique")
    if s is None:
        axes = tuple(range(ndim)) if axes is None else axes
        sizes = tuple(shape[d] for d in axes)
    else:
        if axes is not None and len(axes) != len(s):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if len(s) > ndim:
            raise RuntimeError(
                f"Got shape with {len(s)} values but input tensor only has {ndim} dimensions."
            )
        axes = tuple(range(ndim - len(s), ndim)) if axes is None else axes
        sizes = tuple(shape[d] if n == -1 else n for n, d in zip(s, axes, strict=True))
    for n in sizes:
        _check_count(n)
    return axes, sizes


def _some_axis(name: str, axes: tuple[int, ...]) -> None:
    if not axes:
        raise RuntimeError(f"{name} must transform at least one axis")


def _resized(x: Any, axes: Sequence[int], sizes: Sequence[int]) -> Any:
    """``x`` cut off or filled up with zeros at the end, to some sizes along some dimensions."""
    shape = list(x.shape)
    for d, n in zip(axes, sizes, strict=True):
        if shape[d] > n:
            x = moving.slice_(x, where=(*(slice(None),) * d, slice(0, n)))
            shape[d] = n
    wanted = list(shape)
    for d, n in zip(axes, sizes, strict=True):
        wanted[d] = n
    if wanted == shape:
        return x
    added = [n for d in reversed(range(len(shape))) for n in (0, wanted[d] - shape[d])]
    return constant_pad_nd(x, pad=tuple(added), value=0)


# -- along one dimension ---------------------------------------------------------------------


def _transform(name: str, input: Any, n: Size, dim: int, norm: Norm, forward: bool) -> Any:
    if raw(_checked_input(input, name)).dtype.kind != "c":
        return _of_real(name, input, n, dim, norm, forward, onesided=False)
    axis = _one_axis(dim, len(input.shape))
    _check_count(input.shape[axis] if n is None else n)
    if n is not None:
        input = _resized(input, (axis,), (n,))
    return fft_c2c(input, dim=(axis,), normalization=_scaling(norm, forward), forward=forward)


def _of_real(
    name: str, input: Any, n: Size, dim: int, norm: Norm, forward: bool, onesided: bool
) -> Any:
    have = raw(_checked_input(input, name)).dtype
    if have.kind == "c":
        raise RuntimeError(f"{name} expects a real input tensor, but got {dtypes.type_word(have)}")
    input = _promoted(input)
    axis = _one_axis(dim, len(input.shape))
    _check_count(input.shape[axis] if n is None else n)
    if n is not None:
        input = _resized(input, (axis,), (n,))
    scaling = _scaling(norm, forward)
    result = fft_r2c(input, dim=(axis,), normalization=scaling, onesided=onesided)
    return result if forward else conj(result)


def _to_real(name: str, input: Any, n: Size, dim: int, norm: Norm, forward: bool) -> Any:
    input = _promoted(_checked_input(input, name), to_complex=True)
    axis = _one_axis(dim, len(input.shape))
    count = 2 * (input.shape[axis] - 1) if n is None else n
    _check_count(count)
    if n is not None:
        input = _resized(input, (axis,), (n // 2 + 1,))
    scaling = _scaling(norm, forward)
    input = conj(input) if forward else input
    return fft_c2r(input, dim=(axis,), normalization=scaling, last_dim_size=count)


@public("fft", out="same")
def fft(input: Any, n: Size = None, dim: int = -1, norm: Norm = None) -> Any:
    """The discrete Fourier transform along a dimension, of ``n`` points.

    >>> import retrograd as torch
    >>> torch.fft.fft(torch.tensor([1.0, 0.0, -1.0, 0.0]))
    tensor([0.+0.j, 2.+0.j, 0.+0.j, 2.-0.j])
    """
    return _transform("fft", input, n, dim, norm, True)


@public("fft", out="same")
def ifft(input: Any, n: Size = None, dim: int = -1, norm: Norm = None) -> Any:
    """The inverse of ``fft``."""
    return _transform("ifft", input, n, dim, norm, False)


@public("fft", out="same")
def rfft(input: Any, n: Size = None, dim: int = -1, norm: Norm = None) -> Any:
    """The transform of real numbers, without the half that mirrors the other.

    >>> import retrograd as torch
    >>> torch.fft.rfft(torch.tensor([1.0, 0.0, -1.0, 0.0]))
    tensor([0.+0.j, 2.+0.j, 0.+0.j])
    """
    return _of_real("rfft", input, n, dim, norm, True, onesided=True)


@public("fft", out="same")
def irfft(input: Any, n: Size = None, dim: int = -1, norm: Norm = None) -> Any:
    """The inverse of ``rfft``."""
    return _to_real("irfft", input, n, dim, norm, False)


@public("fft", out="same")
def hfft(input: Any, n: Size = None, dim: int = -1, norm: Norm = None) -> Any:
    """The transform of a signal that mirrors itself, given its first half: real numbers."""
    return _to_real("hfft", input, n, dim, norm, True)


@public("fft", out="same")
def ihfft(input: Any, n: Size = None, dim: int = -1, norm: Norm = None) -> Any:
    """The inverse of ``hfft``."""
    return _of_real("ihfft", input, n, dim, norm, False, onesided=True)


# -- along several ---------------------------------------------------------------------------


def _transform_many(name: str, input: Any, s: Sizes, dim: Sizes, norm: Norm, forward: bool) -> Any:
    input = _promoted(_checked_input(input, name), to_complex=True)
    axes, sizes = _axes_and_sizes(input, s, dim)
    input = _resized(input, axes, sizes)
    return fft_c2c(input, dim=axes, normalization=_scaling(norm, forward), forward=forward)


@public("fft", out="same")
def fftn(input: Any, s: Sizes = None, dim: Sizes = None, norm: Norm = None) -> Any:
    """The discrete Fourier transform along several dimensions: all of them, the last ``len(s)``, or
    those in ``dim``."""
    return _transform_many("fftn", input, s, dim, norm, True)


@public("fft", out="same")
def ifftn(input: Any, s: Sizes = None, dim: Sizes = None, norm: Norm = None) -> Any:
    """The inverse of ``fftn``."""
    return _transform_many("ifftn", input, s, dim, norm, False)


@public("fft", out="same")
def rfftn(input: Any, s: Sizes = None, dim: Sizes = None, norm: Norm = None) -> Any:
    """``fftn`` of real numbers, without the half that mirrors the other along the last dimension
    transformed."""
    have = raw(_checked_input(input, "rfftn")).dtype
    if have.kind == "c":
        raise RuntimeError(
            f"rfftn expects a real-valued input tensor, but got {dtypes.type_word(have)}"
        )
    axes, sizes = _axes_and_sizes(input, s, dim)
    _some_axis("rfftn", axes)
    input = _resized(_promoted(input), axes, sizes)
    return fft_r2c(input, dim=axes, normalization=_scaling(norm, True), onesided=True)


def _halved(name: str, input: Any, s: Sizes, dim: Sizes) -> tuple[Any, tuple[int, ...], int]:
    """A onesided transform cut or filled to its sizes, its dimensions, and the number of points
    along the last of them that it is the half of."""
    s = (s,) if is_integer(s) else s
    axes, sizes = _axes_and_sizes(input, s, dim)
    _some_axis(name, axes)
    last = 2 * (input.shape[axes[-1]] - 1) if s is None or s[-1] == -1 else s[-1]
    _check_count(last)
    return _resized(input, axes, (*sizes[:-1], last // 2 + 1)), axes, last


@public("fft", out="same")
def irfftn(input: Any, s: Sizes = None, dim: Sizes = None, norm: Norm = None) -> Any:
    """The inverse of ``rfftn``."""
    input = _promoted(_checked_input(input, "irfftn"), to_complex=True)
    input, axes, last = _halved("irfftn", input, s, dim)
    return fft_c2r(input, dim=axes, normalization=_scaling(norm, False), last_dim_size=last)


@public("fft", out="same")
def hfftn(input: Any, s: Sizes = None, dim: Sizes = None, norm: Norm = None) -> Any:
    """The transform along several dimensions of a signal that mirrors itself, given its first half
    along the last dimension transformed: real numbers."""
    input = _promoted(_checked_input(input, "hfftn"), to_complex=True)
    input, axes, last = _halved("hfftn", input, s, dim)
    scaling = _scaling(norm, True)
    if len(axes) > 1:
        input = fft_c2c(input, dim=axes[:-1], normalization=scaling, forward=True)
    return fft_c2r(conj(input), dim=axes[-1:], normalization=scaling, last_dim_size=last)


@public("fft", out="same")
def ihfftn(input: Any, s: Sizes = None, dim: Sizes = None, norm: Norm = None) -> Any:
    """The inverse of ``hfftn``."""
    axes, sizes = _axes_and_sizes(_checked_input(input, "ihfftn"), s, dim)
    _some_axis("ihfftn", axes)
    have = raw(input).dtype
    if have.kind == "c":
        raise RuntimeError(
            f"Only supports floating-point dtypes, but found: {dtypes.type_word(have)}"
        )
    input = _resized(_promoted(input), axes, sizes)
    scaling = _scaling(norm, False)
    half = fft_r2c(input, dim=axes[-1:], normalization=scaling, onesided=True)
    if len(axes) == 1:
        return conj(half)
    return fft_c2c(
        conj_physical(half), dim=axes[:-1], normalization=scaling, forward=False
    )  # fmt: skip


def _of_two(transform: Callable[..., Any], name: str) -> Callable[..., Any]:
    def function(input: Any, s: Sizes = None, dim: Sizes = (-2, -1), norm: Norm = None) -> Any:
        return transform(_checked_input(input, name), s, dim, norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``{transform.__name__}`` along the last two dimensions, or others."
    return public("fft", out="same")(function)


fft2, ifft2 = _of_two(fftn, "fft2"), _of_two(ifftn, "ifft2")
rfft2, irfft2 = _of_two(rfftn, "rfft2"), _of_two(irfftn, "irfft2")
hfft2, ihfft2 = _of_two(hfftn, "hfft2"), _of_two(ihfftn, "ihfft2")

# -- order of frequencies --------------------------------------------------------------------


@public("fft")
def fftshift(input: Any, dim: Sizes = None) -> Any:
    """Frequency zero moved from the front to the middle.

    >>> import retrograd as torch
    >>> torch.fft.fftshift(torch.fft.fftfreq(4))
    tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    return _shifted("fftshift", input, dim, lambda size: size // 2)


@public("fft")
def ifftshift(input: Any, dim: Sizes = None) -> Any:
    """The inverse of ``fftshift``."""
    return _shifted("ifftshift", input, dim, lambda size: (size + 1) // 2)


def _shifted(name: str, input: Any, dim: Sizes, by: Callable[[int], int]) -> Any:
    ndim = len(_checked_input(input, name).shape)
    dims = range(ndim) if dim is None else (dim,) if is_integer(dim) else dim
    axes = tuple(_one_axis(d, ndim) for d in dims)
    return roll(input, tuple(by(input.shape[d]) for d in axes), axes)
