"""Checkpointing: what is computed again has the gradients of what was kept, in all ways to ask.

Tests that take ``torch`` run twice, with retrograd and with PyTorch, and assert the same values.
"""

import contextlib
import functools
import importlib
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from _recomputing import counted, gradients, recomputing, tensor, wave
from hypothesis import given
from hypothesis import strategies as st

import retrograd
from retrograd import func
from retrograd.utils.checkpoint import CheckpointError, checkpoint, set_checkpoint_early_stop


@pytest.fixture(params=["retrograd", "torch"])
def torch(request):
    if request.param == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed to compare with")
    importlib.import_module(f"{request.param}.utils.checkpoint")
    return importlib.import_module(request.param)


# -- the values -------------------------------------------------------------------------------


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_gradients_are_those_of_the_plain_function_to_the_bit(torch, use_reentrant):
    plain, again = tensor(torch, 0.1, -2.0, 3.0), tensor(torch, 0.1, -2.0, 3.0)
    wave(plain).sum().backward()
    recomputing(torch, wave, use_reentrant=use_reentrant)(again).sum().backward()
    assert again.grad.tolist() == plain.grad.tolist()


@pytest.mark.parametrize("early_stop", [True, False])
def test_the_function_runs_twice_and_stops_early(torch, early_stop):
    function = counted(lambda x: x.sin() * 2 + 1)
    x = tensor(torch, 1.0)
    y = recomputing(torch, function, early_stop=early_stop)(x)
    assert (function.begun, function.ended) == (1, 1)
    y.backward()
    assert (function.begun, function.ended) == (2, 1 if early_stop else 2)
    assert x.grad.tolist() == pytest.approx([2 * np.cos(1.0)])


def test_a_context_overrides_early_stop_where_forward_runs(torch):
    function = counted(lambda x: x.sin() + 1)
    with torch.utils.checkpoint.set_checkpoint_early_stop(False):
        y = recomputing(torch, function)(tensor(torch, 1.0))
    y.backward()
    assert function.ended == 2
    with torch.utils.checkpoint.set_checkpoint_early_stop(True):
        z = recomputing(torch, function, early_stop=False)(tensor(torch, 1.0))
    z.backward()
    assert (function.begun, function.ended) == (4, 3)


def test_a_function_that_catches_exceptions_does_not_catch_the_early_stop():
    def function(x):
        with contextlib.suppress(Exception):  # PyTorch's early stop would end here
            x = x.sin()
        return x.exp() * 2

    x = tensor(retrograd, 0.5)
    checkpoint(function, x, use_reentrant=False).backward()
    assert x.grad.tolist() == pytest.approx([2 * np.exp(np.sin(0.5)) * np.cos(0.5)])


def test_an_early_stop_that_was_caught_is_raised_again():
    def function(x):
        y = x.sin()
        with contextlib.suppress(BaseException):  # what a careless program does
            y = y.exp()
        return y.cos()

    def checked(x):
        return gradients(retrograd, recomputing(retrograd, function), x)

    x = tensor(retrograd, 0.5)
    inner = np.exp(np.sin(0.5))
    assert checked(x)[0] == pytest.approx([-np.sin(inner) * inner * np.cos(0.5)])


def test_nothing_is_recorded_or_run_again_without_gradients(torch):
    function = counted(wave)
    x = tensor(torch, 1.0)
    with torch.no_grad():
        y = recomputing(torch, function)(x)
    assert not y.requires_grad
    y = recomputing(torch, function)(tensor(torch, 1.0, requires_grad=False))
    assert not y.requires_grad
    assert function.begun == 2


def test_inputs_of_all_sorts(torch):
    def function(x, pair, *, scale, table, flag):
        a, b = pair
        out = x * a.exp() + table["w"].sin() * b
        return (out * scale, "no tensor", out.detach() * 3) if flag else None

    leaves = [tensor(torch, 1.0, 2.0) for _ in range(4)]
    results = []
    for run in (function, recomputing(torch, function)):
        x, a, b, w = leaves
        out, word, cut = run(x, (a, b), scale=3, table={"w": w}, flag=True)
        assert word == "no tensor"
        assert not cut.requires_grad
        results.append([g.tolist() for g in torch.autograd.grad(out.sum() + cut.sum(), leaves)])
    assert results[0] == results[1]


