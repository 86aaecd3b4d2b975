"""``cond``, ``while_loop`` and ``scan`` in compiled functions: one program for both branches, and
for any number of iterations."""

import os
import runpy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd.compiler import CannotCompile
from retrograd.func import grad, hessian, jacfwd, jacrev, jet, jvp, linearize, vmap

# JAX starts threads, which must not be in a process that forks: test_compile_xla runs these tests
# on XLA in a process of its own.
BACKENDS = os.environ.get("BACKENDS", "numpy").split(",")


def randn(*shape: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator)


def leaves(x: Any) -> list[Any]:
    return [y for part in x for y in leaves(part)] if isinstance(x, (tuple, list)) else [x]


def check(
    function: Any, *argument_lists: Any, backend: str = "numpy", eager: Any = None,
    programs: int = 1,
) -> Any:  # fmt: skip
    """Compare a function with its program, call after call; the compiled function."""
    compiled = torch.compile(function, fullgraph=True, backend=backend)
    for _ in range(2):
        for args in argument_lists:
            expected, found = (eager or function)(*args), compiled(*args)
            for a, b in zip(leaves(expected), leaves(found), strict=True):
                assert a.dtype is b.dtype
                assert a.requires_grad == b.requires_grad
                torch.testing.assert_close(b.detach(), a.detach(), rtol=1e-9, atol=1e-12)
    assert len(compiled.entries) == programs
    return compiled


# -- cond --------------------------------------------------------------------------------------


def branches(x: Any) -> Any:
    y = torch.cond(x.sum() > 0, lambda x: torch.sin(x) * 2, lambda x: x**3, (x,))
    return y.sum()


UP, DOWN = (randn(3).abs(),), (-randn(3).abs(),)
TRANSFORMS = {
    "itself": lambda f: f, "grad": grad, "hessian": hessian, "jacfwd": jacfwd, "jacrev": jacrev,
    "grad of grad": lambda f: grad(lambda x: grad(f)(x).sum()),
    "jvp of grad": lambda f: lambda x: jvp(grad(f), (x,), (x,)),
    "vmap": lambda f: lambda x: vmap(f)(torch.stack([x, x * 2])),
    "vmap of grad": lambda f: lambda x: vmap(grad(f))(torch.stack([x, x * -2])),
    "grad of vmap": lambda f: grad(lambda x: vmap(f)(torch.stack([x, x * -2])).sum()),
}  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_cond_and_its_derivatives(name: str, backend: str) -> None:
    check(TRANSFORMS[name](branches), UP, DOWN, backend=backend)


def test_cond_is_an_if() -> None:
    compiled = check(branches, UP, DOWN)
    assert str(compiled).split("\n\n")[1].splitlines()[2:6] == [
        "    if np.add.reduce(x, axis=None) > 0:",
        "        y = np.sin(x) * two",
        "    else:",
        "        y = pow_scalar(x, exponent=3)",
    ]
    text = check(grad(branches), UP, DOWN).source
    assert text.count("if ") == 1  # the branch of the value is not needed
    assert "np.cos(x)" in text


def test_gradients_of_captured_parameters() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh()).double()
    other = torch.nn.Linear(3, 4).double()

    def step(x: Any) -> Any:
        y = torch.cond(x.sum() > 0, model, lambda x: other(x) * 2, (x,))
        loss = (y**2).sum()
        for p in (*model.parameters(), *other.parameters()):
            p.grad = None
        loss.backward()
        return loss.detach(), *[p.grad * 1 for p in (*model.parameters(), *other.parameters())]

    def plain(x: Any) -> Any:
        y = model(x) if x.sum() > 0 else other(x) * 2
        parameters = [*model.parameters(), *other.parameters()]
        found = torch.autograd.grad((y**2).sum(), parameters, allow_unused=True)
        pairs = zip(found, parameters, strict=True)
        return (y**2).sum().detach(), *[torch.zeros_like(p) if g is None else g for g, p in pairs]

    check(step, UP, DOWN, eager=plain, programs=2)  # the first for parameters without gradients


