"""Fits of curves: SciPy's parameters and covariances, and derivatives of both."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import retrograd as torch
from retrograd.autograd import gradcheck
from retrograd.optimize import curve_fit

pytestmark = pytest.mark.filterwarnings("ignore:Backwards compatibility")
T = np.linspace(0, 4, 20)
Y = 2.5 * np.exp(-1.3 * T) + 0.5 + 0.02 * np.sin(7 * np.arange(20))
SIGMA = 0.02 * (1 + T)
COVARIANCE = 4e-4 * (np.eye(20) + 0.3 * (np.eye(20, k=1) + np.eye(20, k=-1)))


def curve(t: Any, a: Any, b: Any, c: Any) -> Any:
    return a * (-b * t).exp() + c


def numpy_curve(t: Any, a: Any, b: Any, c: Any) -> Any:
    return a * np.exp(-b * t) + c


@pytest.mark.parametrize(
    "options",
    [{}, {"sigma": SIGMA}, {"sigma": SIGMA, "absolute_sigma": True},
     {"sigma": COVARIANCE, "absolute_sigma": True}, {"bounds": (0, [3.0, 2.0, 1.0])},
     {"p0": [2.0, 1.0, 0.3], "method": "dogbox"}],
)  # fmt: skip
def test_as_scipy(options: dict[str, Any]) -> None:
    p, covariance = curve_fit(curve, T, Y, **options)
    expected, expected_covariance = scipy.optimize.curve_fit(numpy_curve, T, Y, **options)
    assert type(p) is type(covariance) is np.ndarray
    np.testing.assert_allclose(p, expected, rtol=1e-5)
    np.testing.assert_allclose(covariance, expected_covariance, rtol=1e-3)


def test_derivatives() -> None:
    tight = {"xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-14}
    t, y, sigma = (torch.tensor(x[::4]) for x in (T, Y, SIGMA))
    for k in range(3):
        inputs = [x.clone().requires_grad_(i == k) for i, x in enumerate((t, y, sigma))]
        fit = lambda t, y, s: curve_fit(curve, t, y, p0=[2.0, 1.0, 0.3], sigma=s, **tight)
        assert gradcheck(fit, tuple(inputs), check_forward_ad=True, atol=1e-4, rtol=1e-3)


def test_the_covariance_is_that_of_fits_to_noisy_data() -> None:
    # The fit is nearly linear in the data, so the covariance of its parameters is J J' / σ².
    y = torch.tensor(Y, requires_grad=True)
    p, covariance = curve_fit(curve, torch.tensor(T), y, sigma=np.full(20, 0.02),
                              absolute_sigma=True, xtol=1e-14, ftol=1e-14, gtol=1e-14)  # fmt: skip
    rows = [torch.autograd.grad(x, y, retain_graph=True)[0].numpy() for x in p]
    np.testing.assert_allclose(0.02**2 * np.array(rows) @ np.array(rows).T, covariance.detach(),
                               rtol=0.1)  # fmt: skip


def test_no_covariance() -> None:
    with pytest.warns(scipy.optimize.OptimizeWarning, match="Covariance"):
        _, covariance = curve_fit(curve, T[:3], Y[:3], p0=[2.0, 1.0, 0.3])
    assert np.isinf(covariance).all()
    with pytest.warns(scipy.optimize.OptimizeWarning, match="Covariance"):
        curve_fit(lambda t, a, b: (a + b) * t, T, Y)


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="Unable to determine number of fit parameters"):
        curve_fit(lambda t, *p: p[0] * t, T, Y)
    with pytest.raises(ValueError, match="`sigma` has incorrect shape"):
        curve_fit(curve, T, Y, sigma=np.eye(3))
    with pytest.raises(RuntimeError, match="Optimal parameters not found"):
        curve_fit(curve, T, Y, max_nfev=2, method="trf")
    assert list(inspect.signature(curve_fit).parameters)[:4] == ["f", "xdata", "ydata", "p0"]


def test_lists_and_columns_are_in_double_precision() -> None:
    class Column:  # as that of a data frame: it is no array, but can be made one
        def __init__(self, values: list[float]) -> None:
            self.values = values

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array(self.values, dtype)

    t, y = [0.1, 0.2, 0.4, 0.7], [0.3, 0.1, 0.4, 0.3]
    expected, covariance = np.polyfit(t, y, 1, cov=True)
    model = lambda t, a, b: torch.add(a * t, b)
    for given in ((t, y), (Column(t), Column(y)), (np.array(t), y), (t, np.array(y))):
        p, found = curve_fit(model, *given)
        assert p.dtype == np.float64
        np.testing.assert_allclose(p, expected, rtol=1e-12)
        np.testing.assert_allclose(found, covariance, rtol=1e-12)
