"""Memory that tensors share: where in it each one lies, and what is seen through it."""

from __future__ import annotations

import copy
import pickle
import random
from typing import Any

import numpy as np
import pytest

import retrograd as torch

WAYS = {
    "detach": lambda v: v.detach(),
    "data": lambda v: v.data,
    "requires_grad_": lambda v: v.detach().requires_grad_(),
    "Parameter": lambda v: torch.nn.Parameter(v),
    "Parameter.data": lambda v: torch.nn.Parameter(v).data,
    "Buffer": lambda v: torch.nn.Buffer(v),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "as_tensor": lambda v: torch.as_tensor(v),
    "a slice and back": lambda v: v.detach()[2:].detach().as_strided((6,), (1,), 3),
    "unsqueeze_": lambda v: v.detach().unsqueeze_(0)[0],
    "bits": lambda v: v.view(torch.int32).view(torch.float32),
    "assigned": lambda v: _assigned(torch.zeros(6), v),
    "base assigned": lambda v: (_assigned(v._base, torch.zeros(3)), v)[1],
}


def _assigned(x: Any, value: Any) -> Any:
    x.data = value
    return x


@pytest.mark.parametrize("way", WAYS)
def test_a_view_that_is_wrapped_anew_lies_where_it_lay(way: str) -> None:
    wrapped = WAYS[way](torch.arange(10.0)[3:9])
    assert wrapped.storage_offset() == 3
    assert wrapped.detach().as_strided((2,), (1,)).tolist() == [3.0, 4.0]
    assert wrapped.detach().as_strided((3,), (2,), 0).tolist() == [0.0, 2.0, 4.0]
    with pytest.raises(RuntimeError, match="are out of bounds for storage of size 40"):
        wrapped.detach().as_strided((2,), (1,), 9)


def test_what_comes_from_elsewhere_is_a_memory_by_itself() -> None:
    array = np.arange(10.0)
    for x in (torch.from_numpy(array[3:9]), torch.as_tensor(array[3:9])):
        assert (x.storage_offset(), x[2:].detach().storage_offset()) == (0, 2)
        with pytest.raises(RuntimeError, match="are out of bounds for storage of size 48"):
            x.as_strided((7,), (1,))
    x[0] = 77
    assert array[3] == 77
    loaded = pickle.loads(pickle.dumps(torch.arange(10.0)[3:9]))
    assert (loaded.storage_offset(), loaded.tolist()) == (0, [3.0, 4.0, 5.0, 6.0, 7.0, 8.0])


def test_deep_copies_share_memory_as_their_originals_do() -> None:
    x = torch.arange(6.0)
    whole, part = copy.deepcopy([x, x[2:4]])
    part[0] = 99
    assert whole.tolist() == [0.0, 1.0, 99.0, 3.0, 4.0, 5.0]
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    odd = copy.deepcopy(torch.from_numpy(np.arange(6.0)[1::2])[1:])
    assert (odd.tolist(), odd.stride(), odd.storage_offset()) == ([3.0, 5.0], (2,), 2)
    assert (part.storage_offset(), part.detach().as_strided((2,), (1,), 0).tolist()) == (2, [0, 1])


def test_an_expanded_view_knows_where_its_memory_starts() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    y = x[1:, None, 1:3].expand(2, 5, 2)
    assert (y.storage_offset(), y.untyped_storage().nbytes()) == (5, 48)
    assert y.untyped_storage().data_ptr() == x.data_ptr()
    assert y.as_strided((2,), (1,)).tolist() == [5.0, 6.0]
    assert y.as_strided((2,), (1,), 0).tolist() == [0.0, 1.0]


