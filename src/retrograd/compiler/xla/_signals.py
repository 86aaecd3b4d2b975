"""Lowerings of Fourier transforms."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from retrograd.compiler.xla._table import lowering, trust

_FORWARD = ("backward", "ortho", "forward")
_INVERSE = ("forward", "ortho", "backward")


@lowering("fft_c2c")
def _c2c(x: Any, dim: Any, normalization: int, forward: bool) -> Any:
    trust(jnp.isfinite(x))  # results for infinities depend on the algorithm
    x = x if x.dtype.kind == "c" else x.astype(jnp.result_type(x, jnp.complex64))
    norm = (_FORWARD if forward else _INVERSE)[normalization]
    for d in dim:  # one by one: XLA transforms at most the last three dimensions
        x = jnp.moveaxis(x, d, -1)
        x = (jnp.fft.fft if forward else jnp.fft.ifft)(x, norm=norm)
        x = jnp.moveaxis(x, -1, d)
    return x


@lowering("fft_r2c")
def _r2c(x: Any, dim: Any, normalization: int, onesided: bool) -> Any:
    if not onesided:
        return _c2c(x, dim, normalization, True)
    trust(jnp.isfinite(x))
    x = jnp.fft.rfft(x, axis=dim[-1], norm=_FORWARD[normalization])
    return _c2c(x, dim[:-1], normalization, True)


@lowering("fft_c2r")
def _c2r(x: Any, dim: Any, normalization: int, last_dim_size: int) -> Any:
    trust(jnp.isfinite(x))
    x = _c2c(x, dim[:-1], normalization, False)
    return jnp.fft.irfft(x, last_dim_size, axis=dim[-1], norm=_INVERSE[normalization])
