"""``cond``, ``while_loop`` and ``scan`` in eager mode, and under transforms."""

from typing import Any

import pytest

import retrograd as torch
from retrograd.func import grad, hessian, jacfwd, jet, jvp, vmap


def branches(x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda x: (x.sin() * 2).sum(), lambda x: (x**3).sum(), (x,))


def plain_branches(x: Any) -> Any:
    return (x.sin() * 2).sum() if x.sum() > 0 else (x**3).sum()


def root(a: Any) -> Any:
    """The square root, by Newton's method."""
    return torch.while_loop(
        lambda x: (x * x - a).abs() > 1e-12 * a, lambda x: ((x + a / x) / 2,), (a,)
    )[0]


def recurrence(xs: Any, w: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = torch.tanh(h * w + x)
        return h, h.sum() * 2

    h, ys = torch.scan(step, torch.zeros(2, dtype=torch.float64), xs)
    return h.sum() + (ys**2).sum()


def plain_recurrence(xs: Any, w: Any) -> Any:
    h, total = torch.zeros(2, dtype=torch.float64), 0.0
    for x in xs:
        h = torch.tanh(h * w + x)
        total = total + (h.sum() * 2) ** 2
    return h.sum() + total


def numbers(*shape: int) -> Any:
    generator = torch.Generator().manual_seed(len(shape))
    return torch.randn(shape, dtype=torch.float64, generator=generator)


POINTS = (torch.tensor([0.3, 0.9]), torch.tensor([-0.3, -0.9]))


@pytest.mark.parametrize("x", POINTS)
def test_cond_and_its_derivatives(x: Any) -> None:
    for transform in (lambda f: f, grad, hessian, jacfwd, lambda f: grad(lambda x: grad(f)(x)[0])):
        assert transform(branches)(x).equal(transform(plain_branches)(x))
    for t in jvp(branches, (x,), (x,))[1], jvp(plain_branches, (x,), (x,))[1]:
        torch.testing.assert_close(t, (grad(plain_branches)(x) * x).sum())
    series = ((torch.ones(2), torch.zeros(2), torch.zeros(2)),)
    torch.testing.assert_close(jet(branches, (x,), series), jet(plain_branches, (x,), series))
    x = x.clone().requires_grad_()
    branches(x).backward()
    assert x.grad.equal(grad(plain_branches)(x.detach()))


def test_cond_takes_python_values_nests_and_one_element() -> None:
    x = torch.ones(2)
    assert torch.cond(True, lambda x: x + 1, lambda x: x, (x,)).equal(x + 1)
    assert torch.cond(0, lambda: 1, lambda: 2) == 2
    found = torch.cond(
        torch.tensor([[False]]), lambda d: d["a"], lambda d: {"b": d["a"][0] * 2}, ({"a": (x, x)},)
    )
    assert found["b"].equal(x * 2)
    assert torch.cond(torch.tensor(2.5), lambda x: x + 1, lambda x: x, [x]).equal(x + 1)


def test_cond_of_a_batch_takes_each_branch_where_it_is_wanted() -> None:
    xs = torch.stack(POINTS)
    for transform in (lambda f: f, grad, hessian):
        expected = torch.stack([transform(plain_branches)(x) for x in xs])
        torch.testing.assert_close(vmap(transform(branches))(xs), expected)
    torch.testing.assert_close(
        grad(lambda x: vmap(branches)(x).sum())(xs), vmap(grad(branches))(xs)
    )
    nested = vmap(vmap(lambda x: torch.cond(x > 0, lambda x: 2 * x, lambda x: -x, (x,))))
    assert nested(torch.tensor([[1.0, -2.0], [-3.0, 4.0]])).tolist() == [[2, 2], [3, 8]]
    same = vmap(lambda x, p: torch.cond(p, lambda x: 2 * x, lambda x: x * 1, (x,)), (0, None))
    assert same(torch.ones(2), torch.tensor(True)).tolist() == [2, 2]  # one branch is run


def test_while_loop_and_its_derivatives() -> None:
    a = torch.tensor(7.0, dtype=torch.float64)
    torch.testing.assert_close(root(a), a.sqrt())
    torch.testing.assert_close(grad(root)(a), grad(torch.sqrt)(a))
    torch.testing.assert_close(jacfwd(root)(a), grad(torch.sqrt)(a))
    torch.testing.assert_close(grad(grad(root))(a), grad(grad(torch.sqrt))(a))
    many = torch.tensor([0.01, 2.0, 7.0, 1e6], dtype=torch.float64)
    torch.testing.assert_close(vmap(root)(many), many.sqrt())
    torch.testing.assert_close(vmap(grad(root))(many), vmap(grad(torch.sqrt))(many))
    torch.testing.assert_close(
        grad(lambda a: vmap(root)(a).sum())(many), vmap(grad(torch.sqrt))(many)
    )


def test_while_loop_counts_and_may_not_run_at_all() -> None:
    x = torch.ones(2)
    count, y = torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0, x))
    assert count == 3
    assert y.tolist() == [8, 8]
    i, (z,) = torch.while_loop(
        lambda i, xs: i < 0, lambda i, xs: (i + 1, xs), (torch.tensor(0), [x])
    )
    assert z.equal(x)
    assert z is not x
    assert i.item() == 0


