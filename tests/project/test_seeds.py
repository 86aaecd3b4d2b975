"""The programs of the five notes this library was made from, as they stand there.

A program printed in a note is copied to the letter (blanks at the ends of lines apart), and so is
what the note says it prints. Each runs on retrograd, with ``import retrograd as torch`` in place of
``import torch``, and unchanged on PyTorch, which shows that the notes and PyTorch agree.
"""

from __future__ import annotations

import contextlib
import importlib
import io
from typing import Any

import pytest


@pytest.fixture(params=["retrograd", "torch"])
def library(request: pytest.FixtureRequest) -> str:
    if request.param == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed: nothing to compare with")
    name: str = request.param
    return name


@pytest.fixture
def torch(library: str) -> Any:
    return importlib.import_module(library)


def printed_by(program: str, library: str, namespace: dict[str, Any]) -> str:
    """What a program prints; of an error that ends it, the message."""
    if library != "torch":
        program = program.replace("import torch", f"import {library} as torch")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            exec(compile(program, "program.py", "exec"), namespace)
        except Exception as error:
            output.write(f"{type(error).__name__}: {error}\n")  # without our hints
    return output.getvalue()


# -- programs that a note prints, with what it says they print --------------------------------

NOTE_000 = [
    (
        """\
import torch
z = torch.tensor([1.0, 3.0], requires_grad=True)
y = z**2
l = y.sum()
print(z)
print(y)
print(l)
""",
        """\
tensor([1., 3.], requires_grad=True)
tensor([1., 9.], grad_fn=<PowBackward0>)
tensor(10., grad_fn=<SumBackward0>)
""",
    ),
    (
        """\
gradient_tensors = torch.tensor([1.0, 1.0])
torch.autograd.backward(tensors = y, grad_tensors = gradient_tensors)
print(z.grad)
""",
        """\
tensor([2., 6.])
""",
    ),
    (
        """\
import torch
z1 = torch.tensor([1.0, 3.0], requires_grad=True)
y1 = z1**2
l = y1.sum()
l.backward()
print(z1.grad)
""",
        """\
tensor([2., 6.])
""",
    ),
]

NOTE_002 = [
    (
        """\
import torch
x = torch.arange(-8.0, 8.0, 0.1, requires_grad=True)
y = torch.relu(x)
y.backward(torch.ones_like(x), retain_graph=True)
""",
        "",
    ),
    (
        """\
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x*x
y.backward()
""",
        """\
RuntimeError: grad can be implicitly created only for scalar outputs
""",
    ),
]

NOTE_004_1 = [
    (
        """\
import torch

x = torch.ones(2, 2, requires_grad=True)
y = x + 2
z = y * y * 3
out = z.mean()

print(x)
print(y)
print(z)
print(out)

out.backward()
print(x.grad)
""",
        """\
tensor([[1., 1.],
        [1., 1.]], requires_grad=True)
tensor([[3., 3.],
        [3., 3.]], grad_fn=<AddBackward0>)
tensor([[27., 27.],
        [27., 27.]], grad_fn=<MulBackward0>)
tensor(27., grad_fn=<MeanBackward0>)
tensor([[4.5000, 4.5000],
        [4.5000, 4.5000]])
""",
    ),
]

NOTE_004_2 = [
    (
        """\
import torch

x = torch.ones(2, 2, requires_grad=True)
y = x + 2
z = y * y * 3
out = z.mean()

print(x)
print(y)
print(z)
print(out)


gradients = torch.tensor([[0.1, 1.0], [1.0,1.0]], dtype=torch.float)
z.backward(gradients,retain_graph=True)
print(x.grad)

out.backward()
print(x.grad)
""",
        """\
tensor([[1., 1.],
        [1., 1.]], requires_grad=True)
tensor([[3., 3.],
        [3., 3.]], grad_fn=<AddBackward0>)
tensor([[27., 27.],
        [27., 27.]], grad_fn=<MulBackward0>)
tensor(27., grad_fn=<MeanBackward0>)
tensor([[ 1.8000, 18.0000],
        [18.0000, 18.0000]])
tensor([[ 6.3000, 22.5000],
        [22.5000, 22.5000]])
""",
    ),
]

