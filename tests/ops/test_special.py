"""Special functions of large arrays, which are computed otherwise than those of small ones."""

from typing import Any

import numpy as np
import pytest

import retrograd as torch

special = pytest.importorskip("scipy.special")
MANY = 40_000  # elements, more than one block of them


def values(low: float, high: float, dtype: str) -> Any:
    """Numbers in a range, evenly spaced and close to its ends, in no order."""
    close = (high - low) * np.logspace(-7, -1, 500)
    spread = np.concatenate([np.linspace(low, high, MANY - 1000), low + close, high - close])
    found = np.random.default_rng(0).permutation(spread).astype(dtype)
    return found[(found > low) & (found < high)]


CASES = {
    "erf": (torch.erf, special.erf, -6, 6, 5),
    "erf near 0": (torch.erf, special.erf, -1e-3, 1e-3, 5),
    "erfc": (torch.erfc, special.erfc, -6, 9, 30),
    "erfinv": (torch.erfinv, special.erfinv, -1, 1, 10),
    "ndtr": (torch.special.ndtr, special.ndtr, -6, 6, 30),
    "digamma": (torch.digamma, special.psi, 2, 30, 20),
    "digamma left of 0": (torch.digamma, special.psi, -0.9, -0.6, 50),
    "trigamma": (lambda x: torch.polygamma(1, x), lambda x: special.polygamma(1, x), 0.5, 30, 20),
    "lgamma": (torch.lgamma, special.gammaln, 2.5, 30, 10),
    "entr": (torch.special.entr, special.entr, 1.1, 5, 10),
    "i0e": (torch.special.i0e, special.i0e, -9, 9, 10),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_many_elements_are_as_exact_as_few(name: str, dtype: str) -> None:
    ours, theirs, low, high, digits_lost = CASES[name]
    x = values(low, high, dtype)
    result = ours(torch.from_numpy(x))
    assert result.numpy().dtype == dtype
    expected = theirs(x.astype("float64"))
    allowed = digits_lost * np.finfo(dtype).eps
    if dtype == "float64" and name == "digamma left of 0":
        allowed *= 10  # the root is near
    error = np.abs(result.numpy() - expected) / np.abs(expected)
    assert np.max(error[expected != 0]) < allowed


def test_ends_among_many_elements() -> None:
    x = torch.linspace(-1, 1, MANY)
    ends = {"erf": (torch.erf, [-1, 1, -1, 1]), "erfc": (torch.erfc, [2, 0, 2, 0])}
    x[:4] = torch.tensor([-torch.inf, torch.inf, -1e9, 1e9])
    x[4] = torch.nan
    for function, expected in ends.values():
        found = function(x)
        assert found[:4].tolist() == expected
        assert torch.isnan(found).sum() == 1
    x[:4] = torch.tensor([-1.0, 1.0, 0.0, -0.0])
    assert torch.erfinv(x)[:4].tolist() == [-torch.inf, torch.inf, 0, 0]
    assert torch.erfinv(2 * x).isnan().sum() > MANY // 3


PAIRS = {
    "hypot": (torch.hypot, np.hypot), "logaddexp": (torch.logaddexp, np.logaddexp),
    "logaddexp2": (torch.logaddexp2, np.logaddexp2), "fmod": (torch.fmod, np.fmod),
    "remainder": (torch.remainder, np.remainder), "copysign": (torch.copysign, np.copysign),
    "floor_divide": (torch.floor_divide, np.floor_divide),
    "xlogy": (lambda x, y: torch.xlogy(x, y.abs()), lambda x, y: special.xlogy(x, np.abs(y))),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", PAIRS)
def test_many_pairs_are_as_exact_as_few(name: str, dtype: str) -> None:
    ours, theirs = PAIRS[name]
    random = np.random.default_rng(1)
    x, y = (random.normal(size=MANY) * 10 ** random.uniform(-3, 3, MANY) for _ in range(2))
    x, y = x.astype(dtype), y.astype(dtype)
    odd = np.array([0, -0.0, 1, -1, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e30, -1e30], dtype)
    pairs = np.stack(np.meshgrid(odd, odd)).reshape(2, -1)
    x[: pairs.shape[1]], y[: pairs.shape[1]] = pairs
    with np.errstate(all="ignore"):
        expected = theirs(x, y)
    found = ours(torch.from_numpy(x), torch.from_numpy(y)).numpy()
    assert found.dtype == dtype
    # Sums may cancel: what they lose is little beside their terms.
    size = np.where(np.isfinite(x) & np.isfinite(y), np.abs(x) + np.abs(y), 0)
    lost = np.isfinite(expected) & (np.abs(found - expected) <= np.finfo(dtype).eps * size)
    tolerance = 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(found[~lost], expected[~lost], rtol=tolerance, atol=0)


@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
@pytest.mark.parametrize("divisor", [0.3, -0.7, 2, 1e-9, torch.inf, 0])
def test_rounding_division_by_a_number(name: str, divisor: float) -> None:
    x = np.random.default_rng(2).normal(size=MANY).astype("float32") * 100
    with np.errstate(all="ignore"):
        expected = PAIRS[name][1](x, np.float32(divisor))
    found = PAIRS[name][0](torch.from_numpy(x), divisor).numpy()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=0)


def test_digamma_next_to_a_pole() -> None:
    x = np.array([-0.999498724937439, -0.9975296258926392, -3.0001, -1e-3], "float32")
    found = torch.digamma(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, special.psi(x.astype("float64")), rtol=1e-6)
