"""Taylor series: ``func.jet`` and what is built on it, against closed forms, nested ``jvp``,
Hessians and, where it is installed, mpmath."""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from samples import SAMPLES, reason
from samples._pool import as_array
from test_ops_transformed import fixed, run, tensors, variables

import retrograd as torch
from retrograd.autograd._series import Call
from retrograd.func import (
    bilaplacian,
    derivatives,
    grad,
    hessian,
    jacrev,
    jet,
    jvp,
    laplacian,
    mixed_partial,
    taylor,
    vmap,
    weighted_directional,
)
from retrograd.integrate import odeint_taylor

F = torch.nn.functional
float64 = torch.float64


def t64(*values: Any) -> torch.Tensor:
    return torch.tensor(values[0] if len(values) == 1 else values, dtype=float64)


def coefficients(f: Callable[[Any], Any], at: float, order: int) -> list[float]:
    return [c.item() for c in taylor(f, t64(at), t64(1.0), order)]


def nested_jvp(f: Any, x: Any, v: Any, k: int) -> Any:
    for _ in range(k):
        f = (lambda g: lambda a: jvp(g, (a,), (v,))[1])(f)
    return f(x)


# -- closed forms ----------------------------------------------------------------------------

ORDER = 20
ODD = [k % 2 for k in range(ORDER + 1)]
FACTORIAL = [math.factorial(k) for k in range(ORDER + 1)]


def binomial(a: float, k: int) -> float:
    return math.prod((a - i) / (i + 1) for i in range(k))


def tangent_numbers() -> list[float]:
    """The coefficients of the tangent, by the convolution that ``y' = 1 + y**2`` stands for."""
    y = [0.0]
    for k in range(ORDER):
        square = sum(y[j] * y[k - j] for j in range(k + 1))
        y.append(((k == 0) + square) / (k + 1))
    return y


