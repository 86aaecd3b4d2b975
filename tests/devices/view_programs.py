"""Views, in-place writes and gradients of numbers on the device ``xla:cpu``.

Run by tests/devices/test_on_devices.py in a process of its own.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from _device import DEVICE

import retrograd as torch
from retrograd import nn


def test_views_share_memory_and_writes_are_recorded() -> None:
    x = torch.zeros(3, 4, device=DEVICE)
    row, column, turned = x[1], x[:, 2], x.t()
    row += 5
    column.mul_(2)
    turned[0] = 7
    x.diagonal().sub_(1)
    expected = [[6.0, 0.0, 0.0, 0.0], [7.0, 4.0, 10.0, 5.0], [7.0, 0.0, -1.0, 0.0]]
    assert x.tolist() == expected
    assert row.tolist() == expected[1]
    assert turned.stride() == (1, 4)
    assert row.storage_offset() == 4
    a = torch.ones(3, device=DEVICE, requires_grad=True)
    b = a * 2
    b[1:].mul_(a[:2])
    b.sum().backward()
    assert a.grad.tolist() == [4.0, 4.0, 2.0]
    c = a.exp()
    with torch.no_grad():
        c.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        c.sum().backward()
    shared = a.detach()
    shared.zero_()
    assert a.tolist() == [0.0, 0.0, 0.0]
    d = a.detach().clone()
    d.fill_(3)
    assert a.tolist() == [0.0, 0.0, 0.0]


def masked(y: Any, mask: Any, values: Any) -> Any:
    y = y.clone()
    y[1, mask] = values
    return y


@pytest.mark.parametrize("write", [
    lambda y, mask, values: torch.index_put(y[0], (mask,), values),
    lambda y, mask, values: masked(y, mask, values),
    lambda y, mask, values: masked(y, mask, values[None]),
    lambda y, mask, values: torch.index_put(y, (torch.tensor([1], device=y.device),
                                                torch.tensor([[0, 2]], device=y.device)),
                                            values[None]),
    lambda y, mask, values: y[0].put(torch.tensor([0, 2], device=y.device), values),
])  # fmt: skip
def test_gradients_of_values_that_are_written(write: Any) -> None:
    def gradients(device: str) -> Any:
        y = torch.ones(2, 3, device=device, requires_grad=True)
        values = torch.tensor([1.0, 2.0], device=device, requires_grad=True)
        mask = torch.tensor([True, False, True], device=device)
        result = write(y, mask, values)
        weights = torch.arange(1.0, 1.0 + result.numel(), device=device).reshape(result.shape)
        return [g.tolist() for g in torch.autograd.grad((result * weights).sum(), (y, values))]

    assert gradients(DEVICE) == gradients("cpu")


def test_the_gradient_of_a_number_is_on_its_device() -> None:
    z = torch.tensor(3.0, device=DEVICE, requires_grad=True)
    (z * 2).backward()
    assert str(z.grad.device) == str(z.device)
    assert z.grad.item() == 2


def written(x: Any, key: Any, number: Any) -> Any:
    x = x.clone()
    x[key] = number
    return x


@pytest.mark.parametrize("function", [
    lambda x, number: x * number, lambda x, number: number - x, lambda x, number: x[0] * number,
    lambda x, number: number**x, lambda x, number: x.lerp(x * 2, number),
    lambda x, number: torch.where(x > 1, x, number), lambda x, number: x.clone().mul_(number),
    lambda x, number: x.clone().fill_(number), lambda x, number: written(x, 1, number),
    lambda x, number: x.masked_fill(x > 1, number), lambda x, number: x * (number * 2).sin(),
])  # fmt: skip
def test_the_gradient_of_a_number_from_the_cpu_is_on_the_cpu(function: Any) -> None:
    found = []
    for device in ("cpu", DEVICE):
        x = torch.tensor([0.5, 1.5, 2.0], device=device, requires_grad=True)
        number = torch.tensor(3.0, requires_grad=True)
        loss = (function(x, number) ** 2).sum()
        first = torch.autograd.grad(loss, (x, number), create_graph=True, materialize_grads=True)
        product = (first[0] * first[1]).sum()
        second = torch.autograd.grad(product, (x, number), retain_graph=True)
        assert [g.device.type for g in (*first, *second)] == [x.device.type, "cpu"] * 2
        loss.backward()
        assert number.grad.device.type == "cpu"
        found.append([g.tolist() for g in (*first, *second, number.grad)])
        torch.optim.SGD([number], 0.1).step()
        assert number.item() == pytest.approx(3 - 0.1 * number.grad.item())
    for here, there in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-5)


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_as_strided_of_a_view_shows_the_memory(device: str) -> None:
    x = torch.arange(12.0).to(device)
    part = x[2:].reshape(5, 2)[1:]  # from the fifth element on
    before = part.as_strided((2, 3), (6, 1), 1)
    assert before.tolist() == [[1, 2, 3], [7, 8, 9]]
    assert part.as_strided((2,), (3,)).tolist() == [4, 7]
    before[0].fill_(-1.0)
    assert x.tolist() == [0, -1, -1, -1, 4, 5, 6, 7, 8, 9, 10, 11]
    x[8] = 20.0
    assert before.tolist() == [[-1, -1, -1], [7, 20, 9]]
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 48"):
        part.as_strided((5,), (3,))
    assert part.as_strided((2, 0), (1, 1)).tolist() == [[], []]
    assert (x.as_strided((0,), (1,)) * 2).tolist() == []
    # A write whose elements are in no view but the one that is written.
    leaf = torch.arange(12.0).to(device).requires_grad_()
    y = leaf.clone()
    y[2:].as_strided((3,), (2,), 1).mul_(torch.tensor([2.0, 3.0, 4.0]).to(device))
    (y * y).sum().backward()
    factors = [1, 2, 1, 3, 1, 4, 1, 1, 1, 1, 1, 1]
    assert leaf.grad.tolist() == [2 * i * k * k for i, k in enumerate(factors)]
    # The base does not begin where its memory does.
    base = torch.arange(8.0).to(device)[2:].data
    view = base[1:].as_strided((2,), (1,), 3)
    base.mul_(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).to(device).requires_grad_())
    assert view.tolist() == [6, 12]
    (g,) = torch.autograd.grad(view.sum(), base)
    assert g.tolist() == [0, 1, 1, 0, 0, 0]


def test_copies_and_pickles_have_memory_of_their_own() -> None:
    norm = nn.BatchNorm1d(2).to(DEVICE)
    for copied in (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        twin = copied(norm)
        twin(torch.tensor([[1.0, 2.0], [3.0, 4.0]], device=DEVICE)).sum().backward()
        assert twin.running_mean.device == twin.weight.device == norm.weight.device
        np.testing.assert_allclose(twin.running_mean.tolist(), [0.2, 0.3], rtol=1e-6)
        assert (norm.running_mean.tolist(), norm.num_batches_tracked.item()) == ([0, 0], 0)
        assert norm.weight.grad is None


def test_one_value_may_be_written_to_overlapping_elements() -> None:
    x = torch.arange(4.0, device=DEVICE)
    x[:1].expand(3).fill_(7.0)
    x[1:3].mul_(x[1:3])
    assert x.tolist() == [7.0, 1.0, 4.0, 3.0]
