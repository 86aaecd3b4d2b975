"""Layers and distributions on the device ``xla:cpu``, beside those on the CPU.

Run by tests/devices/test_on_devices.py in a process of its own.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _device import DEVICE

import retrograd as torch
from retrograd import nn
from retrograd.nn import functional as F

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / "nn"), str(TESTS / "distributions")]

from _distribution_cases import CASES as DISTRIBUTIONS  # noqa: E402
from test_layers import CASES as LAYERS  # noqa: E402

MORE_LAYERS: list[tuple[str, list[tuple[int, ...]]]] = [
    ("nn.FractionalMaxPool2d(2, output_size=2)", [(1, 1, 6, 6)]),
    ("nn.FractionalMaxPool3d(2, output_size=2)", [(1, 1, 6, 6, 6)]),
    ("nn.RReLU()", [(2, 3)]), ("nn.Dropout(0.3)", [(4, 3)]), ("nn.AlphaDropout(0.3)", [(4, 3)]),
    ("nn.Dropout2d(0.3)", [(2, 4, 3, 3)]), ("nn.SyncBatchNorm(3)", [(4, 3)]),
    ("nn.MultiheadAttention(4, 2)", [(3, 2, 4)] * 3),
    ("nn.Transformer(4, 2, 1, 1, 8)", [(3, 2, 4), (2, 2, 4)]),
    ("nn.LSTM(3, 4, 2, dropout=0.2)", [(5, 2, 3)]), ("nn.LSTMCell(3, 4)", [(2, 3)]),
    ("nn.GRU(3, 4, bidirectional=True)", [(5, 2, 3)]), ("nn.LazyLinear(4)", [(2, 3)]),
    ("nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))", [(2, 3)]),
    ("nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2))", [(2, 3)]),
    ("nn.utils.parametrizations.orthogonal(nn.Linear(3, 2))", [(2, 3)]),
]  # fmt: skip


def tensors(x: Any) -> Iterator[Any]:
    if isinstance(x, (tuple, list)):
        for part in x:
            yield from tensors(part)
    elif isinstance(x, torch.Tensor):
        yield x


def agree(found: list[Any], expected: list[Any], tolerance: float) -> None:
    for here, there in zip(expected, found, strict=True):
        assert (here is None) is (there is None)
        if here is not None:
            assert there.device.type == DEVICE
            np.testing.assert_allclose(there.tolist(), here.tolist(), tolerance, tolerance)


def of_layer(device: str, expression: str, shapes: list[tuple[int, ...]]) -> list[Any]:
    """Results, gradients and buffers."""
    torch.manual_seed(0)
    layer = eval(expression, {"nn": nn, "torch": torch}).to(device)
    inputs = [torch.randn(shape).to(device).requires_grad_() for shape in shapes]
    results = list(tensors(layer(*inputs)))
    sum((y * y).sum() for y in results if y.is_floating_point()).backward()
    return [*results, *[x.grad for x in (*inputs, *layer.parameters())], *layer.buffers()]


def check_layer(expression: str, shapes: list[tuple[int, ...]]) -> None:
    agree(of_layer(DEVICE, expression, shapes), of_layer("cpu", expression, shapes), 2e-4)


LAYERS = [case for case in LAYERS if case[1]]  # those that take inputs


@pytest.mark.parametrize(("expression", "shapes"), [*LAYERS[::8], *MORE_LAYERS])
def test_layers(expression: str, shapes: Any) -> None:
    check_layer(expression, shapes)


@pytest.mark.long
def test_all_layers() -> None:
    for expression, shapes in LAYERS:
        check_layer(expression, shapes)


def of_distribution(device: str, make: Any) -> list[Any]:
    """Samples, logarithms of probabilities and moments, with their gradients."""
    parameters: list[Any] = []

    def parameter(*values: Any) -> Any:
        data = values[0] if len(values) == 1 and isinstance(values[0], float) else list(values)
        parameters.append(torch.tensor(data, dtype=torch.float64).to(device).requires_grad_())
        return parameters[-1]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        distribution = make(torch.distributions, parameter)
        torch.manual_seed(0)
        found = [distribution.sample((2,))]
        draw = distribution.rsample if distribution.has_rsample else distribution.sample
        computed = [lambda: draw((3,)), lambda: distribution.log_prob(found[0])]
        for name in ("mean", "variance", "mode", "entropy", "enumerate_support"):
            computed.append(lambda name=name: getattr(distribution, name))
        for compute in computed:
            for p in parameters:
                p.grad = None
            try:
                y = compute()
                y = y() if callable(y) else y
            except NotImplementedError:
                continue
            if y.requires_grad:
                y.sum().backward(retain_graph=True)
            found += [y, *[p.grad for p in parameters]]
    return found


# Numbers are on the CPU.
@pytest.mark.parametrize("name", [x for x in DISTRIBUTIONS if x != "Normal of numbers"])
def test_distributions(name: str) -> None:
    make = DISTRIBUTIONS[name]
    agree(of_distribution(DEVICE, make), of_distribution("cpu", make), 2e-6)


def test_batch_norm_that_is_overwritten_gets_a_gradient_of_zero() -> None:
    x = torch.tensor([[1.0], [3.0]], device=DEVICE, requires_grad=True)
    statistics = torch.zeros(1, device=DEVICE), torch.ones(1, device=DEVICE)
    y = F.batch_norm(x, *statistics, training=True)
    y[...] = x
    (y * y).sum().backward()
    assert x.grad.tolist() == [[2.0], [6.0]]


def test_a_lookup_with_max_norm_is_a_write_whether_rows_are_long_or_not() -> None:
    for device in ("cpu", DEVICE):
        table = torch.tensor([[3.0, 4.0], [1.0, 0.0]], device=device)
        F.embedding(torch.tensor([1], device=device), table, max_norm=2.0)
        assert table._version == 1
        F.embedding(torch.tensor([0], device=device), table, max_norm=2.0)
        assert table._version == 2
        assert torch.allclose(table.cpu(), torch.tensor([[1.2, 1.6], [1.0, 0.0]]))


def test_histograms_have_no_derivative() -> None:
    x = torch.tensor([0.5, 1.5, 1.6], device=DEVICE, requires_grad=True)
    for result in (x.histogram(2), x.detach().histogram(2, weight=x)):
        assert result.hist.requires_grad
        with pytest.raises(RuntimeError, match="derivative for aten::histogram is not implemented"):
            result.hist.sum().backward()
    assert x.histogram(2).hist.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
@pytest.mark.parametrize("kind", ["cayley", "matrix_exp", "householder"])
def test_orthogonal_weights(kind: str, shape: tuple[int, int]) -> None:
    layer = torch.nn.Linear(*shape).to(DEVICE)
    torch.nn.utils.parametrizations.orthogonal(layer, orthogonal_map=kind)
    weight = layer.weight
    product = weight @ weight.T if shape[1] <= shape[0] else weight.T @ weight
    np.testing.assert_allclose(product.tolist(), np.eye(min(shape)), atol=1e-5)
    (weight * weight.detach().exp()).sum().backward()
    gradient = layer.parametrizations.weight.original.grad
    assert gradient.device.type == DEVICE
    assert gradient.abs().max().item() > 0.01


def test_adaptive_softmax() -> None:
    found = []
    for device in ("cpu", DEVICE):
        torch.manual_seed(0)
        layer = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10], div_value=2.0).to(device)
        x = torch.randn(6, 8).to(device).requires_grad_()
        output, loss = layer(x, torch.tensor([0, 3, 6, 12, 19, 4]).to(device))
        loss.backward()
        found.append([y.tolist() for y in (output, loss, x.grad)])
    for on, off in zip(*found, strict=True):
        np.testing.assert_allclose(on, off, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", [
    {"tgt_mask": True}, {"src_mask": True, "memory_mask": True},
    {"tgt_mask": True, "tgt_is_causal": True},
])  # fmt: skip
def test_transformers_with_causal_masks(options: dict[str, bool]) -> None:
    def outputs(device: str) -> list[Any]:
        torch.manual_seed(0)
        layer = nn.Transformer(4, 2, 1, 1, 8, dropout=0.0).to(device)
        x = torch.randn(3, 2, 4).to(device).requires_grad_()
        causal = layer.generate_square_subsequent_mask(3, device=device)
        y = layer(x, x, **{k: causal if "mask" in k else v for k, v in options.items()})
        (y * y).sum().backward()
        return [y, x.grad]

    agree(outputs(DEVICE), outputs("cpu"), 1e-5)


@pytest.mark.parametrize("make", [
    lambda: nn.BatchNorm1d(2, device=DEVICE), lambda: nn.LazyBatchNorm1d(device=DEVICE),
    lambda: torch.optim.swa_utils.AveragedModel(nn.BatchNorm1d(2), DEVICE),
])  # fmt: skip
def test_buffers_are_created_on_the_device(make: Any) -> None:
    module = make()
    module(torch.ones(3, 2, device=DEVICE))
    assert {x.device.type for x in (*module.parameters(), *module.buffers())} == {DEVICE}


def test_gradients_of_convolutions_by_their_functions() -> None:
    x, w, g = (torch.randn(shape) for shape in ((1, 2, 5), (3, 2, 3), (1, 3, 3)))
    expected = [nn.grad.conv1d_input(x.shape, w, g), nn.grad.conv1d_weight(x, w.shape, g)]
    x, w, g = x.to(DEVICE), w.to(DEVICE), g.to(DEVICE)
    found = [nn.grad.conv1d_input(x.shape, w, g), nn.grad.conv1d_weight(x, w.shape, g)]
    agree(found, expected, 1e-5)


def test_channels_pruned_at_random() -> None:
    masks = []
    for device in ("cpu", DEVICE):
        layer = nn.Linear(2, 6).to(device)
        torch.manual_seed(0)
        nn.utils.prune.random_structured(layer, "weight", 3, dim=0)
        masks.append(layer.weight_mask)
    agree([masks[1]], [masks[0]], 0)
