"""Jacobians, Hessians and gradients per sample: of networks, and in every form they are asked for.

Every test runs with PyTorch too, where it is installed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from _transform_programs import LIBRARIES, NEEDS_PYTORCH, assert_same, library_named, warnings_of

import retrograd

Torch = Any


@pytest.fixture(params=LIBRARIES)
def torch(request: pytest.FixtureRequest) -> Iterator[Torch]:
    library = library_named(request.param)
    with warnings_of(library):
        yield library


# -- networks --------------------------------------------------------------------------------


def two_layers(torch: Torch) -> tuple[dict[str, Any], Any, Any, Any]:
    """Parameters, a loss of one example, and a batch of examples and targets."""
    generator = torch.arange(1, 200, dtype=torch.float64)

    def numbers(*shape: int) -> Any:
        size = math.prod(shape)
        return torch.sin(generator[:size] * 1.3 + len(shape)).reshape(shape)

    parameters = {
        "first": {"weight": numbers(4, 3), "bias": numbers(4)},
        "second": {"weight": numbers(2, 4) * 0.5, "bias": numbers(2)},
    }

    def loss(parameters: Any, x: Any, target: Any) -> Any:
        hidden = torch.tanh(parameters["first"]["weight"] @ x + parameters["first"]["bias"])
        logits = parameters["second"]["weight"] @ hidden + parameters["second"]["bias"]
        return torch.nn.functional.cross_entropy(logits[None], target[None])

    return parameters, loss, numbers(6, 3), torch.tensor([0, 1, 1, 0, 1, 0])


def test_gradients_per_sample_are_those_of_a_loop(torch: Torch) -> None:
    parameters, loss, xs, targets = two_layers(torch)
    grad, vmap = torch.func.grad, torch.func.vmap
    found = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, xs, targets)
    one_by_one = [grad(loss)(parameters, x, t) for x, t in zip(xs, targets, strict=True)]
    for layer in ("first", "second"):
        for name in ("weight", "bias"):
            expected = torch.stack([g[layer][name] for g in one_by_one])
            assert_same(found[layer][name], expected, 1e-13)
    # and their mean is the gradient of the mean loss
    mean = grad(lambda p: vmap(loss, (None, 0, 0))(p, xs, targets).mean())(parameters)
    assert_same(mean["first"]["weight"], found["first"]["weight"].mean(0), 1e-13)


def test_gradients_per_sample_of_a_convolution(torch: Torch) -> None:
    F = torch.nn.functional
    kernel = torch.sin(torch.arange(2 * 1 * 3 * 3, dtype=torch.float64)).reshape(2, 1, 3, 3)
    bias = torch.tensor([0.1, -0.2], dtype=torch.float64)
    images = torch.cos(torch.arange(4 * 36, dtype=torch.float64)).reshape(4, 1, 6, 6)

    def loss(kernel: Any, bias: Any, image: Any) -> Any:
        hidden = F.conv2d(image[None], kernel, bias, padding=1).sigmoid()
        return F.avg_pool2d(hidden, 2).square().sum()

    per_sample = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=(None, None, 0))
    found = per_sample(kernel, bias, images)
    for k, name in enumerate(("kernel", "bias")):
        rows = [torch.func.grad(loss, argnums=k)(kernel, bias, image) for image in images]
        assert_same(found[k], torch.stack(rows), 1e-13), name


def test_an_ensemble_is_a_map_over_stacked_parameters(torch: Torch) -> None:
    parameters, loss, xs, targets = two_layers(torch)
    models = [
        {layer: {n: t * scale for n, t in p.items()} for layer, p in parameters.items()}
        for scale in (0.5, 1.0, 2.0)
    ]
    stacked = {
        layer: {n: torch.stack([m[layer][n] for m in models]) for n in ("weight", "bias")}
        for layer in parameters
    }
    over_models = torch.func.vmap(
        torch.func.vmap(loss, in_dims=(None, 0, 0)), in_dims=(0, None, None)
    )
    found = over_models(stacked, xs, targets)
    expected = [
        torch.stack([loss(m, x, t) for x, t in zip(xs, targets, strict=True)]) for m in models
    ]
    assert_same(found, torch.stack(expected), 1e-13)
    # each model with its own example
    paired = torch.func.vmap(loss)(stacked, xs[:3], targets[:3])
    assert_same(paired, torch.stack([expected[k][k] for k in range(3)]), 1e-13)


def hessians(torch: Torch) -> dict[str, Any]:
    func = torch.func
    return {
        "hessian": func.hessian,
        "forward over reverse": lambda f: func.jacfwd(func.jacrev(f)),
        "reverse over forward": lambda f: func.jacrev(func.jacfwd(f)),
        "reverse over reverse": lambda f: func.jacrev(func.jacrev(f)),
        "forward over forward": lambda f: func.jacfwd(func.jacfwd(f)),
    }


def test_hessians_are_symmetric_and_the_same_in_all_modes(torch: Torch) -> None:
    _, loss, xs, targets = two_layers(torch)
    parameters = two_layers(torch)[0]

    def of_weight(weight: Any) -> Any:
        return loss(
            {**parameters, "first": {**parameters["first"], "weight": weight.reshape(4, 3)}},
            xs[0], targets[0],
        )  # fmt: skip

    point = parameters["first"]["weight"].reshape(12)
    expected = None
    for way in hessians(torch).values():
        found = way(of_weight)(point)
        assert tuple(found.shape) == (12, 12)
        assert_same(found, found.mT, 1e-14)
        expected = found if expected is None else expected
        assert_same(found, expected, 1e-13)
    # against differences of the gradient
    gradient = torch.func.grad(of_weight)
    for k, e in enumerate(torch.eye(12, dtype=torch.float64)):
        h = 1e-4
        difference = (gradient(point + h * e) - gradient(point - h * e)) / (2 * h)
        assert_same(difference, expected[k], 1e-7)


@NEEDS_PYTORCH
def test_the_hessian_of_a_network_is_pytorchs() -> None:
    results = {}
    for name in ("torch", "retrograd"):
        torch = library_named(name)
        parameters, loss, xs, targets = two_layers(torch)
        with warnings_of(torch):
            found = torch.func.hessian(loss)(parameters, xs[0], targets[0])
        results[name] = {
            (*a, *b): found[a[0]][a[1]][b[0]][b[1]].tolist()
            for a in PLACES for b in PLACES
        }  # fmt: skip
    for place, expected in results["torch"].items():
        assert_same(results["retrograd"][place], expected, 1e-13), place


PLACES = [(layer, name) for layer in ("first", "second") for name in ("weight", "bias")]


# -- jacobians -------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["jacrev", "jacfwd"])
class TestJacobians:
    def test_of_a_matrix_function(self, torch: Torch, way: str) -> None:
        jac = getattr(torch.func, way)
        x = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
        found = jac(lambda x: x @ x.mT)(x)  # d (x x')_ij / d x_kl = d_ik x_jl + d_jk x_il
        eye = torch.eye(2, dtype=torch.float64)
        expected = torch.einsum("ik,jl->ijkl", eye, x) + torch.einsum("jk,il->ijkl", eye, x)
        assert_same(found, expected, 0)

    def test_of_and_at_numbers(self, torch: Torch, way: str) -> None:
        jac = getattr(torch.func, way)
        assert tuple(jac(lambda x: x * torch.ones(2, 3))(torch.tensor(2.0)).shape) == (2, 3)
        assert tuple(jac(torch.sum)(torch.ones(2, 3)).shape) == (2, 3)
        assert jac(lambda x: x**2)(torch.tensor(3.0)).tolist() == 6

    def test_trees_of_inputs_and_outputs(self, torch: Torch, way: str) -> None:
        jac = getattr(torch.func, way)
        point = {"a": torch.tensor([1.0, 2.0]), "b": [torch.tensor(3.0)]}

        def f(p: Any) -> Any:
            return (p["a"] * p["b"][0], {"s": p["a"].sum()})

        found = jac(f)(point)
        assert found[0]["a"].tolist() == [[3, 0], [0, 3]]
        assert found[0]["b"][0].tolist() == [1, 2]
        assert found[1]["s"]["a"].tolist() == [1, 1]
        assert found[1]["s"]["b"][0].tolist() == 0

    def test_argnums(self, torch: Torch, way: str) -> None:
        jac = getattr(torch.func, way)
        x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])

        def f(x: Any, y: Any) -> Any:
            return x * y**2

        assert jac(f)(x, y).tolist() == [[9, 0], [0, 16]]
        assert jac(f, argnums=1)(x, y).tolist() == [[6, 0], [0, 16]]
        if torch is retrograd or way == "jacrev":  # PyTorch's jacfwd gives zeros, silently
            assert jac(f, argnums=-1)(x, y).tolist() == [[6, 0], [0, 16]]
        both = jac(f, argnums=(1, 0))(x, y)
        assert isinstance(both, tuple)
        assert [j.tolist() for j in both] == [[[6, 0], [0, 16]], [[9, 0], [0, 16]]]
        one = jac(f, argnums=(0,))(x, y)
        assert isinstance(one, tuple)
        assert len(one) == 1

    def test_aux(self, torch: Torch, way: str) -> None:
        jac = getattr(torch.func, way)
        x = torch.tensor([1.0, 2.0])
        found, aux = jac(lambda x: (x**2, {"cube": x**3, "two": [x * 2]}), has_aux=True)(x)
        assert found.tolist() == [[2, 0], [0, 4]]
        assert aux["cube"].tolist() == [1, 8]
        assert aux["two"][0].tolist() == [2, 4]
        assert not aux["cube"].requires_grad

    def test_of_what_does_not_depend_on_the_input(self, torch: Torch, way: str) -> None:
        jac = getattr(torch.func, way)
        x = torch.tensor([1.0, 2.0])
        found = jac(lambda x: (x, torch.ones(3)))(x)
        assert found[0].tolist() == [[1, 0], [0, 1]]
        assert found[1].tolist() == [[0, 0], [0, 0], [0, 0]]

    def test_batched_by_vmap(self, torch: Torch, way: str) -> None:
        jac = getattr(torch.func, way)
        xs = torch.arange(6.0, dtype=torch.float64).reshape(3, 2)
        found = torch.func.vmap(jac(torch.sin))(xs)
        assert_same(found, torch.diag_embed(torch.cos(xs)), 1e-15)

    def test_of_several_dtypes(self, torch: Torch, way: str) -> None:
        jac = getattr(torch.func, way)
        found = jac(lambda x: x.double() * 2)(torch.ones(2))
        assert found.tolist() == [[2, 0], [0, 2]]


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 7, 100])
def test_jacrev_in_chunks_is_the_same(torch: Torch, chunk_size: int) -> None:
    x = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)

    def f(x: Any) -> Any:
        return {"p": x @ x.mT, "s": torch.sin(x).sum(0)}

    whole = torch.func.jacrev(f)(x)
    found = torch.func.jacrev(f, chunk_size=chunk_size)(x)
    assert_same(found["p"], whole["p"], 0)
    assert_same(found["s"], whole["s"], 0)


def test_a_jacobian_row_by_row_may_look_at_numbers(torch: Torch) -> None:
    """With ``chunk_size=1`` nothing is mapped, so data-dependent control flow is fine."""

    class Looking(torch.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2 if g.sum().item() >= 0 else g

    x = torch.tensor([1.0, 2.0])
    assert torch.func.jacrev(Looking.apply, chunk_size=1)(x).tolist() == [[2, 0], [0, 2]]


def test_jacfwd_takes_randomness(torch: Torch) -> None:
    x = torch.ones(2)
    same = torch.func.jacfwd(lambda x: x * torch.rand(()), randomness="same")(x)
    assert same[0, 0].item() == same[1, 1].item() != 0