def test_entries_that_have_ended_have_finite_gradients() -> None:
    """What the body would do to their values has an infinite derivative."""

    def shrunk(x: Any) -> Any:  # until it is 0, where the square root is infinitely steep
        return torch.while_loop(lambda x: x > 0, lambda x: (x.sqrt() - 1,), (x,))[0]

    x = torch.tensor([1.0, 4.0])
    expected = torch.stack([grad(shrunk)(v) for v in x])
    found = grad(lambda x: vmap(shrunk)(x).sum())(x)
    assert expected.isfinite().all()
    torch.testing.assert_close(found, expected)


def test_scan_and_its_derivatives() -> None:
    xs, w = numbers(4, 2), numbers(2)
    for transform in (
        lambda f: f, lambda f: grad(f, argnums=(0, 1)), lambda f: hessian(f, argnums=(0, 1)),
        lambda f: jacfwd(f, argnums=(0, 1)),
    ):  # fmt: skip
        torch.testing.assert_close(transform(recurrence)(xs, w), transform(plain_recurrence)(xs, w))
    many = numbers(3, 4, 2)
    torch.testing.assert_close(
        vmap(grad(recurrence), (0, None))(many, w),
        torch.stack([grad(plain_recurrence)(x, w) for x in many]),
    )


def test_scan_along_other_dimensions_and_backwards() -> None:
    xs = numbers(3, 4)
    last, sums = torch.scan(lambda c, x: (c + x, c + x), torch.zeros(3).double(), xs, dim=1)
    assert sums.equal(xs.cumsum(1))
    assert last.equal(xs.cumsum(1)[:, -1])
    zero = torch.zeros(3).double()
    last, sums = torch.scan(lambda c, x: (c + x, c + x), zero, xs, dim=-1, reverse=True)
    assert sums.equal(xs.flip(1).cumsum(1).flip(1))
    _, (totals, none) = torch.scan(lambda c, x: (c, (x.sum(), None)), zero, xs, dim=1)
    torch.testing.assert_close(totals, xs.sum(0))
    assert none is None
    carry, _ = torch.scan(
        lambda c, x: ({"n": c["n"] + 1}, x["a"] * x["b"][0]), {"n": torch.tensor(0)},
        {"a": xs, "b": [xs]},
    )  # fmt: skip
    assert carry["n"].item() == 3
    assert torch.scan(None, zero, []) == (zero, [])  # type: ignore[arg-type]


def test_names_of_pytorch() -> None:
    from retrograd._higher_order_ops import scan

    assert scan is torch.scan
    assert torch._higher_order_ops.cond is torch.cond  # type: ignore[attr-defined]
    assert torch._higher_order_ops.while_loop is torch.while_loop  # type: ignore[attr-defined]


x3 = torch.ones(3)
BAD = {
    "torch.cond('a', f, f, (x,))": "RuntimeError",
    "torch.cond(torch.ones(2), f, f, (x,))": "RuntimeError",
    "torch.cond(torch.tensor(True), 3, f, (x,))": "RuntimeError",
    "torch.cond(torch.tensor(True), f, f, x)": "RuntimeError",
    "torch.cond(torch.tensor(True), f, f, (x, 3))": "RuntimeError",
    "torch.while_loop(3, f, (x,))": "RuntimeError",
    "torch.while_loop(f, f, ('a',))": "AssertionError",
    "torch.while_loop(f, f, (1.5,))": "AssertionError",
    "scan(3, x, x)": "RuntimeError",
    "scan(g, x, x, dim=2)": "IndexError",
    "scan(g, x, x, dim=1.5)": "IndexError",
    "scan(g, [], x)": "RuntimeError",
    "scan(g, 3, x)": "RuntimeError",
    "scan(g, x, torch.ones(0, 3))": "RuntimeError",
    "scan(g, x, x, reverse=3)": "RuntimeError",
}


