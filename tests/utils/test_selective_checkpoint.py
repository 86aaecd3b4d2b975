"""Selective checkpointing: what a policy keeps is not computed again, and nothing else changes.

Tests that take ``torch`` run twice, with retrograd and with PyTorch, and assert the same values.
"""

import functools
import importlib

import numpy as np
import pytest
from _recomputing import differing, gradients, recomputing, tensor, wave
from hypothesis import given
from hypothesis import strategies as st

import retrograd
from retrograd.ops._operation import TABLE


@pytest.fixture(params=["retrograd", "torch"])
def torch(request):
    if request.param == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed to compare with")
    importlib.import_module(f"{request.param}.utils.checkpoint")
    return importlib.import_module(request.param)


def operation(torch, name):
    """How a policy names an operation."""
    if torch is retrograd:
        return getattr(torch, name)
    overload = {"mul": "Tensor", "add": "Tensor"}.get(name, "default")
    return getattr(getattr(torch.ops.aten, name), overload)


def selecting(torch, function, policy, **options):
    contexts = functools.partial(
        torch.utils.checkpoint.create_selective_checkpoint_contexts, policy, **options
    )
    return recomputing(torch, function, context_fn=contexts)


def layer(x, w):
    return (x @ w).sin().exp() @ w


@pytest.fixture
def products(monkeypatch):
    """The matrix products that are computed."""
    done, mm = [], TABLE["mm"]
    forward = mm.forward
    monkeypatch.setattr(mm, "forward", lambda *args: (done.append("mm"), forward(*args))[1])
    return done


def matrices(torch):
    x = torch.tensor([[0.1, 0.2], [0.3, -0.4]], dtype=torch.float64, requires_grad=True)
    w = torch.tensor([[1.0, 0.5], [-0.5, 2.0]], dtype=torch.float64, requires_grad=True)
    return x, w


def test_a_list_of_operations(torch):
    x, w = matrices(torch)
    run = selecting(torch, layer, [operation(torch, "mm"), operation(torch, "sin")])
    assert gradients(torch, run, x, w) == gradients(torch, layer, x, w)


@pytest.mark.parametrize("answer", ["MUST_SAVE", "PREFER_SAVE", "MUST_RECOMPUTE",
                                    "PREFER_RECOMPUTE", True, False])  # fmt: skip
def test_a_policy(torch, answer):
    policies = torch.utils.checkpoint.CheckpointPolicy
    x, w = matrices(torch)
    asked = []

    def policy(ctx, op, *args, **kwargs):
        assert ctx.is_recompute is False
        if op is operation(torch, "mm"):
            asked.append((ctx.op_output.tolist(), [a.tolist() for a in args], kwargs))
            return getattr(policies, answer) if isinstance(answer, str) else answer
        return policies.PREFER_RECOMPUTE

    assert gradients(torch, selecting(torch, layer, policy), x, w) == gradients(torch, layer, x, w)
    assert asked[0] == ((x @ w).tolist(), [x.tolist(), w.tolist()], {})
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("policy", "computed"),
    [
        ([], 1),  # the second product is not needed for anything
        ([retrograd.mm], 0),
        ([retrograd.matmul], 0),
        ([retrograd.Tensor.matmul], 0),
        ([retrograd.sin], 1),
        (lambda ctx, op, *args: op in {retrograd.matmul}, 0),
        (lambda ctx, op, *args: op in {retrograd.mm, retrograd.sin}, 0),
        (lambda ctx, op, *args: op is retrograd.exp, 1),
        (lambda ctx, op, *args: None, 1),
    ],
)
def test_what_is_kept_is_not_computed_again(products, policy, computed):
    x, w = matrices(retrograd)
    y = selecting(retrograd, layer, policy)(x, w)
    assert len(products) == 2
    expected = gradients(retrograd, layer, x, w)
    del products[:]
    backward = 4  # products that the derivatives of two are made of
    assert gradients(retrograd, lambda x, w: y, x, w) == expected
    assert len(products) == backward + computed


