"""Integers and booleans are constants, whatever they were computed from.

The function of every test below multiplies x by a constant that it gets from x by way of integers:
the gradient by x is that constant, and the derivative of the conversion plays no part.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd

VALUES = [2.6, 1.5]


def cast(torch: Any, x: Any) -> Any:
    return (x.to(torch.int32) * x).sum()


def long(torch: Any, x: Any) -> Any:
    return (x.long() * x).sum()


def type_as(torch: Any, x: Any) -> Any:
    return (x.type_as(torch.zeros(1, dtype=torch.int64)) * x).sum()


def copied(torch: Any, x: Any) -> Any:
    whole = torch.zeros_like(x, dtype=torch.int32)
    whole.copy_(x)
    return (whole * x).sum()


def copied_to_a_view(torch: Any, x: Any) -> Any:
    room = torch.zeros_like(torch.cat([x, x]), dtype=torch.int16)
    room[1:3].copy_(x)
    return (room[1:3] * x).sum()


def assigned(torch: Any, x: Any) -> Any:
    whole = torch.zeros_like(x, dtype=torch.int32)
    whole[0] = x[0]
    whole[1:] = x[1:]
    return (whole * x).sum()


def assigned_by_index(torch: Any, x: Any) -> Any:
    whole = torch.zeros_like(x, dtype=torch.int64)
    whole[torch.tensor([0, 1])] = x.long()
    return (whole * x).sum()


def out_and_back(torch: Any, x: Any) -> Any:
    return (torch.zeros_like(x).copy_(x.int()) * x).sum()


def computed_in_place(torch: Any, x: Any) -> Any:
    whole = x.int()
    whole += 2 * x.int()
    whole.sub_(x.int())
    whole.floor_divide_(2)
    return (whole * x).sum()


def joined(torch: Any, x: Any) -> Any:
    return (torch.cat([x[:1].int(), x[1:].long()]) * x).sum()


def quotient(torch: Any, x: Any) -> Any:
    return (torch.div(x, 1, rounding_mode="floor").to(torch.uint8) * x).sum()


def scattered(torch: Any, x: Any) -> Any:
    whole = torch.zeros_like(x, dtype=torch.int64)
    return (whole.scatter(0, torch.tensor([0, 1]), x.long()) * x).sum()


FUNCTIONS = [
    cast, long, type_as, copied, copied_to_a_view, assigned, assigned_by_index, out_and_back,
    computed_in_place, joined, quotient, scattered,
]  # fmt: skip


def by_backward(torch: Any, f: Callable[[Any], Any], x: Any) -> Any:
    x = x.clone().requires_grad_()
    f(x).backward()
    return x.grad


def by_careful_calls(torch: Any, f: Callable[[Any], Any], x: Any) -> Any:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return by_backward(torch, f, x)


def by_forward_mode(torch: Any, f: Callable[[Any], Any], x: Any) -> Any:
    return torch.stack([torch.func.jvp(f, (x,), (row,))[1] for row in torch.eye(2).to(x.dtype)])


GRADIENTS: list[Callable[..., Any]] = [
    by_backward,
    by_careful_calls,
    by_forward_mode,
    lambda torch, f, x: torch.func.grad(f)(x),
    lambda torch, f, x: torch.func.vjp(f, x)[1](torch.ones_like(x[0]))[0],
    lambda torch, f, x: torch.func.jacrev(f)(x),
    lambda torch, f, x: torch.func.jacfwd(f)(x),
    lambda torch, f, x: torch.func.vmap(torch.func.grad(f))(x[None])[0],
    lambda torch, f, x: torch.func.grad(lambda rows: torch.func.vmap(f)(rows).sum())(x[None])[0],
    lambda torch, f, x: torch.autograd.functional.jacobian(f, x),
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_a_conversion_to_integers_has_no_gradient(
    function: Callable[..., Any], gradient: Callable[..., Any], dtype: str
) -> None:
    x = retrograd.tensor(VALUES, dtype=getattr(retrograd, dtype))
    found = gradient(retrograd, lambda x: function(retrograd, x), x)
    assert found.dtype == x.dtype
    assert found.tolist() == [2.0, 1.0]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_pytorch_agrees(function: Callable[..., Any], pytorch: Any) -> None:
    x = pytorch.tensor(VALUES)
    assert by_backward(pytorch, lambda x: function(pytorch, x), x).tolist() == [2.0, 1.0]


def test_booleans_are_constants() -> None:
    x = retrograd.tensor([0.0, 1.5], requires_grad=True)
    (x.bool() * x).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x.int(),
        lambda x: x.bool(),
        lambda x: x.to(retrograd.uint8, copy=True),
        lambda x: x.view(retrograd.int32),
        lambda x: x.sum(dtype=retrograd.int64),
        lambda x: x.cumsum(0, dtype=retrograd.int64),
        lambda x: retrograd.zeros(2, dtype=retrograd.int32).fill_(x[0]),
        lambda x: retrograd.zeros(2, dtype=retrograd.int32).masked_fill_(x > 2, x[0]),
        lambda x: retrograd.zeros(2, dtype=retrograd.int32).index_fill(
            0, retrograd.tensor([0]), x[0].int()
        ),
    ],
)
def test_integers_require_no_grad(convert: Callable[[Any], Any]) -> None:
    result = convert(retrograd.tensor(VALUES, requires_grad=True))
    assert not result.requires_grad
    assert result.is_leaf
    assert result.grad_fn is None
    assert isinstance(result.numpy(), np.ndarray)
    with pytest.raises(RuntimeError, match="only Tensors of floating point dtype"):
        result.requires_grad_()


def test_nothing_is_saved_for_a_constant() -> None:
    packed = []
    x = retrograd.tensor(VALUES, requires_grad=True)
    with retrograd.autograd.graph.saved_tensors_hooks(packed.append, lambda x: x):
        x.long()
    assert packed == []


class ToInteger(retrograd.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, room: Any) -> Any:
        ctx.mark_dirty(room)
        room.copy_(x)
        return room, x.long(), 2 * x

    @staticmethod
    def backward(ctx: Any, room: Any, whole: Any, doubled: Any) -> Any:
        return 2 * doubled, None


def test_integer_outputs_of_a_function() -> None:
    x = retrograd.tensor(VALUES, requires_grad=True)
    room, whole, doubled = ToInteger.apply(x, retrograd.zeros(2, dtype=retrograd.int32))
    assert [room.requires_grad, whole.requires_grad, doubled.requires_grad] == [False, False, True]
    (room * whole * doubled).sum().backward()
    assert x.grad.tolist() == [8.0, 2.0]