PRINTED = {"000": NOTE_000, "002": NOTE_002, "004, 1": NOTE_004_1, "004, 2": NOTE_004_2}


@pytest.mark.parametrize("note", PRINTED)
def test_prints_what_the_note_prints(note: str, library: str) -> None:
    namespace: dict[str, Any] = {}
    for program, expected in PRINTED[note]:
        assert printed_by(program, library, namespace) == expected


# -- 000: the three arguments of backward ------------------------------------------------------


def test_inputs_restrict_what_is_accumulated(torch: Any) -> None:
    a, b = (torch.tensor(v, requires_grad=True) for v in ([1.0, 3.0], [2.0, 5.0]))
    torch.autograd.backward(tensors=(a * b).sum(), inputs=[a])
    assert a.grad.tolist() == [2.0, 5.0]
    assert b.grad is None
    edge = torch.autograd.graph.get_gradient_edge(b)
    torch.autograd.backward(tensors=(a * b).sum(), inputs=[edge])
    assert a.grad.tolist() == [2.0, 5.0]
    assert b.grad.tolist() == [1.0, 3.0]


def test_stages_of_a_pipeline_add_up_to_the_whole(torch: Any) -> None:
    def parameters() -> list[Any]:
        return [torch.tensor(v, requires_grad=True) for v in ([1.0, 3.0], [0.5, -2.0], [2.0, 1.0])]

    w = parameters()
    (((w[0] ** 2) * w[1]).sin() * w[2]).sum().backward()

    p = parameters()
    first_out = p[0] ** 2
    second_in = first_out.detach().requires_grad_()
    second_out = (second_in * p[1]).sin()
    third_in = second_out.detach().requires_grad_()
    (third_in * p[2]).sum().backward()
    torch.autograd.backward(tensors=(second_out,), grad_tensors=(third_in.grad,))
    torch.autograd.backward(tensors=(first_out,), grad_tensors=(second_in.grad,))
    assert [x.grad.tolist() for x in p] == [x.grad.tolist() for x in w]


# -- 001: the graph, Functions and training -----------------------------------------------------


def test_graph_of_the_lambda(torch: Any) -> None:
    a = torch.tensor([2.0, 3.0], requires_grad=True)
    b = torch.tensor([6.0, 4.0], requires_grad=True)
    M = lambda x, y: 3*x**3 - y**2  # fmt: skip
    out = M(a, b)

    edges, to_visit = [], [out.grad_fn]
    while to_visit:
        node = to_visit.pop(0)
        for n, number in node.next_functions:
            edges.append((node.name(), n.name() if n else None, number))
            if n is not None:
                to_visit.append(n)
    assert edges == [
        ("SubBackward0", "MulBackward0", 0),
        ("SubBackward0", "PowBackward0", 0),
        ("MulBackward0", "PowBackward0", 0),
        ("MulBackward0", None, 0),
        ("PowBackward0", "torch::autograd::AccumulateGrad", 0),
        ("PowBackward0", "torch::autograd::AccumulateGrad", 0),
    ]
    assert a.grad_fn is None
    assert out.grad_fn.next_functions[1][0].next_functions[0][0].variable is b

    init_gradient = torch.tensor([1.0, 10.0])
    out.backward(gradient = init_gradient)  # fmt: skip
    assert a.grad.tolist() == [9 * 2.0**2, 10 * 9 * 3.0**2]
    assert b.grad.tolist() == [-2 * 6.0, 10 * -2 * 4.0]