def test_an_operation_goes_by_the_functions_it_was_called_through():
    functional = retrograd.nn.functional
    names = {}

    def note(ctx, op, *args, **kwargs):
        names.setdefault(id(ctx.op_output), []).append(op)

    def kinds(function, *inputs):
        names.clear()
        selecting(retrograd, function, note)(*inputs)
        return list(names.values())

    x, w = matrices(retrograd)
    assert kinds(lambda x: x * 2, x) == [[retrograd.mul]]
    assert kinds(lambda x: x**2, x) == [[retrograd.pow]]
    assert kinds(lambda x: x.sum(0), x) == [[retrograd.sum]]
    assert kinds(retrograd.mm, x, w) == [[retrograd.mm]]
    matmul = [retrograd.mm, retrograd.matmul, retrograd.linalg.matmul]
    assert kinds(lambda x, w: x @ w, x, w) == kinds(retrograd.matmul, x, w) == [matmul]
    assert kinds(lambda x: x[0], x) == []  # a view
    assert functional.linear in kinds(functional.linear, x, w)[-1]
    (index,) = kinds(lambda x: x[retrograd.tensor([1, 0])], x)
    assert [op.name for op in index] == ["index"]


def test_what_a_policy_computes_is_no_part_of_the_function(torch):
    def policy(ctx, op, *args, **kwargs):
        return bool((ctx.op_output * args[0].exp()).sum() > 0)

    x, w = matrices(torch)
    assert gradients(torch, selecting(torch, layer, policy), x, w) == gradients(torch, layer, x, w)


def test_looking_at_saved_values_does_not_use_them_up():
    x, w = matrices(retrograd)
    y = selecting(retrograd, lambda x, w: (x @ w).exp(), [retrograd.mm, retrograd.exp])(x, w)
    assert y.grad_fn._saved_result.tolist() == (x @ w).exp().tolist()
    y.sum().backward()
    assert x.grad is not None


def test_policies_that_are_none(torch):
    create = torch.utils.checkpoint.create_selective_checkpoint_contexts
    with pytest.raises(TypeError, match="policy_fn_or_list must be either a function or a list"):
        create("mm")
    with pytest.raises(ValueError, match="Expected op in `op_list` to be an OpOverload but got: 3"):
        create([3])
    if torch is retrograd:
        with pytest.raises(ValueError, match="Name operations by the functions that users call"):
            create([len])
        with pytest.raises(TypeError, match=r"must return a CheckpointPolicy or a bool.*'save'"):
            selecting(torch, wave, lambda ctx, op, *args: "save")(tensor(torch, 1.0))


@pytest.mark.parametrize("allowed", [False, True])
def test_writing_over_a_kept_result(torch, allowed):
    def function(x, w):
        y = x @ w
        z = y.exp()
        y.mul_(2)
        return z * x

    x, w = matrices(torch)
    run = selecting(torch, function, [operation(torch, "mm")], allow_cache_entry_mutation=allowed)
    y = run(x, w)
    if allowed:
        y.sum().backward()  # of a product that was doubled: the program's own doing
        (g,) = torch.autograd.grad(((x @ w * 2).exp() * x).sum(), w)
        assert not np.allclose(w.grad.tolist(), g.tolist())
        return
    with pytest.raises(
        RuntimeError, match="Tensor cached during selective activation checkpoint h"
    ):
        y.sum().backward()


def test_the_line_that_wrote_over_a_kept_result():
    x, w = matrices(retrograd)
    y = selecting(retrograd, lambda x, w: x @ w, [retrograd.mm])(x, w)
    z = selecting(retrograd, lambda x, w: (x @ w).exp(), [retrograd.exp])(x, w)
    z.zero_()
    with pytest.raises(RuntimeError, match=r"(?s)has been mutated.*changed at .*z.zero_\(\)"):
        (z.sum() + y.sum()).backward()


def test_a_second_backward_of_a_selective_checkpoint(torch):
    x, w = matrices(torch)
    (expected,) = torch.autograd.grad(layer(x, w).sum(), x)
    y = selecting(torch, layer, [operation(torch, "mm")])(x, w).sum()
    (first,) = torch.autograd.grad(y, x, retain_graph=True)
    assert first.tolist() == expected.tolist()
    if torch is retrograd:  # PyTorch lets go of what was kept all the same, and refuses
        (second,) = torch.autograd.grad(y, x)
        assert second.tolist() == expected.tolist()
    with pytest.raises(RuntimeError, match=r"an extra time|the graph a second time"):
        torch.autograd.grad(y, x)


