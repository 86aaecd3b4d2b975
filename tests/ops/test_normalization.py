"""Normalization of arrays large enough to be done in blocks, and what is kept for the gradient."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd import arrays

F = torch.nn.functional
CALLS: dict[str, tuple[tuple[int, ...], Callable[..., Any]]] = {
    "layer": ((300, 200), lambda x, w, b: F.layer_norm(x, (200,), w, b)),
    "long layer": ((5, 20000), lambda x, w, b: F.layer_norm(x, (20000,), w, b)),
    "batch": ((6, 8, 30, 31), lambda x, w, b: F.batch_norm(x, None, None, w, b, True)),
    "flat batch": ((3000, 8), lambda x, w, b: F.batch_norm(x, None, None, w, b, True)),
    "group": ((6, 8, 30, 31), lambda x, w, b: F.group_norm(x, 2, w, b)),
    "instance": ((6, 8, 70, 70), lambda x, w, b: F.instance_norm(x, None, None, w, b)),
}


def computed(name: str, dtype: Any) -> list[Any]:
    """The result of a call and its gradients, as arrays."""
    shape, call = CALLS[name]
    random = np.random.default_rng(1)
    channels = shape[-1] if "layer" in name else shape[1]
    given = [random.normal(size=s) for s in (shape, (channels,), (channels,), shape)]
    x, w, b, g = (torch.from_numpy(v.astype(np.float32)).to(dtype) for v in given)
    for leaf in (x, w, b):
        leaf.requires_grad_()
    result = call(x, w, b)
    return [v.detach().numpy() for v in (result, *torch.autograd.grad(result, (x, w, b), g))]


@pytest.mark.parametrize("name", CALLS)
def test_single_precision_agrees_with_double(name: str) -> None:
    for narrow, wide in zip(
        computed(name, torch.float32), computed(name, torch.float64), strict=True
    ):
        assert narrow.dtype == np.float32
        np.testing.assert_allclose(narrow, wide, rtol=0, atol=2e-6 * np.abs(wide).max())


@pytest.mark.parametrize("name", CALLS)
def test_results_do_not_depend_on_the_number_of_threads(name: str) -> None:
    workers = arrays.blocks.workers
    before = workers.count
    found = []
    try:
        for count in (1, 3):
            workers.set_count(count)
            found.append(computed(name, torch.float32))
    finally:
        workers.set_count(before)
    for one, several in zip(*found, strict=True):
        np.testing.assert_array_equal(one, several)


def test_written_running_statistics_do_not_change_a_gradient() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)
    mean, var = torch.zeros(2), torch.ones(2)
    result = F.batch_norm(x, mean, var, eps=0.0)
    mean.fill_(7.0)
    var.fill_(4.0)
    (grad,) = torch.autograd.grad(result.sum(), x)
    assert torch.equal(grad, torch.ones(2, 2))


def test_running_statistics_are_updated_once_a_call() -> None:
    x = torch.tensor([[1.0], [3.0]], requires_grad=True)
    mean, var = torch.zeros(1), torch.ones(1)
    result = F.batch_norm(x, mean, var, training=True, momentum=0.5)
    torch.autograd.grad((result**2).sum(), x, create_graph=True)
    assert mean.item() == 1.0
    assert var.item() == 1.5  # half of 1 and half of the unbiased 2


def test_instance_norm_leaves_statistics_that_it_only_reads_unwritten() -> None:
    mean, var = torch.ones(3), torch.ones(3)
    normalized = torch.nn.functional.instance_norm
    normalized(torch.ones(2, 3, 4), mean, var, use_input_stats=False)
    assert (mean._version, var._version) == (0, 0)
    normalized(torch.ones(2, 3, 4), mean, var)
    assert (mean._version, var._version) == (1, 1)


def test_statistics_may_require_grad_where_nothing_is_recorded() -> None:
    mean, var = torch.ones(2, requires_grad=True), torch.ones(2)
    with pytest.raises(RuntimeError, match="not differentiable with respect to arg"):
        F.batch_norm(torch.zeros(1, 2, 1), mean, var, eps=0.0)
    with torch.no_grad():
        assert F.batch_norm(torch.zeros(1, 2, 1), mean, var, eps=0.0).flatten().tolist() == [-1, -1]


def test_running_statistics_are_updated_once_under_transforms() -> None:
    x = torch.tensor([[1.0], [3.0]])
    mean, var = torch.zeros(1), torch.ones(1)

    def normalized(x: Any, mean: Any = mean, var: Any = var) -> Any:
        return F.batch_norm(x, mean, var, training=True, momentum=0.5)

    torch.func.jvp(normalized, (x,), (x,))
    assert (mean.item(), var.item()) == (1.0, 1.5)
    torch.func.hessian(lambda x: (normalized(x) ** 3).sum())(torch.stack([x, x]).reshape(4, 1))
    assert (mean.item(), var.item()) == (1.5, pytest.approx(0.5 * 1.5 + 0.5 * 4 / 3))
    means, variances = torch.zeros(2, 1), torch.ones(2, 1)
    both = torch.stack([x, 2 * x])
    found = torch.func.vmap(normalized)(both, means, variances)
    assert found.flatten().tolist() == pytest.approx([-1, 1, -1, 1], abs=1e-4)
    assert means.tolist() == [[1.0], [2.0]]
    assert variances.tolist() == [[1.5], [4.5]]
    with pytest.raises(RuntimeError, match="were not batched"):
        torch.func.vmap(normalized)(both)