def test_only_some_inputs_require_grad(torch):
    x, c = tensor(torch, 1.0, 2.0), tensor(torch, 3.0, 4.0, requires_grad=False)
    recomputing(torch, lambda c, x: (c * x).sin())(c, x).sum().backward()
    assert x.grad.tolist() == pytest.approx([3 * np.cos(3), 4 * np.cos(8)])
    assert c.grad is None


def test_gradients_reach_tensors_the_function_refers_to(torch):
    w, x = tensor(torch, 2.0), tensor(torch, 3.0, requires_grad=False)
    recomputing(torch, lambda x: x * w * w)(x).backward()
    assert w.grad.tolist() == [12.0]


# -- ways to ask ------------------------------------------------------------------------------


def test_a_second_backward_recomputes_again(torch):
    function = counted(wave)
    x = tensor(torch, 0.5)
    y = recomputing(torch, function)(x)
    y.backward(retain_graph=True)
    first = x.grad.tolist()
    y.backward()
    assert function.begun == 3
    assert x.grad.tolist() == [2 * first[0]]
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_two_outputs_backward_one_after_the_other(torch):
    x = tensor(torch, 0.5)
    a, b = recomputing(torch, lambda x: (x.exp().sin(), x.cos() * x))(x)
    a.backward()
    assert x.grad.tolist() == pytest.approx([np.cos(np.exp(0.5)) * np.exp(0.5)])
    x.grad = None
    b.backward()
    assert x.grad.tolist() == pytest.approx([np.cos(0.5) - 0.5 * np.sin(0.5)])


def test_backward_with_inputs(torch):
    x, y = tensor(torch, 2.0), tensor(torch, 3.0)
    recomputing(torch, lambda x, y: x * x * y)(x, y).backward(inputs=[x])
    assert x.grad.tolist() == [12.0]
    assert y.grad is None


def test_gradient_of_a_value_inside(torch):
    kept = []

    def function(x):
        kept.append(x.sin())
        return kept[-1].exp() * 2

    x = tensor(torch, 0.5)
    y = recomputing(torch, function)(x)
    (g,) = torch.autograd.grad(y, kept[0])
    assert g.tolist() == pytest.approx([2 * np.exp(np.sin(0.5))])


def test_derivatives_of_higher_order(torch):
    x = tensor(torch, 0.3, 0.7)
    orders = []
    for function in (wave, recomputing(torch, wave)):
        value, found = function(x), []
        for _ in range(3):
            (value,) = torch.autograd.grad(value.sum(), x, create_graph=True)
            found.append(value.tolist())
        orders.append(found)
    assert orders[0] == orders[1]


def test_a_custom_function_is_differentiated_twice(torch):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            root = x.exp()
            ctx.save_for_backward(x, root)
            return root * x, root

        @staticmethod
        def backward(ctx, g, unused):
            x, _ = ctx.saved_tensors
            return g * (x + 1) * x.exp()

    def second(run):
        x = tensor(torch, 0.5, 1.5)
        (g,) = torch.autograd.grad(run(x * 1)[0].sum(), x, create_graph=True)
        return torch.autograd.grad(g.sum(), x)[0].tolist()

    expected = [(x + 2) * np.exp(x) for x in (0.5, 1.5)]
    assert second(Square.apply) == pytest.approx(expected)
    assert second(recomputing(torch, Square.apply)) == pytest.approx(expected)


def test_a_custom_function_uses_its_output_twice_differentiated(torch):
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    x = tensor(torch, 0.5)
    y = recomputing(torch, lambda x: Exp.apply(x * 1))(x)
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    assert torch.autograd.grad(g, x)[0].tolist() == pytest.approx([np.exp(0.5)])


def test_saved_tensors_are_given_out_once(torch):
    class Greedy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0] * ctx.saved_tensors[0]

    y = recomputing(torch, Greedy.apply)(tensor(torch, 1.0))
    with pytest.raises(torch.utils.checkpoint.CheckpointError, match="already unpacked once"):
        y.backward()


