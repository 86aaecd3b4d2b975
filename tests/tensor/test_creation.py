"""Making tensors, beside PyTorch: the same values, dtypes and strides, or the same refusal."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import retrograd

CALLS = """
zeros(2, 3); zeros((2, 3)); zeros(()); zeros([]); zeros(0); zeros(2, 0); zeros(size=(2, 3))
zeros(2, foo=1); zeros(2.5); zeros(-1); zeros(2, dtype='float32'); zeros(2, dtype=float); zeros()
zeros(2, dtype=int); zeros(2, dtype=bool); zeros(2, dtype=complex); zeros(2, dtype=np.float32)
zeros(2, requires_grad=True); zeros(2, dtype=torch.int64, requires_grad=True)
zeros(2, device='cpu', layout=torch.strided, pin_memory=False); zeros(torch.Size([2, 1]))
zeros(2, 3, out=o); zeros(2, out=oi); zeros(2, out=o, dtype=torch.float64); zeros(2, out=g)
zeros(torch.tensor(2), 3); zeros(np.int64(2)); zeros(True); zeros([2, torch.tensor(3)])
zeros(2, requires_grad=1)
ones(2, 3, out=o); ones(2, 3); ones(()); ones(3, dtype=torch.bool); ones(-1); ones((2, -1)); ones()
ones(2, dtype=torch.complex64); ones(2.5); ones(2, requires_grad=True)
full((2,), 1.5); full((2,), True); full((2,), 1j); full((2,), 3); full(2, 1); full((), 2)
full((2,), torch.tensor(3)); full((2,), torch.tensor([1, 2])); full((2,), 1.5, dtype=torch.int64)
full((2,), 300, dtype=torch.uint8); full((2,), 1.5, out=o); full((2,), 1j, dtype=torch.float32)
full((2,), fill_value=1, requires_grad=True); full((2,), fill_value=1.0, requires_grad=True)
full((-1,), 2); full((2,), 'a'); full((0,), 1); full(size=(1,), fill_value=2.5); full((2,))
full((2,), torch.tensor(2.5)); full((2,), INF); full((2,), NAN, dtype=torch.int64)
full((1,), 2**40); full((1,), np.float64(2))
full_like(x, 2); full_like(t, 2); full_like(x, 2, dtype=torch.int32); full_like(i, 2.5)
full_like(x, 2, requires_grad=True)
zeros_like(t); zeros_like(t, memory_format=torch.contiguous_format); zeros_like(g); zeros_like(i)
zeros_like(x, requires_grad=True); zeros_like(x, dtype=torch.int8); zeros_like(p); zeros_like(s)
zeros_like(x.expand(2, 2, 3)); zeros_like(x[:, ::2]); zeros_like(3); zeros_like(input=x)
ones_like(t); ones_like(p, dtype=torch.float64); ones_like(i); ones_like(x, device='cpu')
ones_like(x, foo=1); zeros_like(x, dtype=torch.int64, requires_grad=True)
eye(3); eye(2, 3); eye(3, 0); eye(0); eye(-1); eye(2, -1); eye(2, dtype=torch.bool)
eye(2, out=o); eye(2.5); eye(2, requires_grad=True); eye(n=2, m=1); eye(2, dtype=torch.complex64)
arange(5); arange(5.0); arange(1, 5); arange(1, 2.5, 0.5); arange(0, 5, 2, dtype=torch.float32)
arange(5, 0); arange(5, 0, -1); arange(0, 5, 0); arange(0, 0); arange(NAN); arange(INF)
arange(True); arange(torch.tensor(3)); arange(torch.tensor(3.0)); arange(start=1, end=4)
arange(end=4); arange(0, 1, 0.1); arange(0, 3, out=oi); arange(0, 3, out=o); arange(1j)
arange(5, dtype=torch.bool); arange(5, dtype=torch.complex64); arange(3, requires_grad=True)
arange(3.0, requires_grad=True); arange(2**40, 2**40 + 3); arange(0, 2.5, dtype=torch.int64)
arange(0.5, 3, dtype=torch.int64); arange(-3); arange('a'); arange(0, 256, 100, dtype=torch.uint8)
arange(0, 3, 1.5, dtype=torch.int64); arange(1, 0, -0.25); arange(2, dtype=float)
arange(1, 4, step=2); arange(0, 3, 0.1, dtype=torch.float64); arange(np.int64(3))
arange(np.float32(2.5)); arange(3, dtype=torch.float16); arange(-2, 2, dtype=torch.int8)
linspace(0, 1, 5); linspace(0, 1, 1); linspace(0, 1, 0); linspace(0, 1, -1); linspace(3, 3, 4)
linspace(0, 10, 5, dtype=torch.int64); linspace(0, 10, 4, dtype=torch.int64); linspace(0, 1j, 3)
linspace(torch.tensor(0.0), torch.tensor(1.0), 3); linspace(torch.tensor([0.0, 1.0]), 1, 3)
linspace(0, 1, steps=3, out=o); linspace(5, 0, 3, dtype=torch.uint8); linspace(-1, 1, 7)
linspace(0, 1, 3, dtype=torch.bool); linspace(start=0, end=1, steps=3); linspace(1, 0, 1)
linspace(0, 1, 3, requires_grad=True); linspace(0, 1, 4, dtype=torch.float64)
linspace(0, 1, 3, dtype=torch.complex128); linspace(0, 1, 3, dtype=torch.float16)
linspace(0, 1j, 3, dtype=torch.float32); linspace(-7, 7, 6, dtype=torch.int32)
arange(0.0, -8.000001, -4.0, dtype=torch.uint8); arange(0.5, 3.2, 1.5, dtype=torch.int32)
arange(0.5, 3.2, 1.5, dtype=torch.int64); linspace(4.3, 0, 50, dtype=torch.int64)
linspace(-0.5, 9.7, 7, dtype=torch.int8); linspace(-3, 4, 5, dtype=torch.uint8)
range(0, 3); range(0, 3, 0.5); range(1, 3, dtype=torch.int64); range(3, 0); range(3, 0, -1)
range(0, 3, 0); range(0, 3.5, dtype=torch.int32); range(0, INF); range(3); range(0, end=3)
range(0, 3, dtype=torch.bool); range(0, 3, dtype=torch.complex64); range(0, 1, out=o)
full((2,), -9, dtype=torch.uint8); full_like(i.to(torch.uint8), -9)
full((1,), -256, dtype=torch.uint8)
scalar_tensor(-5, dtype=torch.uint8); get_default_device(); detach(x)
ones(3).new([1, 2]); ones(3).new(2, 0); ones(3).new(); ones(3).new(x); ones(3).new(size=(0, 2))
ones(3, dtype=torch.int32).new((1, 2)); ones(3).new(torch.Size([0, 2]))
logspace(0, 2, 3); logspace(0, 2, 3, base=2); logspace(0, 2, 3, 2); logspace(0, 2, 1)
logspace(0, 2, -1); logspace(0, 2, 3, dtype=torch.int64); logspace(0, 1, 3, base=-2.0)
logspace(0, 1j, 3); logspace(0, 2, steps=0); logspace(-1, 1, 5, dtype=torch.float64)
logspace(0, 2, 3, dtype=torch.bool); logspace(0, 2, 3, out=o); logspace(2, 0, 4, base=0.5)
logspace(0, 2, 3, requires_grad=True)
scalar_tensor(3); scalar_tensor(3, dtype=torch.int64); scalar_tensor(2.5, requires_grad=True)
tensor(3); tensor([]); tensor([[]]); tensor([1, 2.5]); tensor([1, 2j]); tensor([True, 2])
tensor([torch.tensor(1.0), torch.tensor(2.0)]); tensor([torch.tensor(1), torch.tensor(2.0)])
tensor([torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])]); tensor(np.float64(1)); tensor(b'ab')
tensor([torch.tensor([1.0]), torch.tensor([3.0])]); tensor([[torch.tensor(1)], [2]])
tensor([np.float64(1), np.float32(2)]); tensor(np.float32(1)); tensor([np.float32(1)])
tensor(np.array([1, 2], dtype=np.int32)); tensor([np.array([1, 2]), np.array([3, 4])])
tensor('a'); tensor(['a']); tensor(None); tensor([None]); tensor({}); tensor({1, 2}); tensor([{}])
tensor([[1, 2], [3]]); tensor([[1], 2]); tensor(range(3)); tensor((1, 2)); tensor([(1, 2), (3, 4)])
tensor([1.5], dtype=torch.int64); tensor([300], dtype=torch.uint8); tensor([-1], dtype=torch.uint8)
tensor(2**63); tensor([2**63]); tensor(-2**63); tensor([1j], dtype=torch.float32); tensor([2**64])
tensor(1e400); tensor(1e40); tensor([1], requires_grad=True); tensor(1.0, requires_grad=1)
tensor(x); tensor(g); tensor(np.array(['a'])); tensor(np.array([1, 2], dtype=np.uint16)); tensor(s)
tensor(np.ones(2, dtype='>f4')); tensor(data=[1]); tensor(1, 2); tensor(True); tensor(True).dtype
tensor([[1, 2], [3, 4]], dtype=torch.bool); tensor([NAN], dtype=torch.int64); tensor(INF)
tensor(3.7, dtype=torch.int32); tensor(3.7, dtype=torch.bool); tensor([0, 2], dtype=torch.bool)
tensor(1, dtype=torch.complex64); tensor([1, 2], dtype=torch.float16); tensor(t); tensor(t.numpy())
tensor([1e-50, 1.0]); tensor([1, 2], dtype=float); tensor(np.array(3)); tensor([[[1]], [[2]]])
tensor(np.arange(6).reshape(2, 3).T); tensor(np.ones((2, 0))); tensor([[], []])
tensor([1000], dtype=torch.int8); tensor(40000, dtype=torch.int16); tensor([1.0, None])
as_tensor([1, 2]); as_tensor(x, dtype=torch.float64); as_tensor(np.float64(1)); as_tensor(3)
as_tensor(np.array(1.0)); as_tensor(g).requires_grad; as_tensor(x).data_ptr() == x.data_ptr()
as_tensor([1.0], dtype=torch.float64); as_tensor('a'); as_tensor(np.ones(2), dtype=torch.float32)
asarray([1, 2]); asarray(x, copy=True); asarray(g); asarray(g, requires_grad=True); asarray(3.0)
asarray(x, copy=False, dtype=torch.float64); asarray([1, 2], copy=False); asarray(np.float32(3.0))
asarray(np.ones(2), copy=False); asarray([torch.tensor(1.0), torch.tensor(2.0)]); asarray('a')
asarray(None); asarray(b'abcd', dtype=torch.uint8); asarray(x) is x; asarray(x, copy=True) is x
asarray([1.0], requires_grad=True); asarray(i, requires_grad=True); asarray(g, copy=True)
asarray(g).requires_grad; asarray(np.ones(2), dtype=torch.float32); asarray(range(2))
frombuffer(bytearray(b'abcdefgh'), dtype=torch.int32)
frombuffer(bytearray(b'abcdefgh'), dtype=torch.int32, count=1)
frombuffer(bytearray(b'abcdefgh'), dtype=torch.int32, offset=4)
frombuffer(bytearray(b'abcdefgh'), dtype=torch.int32, offset=3)
frombuffer(bytearray(b'abcdefgh'), dtype=torch.int32, offset=8)
frombuffer(bytearray(b'abcdefgh'), dtype=torch.int32, offset=-1)
frombuffer(bytearray(b'abcdefgh'), dtype=torch.int32, count=3)
frombuffer(bytearray(b''), dtype=torch.int32); frombuffer(bytearray(b'abcdefg'), dtype=torch.int32)
frombuffer(bytearray(b'abcdefgh'), dtype=torch.int32, count=0); frombuffer(3, dtype=torch.int32)
frombuffer(bytearray(b'abcdefgh'), dtype=torch.float32, requires_grad=True)
frombuffer(bytearray(b'abcdefgh'), dtype=torch.int32, requires_grad=True)
from_numpy(3); from_numpy(np.array(['a'])); from_numpy(np.float64(3)); from_numpy(np.ones(3)[::2])
from_numpy(np.ones(2, dtype='>f4')); from_dlpack(np.ones(3)); from_numpy(np.array(2.5))
empty_strided((2, 3), (1, 2)).stride(); empty_strided((2, 3), (3,)); empty_strided((), ()).shape
empty_strided((2, 3), (6, 2)).stride(); empty_strided((2, 3), (0, 1)).stride()
empty_strided((2, 3), (1, 2), dtype=torch.int32).dtype
empty_permuted((2, 3, 4), (2, 0, 1)).stride(); empty_permuted((2, 3), (0, 0))
empty_permuted((2, 3), (0,)); empty_permuted((2, 3), (0, 2)); empty_permuted((2, 3), (1, 0)).shape
empty(2, 3).shape; empty(0); empty((2,), dtype=torch.int8).dtype; empty(-1)
empty(2, 3, out=o).shape
empty(2, memory_format=torch.contiguous_format).shape; empty_like(t).stride(); empty()
empty_like(x[:, ::2]).stride(); empty_like(p).stride(); empty_like(x.expand(2, 2, 3)).stride()
empty_like(t, memory_format=torch.contiguous_format).stride(); empty_like(x, dtype=torch.int8).dtype
finfo(torch.float32); finfo(torch.float16); finfo(torch.float64); finfo(torch.complex64); finfo()
finfo(torch.int32); iinfo(torch.int32); iinfo(torch.uint8); iinfo(torch.float32); iinfo(torch.bool)
iinfo(torch.int64).max; iinfo(torch.int64).min; iinfo(torch.uint16).bits; iinfo(torch.int8).dtype
finfo(torch.float32).dtype; finfo(torch.float64).bits; finfo(torch.float32).eps; finfo('a')
finfo(torch.float32).max; finfo(torch.float32).min; finfo(torch.float32).tiny; iinfo('a')
finfo(torch.float16).smallest_normal; finfo(torch.float64).resolution; iinfo(torch.int64)
set_num_threads(0); set_num_threads('a'); set_num_threads(1.5); set_num_threads(-1)
rand(2, dtype=torch.int64); rand(-1); randn(2, dtype=torch.int64); randint(0, (2,)); randperm(-1)
randint(5, 3, (2,)); randint(5, (2,), requires_grad=True); randn_like(i); rand_like(i)
randperm(3, requires_grad=True); rand(2.5); randn(); randint(5); rand(2, foo=1)
randperm(300, dtype=torch.uint8); randint(0, 300, (2,), dtype=torch.uint8); randperm(2.5)
rand_like(3); normal(0.0, -1.0, (2,)); normal(0.0, 1.0, (-2,)); rand(2, requires_grad=1)
"""


def calls() -> list[str]:
    return [c.strip() for line in CALLS.splitlines() for c in line.split(";") if c.strip()]


# Calls that Python, NumPy or we refuse in other words, or that differ on purpose.
OTHER_WORDS = {
    "full((2,))": "Python's words for an argument that is missing",
    "rand(2, foo=1)": "Python's words for an argument that is none",
    "rand(2, requires_grad=1)": "words that list every way to call it",
}


def outcome(library: Any, call: str) -> Any:
    """What a call gives, in terms that both libraries share."""
    x = library.arange(6.0).reshape(2, 3)
    names = {
        "torch": library, "np": np, "x": x, "t": x.t(), "i": library.arange(3), "s": x.sum(),
        "p": library.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1), "o": library.zeros(0),
        "oi": library.zeros(0, dtype=library.int64), "INF": math.inf, "NAN": math.nan,
        "g": library.ones(2, requires_grad=True),
    }  # fmt: skip
    try:
        found = eval(f"torch.{call}", names)
    except Exception as error:
        return type(error).__name__, next(iter(str(error).splitlines()), "")
    if not isinstance(found, library.Tensor):
        return re.sub(r"0x\w+", "", repr(found))
    values = found.detach().resolve_conj() if library.__name__ == "torch" else found.detach()
    strides = found.stride() if found.numel() > 1 else None
    return (
        values.tolist(), str(found.dtype), tuple(found.shape), strides,
        found.requires_grad, found.is_leaf,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", calls())
def test_creation_agrees_with_pytorch(torch: Any, call: str) -> None:
    theirs, ours = outcome(torch, call), outcome(retrograd, call)
    if call in OTHER_WORDS:
        assert isinstance(theirs, tuple)
        assert isinstance(ours, tuple)
        assert theirs[0] == ours[0]
        assert theirs[1] != ours[1], "take it off OTHER_WORDS"
        return
    if isinstance(theirs, tuple) and len(theirs) == 6 and len(ours) == 6:
        assert ours[1:] == theirs[1:]
        np.testing.assert_allclose(ours[0], theirs[0], rtol=3e-7)
        return
    assert ours == theirs


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ranges_are_pytorchs_to_the_last_bit(torch: Any, dtype: str) -> None:
    random = np.random.default_rng(0)
    for _ in range(100):
        low, high = sorted(random.uniform(-10, 10, 2).round(random.integers(0, 8)))
        step, count = (high + 0.5 - low) / random.integers(1, 200), int(random.integers(1, 200))
        theirs, ours = (
            [
                library.arange(low, high + 0.5, step, dtype=getattr(library, dtype)),
                library.arange(high, low - 0.5, -step, dtype=getattr(library, dtype)),
                library.linspace(low, high, count, dtype=getattr(library, dtype)),
            ]
            for library in (torch, retrograd)
        )
        for a, b in zip(theirs, ours, strict=True):
            np.testing.assert_array_equal(b.numpy(), a.numpy())


def test_memory_is_shared_or_copied() -> None:
    array = np.zeros(3)
    shared, copied = retrograd.as_tensor(array), retrograd.tensor(array)
    buffer = bytearray(3)
    bytes_of = retrograd.frombuffer(buffer, dtype=retrograd.uint8)
    array[0], buffer[0] = 5, 7
    assert shared[0].item() == retrograd.asarray(array)[0].item() == 5
    assert copied[0].item() == 0
    assert retrograd.asarray(array, copy=True).data_ptr() != shared.data_ptr()
    assert bytes_of[0].item() == 7


def test_the_default_dtype_is_that_of_new_tensors() -> None:
    retrograd.set_default_dtype(retrograd.float64)
    try:
        made = [
            retrograd.zeros(1), retrograd.rand(1), retrograd.randn(1), retrograd.tensor(1.5),
            retrograd.arange(1.5), retrograd.linspace(0, 1, 2), retrograd.eye(1),
            retrograd.full((1,), 1.5), retrograd.hann_window(3), retrograd.fft.fftfreq(3),
            retrograd.normal(0.0, 1.0, (1,)), retrograd.scalar_tensor(1),
            retrograd.logspace(0, 1, 2),
        ]  # fmt: skip
        assert {x.dtype for x in made} == {retrograd.float64}
        assert retrograd.tensor(1j).dtype is retrograd.complex128
        assert retrograd.finfo().bits == 64
        assert retrograd.fft.fft(retrograd.tensor([1, 2])).dtype is retrograd.complex128
    finally:
        retrograd.set_default_dtype(retrograd.float32)


def test_the_number_of_threads() -> None:
    before = retrograd.get_num_threads()
    try:
        retrograd.set_num_threads(1)
        assert retrograd.get_num_threads() == 1
        retrograd.set_num_threads(2)
        assert retrograd.get_num_threads() == 2
    finally:
        retrograd.set_num_threads(before)


WITH_OUT = {
    "linspace": (lambda out: retrograd.linspace(0, 1, 3, out=out), [0.0, 0.5, 1.0]),
    "logspace": (lambda out: retrograd.logspace(0, 2, 3, out=out), [1.0, 10.0, 100.0]),
    "arange": (lambda out: retrograd.arange(3, out=out), [0.0, 1.0, 2.0]),
    "full": (lambda out: retrograd.full((3,), 7.0, out=out), [7.0, 7.0, 7.0]),
    "ones": (lambda out: retrograd.ones(3, out=out), [1.0, 1.0, 1.0]),
    "eye": (lambda out: retrograd.eye(1, 3, out=out), [1.0, 0.0, 0.0]),
    "add": (lambda out: retrograd.add(retrograd.ones(3), 1, out=out), [2.0, 2.0, 2.0]),
    "sum": (lambda out: retrograd.sum(retrograd.ones(3, 2), 1, out=out), [2.0, 2.0, 2.0]),
}


@pytest.mark.parametrize("name", WITH_OUT)
def test_out_of_another_shape_is_written_in_the_memory_of_its_base(name: str) -> None:
    """PyTorch's values: a tensor that must change its shape begins where it did."""
    call, values = WITH_OUT[name]
    for view in (
        lambda base: base[2:5],
        lambda base: base[2:4],
        lambda base: base[2:6:2],
        lambda base: base[2:6].reshape(2, 2).T,
        lambda base: base[2],
    ):
        base = retrograd.full((7,), -1.0)
        out = view(base)
        assert call(out) is out
        assert out.flatten().tolist() == values
        assert base.tolist() == [-1.0, -1.0, *values, -1.0, -1.0]
        assert base._version == 1
    # As much as there is room for.
    base = retrograd.full((4,), -1.0)
    out = base[2:]
    call(out)
    assert out.flatten().tolist() == values
    assert base.tolist() == [-1.0, -1.0, *values[:2]]
    base.mul_(retrograd.tensor(2.0, requires_grad=True))
    assert not out.requires_grad  # it lies elsewhere now


def test_ranges_keep_the_shape_of_as_many_elements() -> None:
    base = retrograd.zeros(2, 3)
    assert retrograd.linspace(0, 1, 3, out=base[1:]).tolist() == [[0.0, 0.5, 1.0]]
    assert base.tolist() == [[0.0, 0.0, 0.0], [0.0, 0.5, 1.0]]
    turned = retrograd.zeros(2, 2).T
    assert retrograd.arange(4, out=turned).tolist() == [[0.0, 1.0], [2.0, 3.0]]


def test_new_tensors_without_a_dtype_have_that_of_the_tensor() -> None:
    x = retrograd.ones(2, dtype=retrograd.float64)
    for made in (x.new_zeros(3, dtype=None), x.new_full((3,), 2.0, dtype=None)):
        assert made.dtype is retrograd.float64