def test_nested_control_flow_with_captures_at_every_depth() -> None:
    def f(x: Any, a: Any, b: Any) -> Any:
        def inner(h: Any) -> Any:
            return torch.cond(h.sum() > a.sum(), lambda h: h * b, lambda h: torch.sin(h) * a, (h,))

        def step(h: Any, v: Any) -> Any:
            h = inner(h + v) * b
            return h, torch.cond(v.sum() > 0, lambda: h * a, lambda: h - a)

        h, ys = torch.scan(step, a * b, x)
        return (h + ys.sum(0)).sum()

    args = (randn(4, 2), randn(2, seed=1), randn(2, seed=2))
    other = (randn(4, 2, seed=3), -randn(2, seed=4), randn(2, seed=5))
    every = (0, 1, 2)
    check(f, args, other)
    check(grad(f, argnums=every), args, other)
    check(hessian(f, argnums=every), args, other)
    check(vmap(grad(f, argnums=every), (0, None, 0)), (
        randn(3, 4, 2), randn(2, seed=1), randn(3, 2, seed=2)
    ))  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_nests_integers_views_and_operands_as_results(backend: str) -> None:
    def f(p: Any, x: Any, n: Any) -> Any:
        found = torch.cond(
            p > 0,
            lambda d: (d["x"], d["n"] + 1, [d["x"].T]),
            lambda d: (d["x"] * 2, d["n"], [d["x"][:2].T @ x[:2] * 1.0 + d["x"].T[0, 0]]),
            ({"x": x, "n": n},),
        )
        found[0].add_(1)  # which must not change x
        return found, x * 1

    x, n = randn(3, 3), torch.tensor([4])
    check(f, (torch.tensor(1), x, n), (torch.tensor(-1), x, n), backend=backend)
    assert x.equal(randn(3, 3))


def test_in_place_in_a_branch() -> None:
    def f(x: Any) -> Any:
        def fill(x: Any) -> Any:
            y = torch.zeros_like(x)
            y[0] = x[1] * 2
            y.add_(x)
            return y

        return torch.cond(x[0] > 0, fill, lambda x: x.clone().mul_(3), (x,)).sum()

    check(f, UP, DOWN)
    check(grad(f), UP, DOWN)


def test_random_numbers_are_those_of_the_branch_taken() -> None:
    def f(x: Any) -> Any:
        y = torch.cond(x.sum() > 0, lambda x: x + torch.rand(3), lambda x: x * 1, (x,))
        return y + torch.rand(3)

    compiled = torch.compile(f, fullgraph=True)
    for x in (*UP, *DOWN, *UP):
        results = []
        for function in (compiled, f):
            torch.manual_seed(1)
            results.append(function(x))
        assert results[0].equal(results[1])
    assert len(compiled.entries) == 1


# -- while_loop --------------------------------------------------------------------------------


def root(a: Any) -> Any:
    def is_far(x: Any) -> Any:
        return (x * x - a).abs() > 1e-12 * a

    def step(x: Any) -> Any:
        return ((x + a / x) / 2,)

    return torch.while_loop(is_far, step, (a,))[0]


NUMBERS = tuple((torch.tensor(x, dtype=torch.float64),) for x in (7.0, 1e6, 1.0, 0.3))
FORWARD = ("itself", "jacfwd", "jvp", "jacfwd of jacfwd", "vmap", "jacfwd of vmap")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FORWARD)
def test_while_loop_and_its_derivatives(name: str, backend: str) -> None:
    function = {
        "itself": root, "jacfwd": jacfwd(root), "jvp": lambda a: jvp(root, (a,), (a * 2,)),
        "jacfwd of jacfwd": jacfwd(jacfwd(root)),
        "vmap": lambda a: vmap(root)(torch.stack([a, a * 100])),
        "jacfwd of vmap": jacfwd(lambda a: vmap(root)(torch.stack([a, a * 100]))),
    }[name]  # fmt: skip
    check(function, *NUMBERS, backend=backend)


def test_while_loop_is_a_while() -> None:
    assert check(root, *NUMBERS).source == (
        "def root(a):\n"
        "    # return torch.while_loop(is_far, step, (a,))[0]\n"
        "    t1 = copy(a)\n"
        "    # return (x * x - a).abs() > 1e-12 * a\n"
        "    while np.absolute(t1 * t1 - a) > a * 1e-12:\n"
        "        # return ((x + a / x) / 2,)\n"
        "        t2 = (t1 + a / t1) / 2\n"
        "        t1 = t2\n"
        "    return t1,"
    )