def test_saved_values_outside_of_any_pass(torch):
    x = tensor(torch, 0.5)
    y = recomputing(torch, lambda x: (x * 2).exp())(x)
    for _ in range(2):
        assert y.grad_fn._saved_result.tolist() == pytest.approx([np.exp(1.0)])
    y.backward()
    assert x.grad.tolist() == pytest.approx([2 * np.exp(1.0)])


def test_passes_in_a_group_share_a_recomputation(torch):
    function = counted(lambda x: (x.exp(), x.sin()))
    x = tensor(torch, 0.5)
    a, b = recomputing(torch, function)(x)
    with torch.utils.checkpoint.GraphExecGroup():
        with (
            pytest.raises(RuntimeError, match="cannot be nested"),
            torch.utils.checkpoint.GraphExecGroup(),
        ):
            pass
        a.backward(retain_graph=True)
        b.backward()
        assert function.begun == 2
        with pytest.raises(torch.utils.checkpoint.CheckpointError, match="two backward calls that"):
            a.backward()
    assert x.grad.tolist() == pytest.approx([np.exp(0.5) + np.cos(0.5)])


@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize("retain", [True, False])
def test_a_backward_pass_inside_the_function(torch, early_stop, retain):
    def function(x):
        z = x.sin().cos()
        (g,) = torch.autograd.grad(z.sum(), x, retain_graph=retain)
        return x.cos() * g + (z if retain else 0)

    x = tensor(torch, 0.3, 0.6)
    plain = gradients(torch, function, x)
    assert gradients(torch, recomputing(torch, function, early_stop=early_stop), x) == plain


# -- nesting ----------------------------------------------------------------------------------


@pytest.mark.parametrize("early_stop", [True, False])
def test_nested(torch, early_stop):
    run = functools.partial(recomputing, torch, early_stop=early_stop)

    def inner(x, w):
        return (x * w).tanh() * x

    def middle(x, w):
        return run(inner)(x.sin(), w) + x.exp()

    def outer(x, w):
        return run(middle)(x * 2, w).sigmoid() * run(inner)(w, x)

    def plain(x, w):
        y = x * 2
        return (inner(y.sin(), w) + y.exp()).sigmoid() * inner(w, x)

    x, w = tensor(torch, 0.3, 0.4), tensor(torch, 1.5, -0.5)
    expected = gradients(torch, plain, x, w)
    assert gradients(torch, run(outer), x, w) == expected
    leaves = tensor(torch, 0.3, 0.4), tensor(torch, 1.5, -0.5)
    run(outer)(*leaves).sum().backward()
    assert [x.grad.tolist() for x in leaves] == expected


def test_nested_second_derivatives_and_second_passes(torch):
    def nested(x):
        return recomputing(torch, lambda x: recomputing(torch, wave)(x * 2) * x)(x)

    x = tensor(torch, 0.3, 0.4)
    found = []
    for function in (lambda x: wave(x * 2) * x, nested):
        y = function(x).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x, retain_graph=True)
        (again,) = torch.autograd.grad(y, x)
        found.append([g.tolist(), h.tolist(), again.tolist()])
    assert found[0] == found[1]


@pytest.mark.parametrize(("early_stop", "runs"), [(True, 2), (False, 4)])
def test_how_often_the_innermost_runs(torch, early_stop, runs):
    """Stopped early, an outer one is run up to the input of the inner one only."""
    function = counted(lambda x: x.sin().exp())

    def nested(levels):
        if levels == 0:
            return function
        return recomputing(torch, nested(levels - 1), early_stop=early_stop)

    x = tensor(torch, 0.3)
    nested(3)(x).backward()
    assert function.begun == runs
    assert x.grad.tolist() == pytest.approx([np.exp(np.sin(0.3)) * np.cos(0.3)])


