"""Names that programs mention in passing: kernels, storages, what nodes were called with."""

from __future__ import annotations

from typing import Any

import pytest

import retrograd
from retrograd.testing import assert_close

KERNELS = [
    "add", "add.Tensor", "mm.default", "sum.dim_IntList", "linalg_inv", "special_erf", "relu_",
]  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_functions_of_that_name(torch: Any, name: str) -> None:
    found = []
    for lib in (retrograd, torch):
        x = lib.tensor([[1.0, 2.0], [3.0, 5.0]])
        kernel: Any = lib.ops.aten
        for part in name.split("."):
            kernel = getattr(kernel, part)
        more = {"add": (x,), "mm": (x,), "sum": ([1], True)}.get(name.split(".")[0], ())
        found.append((str(kernel), kernel(x, *more).tolist()))
    assert found[0][0] == found[1][0]
    assert_close(retrograd.tensor(found[0][1]), retrograd.tensor(found[1][1]))


def test_kernels_that_are_not_there() -> None:
    assert not hasattr(retrograd.ops.aten, "_softmax")
    with pytest.raises(AttributeError, match="'aten' object has no attribute 'nothing'"):
        retrograd.ops.aten.nothing
    with pytest.raises(AttributeError, match=r"torch\.library\.custom_op declares"):
        retrograd.ops.never_declared


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages_are_made_by_class(torch: Any) -> None:
    for lib in (retrograd, torch):
        made = lib.FloatStorage([1.0, 2.5])
        assert (made.tolist(), made.size(), made.dtype) == ([1.0, 2.5], 2, lib.float32)
        assert isinstance(made, lib.FloatStorage)
        assert not isinstance(made, lib.LongStorage)
        assert isinstance(lib.ones(2, dtype=lib.int64).storage(), lib.LongStorage)
        assert lib.LongStorage(3).size() == 3
        assert lib.UntypedStorage(4).nbytes() == 4
        assert lib.TypedStorage([1, 2], dtype=lib.int32).tolist() == [1, 2]
        x = lib.empty(0).set_(lib.FloatStorage([1.0, 2.0, 3.0]), 1, (2,))
        x += 1.0
        assert x.tolist() == [3.0, 4.0]


NODES = {
    "x ** 2": ["exponent"],
    "x.sum(1)": ["dim", "keepdim", "self_sym_sizes"],
    "x.sum()": ["self_sym_sizes"],
    "x.index_select(0, torch.tensor([1]))": ["dim", "index", "self_sym_sizes"],
    "x.select(0, 1)": ["dim", "index"],
    "x.clamp(0, 1)": ["min", "max"],
    "torch.nn.functional.mse_loss(x, x * 0)": ["reduction"],
    "torch.nn.functional.conv1d(x[None], torch.ones(1, 2, 1))": ["stride", "groups", "transposed"],
}


@pytest.mark.parametrize("expression", NODES)
def test_nodes_show_what_they_were_called_with(torch: Any, expression: str) -> None:
    found = []
    for lib in (retrograd, torch):
        x = lib.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)
        node = eval(expression, {"torch": lib, "x": x}).grad_fn
        values = [getattr(node, f"_saved_{name}") for name in NODES[expression]]
        found.append([v.tolist() if isinstance(v, lib.Tensor) else v for v in values])
        assert not hasattr(node, "_saved_nothing")
        assert not hasattr(x.exp().grad_fn, "_saved_exponent")
    assert found[0] == found[1]


def test_what_there_is_none_of_says_what_to_use() -> None:
    from retrograd._subclasses.fake_tensor import FakeTensor, FakeTensorMode, is_fake
    from retrograd.utils import model_zoo

    assert not is_fake(retrograd.ones(1))
    assert not isinstance(retrograd.ones(1), FakeTensor)
    for call, words in (
        (FakeTensorMode, r"torch\.device\('meta'\)"),
        (lambda: retrograd.nested.nested_tensor([retrograd.ones(2)]), "pad_sequence"),
        (lambda: retrograd.export.export(retrograd.nn.Linear(1, 1), ()), r"torch\.compile"),
    ):
        with pytest.raises(NotImplementedError, match=words):
            call()
    with pytest.raises(RuntimeError, match="downloads nothing"):
        model_zoo.load_url("https://example.org/a.pt")


@pytest.mark.parametrize("which", ["input", "weight", "neither"])
@pytest.mark.parametrize("name", ["conv2d", "conv_transpose2d", "conv3d"])
def test_channels_stay_innermost_in_convolutions(torch: Any, name: str, which: str) -> None:
    found = []
    for lib in (retrograd, torch):
        volume = name == "conv3d"
        last = lib.channels_last_3d if volume else lib.channels_last
        x = lib.arange(96.0).reshape(2, 3, 4, 4) / 96
        w = lib.arange(36.0).reshape(3, 3, 2, 2) / 36
        x, w = (t[:, :, None] if volume else t for t in (x, w))
        x = x.to(memory_format=last) if which == "input" else x.contiguous()
        w = w.to(memory_format=last) if which == "weight" else w.contiguous()
        x, w = x.requires_grad_(), w.requires_grad_()
        y = getattr(lib.nn.functional, name)(x, w)
        (y * y).sum().backward()
        found.append((y.detach(), x.grad, w.grad))
        assert y.is_contiguous(memory_format=last) is (which != "neither")
    for ours, theirs in zip(*found, strict=True):
        assert ours.stride() == theirs.stride()
        assert_close(ours, retrograd.from_numpy(theirs.numpy()))