def test_exp_function(torch: Any) -> None:
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, i: Any) -> Any:
            result = i.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (result,) = ctx.saved_tensors
            return grad_output * result

    x = torch.tensor([0.0, 1.0], dtype=torch.float64, requires_grad=True)
    y = Exp.apply(x)
    assert y.grad_fn.name() == "ExpBackward"
    assert isinstance(y.grad_fn, torch.autograd.graph.Node)
    (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert slope.tolist() == pytest.approx([1.0, 2.718281828459045])
    slope.sum().backward()
    assert x.grad.tolist() == pytest.approx([1.0, 2.718281828459045])


def test_intermediate_results_keep_no_gradient(torch: Any) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.sum().backward()
    with pytest.warns(UserWarning, match="not a leaf Tensor"):
        assert y.grad is None
    assert x.grad.tolist() == [2.0, 2.0]


def test_the_graph_is_gone_after_backward(torch: Any) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    loss = (x * x).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()
    (x * x).sum().backward()
    assert x.grad.tolist() == [4.0, 8.0]


def test_training_by_hand(torch: Any) -> None:
    p, lr = torch.tensor([0.0], requires_grad=True), 0.25
    losses = []
    for _ in range(4):
        loss = ((p - 2) ** 2).sum()
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            p = p - lr * p.grad
        p.requires_grad_()
    assert losses == [4.0, 1.0, 0.25, 0.0625]
    assert p.item() == 1.875


# -- 002: products with the Jacobian, without the Jacobian -------------------------------------


def test_relu_slopes(torch: Any) -> None:
    x = torch.arange(-8.0, 8.0, 0.1, requires_grad=True)
    y = torch.relu(x)
    y.backward(torch.ones_like(x), retain_graph=True)
    assert x.shape == (160,)
    assert x.grad.tolist() == [1.0 if v > 0 else 0.0 for v in x.tolist()]
    y.backward(2 * torch.ones_like(x))  # the graph was retained
    assert x.grad.tolist() == [3.0 if v > 0 else 0.0 for v in x.tolist()]


def test_backward_is_the_transposed_jacobian_times_the_vector(torch: Any) -> None:
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    y = torch.stack([x[0] * x[1], x[1] * x[2] ** 2])
    jacobian = torch.stack(
        [torch.autograd.grad(y, x, row, retain_graph=True)[0] for row in torch.eye(2).double()]
    )
    assert jacobian.tolist() == [[2.0, 1.0, 0.0], [0.0, 9.0, 12.0]]
    v = torch.tensor([3.0, 0.5], dtype=torch.float64)
    y.backward(v)
    assert x.grad.tolist() == (jacobian.T @ v).tolist() == [6.0, 7.5, 6.0]


# -- 003: worked examples ------------------------------------------------------------------------

CIRCUIT_FORWARD = """\
s0 = w0 * x0
s1 = w1 * x1
s2 = s0 + s1
s3 = s2 + w2
L = sigmoid(s3)
"""

CIRCUIT_BACKWARD = """\
grad_L = 1.0
grad_s3 = grad_L * (1 - L) * L
grad_w2 = grad_s3
grad_s2 = grad_s3
grad_s0 = grad_s2
grad_s1 = grad_s2
grad_w1 = grad_s1 * x1
grad_x1 = grad_s1 * w1
grad_w0 = grad_s0 * x0
grad_x0 = grad_s0 * w0
"""


def test_sigmoid_circuit(torch: Any) -> None:
    values = {"w0": 2.0, "x0": -1.0, "w1": -3.0, "x1": -2.0, "w2": -3.0}
    circuit = {
        n: torch.tensor(v, dtype=torch.float64, requires_grad=True) for n, v in values.items()
    }
    leaves = dict(circuit)
    circuit["sigmoid"] = torch.sigmoid
    exec(CIRCUIT_FORWARD, circuit)
    exec(CIRCUIT_BACKWARD, circuit)
    circuit["L"].backward()
    by_hand = {n: circuit[f"grad_{n}"].item() for n in leaves}
    assert {n: leaf.grad.item() for n, leaf in leaves.items()} == pytest.approx(by_hand, rel=1e-12)
    slope = 0.7310585786300049 * (1 - 0.7310585786300049)
    assert by_hand == pytest.approx(
        {"w0": -slope, "x0": 2 * slope, "w1": -2 * slope, "x1": -3 * slope, "w2": slope}
    )


def test_slope_of_sigmoid(torch: Any) -> None:
    x = torch.linspace(-4, 4, 9, dtype=torch.float64, requires_grad=True)
    spelled_out, built_in = 1 / (1 + torch.exp(-x)), torch.sigmoid(x)
    assert spelled_out.tolist() == pytest.approx(built_in.tolist(), rel=1e-14)
    expected = ((1 - built_in) * built_in).tolist()
    for y in (spelled_out, built_in):
        (slope,) = torch.autograd.grad(y.sum(), x)
        assert slope.tolist() == pytest.approx(expected, rel=1e-12)


def test_relu_passes_gradients_on_where_x_is_positive(torch: Any) -> None:
    x = torch.tensor([1.0, -2.0, 3.0, -1.0, 0.0], requires_grad=True)
    upstream = torch.tensor([4.0, -1.0, 5.0, 9.0, 7.0])
    torch.relu(x).backward(upstream)
    assert x.grad.tolist() == [4.0, 0.0, 5.0, 0.0, 0.0]


def test_matrix_product(torch: Any) -> None:
    x = torch.tensor([[2.0, 1, -3], [3, 4, 2]], requires_grad=True)
    w = torch.tensor([[3.0, 2, 1, -1], [2, 1, 3, 2], [3, 2, 1, -2]], requires_grad=True)
    y = x @ w
    assert y.tolist() == [[-1, -1, 2, 6], [23, 14, 17, 1]]  # 2x4; the note's 4x4 is a slip
    upstream = torch.tensor([[2.0, 3, -3, 9], [-8, 1, 4, 6]])
    y.backward(upstream)
    assert x.grad.tolist() == (upstream @ w.T).tolist() == [[0, 16, -9], [-24, 9, -30]]
    expected = [[-20, 9, 6, 36], [-30, 7, 13, 33], [-22, -7, 17, -15]]
    assert w.grad.tolist() == (x.T @ upstream).tolist() == expected


def test_chain_of_jacobians(torch: Any) -> None:
    """Equation (3): y = D(C(B(A(x)))), and its gradient is the product of four Jacobians."""
    weights = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]], dtype=torch.float64)
    stages = [
        lambda x: x * x.sum(),
        lambda a: (weights @ a).sin(),
        lambda b: torch.stack([b[0] * b[1], b[1].exp(), b[0] - b[1]]),
        lambda c: (c * c).sum().reshape(1),
    ]
    x = torch.tensor([0.3, -0.7, 1.1], dtype=torch.float64)
    product, value = torch.eye(3, dtype=torch.float64), x
    for stage in stages:
        value = value.detach().requires_grad_()
        output = stage(value)
        rows = [
            torch.autograd.grad(output, value, row, retain_graph=True)[0]
            for row in torch.eye(output.shape[0], dtype=torch.float64)
        ]
        product, value = torch.stack(rows) @ product, output
    x.requires_grad_()
    y = x
    for stage in stages:
        y = stage(y)
    y.backward()
    assert x.grad.tolist() == pytest.approx(product[0].tolist(), rel=1e-12)


