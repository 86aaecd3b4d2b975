"""What checkpointing is for: memory. Counted in arrays alive, and in bytes.

Tests that take ``torch`` run twice, with retrograd and with PyTorch, and assert the same values.
"""

import functools
import gc
import importlib
import tracemalloc
import weakref

import numpy as np
import pytest
from _recomputing import counted, tensor, wave

import retrograd
from retrograd.utils.checkpoint import checkpoint, checkpoint_sequential


@pytest.fixture(params=["retrograd", "torch"])
def torch(request):
    if request.param == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed to compare with")
    importlib.import_module(f"{request.param}.utils.checkpoint")
    return importlib.import_module(request.param)


# -- a chain of functions ---------------------------------------------------------------------


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_a_chain_in_segments(torch, segments, use_reentrant):
    layers = [counted(f) for f in (wave, torch.sin, torch.exp, torch.tanh, wave)]
    plain, x = tensor(torch, 0.3, 0.6), tensor(torch, 0.3, 0.6)
    value = plain
    for layer in layers:
        value = layer(value)
    value.sum().backward()
    y = torch.utils.checkpoint.checkpoint_sequential(
        layers, segments, x, use_reentrant=use_reentrant
    )
    y.sum().backward()
    assert y.tolist() == value.tolist()
    assert x.grad.tolist() == plain.grad.tolist()
    in_segments = 5 // segments * (segments - 1)
    assert [layer.begun for layer in layers] == [3] * in_segments + [2] * (5 - in_segments)


def test_a_chain_with_bad_arguments(torch):
    x = tensor(torch, 1.0)
    sequential = torch.utils.checkpoint.checkpoint_sequential
    with pytest.warns(UserWarning, match="checkpoint_sequential: the use_reentrant parameter"):
        sequential([torch.sin, torch.cos], 2, x)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: debug"):
        sequential([torch.sin, torch.cos], 2, x, use_reentrant=False, debug=True)
    with pytest.raises(ValueError):
        sequential([torch.sin], 2, x, use_reentrant=False)


def test_a_chain_that_has_children():
    class Chain:
        def children(self):
            return iter([retrograd.sin, retrograd.exp])

    x = tensor(retrograd, 0.5)
    checkpoint_sequential(Chain(), 2, x, use_reentrant=False).backward()
    assert x.grad.tolist() == pytest.approx([np.exp(np.sin(0.5)) * np.cos(0.5)])


# -- memory -----------------------------------------------------------------------------------


def test_activations_are_let_go_and_come_back_one_segment_at_a_time():
    alive = []

    def layers(x):
        for _ in range(5):
            x = x.sin().exp()
            alive.append(weakref.ref(x._data))
        return x

    def count():
        return sum(array() is not None for array in alive)

    x = retrograd.ones(3, requires_grad=True)
    y = layers(layers(x))
    assert count() == 10
    y.sum().backward()
    del y
    assert count() == 0
    y = checkpoint(layers, x, use_reentrant=False)
    y = checkpoint(layers, y, use_reentrant=False)
    assert count() == 2  # the result, and the input of the second
    during = []
    edge = y.grad_fn
    while edge is not None:
        edge.register_prehook(lambda grads: during.append(count()))
        edge = edge.next_functions[0][0] if edge.next_functions else None
    y.sum().backward()
    # Of its ten operations one half after the other is alive, and what was used goes at once.
    assert max(during) <= 2 + 5
    del y
    assert count() == 0


def test_no_reference_cycle_keeps_anything():
    gc.collect()
    gc.disable()
    try:
        x = retrograd.ones(3, requires_grad=True)
        w = retrograd.ones(3)

        def nested(x):
            return checkpoint(wave, x * w, use_reentrant=False).exp()

        arrays = []
        for finish in (True, False):
            y = checkpoint(nested, x * 2, use_reentrant=False)
            arrays += [weakref.ref(y._data), weakref.ref(y.grad_fn)]
            if finish:
                y.sum().backward()
            del y
            assert [a() for a in arrays] == [None] * len(arrays)
        y = checkpoint(wave, x * 2, use_reentrant=True)
        arrays = [weakref.ref(y._data), weakref.ref(y.grad_fn)]
        y.sum().backward()
        del y
        assert [a() for a in arrays] == [None, None]
    finally:
        gc.enable()


def test_what_a_pass_does_not_use_goes_with_the_pass():
    made = []

    def function(x):
        a, b = x.sin(), x.cos()
        made.append(weakref.ref(b._data))
        return a.exp(), b.exp().sin()

    x = retrograd.ones(3, requires_grad=True)
    a, b = checkpoint(function, x, use_reentrant=False)
    a.sum().backward(retain_graph=True)
    assert [array() is None for array in made] == [True, True]
    b.sum().backward()


def peak_memory(layers, width, rows, segments):
    """The most bytes that a network with so many layers takes at a time, and its gradients."""
    random = np.random.default_rng(0)
    weights = [
        retrograd.tensor(random.normal(size=(width, width)), dtype=retrograd.float32) * width**-0.5
        for _ in range(layers)
    ]
    for w in weights:
        w.requires_grad_()
    chain = [functools.partial(lambda w, x: retrograd.tanh(x @ w), w) for w in weights]
    x = retrograd.tensor(random.normal(size=(rows, width)), dtype=retrograd.float32)
    gc.collect()
    tracemalloc.start()
    try:
        checkpoint_sequential(chain, segments, x, use_reentrant=False).sum().backward()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return peak, [w.grad.tolist() for w in weights]


def test_peak_memory_of_a_deep_network():
    """36 layers keep 36 activations; 6 segments of 6 keep 6 inputs, and the layers of one."""
    plain, expected = peak_memory(36, 16, 1024, segments=1)
    least, found = peak_memory(36, 16, 1024, segments=6)
    assert found == expected  # to the bit
    activation = 16 * 1024 * 4
    assert plain > 36 * activation
    assert least < 18 * activation
    assert least < 0.45 * plain


@pytest.mark.parametrize("early_stop", [True, False])
def test_a_function_that_saves_its_output_last_is_freed_at_once(early_stop):
    """The second run ends while the Function is saving. What it had made must go with it."""

    class Exp(retrograd.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            made.append(weakref.ref(y._data))
            ctx.save_for_backward(y)
            ctx.save_for_forward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    made = []
    x = retrograd.zeros(3, requires_grad=True)
    gc.collect()
    gc.disable()
    try:
        y = checkpoint(Exp.apply, x, use_reentrant=False, early_stop=early_stop)
        y.sum().backward()
        del y
        assert [array() is None for array in made] == [True, True]
    finally:
        gc.enable()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]
