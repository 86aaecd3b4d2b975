"""Layouts of sparse tensors: matrices by rows, by columns and by blocks; what PyTorch prints."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from typing import Any

import pytest

import retrograd
from retrograd.autograd import gradcheck

LAYOUTS = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
# Of `x`, a matrix in any of the layouts, and `d`, the same matrix with all its elements.
EXPRESSIONS = """
x
x.t()
x.transpose(0, 1).layout, x.layout, x.is_sparse, x.is_sparse_csr, type(x.layout)
isinstance(x, torch.Tensor), torch.is_tensor(x), x.dim(), x.numel(), x._nnz(), x.shape
x.sparse_dim(), x.dense_dim(), x.values(), x.dtype, x.double().dtype, x.element_size()
x.to_dense(), x.to_sparse(), x.to_sparse_bsr((2, 2)), x.to_sparse_bsc((2, 2))
x * 2, -x, x + x, torch.sin(x), x.abs(), x.sum(), x.clone(), x.detach(), x.layout
torch.zeros_like(x), torch.empty_like(x).layout
d.sparse_mask(x)
x.zero_(), x.mul_(2)
x.t().t().to_dense()
"""
# Of `s`, `r` and `c`, which are the matrix by coordinates, by rows and by columns.
OTHERS = """
r @ d, c @ d, d @ s, d @ r, d.mm(s), d.add(s), d.sub(s), d.mul(s), d.matmul(s), torch.mm(d, s)
torch.nn.Parameter(d).detach() @ s, s.mm(d), r @ torch.ones(4), d + r, d + c
(c @ c).to_dense(), (r @ r).to_dense()
r.crow_indices(), r.col_indices(), c.ccol_indices(), c.row_indices(), c.to_sparse_csr()
s.to_sparse_csc(), r.to_sparse_csc(), s.to_sparse(layout=torch.sparse_bsr, blocksize=(2, 1))
list(s)[2], s.T, s.permute(1, 0), s.any(), s.add_(s), torch.strided, torch.ones(1).layout
torch.zeros(2, 3, 4, layout=torch.sparse_coo), torch.zeros(2, 3, layout=torch.sparse_csr)
torch.zeros(2, 3, layout=torch.sparse_csc), torch.zeros_like(d, layout=torch.sparse_coo)
copy.deepcopy(s), pickle.loads(pickle.dumps(s)), torch.zeros_like(s, layout=torch.strided)
torch.zeros(2, layout=torch.strided), torch.zeros(2, dtype=torch.int64, layout=torch.sparse_coo)
torch.sparse_csc_tensor([0, 1, 2], [0, 1], [1.0, 2.0]), torch.sparse_csr_tensor([0, 1], [1], [5])
torch.sparse_bsr_tensor([0, 1], [0], [[[1.0, 2.0], [3.0, 4.0]]])
torch.sparse_bsc_tensor([0, 0, 1], [0], [[[1.0, 2.0], [3.0, 4.0]]], (4, 4))
torch.sparse_compressed_tensor([0, 1], [1], [5.0], (1, 2), layout=torch.sparse_csr)
torch.sparse.spdiags(torch.arange(9.0).reshape(3, 3), torch.tensor([0, -1, 2]), (3, 4))
torch.sparse.spdiags(torch.arange(3.0), torch.tensor([1]), (3, 4), layout=torch.sparse_csr)
"""
ERRORS = """
s.crow_indices()
c.crow_indices()
r.ccol_indices()
r.indices()
r.coalesce()
torch.zeros(2, 3, layout=torch.sparse_bsr)
torch.zeros(2, layout=torch.sparse_csr)
s.requires_grad_().mul_(2)
s + 1
1 + s
s - d
torch.sparse.spdiags(torch.ones(2, 3), torch.tensor([0, 0]), (3, 3))
torch.sparse_compressed_tensor([0, 1], [1], [5.0], (1, 2))
d / s
s.to_sparse(1)
"""


def names(lib: Any) -> dict[str, Any]:
    """The matrix that expressions are about, for one of the libraries."""
    d = lib.tensor([[1.0, 0, 2, 0], [0, 0, 0, 3], [4, 5, 0, 0], [0, 0, 6, 0]])
    return {
        "torch": lib, "copy": copy, "pickle": pickle, "d": d, "s": d.to_sparse(),
        "r": d.to_sparse_csr(), "c": d.to_sparse_csc(),
    }  # fmt: skip


def printed(lib: Any, expression: str, **more: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, of a beta state
        return repr(eval(expression, {**names(lib), **more})).replace("retrograd.", "torch.")


def in_layout(lib: Any, layout: str) -> Any:
    block = (2, 2) if "_bs" in layout else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return names(lib)["d"].to_sparse(layout=getattr(lib, layout), blocksize=block)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("expression", EXPRESSIONS.strip().splitlines())
def test_prints_what_pytorch_prints(torch: Any, expression: str, layout: str) -> None:
    ours, theirs = (printed(lib, expression, x=in_layout(lib, layout))
                    for lib in (retrograd, torch))  # fmt: skip
    assert ours == theirs


@pytest.mark.parametrize("expression", OTHERS.strip().splitlines())
def test_other_expressions(torch: Any, expression: str) -> None:
    assert printed(retrograd, expression) == printed(torch, expression)


@pytest.mark.parametrize("expression", ERRORS.strip().splitlines())
def test_errors(torch: Any, expression: str) -> None:
    said = []
    for lib in (retrograd, torch):
        with pytest.raises(RuntimeError) as error:
            printed(lib, expression)
        said.append(str(error.value).splitlines()[0])
    assert said[0] == said[1]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_are_differentiable(layout: str) -> None:
    block = (2, 2) if "_bs" in layout else None
    x = names(retrograd)["d"].double().add(0.5).requires_grad_()
    v = retrograd.arange(8.0).double().reshape(4, 2).requires_grad_()

    def product(x: Any, v: Any) -> Any:
        sparse = x.to_sparse(layout=getattr(retrograd, layout), blocksize=block)
        return sparse @ v + (v.mT @ sparse.t()).mT + (sparse * x + sparse).to_dense()[:, :2]

    assert gradcheck(product, (x, v))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_in_both_directions(torch: Any, layout: str) -> None:
    for saver, loader in ((retrograd, torch), (torch, retrograd), (retrograd, retrograd)):
        file = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            saver.save({"x": in_layout(saver, layout)}, file)
            file.seek(0)
            found = loader.load(file)["x"]
        assert repr(found) == repr(in_layout(torch, layout))


def test_what_is_not_there_is_an_error() -> None:
    s = names(retrograd)["s"]
    for expression in ("s == s", "s < 1", "s.cumsum(0)", "torch.sigmoid(s)", "s[0:2]", "s % 2",
                       "torch.ones(2, layout=torch.sparse_coo)",
                       "torch.eye(2, layout=torch.sparse_csr)",
                       "torch.rand(2, 2, layout=torch.sparse_csr)",
                       "torch.full((2,), 1.0, layout=torch.sparse_coo)"):  # fmt: skip
        with pytest.raises(NotImplementedError):
            eval(expression, {"torch": retrograd, "s": s})
    with pytest.raises(RuntimeError, match="divisible by blocksize"):
        names(retrograd)["d"].to_sparse_bsr((3, 2))
    assert hash(s) == hash(s)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies(layout: str) -> None:
    x = in_layout(retrograd, layout)
    for copied in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert repr(copied) == repr(x)
        copied.mul_(2)
    assert x.to_dense().equal(names(retrograd)["d"])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_transforms_and_compiled_functions(layout: str) -> None:
    x, v = in_layout(retrograd, layout), retrograd.arange(12.0).reshape(4, 3).cos()
    expected = names(retrograd)["d"] @ v
    compiled = retrograd.compile(lambda v: x @ v)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it may stay eager
        assert all([compiled(v).allclose(expected) for _ in range(3)])
    assert retrograd.func.vmap(lambda v: x @ v, 1, 1)(v).allclose(expected)
    slope = retrograd.func.grad(lambda v: (x @ v).square().sum())(v)
    assert slope.allclose(2 * x.t() @ expected)


def test_a_sparse_buffer_of_a_module() -> None:
    layer = retrograd.nn.Linear(4, 2)
    layer.register_buffer("graph", names(retrograd)["s"])
    assert list(layer.state_dict()) == ["weight", "bias", "graph"]
    assert layer.double().graph.dtype == retrograd.float64
    copied = copy.deepcopy(layer)
    copied.load_state_dict(layer.state_dict())
    assert copied.graph.to_dense().equal(layer.graph.to_dense())
