"""Special functions: of large arrays, which are computed otherwise than those of small ones, and
derivatives that PyTorch does not have."""

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


# -- derivatives that PyTorch does not have ------------------------------------------------------

S = torch.special
SLOPES = {
    S.bessel_j0: lambda x, n: special.jvp(0, x, n),
    S.bessel_j1: lambda x, n: special.jvp(1, x, n),
    S.bessel_y0: lambda x, n: special.yvp(0, x, n),
    S.bessel_y1: lambda x, n: special.yvp(1, x, n),
    S.modified_bessel_i0: lambda x, n: special.ivp(0, x, n),
    S.modified_bessel_i1: lambda x, n: special.ivp(1, x, n),
    S.modified_bessel_k0: lambda x, n: special.kvp(0, x, n),
    S.modified_bessel_k1: lambda x, n: special.kvp(1, x, n),
    torch.i0: lambda x, n: special.ivp(0, x, n),
    S.i1: lambda x, n: special.ivp(1, x, n),
}  # fmt: skip


def slopes(function: Any, x: Any, order: int) -> list[Any]:
    """The derivatives of a function of numbers, up to an order."""
    found = []
    at = torch.tensor(x, requires_grad=True)
    value = function(at)
    for _ in range(order):
        (value,) = torch.autograd.grad(value.sum(), at, create_graph=True)
        found.append(value.detach().numpy())
    return found


@pytest.mark.parametrize("function", SLOPES)
def test_derivatives_of_bessel_functions(function: Any) -> None:
    x = np.array([1e-3, 0.5, 1.0, 3.7, 12.0])
    for n, slope in enumerate(slopes(function, x, 4), 1):
        np.testing.assert_allclose(slope, SLOPES[function](x, n), rtol=1e-9)
    tangent = torch.func.jvp(function, (torch.tensor(x),), (torch.tensor(x),))[1]
    np.testing.assert_allclose(tangent.numpy(), SLOPES[function](x, 1) * x, rtol=1e-11)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (S.bessel_j0, [0, -1 / 2, 0, 3 / 8]),
        (S.bessel_j1, [1 / 2, 0, -3 / 8, 0]),
        (S.modified_bessel_i0, [0, 1 / 2, 0, 3 / 8]),
        (S.modified_bessel_i1, [1 / 2, 0, 3 / 8, 0]),
        (S.i1, [1 / 2, 0, 3 / 8, 0]),
        (S.spherical_bessel_j0, [0, -1 / 3, 0, 1 / 5]),
        (torch.sinc, [0, -(np.pi**2) / 3, 0, np.pi**4 / 5]),
    ],
)
def test_derivatives_at_zero_where_formulas_divide_by_it(function: Any, expected: Any) -> None:
    found = slopes(function, np.array([0.0]), 4)
    np.testing.assert_allclose(np.concatenate(found), expected, rtol=1e-15)


def test_derivatives_of_scaled_bessel_functions() -> None:
    x = np.array([1e-3, 0.5, 1.0, 3.7, 12.0])
    k = [np.exp(x) * special.kvp(order, x, n) for order in (0, 1) for n in range(3)]
    for function, (k0, k1, k2) in (
        (S.scaled_modified_bessel_k0, k[:3]), (S.scaled_modified_bessel_k1, k[3:]),
    ):  # fmt: skip
        first, second = slopes(function, x, 2)
        np.testing.assert_allclose(first, k0 + k1, rtol=1e-12)
        np.testing.assert_allclose(second, k0 + 2 * k1 + k2, rtol=1e-9)


def test_derivatives_of_the_airy_function() -> None:
    x = np.array([-6.0, -1.0, 0.0, 0.5, 4.0])
    ai, slope = special.airy(x)[:2]
    first, second, third = slopes(S.airy_ai, x, 3)
    np.testing.assert_allclose(first, slope, rtol=1e-14)
    np.testing.assert_allclose(second, x * ai, rtol=1e-14)
    np.testing.assert_allclose(third, ai + x * slope, rtol=1e-14)


POLYNOMIALS = {
    "chebyshev_polynomial_t": special.chebyt,
    "chebyshev_polynomial_u": special.chebyu,
    "shifted_chebyshev_polynomial_t": special.sh_chebyt,
    "shifted_chebyshev_polynomial_u": special.sh_chebyu,
    "hermite_polynomial_h": special.hermite,
    "hermite_polynomial_he": special.hermitenorm,
    "laguerre_polynomial_l": special.laguerre,
    "legendre_polynomial_p": special.legendre,
}


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_derivatives_of_polynomials(name: str) -> None:
    x = np.array([-1.0, -0.3, 0.0, 0.5, 1.0])
    for degree in (-1, 0, 1, 2, 5):
        found = slopes(lambda t, n=degree: getattr(S, name)(t, n), x, 3)
        for order, slope in enumerate(found, 1):
            expected = 0 * x if degree < 0 else POLYNOMIALS[name](degree).deriv(order)(x)
            np.testing.assert_allclose(slope, expected, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize(("name", "sign"), [("v", -1), ("w", 1)])
@pytest.mark.parametrize("shifted", [False, True])
def test_derivatives_of_polynomials_of_the_third_and_fourth_kind(
    name: str, sign: int, shifted: bool
) -> None:
    """They are the differences and sums of two of the second kind."""
    x, prefix = np.array([-1.0, -0.3, 0.0, 0.5, 1.0]), "shifted_" if shifted else ""
    function = getattr(S, f"{prefix}chebyshev_polynomial_{name}")
    second_kind = special.sh_chebyu if shifted else special.chebyu
    polynomial = second_kind(5) + sign * second_kind(4)
    for order, slope in enumerate(slopes(lambda t: function(t, 5), x, 3), 1):
        np.testing.assert_allclose(slope, polynomial.deriv(order)(x), rtol=1e-11, atol=1e-9)


def test_the_degree_of_a_polynomial_has_no_derivative() -> None:
    degree = torch.tensor([2.0], requires_grad=True)
    assert not S.legendre_polynomial_p(torch.tensor([0.5]), degree).requires_grad
    x = torch.tensor([0.5], requires_grad=True)
    S.legendre_polynomial_p(x, degree).backward()
    assert x.grad.item() == 1.5
    assert degree.grad is None


@pytest.mark.parametrize("name", ["erf", "erfc", "erfinv", "ndtr"])
def test_large_float32_tensors_of_zeros_and_extremes(name: str) -> None:
    """Large tensors have kernels of their own."""
    numbers = [0.0, -0.0, 1e-45, -1e-45, 1e-30, 0.3, -0.3, 1.0, -1.0, 3.0, -3.0, 9.0, -9.0, 40.0,
               -40.0, np.inf, -np.inf, np.nan]  # fmt: skip
    small = torch.tensor(numbers)
    large = small.repeat_interleave(300).requires_grad_()
    function = getattr(torch.special, name)
    result = function(large)
    expected = getattr(special, name)(np.array(numbers))
    np.testing.assert_allclose(result.detach()[::300], expected, rtol=1e-5, atol=1e-37)
    other = small.clone().requires_grad_()
    function(other).sum().backward()
    result.sum().backward()
    np.testing.assert_allclose(large.grad[::300], other.grad, rtol=1e-6)