def test_derivatives_of_any_order(torch: Any) -> None:
    x = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    y, orders = torch.exp(2 * x), []
    for _ in range(6):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
        orders.append(y.item())
    e = 2.718281828459045
    assert orders == pytest.approx([2**n * e for n in range(1, 7)], rel=1e-12)


def test_second_derivative_of_a_composition(torch: Any) -> None:
    """Equation (12) for numbers: one term for each function, differentiated twice, times the
    slopes of all that come after it and the squared slopes of all before it."""
    functions = [torch.sin, torch.exp, lambda t: t**3, torch.tanh]
    at, firsts, seconds = 0.4, [], []
    for f in functions:
        t = torch.tensor(at, dtype=torch.float64, requires_grad=True)
        value = f(t)
        (first,) = torch.autograd.grad(value, t, create_graph=True)
        (second,) = torch.autograd.grad(first, t)
        firsts.append(first.item())
        seconds.append(second.item())
        at = value.item()
    expected = 0.0
    for k, second in enumerate(seconds):
        term = second
        for slope in firsts[:k]:
            term *= slope**2
        for slope in firsts[k + 1 :]:
            term *= slope
        expected += term

    x = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    y = x
    for f in functions:
        y = f(y)
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    assert second.item() == pytest.approx(expected, rel=1e-12)


# -- 004: accumulation -------------------------------------------------------------------------


def test_an_integer_one_is_the_gradient_of_a_number(torch: Any) -> None:
    x = torch.ones(2, 2, requires_grad=True)
    ((x + 2) ** 2 * 3).mean().backward(torch.tensor(1))
    assert x.grad.tolist() == [[4.5, 4.5], [4.5, 4.5]]


def test_gradients_are_cleared_by_none(torch: Any) -> None:
    x = torch.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]
    x.grad = None
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
