"""The function transforms: their values, worked out by hand or by other means.

Every test runs with PyTorch too, where it is installed, which shows that it asks for what PyTorch
does. Where something goes beyond PyTorch the test says so.
"""

from __future__ import annotations

import math
import subprocess
import sys
import threading
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest
from _transform_programs import LIBRARIES, NEEDS_PYTORCH, assert_same, library_named, warnings_of

import retrograd
from retrograd import _modes

Torch = Any


@pytest.fixture(params=LIBRARIES)
def torch(request: pytest.FixtureRequest) -> Iterator[Torch]:
    library = library_named(request.param)
    with warnings_of(library):
        yield library


def test_the_names_are_where_pytorch_has_them() -> None:
    code = (
        "import retrograd as torch\n"
        "assert torch.func.grad(torch.sin)(torch.tensor(0.0)).item() == 1\n"
        "from retrograd.func import vmap, functional_call, stack_module_state, linearize\n"
        "import retrograd.autograd.forward_ad as fwAD\n"
        "assert torch.vmap is vmap and torch.autograd.forward_ad is fwAD\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- derivatives inside derivatives ----------------------------------------------------------


def derivative_by(torch: Torch, way: str) -> Callable[[Any], Any]:
    """An operator that takes a function of a number to its derivative."""
    func, one = torch.func, torch.tensor(1.0, dtype=torch.float64)
    return {
        "jvp": lambda f: lambda x: func.jvp(f, (x,), (one,))[1],
        "grad": func.grad,
        "vjp": lambda f: lambda x: func.vjp(f, x)[1](one)[0],
        "jacfwd": func.jacfwd,
        "jacrev": func.jacrev,
        "linearize": lambda f: lambda x: func.linearize(f, x)[1](one),
    }[way]


WAYS = ["jvp", "grad", "vjp", "jacfwd", "jacrev"]


@pytest.mark.parametrize("inner", WAYS)
@pytest.mark.parametrize("outer", WAYS)
class TestPerturbationConfusion:
    """What goes wrong when two derivatives cannot tell their infinitesimals apart."""

    def test_siskind_and_pearlmutter(self, torch: Torch, outer: str, inner: str) -> None:
        # d/dx (x * d/dy (x + y) at 1) at 1 is 1. Confused it is 2.
        D, d = derivative_by(torch, outer), derivative_by(torch, inner)
        one = torch.tensor(1.0, dtype=torch.float64)
        assert D(lambda x: x * d(lambda y: x + y)(one))(one).item() == 1

    def test_the_inner_derivative_is_the_outer_variable(
        self, torch: Torch, outer: str, inner: str
    ) -> None:
        # d/dx (x * d/dy (x * y)) = d/dx x**2
        D, d = derivative_by(torch, outer), derivative_by(torch, inner)
        x, two = (torch.tensor(v, dtype=torch.float64) for v in (3.0, 2.0))
        assert D(lambda x: x * d(lambda y: x * y)(two))(x).item() == 6

    def test_the_inner_point_is_the_outer_variable(
        self, torch: Torch, outer: str, inner: str
    ) -> None:
        # d/dx (d/dy (x * y**3) at y = x) = d/dx 3 x**3 = 9 x**2
        D, d = derivative_by(torch, outer), derivative_by(torch, inner)
        x = torch.tensor(2.0, dtype=torch.float64)
        assert D(lambda x: d(lambda y: x * y**3)(x))(x).item() == 36

    def test_a_derivative_of_a_function_of_functions(
        self, torch: Torch, outer: str, inner: str
    ) -> None:
        # Manzyuk et al.: the derivative, at u = 0, of the operator that shifts a function by u is
        # itself d/dx. Applied twice it gives the second derivative. Confused it gives zero.
        D, d = derivative_by(torch, outer), derivative_by(torch, inner)
        zero = torch.tensor(0.0, dtype=torch.float64)

        def shift(u: Any) -> Any:
            return lambda f: lambda x: f(x + u)

        def derived(operator: Any) -> Any:
            return lambda f: lambda x: operator(lambda u: shift(u)(f)(x))(zero)

        x = torch.tensor(0.7, dtype=torch.float64)
        second = derived(D)(derived(d)(torch.sin))(x)
        assert second.item() == pytest.approx(-math.sin(0.7), rel=1e-15)
        assert derived(D)(derived(d)(lambda x: x**3))(x).item() == pytest.approx(6 * 0.7, rel=1e-14)

    def test_a_function_made_inside_one_derivative_and_used_inside_another(
        self, torch: Torch, outer: str, inner: str
    ) -> None:
        # g, made while x is differentiated, is called while y is: d/dx d/dy (x y**2) = 2 y
        D, d = derivative_by(torch, outer), derivative_by(torch, inner)
        point = torch.tensor(5.0, dtype=torch.float64)

        def curried(x: Any) -> Any:
            return lambda y: x * y**2

        assert D(lambda x: d(curried(x))(point))(torch.ones_like(point)).item() == 10

    def test_the_inner_function_does_not_use_its_variable(
        self, torch: Torch, outer: str, inner: str
    ) -> None:
        D, d = derivative_by(torch, outer), derivative_by(torch, inner)
        x = torch.tensor(3.0, dtype=torch.float64)
        assert D(lambda x: d(lambda y: x * x)(x) + x)(x).item() == 1

    def test_three_deep(self, torch: Torch, outer: str, inner: str) -> None:
        # d/dx (x d/dy (x y d/dz (x y z**2) at z = y) at y = x), all by hand:
        # d/dz: 2 x y z -> 2 x y**2 at z = y; times x y: 2 x**2 y**3; d/dy: 6 x**2 y**2 -> 6 x**4;
        # times x: 6 x**5; d/dx: 30 x**4
        D, d = derivative_by(torch, outer), derivative_by(torch, inner)
        x = torch.tensor(2.0, dtype=torch.float64)
        assert (
            D(
                lambda x: x * d(lambda y: x * y * D(lambda z: x * y * z**2)(y))(x)
            )(x).item() == 480
        )  # fmt: skip


LINEARIZED = [(w, "linearize") for w in [*WAYS, "linearize"]] + [("linearize", w) for w in WAYS]


@pytest.mark.parametrize(("outer", "inner"), LINEARIZED)
def test_linearize_nests_too(outer: str, inner: str) -> None:
    """Beyond PyTorch, whose ``linearize`` does not work inside forward mode or vmap."""
    D, d = derivative_by(retrograd, outer), derivative_by(retrograd, inner)
    x = retrograd.tensor(2.0, dtype=retrograd.float64)
    assert D(lambda x: x * d(lambda y: x + y)(x))(x).item() == 1
    assert D(lambda x: d(lambda y: x * y**3)(x))(x).item() == 36


def test_detach_cuts_every_derivative(torch: Torch) -> None:
    grad, jvp = torch.func.grad, torch.func.jvp
    x, one = torch.tensor(3.0), torch.tensor(1.0)
    assert grad(lambda x: x.detach() * x)(x).item() == 3
    assert grad(grad(lambda x: x.detach() * x))(x).item() == 0
    assert jvp(lambda x: x.detach() * x, (x,), (one,))[1].item() == 3
    # x.detach() is a constant in the inner function and in the outer one
    assert grad(lambda x: x * grad(lambda y: x.detach() * y * y)(x))(x).item() == 36
    assert grad(lambda x: grad(lambda y: (x * y).detach() * y)(x))(x).item() == 0
    found = jvp(lambda x: jvp(lambda y: x.detach() * y * y, (x,), (one,))[1], (x,), (one,))
    assert [t.item() for t in found] == [18, 6]


def test_no_grad_outside_does_not_matter_and_inside_holds_for_reverse_mode(torch: Torch) -> None:
    func, x, one = torch.func, torch.tensor(3.0), torch.tensor(1.0)

    def f(x: Any) -> Any:
        with torch.no_grad():
            c = x**2
        return x - c

    assert func.grad(f)(x).item() == 1
    assert func.jacrev(f)(x).item() == 1
    assert func.jvp(f, (x,), (one,))[1].item() == -5  # no_grad does not stop tangents
    assert func.jacfwd(f)(x).item() == -5
    assert func.hessian(f)(x).item() == 0
    with torch.no_grad():
        assert func.grad(lambda x: x**2)(x).item() == 6
        assert func.grad(func.grad(lambda x: x**3))(x).item() == 18
        assert func.jvp(lambda x: x**2, (x,), (one,))[1].item() == 6
        assert not torch.is_grad_enabled()
    with torch.inference_mode():
        assert func.grad(lambda x: x**2)(x).item() == 6


def test_what_comes_out_is_plain(torch: Torch) -> None:
    func, x = torch.func, torch.tensor([1.0, 2.0])
    gradient, value = func.grad_and_value(lambda x: (x * x).sum())(x)
    for result in (
        gradient, value, func.jacrev(torch.sin)(x), func.jacfwd(torch.sin)(x),
        *func.jvp(torch.sin, (x,), (x,)), func.vmap(torch.sin)(x), func.vjp(torch.sin, x)[0],
        func.hessian(lambda x: (x**3).sum())(x),
    ):  # fmt: skip
        assert not result.requires_grad
        assert result.is_leaf
        assert result.grad_fn is None
    assert not x.requires_grad
    assert x.grad is None


def test_captured_tensors_that_require_grad_are_recorded(torch: Torch) -> None:
    func = torch.func
    w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = torch.arange(3.0)
    gradient = func.grad(lambda x: (w * x * x).sum())(x)
    assert gradient.requires_grad
    (gradient * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert w.grad.tolist() == [0, 20, 400]
    value, tangent = func.jvp(lambda x: (w * x * x).sum(), (x,), (torch.ones(3),))
    assert value.requires_grad
    assert torch.autograd.grad(tangent, w)[0].tolist() == [0, 2, 4]
    mapped = func.vmap(lambda a: a * w)(torch.ones(2, 3))
    assert torch.autograd.grad(mapped.sum(), w)[0].tolist() == [2, 2, 2]
    # an argument that requires grad itself: the result can be differentiated further
    outer = func.grad(lambda w: (w**3).sum())(w)
    assert torch.autograd.grad(outer.sum(), w)[0].tolist() == [6, 12, 18]


# -- tenth derivatives -----------------------------------------------------------------------


def rational_derivative(order: int, x: Fraction) -> Fraction:
    """A derivative of 1 / (1 + x**2), exactly: P(x) / (1 + x**2)**(order + 1)."""
    p = [Fraction(1)]  # coefficients of P, lowest power first
    for n in range(order):
        slope = [k * c for k, c in enumerate(p)][1:]
        new = [Fraction(0)] * (len(p) + 1)
        for k, c in enumerate(slope):  # P' (1 + x**2)
            new[k] += c
            new[k + 2] += c
        for k, c in enumerate(p):  # - 2 (n + 1) x P
            new[k + 1] -= 2 * (n + 1) * c
        p = new
    return sum((c * x**k for k, c in enumerate(p)), Fraction(0)) / (1 + x * x) ** (order + 1)


TENTH = [
    ("sin", lambda torch, x: torch.sin(x), -math.sin(0.5)),
    ("exp", lambda torch, x: torch.exp(x), math.exp(0.5)),
    ("x**7", lambda torch, x: x**7, 0.0),
    ("1/(1+x*x)", lambda torch, x: 1 / (1 + x * x), float(rational_derivative(10, Fraction(1, 2)))),
]
MODES = {"grad": ["grad"], "jvp": ["jvp"], "alternating": ["grad", "jvp"]}


def nested(torch: Torch, f: Any, ways: list[str], order: int) -> Any:
    for k in range(order):
        f = derivative_by(torch, ways[k % len(ways)])(f)
    return f


def test_the_closed_form_is_right() -> None:
    x = Fraction(1, 2)
    assert rational_derivative(1, x) == -2 * x / (1 + x * x) ** 2
    assert rational_derivative(2, x) == (6 * x * x - 2) / (1 + x * x) ** 3
    angle = math.atan2(1, 0.5)  # (-1)**n n! sin((n + 1) acot x) / (1 + x**2)**((n + 1) / 2)
    known = math.factorial(10) * math.sin(11 * angle) / 1.25**5.5
    assert float(rational_derivative(10, x)) == pytest.approx(known, rel=1e-13)


@pytest.mark.parametrize("ways", MODES)
@pytest.mark.parametrize(("name", "f", "exact"), TENTH, ids=[t[0] for t in TENTH])
def test_tenth_derivatives(name: str, f: Any, exact: float, ways: str) -> None:
    x = retrograd.tensor(0.5, dtype=retrograd.float64)
    found = nested(retrograd, lambda x: f(retrograd, x), MODES[ways], 10)(x).item()
    assert found == pytest.approx(exact, rel=1e-9, abs=1e-9 * (exact == 0))


@pytest.mark.parametrize("ways", MODES)
@pytest.mark.parametrize(("name", "f", "exact"), TENTH, ids=[t[0] for t in TENTH])
@NEEDS_PYTORCH
def test_derivatives_of_lower_order_are_pytorchs(
    name: str, f: Any, exact: float, ways: str
) -> None:
    torch = library_named("torch")
    with warnings_of(torch):
        for order in range(1, 6):
            theirs = nested(torch, lambda x: f(torch, x), MODES[ways], order)
            ours = nested(retrograd, lambda x: f(retrograd, x), MODES[ways], order)
            expected = theirs(torch.tensor(0.5, dtype=torch.float64)).item()
            found = ours(retrograd.tensor(0.5, dtype=retrograd.float64)).item()
            assert found == pytest.approx(expected, rel=1e-12)


def test_the_seventh_derivative_of_a_seventh_power_is_a_constant(torch: Torch) -> None:
    x = torch.tensor(0.5, dtype=torch.float64)
    for ways in MODES.values():
        found = nested(torch, lambda x: x**7, ways, 7)(x).item()
        assert found == pytest.approx(5040, rel=1e-12)


def test_many_levels_over_and_under_vmap(torch: Torch) -> None:
    vmap = torch.func.vmap
    points = torch.linspace(-1, 1, 5, dtype=torch.float64)
    sixth = -torch.sin(points)
    deep = nested(torch, torch.sin, ["grad"], 6)
    assert_same(vmap(deep)(points), sixth, 1e-13)
    assert_same(vmap(nested(torch, torch.sin, ["jvp"], 6))(points), sixth, 1e-13)
    mixed = nested(torch, torch.sin, ["grad", "jvp", "jacrev", "jacfwd", "vjp", "grad"], 6)
    assert_same(vmap(vmap(mixed))(points.reshape(5, 1)), sixth.reshape(5, 1), 1e-13)
    # three maps, a derivative between each two
    table = vmap(
        lambda x: torch.func.grad(
            lambda a: vmap(lambda y: torch.func.grad(
                lambda b: vmap(lambda z: a * b * b * z)(points).sum())(y))(points).sum()
        )(x)
    )(points)  # fmt: skip
    assert_same(table, torch.full((5,), 2 * float(points.sum()) ** 2, dtype=torch.float64), 1e-13)


# -- grad, vjp, jvp, linearize ---------------------------------------------------------------

Pair = namedtuple("Pair", ["left", "right"])


def test_trees_in_grad(torch: Torch) -> None:
    x = torch.tensor([1.0, 2.0])
    point = {"a": [x, (x * 2, {"b": x * 3})], "pair": Pair(x * 4, [x * 5])}

    def f(p: Any) -> Any:
        assert isinstance(p["pair"], Pair)
        inner = p["a"][1][1]["b"] * p["pair"].left
        return (p["a"][0] * p["a"][1][0] + inner * p["pair"].right[0]).sum()

    found = torch.func.grad(f)(point)
    assert isinstance(found["pair"], Pair)
    assert isinstance(found["a"][1], tuple)
    assert found["a"][0].tolist() == [2, 4]
    assert found["a"][1][0].tolist() == [1, 2]
    assert found["a"][1][1]["b"].tolist() == [20, 80]
    assert found["pair"].left.tolist() == [15, 60]
    assert found["pair"].right[0].tolist() == [12, 48]
    ordered = torch.func.grad(lambda d: (d["z"] * d["a"]).sum())(OrderedDict(z=x, a=x * 2))
    assert list(ordered) == ["z", "a"]
    assert isinstance(ordered, OrderedDict)


def test_argnums_and_keywords_of_grad(torch: Torch) -> None:
    x, y = torch.tensor(2.0), torch.tensor(3.0)

    def f(x: Any, y: Any, power: int = 2, *, scale: float = 1.0) -> Any:
        return scale * x**power * y

    grad = torch.func.grad
    assert grad(f)(x, y).item() == 12
    assert grad(f, argnums=1)(x, y).item() == 4
    assert grad(f, argnums=-2)(x, y).item() == 12
    assert [g.item() for g in grad(f, argnums=(1, 0))(x, y)] == [4, 12]
    assert [g.item() for g in grad(f, argnums=(0,))(x, y, 3, scale=2.0)] == [72]
    gradient, value = torch.func.grad_and_value(f, argnums=(0, 1))(x, y, scale=10.0)
    assert [g.item() for g in gradient] == [120, 40]
    assert value.item() == 120


def test_aux_of_grad(torch: Torch) -> None:
    x = torch.tensor([1.0, 2.0])

    def f(x: Any) -> Any:
        return (x**2).sum(), {"twice": x * 2, "pair": (x, [x])}

    gradient, aux = torch.func.grad(f, has_aux=True)(x)
    assert gradient.tolist() == [2, 4]
    assert aux["twice"].tolist() == [2, 4]
    assert aux["pair"][1][0].tolist() == [1, 2]
    assert not aux["twice"].requires_grad
    gradient, (value, aux) = torch.func.grad_and_value(f, has_aux=True)(x)
    assert value.item() == 5
    assert aux["twice"].tolist() == [2, 4]
    # an aux is a value of the level outside: it can be differentiated there
    outer = torch.func.grad(lambda x: torch.func.grad(f, has_aux=True)(x)[1]["twice"].sum())(x)
    assert outer.tolist() == [2, 2]


def test_grad_of_what_does_not_depend_on_the_input(torch: Torch) -> None:
    x = torch.tensor([1.0, 2.0])
    assert torch.func.grad(lambda x: torch.tensor(3.0))(x).tolist() == [0, 0]
    found = torch.func.grad(lambda x, y: (x * 2).sum(), argnums=(0, 1))(x, x)
    assert [g.tolist() for g in found] == [[2, 2], [0, 0]]
    assert torch.func.vjp(lambda x: torch.ones(2), x)[1](x)[0].tolist() == [0, 0]
    value, tangent = torch.func.jvp(lambda x: torch.tensor(3.0), (x,), (x,))
    assert (value.item(), tangent.item()) == (3, 0)


def test_vjp(torch: Torch) -> None:
    a, b = torch.arange(6.0).reshape(2, 3), torch.arange(6.0).reshape(3, 2)
    value, pull = torch.func.vjp(torch.matmul, a, b)
    assert_same(value, a @ b, 0)
    g = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    for _ in range(2):  # as often as wanted
        found = pull(g)
        assert isinstance(found, tuple)
        assert_same(found[0], g @ b.mT, 0)
        assert_same(found[1], a.mT @ g, 0)
    x = torch.tensor([1.0, 2.0])
    value, pull = torch.func.vjp(lambda x: {"s": x**2, "t": [x.sum()]}, x)
    found = pull({"s": torch.ones(2), "t": [torch.tensor(10.0)]})
    assert found[0].tolist() == [12, 14]
    value, pull, aux = torch.func.vjp(lambda x: (x**2, x * 5), x, has_aux=True)
    assert aux.tolist() == [5, 10]
    assert pull(x)[0].tolist() == [2, 8]
    rows = torch.func.vmap(pull)(torch.eye(2))[0]
    assert rows.tolist() == [[2, 0], [0, 4]]


def test_jvp(torch: Torch) -> None:
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    value, tangent = torch.func.jvp(lambda x, y: x * y, (x, y), (torch.ones(2), torch.ones(2)))
    assert value.tolist() == [3, 8]
    assert tangent.tolist() == [4, 6]
    tree = ({"a": x, "b": [y]},)
    moved = ({"a": torch.ones(2), "b": [torch.zeros(2)]},)
    value, tangent = torch.func.jvp(lambda d: Pair(d["a"] ** 2, (d["b"][0],)), tree, moved)
    assert isinstance(tangent, Pair)
    assert tangent.left.tolist() == [2, 4]
    assert tangent.right[0].tolist() == [0, 0]
    value, tangent, aux = torch.func.jvp(lambda x: (x**2, x * 7), (x,), (x,), has_aux=True)
    assert tangent.tolist() == [2, 8]
    assert aux.tolist() == [7, 14]
    assert torch.func.jvp(torch.sin, (x,), (x,), strict=True)[1].tolist() == (x * x.cos()).tolist()
    basis = torch.func.vmap(lambda t: torch.func.jvp(lambda x: x**2, (x,), (t,))[1])(torch.eye(2))
    assert basis.tolist() == [[2, 0], [0, 4]]


def test_linearize(torch: Torch) -> None:
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    value, push = torch.func.linearize(lambda x, y: x**2 * y, x, y)
    assert value.tolist() == [3, 16]
    for scale in (1.0, 10.0):  # as often as wanted
        found = push(torch.ones(2) * scale, torch.zeros(2))
        assert found.tolist() == [6 * scale, 16 * scale]
    value, push = torch.func.linearize(lambda x: {"a": x.sin(), "b": (x.sum(),)}, x)
    found = push(torch.tensor([1.0, 0.0]))
    assert found["a"].tolist() == pytest.approx([math.cos(1), 0], rel=1e-6)
    assert found["b"][0].item() == 1


def test_linearize_under_vmap_and_of_trees() -> None:
    """Beyond PyTorch: what ``linearize`` gives can be mapped, and differentiated."""
    torch = retrograd
    xs = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    found = torch.func.vmap(lambda x: torch.func.linearize(lambda x: x**3, x)[1](x))(xs)
    assert found.tolist() == [[3, 24], [81, 192]]
    _, push = torch.func.linearize(lambda x: x**3, xs[0])
    assert torch.func.vmap(push)(torch.eye(2)).tolist() == [[3, 0], [0, 12]]
    assert torch.func.grad(lambda t: push(t).sum())(xs[0]).tolist() == [3, 12]
    _, push = torch.func.linearize(lambda d: d["a"] * d["b"], {"a": xs[0], "b": xs[1]})
    assert push({"a": torch.ones(2), "b": torch.zeros(2)}).tolist() == [3, 4]


def test_complex_gradients(torch: Torch) -> None:
    z = torch.tensor([3 + 4j], dtype=torch.complex128)
    found = torch.func.grad(lambda z: z.abs().sum())(z)
    assert_same(torch.view_as_real(found), [[0.6, 0.8]], 1e-15)
    _, tangent = torch.func.jvp(lambda z: z * z, (z,), (torch.ones_like(z) * 1j,))
    assert tangent.tolist() == [-8 + 6j]
    mapped = torch.func.vmap(torch.func.grad(lambda z: (z * z.conj()).real))(z.repeat(2))
    assert mapped.tolist() == [6 + 8j, 6 + 8j]


def test_functions_keep_their_names(torch: Torch) -> None:
    def my_loss(x: Any) -> Any:
        """What it does."""
        return x

    for transform in ("grad", "grad_and_value", "jacrev", "jacfwd", "vmap"):
        made = getattr(torch.func, transform)(my_loss)
        assert made.__name__ == "my_loss", transform
        assert made.__doc__ == "What it does.", transform


# -- threads and failures --------------------------------------------------------------------


def test_threads_do_not_disturb_each_other(torch: Torch) -> None:
    func = torch.func
    x = torch.linspace(0.1, 1, 4, dtype=torch.float64)
    work = {
        "forward": lambda: func.jacfwd(torch.sin)(x).diagonal() - x.cos(),
        "reverse": lambda: func.grad(lambda x: torch.exp(x).sum())(x) - x.exp(),
        "mapped": lambda: func.vmap(func.grad(func.grad(lambda x: x**3)))(x) - 6 * x,
        "plain": lambda: x.sin() - x.sin(),
    }
    failures: list[Any] = []
    start = threading.Barrier(len(work))

    def repeat(name: str, job: Any) -> None:
        try:
            start.wait()
            for _ in range(30):
                assert float(job().abs().max()) < 1e-12
        except BaseException as error:
            failures.append((name, error))

    with warnings_of(torch):
        threads = [threading.Thread(target=repeat, args=item) for item in work.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


class Stop(Exception):  # noqa: N818 - what a user's function raises
    pass


TRANSFORMS = {
    "grad": lambda func, f, x: func.grad(f)(x),
    "vjp": lambda func, f, x: func.vjp(f, x),
    "jvp": lambda func, f, x: func.jvp(f, (x,), (x,)),
    "jacrev": lambda func, f, x: func.jacrev(f)(x),
    "jacfwd": lambda func, f, x: func.jacfwd(f)(x),
    "hessian": lambda func, f, x: func.hessian(f)(x),
    "linearize": lambda func, f, x: func.linearize(f, x),
    "vmap": lambda func, f, x: func.vmap(f)(x),
    "vmap in chunks": lambda func, f, x: func.vmap(f, chunk_size=1)(x),
    "nested": lambda func, f, x: func.vmap(
        lambda x: func.jvp(func.grad(f), (x,), (x,)), randomness="same"
    )(x),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_an_exception_leaves_everything_as_it_was(transform: str) -> None:
    torch, x = retrograd, retrograd.tensor([1.0, 2.0])

    def f(x: Any) -> Any:
        x = x * 2
        raise Stop

    for mode in (torch.enable_grad, torch.no_grad):
        with mode():
            before = (torch.is_grad_enabled(), set(_modes.switch.active))
            with pytest.raises(Stop):
                TRANSFORMS[transform](torch.func, f, x)
            assert (torch.is_grad_enabled(), _modes.switch.active) == before
    assert not _modes.switch.active
    assert torch.func.grad(lambda x: (x * x).sum())(x).tolist() == [2, 4]
    assert torch.func.vmap(torch.neg)(x).tolist() == [-1, -2]


def test_a_failing_pull_back_leaves_everything_as_it_was() -> None:
    torch = retrograd
    _, pull = torch.func.vjp(torch.sin, torch.ones(2))
    with pytest.raises(RuntimeError):
        torch.func.vmap(pull)(torch.ones(2, 3))
    assert not _modes.switch.active
    assert pull(torch.ones(2))[0].tolist() == torch.ones(2).cos().tolist()