def test_gradient_of_a_while_loop_names_scan() -> None:
    with pytest.raises(CannotCompile, match=r"Use torch.scan\(\), which keeps them"):
        torch.compile(grad(root), fullgraph=True)(*NUMBERS[0])
    compiled = torch.compile(grad(root))
    with pytest.warns(UserWarning, match="torch.scan"):
        found = compiled(*NUMBERS[0])
    torch.testing.assert_close(found, grad(torch.sqrt)(*NUMBERS[0]))


def test_loop_that_does_not_run_gives_copies() -> None:
    def f(n: Any, x: Any) -> Any:
        n, y = torch.while_loop(lambda n, y: n > 0, lambda n, y: (n - 1, y * 2), (n, x))
        return y.add_(1), x * 1

    x = randn(3)
    check(f, (torch.tensor(0), x), (torch.tensor(3), x), (torch.tensor(0), x))
    assert x.equal(randn(3))


# -- scan --------------------------------------------------------------------------------------


def recurrence(xs: Any, w: Any, reverse: bool = False, dim: int = 0) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = torch.tanh(h @ w + x)
        return h, h * 2

    h, ys = torch.scan(step, torch.ones(3, dtype=torch.float64), xs, reverse=reverse, dim=dim)
    return h.sum() + (ys * ys).sum()