@given(data=st.data())
def test_nested_in_any_way(data):
    """Trees of calls, some checkpointed, give the gradients of the tree without checkpoints."""
    steps = ["sin", "cos", "tanh", "atan", "sigmoid"]

    def build(depth):
        parts = []
        for _ in range(data.draw(st.integers(1, 3))):
            if depth and data.draw(st.booleans()):
                parts.append((data.draw(st.sampled_from([None, True, False])), build(depth - 1)))
            else:
                parts.append(data.draw(st.sampled_from(steps)))
        return parts

    tree, w = build(3), tensor(retrograd, 0.7, 1.1)

    def run(parts, x, kept):
        for part in parts:
            if isinstance(part, str):
                x = getattr(x * w, part)() + x
                continue
            early_stop, inside = part
            function = functools.partial(run, inside, kept=kept)
            if kept or early_stop is None:
                x = function(x)
            else:
                x = checkpoint(function, x, use_reentrant=False, early_stop=early_stop)
        return x

    def orders(kept):
        x = tensor(retrograd, 0.2, -0.4)
        y = (run(tree, x, kept) * 0.1).sin().sum()
        first = retrograd.autograd.grad(y, (x, w), create_graph=True)
        second = retrograd.autograd.grad(sum(g.sum() for g in first), (x, w))
        return [g.tolist() for g in (*first, *second)]

    assert orders(kept=False) == orders(kept=True)


# -- modes and random numbers -----------------------------------------------------------------


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_random_numbers_are_the_same_again_and_the_stream_goes_on(torch, use_reentrant):
    drop = torch.nn.functional.dropout

    def function(x):
        return drop(x * 2, 0.5) * drop(x, 0.3) + torch.rand(8, dtype=torch.float64) * x

    found = []
    for run in (function, recomputing(torch, function, use_reentrant=use_reentrant)):
        torch.manual_seed(0)
        x = torch.ones(8, dtype=torch.float64, requires_grad=True)
        y = run(x)
        torch.rand(3)
        y.sum().backward()
        found.append([y.tolist(), x.grad.tolist(), torch.rand(3).tolist()])
    assert found[0] == found[1]


def test_random_numbers_that_are_not_preserved_are_drawn_from_the_stream(torch):
    torch.manual_seed(0)
    x = tensor(torch, 1.0, 1.0)
    y = recomputing(torch, lambda x: x * torch.rand(2, dtype=torch.float64),
                    preserve_rng_state=False)(x)  # fmt: skip
    y.sum().backward()
    after = torch.rand(1)
    torch.manual_seed(0)
    first, second = (torch.rand(2, dtype=torch.float64).tolist() for _ in range(2))
    assert y.tolist() == first
    assert x.grad.tolist() == second
    assert after.tolist() == torch.rand(1).tolist()


def test_recomputation_records_whatever_mode_backward_is_called_in(torch):
    x = tensor(torch, 0.5)
    y = recomputing(torch, wave)(x)
    with torch.no_grad():
        y.backward()
        assert not torch.is_grad_enabled()
    assert x.grad.tolist() == gradients(torch, wave, x)[0]


def test_backward_in_inference_mode():
    x = tensor(retrograd, 0.5)
    y = checkpoint(wave, x, use_reentrant=False)
    with retrograd.inference_mode():  # PyTorch would record nothing, and complain of that
        y.backward(retrograd.ones(1, dtype=retrograd.float64))
        assert retrograd.is_inference_mode_enabled()
    assert x.grad.tolist() == gradients(retrograd, wave, x)[0]


def test_a_function_that_switches_recording_off_inside(torch):
    def function(x):
        with torch.no_grad():
            scale = x.exp()
        return scale * x.sin()

    x = tensor(torch, 0.5)
    assert gradients(torch, recomputing(torch, function), x)[0] == pytest.approx(
        [np.exp(0.5) * np.cos(0.5)]
    )


def test_hooks_around_a_checkpoint_see_its_inputs_only(torch):
    packed = []

    def pack(t):
        packed.append(t.tolist())
        return t

    x = tensor(torch, 0.5)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = recomputing(torch, lambda x: (x * x).exp())(x * 2)
    assert packed == [[1.0]]
    y.backward()
    assert x.grad.tolist() == pytest.approx([4 * np.exp(1.0)])


def test_hooks_that_are_disabled(torch):
    with (
        torch.autograd.graph.disable_saved_tensors_hooks("not here"),
        pytest.raises(RuntimeError, match="not here"),
    ):
        recomputing(torch, wave)(tensor(torch, 1.0))


