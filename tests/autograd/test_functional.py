"""``autograd.functional``, and ``is_grads_batched``, beside PyTorch's on the same functions, and
beside differences of these."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.autograd import functional

Torch = Any


def pytorch() -> Any:
    return pytest.importorskip("torch")


# Functions of one or more tensors, as text that runs with either library, with their points.
A, B = [0.3, -0.7, 1.1], [1.2, 0.4, -0.5]
M = [[0.2, -1.0, 0.5], [0.7, 0.1, -0.3]]
FUNCTIONS = {
    "elementwise": ("lambda x: torch.sin(x) * x", [A]),
    "of a matrix": ("lambda m: (m @ m.mT).exp()", [M]),
    "to a number": ("lambda x: (x ** 3).sum()", [A]),
    "of a number": ("lambda x: torch.stack([x.cos(), x.sin()])", [0.4]),
    "of two": ("lambda x, y: x * y.exp()", [A, B]),
    "to two": ("lambda x: (x.exp(), (x * x).sum())", [A]),
    "of two to two": ("lambda x, m: (m @ x, (x ** 2).sum() * m)", [A, M]),
    "one does not matter": ("lambda x, y: (x ** 2, y * 3)", [A, B]),
    "a constant": ("lambda x: (x * 2, torch.ones(2, dtype=torch.float64))", [A]),
    "linear": ("lambda x, y: 2 * x - 3 * y", [A, B]),
    "one in a tuple": ("lambda x: (x ** 2,)", [A]),
    "nothing recorded": ("lambda x: x.detach() * 2", [A]),
    "captured": ("lambda x: x * weight.sum()", [A]),
}
NUMBERS = {
    "cubes": ("lambda x: (x ** 3).sum()", [A]),
    "of a matrix": ("lambda m: (m @ m.mT).exp().sum()", [M]),
    "of two": ("lambda x, y: (x ** 2 * y.exp()).sum()", [A, B]),
    "of different shapes": ("lambda x, m: ((m @ x) ** 3).sum()", [A, M]),
    "linear": ("lambda x, y: (2 * x - 3 * y).sum()", [A, B]),
    "linear in one": ("lambda x, y: (x * x).sum() + y.sum()", [A, B]),
    "of one of two": ("lambda x, y: (x ** 3).sum()", [A, B]),
    "of a number": ("lambda x: x ** 4", [0.4]),
    "in a tensor of one": ("lambda x: (x ** 3).sum().reshape(1, 1)", [A]),
    "nothing recorded": ("lambda x: x.detach().sum()", [A]),
}


def setting(torch: Torch, text: str, points: list[Any], requires_grad: bool) -> tuple[Any, Any]:
    weight = torch.tensor(B, dtype=torch.float64, requires_grad=True)
    func = eval(text, {"torch": torch, "weight": weight})
    tensors = tuple(
        torch.tensor(p, dtype=torch.float64, requires_grad=requires_grad) for p in points
    )
    return func, tensors if len(tensors) > 1 else tensors[0]


def outcome(call: Callable[[Any], Any], torch: Torch) -> Any:
    """What a call returns, as nested tuples of values and whether they require grad; or what it
    raises."""

    def shown(x: Any) -> Any:
        if isinstance(x, (tuple, list)):  # PyTorch has lists where its documentation says tuples
            return tuple(shown(part) for part in x)
        return (np.array(x.detach().tolist()), tuple(x.shape), x.requires_grad, str(x.dtype)[-7:])

    try:
        with warnings.catch_warnings():
            if torch is not retrograd:  # PyTorch's forward mode uses what PyTorch deprecates
                warnings.simplefilter("ignore", DeprecationWarning)
            return shown(call(torch))
    except (RuntimeError, NotImplementedError, AssertionError, TypeError) as error:
        return type(error), str(error).replace("retrograd", "torch")


def assert_same(found: Any, expected: Any, where: str = "") -> None:
    if isinstance(expected, np.ndarray):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14, err_msg=where)
    elif isinstance(expected, tuple):
        assert isinstance(found, tuple), (where, found, expected)
        assert len(found) == len(expected), (where, found, expected)
        for f, e in zip(found, expected, strict=True):
            assert_same(f, e, where)
    else:
        assert found == expected, where


def options(**choices: list[Any]) -> list[dict[str, Any]]:
    return [
        dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())
    ]


JACOBIAN_OPTIONS = options(
    create_graph=[False, True], strict=[False, True], vectorize=[False, True],
    strategy=["reverse-mode", "forward-mode"],
)  # fmt: skip
HESSIAN_OPTIONS = [
    {"outer_jacobian_strategy": o.pop("strategy"), **o} for o in map(dict, JACOBIAN_OPTIONS)
]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_jacobians_are_pytorchs(name: str, requires_grad: bool) -> None:
    torch = pytorch()
    for chosen in JACOBIAN_OPTIONS:
        found, expected = (
            outcome(
                lambda t: t.autograd.functional.jacobian(
                    *setting(t, *FUNCTIONS[name], requires_grad),
                    **chosen,  # noqa: B023 - called at once
                ),
                t,
            )
            for t in (retrograd, torch)
        )
        if chosen["strategy"] == "forward-mode" and not isinstance(expected[0], type):
            found, expected = without_flags(found), without_flags(expected)
        assert_same(found, expected, str(chosen))


def without_flags(shown: Any) -> Any:
    """Without whether results of forward mode require grad: PyTorch says nothing of that."""
    if isinstance(shown[0], np.ndarray):
        return shown[0]
    return tuple(without_flags(part) for part in shown)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_hessians_are_pytorchs(name: str, requires_grad: bool) -> None:
    torch = pytorch()
    for chosen in HESSIAN_OPTIONS:
        found, expected = (
            outcome(
                lambda t: t.autograd.functional.hessian(
                    *setting(t, *NUMBERS[name], requires_grad),
                    **chosen,  # noqa: B023 - called at once
                ),
                t,
            )
            for t in (retrograd, torch)
        )
        forward = chosen["outer_jacobian_strategy"] == "forward-mode"
        if forward and not isinstance(expected[0], type):
            found, expected = without_flags(found), without_flags(expected)
        assert_same(found, expected, str(chosen))


def vectors(torch: Torch, shapes: Any) -> Any:
    def one(shape: tuple[int, ...]) -> Any:
        count = int(np.prod(shape))
        return torch.sin(torch.arange(1.0, count + 1, dtype=torch.float64)).reshape(shape)

    return one(shapes) if not shapes or isinstance(shapes[0], int) else tuple(map(one, shapes))


def shapes_of(x: Any) -> Any:
    return tuple(tuple(t.shape) for t in x) if isinstance(x, tuple) else tuple(x.shape)


@pytest.mark.parametrize("product", ["vjp", "jvp", "vhp", "hvp"])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_products_are_pytorchs(product: str, requires_grad: bool) -> None:
    torch = pytorch()
    functions = NUMBERS if product in ("vhp", "hvp") else {**FUNCTIONS, **NUMBERS}
    for name, function in functions.items():
        for chosen in options(create_graph=[False, True], strict=[False, True]):
            for given in ("fitting", "left out"):

                def call(
                    t: Torch, function: Any = function, given: str = given, chosen: Any = chosen
                ) -> Any:
                    func, point = setting(t, *function, requires_grad)
                    value = func(*point) if isinstance(point, tuple) else func(point)
                    like = value if product == "vjp" else point
                    v = vectors(t, shapes_of(like)) if given == "fitting" else None
                    return getattr(t.autograd.functional, product)(func, point, v, **chosen)

                found, expected = (outcome(call, t) for t in (retrograd, torch))
                assert_same(found, expected, f"{name} {chosen} {given}")


def test_recording_outside_does_not_matter() -> None:
    torch = pytorch()
    text, points = "lambda x, y: (x ** 2 * y.exp()).sum()", [A, B]
    for create_graph in (False, True):
        for name in ("jacobian", "hessian", "vjp", "vhp", "hvp", "jvp"):

            def call(t: Torch, name: str = name, create_graph: bool = create_graph) -> Any:
                func, point = setting(t, text, points, True)
                v = () if name in ("jacobian", "hessian", "vjp") else (vectors(t, ((3,), (3,))),)
                with t.no_grad():
                    return getattr(t.autograd.functional, name)(
                        func, point, *v, create_graph=create_graph
                    )

            found, expected = (outcome(call, t) for t in (retrograd, torch))
            assert_same(found, expected, name)


# -- beside differences ----------------------------------------------------------------------


def differences(func: Any, points: list[Any]) -> np.ndarray[Any, Any]:
    """The Jacobian of the results, all flattened, by all elements of the points."""

    def value(flat: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        tensors, begin = [], 0
        for p in points:
            size = np.size(p)
            tensors.append(retrograd.tensor(flat[begin : begin + size]).reshape(np.shape(p)))
            begin += size
        found = func(*tensors)
        found = found if isinstance(found, tuple) else (found,)
        return np.concatenate([y.detach().numpy().reshape(-1) for y in found])

    start = np.concatenate([np.reshape(p, -1) for p in points]).astype(float)
    columns = []
    for k in range(start.size):
        step = np.zeros_like(start)
        step[k] = 1e-6
        columns.append((value(start + step) - value(start - step)) / 2e-6)
    return np.stack(columns, axis=1)


def as_matrix(blocks: Any, func: Any, points: list[Any]) -> np.ndarray[Any, Any]:
    """A Jacobian in blocks as one matrix."""
    value = func(*[retrograd.tensor(p, dtype=retrograd.float64) for p in points])
    blocks = blocks if isinstance(value, tuple) else (blocks,)
    blocks = [row if len(points) > 1 else (row,) for row in blocks]
    sizes = [np.size(p) for p in points]
    rows = [
        np.concatenate([b.numpy().reshape(-1, n) for b, n in zip(row, sizes, strict=True)], 1)
        for row in blocks
    ]
    return np.concatenate(rows)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "nothing recorded"])
@pytest.mark.parametrize(
    "chosen",
    [{}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}],
    ids=["rows", "all rows", "all columns"],
)
def test_jacobians_are_limits_of_differences(name: str, chosen: dict[str, Any]) -> None:
    text, points = FUNCTIONS[name]
    func, point = setting(retrograd, text, points, False)
    found = functional.jacobian(func, point, **chosen)
    expected = differences(func, points)
    matrix = as_matrix(detached(found), func, points)
    np.testing.assert_allclose(matrix, expected, rtol=1e-7, atol=1e-8)


def detached(tree: Any) -> Any:
    return tuple(map(detached, tree)) if isinstance(tree, tuple) else tree.detach()


@pytest.mark.parametrize("name", [n for n in NUMBERS if n not in ("nothing recorded",)])
def test_hessians_and_their_products_are_limits_of_differences(name: str) -> None:
    text, points = NUMBERS[name]
    func, point = setting(retrograd, text, points, False)
    several = isinstance(point, tuple)

    def gradient(*args: Any) -> Any:
        _, found = functional.vjp(lambda *a: func(*a).sum(), args)
        return found

    expected = differences(gradient, points)
    for chosen in (
        {}, {"vectorize": True},
        {"vectorize": True, "outer_jacobian_strategy": "forward-mode"},
    ):  # fmt: skip
        found = functional.hessian(func, point, **chosen)
        found = found if several else (found,)
        matrix = as_matrix(found, lambda *a: a, points)
        np.testing.assert_allclose(matrix, expected, rtol=1e-7, atol=1e-8)
    v = vectors(retrograd, shapes_of(point))
    flat = np.concatenate([x.numpy().reshape(-1) for x in (v if several else (v,))])
    for product in (functional.vhp, functional.hvp):
        _, found = product(func, point, v)
        found = np.concatenate([x.numpy().reshape(-1) for x in (found if several else (found,))])
        np.testing.assert_allclose(found, expected @ flat, rtol=1e-6, atol=1e-7)


# -- mistakes --------------------------------------------------------------------------------

MISTAKES = [
    "f.jacobian(torch.sin, [x])",
    "f.jacobian(torch.sin, (x, 1))",
    "f.jacobian(lambda x: 1, x)",
    "f.jacobian(lambda x: (x, 1), x)",
    "f.jacobian(torch.sin, x, strategy='forward')",
    "f.jacobian(torch.sin, x, strategy='forward-mode')",
    "f.hessian(torch.sin, x)",
    "f.hessian(lambda x: (x.sum(), x.sum()), x)",
    "f.hessian(lambda x: x.sum(), x, outer_jacobian_strategy='forward')",
    "f.vjp(torch.sin, x)",
    "f.vjp(torch.sin, x, x[:2])",
    "f.vjp(torch.sin, x, (x, x))",
    "f.vjp(lambda x: (x, x), x, (x,))",
    "f.vjp(lambda x: (x, x), x, (x, x[:1]))",
    "f.vjp(torch.sin, x, 1.0)",
    "f.jvp(torch.sin, x)",
    "f.jvp(torch.sin, x, x[:2])",
    "f.jvp(torch.add, (x, x), (x,))",
    "f.vhp(torch.sin, x, x)",
    "f.vhp(lambda x: x.sum(), x)",
    "f.hvp(lambda x: (x.sum(),), x, x)",
    "f.hvp(lambda x: x.sum(), x, x[:2])",
]


@pytest.mark.parametrize("code", MISTAKES)
def test_mistakes_are_said_as_pytorch_says_them(code: str) -> None:
    torch = pytorch()
    found, expected = (
        outcome(
            lambda t: eval(
                code, {"torch": t, "f": t.autograd.functional, "x": t.tensor([1.0, 2.0, 3.0])}
            ),
            t,
        )
        for t in (retrograd, torch)
    )
    assert isinstance(expected[0], type), expected
    assert found[0] is expected[0]
    assert found[1].startswith(expected[1])


def test_strictness_names_output_and_input() -> None:
    x, y = retrograd.ones(2), retrograd.ones(2)
    words = "Output 1 of the user-provided function is independent of input 0"
    with pytest.raises(RuntimeError, match=words):
        functional.jacobian(lambda x, y: (x * y, y * 2), (x, y), strict=True)


# -- is_grads_batched ------------------------------------------------------------------------


def batched(torch: Torch, text: str, points: list[Any], **named: Any) -> Any:
    func, point = setting(torch, text, points, True)
    inputs = point if isinstance(point, tuple) else (point,)
    outputs = func(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    given = [
        torch.cos(torch.arange(1.0, 4 * y.numel() + 1, dtype=torch.float64)).reshape(4, *y.shape)
        for y in outputs
    ]
    pairs = [(y, g) for y, g in zip(outputs, given, strict=True) if y.requires_grad]
    named = {"allow_unused": True, **named}
    return inputs, torch.autograd.grad(
        [y for y, _ in pairs], inputs, [g for _, g in pairs], is_grads_batched=True, **named
    )


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "nothing recorded"])
def test_batched_gradients_are_pytorchs(name: str) -> None:
    torch = pytorch()
    for named in (
        {}, {"create_graph": True}, {"retain_graph": True},
        {"materialize_grads": True, "allow_unused": None},
    ):  # fmt: skip
        found, expected = (
            outcome(lambda t: batched(t, *FUNCTIONS[name], **named)[1], t)  # noqa: B023
            for t in (retrograd, torch)
        )
        assert_same(found, expected, f"{named}")


def test_batched_gradients_are_those_of_a_loop() -> None:
    x = retrograd.tensor(M, dtype=retrograd.float64, requires_grad=True)
    y = (x @ x.mT).tanh().cumsum(0)
    rows = retrograd.sin(retrograd.arange(1.0, 21.0, dtype=retrograd.float64)).reshape(5, 2, 2)
    (found,) = retrograd.autograd.grad(y, x, rows, is_grads_batched=True, retain_graph=True)
    loop = [retrograd.autograd.grad(y, x, row, retain_graph=True)[0] for row in rows]
    np.testing.assert_allclose(found.numpy(), retrograd.stack(loop).numpy(), rtol=1e-13)


def test_batched_gradients_can_be_differentiated() -> None:
    torch = pytorch()

    def second(t: Torch) -> Any:
        (x,), (g,) = batched(t, "lambda x: x.exp() * x", [A], create_graph=True)
        return t.autograd.grad((g * g).sum(), x)

    assert_same(outcome(second, retrograd), outcome(second, torch))


def test_batched_gradients_are_one_pass_and_own_their_memory() -> None:
    calls = []

    class Watched(retrograd.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            calls.append(tuple(g.shape))
            return g

    x = retrograd.ones(3, requires_grad=True)
    rows = retrograd.eye(3)
    (found,) = retrograd.autograd.grad(Watched.apply(x), x, rows, is_grads_batched=True)
    assert calls == [(3,)]
    found.zero_()
    assert rows.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_mistakes_with_batched_gradients() -> None:
    x = retrograd.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="If `is_grads_batched=True`, we interpret the first"):
        retrograd.autograd.grad(x * 2, x, retrograd.ones(3, 2), is_grads_batched=True)
    with pytest.raises(RuntimeError, match="If `is_grads_batched=True`, we interpret the first"):
        retrograd.autograd.grad((x * 2).sum(), x, is_grads_batched=True)
    with pytest.raises(ValueError, match="Expected all tensors to have the same size"):
        retrograd.autograd.grad(
            [x * 2, x * 3], x, [retrograd.ones(3, 3), retrograd.ones(2, 3)], is_grads_batched=True
        )
    assert retrograd.autograd.grad(x * 2, x, retrograd.ones(2, 3), is_grads_batched=True)
