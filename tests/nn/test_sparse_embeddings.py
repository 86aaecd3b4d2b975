"""Gradients of embeddings with ``sparse=True``: sparse tensors, as in PyTorch."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import viz

TABLE = np.sin(np.arange(10, dtype=np.float32)).reshape(5, 2)


def table(lib: Any, **options: Any) -> Any:
    return lib.nn.Embedding.from_pretrained(
        lib.tensor(TABLE), freeze=False, sparse=True, **options
    )


def described(x: Any) -> Any:
    """What can be seen of a tensor, sparse or not."""
    if not x.is_sparse:
        return "dense", x.detach().tolist()
    values = x._values().detach().tolist()
    return "sparse", tuple(x.shape), x.is_coalesced(), x._indices().tolist(), values, str(x.dtype)


def summed(x: Any) -> Any:
    """As ``described``, apart from the order in which entries are stored."""
    return described(x.coalesce()) if x.is_sparse else described(x)


def same(torch: Any, function: Callable[[Any], Any]) -> None:
    """Compare what a function of the library gives, errors included."""
    found = []
    for lib in (retrograd, torch):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found.append(function(lib))
        except (RuntimeError, ValueError) as error:
            found.append((type(error).__name__, str(error).split(". ")[0].rstrip(".")))
    _check(*found)


def _check(ours: Any, theirs: Any) -> None:
    if isinstance(ours, (list, tuple)) and not isinstance(ours, str):
        assert len(ours) == len(theirs), (ours, theirs)
        for a, b in zip(ours, theirs, strict=True):
            _check(a, b)
    elif isinstance(ours, float):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)
    else:
        assert ours == theirs


def squares(lib: Any, e: Any, rows: Any = ((3, 1), (3, 0))) -> Any:
    return e(lib.tensor(rows)).pow(2).sum()


# -- gradients -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"padding_idx": 1}, {"max_norm": 0.5}, {"scale_grad_by_freq": True}], ids=str
)
def test_entries(torch: Any, options: Any) -> None:
    """One entry for each row that is looked up, in that order; none for the padding."""

    def run(lib: Any) -> Any:
        e = table(lib, **options)
        squares(lib, e).backward()
        return described(e.weight.grad), str(e.weight.grad.layout), e.weight.grad.requires_grad

    same(torch, run)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_dtypes(torch: Any, dtype: str) -> None:
    def run(lib: Any) -> Any:
        e = table(lib).to(getattr(lib, dtype))
        e(lib.tensor([1, 4, 1])).sum().backward()
        return described(e.weight.grad.to(lib.float64)), str(e.weight.grad.dtype)

    same(torch, run)


def test_no_rows(torch: Any) -> None:
    def run(lib: Any) -> Any:
        e = table(lib)
        e(lib.empty(0, dtype=lib.long)).sum().backward()
        return described(e.weight.grad), e.weight.grad._nnz()

    same(torch, run)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 3}, {"scale_grad_by_freq": True}], ids=str)
def test_bags(torch: Any, mode: str, options: Any) -> None:
    def run(lib: Any) -> Any:
        bag = lib.nn.EmbeddingBag.from_pretrained(
            lib.tensor(TABLE), freeze=False, sparse=True, mode=mode, **options
        )
        bag(lib.tensor([3, 1, 3, 0]), lib.tensor([0, 3])).pow(2).sum().backward()
        return described(bag.weight.grad)

    same(torch, run)


def test_bags_with_factors(torch: Any) -> None:
    def run(lib: Any) -> Any:
        bag = lib.nn.EmbeddingBag.from_pretrained(
            lib.tensor(TABLE), freeze=False, sparse=True, mode="sum"
        )
        factors = lib.tensor([0.5, 1.5, -1.0, 2.0], requires_grad=True)
        bag(lib.tensor([3, 1, 3, 0]), lib.tensor([0, 3]), factors).pow(2).sum().backward()
        return described(bag.weight.grad), factors.grad.tolist()

    same(torch, run)


# -- sums ----------------------------------------------------------------------------------------


def test_sparse_plus_sparse(torch: Any) -> None:
    """In one pass, and in two: the gradient is the same object, and stays sparse."""

    def run(lib: Any) -> Any:
        e, f = table(lib), table(lib)
        (squares(lib, e, [3, 1]) + e(lib.tensor([1, 0])).sum()).backward()
        squares(lib, f, [3, 1]).backward()
        first = f.weight.grad
        f(lib.tensor([1, 0])).sum().backward()
        return described(e.weight.grad), described(f.weight.grad), first is f.weight.grad

    same(torch, run)


def test_sparse_plus_dense(torch: Any) -> None:
    """The sum is dense, whichever comes first, and in whichever pass."""

    def run(lib: Any) -> Any:
        found: list[Any] = []
        for order in ("one pass", "dense first", "sparse first"):
            e = table(lib)
            parts = squares(lib, e), e.weight.sum()
            if order == "one pass":
                (parts[0] + parts[1]).backward()
            else:
                first, second = parts if order == "sparse first" else parts[::-1]
                first.backward()
                before = e.weight.grad
                second.backward()
                found.append(before is e.weight.grad)
            found.append(described(e.weight.grad))
        return found

    same(torch, run)


def test_tied_weights(torch: Any) -> None:
    def run(lib: Any) -> Any:
        e, out = table(lib), lib.nn.Linear(2, 5, bias=False)
        out.weight = e.weight
        out(e(lib.tensor([1, 2]))).pow(2).sum().backward()
        return described(e.weight.grad)

    same(torch, run)


def test_a_table_that_is_computed() -> None:
    """Its gradient is dense: PyTorch passes sparse ones on through a few operations only."""
    weight = retrograd.tensor(TABLE, requires_grad=True)
    rows = retrograd.tensor([3, 1])
    for function in (lambda w: w * 2, lambda w: w.view(5, 2), lambda w: w.tanh() @ w.T @ w):
        (sparse,), (dense,) = (
            retrograd.autograd.grad(
                retrograd.nn.functional.embedding(rows, function(weight), sparse=s).pow(2).sum(),
                weight,
            )
            for s in (True, False)
        )
        assert not sparse.is_sparse
        assert sparse.tolist() == dense.tolist()


# -- hooks, grad, and derivatives of higher order ------------------------------------------------


def test_hooks(torch: Any) -> None:
    def run(lib: Any) -> Any:
        e, seen = table(lib), []
        e.weight.register_hook(lambda g: seen.append((g.is_sparse, g._nnz())) or g * 2)
        e.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.is_sparse))
        rows = e(lib.tensor([3, 1]))
        rows.grad_fn.register_hook(lambda gi, go: seen.append((gi[0].is_sparse, go[0].is_sparse)))
        rows.sum().backward()
        return described(e.weight.grad), seen

    same(torch, run)


def test_a_hook_that_returns_a_dense_gradient(torch: Any) -> None:
    def run(lib: Any) -> Any:
        e = table(lib)
        e.weight.register_hook(lambda g: g.to_dense())
        squares(lib, e).backward()

    same(torch, run)


def test_grad(torch: Any) -> None:
    def run(lib: Any) -> Any:
        e = table(lib)
        (g,) = lib.autograd.grad(squares(lib, e), e.weight)
        squares(lib, e).backward(inputs=[e.weight])
        return described(g), described(e.weight.grad)

    same(torch, run)


def test_second_derivatives(torch: Any) -> None:
    def run(lib: Any) -> Any:
        found = []
        for function in (
            lambda g: g.to_dense().pow(2).sum(), lib.sparse.sum,
            lambda g: g.coalesce().values().pow(3).sum(),
        ):  # fmt: skip
            e = table(lib)
            loss = e(lib.tensor([3, 1, 3])).pow(3).sum()
            (g,) = lib.autograd.grad(loss, e.weight, create_graph=True)
            function(g).backward()
            found += [described(g), g.requires_grad, g.is_leaf, described(e.weight.grad)]
        return found

    same(torch, run)


def test_recorded_passes(torch: Any) -> None:
    def run(lib: Any) -> Any:
        e = table(lib)
        e(lib.tensor([3, 1, 3])).pow(3).sum().backward(create_graph=True)
        grad = e.weight.grad
        (second,) = lib.autograd.grad(grad.to_dense().sum(), e.weight)
        e.weight.grad = None
        return described(grad), grad.requires_grad, described(second)

    same(torch, run)


def test_second_derivatives_of_bags() -> None:
    """PyTorch has none for sparse ones: compared with the dense."""
    found = []
    for sparse in (True, False):
        bag = retrograd.nn.EmbeddingBag.from_pretrained(
            retrograd.tensor(TABLE), freeze=False, sparse=sparse, mode="mean"
        )
        loss = bag(retrograd.tensor([3, 1, 3, 0]), retrograd.tensor([0, 3])).pow(3).sum()
        (g,) = retrograd.autograd.grad(loss, bag.weight, create_graph=True)
        assert g.is_sparse is sparse
        (second,) = retrograd.autograd.grad(g.to_dense().pow(2).sum(), bag.weight)
        found.append(second.to_dense())
    np.testing.assert_allclose(found[0].numpy(), found[1].numpy(), rtol=1e-6)


def test_transforms(torch: Any) -> None:
    def run(lib: Any) -> Any:
        def loss(w: Any) -> Any:
            return lib.nn.functional.embedding(lib.tensor([3, 1]), w, sparse=True).pow(2).sum()

        return described(lib.func.grad(loss)(lib.tensor(TABLE)))

    same(torch, run)
    rows, w = retrograd.tensor([[3, 1], [2, 2]]), retrograd.tensor(TABLE)

    def loss(w: Any, rows: Any, sparse: bool) -> Any:
        return retrograd.nn.functional.embedding(rows, w, sparse=sparse).pow(2).sum()

    each = [
        retrograd.vmap(retrograd.func.grad(loss), (None, 0, None))(w, rows, sparse).tolist()
        for sparse in (True, False)
    ]
    assert each[0] == each[1]


@pytest.mark.parametrize("shape", [(5, 2), (5, 3)])
def test_assignment(torch: Any, shape: Any) -> None:
    def run(lib: Any) -> Any:
        e = table(lib)
        e.weight.grad = lib.sparse_coo_tensor(
            lib.tensor([[1, 1]]), lib.ones(2, shape[1]), shape
        )
        return described(e.weight.grad)

    same(torch, run)


def test_modes(torch: Any) -> None:
    """Anomaly detection, saved-tensor hooks, checkpoints, autocast and scaled losses."""

    def run(lib: Any) -> Any:
        found = []
        with lib.autograd.detect_anomaly():
            e = table(lib)
            squares(lib, e).backward()
        found.append(described(e.weight.grad))
        with lib.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x):
            e = table(lib)
            loss = squares(lib, e)
        loss.backward()
        found.append(described(e.weight.grad))
        e = table(lib)
        rows = lib.utils.checkpoint.checkpoint(e, lib.tensor([3, 3]), use_reentrant=False)
        rows.pow(2).sum().backward()
        found.append(described(e.weight.grad))
        e, scaler = table(lib), lib.amp.GradScaler("cpu")
        optimizer = lib.optim.SGD(e.parameters(), lr=0.1)
        scaler.scale(squares(lib, e)).backward()
        scaler.unscale_(optimizer)
        found.append(described(e.weight.grad))
        scaler.step(optimizer)
        return [*found, described(e.weight)]

    same(torch, run)


# -- optimizers ----------------------------------------------------------------------------------

OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}), ("SGD", {"lr": 0.1, "maximize": True}),
    ("SGD", {"lr": 0.1, "foreach": True}), ("SGD", {"lr": 0.1, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "fused": True}), ("Adagrad", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.1, "eps": 1e-3}),
    ("Adagrad", {"lr": 0.1, "maximize": True}), ("Adagrad", {"lr": 0.1, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.1, "fused": True}), ("SparseAdam", {"lr": 0.1}),
    ("SparseAdam", {"lr": 0.1, "betas": (0.5, 0.9), "eps": 1e-3, "maximize": True}),
    *[(name, {}) for name in ("Adam", "AdamW", "Adamax", "Adadelta", "RMSprop", "Rprop", "NAdam",
                              "RAdam", "ASGD", "Adafactor", "Muon")],
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), OPTIMIZERS, ids=str)
def test_optimizers(torch: Any, name: str, options: Any) -> None:
    """Parameters and states after steps that use some rows each; or the error."""

    def run(lib: Any) -> Any:
        e = table(lib)
        optimizer = getattr(lib.optim, name)(e.parameters(), **options)
        for rows in ([0, 3, 3], [1], [3, 4], []):
            optimizer.zero_grad()
            squares(lib, e, lib.tensor(rows, dtype=lib.long)).backward()
            optimizer.step()
        state = optimizer.state_dict()["state"].get(0, {})
        return described(e.weight), [
            (key, summed(x) if hasattr(x, "is_sparse") else x) for key, x in sorted(state.items())
        ]

    same(torch, run)


def test_lbfgs(torch: Any) -> None:
    def run(lib: Any) -> Any:
        e = table(lib)
        optimizer = lib.optim.LBFGS(e.parameters(), lr=0.1, max_iter=3)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = squares(lib, e)
            loss.backward()
            return loss

        return float(optimizer.step(closure)), described(e.weight)

    same(torch, run)


def test_sparse_adam_refuses_what_is_not_for_it(torch: Any) -> None:
    def dense_gradient(lib: Any) -> Any:
        weight = lib.nn.Parameter(lib.ones(3))
        optimizer = lib.optim.SparseAdam([weight])
        weight.sum().backward()
        optimizer.step()

    same(torch, dense_gradient)
    same(torch, lambda lib: lib.optim.SparseAdam([lib.sparse_coo_tensor([[1]], [1.0], (3,))]))


def test_states_are_saved(torch: Any) -> None:
    """A sparse buffer of momentum goes through a file, and the next step is the same."""

    def run(lib: Any) -> Any:
        e = table(lib)
        optimizer = lib.optim.SGD(e.parameters(), lr=0.1, momentum=0.9)
        squares(lib, e).backward()
        optimizer.step()
        file = io.BytesIO()
        lib.save({"model": e.state_dict(), "optimizer": optimizer.state_dict()}, file)
        file.seek(0)
        saved = lib.load(file)
        other = table(lib)
        other.load_state_dict(saved["model"])
        again = lib.optim.SGD(other.parameters(), lr=0.1, momentum=0.9)
        again.load_state_dict(saved["optimizer"])
        squares(lib, other, [1, 2]).backward()
        again.step()
        return described(other.weight)

    same(torch, run)


def test_zero_grad(torch: Any) -> None:
    def run(lib: Any) -> Any:
        e = table(lib)
        optimizer = lib.optim.SGD(e.parameters(), lr=0.1)
        squares(lib, e).backward()
        e.zero_grad(set_to_none=False)
        first = described(e.weight.grad)
        squares(lib, e).backward()
        optimizer.zero_grad(set_to_none=False)
        second = described(e.weight.grad)
        optimizer.zero_grad()
        return first, second, e.weight.grad

    same(torch, run)


def test_steps_by_hand(torch: Any) -> None:
    """Sparse tensors added to dense ones in place, as programs with steps of their own do."""

    def run(lib: Any) -> Any:
        e = table(lib)
        squares(lib, e).backward()
        memory = e.weight.data_ptr()
        e.weight.data.add_(e.weight.grad, alpha=-0.1)
        with lib.no_grad():
            for p in e.parameters():
                p -= 0.1 * p.grad
                p.sub_(p.grad.coalesce(), alpha=2)
                p += p.grad
        whole = lib.zeros(2, 2).add_(lib.tensor([[0.0, 3.0], [4.0, 0.0]]).to_sparse(), alpha=2)
        return described(e.weight), e.weight.data_ptr() == memory, whole.tolist()

    same(torch, run)


def test_clipping() -> None:
    """PyTorch's vector_norm is not there for sparse gradients: compared with dense ones."""
    found = []
    for sparse in (True, False):
        e = table(retrograd)
        e.sparse = sparse
        out = retrograd.nn.Linear(2, 1)
        retrograd.nn.init.ones_(out.weight)
        retrograd.nn.init.zeros_(out.bias)
        out(e(retrograd.tensor([3, 1, 3]))).pow(2).sum().backward()
        parameters = [*e.parameters(), out.weight]
        norm = retrograd.nn.utils.clip_grad_norm_(parameters, 0.5)
        assert e.weight.grad.is_sparse is sparse
        found.append((norm.item(), e.weight.grad.to_dense().numpy(), out.weight.grad.numpy()))
    for ours, dense in zip(*found, strict=True):
        np.testing.assert_allclose(ours, dense, rtol=1e-5)


