"""Products of factors that are zero: derivatives of all orders, which no division can give."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import retrograd as torch

hessian, jacfwd, jacrev, vmap = (
    torch.func.hessian, torch.func.jacfwd, torch.func.jacrev, torch.func.vmap,
)  # fmt: skip
INDEX = [0, 1, 0, 0, 1]
POINTS = [
    [2.0, 3.0, 4.0, 5.0, 6.0], [0.0, 3.0, 4.0, 5.0, 6.0], [0.0, 3.0, 0.0, 5.0, 6.0],
    [0.0, 0.0, 0.0, 5.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 3.0, 4.0, 0.0, 0.0],
]  # fmt: skip


def scattered(x: Any, base: Any, include_self: bool = True) -> Any:
    return base.scatter_reduce(0, torch.tensor(INDEX), x, "prod", include_self=include_self)


def indexed(x: Any, base: Any, include_self: bool = True) -> Any:
    return base.index_reduce(0, torch.tensor(INDEX), x, "prod", include_self=include_self)


def derivative(factors: list[float], places: tuple[int, ...]) -> float:
    """The derivative of a product by each of the factors at ``places`` in turn."""
    if len(set(places)) < len(places):
        return 0.0
    return float(np.prod([f for i, f in enumerate(factors) if i not in places]))


def expected(x: list[float], base: list[float], order: int) -> Any:
    """The derivatives of both products by the elements of ``x``."""
    found = np.zeros((2, *(5,) * order))
    for place in (0, 1):
        members = [i for i in range(5) if INDEX[i] == place]
        factors = [x[i] for i in members] + [base[place]]
        for chosen in permutations(range(len(members)), order):
            found[(place, *(members[c] for c in chosen))] = derivative(factors, chosen)
    return found


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("base", [[2.0, 3.0], [0.0, 3.0]])
@pytest.mark.parametrize("reduce", [scattered, indexed])
def test_derivatives_of_products_with_zeros(reduce: Any, base: Any, point: Any) -> None:
    x, start = (torch.tensor(v, dtype=torch.float64) for v in (point, base))

    def f(x: Any) -> Any:
        return reduce(x, start)

    first, second, third = (expected(point, base, order) for order in (1, 2, 3))
    assert np.allclose(jacrev(f)(x).numpy(), first, atol=1e-12)
    assert np.allclose(jacfwd(f)(x).numpy(), first, atol=1e-12)
    for twice in (jacrev(jacrev(f)), jacfwd(jacrev(f)), jacrev(jacfwd(f)), jacfwd(jacfwd(f))):
        assert np.allclose(twice(x).numpy(), second, atol=1e-12)
    assert np.allclose(jacrev(jacrev(jacrev(f)))(x).numpy(), third, atol=1e-12)
    many = torch.tensor([point, point[::-1]], dtype=torch.float64)
    both = np.stack([second, expected(point[::-1], base, 2)])
    assert np.allclose(vmap(hessian(f))(many).numpy(), both, atol=1e-12)

    leaf = x.clone().requires_grad_()
    weights = torch.tensor([1.0, 10.0], dtype=torch.float64)
    (grad,) = torch.autograd.grad(f(leaf), leaf, weights, create_graph=True)
    ones = torch.ones(5, dtype=torch.float64)
    (again,) = torch.autograd.grad(grad, leaf, ones)
    assert np.allclose(again.numpy(), np.einsum("p,pij->j", weights.numpy(), second))


def test_derivatives_by_what_is_scattered_onto() -> None:
    """Zeros of both kinds meet at one place."""
    x = torch.tensor([0.0, 3.0, 4.0, 5.0, 6.0], dtype=torch.float64)
    base = torch.tensor([0.0, 3.0], dtype=torch.float64)
    mixed = jacrev(jacrev(scattered, argnums=0), argnums=1)(x, base)
    assert mixed[0, :, 0].tolist() == [20.0, 0.0, 0.0, 0.0, 0.0]  # 4 * 5, without both zeros
    alone = hessian(lambda x: scattered(x, base, include_self=False))(x)
    assert alone[0, 0].tolist() == [0.0, 0.0, 5.0, 4.0, 0.0]


@pytest.mark.parametrize("dim", [0, 1])
def test_products_along_each_dimension(dim: int) -> None:
    generator = np.random.default_rng(0)
    x = torch.from_numpy(generator.integers(-1, 2, (4, 4)).astype(float))
    index = torch.from_numpy(generator.integers(0, 2, (4, 3)))

    def f(x: Any) -> Any:
        return torch.full((4, 4), 2.0, dtype=torch.float64).scatter_reduce(dim, index, x, "prod")

    step, found = 1e-5, hessian(f)(x).numpy()
    for place in np.ndindex(4, 4):
        moved = torch.zeros(4, 4, dtype=torch.float64)
        moved[place] = step
        slopes = (jacrev(f)(x + moved) - jacrev(f)(x - moved)).numpy() / (2 * step)
        assert np.allclose(found[(..., *place)], slopes, atol=1e-6)
