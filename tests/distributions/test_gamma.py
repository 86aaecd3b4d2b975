"""Gamma and Dirichlet numbers: PyTorch's draws, and derivatives that are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import retrograd as torch
from retrograd.arrays import _gamma, _random

theirs = pytest.importorskip("torch", reason="PyTorch is the reference to compare with")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(4))
def test_the_same_draws(dtype: str, seed: int) -> None:
    concentration = np.random.default_rng(seed).gamma(1.0, 3.0, (7, 5)).astype(dtype)
    concentration[0] *= 0.01
    mine, reference = _random.Generator().manual_seed(seed), theirs.Generator().manual_seed(seed)
    for _ in range(2):
        found = _gamma.standard_gamma(concentration, mine)
        expected = theirs._standard_gamma(theirs.from_numpy(concentration), generator=reference)
        assert found.tobytes() == expected.numpy().tobytes()
        found = _gamma.dirichlet(concentration, mine)
        expected = theirs._sample_dirichlet(theirs.from_numpy(concentration), generator=reference)
        np.testing.assert_allclose(found, expected.numpy(), rtol=0 if dtype == "float32" else 4e-16)
    assert mine.get_state().tobytes() == reference.get_state().numpy().tobytes()


def test_gamma_slopes() -> None:
    """Against differences of the distribution function, in the direction of the parameter."""
    a = np.repeat([0.05, 0.3, 1.0, 2.5, 8.0, 40.0, 600.0], 12)
    x = _gamma.standard_gamma(a, _random.Generator().manual_seed(0))
    h = 1e-4 * a
    lower, upper = (special.gammainc(a + s * h, x) for s in (-1, 1))
    expected = -(upper - lower) / (2 * h) / stats.gamma.pdf(x, a)
    found = _gamma.standard_gamma_grad(a, x)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    reference = theirs._standard_gamma_grad(theirs.from_numpy(a), theirs.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, reference, rtol=5e-4)


def test_gamma_slopes_of_large_concentrations() -> None:
    """Where the expansion takes over, both agree."""
    a = np.array([9.9e4, 1.01e5, 1e6, 1e9])
    x = a + np.sqrt(a) * np.array([1.2, 1.2, -2.0, 0.3])
    found = _gamma.standard_gamma_grad(a, x)
    reference = theirs._standard_gamma_grad(theirs.from_numpy(a), theirs.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, reference, rtol=1e-6)
    near = _gamma._gamma_slope_large(a[:1], x[:1])
    np.testing.assert_allclose(found[:1], near, rtol=1e-9)


def test_beta_slopes() -> None:
    draw = np.random.default_rng(0)
    a, b = draw.gamma(1.0, 2.0, (2, 300)) + 0.05
    x = draw.beta(a, b).clip(1e-6, 1 - 1e-6)
    h = 1e-4 * a
    lower, upper = (special.betainc(a + s * h, b, x) for s in (-1, 1))
    expected = -(upper - lower) / (2 * h) / stats.beta.pdf(x, a, b) / (1 - x)
    np.testing.assert_allclose(_gamma.dirichlet_grad(x, a, a + b), expected, rtol=1e-5)


def test_derivatives_and_transforms() -> None:
    a = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    x = torch._standard_gamma(a)
    assert type(x.grad_fn).__name__ == "StandardGammaBackward0"
    (slope,) = torch.autograd.grad(x.sum(), a, create_graph=True)
    with pytest.raises(RuntimeError, match="_standard_gamma_grad is not implemented"):
        slope.sum().backward()
    torch.manual_seed(0)
    value, tangent = torch.func.jvp(torch._standard_gamma, (a.detach(),), (torch.ones_like(a),))
    assert torch.equal(tangent, torch._standard_gamma_grad(a.detach(), value))
    rows = torch.vmap(torch._sample_dirichlet, randomness="different")(torch.ones(3, 4))
    assert torch.allclose(rows.sum(-1), torch.ones(3))
    assert not torch.equal(rows[0], rows[1])
    for bad in (torch.ones(2, dtype=torch.int64), torch.ones(2, dtype=torch.float16)):
        with pytest.raises(NotImplementedError, match="not implemented for"):
            torch._standard_gamma(bad)


def test_no_numbers() -> None:
    empty: Any = torch.ones(0, 3)
    assert torch._standard_gamma(empty).shape == (0, 3)
    assert torch._sample_dirichlet(empty).shape == (0, 3)
    assert torch._standard_gamma(torch.tensor(float("nan"))).isnan()


def test_tangents_of_dirichlet_numbers_are_those_of_the_same_draw() -> None:
    a = torch.tensor([[1.0, 2.0, 0.7], [0.4, 3.0, 5.0]], dtype=torch.float64)
    torch.manual_seed(3)
    value, pull = torch.func.vjp(torch._sample_dirichlet, a)
    after = torch.get_rng_state()
    units = torch.eye(6, dtype=torch.float64).reshape(6, 2, 3)
    rows = torch.stack([pull(unit)[0] for unit in units]).reshape(6, 6)
    columns = []
    for unit in units:
        torch.manual_seed(3)
        same, column = torch.func.jvp(torch._sample_dirichlet, (a,), (unit,))
        assert torch.equal(same, value)
        assert torch.equal(torch.get_rng_state(), after)
        columns.append(column.reshape(-1))
    np.testing.assert_allclose(torch.stack(columns, dim=1), rows, rtol=1e-12, atol=1e-15)
