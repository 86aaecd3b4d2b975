"""Fourier transforms: three operations, and the functions built on them.

``fft_c2c`` takes complex numbers to complex ones, ``fft_r2c`` real ones to complex, ``fft_c2r``
back. Their derivatives are each other. ``normalization`` is what the result is divided by: nothing
(0), the root of the number of points (1), or that number (2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops._dims import is_integer
from retrograd.ops._operation import Linear, elementwise, linear, raw
from retrograd.ops._public import public
from retrograd.ops.copies import conj, real
from retrograd.ops.shapes.reordering import roll
from retrograd.ops.signals._fourier_arguments import (
    Norm,
    Size,
    Sizes,
    axes_and_sizes,
    check_axes,
    check_count,
    checked_input,
    normalization_of,
    one_axis,
    promoted,
    resized,
)

# -- the operations --------------------------------------------------------------------------


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
    "fft_c2c",
    lambda self, dim, normalization, forward: arrays.fourier.c2c(self, dim, normalization, forward),
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


# -- along one dimension ---------------------------------------------------------------------


def _transform(name: str, input: Any, n: Size, dim: int, norm: Norm, forward: bool) -> Any:
    if raw(checked_input(input, name)).dtype.kind != "c":
        return _of_real(name, input, n, dim, norm, forward, onesided=False)
    axis = one_axis(dim, len(input.shape))
    check_count(input.shape[axis] if n is None else n)
    if n is not None:
        input = resized(input, (axis,), (n,))
    scaling = normalization_of(norm, forward)
    return fft_c2c(input, dim=(axis,), normalization=scaling, forward=forward)


def _of_real(
    name: str, input: Any, n: Size, dim: int, norm: Norm, forward: bool, onesided: bool
) -> Any:
    have = raw(checked_input(input, name)).dtype
    if have.kind == "c":
        raise RuntimeError(f"{name} expects a real input tensor, but got {dtypes.type_word(have)}")
    input = promoted(input)
    axis = one_axis(dim, len(input.shape))
    check_count(input.shape[axis] if n is None else n)
    if n is not None:
        input = resized(input, (axis,), (n,))
    scaling = normalization_of(norm, forward)
    result = fft_r2c(input, dim=(axis,), normalization=scaling, onesided=onesided)
    return result if forward else conj(result)


def _to_real(name: str, input: Any, n: Size, dim: int, norm: Norm, forward: bool) -> Any:
    input = promoted(checked_input(input, name), to_complex=True)
    axis = one_axis(dim, len(input.shape))
    count = 2 * (input.shape[axis] - 1) if n is None else n
    check_count(count)
    if n is not None:
        input = resized(input, (axis,), (n // 2 + 1,))
    scaling = normalization_of(norm, forward)
    input = conj(input) if forward else input
    return fft_c2r(input, dim=(axis,), normalization=scaling, last_dim_size=count)


@public("fft", out="any precision")
def fft(input: Any, n: Size = None, dim: int = -1, norm: Norm = None) -> Any:
    """The discrete Fourier transform along one dimension.

    Args:
        input: a signal, real or complex.
        n: number of points; the signal is cut or padded with zeros to this length first.
        dim: dimension to transform.
        norm: where to divide: "backward" (the default) in the inverse only, by n; "forward" here,
            by n; "ortho" in both, by the square root of n.

    Returns:
        The transform, complex, with n elements along ``dim``.

    Example:
        >>> torch.fft.fft(torch.tensor([1.0, 0.0, -1.0, 0.0]))
        tensor([0.+0.j, 2.+0.j, 0.+0.j, 2.-0.j])
    """
    return _transform("fft", input, n, dim, norm, True)


@public("fft", out="any precision")
def ifft(input: Any, n: Size = None, dim: int = -1, norm: Norm = None) -> Any:
    """The inverse discrete Fourier transform along one dimension.

    Args:
        input: a transform.
        n: number of points; the input is cut or padded with zeros to this length first.
        dim: dimension to transform.
        norm: where to divide: "backward" (the default) here, by n; "forward" in the forward
            transform only; "ortho" in both, by the square root of n.

    Returns:
        The signal, complex, with n elements along ``dim``.

    Example:
        >>> torch.fft.ifft(torch.fft.fft(torch.tensor([1.0, 2.0, 3.0]))).real
        tensor([1., 2., 3.])
    """
    return _transform("ifft", input, n, dim, norm, False)


@public("fft", out="any precision")
def rfft(input: Any, n: Size = None, dim: int = -1, norm: Norm = None) -> Any:
    """The discrete Fourier transform of a real signal along one dimension.

    The transform of a real signal is Hermitian: negative frequencies are the conjugates of positive
    ones and are left out.

    Args:
        input: a real signal.
        n: number of points; the signal is cut or padded with zeros to this length first.
        dim: dimension to transform.
        norm: where to divide: see ``fft``.

    Returns:
        The transform at frequencies 0 to n / 2, complex, with ``n // 2 + 1`` elements along
        ``dim``.

    Example:
        >>> torch.fft.rfft(torch.tensor([1.0, 0.0, -1.0, 0.0]))
        tensor([0.+0.j, 2.+0.j, 0.+0.j])
    """
    return _of_real("rfft", input, n, dim, norm, True, onesided=True)


@public("fft", out="any precision")
def irfft(input: Any, n: Size = None, dim: int = -1, norm: Norm = None) -> Any:
    """The inverse of ``rfft``.

    Args:
        input: a transform at non-negative frequencies.
        n: number of points of the signal; ``2 * (size - 1)`` by default, which is wrong for signals
            of odd length.
        dim: dimension to transform.
        norm: where to divide: see ``ifft``.

    Returns:
        The signal, real, with n elements along ``dim``.

    Example:
        >>> torch.fft.irfft(torch.fft.rfft(torch.tensor([1.0, 2.0, 3.0])), n=3)
        tensor([1., 2., 3.])
    """
    return _to_real("irfft", input, n, dim, norm, False)


@public("fft", out="any precision")
def hfft(input: Any, n: Size = None, dim: int = -1, norm: Norm = None) -> Any:
    """The discrete Fourier transform of a Hermitian signal, given one half of it; it is real.

    Args:
        input: the first half of a signal whose element -i is the conjugate of element i.
        n: number of points of the whole signal; ``2 * (size - 1)`` by default.
        dim: dimension to transform.
        norm: where to divide: see ``fft``.

    Returns:
        The transform, real, with n elements along ``dim``.

    Example:
        >>> torch.fft.hfft(torch.tensor([1.0, 1.0j, 0.0]))
        tensor([ 1.,  3.,  1., -1.])
    """
    return _to_real("hfft", input, n, dim, norm, True)


@public("fft", out="computed")
def ihfft(input: Any, n: Size = None, dim: int = -1, norm: Norm = None) -> Any:
    """The inverse of ``hfft``.

    Args:
        input: a real transform.
        n: number of points; the input is cut or padded with zeros to this length first.
        dim: dimension to transform.
        norm: where to divide: see ``ifft``.

    Returns:
        The first half of the Hermitian signal, complex, with ``n // 2 + 1`` elements along ``dim``.

    Example:
        >>> torch.fft.ihfft(torch.tensor([1.0, 2.0, 3.0, 2.0]))
        tensor([ 2.0000-0.j, -0.5000-0.j,  0.0000-0.j])
    """
    return _of_real("ihfft", input, n, dim, norm, False, onesided=True)


# -- along several ---------------------------------------------------------------------------


def _transform_many(name: str, input: Any, s: Sizes, dim: Sizes, norm: Norm, forward: bool) -> Any:
    input = promoted(checked_input(input, name), to_complex=True)
    axes, sizes = axes_and_sizes(input, s, dim)
    input = resized(input, axes, sizes)
    return fft_c2c(input, dim=axes, normalization=normalization_of(norm, forward), forward=forward)


@public("fft", out="any precision")
def fftn(input: Any, s: Sizes = None, dim: Sizes = None, norm: Norm = None) -> Any:
    """The discrete Fourier transform along several dimensions.

    Args:
        input: a signal, real or complex.
        s: number of points along each dimension; the signal is cut or padded with zeros to it
            first. -1 keeps the size.
        dim: dimensions to transform; by default, the last ``len(s)``, or all if ``s`` is None too.
        norm: where to divide, by the number n of points in all: see ``fft``.

    Returns:
        The transform, complex.

    Example:
        >>> torch.fft.fftn(torch.ones(2, 2))
        tensor([[4.+0.j, 0.+0.j],
                [0.+0.j, 0.+0.j]])
    """
    return _transform_many("fftn", input, s, dim, norm, True)


@public("fft", out="any precision")
def ifftn(input: Any, s: Sizes = None, dim: Sizes = None, norm: Norm = None) -> Any:
    """The inverse discrete Fourier transform along several dimensions.

    Args:
        input: a transform.
        s: number of points along each dimension: see ``fftn``.
        dim: dimensions to transform: see ``fftn``.
        norm: where to divide, by the number n of points in all: see ``ifft``.

    Returns:
        The signal, complex.

    Example:
        >>> torch.fft.ifftn(torch.fft.fftn(torch.eye(2))).real
        tensor([[1., 0.],
                [0., 1.]])
    """
    return _transform_many("ifftn", input, s, dim, norm, False)


@public("fft", out="any precision")
def rfftn(input: Any, s: Sizes = None, dim: Sizes = None, norm: Norm = None) -> Any:
    """The discrete Fourier transform of a real signal along several dimensions.

    Negative frequencies of the last transformed dimension are left out.

    Args:
        input: a real signal.
        s: number of points along each dimension: see ``fftn``.
        dim: dimensions to transform: see ``fftn``.
        norm: where to divide, by the number n of points in all: see ``fft``.

    Returns:
        The transform, complex, with ``s[-1] // 2 + 1`` elements along the last transformed
        dimension.

    Example:
        >>> torch.fft.rfftn(torch.ones(2, 4))
        tensor([[8.+0.j, 0.+0.j, 0.+0.j],
                [0.+0.j, 0.+0.j, 0.+0.j]])
    """
    have = raw(checked_input(input, "rfftn")).dtype
    if have.kind == "c":
        raise RuntimeError(
            f"rfftn expects a real-valued input tensor, but got {dtypes.type_word(have)}"
        )
    axes, sizes = axes_and_sizes(input, s, dim)
    check_axes("rfftn", axes)
    input = resized(promoted(input), axes, sizes)
    return fft_r2c(input, dim=axes, normalization=normalization_of(norm, True), onesided=True)


def _halved(name: str, input: Any, s: Sizes, dim: Sizes) -> tuple[Any, tuple[int, ...], int]:
    """A onesided transform cut or filled to its sizes, its dimensions, and the number of points
    along the last of them that it is the half of."""
    s = (s,) if is_integer(s) else s
    axes, sizes = axes_and_sizes(input, s, dim)
    check_axes(name, axes)
    last = 2 * (input.shape[axes[-1]] - 1) if s is None or s[-1] == -1 else s[-1]
    check_count(last)
    return resized(input, axes, (*sizes[:-1], last // 2 + 1)), axes, last


@public("fft", out="any precision")
def irfftn(input: Any, s: Sizes = None, dim: Sizes = None, norm: Norm = None) -> Any:
    """The inverse of ``rfftn``.

    Args:
        input: a transform at non-negative frequencies of the last transformed dimension.
        s: number of points of the signal along each dimension; the last is ``2 * (size - 1)`` by
            default.
        dim: dimensions to transform: see ``fftn``.
        norm: where to divide, by the number n of points in all: see ``ifft``.

    Returns:
        The signal, real.

    Example:
        >>> torch.fft.irfftn(torch.fft.rfftn(torch.eye(2)))
        tensor([[1., 0.],
                [0., 1.]])
    """
    input = promoted(checked_input(input, "irfftn"), to_complex=True)
    input, axes, last = _halved("irfftn", input, s, dim)
    return fft_c2r(input, dim=axes, normalization=normalization_of(norm, False), last_dim_size=last)


@public("fft", out="any precision")
def hfftn(input: Any, s: Sizes = None, dim: Sizes = None, norm: Norm = None) -> Any:
    """The discrete Fourier transform of a Hermitian signal along several dimensions; it is real.

    Args:
        input: the first half, along the last transformed dimension, of a Hermitian signal.
        s: number of points of the whole signal along each dimension; the last is ``2 * (size - 1)``
            by default.
        dim: dimensions to transform: see ``fftn``.
        norm: where to divide, by the number n of points in all: see ``fft``.

    Example:
        >>> torch.fft.hfftn(torch.fft.ihfftn(torch.eye(2)))
        tensor([[1., 0.],
                [0., 1.]])
    """
    input = promoted(checked_input(input, "hfftn"), to_complex=True)
    input, axes, last = _halved("hfftn", input, s, dim)
    scaling = normalization_of(norm, True)
    if len(axes) > 1:
        input = fft_c2c(input, dim=axes[:-1], normalization=scaling, forward=True)
    return fft_c2r(conj(input), dim=axes[-1:], normalization=scaling, last_dim_size=last)


@public("fft", out="any precision")
def ihfftn(input: Any, s: Sizes = None, dim: Sizes = None, norm: Norm = None) -> Any:
    """The inverse of ``hfftn``.

    Args:
        input: a real transform.
        s: number of points along each dimension: see ``fftn``.
        dim: dimensions to transform: see ``fftn``.
        norm: where to divide, by the number n of points in all: see ``ifft``.

    Returns:
        The first half of the Hermitian signal, complex.

    Example:
        >>> torch.fft.ihfftn(torch.ones(2, 2))
        tensor([[1.-0.j, 0.-0.j],
                [0.+0.j, 0.+0.j]])
    """
    axes, sizes = axes_and_sizes(checked_input(input, "ihfftn"), s, dim)
    check_axes("ihfftn", axes)
    have = raw(input).dtype
    if have.kind == "c":
        raise RuntimeError(
            f"Only supports floating-point dtypes, but found: {dtypes.type_word(have)}"
        )
    input = resized(promoted(input), axes, sizes)
    scaling = normalization_of(norm, False)
    half = fft_r2c(input, dim=axes[-1:], normalization=scaling, onesided=True)
    if len(axes) == 1:
        return conj(half)
    return fft_c2c(
        conj_physical(half), dim=axes[:-1], normalization=scaling, forward=False
    )  # fmt: skip


def _of_two(transform: Callable[..., Any], name: str, last: int = 4) -> Callable[..., Any]:
    def function(input: Any, s: Sizes = None, dim: Sizes = (-2, -1), norm: Norm = None) -> Any:
        return transform(checked_input(input, name), s, dim, norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"``{transform.__name__}`` along two dimensions, by default the last two.\n\n"
        "Args:\n"
        f"    input, s, norm: see ``{transform.__name__}``.\n"
        "    dim: the two dimensions to transform.\n\n"
        "Returns:\n"
        f"    The result of ``{transform.__name__}``.\n\n"
        "Example:\n"
        f"    >>> torch.fft.{name}(torch.ones(3, 4, 4)).shape\n"
        f"    torch.Size([3, 4, {last}])\n"
    )
    return public("fft", out="any precision")(function)


fft2, ifft2 = _of_two(fftn, "fft2"), _of_two(ifftn, "ifft2")
rfft2, irfft2 = _of_two(rfftn, "rfft2", 3), _of_two(irfftn, "irfft2", 6)
hfft2, ihfft2 = _of_two(hfftn, "hfft2", 6), _of_two(ihfftn, "ihfft2", 3)

# -- order of frequencies --------------------------------------------------------------------


@public("fft")
def fftshift(input: Any, dim: Sizes = None) -> Any:
    """Moves frequency zero from the front to the middle.

    Args:
        input: a transform, or its frequencies.
        dim: dimension or dimensions to shift; all by default.

    Returns:
        The shifted tensor, of the shape of the input.

    Example:
        >>> torch.fft.fftshift(torch.fft.fftfreq(4))
        tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    return _shifted("fftshift", input, dim, lambda size: size // 2)


@public("fft")
def ifftshift(input: Any, dim: Sizes = None) -> Any:
    """The inverse of ``fftshift``: moves frequency zero from the middle to the front.

    Args:
        input: a tensor from ``fftshift``.
        dim: dimension or dimensions to shift; all by default.

    Returns:
        The shifted tensor, of the shape of the input.

    Example:
        >>> torch.fft.ifftshift(torch.fft.fftshift(torch.arange(5)))
        tensor([0, 1, 2, 3, 4])
    """
    return _shifted("ifftshift", input, dim, lambda size: (size + 1) // 2)


def _shifted(name: str, input: Any, dim: Sizes, by: Callable[[int], int]) -> Any:
    ndim = len(checked_input(input, name).shape)
    dims = range(ndim) if dim is None else (dim,) if is_integer(dim) else dim
    axes = tuple(one_axis(d, ndim) for d in dims)
    return roll(input, tuple(by(input.shape[d]) for d in axes), axes)
