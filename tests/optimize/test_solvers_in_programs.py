"""torch.compile of functions that call solvers of SciPy's: they run eagerly, and say so."""

import math

import pytest

import retrograd as torch
from retrograd.func import grad

one, two = torch.ones(1, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
times = torch.linspace(0, 1, 3)

FUNCTIONS = {
    "root": lambda a: torch.optimize.root(lambda x, a: x**3 - a, one, args=(a,)).x.sum(),
    "fixed_point": lambda a: torch.optimize.fixed_point(lambda x: (a + x).sqrt(), one).sum(),
    "minimize": lambda a: torch.optimize.minimize(
        lambda x: ((x - a) ** 2).sum() + (x**4).sum(), two
    ).x.sum(),
    "least_squares": lambda a: torch.optimize.least_squares(lambda x: x**3 - a, one).x.sum(),
    "cg": lambda a: torch.optimize.cg(torch.diag(a * two), two)[0].sum(),
    "solve_ivp": lambda a: torch.integrate.solve_ivp(lambda t, y: -a * y, (0, 1), one).y[0, -1],
    "odeint": lambda a: torch.integrate.odeint(lambda y, t: -a * y, one, times).sum(),
    "quad": lambda a: torch.integrate.quad(lambda x: (a * x).sin(), 0.0, 1.0)[0],
}


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_run_eagerly(name, order):
    function = FUNCTIONS[name]
    for _ in range(order):
        function = grad(function)
    compiled = torch.compile(function)
    a = torch.tensor(2.0, dtype=torch.float64)
    solver = "solve_ivp" if name == "odeint" else name
    with pytest.warns(UserWarning, match=rf"which it reads with {solver}\(\)"):
        torch.testing.assert_close(compiled(a), function(a))
    torch.testing.assert_close(compiled(a + 1), function(a + 1))


@pytest.mark.parametrize("a", [1.0, 2.5, 3.0, 4.0])
def test_implicit_steps_in_single_precision(a):
    """Their equations are solved as far as the dtype goes."""
    start, ends = torch.ones(1), torch.tensor([0.0, 1.0])
    f = lambda a: torch.integrate.odeint(lambda y, t: -a * y, start, ends)[-1, 0]
    found = grad(f)(torch.tensor(a))
    torch.testing.assert_close(found, torch.tensor(-math.exp(-a)), rtol=1e-3, atol=1e-4)