def test_anomaly_mode(torch):
    x = tensor(torch, -1.0)
    with (
        torch.autograd.set_detect_anomaly(True),
        pytest.warns() if torch is not retrograd else (contextlib.nullcontext()),
    ):
        y = recomputing(torch, lambda x: x.sqrt() * 0)(x)
        with pytest.raises(RuntimeError, match="returned nan values in its 0th output"):
            y.backward()


def test_contexts_surround_the_two_runs(torch):
    log = []

    @contextlib.contextmanager
    def context(name):
        log.append(f"enter {name}")
        yield
        log.append(f"exit {name}")

    def function(x):
        log.append("run")
        return x.sin()

    run = recomputing(
        torch, function, context_fn=lambda: (context("first"), context("second")), early_stop=False
    )
    run(tensor(torch, 1.0)).backward()
    assert log == ["enter first", "run", "exit first", "enter second", "run", "exit second"]


def test_a_context_that_swallows_an_error(torch):
    def function(x):
        raise KeyError("lost")

    contexts = contextlib.suppress(KeyError), contextlib.nullcontext()
    with pytest.raises(RuntimeError, match="suppressed an exception raised during"):
        recomputing(torch, function, context_fn=lambda: contexts)(tensor(torch, 1.0))
    with pytest.raises(KeyError):
        recomputing(torch, function)(tensor(torch, 1.0))


# -- use_reentrant=True -----------------------------------------------------------------------


def test_reentrant_is_the_default_with_a_warning(torch):
    function = counted(wave)
    x = tensor(torch, 0.5)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        y = torch.utils.checkpoint.checkpoint(function, x)
    assert y.grad_fn.name() == "CheckpointFunctionBackward"
    y.backward()
    assert function.ended == 2


def test_reentrant_refuses_gradients_of_some(torch):
    for ask in (lambda y, x: torch.autograd.grad(y, x), lambda y, x: y.backward(inputs=[x])):
        x = tensor(torch, 0.5)
        y = recomputing(torch, wave, use_reentrant=True)(x)
        with pytest.raises(RuntimeError, match=re.escape(
            "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
            "passing an `inputs` parameter to .backward()."
        )):  # fmt: skip
            ask(y, x)


def test_reentrant_refuses_to_record_its_backward():
    """PyTorch gives a wrong second derivative here without a word."""
    x = tensor(retrograd, 0.5)
    y = checkpoint(wave, x, use_reentrant=True) + x * x
    with (
        pytest.raises(
            RuntimeError, match=r"incompatible with create_graph=True.*use_reentrant=Fal"
        ),
        pytest.warns(UserWarning, match="reference cycle"),
    ):
        y.backward(create_graph=True)


def test_reentrant_with_several_inputs_and_outputs(torch):
    w = tensor(torch, 2.0)

    def function(x, number, y):
        return x * y * w, "word", (x + number).sin(), x.detach()

    x, y = tensor(torch, 3.0), tensor(torch, 5.0)
    a, word, b, _ = recomputing(torch, function, use_reentrant=True)(x, 1, y)
    assert word == "word"
    (a * 2 + b).backward()
    assert x.grad.tolist() == pytest.approx([20 + np.cos(4.0)])
    assert (y.grad.tolist(), w.grad.tolist()) == ([12.0], [30.0])


def test_reentrant_nested(torch):
    def nested(x):
        return recomputing(torch, wave, use_reentrant=True)(x * 2).exp()

    x = tensor(torch, 0.5)
    with pytest.warns(UserWarning, match="None of the inputs"):  # when the outer one first runs
        y = recomputing(torch, nested, use_reentrant=True)(x)
    y.backward()
    plain = tensor(torch, 0.5)
    wave(plain * 2).exp().backward()
    assert x.grad.tolist() == plain.grad.tolist()


def test_reentrant_without_gradients(torch):
    run = recomputing(torch, lambda x: x * w, use_reentrant=True)
    w = tensor(torch, 2.0)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True. Gradients"):
        y = run(tensor(torch, 1.0, requires_grad=False))
    assert not y.requires_grad
    x = tensor(torch, 1.0)
    y = recomputing(torch, lambda x: x.detach() * 2, use_reentrant=True)(x)
    with pytest.raises(RuntimeError, match="none of output has requires_grad=True, this checkpoi"):
        y.backward()