def test_parts_of_a_selective_checkpoint_one_after_the_other(torch):
    x, w = matrices(torch)
    a, b = selecting(torch, lambda x, w: ((x @ w).sin(), (x @ w).exp()), [operation(torch, "mm")])(
        x, w
    )
    a.sum().backward()
    with pytest.raises(
        RuntimeError, match=r"Trying to backward an extra time. You are only allowed"
    ):
        b.sum().backward()


def test_operations_that_were_not_there_before(torch):
    x = tensor(torch, 1.0)
    run = selecting(torch, differing(lambda x: x.sin().exp(), lambda x: x.cos().exp()),
                    [operation(torch, "sin")])  # fmt: skip
    with pytest.raises(
        RuntimeError, match=r"cos.* encountered during backward but not found in stor"
    ):
        run(x).backward()
    run = selecting(torch, differing(lambda x: x.sin().exp().cos(), lambda x: x.sin().sin().exp()),
                    [operation(torch, "sin")])  # fmt: skip
    with pytest.raises(RuntimeError, match=r"sin.* invocation index 1 encountered during backward"):
        run(x).backward()


@pytest.mark.parametrize("kept", [True, False])
def test_random_numbers_with_everything_kept(kept):
    """A kept draw is not drawn again; what is drawn after it must be as it was all the same."""
    functional = retrograd.nn.functional

    def function(x):
        mask = retrograd.bernoulli(retrograd.full((8,), 0.5))
        return functional.dropout(x.exp(), 0.5) * mask * functional.dropout(x.sin(), 0.4)

    found = []
    for run in (function, selecting(retrograd, function, lambda ctx, op, *args, **named: kept)):
        retrograd.manual_seed(0)
        x = retrograd.ones(8, requires_grad=True)
        run(x).sum().backward()
        found.append([x.grad.tolist(), retrograd.rand(2).tolist()])
    assert found[0] == found[1]


@given(data=st.data())
def test_any_choice_of_what_is_kept_gives_the_same(data):
    def function(x, w):
        for _ in range(3):
            x = (x @ w).tanh() * x.sigmoid()
            x = x - x.max(1, keepdim=True).values
            y = retrograd.zeros(2, 2, dtype=x.dtype)
            y[0] = x[1] * 2
            x = x + y
        return x.softmax(1).log()

    x, w = matrices(retrograd)
    run = selecting(retrograd, function, lambda ctx, op, *args, **named: data.draw(st.booleans()))
    assert gradients(retrograd, run, x, w) == gradients(retrograd, function, x, w)


def test_nested_selective_checkpoints(torch):
    def outer(x, w):
        return selecting(torch, layer, [operation(torch, "exp")])(x, w).sin() @ w

    x, w = matrices(torch)
    run = selecting(torch, outer, [operation(torch, "mm")])
    assert gradients(torch, run, x, w) == gradients(torch, lambda x, w: layer(x, w).sin() @ w, x, w)


@pytest.mark.parametrize("transform", ["vmap", "jvp"])
def test_a_transform_in_a_selective_checkpoint(transform):
    def function(x, w):
        if transform == "vmap":
            return retrograd.func.vmap(lambda row: (row @ w).sin().exp())(x @ w)
        return retrograd.func.jvp(lambda x: (x @ w).sin().exp(), (x,), (w,))[1] @ w

    x, w = matrices(retrograd)
    run = selecting(retrograd, function, lambda ctx, op, *args, **named: True)
    assert gradients(retrograd, run, x, w) == gradients(retrograd, function, x, w)


def test_a_selective_checkpoint_under_vmap():
    x, w = matrices(retrograd)

    def function(run):
        return retrograd.func.vmap(retrograd.func.grad(lambda x: run(x, w).sum()))

    def row(x, w):
        return (x @ w).sin().exp()

    run = selecting(retrograd, row, lambda ctx, op, *args, **named: True)
    assert function(run)(x.detach()).tolist() == function(row)(x.detach()).tolist()
