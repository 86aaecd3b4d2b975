"""Gradients where a formula alone would say NaN: at zeros, ties, infinities and edges of domains.

The values are PyTorch's conventions, written out, so that they hold also where it is not installed;
where it is, they are checked against it as well.
"""

from typing import Any

import numpy as np
import pytest

import retrograd

INF, NAN = float("inf"), float("nan")

# An expression in x (and F, torch), where, and its gradient there.
CASES = [
    ("x.logsumexp(0)", [-INF, 0.0], [0.0, 1.0]),
    ("x.logsumexp(0)", [-INF, -INF], [NAN, NAN]),  # of nothing at all, NaN as in PyTorch
    ("torch.logaddexp(x[0], x[1])", [-INF, 0.0], [0.0, 1.0]),
    ("x.logcumsumexp(0).sum()", [0.0, -INF], [2.0, 0.0]),
    ("F.softplus(x).sum()", [-1000.0, 0.0, 1000.0], [0.0, 0.5, 1.0]),
    ("F.logsigmoid(x).sum()", [-1000.0, 0.0, 1000.0], [1.0, 0.5, 0.0]),
    ("x.sigmoid().sum()", [-1000.0, 1000.0], [0.0, 0.0]),
    ("x.tanh().sum()", [-1000.0, 1000.0], [0.0, 0.0]),
    ("F.gelu(x).sum()", [-1000.0, 0.0, 1000.0], [0.0, 0.5, 1.0]),
    ("F.silu(x).sum()", [-1000.0, 0.0, 1000.0], [0.0, 0.5, 1.0]),
    ("F.mish(x).sum()", [-1000.0, 1000.0], [0.0, 1.0]),
    ("F.elu(x).sum()", [-1000.0, 1000.0], [0.0, 1.0]),
    ("x.norm()", [0.0, 0.0], [0.0, 0.0]),
    ("x.norm(p=1)", [0.0, -2.0], [0.0, -1.0]),
    ("x.norm(p=3)", [0.0, 0.0], [0.0, 0.0]),
    ("x.norm(p=INF)", [2.0, -2.0], [0.5, -0.5]),
    ("torch.linalg.vector_norm(x)", [0.0, 0.0], [0.0, 0.0]),
    ("torch.dist(x, x.detach())", [1.0, 2.0], [0.0, 0.0]),
    ("F.pairwise_distance(x, x.detach(), eps=0.0)", [1.0, 2.0], [0.0, 0.0]),
    ("torch.cdist(x[None], x.detach()[None]).sum()", [1.0, 2.0], [0.0, 0.0]),
    ("F.normalize(x, dim=0).sum()", [0.0, 0.0], [1e12, 1e12]),
    ("(x**0).sum()", [0.0, 2.0], [0.0, 0.0]),
    ("(x**1).sum()", [0.0, 2.0], [1.0, 1.0]),
    ("(x**2).sum()", [0.0, -2.0], [0.0, -4.0]),
    ("(x ** torch.zeros(2, dtype=x.dtype)).sum()", [0.0, 2.0], [0.0, 0.0]),
    ("(torch.zeros(2, dtype=x.dtype) ** x).sum()", [0.0, 2.0], [0.0, 0.0]),
    ("x.xlogy(x).sum()", [0.0, 1.0], [NAN, 1.0]),
    ("torch.xlogy(torch.zeros(2, dtype=x.dtype), x).sum()", [0.0, 2.0], [NAN, 0.0]),
    ("torch.xlogy(x, torch.zeros(2, dtype=x.dtype)).sum()", [0.0, 1.0], [0.0, -INF]),
    ("x.sqrt().sum()", [0.0, 4.0], [INF, 0.25]),
    ("x.abs().sum()", [0.0, -3.0], [0.0, -1.0]),
    ("x.relu().sum()", [0.0, 1.0], [0.0, 1.0]),
    ("F.leaky_relu(x).sum()", [0.0, 1.0], [0.01, 1.0]),
    ("F.hardtanh(x).sum()", [-1.0, 0.0, 1.0], [0.0, 1.0, 0.0]),
    ("x.clamp(-1, 1).sum()", [-1.0, 0.0, 1.0], [1.0, 1.0, 1.0]),
    ("x.max()", [2.0, 2.0, 1.0], [0.5, 0.5, 0.0]),
    ("x.amax()", [2.0, 2.0, 1.0], [0.5, 0.5, 0.0]),
    ("x.max(0).values", [2.0, 2.0, 1.0], [1.0, 0.0, 0.0]),
    ("torch.maximum(x, torch.zeros(2, dtype=x.dtype)).sum()", [0.0, 1.0], [0.5, 1.0]),
    ("x.prod()", [0.0, 2.0, 3.0], [6.0, 0.0, 0.0]),
    ("x.prod()", [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]),
    ("x.cumprod(0).sum()", [0.0, 2.0, 0.0], [3.0, 0.0, 0.0]),
    ("x.std()", [1.0, 1.0], [0.0, 0.0]),
    ("x.var()", [1.0, 1.0], [0.0, 0.0]),
    ("torch.atan2(x[0], x[1])", [0.0, 0.0], [0.0, 0.0]),
    ("torch.hypot(x[0], x[1])", [3.0, 4.0], [0.6, 0.8]),
    ("torch.sinc(x).sum()", [0.0], [0.0]),
    ("x.softmax(0)[0]", [-INF, 0.0], [0.0, 0.0]),
    ("x.log_softmax(0)[0]", [1000.0, 0.0], [0.0, 0.0]),
    ("F.binary_cross_entropy_with_logits(x, torch.ones(2, dtype=x.dtype), reduction='sum')",
     [-1000.0, 1000.0], [-1.0, 0.0]),
    ("F.cross_entropy(x[None], torch.tensor([0]))", [1000.0, -1000.0], [0.0, 0.0]),
    ("torch.where(x > 0, x.sqrt(), torch.zeros(2, dtype=x.dtype)).sum()", [4.0, 1.0], [0.25, 0.5]),
]  # fmt: skip