def outcome(package: Any, scan: Any, expression: str) -> tuple[str, str]:
    names = {"torch": package, "scan": scan, "x": package.ones(3), "f": lambda x: x,
             "g": lambda c, x: (c, x)}  # fmt: skip
    try:
        eval(expression, names)
    except Exception as error:
        return type(error).__name__, str(error)
    return "", ""


@pytest.mark.parametrize("expression", BAD)
def test_bad_arguments_are_refused_as_in_pytorch(expression: str) -> None:
    kind, message = outcome(torch, torch.scan, expression)
    assert kind == BAD[expression]
    reference = pytest.importorskip("torch", reason="PyTorch is the reference to compare with")
    scan = reference._higher_order_ops.scan
    their_kind, theirs = outcome(reference, scan, expression)
    assert kind == their_kind
    ours = message.replace("retrograd.tensor._tensor.Tensor", "torch.Tensor")
    assert ours.startswith(theirs.split(" can only be of")[0])


@pytest.mark.parametrize(("expression", "message"), {
    "torch.while_loop(lambda x: x, f, (x,))": "cond_fn must return a boolean scalar tensor",
    "torch.while_loop(lambda x: p, f, (x,))": "body_fn should return a tuple but got <class",
    "torch.while_loop(lambda x: p, lambda x: (x, x), (x,))": "body_fn_output and carried_inputs to"
    " have same number",
    "torch.while_loop(lambda x: p, lambda x: (x[:2],), (x,))": "differ in 'shape: torch.Size..2.. "
    "vs torch.Size..3..'",
    "torch.while_loop(lambda x: p, lambda x: (x.double(),), (x,))": "'dtype: torch.float64 vs torch"
    ".float32'",
    "torch.while_loop(lambda x: p, lambda x: (x.add_(1),), (x,))": "input mutation",
    "torch.while_loop(f, f, x)": "carried_inputs must be a tuple or list",
    "torch.scan(lambda c, x: c, x, x)": "combine_fn must return a pair",
    "torch.scan(lambda c, x: (c[:2], x), x, x)": "Expected init and carry to have same metadata",
    "torch.scan(lambda c, x: ((c, c), x), x, x)": "Expected init and carry to have same number",
    "torch.scan(lambda c, x: (c, 3), x, x)": "combine_fn must return tensors",
    "torch.scan(lambda c, x: (c.mul_(2), c * 1), x, x)": "input mutation",
    "torch.scan(lambda c, x: (c, x), x, [x, x[:2]])": "the same size along the scan dimension",
    "torch.cond(p, lambda x: x.sin_(), f, (x,))": "input mutation",
    "vmap(lambda x: torch.cond(x > 0, f, lambda x: x[None], (x,)))(x)": "to have same metadata",
    "vmap(lambda x: torch.cond(x > 0, f, torch.Tensor.double, (x,)))(x)": "expected same dtype but",
    "vmap(lambda x: torch.cond(x > 0, f, lambda x: (x,), (x,)))(x)": "Unmatched output spec",
}.items())  # fmt: skip
def test_functions_that_return_something_else(expression: str, message: str) -> None:
    names = {"torch": torch, "x": torch.ones(3), "f": lambda x: x, "p": torch.tensor(True),
             "vmap": vmap}  # fmt: skip
    with pytest.raises((RuntimeError, AssertionError), match=message):
        eval(expression, names)


@pytest.mark.filterwarnings("ignore")  # PyTorch warns of itself
def test_values_and_gradients_are_those_of_pytorch() -> None:
    reference = pytest.importorskip("torch", reason="PyTorch is the reference to compare with")

    def run(package: Any, scan: Any) -> Any:
        x = package.tensor([0.5, -0.25, 1.5], requires_grad=True)
        y = package.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        last, ys = scan(lambda c, x: (c * x + 1, c * 2), package.ones(()), y, reverse=True)
        (ys.sum() * last).backward()
        n, z = package.while_loop(
            lambda n, z: n < 4, lambda n, z: (n + 1, z * 1.5), (package.tensor(0), x.detach())
        )
        return [v.tolist() for v in (y.detach(), last.detach(), ys.detach(), x.grad, n, z)]

    ours, theirs = run(torch, torch.scan), run(reference, reference._higher_order_ops.scan)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(torch.tensor(a), torch.tensor(b))
