"""The order in which saved_tensors_hooks are called, and what they unpack, beside PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
from _side_by_side import outcome

import retrograd

PROGRAM = """
a = torch.tensor([1.0], requires_grad=True)
b = torch.tensor([2.0], requires_grad=True)
packed, unpacked = [], []
def pack(x):
    packed.append(x.tolist())
    return x
def unpack(x):
    unpacked.append(x.tolist())
    return x
with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
    y = EXPRESSION
y.sum().backward()
packed, unpacked, a.grad, b.grad
"""
COPIES = """
x = torch.ones(2, requires_grad=True)
with torch.autograd.graph.HOOKS:
    z = x * x
saved = z.grad_fn._saved_self
(saved * saved).sum().backward()
saved, saved.is_leaf, saved is x, x.grad, saved.grad, z.sum().backward(), x.grad
"""


@pytest.mark.parametrize(
    "code",
    ["a * b", "(a * 3) * b", "a / b", "a ** b", "a @ b", "torch.addcmul(a, a, b)",
     "torch.where(a > 0, a, b)", "torch.atan2(a, b)", "torch.lerp(a, b, a)", "a.exp() * b",
     "torch.outer(a, b)"],
)  # fmt: skip
def test_order_of_hooks(torch: Any, code: str) -> None:
    program = PROGRAM.replace("EXPRESSION", code)
    assert outcome(retrograd, program) == outcome(torch, program)


@pytest.mark.parametrize(
    "hooks", ["saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t)", "save_on_cpu()"]
)
def test_an_unpacked_leaf_is_a_leaf(torch: Any, hooks: str) -> None:
    program = COPIES.replace("HOOKS", hooks)
    assert outcome(retrograd, program) == outcome(torch, program)


def test_second_gradient_through_unpacked_leaves() -> None:
    x = retrograd.tensor([2.0], requires_grad=True)
    with retrograd.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        y = x**3
        (first,) = retrograd.autograd.grad(y, x, create_graph=True)
        (second,) = retrograd.autograd.grad(first, x)
    assert (first.item(), second.item()) == (12.0, 12.0)
