"""What results of transforms lead to: what took part from outside of all transforms, and nothing
that a transform has made."""

from __future__ import annotations

import gc
import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
from _transform_programs import LIBRARIES, NEEDS_PYTORCH, library_named

import retrograd
from retrograd.autograd._node import Node, orders
from retrograd.autograd.graph import get_gradient_edge

# Functions of one number made of such functions.
TRANSFORMS: dict[str, Callable[[Any, Any, Any], Callable[[Any], Any]]] = {
    "grad": lambda func, f, v: func.grad(f),
    "grad_and_value": lambda func, f, v: lambda x: sum(func.grad_and_value(f)(x)),
    "aux": lambda func, f, v: lambda x: sum(
        func.grad(lambda y: (f(y), y * v), has_aux=True)(x)
    ),
    "vjp": lambda func, f, v: lambda x: func.vjp(f, x)[1](v)[0],
    "jvp": lambda func, f, v: lambda x: func.jvp(f, (x,), (v,))[1],
    "jacrev": lambda func, f, v: func.jacrev(f),
    "jacfwd": lambda func, f, v: func.jacfwd(f),
    "hessian": lambda func, f, v: func.hessian(f),
    "vmap": lambda func, f, v: lambda x: func.vmap(f)(x.expand(2)).sum(),
}  # fmt: skip
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit.script.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node"),  # of PyTorch's
]

FORWARD = {"jvp", "jacfwd", "hessian"}


def numbers(torch: Any, requires_grad: Any) -> list[Any]:
    values = (1.3, 0.7, 2.1)
    pairs = zip(values, requires_grad, strict=True)
    return [torch.tensor(x, dtype=torch.float64, requires_grad=bool(r)) for x, r in pairs]


def nested(torch: Any, transforms: tuple[str, ...], requires_grad: Any) -> Any:
    """Transforms inside each other, each of a function of its own variable and those around it."""
    x, c, v = numbers(torch, requires_grad)

    def inside(k: int, *outer: Any) -> Any:
        if k == len(transforms):
            product = c.sin()
            for power, y in enumerate(outer):
                product = product * y ** (power + 3)
            return product
        made = TRANSFORMS[transforms[k]](torch.func, lambda y: inside(k + 1, *outer, y), v)
        return made(x)

    return inside(0)


@NEEDS_PYTORCH
@pytest.mark.parametrize("first", TRANSFORMS)
@pytest.mark.parametrize("second", TRANSFORMS)
def test_results_require_grad_where_pytorchs_do(first: str, second: str) -> None:
    torch = library_named("torch")
    transforms: tuple[str, ...]
    for transforms in [(first, second), (first, second, "grad"), (first, "vmap", second)]:
        some = [(False, False, False), (False, True, False), (True, False, True)]
        every = list(itertools.product((False, True), repeat=3))
        for requires_grad in every if len(transforms) == 2 else some:
            expected = nested(torch, transforms, requires_grad)
            got = nested(retrograd, transforms, requires_grad)
            assert got.item() == pytest.approx(expected.item(), rel=1e-9), transforms
            if got.requires_grad != expected.requires_grad:
                # PyTorch's tangents have terms that are zero, and depend on what they are zero
                # times of. Ours have none, and no more than that may differ.
                assert expected.requires_grad, (transforms, requires_grad)
                assert FORWARD & set(transforms), (transforms, requires_grad)


@pytest.mark.parametrize("transforms", [
    *itertools.product(TRANSFORMS, repeat=2),
    *itertools.product(("grad", "vjp", "jacrev", "jvp", "vmap"), repeat=3),
], ids="-".join)  # fmt: skip
def test_results_have_no_history_where_nothing_outside_requires_grad(
    transforms: tuple[str, ...],
) -> None:
    assert not nested(retrograd, transforms, (False, False, False)).requires_grad
    # By the function that is innermost, ``c`` takes part in every result.
    result = nested(retrograd, transforms, (False, True, False))
    assert result.requires_grad
    leaves, to_visit, seen = set(), [result.grad_fn], set()
    while to_visit:
        node = to_visit.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        to_visit += node.next_nodes
        leaves |= {node.variable.item()} if hasattr(node, "variable") else set()
    assert 0.7 in leaves


PROGRAMS = {
    "what is captured by one of two gradients": (
        "func.grad(lambda a, b: a**2 + c * b, argnums=(0, 1))(x, v)"
    ),
    "a pull-back under a later transform": (
        "(lambda pull: func.grad(lambda w: pull(w**2)[0] ** 2)(v))"
        "(func.vjp(lambda y: y**3 * c, x)[1])"
    ),
    "a pull-back of a pull-back": (
        "func.vjp(lambda w: func.vjp(lambda y: y**3 * w * c, x)[1](v)[0], v)[1](v)"
    ),
    "one gradient inside another's function": (
        "func.grad(lambda w: (lambda a: func.grad(lambda y: a * y**2 * w)(x))"
        "(func.grad(lambda y: c * y**3)(x)))(v)"
    ),
    "aux": (
        "func.grad(lambda w: (lambda g, a: (g, (g, *a)))(*func.grad(lambda y: (y**3 * w, "
        "(y, y * c, c, y * 2, w, w * y)), has_aux=True)(x)), has_aux=True)(v)"
    ),
    "aux of a Jacobian": (
        "func.jacrev(lambda w: (lambda g, a: (g, (g, *a)))(*func.jacrev(lambda y: (y**3 * w, "
        "(y, y * c, c, y * 2, w, w * y)), has_aux=True)(x)), has_aux=True)(v)"
    ),
    "tangents by transposing twice": (
        "func.grad(lambda w: func.jvp(lambda y: torch.logcumsumexp(torch.stack([y, y * c]), 0)"
        ".sum(), (x,), (w,))[1])(v)"
    ),
    "what does not depend on the variable": (
        "func.grad(lambda w: func.grad(lambda y: y * 1.0)(x))(v)"
    ),
    "what is detached": "func.grad(lambda w: func.grad(lambda y: w.detach() * y**2)(x))(v)",
    "a module": (
        "func.grad(lambda w: func.grad(lambda y: func.functional_call(torch.nn.Bilinear(1, 1, 1, "
        "bias=False, dtype=torch.float64), {'weight': w.reshape(1, 1, 1) * c}, (y.reshape(1), "
        "y.reshape(1))).sum())(x))(v)"
    ),
    "a value": "func.vjp(lambda y: y**3 * c, x)[0]",
    "a linearization": "func.linearize(lambda y: y**3 * c, x)[1](v)",
    "autograd.functional": (
        "[getattr(torch.autograd.functional, name)(lambda y: y**3 * c, x, v, create_graph=graph) "
        "for name in ('jvp', 'vjp', 'hvp', 'vhp') for graph in (False, True)]"
    ),
}  # fmt: skip


