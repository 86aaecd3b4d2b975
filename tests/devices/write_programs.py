"""Writes to views of all kinds on the device ``xla:cpu``, beside the same writes on the CPU.

Run by tests/devices/test_on_devices.py in a process of its own.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from _device import DEVICE, made

import retrograd as torch
from retrograd.devices import _deferred

VIEWS = {
    "rows": ("f(3, 4)", "x[1:]"),
    "a column": ("f(3, 4)", "x[:, 1]"),
    "an element": ("f(2, 3, 4)", "x[1, 2, 3]"),
    "steps": ("f(2, 3, 4)", "x.view(6, 4)[::2, 1:3]"),
    "permuted": ("f(2, 3, 4)", "x.permute(2, 0, 1)[1:, :, ::2]"),
    "across rows": ("f(2, 3, 4)", "x.view(-1)[5:17]"),
    "steps across rows": ("f(2, 3, 4)", "x.view(-1)[5:17:3]"),
    "steps in flattened rows": ("f(2, 3, 4)", "x.flatten(1)[:, ::5]"),
    "a dimension of one": ("f(2, 1, 4)", "x[:, 0]"),
    "without a dimension of one": ("f(2, 1, 4)", "x.squeeze(1).t()[1]"),
    "a new dimension": ("f(3, 4)", "x[1:, None, 1:3].expand(2, 1, 2)"),
    "a row of one": ("f(1, 4)", "x.t()[1:3]"),
    "nothing": ("f(2, 3)", "x[:, :0]"),
    "of nothing": ("f(0, 3)", "x[:, 1]"),
    "a diagonal": ("f(4, 4)", "x.diagonal()"),
    "another diagonal": ("f(4, 5)", "x.diagonal(1)"),
    "windows": ("f(6)", "x.unfold(0, 2, 2)"),
    "strides": ("f(4, 6)", "x.as_strided((2, 2), (7, 2), 3)"),
    "transposed strides": ("f(4, 6)", "x.as_strided((2, 2), (2, 7), 3)"),
    "truth values": ("f(3, 4) > 3", "x[:, 1]"),
    "real parts": ("c(3, 4)", "x.real"),
    "imaginary parts": ("c(3, 4)", "x.imag"),
    "a row of imaginary parts": ("c(3, 4)", "x.imag[1]"),
    "real parts, transposed": ("c(3, 4)", "x.t().real[1:, ::2]"),
    "both parts": ("c(3, 4)", "torch.view_as_real(x)[..., 1].t()"),
    "as complex numbers": ("f(3, 4)", "torch.view_as_complex(x.view(3, 2, 2))"),
    "every other complex number": ("f(3, 8)", "torch.view_as_complex(x.view(3, 4, 2)[:, 1::2])"),
    "float32 as complex64": ("f(3, 4)", "x.view(torch.complex64)[:, 1]"),
    "float64 as complex128": ("f(3, 4).double()", "x.view(torch.complex128)"),
    "float64 as float32": ("f(3, 4).double()", "x.view(torch.float32)[2]"),
    "float32 as float64": ("f(3, 4)", "x.view(torch.float64)[1]"),
    "float32 as int32": ("f(3, 4)", "x.view(torch.int32)"),
    "float32 as int16": ("f(3, 4)", "x.view(torch.int16)[1]"),
    "bytes of float32": ("f(3, 4)", "x.view(torch.uint8)[:, 3::4]"),
    "bfloat16": ("f(3, 4).bfloat16()", "x[:, 1]"),
    "bfloat16 as int16": ("f(3, 4).bfloat16()", "x.view(torch.int16)[1]"),
    "int32 as bfloat16": ("f(3, 4).int()", "x.view(torch.bfloat16)[:, 1::2]"),
    "bool as uint8": ("f(3, 4) > 99", "x.view(torch.uint8)[:, 2]"),
    "uint8 as bool": ("(f(3, 4) > 3).byte()", "x.view(torch.bool)[:, 1]"),
}


def f(*shape: int) -> Any:
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape)


def c(*shape: int) -> Any:
    return torch.complex(f(*shape), 0.5 - f(*shape))


def changed(y: Any) -> None:
    if y.dtype == torch.bool:
        y.logical_not_()
    else:
        y.mul_(2).add_(1)


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_write_to_a_view_changes_what_it_shows(name: str, compiled: bool) -> None:
    whole, view = VIEWS[name]
    expected = eval(whole)
    before = expected.clone()
    x = before.to(DEVICE)
    assert torch.equal(eval(view).cpu(), eval(view, {"torch": torch, "x": expected}))
    changed(eval(view, {"torch": torch, "x": expected}))

    shown = eval(f"lambda x: {view}", {"torch": torch})

    def write(x: Any) -> None:
        changed(shown(x))

    (torch.compile(write) if compiled else write)(x)
    assert x.cpu().view(torch.uint8).tolist() == expected.view(torch.uint8).tolist()
    assert eval(view).numel() == 0 or not torch.equal(x.cpu(), before)


def test_what_is_written_takes_the_dtype_of_the_view() -> None:
    x = torch.zeros(2, dtype=torch.complex64, device=DEVICE)
    x.imag.copy_(torch.tensor([1, 2], device=DEVICE))
    x.real[1] = 7
    assert x.tolist() == [1j, 7 + 2j]


def test_gradients_through_writes_to_real_parts() -> None:
    x = torch.tensor([1.0, 2.0], device=DEVICE, requires_grad=True)
    z = torch.zeros(2, dtype=torch.complex64, device=DEVICE)
    z.imag.copy_(x * 3)
    z.real.add_(x)
    (z * z.conj()).real.sum().backward()  # 10 x²
    assert x.grad.tolist() == [20.0, 40.0]


def test_writes_by_masks_without_true_elements() -> None:
    for accumulate in (False, True):
        x = made([[1.0, 2.0], [3.0, 4.0]])
        x.index_put_((made([False, False]),), made(np.zeros((0, 2), "float32")), accumulate)
        x[-2, made([False, False])] += -1.5
        assert x.tolist() == [[1, 2], [3, 4]]


# -- writes of values that are computed from the same memory ---------------------------------


CHANGES: dict[str, Any] = {
    "negated": torch.neg, "squared": torch.square, "copied": lambda v: v,
    "reversed": lambda v: v.flip(0),
}  # fmt: skip
WRITES: dict[str, Any] = {
    "slice": lambda y, v, i: y[i : i + len(v)].copy_(v),
    "addition": lambda y, v, i: y[i : i + len(v)].add_(v),
    "element": lambda y, v, i: y.__setitem__([i], v[-1]),
    "scatter": lambda y, v, i: y.copy_(y.slice_scatter(v, 0, i, i + len(v))),
    "fill": lambda y, v, i: y[i : i + 2].fill_(v[-1]),
    "steps": lambda y, v, i: y[i::2].copy_(-y[: len(y[i::2])]),
}


@pytest.mark.parametrize("write", WRITES)
def test_values_computed_from_the_memory_that_is_written(
    write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With ``lax.dynamic_update_slice``, XLA reads elements of the memory that it has overwritten.
    monkeypatch.setattr(_deferred, "REPEATS", 1)  # compile the queue at once
    for shape in [(3, 2, 2), (2, 3, 3)]:
        for start, (name, change) in itertools.product((0, 1), CHANGES.items()):

            def rewritten(x: Any, start: int = start, change: Any = change) -> Any:
                x = x.permute(2, 1, 0)[0]
                y = x.flatten()
                WRITES[write](y, change(x[0]), start)
                return y

            values = np.arange(1.0, 1 + math.prod(shape)).reshape(shape)
            expected = rewritten(torch.tensor(values)).tolist()
            case = (shape, start, name)
            assert rewritten(made(values)).tolist() == expected, case
            assert torch.compile(rewritten)(made(values)).tolist() == expected, case


def test_float_power_from_the_memory_that_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_deferred, "REPEATS", 1)
    x = made(np.array([[[-1.0, -2], [2, 2]], [[1, -1], [-1, 2]], [[2, -0.0], [-1, 1]]]))
    x = x.permute(2, 1, 0)[0]
    out = x.detach().flatten()[1:4]
    assert torch.float_power(x.detach()[0], 2, out=out).tolist() == [1, 1, 4]
