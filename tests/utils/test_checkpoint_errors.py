"""Checkpointing gone wrong: two runs that differ, and values written over between them.

Tests that take ``torch`` run twice, with retrograd and with PyTorch, and assert the same values.
"""

import importlib
import re

import numpy as np
import pytest
from _recomputing import differing, gradients, recomputing, tensor, wave

import retrograd
from retrograd.utils.checkpoint import CheckpointError, checkpoint, set_checkpoint_debug_enabled


@pytest.fixture(params=["retrograd", "torch"])
def torch(request):
    if request.param == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed to compare with")
    importlib.import_module(f"{request.param}.utils.checkpoint")
    return importlib.import_module(request.param)


# -- the two runs differ ----------------------------------------------------------------------


def test_fewer_values_saved(torch):
    y = recomputing(torch, differing(lambda x: x.sin().exp(), lambda x: x.sin()))(tensor(torch, 1))
    with pytest.raises(torch.utils.checkpoint.CheckpointError) as error:
        y.backward()
    assert str(error.value).startswith(
        "torch.utils.checkpoint: A different number of tensors was saved during the original "
        "forward and recomputation.\nNumber of tensors saved during forward: 2\n"
        "Number of tensors saved during recomputation: 1.\n"
    )
    if torch is retrograd:
        assert re.search(
            r"first not saved again at .*test_checkpoint_errors.py:\d+: y = ", str(error.value)
        )


def test_more_values_saved(torch):
    function = differing(lambda x: x.sin(), lambda x: x.sin().exp())
    y = recomputing(torch, function, early_stop=False)(tensor(torch, 1.0))
    with pytest.raises(torch.utils.checkpoint.CheckpointError) as error:
        y.backward()
    assert str(error.value).startswith(
        "torch.utils.checkpoint: trying to save more tensors during recomputation than during the "
        "original forward pass.\n"
    )


@pytest.mark.parametrize("check", ["default", "none"])
def test_values_of_other_shapes(torch, check):
    function = differing(lambda x: x.sin(), lambda x: x[:1].sin())
    x = tensor(torch, 1.0, 1.0)
    y = recomputing(torch, function, determinism_check=check)(x)
    if check == "none":
        y.sum().backward()  # the program's own doing
        assert x.grad.tolist() == pytest.approx([np.cos(1.0)] * 2)
        return
    with pytest.raises(torch.utils.checkpoint.CheckpointError) as error:
        y.sum().backward()
    assert str(error.value).startswith(
        "torch.utils.checkpoint: Recomputed values for the following tensors have different "
        "metadata than during the forward pass.\ntensor at position 0:\n"
        "saved metadata: {'shape': torch.Size([2]), 'dtype': torch.float64, "
        "'device': device(type='cpu')}\n"
        "recomputed metadata: {'shape': torch.Size([1]), 'dtype': torch.float64, "
        "'device': device(type='cpu')}\n"
    )


# PyTorch's own logs fail where pytest captures logs, so these are for retrograd alone.


@pytest.mark.parametrize("how", ["argument", "context"])
def test_debugging_shows_the_operations_of_both_runs(how):
    function = differing(
        lambda x: x.sin().exp().cos(),
        lambda x: (x.sin() * 2).cos(),
    )
    with set_checkpoint_debug_enabled(True if how == "context" else None):
        y = checkpoint(
            function, tensor(retrograd, 1.0, 2.0), use_reentrant=False, debug=how == "argument"
        )
    with pytest.raises(CheckpointError) as error:
        y.sum().backward()
    message = str(error.value)
    assert "An error happened while unpacking tensors; dumping logs of latest" in message
    assert "ERROR: Detected non-determinism while running activation checkpointing" in message
    assert "Number of tensors saved during recomputation: 2." in message
    assert "Tip:" not in message
    assert isinstance(error.value.__cause__, CheckpointError)
    place = r" +at .*test_checkpoint_errors.py:\d+: lambda x: "
    assert re.search(
        r"during the original forward:\n\n"
        rf" +1  sin\(float64\[2\]\) -> float64\[2\]{place}.*\n"
        rf" +2  exp\(float64\[2\]\) -> float64\[2\]{place}.*\n"
        rf" +3  cos\(float64\[2\]\) -> float64\[2\]{place}.*\n\n"
        r"Operations executed during recomputation:\n\n",
        message,
    )
    assert re.search(
        r"first difference is at operation 2:\n"
        rf"  forward: +exp\(float64\[2\]\) -> float64\[2\]{place}.*\n"
        rf"  recomputation: mul\(float64\[2\], 2\) -> float64\[2\]{place}",
        message,
    )