def gradient(library: Any, expression: str, at: list[float]) -> Any:
    functional = library.nn.functional
    x = library.tensor(at, dtype=library.float64, requires_grad=True)
    value = eval(expression, {"torch": library, "F": functional, "x": x, "INF": INF})
    return library.autograd.grad(value, x)[0].numpy()


@pytest.mark.parametrize(("expression", "at", "expected"), CASES)
def test_gradient_at_a_kink(expression: str, at: list[float], expected: list[float]) -> None:
    np.testing.assert_allclose(gradient(retrograd, expression, at), expected, atol=1e-12)


@pytest.mark.parametrize(("expression", "at", "expected"), CASES)
def test_pytorch_has_the_same_convention(
    expression: str, at: list[float], expected: list[float]
) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the reference to compare with")
    np.testing.assert_allclose(gradient(torch, expression, at), expected, atol=1e-12)


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float64"])
def test_second_derivative_of_a_power_whose_exponent_is_a_tensor_of_zeros(dtype: str) -> None:
    """It is 0 at 0, too, where PyTorch has NaN."""
    x = retrograd.tensor([0.0, 0.0, 0.0, 2.0], dtype=retrograd.float64, requires_grad=True)
    exponent = retrograd.tensor([0, 1, 2, 0]).to(getattr(retrograd, dtype))
    (first,) = retrograd.autograd.grad((x**exponent).sum(), x, create_graph=True)
    assert first.tolist() == [0.0, 1.0, 0.0, 0.0]
    (second,) = retrograd.autograd.grad(first.sum(), x)
    assert second.tolist() == [0.0, 0.0, 2.0, 0.0]
    hessian = retrograd.func.hessian(lambda x: (x**exponent).sum())(x.detach())
    assert hessian.diagonal().tolist() == [0.0, 0.0, 2.0, 0.0]


@pytest.mark.parametrize("reduce", ["amax", "amin"])
@pytest.mark.parametrize("function", ["scatter_reduce", "index_reduce"])
def test_an_element_that_takes_no_part_gets_no_share_of_a_gradient(function: str, reduce: str):
    """The element that is replaced is as large as the result, but does not count."""
    same = retrograd.tensor([-0.5, 2.0, 1.5, 4.0], dtype=retrograd.float64)
    index = retrograd.tensor([0, 1, 2])

    def put(x: Any) -> Any:
        return getattr(same, function)(0, index, x, reduce, include_self=False)

    x = same[:3].clone().requires_grad_()
    (slope,) = retrograd.autograd.grad(put(x).sum(), x)
    assert slope.tolist() == [1.0, 1.0, 1.0]
    retrograd.autograd.gradcheck(put, x, check_forward_ad=True)
    same.requires_grad_()
    (of_self,) = retrograd.autograd.grad(put(x).sum(), same)
    assert of_self.tolist() == [0.0, 0.0, 0.0, 1.0]
