"""Transforms of functions on the device ``xla:cpu``, beside those on the CPU.

Run by tests/devices/test_on_devices.py in a process of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from _device import DEVICE

import retrograd as torch
from retrograd.func import grad, jacfwd, jacrev, jvp, taylor, vmap
from retrograd.nn import functional as F


def indices(*values: int, like: Any) -> Any:
    return torch.tensor(values, device=like.device)


def matrix(x: Any) -> Any:
    """A symmetric matrix with distinct eigenvalues."""
    return torch.outer(x[:3], x[:3]) + torch.diag(x[:3])


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "prod": lambda x: x.prod(), "cumprod": lambda x: x.cumprod(0), "sort": lambda x: x.sort()[0],
    "cummax": lambda x: x.cummax(0)[0], "logcumsumexp": lambda x: x.logcumsumexp(0),
    "median": lambda x: x.median(), "quantile": lambda x: x.quantile(0.3),
    "std": lambda x: x.std(), "norm": lambda x: x.norm(), "pad": lambda x: F.pad(x, (1, 1)),
    "roll": lambda x: x.roll(1), "index": lambda x: x[[0, 2]],
    "gather": lambda x: x.gather(0, indices(1, 2, like=x)),
    "tril": lambda x: torch.outer(x, x).tril().sum(), "det": lambda x: matrix(x).det(),
    "inverse": lambda x: matrix(x).inverse().sum(),
    "cholesky": lambda x: torch.linalg.cholesky(matrix(x)).sum(),
    "eigvalsh": lambda x: torch.linalg.eigvalsh(matrix(x)).sin().sum(),
    "svdvals": lambda x: torch.linalg.svdvals(matrix(x)).sin().sum(),
    "conv1d": lambda x: F.conv1d(x[None, None], x[None, None, :3]),
    "layer_norm": lambda x: F.layer_norm(x, (8,)).sin(), "softmax": lambda x: x.softmax(0),
    "max_pool1d": lambda x: F.max_pool1d(x[None, None], 2),
    "interpolate": lambda x: F.interpolate(x[None, None], 16, mode="linear"),
    "cross_entropy": lambda x: F.cross_entropy(x[None], indices(1, like=x)),
    "rfft": lambda x: torch.fft.rfft(x).abs().sum(),
    "cdist": lambda x: torch.cdist(x[:, None], x[:, None] + 1).sum(),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.view(1, 1, 4, 2)] * 3),
    "embedding": lambda x: F.embedding(indices(1, 0, like=x), x.view(4, 2)),
}  # fmt: skip
TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "jvp": lambda f, x: jvp(f, (x,), (x.cos(),))[1],
    "jacfwd": lambda f, x: jacfwd(f)(x),
    "second": lambda f, x: jacfwd(jacrev(lambda y: f(y).sum()))(x),
    "batched grad": lambda f, x: vmap(grad(lambda y: f(y).sum()))(torch.stack([x, x + 1])),
    "series": lambda f, x: taylor(f, x, x.cos(), 3),
}


def results(device: str, function: Any, transform: Any) -> list[Any]:
    x = torch.linspace(0.3, 1, 8, dtype=torch.float64)[[3, 0, 7, 2, 5, 1, 6, 4]].to(device)
    found = transform(function, x)
    parts = list(found) if isinstance(found, (tuple, list)) else [found]
    assert all(part.device == x.device for part in parts)
    return [part.tolist() for part in parts]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_transforms(name: str) -> None:
    for transform in TRANSFORMS.values():
        expected = results("cpu", FUNCTIONS[name], transform)
        for here, there in zip(results(DEVICE, FUNCTIONS[name], transform), expected, strict=True):
            np.testing.assert_allclose(here, there, rtol=1e-8, atol=1e-9)


def overwritten(x: Any) -> Any:
    y = x * 1
    y[:] = 5.0
    return y


@pytest.mark.parametrize("name", TRANSFORMS)
def test_gradients_that_are_constants_of_a_rule(name: str) -> None:
    assert results(DEVICE, overwritten, TRANSFORMS[name]) == results(
        "cpu", overwritten, TRANSFORMS[name]
    )


def test_two_devices_under_a_transform() -> None:
    x, other = torch.ones(2, 3, device=DEVICE), torch.ones(3)
    for transformed in (vmap(lambda v: v * other), lambda x: jvp(lambda v: v * other, (x,), (x,))):
        with pytest.raises(RuntimeError, match="at least two devices, xla:cpu:0 and cpu!"):
            transformed(x)
    assert vmap(lambda v: v * 2)(other).tolist() == [2.0] * 3