def test_detach_variable(torch):
    x, c = tensor(torch, 1.0), tensor(torch, 2.0, requires_grad=False)
    y, z, other = torch.utils.checkpoint.detach_variable((x * 2, c, 3))
    assert (y.is_leaf, y.requires_grad, z.requires_grad, other) == (True, True, False, 3)
    with pytest.raises(RuntimeError, match=r"Only tuple of tensors is supported. Got.*type: list"):
        torch.utils.checkpoint.detach_variable([x])


# -- transforms -------------------------------------------------------------------------------


def of_sum(function):
    return lambda x: function(x).sum()


DIRECTION = tensor(retrograd, 1.0, 2.0, requires_grad=False)
TRANSFORMS = {
    "grad": lambda f, x: func.grad(of_sum(f))(x),
    "grad of grad": lambda f, x: func.grad(of_sum(func.grad(of_sum(f))))(x),
    "vjp": lambda f, x: func.vjp(f, x)[1](DIRECTION)[0],
    "jvp": lambda f, x: func.jvp(f, (x,), (DIRECTION,))[1],
    "jvp of grad": lambda f, x: func.jvp(func.grad(of_sum(f)), (x,), (DIRECTION,))[1],
    "vmap": lambda f, x: func.vmap(f)(x),
    "vmap of grad": lambda f, x: func.vmap(func.grad(of_sum(f)))(x),
    "vmap of vjp": lambda f, x: func.vmap(func.vjp(f, x)[1])(retrograd.eye(2, dtype=x.dtype))[0],
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_checkpoint_under_a_transform(transform):
    run, x = TRANSFORMS[transform], tensor(retrograd, 0.3, 0.7, requires_grad=False)
    assert run(recomputing(retrograd, wave), x).tolist() == run(wave, x).tolist()


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_transform_in_a_checkpoint(transform):
    run, x = functools.partial(TRANSFORMS[transform], wave), tensor(retrograd, 0.3, 0.7)
    assert gradients(retrograd, recomputing(retrograd, run), x) == gradients(retrograd, run, x)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_backward_pass_from_outside_of_a_transform(transform):
    run, x = TRANSFORMS[transform], tensor(retrograd, 0.3, 0.7)
    again = recomputing(retrograd, wave)
    found = gradients(retrograd, lambda x: run(again, x), x)
    assert found == gradients(retrograd, lambda x: run(wave, x), x)


def test_a_pass_that_should_have_been_run_before_a_transform_ended():
    passes = []

    def function(x):
        y, pull = func.vjp(recomputing(retrograd, wave), x)
        passes.append(pull)
        return y

    func.vmap(function)(tensor(retrograd, 0.3, 0.7, requires_grad=False))
    with pytest.raises(CheckpointError, match="was called under vmap, which has ended since"):
        passes[0](retrograd.ones((), dtype=retrograd.float64))


# -- threads ----------------------------------------------------------------------------------


def test_threads_do_not_meet():
    """Each has its own settings (in PyTorch all share them), and what it computes again."""
    shared = tensor(retrograd, 0.5, 1.5)
    expected = gradients(retrograd, wave, shared)

    def work(number):
        with set_checkpoint_early_stop(number % 2 == 0):
            run = recomputing(retrograd, wave, preserve_rng_state=False)
            return [gradients(retrograd, run, shared) for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(8))) == [[expected] * 5] * 8


def test_settings_belong_to_a_thread():
    function = counted(wave)

    def run():
        checkpoint(function, tensor(retrograd, 0.5), use_reentrant=False).backward()

    with set_checkpoint_early_stop(False), ThreadPoolExecutor(1) as pool:
        pool.submit(run).result()
        assert (function.begun, function.ended) == (2, 1)  # stopped early, as always
        run()
        assert (function.begun, function.ended) == (4, 3)


# -- the package ------------------------------------------------------------------------------


def test_nothing_of_this_is_loaded_until_it_is_used():
    program = (
        "import sys, retrograd as torch\n"
        "assert not any('utils' in name for name in sys.modules if 'retrograd' in name)\n"
        "assert torch.utils.checkpoint.checkpoint.__name__ == 'checkpoint'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_error_is_a_runtime_error():
    assert issubclass(CheckpointError, RuntimeError)
