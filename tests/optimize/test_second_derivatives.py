"""Second derivatives of what each solver finds, against finite differences of the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd import integrate, interpolate, optimize
from retrograd.autograd import gradcheck, gradgradcheck

TIMES = np.linspace(0.1, 2.0, 5)
VALUES = 2 * np.exp(-1.7 * TIMES) + 0.05 * np.sin(3 * np.arange(5))
PRECISE: dict[str, Any] = {"xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-14}


def tensor(*values: float) -> torch.Tensor:
    found = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    return found if len(values) > 1 else found.detach()[0].requires_grad_()


def matrix(v: Any) -> Any:
    return torch.diag(v + 3) + torch.diag(v[:-1], 1) + torch.diag(v[:-1], -1)


def curve(t: Any, a: Any, k: Any) -> Any:
    return a * torch.exp(-k * t)


def start(*values: float) -> Any:
    return torch.tensor(values, dtype=torch.float64)


def fitted(y: Any) -> Any:
    p, covariance = optimize.curve_fit(curve, TIMES, y, p0=[2.0, 1.5], **PRECISE)
    return p, covariance


def landing(g: Any) -> Any:
    fall = lambda t, y, g: [y[1], -g]
    ground = lambda t, y, g: y[0]
    ground.terminal = True  # type: ignore[attr-defined]
    found = integrate.solve_ivp(fall, (0, 9), start(2.0, 0.0), args=(g,), events=ground, rtol=1e-9)
    return found.t_events[0][0], found.y_events[0][0]


def decay(method: str) -> Callable[..., Any]:
    def solved(k: Any, y0: Any) -> Any:
        rate = lambda t, y, k: -k * y * y
        options = {"rtol": 1e-7, "atol": 1e-9}
        return integrate.solve_ivp(rate, (0, 0.05), y0, method, args=(k,), **options).y[:, -1]

    return solved


# For each solver, functions that use it and what to differentiate by.
SOLVERS: dict[str, list[tuple[Callable[..., Any], tuple[torch.Tensor, ...]]]] = {
    "minimize": [(
        lambda a: optimize.minimize(
            lambda x: ((x - a) ** 2).sum() + (x**4).sum(), start(0.1, 0.2), method="trust-exact",
            tol=1e-12).x,
        (tensor(1.0, 2.0),),
    )],
    "least_squares": [(
        lambda y: optimize.least_squares(
            lambda p: curve(torch.tensor(TIMES), p[0], p[1]) - y, start(2.0, 1.5), **PRECISE).x,
        (tensor(*VALUES),),
    )],
    "curve_fit": [(fitted, (tensor(*VALUES),))],
    "root": [(
        lambda a: optimize.root(lambda x: x**3 + x.flip(0) - a, start(1.0, 1.0), tol=1e-13).x,
        (tensor(4.0, 9.0),),
    )],
    "fsolve": [(
        lambda a: optimize.fsolve(lambda x: torch.exp(x) * x - a, start(1.0, 1.0), xtol=1e-13),
        (tensor(4.0, 9.0),),
    )],
    "fixed_point": [(
        lambda a: optimize.fixed_point(lambda x: torch.cos(a * x), start(0.5), xtol=1e-14),
        (tensor(0.8),),
    )],
    "cg": [(
        lambda v, b: optimize.cg(matrix(v), b, rtol=1e-14)[0],
        (tensor(0.5, 0.3, 0.1), tensor(1.0, 2.0, 3.0)),
    )],
    "gmres": [(
        lambda v, b: optimize.gmres(matrix(v), b, rtol=1e-14)[0],
        (tensor(0.5, 0.3, 0.1), tensor(1.0, 2.0, 3.0)),
    )],
    "implicit": [(
        optimize.implicit(lambda a: a.sqrt(), lambda x, a: x * x - a), (tensor(2.0, 5.0),)
    )],
    "solve_ivp": [(decay(method), (tensor(0.7), tensor(2.0).detach()[None].requires_grad_()))
                  for method in ("RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA")]
                 + [(landing, (tensor(9.81),))],
    "odeint": [(
        lambda k, y0: integrate.odeint(lambda y, t: -k * y * y, y0, [0.0, 0.05], method="RK45"),
        (tensor(0.7), tensor(2.0, 1.0)),
    )],
    "odeint_taylor": [(
        lambda k, y0: integrate.odeint_taylor(lambda t, y: -k * y * y, y0, start(0.0, 0.2, 0.4)),
        (tensor(0.7), tensor(2.0, 1.0)),
    )],
    "quad": [(
        lambda a, b: integrate.quad(lambda x: torch.exp(-a * x * x), 0.1 * b, b)[0],
        (tensor(0.7), tensor(1.3)),
    )],
    "interp": [(
        lambda x, y: interpolate.interp(x, start(0.0, 1.0, 2.0), y) ** 2,
        (tensor(0.3, 1.6), tensor(1.0, 3.0, 2.0)),
    )],
    "CubicSpline": [(
        lambda x, y: interpolate.CubicSpline(start(0.0, 1.0, 2.0, 3.0), y)(x),
        (tensor(0.3, 1.6), tensor(1.0, 3.0, 2.0, 4.0)),
    )],
}  # fmt: skip
CASES = [(name, f, inputs) for name, uses in SOLVERS.items() for f, inputs in uses]
NO_SOLVERS = {"Bounds", "LinearConstraint", "NonlinearConstraint"}


def test_every_solver_is_here() -> None:
    names = {n for module in (optimize, integrate, interpolate) for n in module.__all__}
    assert names - NO_SOLVERS == SOLVERS.keys()


@pytest.mark.long
@pytest.mark.parametrize(
    ("f", "inputs"), [case[1:] for case in CASES],
    ids=[f"{case[0]}-{i}" for i, case in enumerate(CASES)],
)  # fmt: skip
def test_first_and_second_derivatives(f: Any, inputs: Any) -> None:
    # Differences over less than 1e-3 would show the noise of adaptive steps.
    assert gradcheck(f, inputs, eps=1e-3, atol=1e-4, rtol=1e-3, check_forward_ad=True)
    assert gradgradcheck(f, inputs, eps=1e-3, atol=1e-3, rtol=1e-3)