def sign(k: int) -> int:
    return -1 if (k // 2) % 2 else 1


CLOSED: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "exp": (torch.exp, [1 / FACTORIAL[k] for k in range(ORDER + 1)]),
    "sin": (torch.sin, [ODD[k] * sign(k) / FACTORIAL[k] for k in range(ORDER + 1)]),
    "cos": (torch.cos, [(1 - ODD[k]) * sign(k) / FACTORIAL[k] for k in range(ORDER + 1)]),
    "sinh": (torch.sinh, [ODD[k] / FACTORIAL[k] for k in range(ORDER + 1)]),
    "cosh": (torch.cosh, [(1 - ODD[k]) / FACTORIAL[k] for k in range(ORDER + 1)]),
    "log1p": (torch.log1p, [0.0, *(-((-1) ** k) / k for k in range(1, ORDER + 1))]),
    "1/(1-x)": (lambda x: 1 / (1 - x), [1.0] * (ORDER + 1)),
    "sqrt(1+x)": (lambda x: torch.sqrt(1 + x), [binomial(0.5, k) for k in range(ORDER + 1)]),
    "rsqrt(1+x)": (lambda x: torch.rsqrt(1 + x), [binomial(-0.5, k) for k in range(ORDER + 1)]),
    "(1+x)**2.5": (lambda x: (1 + x) ** 2.5, [binomial(2.5, k) for k in range(ORDER + 1)]),
    "(1+x)**-3": (lambda x: (1 + x) ** -3, [binomial(-3, k) for k in range(ORDER + 1)]),
    "x**7": (lambda x: x**7, [float(k == 7) for k in range(ORDER + 1)]),
    "atan": (torch.atan, [0.0, *(ODD[k] * sign(k) / k for k in range(1, ORDER + 1))]),
    "atanh": (torch.atanh, [0.0, *(ODD[k] / k for k in range(1, ORDER + 1))]),
    "tan": (torch.tan, tangent_numbers()),
    "tanh": (torch.tanh, [sign(k) * c for k, c in enumerate(tangent_numbers())]),
    "erf": (
        torch.erf,
        [0.0, *(
            ODD[k] * 2 / math.sqrt(math.pi) * (-1) ** (k // 2) / (FACTORIAL[k // 2] * k)
            for k in range(1, ORDER + 1)
        )],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSED)
def test_series_at_zero_are_the_published_ones(name: str) -> None:
    f, expected = CLOSED[name]
    np.testing.assert_allclose(coefficients(f, 0.0, ORDER), expected, rtol=1e-12, atol=1e-15)


def test_series_against_mpmath() -> None:
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.dps = 30
    one = mpmath.mpf(1)
    functions: list[tuple[Any, Any, float]] = [
        (torch.lgamma, mpmath.loggamma, 2.5),
        (torch.digamma, mpmath.digamma, 1.5),
        (torch.sigmoid, lambda x: one / (1 + mpmath.exp(-x)), 0.3),
        (torch.asin, mpmath.asin, 0.2),
        (torch.acosh, mpmath.acosh, 2.0),
        (torch.asinh, mpmath.asinh, 0.7),
        (F.softplus, lambda x: mpmath.log(1 + mpmath.exp(x)), 0.4),
        (F.gelu, lambda x: x * mpmath.ncdf(x), 0.6),
        (lambda x: x**x, lambda x: x**x, 1.3),
        (torch.log10, mpmath.log10, 2.0),
        (torch.expm1, mpmath.expm1, 0.5),
    ]
    for ours, theirs, at in functions:
        wanted = [float(c) for c in mpmath.taylor(theirs, mpmath.mpf(at), ORDER)]
        np.testing.assert_allclose(coefficients(ours, at, ORDER), wanted, rtol=1e-8, atol=1e-13)


def test_matrix_functions() -> None:
    """Along ``A + t B``, ``inv`` is a geometric series, and ``det`` a polynomial."""
    a = t64([[4.0, 1.0], [0.5, 3.0]])
    b = t64([[0.3, -0.2], [0.1, 0.4]])
    inverse = np.linalg.inv(a.numpy())
    step = -inverse @ b.numpy()
    found = taylor(torch.linalg.inv, a, b, 8)
    for k, c in enumerate(found):
        np.testing.assert_allclose(c, np.linalg.matrix_power(step, k) @ inverse, rtol=1e-12)
    ad, bd = np.linalg.det(a.numpy()), np.linalg.det(b.numpy())
    mixed = np.linalg.det(a.numpy() + b.numpy()) - ad - bd
    det = [c.item() for c in taylor(torch.linalg.det, a, b, 4)]
    np.testing.assert_allclose(det, [ad, mixed, bd, 0, 0], atol=1e-13)


# -- every operation ---------------------------------------------------------------------------


def check_sample(expression: str) -> str | None:
    """Compare the series of a sample along a line with ``jvp`` of the series of one order less,
    which gives each coefficient from the one before, and order 1 with ``jvp``."""
    arrays = variables(expression, "float64")
    names, others = list(arrays), tensors(fixed(expression))
    generator = np.random.default_rng(0)
    x = tuple(tensors(arrays).values())
    v = tuple(
        torch.from_numpy(np.asarray(generator.uniform(-1, 1, a.shape))) for a in arrays.values()
    )

    def f(values: Any) -> Any:
        torch.manual_seed(0)
        found = run(expression, {**others, **dict(zip(names, values, strict=True))})
        return [y for y in found if y.is_floating_point() or y.is_complex()]

    try:
        if not f(tuple(a.clone() for a in x)):
            return None
        _, first = jvp(f, (x,), (v,))
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
        return None  # refused without series, too
    try:
        series = taylor(f, x, v, 4)
    except torch.linalg.LinAlgError:
        return None  # a high derivative at a singular matrix
    except RuntimeError as error:  # of what PyTorch has no second or third derivative, nor have we
        if "is not implemented" not in str(error):
            raise
        return None
    for a, b in zip(series[1], first, strict=True):
        if not close(a, b):
            return f"order 1: {as_array(a).tolist()}, jvp gives {as_array(b).tolist()}"
    _, moved = jvp(lambda a: taylor(f, a, v, 3), (x,), (v,))
    for k, (found, wanted) in enumerate(zip(series[1:], moved, strict=True), start=1):
        for a, b in zip(found, wanted, strict=True):
            if not close(k * a, b):
                return f"order {k}: {as_array(k * a).tolist()}, jvp gives {as_array(b).tolist()}"
    return None


def close(a: Any, b: Any) -> bool:
    a, b = as_array(a), as_array(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    finite = np.isfinite(b)  # at singular points the tangent of a series may not be
    scale = np.abs(b[finite]).max(initial=1.0)
    return np.allclose(a[finite], b[finite], rtol=1e-6, atol=1e-6 * scale)


def is_finite(expression: str) -> bool:
    """Of infinities and NaN, recurrences and nested tangents make NaN in different orders."""
    return all(np.isfinite(a).all() for a in variables(expression, "float64").values())


COMPARED = [
    e for e in SAMPLES
    if variables(e, "float64") and is_finite(e) and not reason("NO_TANGENT", e)
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # of the samples, which test_ops.py knows
@pytest.mark.parametrize("start", range(8))
def test_series_of_samples(start: int) -> None:
    failed = [f"{e}: {why}" for e in COMPARED[start::200] if (why := check_sample(e))]
    assert not failed, "\n".join(failed)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", [
    *[pytest.param(n, marks=pytest.mark.long) for n in range(8, 32)],
    *[pytest.param(n, marks=pytest.mark.exhaustive) for n in range(32, 200)],
])  # fmt: skip
def test_series_of_more_samples(start: int) -> None:
    failed = [f"{e}: {why}" for e in COMPARED[start::200] if (why := check_sample(e))]
    assert not failed, "\n".join(failed)


# -- nesting -----------------------------------------------------------------------------------

X, V = t64([0.3, 0.7, -0.2]), t64([1.0, -0.5, 2.0])


def smooth(x: Any) -> Any:
    return (x.sin() * x.exp()).sum() * torch.tanh(x[0] * x[1])


def test_series_nest_with_other_transforms() -> None:
    third = nested_jvp(smooth, X, V, 3) / 6
    np.testing.assert_allclose(taylor(smooth, X, V, 3)[3], third)
    wanted = grad(lambda x: nested_jvp(smooth, x, V, 3) / 6)(X)
    np.testing.assert_allclose(grad(lambda x: taylor(smooth, x, V, 3)[3])(X), wanted)
    leaf = X.clone().requires_grad_()
    taylor(smooth, leaf, V, 3)[3].backward()
    np.testing.assert_allclose(leaf.grad, wanted)
    np.testing.assert_allclose(
        taylor(grad(smooth), X, V, 2)[2], nested_jvp(grad(smooth), X, V, 2) / 2
    )
    batch = torch.stack([X, 2 * X])
    np.testing.assert_allclose(
        vmap(lambda x: taylor(smooth, x, V, 3)[3])(batch),
        torch.stack([taylor(smooth, x, V, 3)[3] for x in batch]),
    )
    inner = taylor(lambda x: taylor(smooth, x, V, 2)[2], X, V, 2)[2]
    np.testing.assert_allclose(inner, 6 * taylor(smooth, X, V, 4)[4])


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x * x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * g * x * x


def test_custom_functions_are_expanded_by_their_backward() -> None:
    found = taylor(lambda x: Cube.apply(x).sin().sum(), X, V, 6)
    wanted = taylor(lambda x: (x**3).sin().sum(), X, V, 6)
    np.testing.assert_allclose(torch.stack(found), torch.stack(wanted), rtol=1e-12)


def test_writes_in_place() -> None:
    def written(x: Any) -> Any:
        z = torch.zeros(3, dtype=float64)
        z[0] = x[0]
        z[1] = x[1] * x[0]
        z[1:].mul_(x[2])
        return z.exp().sum()

    def functional(x: Any) -> Any:
        return torch.exp(x[0]) + torch.exp(x[0] * x[1] * x[2]) + 1

    found, wanted = taylor(written, X, V, 5), taylor(functional, X, V, 5)
    np.testing.assert_allclose(torch.stack(found), torch.stack(wanted), rtol=1e-12)
    np.testing.assert_allclose(laplacian(written)(X), laplacian(functional)(X))


def test_jet_takes_curves_in_derivatives_as_jax_does() -> None:
    """``f2 = d2f[h1, h1] + df[h2]``, for each argument of its own."""
    a, b = t64(0.5), t64(2.0)
    value, (first, second) = jet(
        lambda a, b: a * a * b, (a, b), ([t64(1.0), t64(3.0)], [t64(-1.0)])
    )
    assert value.item() == 0.5
    assert first.item() == 2 * 0.5 * 2 - 0.25
    # d2/dt2 of (0.5 + t + 1.5 t^2)^2 (2 - t): 2 * [t^2] of it
    assert second.item() == pytest.approx(2 * (2 * (1 + 2 * 0.5 * 1.5) - 1.0))


JAX_PROGRAM = """
import json
import jax
import jax.numpy as jnp
from jax.experimental.jet import jet

jax.config.update("jax_enable_x64", True)
value, series = jet(
    lambda x: jnp.tanh(jnp.sin(x) * jnp.exp(x)), (0.4,), ([1.0, -0.5, 0.25, 2.0],)
)
print(json.dumps([float(value), *map(float, series)]))
"""


def test_jet_against_jax() -> None:
    """In a process of its own, since JAX has threads that must not be forked."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    done = subprocess.run(
        [sys.executable, "-c", JAX_PROGRAM], capture_output=True, text=True, check=True
    )
    terms = [t64(c) for c in (1.0, -0.5, 0.25, 2.0)]
    value, found = jet(lambda x: torch.tanh(torch.sin(x) * torch.exp(x)), (t64(0.4),), (terms,))
    np.testing.assert_allclose([value.item(), *[c.item() for c in found]], json.loads(done.stdout))


# -- sums over directions ------------------------------------------------------------------------


def network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 8), torch.nn.GELU(), torch.nn.Linear(8, 8), torch.nn.SiLU(),
        torch.nn.LayerNorm(8), torch.nn.Softmax(-1), torch.nn.Linear(8, 1),
    ).double()  # fmt: skip


def test_laplacian_is_the_trace_of_the_hessian() -> None:
    model = network()
    trace = hessian(lambda x: model(x)[0])(X).trace()
    np.testing.assert_allclose(laplacian(model)(X).detach(), [trace.item()], rtol=1e-10)
    laplacian(model)(X).sum().backward()
    found = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    hessian(lambda x: model(x)[0])(X).trace().backward()
    wanted = [p.grad for p in model.parameters() if p.grad is not None]
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    np.testing.assert_allclose(
        vmap(laplacian(smooth))(torch.stack([X, -X])),
        torch.stack([laplacian(smooth)(X), laplacian(smooth)(-X)]),
    )
    np.testing.assert_allclose(jacrev(laplacian(lambda x: x**3))(X), 6 * torch.eye(3))


def _matrix(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(2, 2) + 2 * torch.eye(2, dtype=float64)


# Some of these have no rule that sums over the directions early.
MATRIX_FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "inv": lambda x: torch.linalg.inv(_matrix(x)),
    "det": lambda x: torch.linalg.det(_matrix(x)),
    "solve": lambda x: torch.linalg.solve(_matrix(x), x[:2]),
    "cholesky": lambda x: torch.linalg.cholesky(_matrix(x) @ _matrix(x).T),
    "qr": lambda x: torch.linalg.qr(_matrix(x))[1],
    "eigvalsh": lambda x: torch.linalg.eigvalsh(_matrix(x) @ _matrix(x).T),
    "matrix_exp": lambda x: torch.linalg.matrix_exp(_matrix(x)),
    "cumprod": lambda x: x.cumprod(0) * torch.linalg.det(_matrix(x)),
    "logcumsumexp": lambda x: x.logcumsumexp(0),
    "cross": lambda x: torch.linalg.cross(x[:3], x[1:] * x[0]),
}


@pytest.mark.parametrize("name", MATRIX_FUNCTIONS)
def test_laplacian_of_matrix_functions(name: str) -> None:
    f = MATRIX_FUNCTIONS[name]
    x = t64([0.7, 1.2, 0.4, 0.9])
    trace = hessian(f)(x).diagonal(dim1=-2, dim2=-1).sum(-1)
    np.testing.assert_allclose(laplacian(f)(x), trace, rtol=1e-9, atol=1e-12)
    fourth = bilaplacian(f)(x)
    assert fourth.shape == f(x).shape
    np.testing.assert_allclose(fourth, laplacian(laplacian(f))(x), rtol=1e-6, atol=1e-9)


CURVES: dict[str, Any] = {
    "exp": torch.exp, "sin": torch.sin, "log": torch.log, "sqrt": torch.sqrt, "relu": torch.relu,
    "gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu, "abs": abs,
    "softplus": torch.nn.functional.softplus, "clamp": lambda x: x.clamp(0.5, 1.0),
    "power": lambda x: x**2.5, "reciprocal": lambda x: 1 / x, "lgamma": torch.lgamma,
    "powers": lambda x: torch.pow(x, t64([[1.0], [2.0], [3.5]])),
    "bases": lambda x: torch.pow(t64([[1.0], [2.0], [3.5]]), x), "two moving": torch.hypot,
}  # fmt: skip


@pytest.mark.parametrize("name", CURVES)
def test_laplacian_of_elementwise_functions(name: str) -> None:
    f = CURVES[name]
    weights = t64([[0.3, 0.1, 0.5], [0.2, 0.9, 0.4], [0.7, 0.6, 0.8]])

    def function(x: Any) -> Any:
        y = f(x @ weights, x) if name == "two moving" else f(x @ weights)
        return (y * x + y.sin()).sum()

    x = t64([0.3, 0.9, 1.4])
    trace = lambda x: torch.func.hessian(function)(x).trace()
    np.testing.assert_allclose(laplacian(function)(x), trace(x), rtol=1e-10)
    np.testing.assert_allclose(grad(laplacian(function))(x), grad(trace)(x), rtol=1e-9)
    compiled = torch.compile(vmap(laplacian(function)))
    np.testing.assert_allclose(compiled(torch.stack([x, 2 * x]))[1], trace(2 * x), rtol=1e-10)


W = torch.linspace(-1.0, 1.0, 15, dtype=float64).reshape(3, 5)


def _in_place(x: torch.Tensor) -> torch.Tensor:
    y = (x @ W).sin()
    rows = y.reshape(5, 1)
    first = y[0]
    y[1:3].mul_(x[0])
    y.add_(1)
    return (y * rows[:, 0]).sum() * first


# What collapsed series do by parts, and what they leave to the general path in between.
COLLAPSED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "linear": lambda x: torch.nn.functional.linear(x.tanh(), W.T, W[0]).sin().sum(),
    "sums": lambda x: ((x @ W + W[1] - 2) / 3 - (1 - x[0])).cos().sum() - x.sum(),
    "products": lambda x: (-(x @ W) * (x * x).sum() * W[2]).sigmoid().sum(),
    "broadcast": lambda x: (x.exp()[:, None] * x.sin()[None] * W[:, :3]).sum(),
    "wider constants": lambda x: (x.sin() * W[:, :3]).exp().sum(),
    "joined": lambda x: (torch.cat([x.tanh(), (x @ W).exp()]) ** 2).sum(),
    "stacked": lambda x: (torch.stack([x.tanh(), x]).T @ torch.stack([x, x.sin()])).sum(),
    "shifted": lambda x: torch.nn.functional.pad(x.sin(), (1, 1), value=2.0).prod(),
    "index_add": lambda x: W[:, 0].index_add(0, torch.tensor([1, 2]), x[:2].exp()).exp().sum(),
    "shapes": lambda x: (x.tanh().reshape(3, 1).expand(3, 2).T.flip(0) @ x).square().sum(),
    "no derivative": lambda x: (x.detach() @ W).sum() * x.sin().sum() + (x.sin() > 0).sum(),
    "chosen": lambda x: torch.where(x > 0.5, x.sin(), x.exp()).sum() * x.amax().tanh(),
    "in place": _in_place,
    "complex numbers": lambda x: ((1j * x).exp() * (1 + 2j) / (x + 3j)).abs().sum() * x.sin().sum(),
}


@pytest.mark.parametrize("name", COLLAPSED)
def test_laplacian_by_parts_is_the_trace_of_the_hessian(name: str) -> None:
    f = COLLAPSED[name]
    points = torch.stack([X, -X, 0.5 * X])
    wanted = torch.stack([hessian(f)(x).trace() for x in points])
    np.testing.assert_allclose(laplacian(f)(points[1]), wanted[1], rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(vmap(laplacian(f))(points), wanted, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(vmap(laplacian(f))(points[:1]), wanted[:1], rtol=1e-11, atol=1e-13)
    twice = vmap(vmap(laplacian(f)))(points[:2, None])
    np.testing.assert_allclose(twice[:, 0], wanted[:2], rtol=1e-11, atol=1e-13)
    directions, weights = t64([[1.0, 2.0, 0.0], [0.5, 0.0, -1.0]]), t64([0.3, -2.0])
    summed = vmap(weighted_directional(f, directions, 2, weights))(points)
    wanted = [(weights * (directions @ hessian(f)(x) @ directions.T).diagonal()).sum()
              for x in points]  # fmt: skip
    np.testing.assert_allclose(summed, wanted, rtol=1e-11, atol=1e-13)


def test_laplacian_with_what_differs_from_point_to_point() -> None:
    points, scales = torch.stack([X, -X]), t64([[2.0], [0.5]])
    matrices = torch.stack([W, 2 * W])
    f = lambda x, s, m: ((x @ m) * s).sin().sum() * (x + s).exp().sum()
    at = lambda x, s, m: laplacian(lambda x: f(x, s, m))(x)
    wanted = [
        hessian(lambda x, s=s, m=m: f(x, s, m))(x).trace()
        for x, s, m in zip(points, scales, matrices, strict=True)
    ]
    np.testing.assert_allclose(vmap(at)(points, scales, matrices), wanted, rtol=1e-11)
    alone = lambda s: laplacian(lambda x: f(x, s, W))(X)  # the point is the same for all
    found = vmap(alone)(scales)
    np.testing.assert_allclose(found, [alone(s) for s in scales], rtol=1e-11)


def test_gradient_of_a_laplacian_at_points_by_weights() -> None:
    weights = W.clone().requires_grad_()
    f = lambda x: (x @ weights).tanh().sin().sum()
    points = torch.stack([X, -X, 0.5 * X])
    (found,) = torch.autograd.grad(vmap(laplacian(f))(points).square().sum(), weights)
    dense = torch.stack([hessian(f)(x).trace() for x in points]).square().sum()
    (wanted,) = torch.autograd.grad(dense, weights)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_stochastic_laplacian() -> None:
    """Exact where the Hessian is diagonal, and unbiased elsewhere."""
    np.testing.assert_allclose(laplacian(lambda x: (x**4).sum(), samples=2)(X), 12 * (X**2).sum())
    torch.manual_seed(0)
    a = torch.randn(6, 6, dtype=float64)
    found = laplacian(lambda x: x @ a @ x, samples=4000)(torch.zeros(6, dtype=float64))
    spread = 2 * math.sqrt(float(((a + a.T) ** 2).sum()) / 4000)
    assert abs(found - 2 * a.trace()) < 4 * spread
    points = torch.stack([X, 2 * X])
    for randomness in ("same", "different"):
        estimate = vmap(laplacian(lambda x: (x**4).sum(), samples=2), randomness=randomness)
        np.testing.assert_allclose(estimate(points), 12 * (points**2).sum(1), rtol=1e-12)
        each = vmap(laplacian(lambda x: x[0] * x[1], samples=1), randomness=randomness)
        found = each(torch.zeros(40, 3, dtype=float64))
        assert found.abs().eq(2).all()
        assert (found.std() > 0) == (randomness == "different")


def test_fourth_order_operators() -> None:
    def trace(f: Any) -> Any:
        return lambda x: hessian(f)(x).trace()

    np.testing.assert_allclose(bilaplacian(smooth)(X), trace(trace(smooth))(X), rtol=1e-9)
    one = t64([0.4])
    np.testing.assert_allclose(bilaplacian(lambda x: x.sin().sum())(one), one.sin()[0])

    def partial(f: Any, i: int) -> Any:
        return lambda x: grad(f)(x)[i]

    wanted = partial(partial(partial(partial(smooth, 0), 0), 1), 2)(X)
    np.testing.assert_allclose(mixed_partial(smooth, X, (2, 1, 1)), wanted, rtol=1e-9)
    np.testing.assert_allclose(mixed_partial(smooth, X, (0, 0, 0)), smooth(X))
    directions, weights = torch.stack([X, V]), t64([2.0, -1.0])
    summed = weighted_directional(smooth, directions, 3, weights)(X)
    each = [6 * taylor(smooth, X, v, 3)[3] for v in directions]
    np.testing.assert_allclose(summed, 2 * each[0] - each[1])
    first = weighted_directional(smooth, directions, 1, weights)(X)
    np.testing.assert_allclose(first, grad(smooth)(X) @ (2 * X - V))


# -- cost and range --------------------------------------------------------------------------


def test_the_cost_grows_with_the_square_of_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    multiply = Call.term

    def counted(self: Any, *args: Any) -> Any:
        counts[-1] += 1
        return multiply(self, *args)

    monkeypatch.setattr(Call, "term", counted)
    f = lambda x: torch.tanh(x.sin() / (1 + x * x)).exp()
    for order in (10, 20, 40):
        counts.append(0)
        taylor(f, t64(0.3), t64(1.0), order)
    assert counts[1] / counts[0] < 4.1
    assert counts[2] / counts[1] < 4.1


def test_order_thirty_does_not_overflow() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    found = taylor(model, torch.randn(4), torch.randn(4), 30)
    assert all(torch.isfinite(c).all() for c in found)
    sines = derivatives(torch.sin, t64(0.5), 30)
    for k, y in enumerate(sines):
        assert y.item() == pytest.approx(math.sin(0.5 + k * math.pi / 2), abs=1e-10)


# -- differential equations --------------------------------------------------------------------


def test_odeint_taylor() -> None:
    t = torch.linspace(0, 10, 7, dtype=float64)
    y = odeint_taylor(lambda t, y: torch.stack([y[1], -y[0]]), t64([1.0, 0.0]), t)
    np.testing.assert_allclose(y[:, 0], t.cos(), atol=1e-9)
    back = odeint_taylor(lambda t, y: t**2 + 0 * y, t64([1.0]), t64([1.0, 0.0]))
    np.testing.assert_allclose(back[-1], [2 / 3])


def test_the_solution_is_differentiable() -> None:
    """``y' = -k y``: ``dy/dk = -t exp(-k t) y0`` and ``dy/dy0 = exp(-k t)``."""
    k, y0 = t64(0.7).requires_grad_(), t64([2.0]).requires_grad_()
    y = odeint_taylor(lambda t, y: -k * y, y0, t64([0.0, 1.5]))
    y[-1, 0].backward()
    decay = math.exp(-0.7 * 1.5)
    assert k.grad.item() == pytest.approx(-1.5 * decay * 2, rel=1e-8)
    assert y0.grad.item() == pytest.approx(decay, rel=1e-8)


def test_a_singularity_is_named() -> None:
    blow_up = lambda t, y: y * y
    assert odeint_taylor(blow_up, t64([1.0]), t64([0.0, 0.9]))[-1].item() == pytest.approx(10)
    with pytest.raises(RuntimeError, match="too small at t = 1, where the solution may"):
        odeint_taylor(blow_up, t64([1.0]), t64([0.0, 1.1]))
    with pytest.raises(ValueError, match="must return a Tensor of the shape of y0"):
        odeint_taylor(lambda t, y: y[0], t64([1.0]), t64([0.0, 1.0]))
    with pytest.raises(ValueError, match="increasing or decreasing"):
        odeint_taylor(blow_up, t64([1.0]), t64([0.0, 1.0, 0.5]))
    with pytest.raises(RuntimeError, match="written in place"):
        odeint_taylor(lambda t, y: (y * 2).mul_(y), t64([1.0]), t64([0.0, 0.1]))


# -- bad input -----------------------------------------------------------------------------------


def test_errors() -> None:
    with pytest.raises(TypeError, match=r"dtype torch\.int64, which has no derivatives"):
        taylor(torch.sin, torch.tensor(1), torch.tensor(1), 2)
    with pytest.raises(TypeError, match=r"direction torch\.float32"):
        taylor(torch.sin, t64(1.0), torch.tensor(1.0), 2)
    with pytest.raises(ValueError, match=r"must be a Tensor of shape \[3\]"):
        taylor(torch.sin, X, t64(1.0), 2)
    with pytest.raises(ValueError, match="order of at least 0, got -1"):
        taylor(torch.sin, X, V, -1)
    with pytest.raises(ValueError, match="structure"):
        taylor(lambda x: x["a"], {"a": X}, {"b": V}, 2)
    with pytest.raises(ValueError, match="2 primals but 1 series"):
        jet(torch.add, (X, X), ([V],))
    with pytest.raises(ValueError, match="nothing to differentiate by"):
        jet(torch.sin, (X,), ([],))
    with pytest.raises(RuntimeError, match="unsupported type <class 'int'>"):
        taylor(lambda x: 3, X, V, 2)
    with pytest.raises(ValueError, match="do not fit an argument of shape"):
        weighted_directional(smooth, torch.eye(2, dtype=float64), 2)(X)
    with pytest.raises(ValueError, match="one weight for each of 3 directions"):
        weighted_directional(smooth, torch.eye(3, dtype=float64), 2, V[:2])(X)


def test_what_does_not_depend_on_the_point_has_zero_coefficients() -> None:
    found = taylor(lambda x: (t64(2.0), x.detach().sum(), x[:0].sum()), X, V, 2)
    assert found[0][0].item() == 2
    assert [y.item() for y in found[1]] == [0, 0, 0]
    assert laplacian(lambda x: x.sum())(t64([]).reshape(0)).item() == 0


def test_powers_at_zero() -> None:
    """Orders below the exponent are zero, and the one above it is infinite."""
    found = [c.item() for c in taylor(lambda x: x**2.5, t64(0.0), t64(1.0), 3)]
    assert found == [0, 0, 0, math.inf]
