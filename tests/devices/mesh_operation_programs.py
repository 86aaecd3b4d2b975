"""Operations on tensors that are split, for which XLA's partitioner alone would compute wrong
values or raise errors, run by tests/devices/test_on_meshes.py in a process of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd.distributed.device_mesh import init_device_mesh
from retrograd.distributed.tensor import Replicate, Shard, distribute_tensor
from retrograd.nn import functional as F

GRID = init_device_mesh("cpu", (2, 3))
S, R = Shard, Replicate()
NAN = float("nan")


def results(function: Callable[[Any], Any], x: Any) -> list[Any]:
    """The results of a function and the gradient of those that have one, on the CPU."""
    leaf = x.detach().requires_grad_(x.is_floating_point() or x.is_complex())
    found = function(leaf)
    found = list(found) if isinstance(found, tuple) else [found]
    roots = [(y.abs() ** 2).sum() for y in found if y.requires_grad]
    if roots:
        torch.stack(roots).sum().backward()
        found.append(leaf.grad)
    return [y.detach().cpu().numpy() for y in found]


def compare(function: Callable[[Any], Any], x: Any, *placements: list[Any]) -> None:
    """Compare what a function computes of a tensor on a mesh with what it computes on the CPU."""
    expected = results(function, x)
    for where in placements or ([S(0), R], [R, S(1)], [S(0), S(1)], [S(1), S(0)]):
        split = distribute_tensor(x, GRID, where)
        program = torch.compile(function)  # whose first call is traced
        for run in (function, program, program):
            for v, w in zip(results(run, split), expected, strict=True):
                np.testing.assert_allclose(v, w, rtol=1e-4, atol=1e-4)


def rows_of(x: Any) -> Any:
    """Indices of rows: the first half of the elements goes to the first, the others to the last."""
    half = torch.arange(x.shape[0], device=x.device) * 2 // x.shape[0]
    return half[:, None].expand(x.shape) * (x.shape[0] - 1)


@pytest.mark.parametrize("function", [
    lambda x: x.amax(0), lambda x: x.amin(), lambda x: x.max(), lambda x: x.min(1),
    lambda x: torch.linalg.vector_norm(x, float("inf"), 1),
    lambda x: torch.zeros_like(x).scatter_reduce(0, rows_of(x), x, "amax"),
    lambda x: torch.zeros_like(x).scatter_reduce(0, rows_of(x), x, "amin", include_self=False),
    lambda x: torch.zeros_like(x).index_reduce(1, rows_of(x)[:, 0], x, "amax"),
])  # fmt: skip
@pytest.mark.parametrize("place", [0, 14, 35])
def test_extremes_of_what_is_not_a_number(function: Any, place: int) -> None:
    """The maximum of several devices, as XLA computes it, ignores NaN."""
    torch.manual_seed(0)
    x = torch.randn(6, 6)
    x.view(-1)[place] = NAN
    compare(function, x)


def test_maxima_of_bags_of_what_is_not_a_number() -> None:
    torch.manual_seed(0)
    x, indices = torch.randn(6, 4), torch.arange(6)
    x.view(-1)[::5] = NAN
    expected = F.embedding_bag(indices, x, torch.tensor([0, 4]), mode="max")
    for where in ([S(0), R], [R, S(0)], [S(0), S(0)]):
        found = F.embedding_bag(
            distribute_tensor(indices, GRID, where), distribute_tensor(x, GRID, [R, R]),
            distribute_tensor(torch.tensor([0, 4]), GRID, [R, R]), mode="max",
        )  # fmt: skip
        np.testing.assert_array_equal(found.cpu().numpy(), expected.numpy())


@pytest.mark.parametrize("function", [torch.hash_tensor, lambda x: torch.hash_tensor(x, 1)])
def test_hashes(function: Any) -> None:
    """XLA has no exclusive or of several devices."""
    compare(function, torch.arange(36).view(6, 6))


@pytest.mark.parametrize("shape", [(2, 1, 3, 2), (1, 1, 6, 6), (0, 6)])
@pytest.mark.parametrize("name", ["fftn", "hfftn", "irfftn"])
def test_transforms_of_arrays_with_dimensions_of_size_one(name: str, shape: Any) -> None:
    """For some placements, XLA raises an error."""
    torch.manual_seed(0)
    dims = [d for d, size in enumerate(shape) if size > 0]
    where = [[S(d), R] for d in dims if shape[d] % 2 == 0]
    where += [[R, S(d)] for d in dims if shape[d] % 3 == 0]
    compare(lambda x: getattr(torch.fft, name)(x, dim=dims),
            torch.randn(*shape, dtype=torch.complex64), *where)  # fmt: skip


@pytest.mark.parametrize("include_self", [False, True])
def test_means_by_index(include_self: bool) -> None:
    """The gradient counts the elements where they are."""
    torch.manual_seed(0)
    options = {"reduce": "mean", "include_self": include_self}
    x = torch.randn(6, 6)
    compare(lambda x: (x + 1).scatter_reduce(0, rows_of(x), x, **options), x)
    compare(lambda x: (x + 1).index_reduce(0, rows_of(x)[:, 0], x, **options), x)


def test_gradients_that_do_not_depend_on_values_are_on_the_mesh() -> None:
    def gradient(x: Any) -> Any:
        return torch.autograd.grad(x.t(), x, torch.full_like(x.t(), 0.5))[0]

    x = distribute_tensor(torch.zeros(2, 3), GRID, [S(0), S(1)]).requires_grad_()
    run = torch.compile(gradient)
    for _ in range(3):
        found = run(x)
        assert found.device == x.device
        assert found.tolist() == [[0.5] * 3] * 2
