"""Tangents that follow from what an operation declares about itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd.func import jvp, vjp
from retrograd.ops._operation import (
    TABLE,
    MatrixFunction,
    Operation,
    elementwise,
    linear,
    undifferentiable,
)


@contextmanager
def declared(operation: Operation) -> Iterator[Any]:
    """An operation that is in the table for the time of a test."""
    try:
        yield operation
    finally:
        del TABLE[operation.name]


def both_modes_agree(function: Any, x: Any, t: Any) -> Any:
    """The tangent of ``function``, if gradients say the same about it."""
    result, tangent = jvp(function, (x,), (t,))
    g = torch.randn_like(result)
    (gradient,) = vjp(function, x)[1](g)
    products = [(a.conj() * b).real.sum().item() for a, b in ((g, tangent), (gradient, t))]
    assert products[0] == pytest.approx(products[1], rel=1e-10)
    return tangent


def test_number_that_a_linear_operation_writes_does_not_move() -> None:
    def forward(self: Any, value: float) -> Any:
        return np.concatenate([self, np.full(1, value)])

    operation = linear("ended_by", forward, lambda g: g[:-1], offset="value")
    with declared(operation) as ended_by:
        x, t = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
        result, tangent = jvp(lambda x: ended_by(x, value=5.0), (x,), (t,))
        assert result.tolist() == [1.0, 2.0, 5.0]
        assert tangent.tolist() == [3.0, 4.0, 0.0]


def test_matrix_function_takes_tangents_through_its_rule() -> None:
    operation = MatrixFunction(
        "squared_matrix", lambda self: self @ self, inputs=("self",),
        rules={"self": lambda g, self: g @ self.swapaxes(-2, -1) + self.swapaxes(-2, -1) @ g},
    )  # fmt: skip
    with declared(operation) as squared:
        A, t = (torch.randn(2, 3, 3, dtype=torch.float64) for _ in range(2))
        tangent = both_modes_agree(squared, A, t)
        np.testing.assert_allclose(tangent.numpy(), (A @ t + t @ A).numpy(), rtol=1e-12)


def test_symmetric_jacobian_takes_tangents_through_the_rule() -> None:
    operation = Operation(
        "times_its_square", lambda self: self * (self * self).sum(), inputs=("self",),
        rules={"self": lambda g, self: g * (self * self).sum() + 2 * self * (self * g).sum()},
        symmetric=True, reason="each result depends on all elements",
    )  # fmt: skip
    with declared(operation) as scaled:
        x = torch.tensor([1.0, 2.0], dtype=torch.float64)
        t = torch.tensor([1.0, -1.0], dtype=torch.float64)
        assert both_modes_agree(scaled, x, t).tolist() == [3.0, -9.0]


def test_elementwise_operation_that_is_not_complex_differentiable() -> None:
    operation = elementwise(
        "times_its_size", lambda self: self * abs(self) ** 2,
        lambda g, self: 2 * (self * self.conj()) * g + self * self * g.conj(), adjoint=True,
    )  # fmt: skip
    with declared(operation) as scaled:
        z, t = (torch.randn(4, dtype=torch.complex128) for _ in range(2))
        tangent = both_modes_agree(scaled, z, t)
        expected = 2 * (z * z.conj()) * t + z * z * t.conj()
        np.testing.assert_allclose(tangent.numpy(), expected.numpy(), rtol=1e-12)


def test_operation_without_derivative_raises_in_both_modes() -> None:
    error = RuntimeError("derivative for lost is not implemented")
    with declared(undifferentiable("lost", lambda self: self * 1, error)) as lost:
        x = torch.ones(2, requires_grad=True)
        result = lost(x)
        assert result.requires_grad
        with pytest.raises(RuntimeError, match="derivative for lost is not implemented"):
            result.sum().backward()
        with pytest.raises(RuntimeError, match="derivative for lost is not implemented"):
            jvp(lost, (torch.ones(2),), (torch.ones(2),))


def test_frexp_near_the_largest_number() -> None:
    x = torch.tensor([3e38], requires_grad=True)
    torch.frexp(x).mantissa.sum().backward()
    _, tangent = jvp(lambda x: torch.frexp(x).mantissa, (x.detach(),), (torch.ones(1),))
    assert x.grad.tolist() == tangent.tolist() == [2.0**-128]
