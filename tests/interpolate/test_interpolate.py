"""Interpolation: NumPy's and SciPy's values, and derivatives by points, values and arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.interpolate

import retrograd as torch
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.func import grad, jacfwd, jacrev, vmap
from retrograd.interpolate import CubicSpline, interp

pytestmark = pytest.mark.filterwarnings("ignore:Backwards compatibility")
X = np.array([0.0, 0.7, 1.5, 2.0, 3.1])
Y = np.array([1.0, -0.5, 2.0, 0.3, 1.0])
AT = np.array([[-0.4, 0.0, 0.3], [1.9, 3.1, 3.5]])


def tensor(x: Any, **options: Any) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float64, **options)


@pytest.mark.parametrize("options", [{}, {"left": -7.0, "right": 9.0}, {"period": 2.5}])
def test_interp_as_numpy(options: dict[str, Any]) -> None:
    np.testing.assert_allclose(interp(AT, X, Y, **options), np.interp(AT, X, Y, **options))
    assert interp(tensor(0.3), X, Y).shape == ()
    np.testing.assert_allclose(interp(AT, [1.0], [5.0]), np.interp(AT, [1.0], [5.0]))


def test_interp_derivatives() -> None:
    inputs = tuple(tensor(x, requires_grad=True) for x in (AT, X + 0.01, Y))
    assert gradcheck(interp, inputs, check_forward_ad=True)
    assert gradgradcheck(interp, inputs, check_fwd_over_rev=True)
    at = tensor(AT.reshape(-1))
    np.testing.assert_allclose(vmap(lambda x: interp(x, X, Y))(at), interp(at, X, Y))
    many = vmap(lambda y: interp(at, X, y))(tensor(np.stack([Y, 2 * Y])))
    np.testing.assert_allclose(many[1], 2 * interp(at, X, Y))


CONDITIONS = ["not-a-knot", "natural", "clamped", "periodic", ((1, 0.5), (2, -0.3)),
              ("not-a-knot", "natural")]  # fmt: skip


@pytest.mark.parametrize("bc_type", CONDITIONS)
@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_splines_as_scipy(bc_type: Any, count: int) -> None:
    y = np.append(Y[: count - 1], Y[0]) if bc_type == "periodic" else Y[:count]
    mine, theirs = (kind(X[:count], y, bc_type=bc_type)
                    for kind in (CubicSpline, scipy.interpolate.CubicSpline))  # fmt: skip
    for nu in range(5):
        inside = AT + 1e-3  # where all derivatives are the same from both sides
        np.testing.assert_allclose(mine(inside, nu), theirs(inside, nu), atol=1e-10)
    np.testing.assert_allclose(mine.integrate(0.1, 0.6), theirs.integrate(0.1, 0.6), atol=1e-12)
    np.testing.assert_allclose(mine.c[:, :, 0], theirs.c, atol=1e-10)


@pytest.mark.parametrize("bc_type", CONDITIONS[:5])
def test_spline_derivatives(bc_type: Any) -> None:
    inputs = tuple(tensor(x, requires_grad=True) for x in (AT + 0.02, X, Y))
    f = lambda at, x, y: CubicSpline(x, y, bc_type=bc_type)(at)
    assert gradcheck(f, inputs, check_forward_ad=True)
    if bc_type in ("natural", "periodic"):
        assert gradgradcheck(f, inputs)
    total = lambda a, b, y: CubicSpline(X, y, bc_type=bc_type).integrate(a, b)
    assert gradcheck(total, (*(tensor(x, requires_grad=True) for x in (0.2, 2.7)), inputs[2]))


def test_spline_transforms() -> None:
    at, y = tensor([0.3, 1.9]), tensor(Y)
    f = lambda y: CubicSpline(X, y)(at)
    np.testing.assert_allclose(jacrev(f)(y), jacfwd(f)(y), atol=1e-12)
    np.testing.assert_allclose(jacrev(f)(y) @ y, f(y), atol=1e-12)  # it is linear in the values
    batch = tensor(np.stack([Y, Y**2]))
    np.testing.assert_allclose(vmap(f)(batch), np.stack([f(v) for v in batch]), atol=1e-12)
    spline = CubicSpline(X, y)
    np.testing.assert_allclose(vmap(grad(spline))(at), spline(at, 1), atol=1e-12)
    np.testing.assert_allclose(vmap(grad(grad(spline)))(at), spline(at, 2), atol=1e-12)


def test_splines_of_several_values() -> None:
    values = np.stack([Y, Y**2, np.sin(Y)])
    for axis, y in ((1, values), (0, values.T)):
        kinds = CubicSpline, scipy.interpolate.CubicSpline
        mine, theirs = (kind(X, y, axis=axis) for kind in kinds)
        np.testing.assert_allclose(mine(AT), theirs(AT), atol=1e-12)
        np.testing.assert_allclose(mine(0.5), theirs(0.5), atol=1e-12)
    outside = CubicSpline(X, Y, extrapolate=False)(AT)
    np.testing.assert_array_equal(outside.isnan(), (X[0] > AT) | (X[-1] < AT))


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="xp and fp must be vectors of one length"):
        interp(AT, X, Y[:2])
    with pytest.raises(ValueError, match="xp must be increasing"):
        interp(AT, X[::-1].copy(), Y)
    with pytest.raises(ValueError, match="period must be a non-zero value"):
        interp(AT, X, Y, period=0)
    with pytest.raises(ValueError, match="at least 2 points"):
        CubicSpline([1.0], [1.0])
    with pytest.raises(ValueError, match="but there are 5 points"):
        CubicSpline(X, Y[:3])
    with pytest.raises(ValueError, match="x must be strictly increasing"):
        CubicSpline([0.0, 0.0, 1.0], [1.0, 2.0, 3.0])
    for bad in ("free", ((3, 0.0), (1, 0.0)), 5):
        with pytest.raises(ValueError, match="expected bc_type to be"):
            CubicSpline(X, Y, bc_type=bad)
