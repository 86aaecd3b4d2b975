"""Which elements gradients through sparse tensors lead to: all of a dense tensor, or the stored.

PyTorch takes an element that is not stored for a zero in products and sums, whose gradients lead to
all elements, and for something absent in ``torch.sparse`` and ``to_dense``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.func import hessian, jacfwd, jacrev, jvp

X = np.array([[1.0, 0, 2], [0, 0, 3], [4, 5, 0]])
M = np.arange(1.0, 7).reshape(3, 2)

# Functions of a library, of a dense matrix that requires grad, and of its sparse form.
TO_ALL: dict[str, Any] = {
    "mv": lambda lib, x, s: s @ lib.tensor(M[:, 0]),
    "matmul": lambda lib, x, s: s @ lib.tensor(M),
    "torch.mm": lambda lib, x, s: lib.mm(s, lib.tensor(M)),
    "spmm": lambda lib, x, s: lib.spmm(s, lib.tensor(M)),
    "torch.addmm": lambda lib, x, s: lib.addmm(
        lib.ones(3, 2, dtype=lib.float64), s, lib.tensor(M), beta=0.5, alpha=2.0
    ),
    "from the right": lambda lib, x, s: lib.tensor(M.T.copy()) @ s,
    "transposed": lambda lib, x, s: s.t() @ lib.tensor(M),
    "sum": lambda lib, x, s: s.sum() * s.sum(),
    "add to dense": lambda lib, x, s: lib.add(lib.tensor(X), s, alpha=2),
    "to_dense": lambda lib, x, s: s.to_dense(masked_grad=False),
    "scaled": lambda lib, x, s: (2 * s / 3) @ lib.tensor(M),
    "negative": lambda lib, x, s: (-s).clone() @ lib.tensor(M),
    "added": lambda lib, x, s: (s + lib.tensor(np.eye(3)).to_sparse()) @ lib.tensor(M),
    "power": lambda lib, x, s: (s**2) @ lib.tensor(M),
    "times dense": lambda lib, x, s: (s * lib.tensor(X + 1)) @ lib.tensor(M),
    "times sparse": lambda lib, x, s: (s * lib.tensor(np.eye(3)).to_sparse()) @ lib.tensor(M),
    "sparse by sparse": lambda lib, x, s: (s @ lib.tensor(X).to_sparse()).to_dense(),
    "by rows": lambda lib, x, s: s.to_sparse_csr() @ lib.tensor(M),
    "twice": lambda lib, x, s: (s @ (s @ lib.tensor(M))) + (s @ (x @ lib.tensor(M))),
    "batch": lambda lib, x, s: lib.bmm(s.unsqueeze(0), lib.tensor(M)[None]),
    "joined": lambda lib, x, s: lib.cat([s, s]) @ lib.tensor(M),
}
TO_STORED: dict[str, Any] = {
    "to_dense": lambda lib, x, s: s.to_dense(),
    "values": lambda lib, x, s: s.coalesce().values(),
    "sparse.mm": lambda lib, x, s: lib.sparse.mm(s, lib.tensor(M)),
    "sparse.addmm": lambda lib, x, s: lib.sparse.addmm(
        lib.ones(3, 2, dtype=lib.float64), s, lib.tensor(M), alpha=2.0
    ),
    "sparse.mm of two": lambda lib, x, s: lib.sparse.mm(s, s).to_dense(),
    "sparse.sum": lambda lib, x, s: lib.sparse.sum(s),
    "sparse.sum of rows": lambda lib, x, s: lib.sparse.sum(s, 1).to_dense(),
    "new from values": lambda lib, x, s: (
        lib.sparse_coo_tensor(s.coalesce().indices(), s.coalesce().values(), (3, 3)) @ lib.tensor(M)
    ),
    "product": lambda lib, x, s: (s * lib.tensor(X + 1)).to_dense(),
    "sum of two": lambda lib, x, s: (s + s).to_dense(),
}
NAMES = [*[("all", n) for n in TO_ALL], *[("stored", n) for n in TO_STORED]]


def gradient(lib: Any, f: Any) -> Any:
    x = lib.tensor(X, requires_grad=True)
    y = f(lib, x, x.to_sparse())
    weights = lib.arange(1.0, y.numel() + 1, dtype=lib.float64).reshape(y.shape)
    (y * weights).sum().backward()
    return x.grad.numpy()


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # PyTorch's, about its own
@pytest.mark.parametrize(("where", "name"), NAMES)
def test_as_pytorch(pytorch: Any, where: str, name: str) -> None:
    f = (TO_ALL if where == "all" else TO_STORED)[name]
    found = gradient(torch, f)
    np.testing.assert_allclose(found, gradient(pytorch, f), rtol=1e-12)
    if where == "stored":
        assert (found[X == 0] == 0).all()


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "bsc"])
def test_layouts(layout: str) -> None:
    blocks = [(1, 3)] if layout.startswith("bs") else []
    for name in ("matmul", "transposed", "scaled", "twice", "sum", "add to dense"):
        x, y = (torch.tensor(X, requires_grad=True) for _ in range(2))
        found = TO_ALL[name](torch, x, getattr(x, f"to_sparse_{layout}")(*blocks))
        expected = TO_ALL[name](torch, y, y)
        np.testing.assert_allclose(found.detach(), expected.detach(), rtol=1e-12)
        found.square().sum().backward()
        expected.square().sum().backward()
        np.testing.assert_allclose(x.grad, y.grad, rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_finite_differences_and_tangents(dtype: Any) -> None:
    turn = 1 + 2j if dtype.is_complex else 1
    x, m = torch.tensor(X * turn, dtype=dtype), torch.tensor(M * turn, dtype=dtype)
    f = lambda x, m: x.to_sparse() @ m
    inputs = (x.clone().requires_grad_(), m.clone().requires_grad_())
    assert gradcheck(f, inputs, check_forward_ad=True)
    assert gradgradcheck(f, inputs)
    moved = jvp(f, (x, m), (torch.ones_like(x), m))[1]
    np.testing.assert_allclose(moved, torch.ones_like(x) @ m + x @ m)


def test_transforms() -> None:
    x, m = torch.tensor(X), torch.tensor(M)
    f, g = lambda x: x.to_sparse() @ m, lambda x: x @ m
    for transform in (jacrev, jacfwd):
        np.testing.assert_allclose(transform(f)(x), transform(g)(x))
    twice = lambda f: hessian(lambda x: (f(x) ** 3).sum())(x)
    np.testing.assert_allclose(twice(f), twice(g))


def test_elementwise_functions_lead_to_all_elements() -> None:
    x = torch.tensor(X)
    for name in ("sin", "expm1", "tanh"):
        f = lambda x, name=name: getattr(x.to_sparse(), name)() @ torch.tensor(M)
        assert gradcheck(f, (x.clone().requires_grad_(),))


def test_what_is_not_stored_is_not_multiplied() -> None:
    x = torch.tensor([[0.0, 2.0]], requires_grad=True)
    y = x.to_sparse() @ torch.tensor([[torch.inf], [3.0]])
    assert y.item() == 6
    y.backward()
    assert x.grad.tolist() == [[torch.inf, 3]]


def test_written_in_place() -> None:
    x = torch.tensor(X, requires_grad=True)
    s = x.to_sparse()
    s.mul_(3)
    s.add_(torch.tensor(np.eye(3)).to_sparse())
    y = s @ torch.tensor(M)
    np.testing.assert_allclose(y.detach(), (3 * X + np.eye(3)) @ M)
    y.sum().backward()
    np.testing.assert_allclose(x.grad, 3 * np.ones((3, 2)) @ M.T)


def test_autograd_grad_by_sparse_tensors(pytorch: Any) -> None:
    m = torch.tensor(M, requires_grad=True)
    s = torch.tensor(X).to_sparse_csr().requires_grad_()
    by_s, by_m = torch.autograd.grad((torch.sparse.mm(s, m) ** 2).sum(), [s, m])
    theirs = pytorch.tensor(X).to_sparse().requires_grad_(), pytorch.tensor(M, requires_grad=True)
    loss = (pytorch.sparse.mm(*theirs) ** 2).sum()
    expected = pytorch.autograd.grad(loss, theirs)
    assert by_s.layout == torch.sparse_csr
    np.testing.assert_allclose(by_s.values(), expected[0].coalesce().values())
    np.testing.assert_allclose(by_m, expected[1])
    x = torch.tensor(X, requires_grad=True)
    made = x.to_sparse()
    with pytest.raises(RuntimeError, match="made from a dense tensor that requires grad"):
        torch.autograd.grad((made @ m).sum(), made)


def test_transforms_of_sparse_arguments_say_what_to_do() -> None:
    s = torch.tensor(X).to_sparse()
    for transform in (torch.func.grad, torch.vmap, torch.func.jacrev):
        with pytest.raises(NotImplementedError, match=r"made inside of a function that is transf"):
            transform(lambda s: (s @ torch.tensor(M)).sum())(s)
    f = lambda v: (torch.sparse_coo_tensor(s.indices(), v, s.shape) @ torch.tensor(M)).sum()
    np.testing.assert_allclose(torch.func.grad(f)(s.values()), [3, 11, 11, 3, 7])
