"""Iterative solutions of linear equations, and their derivatives, beside dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.func import hessian, jacfwd, jacrev, vmap
from retrograd.optimize import cg, gmres

pytestmark = pytest.mark.filterwarnings("ignore:Backwards compatibility")
MATRIX = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]])


def tensor(x: Any, **options: Any) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float64, **options)


@pytest.mark.parametrize("solver", [cg, gmres])
def test_matrices_sparse_matrices_and_functions(solver: Any) -> None:
    b = tensor([1.0, 2.0, 3.0])
    values = tensor(MATRIX[MATRIX != 0])
    indices = np.stack(np.nonzero(MATRIX))
    dense = lambda v: torch.sparse_coo_tensor(indices, v, (3, 3)).to_dense()
    forms = {
        "dense": lambda v, b: solver(dense(v), b),
        "sparse": lambda v, b: solver(torch.sparse_coo_tensor(indices, v, (3, 3)), b),
        "args": lambda v, b: solver(lambda x, v: dense(v) @ x, b, args=(v,)),
        "closure": lambda v, b: solver(lambda x: dense(v) @ x, b),
    }
    exact = lambda v, b: torch.linalg.solve(dense(v), b)
    for name, f in forms.items():
        np.testing.assert_allclose(f(values, b), exact(values, b), rtol=1e-8, err_msg=name)
        for k in (0, 1):
            for transform in (jacrev, jacfwd):
                np.testing.assert_allclose(transform(f, k)(values, b),
                                           transform(exact, k)(values, b), atol=1e-8)  # fmt: skip
    second = lambda f: hessian(lambda v: (f(v, b) ** 2).sum())(values)
    np.testing.assert_allclose(second(forms["sparse"]), second(exact), atol=1e-6)
    inputs = (values.clone().requires_grad_(), b.clone().requires_grad_())
    assert gradcheck(forms["dense"], inputs, check_forward_ad=True)
    assert gradgradcheck(forms["dense"], inputs)
    batch = tensor([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]])
    np.testing.assert_allclose(vmap(lambda b: forms["closure"](values, b))(batch),
                               vmap(lambda b: exact(values, b))(batch), atol=1e-8)  # fmt: skip


def test_preconditioners_and_failures() -> None:
    a, b = tensor(np.diag(np.logspace(0, 6, 40))), torch.ones(40, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="cg: no convergence after 3 iterations"):
        cg(a, b, maxiter=3)
    scaled = cg(a, b, maxiter=3, M=lambda r: r / np.logspace(0, 6, 40))
    np.testing.assert_allclose(scaled, 1 / a.diagonal(), rtol=1e-9)
    with pytest.raises(TypeError, match="expected b to be a Tensor with one dimension"):
        gmres(a, a)
    with pytest.raises(TypeError, match="expected A to be a matrix"):
        gmres("A", b)
    with pytest.raises(ValueError, match="as many numbers as there are unknowns"):
        gmres(lambda x: x[:2], b)