def flat(results: Any) -> list[Any]:
    if isinstance(results, (tuple, list)):
        return [y for x in results for y in flat(x)]
    return [results]


@NEEDS_PYTORCH
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("requires_grad", [*itertools.product((0, 1), repeat=3)])
def test_programs_as_in_pytorch(program: str, requires_grad: tuple[int, ...]) -> None:
    found = []
    for library in ("torch", "retrograd"):
        torch = library_named(library)
        x, c, v = numbers(torch, requires_grad)
        known = {"torch": torch, "func": torch.func, "x": x, "c": c, "v": v}
        results = flat(eval(PROGRAMS[program], known))
        found.append([(pytest.approx(y.item()), y.requires_grad) for y in results])
    assert found[0] == found[1]


def test_the_example_of_a_gradient_inside_a_gradient() -> None:
    grad = retrograd.func.grad
    u, t = retrograd.tensor(2.0), retrograd.tensor(3.0)
    inner = []

    def outer(w: Any) -> Any:
        inner.append(grad(lambda x: w * x**2)(t))
        return inner[0]

    result = grad(outer)(u)
    assert float(result) == 6.0  # d/dw 2wt
    assert not result.requires_grad
    assert inner[0].requires_grad  # while ``w`` is a variable
    constant = []
    grad(lambda w: constant.append(grad(lambda x: x**2)(t)) or w)(u)
    assert not constant[0].requires_grad


def test_a_gradient_has_a_history_that_leads_to_what_took_part_and_nowhere_else() -> None:
    w = retrograd.tensor(2.0, requires_grad=True)
    a, b = retrograd.func.grad(lambda x, y: x**2 + w * y, argnums=(0, 1))(
        retrograd.tensor(3.0), retrograd.tensor(5.0)
    )
    assert (a.item(), b.item()) == (6.0, 2.0)
    assert (a.requires_grad, b.requires_grad) == (False, True)
    g = retrograd.func.grad(lambda x: (w * x**2).sin())(retrograd.tensor(3.0))
    g.backward()  # d/dw 2wx cos(wx²)
    x = 3.0

    expected = 2 * x * math.cos(2 * x**2) - 2 * 2 * x**3 * math.sin(2 * x**2)
    assert float(w.grad) == pytest.approx(expected, rel=1e-5)
    ends, to_visit = set(), [get_gradient_edge(g).node]
    while to_visit:
        node = to_visit.pop()
        to_visit += [n for n in node.next_nodes if n is not None]
        if not node.next_nodes:
            ends.add(node.variable)
    assert w in ends


@pytest.mark.parametrize("library", LIBRARIES)
def test_without_recording_a_gradient_leaves_other_leaves_alone(library: str) -> None:
    torch = library_named(library)
    w = torch.tensor(3.0, requires_grad=True)
    with torch.no_grad():
        g = torch.func.grad(lambda y: w * y**2)(torch.tensor(2.0))
    assert (float(g), g.requires_grad, w.grad) == (12.0, False, None)

    def times_a_constant(w: Any) -> Any:
        with torch.no_grad():
            constant = torch.func.grad(lambda y: w * y**2)(torch.tensor(2.0))
        return constant * w

    assert float(torch.func.grad(times_a_constant)(torch.tensor(5.0))) == 20.0


def live_nodes() -> int:
    return sum(issubclass(type(x), Node) for x in gc.get_objects())


@pytest.mark.parametrize("kind", ["grad", "vjp", "jacrev", "linearize", "hessian"])
def test_descent_with_nested_gradients_does_not_grow(kind: str) -> None:
    """Of a thousand steps, the last costs what the first did."""
    gc.collect()  # what other tests have left
    func = retrograd.func
    t = retrograd.tensor(0.5)

    def penalty(w: Any) -> Any:
        def f(x: Any) -> Any:
            return (w * x**2).sin()

        if kind == "vjp":
            return func.vjp(f, t)[1](t)[0]
        if kind == "linearize":
            return func.linearize(f, t)[1](t)
        if kind == "grad":
            return func.grad(f)(t)
        return (func.jacrev if kind == "jacrev" else func.hessian)(f)(t)

    w = retrograd.tensor(3.0)
    live, made = [], []
    steps = 1000 if kind == "grad" else 100
    for step in range(steps):
        before = next(orders)
        gradient, value = func.grad_and_value(lambda w: penalty(w) ** 2)(w)
        made.append(before - next(orders))
        w = w - 0.1 * gradient
        assert not w.requires_grad
        assert not value.requires_grad
        if step in (1, steps - 1):
            live.append(live_nodes())
    assert live[0] == live[1]
    assert len(set(made[1:])) == 1
    assert float(value) < 0.01