# -- what looks at gradients ---------------------------------------------------------------------


def test_compiled_functions_run_eagerly() -> None:
    e = table(retrograd)
    step = retrograd.compile(lambda rows: e(rows).pow(2).sum())
    with pytest.warns(UserWarning, match="is an embedding with sparse gradients"):
        loss = step(retrograd.tensor([3, 1]))
    loss.backward()
    assert e.weight.grad._indices().tolist() == [[3, 1]]
    weight = retrograd.tensor(TABLE, requires_grad=True)
    direct = retrograd.compile(
        lambda rows: retrograd.nn.functional.embedding(rows, weight, sparse=True).sum()
    )
    with pytest.warns(UserWarning, match="it contains an embedding with sparse"):
        direct(retrograd.tensor([3, 1])).backward()
    assert weight.grad.to_dense().sum(1).tolist() == [0, 2, 0, 2, 0]
    weight.grad = None
    direct(retrograd.tensor([3, 1])).backward()
    assert weight.grad.is_sparse


def test_observers_see_dense_gradients() -> None:
    """Recordings, explanations and the profiler."""
    e = table(retrograd)
    optimizer = retrograd.optim.SGD(e.parameters(), lr=0.1)
    with viz.recording() as story, retrograd.profiler.profile():
        squares(retrograd, e).backward()
        optimizer.step()
    assert len(story.passes) == 1
    assert e.weight.grad.is_sparse
    assert "of float32 [5, 2]" in str(retrograd.autograd.explain(e.weight))
    assert copy.deepcopy(e.weight.grad).is_sparse
