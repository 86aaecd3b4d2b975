"""Numbers given as tensors, data of all kinds, older overloads and Python's protocols, beside
PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from _side_by_side import outcome

import retrograd
from retrograd.ops import _arguments

X, TWO = "torch.tensor([1.0, 2.0, 3.0])", "torch.tensor(2.0)"
SAME = f"""
{X}.add_({X}, alpha={TWO})
{X}.sub_({X}, alpha={TWO})
{X}.add({X}, alpha={TWO})
{X}.addcmul_({X}, {X}, value={TWO})
{X}.addcdiv_({X}, {X}, value={TWO})
torch.addcmul({X}, {X}, {X}, value={TWO})
{X}.add_({X}, alpha=torch.tensor(2.0, requires_grad=True))
{X}.add_({X}, alpha=torch.tensor([2.0]))
{X}.add_({X}, alpha=torch.tensor([2.0, 3.0]))
{X}.add_({X}, alpha='2')
torch.addcmul({X}, {X}, {X}, value=torch.tensor(2.0, requires_grad=True))
{X}.addcmul_({X}, {X}, value=torch.ones(1))
torch.tensor([1, 2]).add(torch.tensor([1, 2]), alpha=torch.tensor(2))
torch.tensor([1, 2]).add(torch.tensor([1, 2]), alpha=torch.tensor(2.5))
torch.add(True, False)
torch.add(2, 3.0)
torch.mul(2, 3)
torch.sub(2, 3)
torch.div(1, 2)
torch.randint(high=5, size=(3,))
torch.randint(low=2, high=5, size=(3,))
torch.randint(5, size=(3,))
torch.randint(1, high=5, size=(3,))
torch.randint_like(torch.ones(3), high=5)
torch.randint_like(torch.ones(3), 1, high=5)
torch.randint_like(torch.ones(3), low=1, high=5)
torch.randint()
torch.tensor(deque([1, 2, 3]))
torch.tensor([deque([1, 2.0]), (3, 4)])
torch.tensor(array.array('f', [1, 2, 3]))
torch.tensor(array.array('d', [1, 2, 3]))
torch.tensor(array.array('B', [1, 2, 3]))
torch.tensor(memoryview(b'abc'))
torch.tensor(bytearray(b'abc'))
torch.tensor(b'abc')
torch.tensor({{1, 2}})
torch.tensor({{1: 2}})
torch.tensor({{1: 2}}.keys())
torch.tensor('abc')
torch.tensor([torch.tensor([1.0]), torch.tensor([2.0])])
torch.tensor([torch.tensor(1), torch.tensor(2.0)])
torch.tensor([torch.ones(2), torch.ones(2)])
torch.tensor(Sequence())
torch.tensor([Sequence(), [4, 5, 6.0]])
torch.tensor([1, 2, 3], dtype=torch.float64).new_tensor(Sequence())
torch.tensor({X})
torch.tensor(torch.ones(2, requires_grad=True), requires_grad=True)
{X}.new_tensor({X})
torch.as_tensor({X})
float({X})
int({X})
complex({X})
float(torch.ones(0))
__import__('math').sin({X})
float(torch.ones(1, 1))
reversed({X})
reversed(torch.tensor([[1, 2], [3, 4]]))
reversed(torch.tensor(1))
{X} == Answers()
{X} != Answers()
{X} < Answers()
{X} == None
{X} != None
{X} == [1.0, 2.0, 3.0]
{X} == object()
type({X})
torch.Size, torch.dtype, torch.device
{X}[::0]
""".strip().split("\n")  # fmt: skip


class Sequence:
    """A sequence that is nothing else."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> int:
        if index >= 3:
            raise IndexError(index)
        return index + 1


