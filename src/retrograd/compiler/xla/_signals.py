"""Lowerings of Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from retrograd.compiler.xla._table import gathered_except, lowering, trust

_FORWARD = ("backward", "ortho", "forward")
_INVERSE = ("forward", "ortho", "backward")


def _along(x: Any, dim: int, transform: Callable[[Any], Any]) -> Any:
    """Transform an array along a dimension. On a mesh, the dimension is gathered first, because
    XLA's partitioner may end the process if it is split, and raises an error for some arrays with
    dimensions of size 1."""
    x = jnp.moveaxis(x, dim, -1)
    shape = x.shape[:-1]
    x = x.reshape(*[size for size in shape if size != 1], x.shape[-1])
    others = range(x.ndim - 1)
    y = gathered_except(transform(gathered_except(x, *others)), *others)
    return jnp.moveaxis(y.reshape(*shape, y.shape[-1]), -1, dim)


@lowering("fft_c2c")
def _c2c(x: Any, dim: Any, normalization: int, forward: bool) -> Any:
    trust(jnp.isfinite(x))  # results for infinities depend on the algorithm
    x = x if x.dtype.kind == "c" else x.astype(jnp.result_type(x, jnp.complex64))
    norm = (_FORWARD if forward else _INVERSE)[normalization]
    for d in dim:  # one by one: XLA transforms at most the last three dimensions
        if x.shape[d] == 1:  # the transform of one number is that number
            continue
        x = _along(x, d, lambda x: (jnp.fft.fft if forward else jnp.fft.ifft)(x, norm=norm))
    return x


@lowering("fft_r2c")
def _r2c(x: Any, dim: Any, normalization: int, onesided: bool) -> Any:
    if not onesided:
        return _c2c(x, dim, normalization, True)
    trust(jnp.isfinite(x))
    x = _along(x, dim[-1], lambda x: jnp.fft.rfft(x, norm=_FORWARD[normalization]))
    return _c2c(x, dim[:-1], normalization, True)


@lowering("fft_c2r")
def _c2r(x: Any, dim: Any, normalization: int, last_dim_size: int) -> Any:
    trust(jnp.isfinite(x))
    x = _c2c(x, dim[:-1], normalization, False)
    norm = _INVERSE[normalization]
    return _along(x, dim[-1], lambda x: jnp.fft.irfft(x, last_dim_size, norm=norm))
