"""Averages of models, and the scheduler that goes with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd.optim import swa_utils


@pytest.fixture
def pytorch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is the reference to compare with")


def model_of(library: Any) -> Any:
    """A parameter, a buffer of floats and one of integers."""
    model = library.nn.Module()
    model.weight = library.nn.Parameter(library.zeros(3, dtype=library.float64))
    model.register_buffer("mean", library.zeros(2, dtype=library.float64))
    model.register_buffer("count", library.tensor(0))
    return model


def averages(library: Any, steps: int = 6, **options: Any) -> dict[str, Any]:
    """The state of an average over a model that takes random values."""
    random = np.random.default_rng(0)
    model = model_of(library)
    averaged = library.optim.swa_utils.AveragedModel(model, **options)
    for n in range(steps):
        with library.no_grad():
            model.weight.copy_(library.tensor(random.standard_normal(3)))
            model.mean.copy_(library.tensor(random.standard_normal(2)))
            model.count.fill_(10 * n)
        averaged.update_parameters(model)
    return {name: x.numpy().copy() for name, x in averaged.state_dict().items()}


def values(steps: int = 6) -> list[Any]:
    random = np.random.default_rng(0)
    return [(random.standard_normal(3), random.standard_normal(2)) for _ in range(steps)]


def test_the_average_is_the_mean() -> None:
    found = averages(torch)
    expected = np.mean([weight for weight, _ in values()], axis=0)
    np.testing.assert_allclose(found["module.weight"], expected, rtol=1e-12)
    np.testing.assert_array_equal(found["module.mean"], values()[-1][1])  # buffers are copied
    assert found["module.count"] == 50
    assert found["n_averaged"] == 6


def test_the_past_fades() -> None:
    found = averages(torch, avg_fn=swa_utils.get_ema_avg_fn(0.8))
    expected = values()[0][0]
    for weight, _ in values()[1:]:
        expected = 0.8 * expected + 0.2 * weight
    np.testing.assert_allclose(found["module.weight"], expected, rtol=1e-12)


KINDS = {
    "plain": lambda u: {},
    "swa": lambda u: {"avg_fn": u.get_swa_avg_fn()},
    "ema": lambda u: {"avg_fn": u.get_ema_avg_fn(0.7)},
    "multi swa": lambda u: {"multi_avg_fn": u.get_swa_multi_avg_fn()},
    "multi ema": lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.7)},
    "multi ema, near": lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.2)},
    "own": lambda u: {"avg_fn": lambda average, now, count: average + now * count},
}


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_averages_agree(pytorch: Any, kind: str, use_buffers: bool) -> None:
    if kind == "multi swa" and use_buffers:
        pytest.skip("PyTorch does not average integers that way")
    ours, theirs = (
        averages(lib, use_buffers=use_buffers, **KINDS[kind](lib.optim.swa_utils))
        for lib in (torch, pytorch)
    )
    assert list(ours) == list(theirs)
    for name, value in theirs.items():
        assert ours[name].dtype == value.dtype
        np.testing.assert_allclose(ours[name], value, rtol=1e-12, err_msg=name)


def test_the_model_itself_is_left_alone() -> None:
    model = model_of(torch)
    averaged = swa_utils.AveragedModel(model)
    averaged.update_parameters(model)
    with torch.no_grad():
        averaged.module.weight.add_(1)
    assert model.weight.tolist() == [0.0, 0.0, 0.0]
    version = averaged.module.weight._version
    averaged.update_parameters(model)
    assert averaged.module.weight._version > version


def test_the_averaged_model_computes() -> None:
    linear = torch.nn.Linear(2, 1)
    averaged = swa_utils.AveragedModel(linear)
    x = torch.ones(3, 2)
    assert torch.equal(averaged(x), linear(x))
    assert repr(averaged).startswith("AveragedModel(\n  (module): Linear(")


def test_what_is_refused(pytorch: Any) -> None:
    for library in (torch, pytorch):
        utils = library.optim.swa_utils
        with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
            utils.AveragedModel(library.nn.Linear(1, 1), avg_fn=max, multi_avg_fn=max)
        for make in (utils.get_ema_avg_fn, utils.get_ema_multi_avg_fn):
            with pytest.raises(ValueError, match=r"Invalid decay value 1.5 provided. Please"):
                make(1.5)
        optimizer = library.optim.SGD([library.ones(1, requires_grad=True)], lr=0.1)
        with pytest.raises(ValueError, match="must be one of 'cos' or 'linear', instead got other"):
            utils.SWALR(optimizer, 0.1, anneal_strategy="other")
        with pytest.raises(ValueError, match="anneal_epochs must be equal or greater than 0, got"):
            utils.SWALR(optimizer, 0.1, anneal_epochs=-1)
        with pytest.raises(ValueError, match="swa_lr must have the same length as"):
            utils.SWALR(optimizer, [0.1, 0.2])


@pytest.mark.parametrize("epochs", [0, 1, 7])
@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.filterwarnings("ignore:Detected call of")
def test_rates_agree(pytorch: Any, epochs: int, strategy: str) -> None:
    found = []
    for library in (torch, pytorch):
        x = library.ones(1, requires_grad=True)
        optimizer = library.optim.SGD([x], lr=0.1)
        scheduler = library.optim.swa_utils.SWALR(optimizer, 0.02, epochs, strategy)
        path = []
        for n in range(20):
            path += scheduler.get_last_lr()
            optimizer.step()
            scheduler.step()
            if n == 4:
                state = scheduler.state_dict()
                scheduler = library.optim.swa_utils.SWALR(optimizer, 0.02, 3)
                scheduler.load_state_dict(state)
        found.append((path, sorted(scheduler.state_dict())))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-12)
    assert found[0][1] == found[1][1]


def test_batch_norms_get_the_statistics_of_the_data(pytorch: Any) -> None:
    data = np.random.default_rng(0).standard_normal((3, 8, 2)).astype(np.float32)
    found = []
    for library in (torch, pytorch):
        norm = library.nn.BatchNorm1d(2, momentum=0.3)
        model = library.nn.Sequential(norm).eval()
        library.optim.swa_utils.update_bn([(library.tensor(batch), 0) for batch in data], model)
        assert not model.training
        assert norm.momentum == 0.3
        found.append((norm.running_mean.numpy(), norm.running_var.numpy()))
    np.testing.assert_allclose(found[0][0], data.mean((0, 1)), rtol=1e-4, atol=1e-6)
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_a_failure_in_the_data_leaves_batch_norms_usable() -> None:
    norm = torch.nn.BatchNorm1d(2, momentum=0.3).eval()
    with pytest.raises(RuntimeError):
        swa_utils.update_bn([torch.ones(4, 3)], norm)
    assert norm.momentum == 0.3
    assert not norm.training


def test_models_without_batch_norm_are_not_run() -> None:
    swa_utils.update_bn(iter([1 / 1, None]), torch.nn.Linear(1, 1))