class Answers:
    """Compares itself with anything, as ``pytest.approx`` does."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        return "equal?"

    def __ne__(self, other: object) -> Any:
        return "different?"

    def __gt__(self, other: object) -> Any:
        return "greater?"


@pytest.mark.parametrize("code", SAME)
def test_as_in_pytorch(torch: Any, code: str) -> None:
    given = {"Sequence": Sequence, "Answers": Answers}
    assert outcome(retrograd, code, **given) == outcome(torch, code, **given)


OLDER = f"""
{X}.add_(2, {X})
torch.add({X}, 2, {X})
{X}.add(2.5, {X})
{X}.sub_(2, {X})
{X}.sub(2, {X})
{X}.addcmul_(2, {X}, {X})
torch.addcmul({X}, 2, {X}, {X})
{X}.addcdiv_(2, {X}, {X})
torch.addcdiv({X}, 2, {X}, {X})
{X}.add_({X}, {X})
{X}.add_(2, 3)
""".strip().split("\n")  # fmt: skip


@pytest.fixture
def _not_warned_yet() -> Iterator[None]:
    kept = [*_arguments._warned]
    _arguments._warned.clear()
    yield
    _arguments._warned[:] = kept


@pytest.mark.parametrize("code", OLDER)
@pytest.mark.usefixtures("_not_warned_yet")
def test_older_overloads(torch: Any, code: str) -> None:
    # Both warn once a process, so the texts are compared in another test.
    ours, theirs = (outcome(library, code) for library in (retrograd, torch))
    assert ours.split("\nUserWarning")[0] == theirs.split("\nUserWarning")[0]


@pytest.mark.usefixtures("_not_warned_yet")
def test_an_older_overload_warns_once() -> None:
    x = retrograd.ones(2)
    with pytest.warns(UserWarning, match=r"add_\(Number alpha, Tensor other\)\nConsider"):
        x.add_(2, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x.addcmul_(2, x, x)


def test_any_array_is_data() -> None:
    class Series:
        """As pandas has it: a sequence whose indices are labels, and an array."""

        def __len__(self) -> int:
            return 2

        def __getitem__(self, label: int) -> float:
            return {5: 1.0, 6: 2.0}[label]

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array([1.0, 2.0])

    for made in (retrograd.tensor(Series()), retrograd.as_tensor(Series())):
        assert made.dtype is retrograd.float64
        assert made.tolist() == [1.0, 2.0]
    assert retrograd.tensor(memoryview(np.eye(2))).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_pytest_approx() -> None:
    x = retrograd.tensor([1.0, 2.0])
    assert x == pytest.approx([1.0, 2.0])
    assert pytest.approx([1.0, 2.0]) == x
    assert retrograd.tensor(1.0) == pytest.approx(1.0)
    assert retrograd.tensor(1.0) != pytest.approx(2.0)


def test_negative_steps_give_views() -> None:
    # PyTorch refuses them. NumPy has them.
    x = retrograd.arange(12.0).reshape(3, 4).clone().requires_grad_()
    y = x[::-1, 3:0:-2]
    assert y.tolist() == x.detach().numpy()[::-1, 3:0:-2].tolist()
    assert y._base is x
    assert y.stride() == (-4, -2)
    assert not y.is_contiguous()
    (y * retrograd.arange(6.0).reshape(3, 2)).sum().backward()
    expected = np.zeros((3, 4))
    expected[::-1, 3:0:-2] = np.arange(6.0).reshape(3, 2)
    assert x.grad.tolist() == expected.tolist()

    z = retrograd.zeros(5)
    z[::-1][1:3] = retrograd.tensor([1.0, 2.0])
    assert z.tolist() == [0.0, 0.0, 2.0, 1.0, 0.0]
    z[4:1:-1] = retrograd.tensor([7.0, 8.0, 9.0])
    assert z.tolist() == [0.0, 0.0, 9.0, 8.0, 7.0]
    leaf = retrograd.ones(3, requires_grad=True)
    w = leaf * 1
    w[::-1][0] *= 5
    (w * retrograd.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert leaf.grad.tolist() == [1.0, 10.0, 500.0]
    rows = retrograd.func.vmap(lambda row: row[::-1])(retrograd.arange(4.0).reshape(2, 2))
    assert rows.tolist() == [[1.0, 0.0], [3.0, 2.0]]
    moved = retrograd.func.jvp(lambda t: t[::-1] * t, (z,), (retrograd.ones(5),))[1]
    assert moved.tolist() == (z + z.flip(0)).tolist()


def test_arrays_are_converted_to_double_precision() -> None:
    array = np.ones(2, np.float32)  # numpy.dtype("float64") == None, which must not matter
    for convert in (retrograd.as_tensor, retrograd.asarray):
        assert convert(array, dtype=retrograd.float64).dtype is retrograd.float64
        assert convert(array, dtype=retrograd.float32).data_ptr() == array.ctypes.data