def test_as_strided_of_a_sliced_batch() -> None:
    rows = torch.arange(12.0).view(4, 3)[1:3]
    second = torch.func.vmap(lambda r: r.as_strided((2,), (1,), 4))
    assert second(rows).tolist() == [[4.0, 5.0], [7.0, 8.0]]
    assert second(rows.detach()).tolist() == [[4.0, 5.0], [7.0, 8.0]]
    cut = torch.func.vmap(lambda r: r[1:].detach().as_strided((1,), (1,), 5))
    assert cut(rows).tolist() == [[5.0], [8.0]]
    gradient = torch.func.vmap(torch.func.grad(lambda r: r.as_strided((2,), (1,), 4).sum()))
    assert gradient(rows).tolist() == [[0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    with pytest.raises(RuntimeError, match=r"in range \[0, 2\], but `tensor` .* in range \[3, 6\]"):
        torch.func.vmap(lambda r: r.as_strided((2,), (1,), 0))(rows)


def test_as_strided_of_a_slice_under_transforms() -> None:
    rows = torch.arange(12.0).view(4, 3)[1:3]
    gradient = torch.func.grad(lambda r: r.as_strided((2,), (1,), 5).sum())(rows)
    assert gradient.tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    value, tangent = torch.func.jvp(lambda r: r.as_strided((2,), (1,), 2), (rows,), (rows,))
    # PyTorch reads 2 before the tangent. What is not part of the input does not move with it.
    assert (value.tolist(), tangent.tolist()) == ([2.0, 3.0], [0.0, 3.0])
    starts = []

    def note(r: Any) -> Any:
        starts.append((r.storage_offset(), r[1:].storage_offset()))
        return r

    torch.func.jvp(note, (rows,), (rows,))
    torch.func.vmap(note)(rows)
    assert starts == [(3, 6), (3, 4)]


# -- real and imaginary parts ----------------------------------------------------------------


def real_times(z: Any, r: Any) -> Any:
    z.real.mul_(r)
    return (z,)


def imag_copied(z: Any, r: Any) -> Any:
    z.imag.copy_(r * r)
    return (z,)


def base_written(z: Any, r: Any) -> Any:
    v = z.imag
    z.mul_(2j)
    return (v * r,)


def pairs_written(z: Any, r: Any) -> Any:
    v = torch.view_as_real(z)
    v[:, 1] = r
    return z, v


def pairs_turned(z: Any, r: Any) -> Any:
    v = torch.view_as_real(z).T
    v[0].mul_(r)
    return z, v


def both_set(z: Any, r: Any) -> Any:
    v = z.real
    z.imag = r
    z.real = r * 2
    return v, z


def one_set(z: Any, r: Any) -> Any:
    z.select(0, 1).imag = r[0]
    z[:1].real = 3
    return (z,)


def exchanged(z: Any, r: Any) -> Any:
    z.real, z.imag = z.imag + r, z.real.clone()
    return (z,)


def numbers_of_pairs(z: Any, r: Any) -> Any:
    b = r.new_zeros(2, 2)
    c = torch.view_as_complex(b)
    c.copy_(z)
    b[:, 0] *= r
    return b, c


def views_of_views(z: Any, r: Any) -> Any:
    v = torch.view_as_real(z)
    w = torch.view_as_complex(v)
    w.mul_(1j)
    v[0] = r
    w[1:].imag.mul_(r[0])
    return z, v, w


def older_part(z: Any, r: Any) -> Any:
    v = z.real[0:1]
    z.imag.zero_()
    z *= r + 1j
    return v, z


PARTS = [real_times, imag_copied, base_written, pairs_written, pairs_turned, both_set, one_set,
         exchanged, numbers_of_pairs, views_of_views, older_part]  # fmt: skip
Z = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128)
R = torch.tensor([0.5, 0.7], dtype=torch.float64)


def total(part: Any) -> Any:
    def function(z: Any, r: Any) -> Any:
        found = part(z * 1, r)
        return sum((y.abs() ** 3).sum() * (i + 1) for i, y in enumerate(found))

    return function


@pytest.mark.parametrize("part", PARTS)
def test_writes_through_real_and_imaginary_parts(part: Any) -> None:
    leaves = [Z.clone().requires_grad_(), R.clone().requires_grad_()]
    check = torch.autograd.gradcheck
    assert check(total(part), leaves, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(total(part), leaves)


@pytest.mark.parametrize("part", PARTS)
def test_writes_through_parts_under_transforms(part: Any) -> None:
    func, f = torch.func, total(part)
    leaves = [Z.clone().requires_grad_(), R.clone().requires_grad_()]
    expected = torch.autograd.grad(f(*leaves), leaves)
    found = func.grad(f, argnums=(0, 1))(Z, R)
    batch = func.vmap(func.grad(f, argnums=(0, 1)))(torch.stack([Z, Z]), torch.stack([R, R]))
    for e, g, rows in zip(expected, found, batch, strict=True):
        assert torch.allclose(g, e)
        assert torch.allclose(rows[1], e)
    tangent = func.jvp(f, (Z, R), (Z, R))[1]
    along = sum((g.conj() * x).sum().real for g, x in zip(expected, (Z, R), strict=True))
    assert torch.allclose(tangent, along)
    turned = func.jvp(func.grad(f, argnums=(0, 1)), (Z, R), (Z, R))[1]
    h = 1e-6
    ends = [func.grad(f, argnums=(0, 1))(Z * (1 + s), R * (1 + s)) for s in (h, -h)]
    for t, up, down in zip(turned, *ends, strict=True):
        assert torch.allclose(t, (up - down) / (2 * h), rtol=1e-5, atol=1e-5)


def test_gradients_of_a_written_part_are_pytorchs() -> None:
    z, r = Z.clone().requires_grad_(), R.clone().requires_grad_()
    (y,) = real_times(z * 1, r)
    ((y.abs() ** 2).sum() + (y * y).real.sum()).backward()
    assert torch.allclose(z.grad, torch.tensor([1 + 0j, 5.88 + 0j], dtype=torch.complex128))
    assert torch.allclose(r.grad, torch.tensor([2, 25.2], dtype=torch.float64))
    y = z * 1
    v = y.real
    v.mul_(2)
    assert (v.grad_fn.name(), y.grad_fn.name(), y._version) == (
        "AsStridedBackward0",
        "torch::autograd::CopySlices",
        1,
    )
    assert [n.name() for n, _ in v.grad_fn.next_functions] == ["ViewAsRealBackward0"]


def test_setting_parts() -> None:
    z = torch.ones(2, dtype=torch.complex64)
    z.real, z.imag = torch.tensor([4.0, 5.0]), 2
    assert (z.tolist(), z._version) == ([4 + 2j, 5 + 2j], 2)
    x = torch.ones(2)
    x.real = torch.tensor([4.0, 5.0])
    assert x.tolist() == [4.0, 5.0]
    with pytest.raises(RuntimeError, match="imag is not implemented for tensors with non-complex"):
        x.imag = x
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being"):
        Z.clone().requires_grad_().real = 3
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(2\) must match the size of"):
        z.real = torch.ones(3)


def test_pairs_that_are_no_complex_numbers() -> None:
    x = torch.arange(12.0)
    with pytest.raises(RuntimeError, match="Tensor must have a storage_offset divisible by 2"):
        torch.view_as_complex(x[1:5].view(2, 2))
    with pytest.raises(RuntimeError, match="a stride divisible by 2 for all but last dimension"):
        torch.view_as_complex(x.as_strided((2, 2), (3, 1)))


# -- how results lie in memory ---------------------------------------------------------------

TURNED = torch.arange(24.0).view(2, 3, 4).permute(2, 0, 1)  # of shape 4, 2, 3
ROWS = {
    "sum": lambda x: x.sum(-1), "mean": lambda x: x.mean(2, keepdim=True),
    "prod": lambda x: x.prod(-1), "amax": lambda x: x.amax(-1), "min": lambda x: x.min(-1)[0],
    "all": lambda x: x.all(-1), "count_nonzero": lambda x: x.count_nonzero(-1),
    "var": lambda x: x.var(-1), "norm": lambda x: x.norm(dim=-1),
    "logsumexp": lambda x: x.logsumexp(-1), "nansum": lambda x: x.nansum(-1),
    "cumsum": lambda x: x.cumsum(-1), "cumprod": lambda x: x.cumprod(-1),
    "cummax": lambda x: x.cummax(-1)[0], "cummin places": lambda x: x.cummin(-1)[1],
    "masked_fill": lambda x: x.masked_fill(x > 3, 1), "tril": lambda x: x.tril(),
    "triu": lambda x: x.triu(), "renorm": lambda x: x.renorm(2, 0, 1.0),
    "repeats cloned": lambda x: x.contiguous().expand(2, 4, 2, 3).clone(),
    "repeats cast": lambda x: x.contiguous()[:, None].expand(4, 2, 2, 3).double(),
    "one repeated": lambda x: torch.tensor([1.0]).expand(2, 3).clone(),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_results_that_lie_row_by_row_whatever_their_input_does(name: str) -> None:
    found, plain = ROWS[name](TURNED), ROWS[name](TURNED.contiguous())
    assert found.is_contiguous()
    assert torch.equal(found.view(-1), plain.reshape(-1))


def test_a_copy_of_repeats_keeps_the_order_of_the_rest() -> None:
    x = torch.arange(12.0).view(3, 4).t().expand(2, 4, 3)
    for copied in (x.clone(), x.double(), torch.zeros_like(x), copy.deepcopy(x.clone())):
        assert copied.stride() == (12, 1, 4)
    assert torch.equal(x.clone(), x)


def view_strides(shape: Any, strides: Any, wanted: Any) -> list[int] | None:
    """The strides of a view in another shape, by the rule that a group of dimensions can be cut
    anew only where it is one regular run of memory; None where that cannot be."""
    found: list[int] = []
    wanted, end = list(wanted), len(shape)
    while end:
        start, run = end - 1, shape[end - 1]
        while start and (shape[start - 1] == 1 or _run_on(shape, strides, start, end)):
            start -= 1
            run *= shape[start]
        step, left = _innermost(shape, strides, start, end), run
        while wanted and (left > 1 or wanted[-1] == 1):
            size = wanted.pop()
            if left % size:
                return None
            found.insert(0, step)
            step, left = step * size, left // size
        end = start
        if left != 1:
            return None
    return [1] * len(wanted) + found


def _innermost(shape: Any, strides: Any, start: int, end: int) -> int:
    return next((strides[d] for d in range(end - 1, start - 1, -1) if shape[d] != 1), 1)


def _run_on(shape: Any, strides: Any, start: int, end: int) -> bool:
    run = 1
    for d in range(start, end):
        run *= shape[d]
    return bool(strides[start - 1] == run * _innermost(shape, strides, start, end))


def test_views_in_other_shapes_share_memory_where_strides_allow_it() -> None:
    numbers = random.Random(0)
    shared = refused = 0
    for _ in range(2000):
        shape = [numbers.choice([1, 2, 2, 3, 4]) for _ in range(numbers.randint(1, 4))]
        strides = [numbers.choice([0, 1, 1, 2, 3, 4, 6, 12]) for _ in shape]
        x = torch.arange(300.0).as_strided(shape, strides, numbers.randint(0, 3))
        wanted, left = [], x.numel()
        while left > 1 or numbers.random() < 0.3:
            size = numbers.choice([d for d in range(1, left + 1) if left % d == 0])
            wanted.append(size)
            left //= size
        expected = view_strides(shape, strides, wanted)
        copied = x.reshape(wanted)
        if expected is None:
            refused += 1
            assert copied.is_contiguous()
            assert not np.shares_memory(copied.numpy(), x.numpy())
            with pytest.raises(RuntimeError, match="view size is not compatible with input"):
                x.view(wanted)
            continue
        shared += 1
        for y in (copied, x.view(wanted)):
            assert y.data_ptr() == x.data_ptr()
            pairs = zip(y.shape, y.stride(), expected, strict=True)
            assert all(size == 1 or step == e for size, step, e in pairs), (shape, strides, wanted)
    assert min(shared, refused) > 300


# -- tensors that require grad, and their memory ---------------------------------------------


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_arrays_of_what_requires_grad_while_nothing_is_recorded(mode: Any) -> None:
    leaf = torch.ones(2, requires_grad=True)
    for x in (leaf, leaf * 1):
        with mode():
            array = x.numpy()
            assert array is not None
            assert np.asarray(x).tolist() == [1.0, 1.0]
            assert np.array(x).tolist() == [1.0, 1.0]
            assert np.exp(x).tolist() == pytest.approx([np.e, np.e])
        array[0] = 5
        assert x.tolist() == [5.0, 1.0]
        array[0] = 1
        for look in (lambda x=x: x.numpy(), lambda x=x: np.asarray(x)):
            with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires"):
                look()
        with mode(), pytest.raises(BufferError, match="Can't export tensors that require gradient"):
            x.__dlpack__()


def test_views_that_must_not_be_used_can_be_shown() -> None:
    base = torch.ones(3, requires_grad=True) * 1
    with torch.no_grad():
        view = base[:2]
        view.mul_(2)
    assert repr(view) == "tensor([2., 2.], grad_fn=<Invalid>)"
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode and its base or"):
        _ = view.grad_fn
    base = torch.ones(3, requires_grad=True) * 1
    first = base.unbind()[0]
    base.mul_(2)
    assert repr(first) == "tensor(2., grad_fn=<Invalid>)"


def test_inference_tensors_that_were_used_before_are_not_saved() -> None:
    """Views, writes and detached copies do not make them tensors that can be saved."""
    with torch.inference_mode():
        x = torch.ones(2)
        x.add_(1)
        several = [x, x[0:2].mul_(2), x.detach(), (x * 2).view(1, 2)[0]]
    weight = torch.ones(2, requires_grad=True)
    for y in (*several, x.view(2), x.reshape(2, 1)[:, 0]):
        for _ in range(2):
            with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
                weight * y
        (weight + y).sum().backward()
    weight.grad = None
    (weight * x.clone()).sum().backward()
    assert weight.grad.tolist() == [4.0, 4.0]


def test_what_is_made_in_inference_mode_has_no_views_that_know_of_it() -> None:
    with torch.inference_mode():
        base = torch.ones(3, requires_grad=True)
        views = [base[:2], base.view(3, 1), base.unbind()[0]]
    views += [base[:1], base.view(1, 3), base.split(1)[0]]
    for view in views:
        assert (view.requires_grad, view.is_inference(), view._is_view()) == (False, True, False)
        assert view.grad_fn is None
    assert base.requires_grad
    normal = torch.ones(3, requires_grad=True)
    with torch.inference_mode():
        view = normal[:2]
    assert (view.requires_grad, view.is_inference(), view._is_view()) == (True, False, True)


def test_data_that_a_tensor_can_be_given() -> None:
    x = torch.nn.Parameter(torch.ones(2))
    for leaf in (x, x * 1):
        for dtype in (torch.int64, torch.bool):
            with pytest.raises(RuntimeError, match="data set to a tensor that requires gradients"):
                leaf.data = torch.ones(2, dtype=dtype)
        leaf.data = torch.ones(3, dtype=torch.complex64)
        assert (leaf.dtype, leaf.shape) == (torch.complex64, (3,))
    plain = torch.ones(2)
    plain.data = torch.ones(2, dtype=torch.int64)
    assert plain.dtype == torch.int64
    with pytest.raises(TypeError, match=r"Variable data has to be a tensor, but got numpy.ndarray"):
        plain.data = np.ones(2)
