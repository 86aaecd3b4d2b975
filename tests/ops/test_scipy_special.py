"""Functions of scipy.special that PyTorch does not have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

import retrograd as torch
from retrograd._scipy_special import FUNCTIONS
from retrograd.func import grad, jvp, vmap

X = [0.3, 0.7, 1.6, 2.4]
UNIT = [0.15, 0.4, 0.6, 0.85]
# The arguments of each function: lists of numbers for those that have a derivative.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "airy": ([-1.3, 0.0, 0.4, 2.0],), "beta": (X, UNIT), "betainc": (1.5, 2.5, UNIT),
    "betaincc": (1.5, 2.5, UNIT), "betaincinv": (1.5, 2.5, UNIT), "betaln": (X, UNIT),
    "binom": ([3.3, 4.4, 5.2, 6.1], X), "boxcox": (X, 0.5), "boxcox1p": (X, 0.5), "cbrt": (X,),
    "chdtr": (3.0, X), "chdtrc": (3.0, X), "cosdg": (X,), "cosm1": (X,), "cotdg": ([10.0, 50.0],),
    "dawsn": ([-1.0, 0.0, 0.5, 3.0],), "ellipe": ([-0.5, 0.0, 0.4, 0.9],),
    "ellipeinc": (X, 0.3), "ellipk": ([-0.5, 0.0, 0.4, 0.9],), "ellipkinc": (X, 0.3),
    "erfcinv": (UNIT,), "erfi": (X,), "eval_chebyt": (3.0, UNIT), "eval_chebyu": (4.0, UNIT),
    "eval_gegenbauer": (3.0, 1.5, UNIT), "eval_genlaguerre": (3.0, 1.5, UNIT),
    "eval_jacobi": (3.0, 0.5, 1.5, UNIT), "eval_laguerre": (3.0, UNIT),
    "eval_legendre": (0.0, UNIT), "exp1": (X,), "exp10": (UNIT,), "expi": (X,), "expn": (1.0, X),
    "exprel": ([-1.0, 0.0, 0.5, 2.0],), "fresnel": ([-1.0, 0.0, 0.5, 1.5],), "gamma": (X,),
    "gammainccinv": (1.5, UNIT), "gammaincinv": (1.5, UNIT), "huber": ([1.0, 1.2], [0.5, -3.0]),
    "hyp0f1": (1.5, X), "hyp1f1": (1.5, 2.5, X), "hyp2f1": (0.5, 1.5, 2.5, [-1.0, 0.0, 0.3, 0.8]),
    "hyperu": (1.5, 0.5, X), "inv_boxcox": (X, 0.5), "inv_boxcox1p": (X, 0.5),
    "iv": (1.5, X), "ive": (1.5, X), "jv": (0.0, [0.0, 0.5, 2.0]), "kl_div": (X, UNIT),
    "kv": (1.5, X), "kve": (1.5, X), "lambertw": ([-0.2, 0.0, 0.5, 3.0],), "log_expit": (X,),
    "modstruve": (1.5, X), "ndtri_exp": ([-3.0, -1.0, -0.2],), "owens_t": (X, UNIT),
    "poch": (X, UNIT), "powm1": (X, UNIT), "pseudo_huber": (X, UNIT), "rel_entr": (X, UNIT),
    "rgamma": (X,), "shichi": ([0.3, 0.9, 2.0],), "sici": ([0.3, 0.9, 2.0],), "sindg": (X,),
    "spence": ([0.2, 1.0, 1.5, 3.0],), "stdtr": (3.0, [-1.0, 0.0, 2.0]), "struve": (1.5, X),
    "tandg": (X,), "wrightomega": ([-1.0, 0.0, 2.0],), "yv": (1.5, X),
}  # fmt: skip


def tensors(args: tuple[Any, ...], **options: Any) -> list[Any]:
    return [
        torch.tensor(a, dtype=torch.float64, **options) if isinstance(a, list) else a for a in args
    ]


def test_nothing_is_left_out() -> None:
    assert set(ARGUMENTS) == set(FUNCTIONS)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_values_and_derivatives(name: str) -> None:
    args = ARGUMENTS[name]
    ours, theirs = getattr(torch.special, name), getattr(scipy.special, name)
    found, expected = ours(*tensors(args)), theirs(*[np.asarray(a) for a in args])
    for a, b in zip(*[x if type(x) is tuple else (x,) for x in (found, expected)], strict=True):
        np.testing.assert_array_equal(a.numpy(), np.real(b))
    moving = [i for i, a in enumerate(args) if isinstance(a, list)]

    def function(*some: Any) -> Any:
        given = list(args)
        for i, x in zip(moving, some, strict=True):
            given[i] = x
        return ours(*given)

    inputs = tensors(tuple(args[i] for i in moving), requires_grad=True)
    assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True)
    if name != "huber":  # of which the second derivative is piecewise constant
        assert torch.autograd.gradgradcheck(function, inputs)


# At points where formulas in closed form are 0 / 0: the function as mpmath has it.
AT_REMOVABLE_POINTS = {
    "ellipk": (lambda mp, m: mp.ellipk(m), 0.0), "ellipe": (lambda mp, m: mp.ellipe(m), 0.0),
    "spence": (lambda mp, z: mp.polylog(2, 1 - z), 1.0),
    "exprel": (lambda mp, x: mp.hyp1f1(1, 2, x), 0.0),
    "lambertw": (lambda mp, z: mp.lambertw(z), 0.0),
    "dawsn": (lambda mp, x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x), 0.0),
}  # fmt: skip


@pytest.mark.parametrize("name", AT_REMOVABLE_POINTS)
def test_orders_at_removable_singularities(name: str) -> None:
    mpmath = pytest.importorskip("mpmath", reason="it is the reference to compare with")
    function, at = AT_REMOVABLE_POINTS[name]
    ours = getattr(torch.special, name)
    with mpmath.workdps(40):
        slopes = mpmath.diffs(lambda x: function(mpmath, x), at, 4, h=mpmath.mpf(10) ** -8)
        expected = [float(mpmath.re(c)) for c in slopes]
    found = []
    for _ in range(5):
        found.append(float(ours(torch.tensor(at, dtype=torch.float64))))
        ours = grad(ours)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_scipys_functions_take_tensors() -> None:
    x = torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True)
    y = scipy.special.jv(1, x) + scipy.special.dawsn(x)
    (g,) = torch.autograd.grad(y.sum(), x)
    slope = scipy.special.jvp(1, x.detach().numpy()) + 1 - 2 * x.detach().numpy() * (
        scipy.special.dawsn(x.detach().numpy())
    )  # fmt: skip
    np.testing.assert_allclose(g, slope, rtol=1e-12)


def test_transforms_and_dtypes() -> None:
    x = torch.tensor([[0.5, 1.0], [1.5, 2.0]], dtype=torch.float64)
    v = torch.tensor([0.0, 1.0], dtype=torch.float64)
    batched = vmap(torch.special.jv, (0, 1))(v, x)
    np.testing.assert_array_equal(batched, scipy.special.jv(v.numpy()[:, None], x.numpy().T))
    tangent = jvp(lambda x: torch.special.kv(1, x), (x,), (x,))[1]
    np.testing.assert_allclose(tangent, scipy.special.kvp(1, x.numpy()) * x.numpy())
    assert torch.special.dawsn(torch.tensor([1.0])).dtype is torch.float32
    assert torch.special.jv(1, torch.tensor([1, 2])).dtype is torch.float32


def test_errors() -> None:
    v = torch.tensor(1.0, requires_grad=True)
    with pytest.raises(NotImplementedError, match="jv: there is no derivative by v"):
        torch.special.jv(v, torch.tensor(1.0)).backward()
    with pytest.raises(TypeError, match=r"jv\(\) takes v, z, got 1 arguments"):
        torch.special.jv(v)
    with pytest.raises(TypeError, match="must be a Tensor"):
        torch.special.dawsn(1.0)
    assert torch.special.lambertw(torch.tensor(-0.4)).isnan()


# Degrees are real numbers. SciPy has no values of some for negative integers.
POLYNOMIALS: dict[str, tuple[Any, ...]] = {
    "eval_legendre": (), "eval_chebyt": (), "eval_chebyu": (), "eval_laguerre": (),
    "eval_gegenbauer": (0.8,), "eval_genlaguerre": (0.4,), "eval_jacobi": (0.8, 0.3),
}  # fmt: skip


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_of_any_degree(name: str) -> None:
    degrees = [-3.3, -1.5, -0.5, 0.0, 0.3, 0.5, 0.7, 1.0, 2.0, 2.6]
    if not POLYNOMIALS[name] and name != "eval_laguerre":
        degrees += [-3.0, -2.0, -1.0]
    n = torch.tensor(degrees, dtype=torch.float64).reshape(-1, 1)
    x = torch.tensor([-0.7, 0.0, 0.2], dtype=torch.float64, requires_grad=True)
    function = lambda x: getattr(torch.special, name)(n, *POLYNOMIALS[name], x)
    assert torch.autograd.gradcheck(function, x)
    assert torch.autograd.gradgradcheck(function, x)


@pytest.mark.parametrize(
    ("name", "args", "first", "second"),
    [
        ("rgamma", ([0.0, -1.0, -2.0],), [1.0, -1.0, 2.0], None),
        ("betainc", (1.0, 2.5, [0.0]), [2.5], None),
        ("betaincc", (2.5, 1.0, [1.0]), [-2.5], None),
        ("chdtr", (2.0, [0.0]), [0.5], None),
        ("expn", (4.0, [0.0]), [-0.5], [1.0]),
        ("hyp2f1", (-1.0, 2.0, 3.0, [4.0]), [-2 / 3], [0.0]),
        ("powm1", (0.0, [2.0, 0.5]), [0.0, 0.0], [0.0, 0.0]),
        ("pseudo_huber", ([0.0, 1e8], 1.0), [1.0, 2.5e-25], [-2.0, -7.5e-33]),
    ],
)
def test_edges_of_domains(name: str, args: Any, first: Any, second: Any) -> None:
    (k,) = [i for i, a in enumerate(args) if isinstance(a, list)]
    given = tensors(args, requires_grad=True)
    (slope,) = torch.autograd.grad(getattr(torch.special, name)(*given).sum(), given[k],
                                   create_graph=True)  # fmt: skip
    np.testing.assert_allclose(slope.detach(), first, rtol=1e-12)
    if second is not None:
        (curvature,) = torch.autograd.grad(slope.sum(), given[k])
        np.testing.assert_allclose(curvature, second, rtol=1e-6)


@pytest.mark.parametrize("name", ["airy", "fresnel", "shichi", "sici"])
def test_several_results_of_large_and_of_half_tensors(name: str) -> None:
    x = torch.linspace(0.1, 3, 200_000, dtype=torch.float64)  # worked on by threads
    expected = getattr(scipy.special, name)(x.numpy())
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        results = getattr(torch.special, name)(x)
    finally:
        torch.set_num_threads(before)
    for found, theirs in zip(results, expected, strict=True):
        np.testing.assert_array_equal(found, theirs)
    for found, theirs in zip(getattr(torch.special, name)(x[:9].half()), expected, strict=True):
        assert found.dtype is torch.float16
        np.testing.assert_allclose(found.double(), theirs[:9], rtol=2e-3)