SEQUENCES = ((randn(5, 3), randn(3, 3)), (randn(5, 3, seed=1), randn(3, 3, seed=2)))
OF_TWO = {
    "itself": lambda f: f, "grad": lambda f: grad(f, argnums=(0, 1)),
    "hessian": lambda f: hessian(f, argnums=(0, 1)),
    "jacrev of grad": lambda f: jacrev(grad(f, argnums=1), argnums=(0, 1)),
    "jvp": lambda f: lambda x, w: jvp(f, (x, w), (x, w)),
    "vmap of grad": lambda f: lambda x, w: vmap(grad(f, argnums=(0, 1)), (0, None))(
        torch.stack([x, x * 2]), w
    ),
    "vmap over w": lambda f: lambda x, w: vmap(f, (None, 2))(x, torch.stack([w, w * 2], 2)),
}  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OF_TWO)
def test_scan_and_its_derivatives(name: str, backend: str) -> None:
    check(OF_TWO[name](recurrence), *SEQUENCES, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_scan_backwards_and_along_other_dimensions(backend: str) -> None:
    for options in ({"reverse": True}, {"dim": 1}, {"dim": -1, "reverse": True}):
        args = [(x.T.contiguous() if "dim" in options else x, w) for x, w in SEQUENCES]
        check(grad(lambda x, w, options=options: recurrence(x, w, **options), argnums=(0, 1)),
              *args, backend=backend)  # fmt: skip


def test_scan_is_a_for_and_so_is_its_gradient() -> None:
    text = check(grad(recurrence), *SEQUENCES).source
    assert [line for line in text.splitlines() if "for " in line or "--" in line] == [
        "    for i in range(5):", "    # -- backward --", "    for i in reversed(range(5)):",
    ]  # fmt: skip
    longer = torch.compile(grad(recurrence))
    longer(randn(50, 3), randn(3, 3))
    assert len(longer.source.splitlines()) == len(text.splitlines())


def test_scan_of_nests_integers_and_no_result() -> None:
    def f(xs: Any, n: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            count, (h,) = carry
            return (count + 1, [h * x["a"] + count]), (x["b"], None, count.clone())

        return torch.scan(step, (n, [xs[0]]), {"a": xs, "b": xs * n})

    x = randn(4, 2)
    compiled = torch.compile(f, fullgraph=True)
    for args in ((x, torch.tensor(2)), (x + 1, torch.tensor(5))):
        ((n, [h]), (b, none, counts)), ((m, [k]), (c, _, found)) = f(*args), compiled(*args)
        assert none is None
        assert all(a.equal(b) for a, b in ((n, m), (h, k), (b, c), (counts, found)))
    weights = randn(4, 2, seed=9)
    check(grad(lambda x, n: (f(x, n)[0][1][0] * f(x, n)[1][0] * weights).sum()),
          (x, torch.tensor(2)), (x, torch.tensor(5)))  # fmt: skip


def test_training_with_a_loop_inside() -> None:
    def make() -> Any:
        torch.manual_seed(0)
        cell = torch.nn.RNNCell(2, 3).double()
        optimizer = torch.optim.Adam(cell.parameters(), lr=0.1)
        x = randn(6, 2)

        def step() -> Any:
            def one(h: Any, v: Any) -> Any:
                h = cell(v[None], h[None])[0]
                return h, h.sum()

            _, ys = torch.scan(one, torch.zeros(3, dtype=torch.float64), x)
            loss = ((ys - 1) ** 2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    eager, compiled = make(), torch.compile(make(), fullgraph=True)
    losses = [(eager().item(), compiled().item()) for _ in range(20)]
    for a, b in losses:
        assert b == pytest.approx(a, rel=1e-9)
    assert losses[-1][0] < losses[0][0] / 2
    assert len(compiled.entries) == 2  # the first step makes the state of the optimizer


def test_result_with_a_history() -> None:
    w = randn(3, 3).requires_grad_()
    compiled = torch.compile(lambda x: recurrence(x, w), fullgraph=True)
    for x in (randn(5, 3), randn(5, 3, seed=3)):
        (expected,) = torch.autograd.grad(recurrence(x, w), w)
        (found,) = torch.autograd.grad(compiled(x), w)
        torch.testing.assert_close(found, expected)
    assert len(compiled.entries) == 1


def test_saved_programs_run_by_themselves(tmp_path: Path) -> None:
    compiled = check(grad(lambda x, w: recurrence(x, w) * branches(x)), *SEQUENCES)
    compiled.save(tmp_path / "program.py")
    program = runpy.run_path(str(tmp_path / "program.py"))
    (function,) = [value for name, value in program.items() if "lambda" in name]
    found = function(*[x.numpy() for x in SEQUENCES[0]])
    np.testing.assert_array_equal(found[0], compiled(*SEQUENCES[0]).numpy())


def test_checks_inside_are_made() -> None:
    def f(n: Any, x: Any, i: Any) -> Any:
        return torch.cond(n > 0, lambda: x[i], lambda: x[i * 0])

    compiled = check(f, (torch.tensor(1), randn(4), torch.tensor([3, 1])))
    beyond = (randn(4), torch.tensor([3, 9]))
    assert compiled(torch.tensor(-1), *beyond).equal(beyond[0][[0, 0]])
    with pytest.raises(IndexError):
        compiled(torch.tensor(1), *beyond)


# -- what cannot be a line of a program ----------------------------------------------------------


REFUSED = {
    "a write to a tensor from outside": (
        lambda x, s: torch.cond(x[0] > 0, lambda x: s.add_(1) * x, lambda x: x * 1, (x,)),
        "a tensor from outside is written",
    ),
    "a look at values": (
        lambda x, s: torch.cond(x[0] > 0, lambda x: x if s[0] > 0 else -x, lambda x: x * 1, (x,)),
        "which it reads with bool",
    ),
    "an int that is carried": (
        lambda x, s: torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0, x))[1],
        "carries an int",
    ),
    "a condition that is no tensor": (
        lambda x, s: torch.while_loop(lambda x: False, lambda x: (x * 2,), (x,))[0],
        "condition is a bool",
    ),
    "random numbers to be differentiated": (
        lambda x, s: grad(lambda x: torch.scan(
            lambda c, v: (c + v * torch.rand(1).double()[0], v), x[0], x)[0])(x),
        "random numbers in control flow",
    ),
    "numbers that differ": (
        lambda x, s: torch.cond(x[0] > 0, lambda x: (x * 1, 3), lambda x: (x * 2, 4), (x,))[0],
        "return 3 and 4",
    ),
    "a branch that its operands are not meant for": (
        lambda x, s: torch.cond(
            x[0] > 0, lambda x: x * 2, lambda x: torch.linalg.cholesky(-torch.eye(3))[0] * x, (x,)
        ),
        "LinAlgError is raised",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_stays_eager_says_why(name: str) -> None:
    function, message = REFUSED[name]
    x = randn(3).abs()
    compiled = torch.compile(function)
    states = []
    for called in (compiled, function, compiled):
        torch.manual_seed(0)
        state = torch.ones(3)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            states.append((called(x, state), state))
        assert len(caught) == (not states[1:])
        assert not caught or message in str(caught[0].message)
    for found, state in states:
        assert found.equal(states[0][0])
        assert state.equal(states[0][1])


@pytest.mark.parametrize(("function", "message"), [
    (lambda x: torch.cond(x[0] > 0, lambda x: x, lambda x: x[:2], (x,)), "to have same metadata"),
    (lambda x: torch.cond(x[0] > 0, lambda x: x, lambda x: (x, x), (x,)), "Unmatched output spec"),
    (lambda x: torch.cond(x[0] > 0, lambda x: x, lambda x: x.float(), (x,)), "same dtype"),
    (lambda x: torch.while_loop(lambda x: x[0] > 0, lambda x: (x[:1],), (x,)), "same metadata"),
    (lambda x: torch.while_loop(lambda x: x > 0, lambda x: (x,), (x,)), "boolean scalar"),
    (lambda x: torch.scan(lambda c, v: (x, v), x[0], x), "init and carry to have same metadata"),
    (lambda x: torch.scan(lambda c, v: c, x[0], x), "must return a pair"),
])  # fmt: skip
def test_functions_that_do_not_fit_are_refused(function: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        torch.compile(function)(randn(3).abs())


def test_a_captured_tensor_that_is_written_before_the_gradient() -> None:
    def f(x: Any) -> Any:
        scale = torch.ones(3, dtype=torch.float64) * x.detach()
        y = torch.cond(x[0] > 0, lambda x: (x * scale).sin(), lambda x: x * 1, (x,))
        scale.add_(1)
        y.sum().backward()
        return y.detach()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.compile(f)(randn(3).abs().requires_grad_())


# -- what may be inside ---------------------------------------------------------------------------


class Square(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g * ctx.saved_tensors[0]


def always(x: Any, function: Any) -> Any:
    """A ``cond`` that calls a function."""
    return torch.cond(x.sum() < 1e9, function, lambda x: function(x) * 1, (x,))


def through(x: Any, function: Any) -> Any:
    """The results of a ``scan`` whose body is a function of the sum of carry and slice."""

    def step(h: Any, v: Any) -> Any:
        y = function(h + v)
        return y, y * 2

    return torch.scan(step, x[0] * 0, x)[1]


def with_buffer(h: Any) -> Any:
    buffer = torch.zeros(3, dtype=h.dtype)
    buffer[0] = h[1]
    buffer[1:] = h[:2] * 2
    return buffer.sin_()


CELL = torch.nn.LSTMCell(3, 3).double()
INSIDE = {
    "a custom Function": lambda x: always(x, Square.apply),
    "fused kernels": lambda x: through(
        x, lambda h: torch.nn.functional.layer_norm(h, (3,)).softmax(-1).log_softmax(-1)
    ),
    "linear algebra": lambda x: always(x, lambda x: torch.linalg.cholesky(x.T @ x + torch.eye(3))),
    "complex numbers": lambda x: through(x, lambda h: torch.exp(1j * h).real),
    "a derivative": lambda x: always(x, lambda x: grad(lambda y: (y**3).sum())(x)),
    "a batch": lambda x: through(x, vmap(lambda h: h * h.sum())),
    "a loop in a loop": lambda x: through(x, lambda h: through(x, lambda k: (k * h).sin())[2]),
    "a loop that is not differentiated": lambda x: through(
        x, lambda h: h.sin() * torch.while_loop(
            lambda a: (a < 10).all(), lambda a: (a * 2,), (h.detach().abs() + 0.1,)
        )[0],
    ),
    "writes to what it made": lambda x: through(x, with_buffer),
    "views": lambda x: through(x, lambda h: h.flip(0)[None].T[:, 0]),
    "layouts": lambda x: through(x[:, None] * x[:, :, None], lambda h: h.T @ h / 9),
    "a module": lambda x: through(x, lambda h: CELL(h[None])[0][0]),
    "no operation": lambda x: through(x, lambda h: h),
    "a constant": lambda x: x.sum() * through(x, lambda h: torch.ones(3, dtype=x.dtype)),
    "an index": lambda x: through(x, lambda h: h[torch.tensor([2, 0, 1])] * h[h.argsort()]),
}  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", INSIDE)
def test_what_may_be_inside(name: str, backend: str) -> None:
    function, weights = INSIDE[name], randn(3)
    points = (randn(4, 3),), (randn(4, 3, seed=1),)
    check(lambda x: function(x).detach(), *points, backend=backend)

    def total(x: Any) -> Any:
        return (function(x) * weights).sum().real

    check(grad(total), *points, backend=backend)
    if backend == "numpy":
        check(lambda x: jvp(grad(total), (x,), (x * 2,)), *points)
        check(lambda x: jacrev(total)(x), *points)


def test_series_and_linear_maps_of_control_flow() -> None:
    check(lambda x: jet(branches, (x,), ((x, x * 2, x),)), UP, DOWN)
    check(lambda x: linearize(branches, x)[1](x), UP, DOWN)


def writes(x: Any) -> Any:
    y = torch.zeros(3, dtype=x.dtype)
    y.copy_(x * 2)
    y[0] = x[1]
    return y


# What a branch does with a tensor that it captured: no operation takes the tensor itself.
CAPTURED = {
    "a custom Function": lambda x: Square.apply(x),
    "detach": lambda x: x.detach() * x,
    "grad": lambda x: grad(lambda z: (z**3).sum())(x),
    "vmap": lambda x: vmap(lambda z: (z * x).sum())(x),
    "jvp": lambda x: jvp(torch.sin, (x,), (x,))[1],
    "hessian": lambda x: hessian(lambda z: (z**3).sum())(x) @ x,
    "it returns it": lambda x: x,
    "a write": lambda x: writes(x),
}
AROUND = {
    "grad": lambda f: grad(f, argnums=(0, 1)),
    "jvp": lambda f: lambda *args: jvp(f, args, args),
    "vmap of grad": lambda f: lambda a, b: vmap(grad(f), (0, None))(torch.stack([a, -a]), b),
    "grad of vmap": lambda f: grad(
        lambda a, b: vmap(f, (0, None))(torch.stack([a, -a]), b).sum(), argnums=(0, 1)
    ),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", CAPTURED)
def test_what_is_captured_may_go_anywhere(name: str, around: str) -> None:
    inside = CAPTURED[name]
    if (name == "a write" and "vmap" in around) or (name, around) == ("a custom Function", "jvp"):
        pytest.skip("it is an error in eager mode, too")

    def f(a: Any, b: Any) -> Any:
        h = a * b
        c = torch.cond(h.sum() > 0.1, lambda: inside(h) + b, lambda: inside(h * 2))
        return torch.scan(lambda c, x: (c + inside(h) * x, c), c, torch.stack([a, b]))[0].sum()

    function, b = AROUND[around](f), randn(3, seed=2)
    check(function, (UP[0], b), (DOWN[0], b))


def test_a_parameter_that_a_custom_function_captures() -> None:
    w = randn(3).requires_grad_()

    def f(x: Any) -> Any:
        y = torch.cond(x.sum() > 0, lambda x: Square.apply(w) * x, lambda x: x * w, (x,))
        return torch.autograd.grad(y.sum(), w)[0]

    check(f, UP, DOWN)


def test_precision_is_that_of_autocast() -> None:
    def f(x: Any, w: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.float16):
            return torch.cond(x.sum() > 0, lambda x: x @ w, lambda x: (x @ w) * 2, (x,))

    w = randn(3, 3).float()
    for x in (*UP, *DOWN):
        assert f(x.float(), w).dtype is torch.float16
    check(f, *[(x.float(), w) for x in (*UP, *DOWN)])


def test_variables_of_python_loops_are_those_of_the_call() -> None:
    """The gradient calls the functions again, when the variables have other values."""

    def f(x: Any, ws: Any) -> Any:
        for w in ws:

            def scaled(x: Any, deep: bool = True) -> Any:
                return x * w  # noqa: B023 - which is what is tested

            x = torch.cond(x.sum() > 0, lambda x: scaled(x).sin(), lambda x: x + w, (x,))  # noqa: B023
            x = torch.scan(lambda c, v: (scaled(c) + v, None), x, torch.stack([x, x]))[0]
        return x.sum()

    ws = [randn(3, seed=i) for i in range(3)]
    check(grad(f, argnums=(0, 1)), (UP[0], ws), (DOWN[0], ws))
    check(hessian(f), (UP[0], ws), (DOWN[0], ws))
