"""The problems of ``benchmarks.solvers`` by solvers of JAX: jaxopt, optimistix and diffrax, if they
are installed. Functions are jitted where the libraries do not do it themselves."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

Method = Callable[[], tuple[Any, int]]
LABELS = {
    "jaxopt": "jaxopt, SciPy's method with JAX's derivatives",
    "jaxopt:own": "jaxopt, its own L-BFGS", "optimistix": "optimistix", "diffrax": "diffrax",
}  # fmt: skip


def library(name: str) -> Any:
    """A library, or None if it is not installed."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        return None
    importlib.import_module("jax").config.update("jax_enable_x64", True)
    return module


def minimized(value: Callable[[Any, Any], Any], start: Any, options: Any) -> dict[str, Method]:
    """The minimum of ``value(jax.numpy, x)``. The number of calls is that of iterations where a
    library does not tell."""
    jaxopt, optimistix = library("jaxopt"), library("optimistix")
    found: dict[str, Method] = {}
    if jaxopt is not None:
        xp, jax = importlib.import_module("jax.numpy"), importlib.import_module("jax")
        f = lambda x: value(xp, x)
        most = options.get("maxiter", 10_000)
        by_scipy = jaxopt.ScipyMinimize(method="L-BFGS-B", fun=f, maxiter=most)
        own = jaxopt.LBFGS(f, maxiter=options.get("maxiter", 200), tol=1e-4, implicit_diff=False)
        solve = jax.jit(own.run)

        def scipy_with_jax() -> tuple[Any, int]:
            _, state = by_scipy.run(xp.asarray(start))
            return float(state.fun_val), int(state.num_fun_eval)

        def jaxopt_alone() -> tuple[Any, int]:
            _, state = solve(xp.asarray(start))
            return float(state.value), int(state.num_fun_eval)

        found |= {"jaxopt": scipy_with_jax, "jaxopt:own": jaxopt_alone}
    if optimistix is not None:
        xp, jax = importlib.import_module("jax.numpy"), importlib.import_module("jax")
        solver = optimistix.LBFGS(rtol=1e-5, atol=1e-7)
        steps = options.get("maxiter", 500)

        def minimum(x: Any) -> Any:
            solution = optimistix.minimise(
                lambda x, _: value(xp, x), solver, x, max_steps=steps, throw=False
            )
            return value(xp, solution.value), solution.stats["num_steps"]

        solved = jax.jit(minimum)

        def alone() -> tuple[Any, int]:
            least, count = solved(xp.asarray(start))
            return float(least), int(count)

        found["optimistix"] = alone
    return found


def root_of(residual: Callable[[Any, Any], Any], start: Any) -> dict[str, Method]:
    """A root of ``residual(jax.numpy, x)``."""
    jaxopt, optimistix = library("jaxopt"), library("optimistix")
    found: dict[str, Method] = {}
    if jaxopt is not None:
        xp = importlib.import_module("jax.numpy")
        solver = jaxopt.ScipyRootFinding(
            method="hybr", optimality_fun=lambda x: residual(xp, x), use_jacrev=False
        )

        def scipy_with_jax() -> tuple[Any, int]:
            x, state = solver.run(xp.asarray(start))
            return np.asarray(x), int(state.num_fun_eval)

        found["jaxopt"] = scipy_with_jax
    if optimistix is not None:
        xp, jax = importlib.import_module("jax.numpy"), importlib.import_module("jax")
        newton = optimistix.Newton(rtol=1e-8, atol=1e-8)

        def zero(x: Any) -> Any:
            solution = optimistix.root_find(lambda x, _: residual(xp, x), newton, x)
            return solution.value, solution.stats["num_steps"]

        solved = jax.jit(zero)

        def alone() -> tuple[Any, int]:
            x, count = solved(xp.asarray(start))
            return np.asarray(x), int(count)

        found["optimistix"] = alone
    return found


def stiff(rates: Callable[..., Any], start: Any, parameters: Any, end: float) -> dict[str, Method]:
    """The derivatives of the first element of the state at the end, times the parameters."""
    diffrax = library("diffrax")
    if diffrax is None:
        return {}
    xp, jax = importlib.import_module("jax.numpy"), importlib.import_module("jax")

    def first(k: Any) -> Any:
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, k: xp.stack(rates(t, y, k))), diffrax.Kvaerno5(), 0.0, end,
            1e-4, xp.asarray(start), args=k, max_steps=4096,
            stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-9),
        )  # fmt: skip
        return solution.ys[-1, 0], solution.stats["num_steps"]

    run = jax.jit(jax.grad(first, has_aux=True))

    def solved() -> tuple[Any, int]:
        gradient, steps = run(xp.asarray(parameters))
        return np.asarray(gradient) * np.asarray(parameters), int(steps)

    return {"diffrax": solved}
