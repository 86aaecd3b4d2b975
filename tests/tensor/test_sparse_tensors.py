"""Sparse tensors of any number of dimensions: what PyTorch prints, and its gradients."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.autograd import gradcheck

# `s`: a matrix with an entry that is repeated; `c`: the same, coalesced; `h`: with a dense
# dimension; `n`: of three sparse dimensions; `r`: row by row; `d`: dense.
EXPRESSIONS = """
s
c
h
n
r
c.double()
torch.sparse_coo_tensor((2, 3))
torch.sparse_coo_tensor(torch.empty(2, 0, dtype=torch.int64), torch.empty(0, 4), (2, 3, 4))
torch.sparse_coo_tensor(I, [3, 4, 5], (2, 3), dtype=torch.float64, requires_grad=True)
torch.sparse_coo_tensor(I, torch.tensor([3.0, 4.0, 5.0], requires_grad=True), (2, 3))
torch.sparse_coo_tensor(I, [1 + 2j, 0, 3])
(s.sparse_dim(), s.dense_dim(), s._nnz(), s.dim(), s.shape, s.numel(), s.is_sparse, len(s))
(h.sparse_dim(), h.dense_dim(), h._nnz(), h.shape, str(h.layout), h.dtype)
h.layout == torch.sparse_coo, h.layout == torch.sparse_csr
(r.layout == torch.sparse_csr, r.is_sparse, r.is_sparse_csr)
[x.is_coalesced() for x in (s, c, s * 2, c + c, c.t(), c * c, s.clone(), -s)]
torch.sparse.sum(s, 1).is_coalesced()
c.indices(), c.values(), s._indices(), s._values()
s.to_dense(), h.to_dense(), n.to_dense(), r.to_dense()
c + c
c + c.t().t().coalesce() * 2
c - u
torch.add(c, u, alpha=3)
s * 2
2 * c
c / 2
torch.div(c, 3, rounding_mode="floor")
-s
c * u
c.mul(d)
d * c
torch.mul(d, c)
h * torch.full((2, 3, 2), 2.0)
d + s
d - s
torch.add(d, s, alpha=2)
c ** 2
c.abs(), torch.sin(c), torch.relu(-c), torch.sqrt(s), c.sign(), torch.tanh(n), n.square()
s.t()
n.transpose(0, 2)
n[1]
n[1, 0]
n[1, 0, 1]
h[1]
n.select(1, 1)
c.index_select(0, torch.tensor([1, 0, 1]))
s.unsqueeze(0)
torch.cat([c, c])
torch.cat([c, u], 1).to_dense()
torch.stack([c, u])
s @ torch.ones(3), s.matmul(d.t()), torch.mm(s, d.t()), torch.matmul(d.t(), s)
torch.mv(s, torch.ones(3))
torch.sparse.mm(s, s.t())
c @ u.t()
torch.addmm(torch.ones(2, 2), s, d.t(), beta=2, alpha=3)
torch.sparse.addmm(torch.ones(2, 2), s, d.t(), beta=2, alpha=3)
torch.bmm(n, torch.ones(2, 2, 2))
torch.sparse.softmax(s, 0), torch.sparse.softmax(s, 1), torch.sparse.log_softmax(s, -1)
torch.sparse.softmax(n, 1), torch.sparse.log_softmax(h, 0), torch.sparse.softmax(h, 2)
torch.sparse.softmax(s, 1, dtype=torch.float64)
torch.sparse.sum(s), torch.sparse.sum(s, 0), torch.sparse.sum(s, (0, 1)), s.sum(1), torch.sum(s)
torch.sparse.sum(h, 2), torch.sparse.sum(h, (0, 1)), torch.sparse.sum(h, (1, 2))
torch.sparse.sum(n, 1)
torch.sparse.sum(s, dtype=torch.float64)
d.sparse_mask(c)
d.sparse_mask(s)
torch.arange(8.0).reshape(2, 2, 2).to_sparse()
torch.arange(8.0).reshape(2, 2, 2).to_sparse(2)
torch.arange(8.0).reshape(2, 2, 2).to_sparse(1)
d.to_sparse(layout=torch.sparse_csr)
c.norm(), c.norm(1), c.to(torch.float64), c.long(), c.detach(), c.clone()
r * 2
r + r
r.t()
r.to_sparse_coo()
r @ torch.ones(3, 1)
c.to_sparse_csr()
torch.sparse.sampled_addmm(r, torch.ones(2, 4), torch.ones(4, 3), beta=2, alpha=0.5)
"""


def names(lib: Any) -> dict[str, Any]:
    """The tensors that expressions are about, for one of the libraries."""
    places = lib.tensor([[0, 1, 1, 1], [2, 0, 2, 0]])
    s = lib.sparse_coo_tensor(places, lib.tensor([3.0, 4.0, 5.0, 0.5]), (2, 3))
    return {
        "torch": lib,
        "I": lib.tensor([[0, 1, 1], [2, 0, 2]]),
        "s": s,
        "c": s.coalesce(),
        "u": lib.sparse_coo_tensor([[0, 0], [0, 2]], [1.5, -2.0], (2, 3)).coalesce(),
        "h": lib.sparse_coo_tensor(places, lib.arange(8.0).reshape(4, 2), (2, 3, 2)),
        "n": lib.sparse_coo_tensor([[1, 0, 1], [0, 1, 1], [1, 0, 1]], [1.0, 2.0, 3.0], (2, 2, 2)),
        "r": s.to_sparse_csr(),
        "d": lib.arange(6.0).reshape(2, 3),
    }


@pytest.mark.parametrize("expression", EXPRESSIONS.strip().splitlines())
def test_prints_what_pytorch_prints(torch: Any, expression: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, of a beta state
        ours, theirs = (repr(eval(expression, names(lib))) for lib in (retrograd, torch))
    assert ours == theirs


LOSSES = """
(x.to_dense() ** 2).sum()
(x.coalesce().values() ** 2).sum()
(torch.sparse.mm(x, d.t()) ** 2).sum()
(torch.sparse.softmax(x, 1).to_dense() * d).sum()
(torch.sparse.log_softmax(x, 0).to_dense() * d).sum()
(torch.sparse.sum(x, 1).to_dense() ** 2).sum()
((x + x).to_dense() * d).sum()
((x * x).to_dense() * d).sum()
(torch.sparse.addmm(torch.ones(2, 2), x, d.t()) ** 2).sum()
(torch.sparse.mm(x, x.t()).to_dense() ** 2).sum()
"""


@pytest.mark.parametrize("loss", LOSSES.strip().splitlines())
def test_gradients(torch: Any, loss: str) -> None:
    """The same gradient as PyTorch gives, by the values and of a sparse leaf; and the right one."""
    found = []
    for lib in (retrograd, torch):
        given = names(lib)
        values = given["s"]._values().clone().requires_grad_()
        x = lib.sparse_coo_tensor(given["s"]._indices(), values, (2, 3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            eval(loss, {**given, "x": x}).backward()
        found.append(values.grad.numpy())
    np.testing.assert_allclose(*found, rtol=1e-5)

    d, places = retrograd.arange(6.0, dtype=retrograd.float64).reshape(2, 3), names(retrograd)["s"]

    def function(v: Any) -> Any:
        x = retrograd.sparse_coo_tensor(places._indices(), v, (2, 3))
        ones = {"torch": Doubles, "x": x, "d": d}
        return eval(loss, ones)

    values = places._values().double().requires_grad_()
    assert gradcheck(function, (values,), check_forward_ad=True)


class Doubles:
    """The names that losses use, in double precision."""

    sparse = retrograd.sparse

    @staticmethod
    def ones(*shape: int) -> Any:
        return retrograd.ones(*shape, dtype=retrograd.float64)


def test_the_gradient_of_a_sparse_leaf_is_sparse(torch: Any) -> None:
    printed = []
    for lib in (retrograd, torch):
        x = lib.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3), requires_grad=True)
        assert x.is_leaf
        assert x.grad_fn is None
        (lib.sparse.mm(x, lib.ones(3, 1)) ** 2).sum().backward()
        printed.append(repr(x.grad))
        assert x.detach().requires_grad is False
        dense = lib.eye(2, requires_grad=True)
        (lib.sparse.mm(dense.to_sparse(), lib.ones(2, 1)) * 3).sum().backward()
        printed.append(repr(dense.grad))
    assert printed[:2] == printed[2:]


def test_functions_know_sparse_tensors_only_when_they_meet_one() -> None:
    from retrograd.tensor._overrides import INSTALLED

    before = list(INSTALLED)
    assert retrograd.mm(names(retrograd)["s"], retrograd.ones(3, 1)).tolist() == [[3.0], [9.5]]
    assert before == INSTALLED  # nothing is checked from now on