def test_debugging_does_not_change_the_gradients():
    x = tensor(retrograd, 0.5, 1.5)
    run = recomputing(retrograd, wave, debug=True)
    assert gradients(retrograd, run, x) == gradients(retrograd, wave, x)


def test_bad_arguments(torch):
    x = tensor(torch, 1.0)
    for words, options in {
        "determinism_check should be one of ['default', 'none'], but got all": {
            "determinism_check": "all"
        },
        "debug=True is incompatible with non-default context_fn": {
            "debug": True, "context_fn": lambda: torch.utils.checkpoint.noop_context_fn()
        },
        "Unexpected keyword arguments: scale": {"use_reentrant": True, "scale": 2},
        "Passing `context_fn` or `debug` is only supported when use_reentrant=False.": {
            "use_reentrant": True, "debug": True
        },
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=re.escape(words)):
            recomputing(torch, wave, **options)(x)


# -- in-place writes --------------------------------------------------------------------------


def test_writes_inside_the_function(torch):
    def function(x):
        y = x * 2
        y.mul_(3).add_(x)
        y[0] = x[1] * x[1]
        return y * y.sin()

    x = tensor(torch, 0.5, 1.5)
    assert gradients(torch, recomputing(torch, function), x) == gradients(torch, function, x)


def test_writing_over_the_result_is_allowed(torch):
    """The value is saved by a plain exp, but not here."""
    x = tensor(torch, 0.5)
    y = recomputing(torch, lambda x: x.exp())(x)
    y.mul_(2)
    y.backward()
    assert x.grad.tolist() == pytest.approx([2 * np.exp(0.5)])


@pytest.mark.parametrize("when", ["inside", "later"])
def test_writing_over_an_input(torch, when):
    def function(a):
        if when == "inside":
            a.mul_(2)
        return a.sin()

    a = tensor(torch, 0.5) * 1
    y = recomputing(torch, function)(a)
    if when == "later":
        a.mul_(2)
    with pytest.raises(
        RuntimeError, match=r"modified by an inplace operation.*output 0 of Mul, is"
    ):
        y.backward()


def test_a_saved_value_that_the_function_writes_over():
    """PyTorch gives a wrong gradient here without a word."""

    def function(x):
        y = x.exp()
        y.add_(1)
        return y.sin()

    y = checkpoint(function, tensor(retrograd, 0.5), use_reentrant=False)
    with pytest.raises(RuntimeError, match=r"(?s)modified by an inplace.*saved at .*y = x.exp\(\)"
                                           r".*changed at .*y.add_\(1\)"):  # fmt: skip
        y.backward()


def test_a_parameter_changed_between_the_runs():
    """PyTorch gives a wrong gradient here without a word."""
    w = tensor(retrograd, 2.0, requires_grad=False)
    x = tensor(retrograd, 0.5)
    y = checkpoint(lambda x: x * w, x, use_reentrant=False)
    w.add_(1)
    with pytest.raises(RuntimeError, match=r"(?s)modified by an inplace.*changed at .*w.add_\(1\)"):
        y.backward()
    assert x.grad is None


def test_memory_that_the_function_fills_anew_each_time(torch):
    scratch = tensor(torch, 0.0, requires_grad=False)

    def function(x):
        scratch.copy_(x.detach() * 2)
        return x * scratch

    x = tensor(torch, 3.0)
    y, z = recomputing(torch, function)(x), recomputing(torch, function)(x * 2)
    z.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [6.0 + 24.0]
