"""Modules as functions of their parameters: gradients of single samples, ensembles and tangents of
networks as they are written, with averages kept by normalization, tied and computed weights.

Every program runs with both libraries. What it finds must be what a loop with ``backward()`` finds,
and the same in both."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from _transform_programs import HAS_PYTORCH, warnings_of

import retrograd

PROGRAMS: dict[str, Callable[[Any], dict[str, Any]]] = {}


def program(function: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    PROGRAMS[function.__name__] = function
    return function


def numbers(found: Any) -> np.ndarray:
    return np.array(found.detach().numpy() if hasattr(found, "detach") else found)


def assert_close(found: Any, expected: Any, tolerance: float = 1e-10) -> None:
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for name, value in expected.items():
            assert_close(found[name], value, tolerance)
    else:
        a, b = numbers(found), numbers(expected)
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    ours = PROGRAMS[name](retrograd)
    if not HAS_PYTORCH:
        pytest.skip("PyTorch is the reference to compare with; the rest has been checked")
    import torch

    with warnings_of(torch):
        assert_close(ours, PROGRAMS[name](torch))


# -- networks and data ---------------------------------------------------------------------------


def data(torch: Any, *shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape))


@functools.cache
def net_class(torch: Any) -> Any:
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self, norm: str) -> None:
            super().__init__()
            self.features = nn.Sequential(
                nn.Conv2d(1, 4, 3, padding=1),
                nn.BatchNorm2d(4) if norm == "batch" else nn.GroupNorm(2, 4),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(4, 3, 3, bias=False),
            )
            self.head = nn.Linear(3 * 2 * 2, 5)

        def forward(self, x: Any) -> Any:
            return self.head(torch.tanh(self.features(x)).flatten(1))

    return Net


def conv_net(torch: Any, norm: str = "batch") -> Any:
    return net_class(torch)(norm).double()


def images(torch: Any, count: int = 6) -> tuple[Any, Any]:
    return data(torch, count, 1, 8, 8), torch.arange(count) % 5


def state_of(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    return parameters, {name: b.detach().clone() for name, b in model.named_buffers()}


def loss_of(torch: Any, model: Any) -> Callable[..., Any]:
    """The loss of one sample."""

    def loss(parameters: Any, buffers: Any, image: Any, label: Any) -> Any:
        result = torch.func.functional_call(model, (parameters, buffers), (image.unsqueeze(0),))
        return torch.nn.functional.cross_entropy(result, label.unsqueeze(0))

    return loss


def gradients_in_a_loop(torch: Any, model: Any, xs: Any, labels: Any) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    for image, label in zip(xs, labels, strict=True):
        model.zero_grad()
        result = model(image.unsqueeze(0))
        torch.nn.functional.cross_entropy(result, label.unsqueeze(0)).backward()
        found.append({name: p.grad for name, p in model.named_parameters()})
    model.zero_grad()
    return {name: torch.stack([one[name] for one in found]) for name in found[0]}


# -- gradients of single samples -----------------------------------------------------------------


@program
def per_sample_gradients(torch: Any) -> dict[str, Any]:
    torch.manual_seed(1)
    model = conv_net(torch).eval()
    model.features[1].running_mean.copy_(data(torch, 4))
    xs, labels = images(torch)
    parameters, buffers = state_of(model)
    single = torch.func.grad(loss_of(torch, model))
    found = torch.func.vmap(single, in_dims=(None, None, 0, 0))(parameters, buffers, xs, labels)
    assert_close(found, gradients_in_a_loop(torch, model, xs, labels))
    return found


@program
def per_sample_gradients_and_losses(torch: Any) -> dict[str, Any]:
    torch.manual_seed(2)
    model = conv_net(torch, norm="group")
    xs, labels = images(torch)
    parameters, buffers = state_of(model)
    both = torch.func.grad_and_value(loss_of(torch, model))
    found, losses = torch.func.vmap(both, (None, None, 0, 0))(parameters, buffers, xs, labels)
    assert_close(found, gradients_in_a_loop(torch, model, xs, labels))
    whole = torch.nn.functional.cross_entropy(model(xs), labels, reduction="none")
    assert_close(losses, whole)
    return {**found, "losses": losses}


@program
def per_sample_gradients_of_computed_weights(torch: Any) -> dict[str, Any]:
    torch.manual_seed(3)
    normed = torch.nn.utils.parametrizations
    model = conv_net(torch, norm="group").eval()
    normed.weight_norm(model.features[0])
    normed.spectral_norm(model.features[4])
    normed.orthogonal(model.head)
    xs, labels = images(torch)
    parameters, buffers = state_of(model)
    single = torch.func.grad(loss_of(torch, model.eval()))
    found = torch.func.vmap(single, in_dims=(None, None, 0, 0))(parameters, buffers, xs, labels)
    assert_close(found, gradients_in_a_loop(torch, model, xs, labels))
    return found


# -- ensembles -----------------------------------------------------------------------------------


@program
def an_ensemble(torch: Any) -> dict[str, Any]:
    torch.manual_seed(4)
    models = [conv_net(torch).eval() for _ in range(3)]
    for i, model in enumerate(models):
        model.features[1].running_var.mul_(i + 1.0)
    xs, labels = images(torch)
    parameters, buffers = torch.func.stack_module_state(models)
    assert list(parameters) == [name for name, _ in models[0].named_parameters()]
    base = models[0]

    def call(parameters: Any, buffers: Any, xs: Any) -> Any:
        return torch.func.functional_call(base, (parameters, buffers), (xs,))

    shared = torch.func.vmap(call, in_dims=(0, 0, None))(parameters, buffers, xs)
    assert_close(shared, torch.stack([model(xs) for model in models]))
    # a minibatch for each
    own = torch.func.vmap(call)(parameters, buffers, xs.reshape(3, 2, 1, 8, 8))
    for i, model in enumerate(models):
        assert_close(own[i], model(xs[2 * i : 2 * i + 2]))
    losses = torch.nn.functional.cross_entropy(shared.flatten(0, 1), labels.repeat(3))
    losses.backward()
    for i, model in enumerate(models):
        (torch.nn.functional.cross_entropy(model(xs), labels) / 3).backward()
        for name, p in model.named_parameters():
            assert_close(parameters[name].grad[i], p.grad)
    return {"shared": shared, "own": own, **{n: p.grad for n, p in parameters.items()}}


@program
def an_ensemble_in_training(torch: Any) -> dict[str, Any]:
    """Steps of gradient descent of all models at once, averages of normalization included."""
    torch.manual_seed(5)
    models = [conv_net(torch) for _ in range(3)]
    xs, labels = images(torch)
    parameters, buffers = torch.func.stack_module_state(models)
    base = copy.deepcopy(models[0])

    def loss(parameters: Any, buffers: Any) -> Any:
        result = torch.func.functional_call(base, (parameters, buffers), (xs,))
        return torch.nn.functional.cross_entropy(result, labels)

    step = torch.func.vmap(torch.func.grad_and_value(loss))
    parameters = {name: p.detach() for name, p in parameters.items()}
    history = []
    for _ in range(3):
        gradients, losses = step(parameters, buffers)
        parameters = {name: p - 0.1 * gradients[name] for name, p in parameters.items()}
        history.append(losses)
    for i, model in enumerate(models):
        for j in range(3):
            model.zero_grad()
            one = torch.nn.functional.cross_entropy(model(xs), labels)
            one.backward()
            assert_close(history[j][i], one)
            with torch.no_grad():
                for p in model.parameters():
                    p.sub_(p.grad, alpha=0.1)
        for name, value in model.state_dict().items():
            assert_close({**parameters, **buffers}[name][i], value)
    assert models[0].features[1].num_batches_tracked.item() == 3
    assert base.features[1].num_batches_tracked.item() == 0
    return {**parameters, **buffers}


# -- averages of normalization -------------------------------------------------------------------


@program
def averages_are_written_into_what_is_given(torch: Any) -> dict[str, Any]:
    torch.manual_seed(6)
    model, (xs, _) = conv_net(torch), images(torch)
    parameters, buffers = state_of(model)
    before = copy.deepcopy(model.state_dict())
    result = torch.func.functional_call(model, (parameters, buffers), (xs,))
    assert_close(dict(model.state_dict()), dict(before), 0)
    once = dict(buffers)
    model(xs)
    assert_close(once, dict(model.named_buffers()), 0)
    gradients, (_, after) = torch.func.grad(
        lambda p, b: (lambda y: (y.pow(2).sum(), (y, b)))(
            torch.func.functional_call(model, (p, b), (xs,))
        ),
        has_aux=True,
    )(parameters, {name: b.clone() for name, b in once.items()})
    return {"result": result, **{f"b {n}": b for n, b in after.items()}, **gradients}


# -- tangents and second derivatives -------------------------------------------------------------


@program
def tangents_and_second_derivatives(torch: Any) -> dict[str, Any]:
    torch.manual_seed(7)
    nn = torch.nn
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 2))
    model.double()
    x, y = data(torch, 5, 3), data(torch, 5, 2)
    parameters, _ = state_of(model)
    directions = {name: data(torch, *p.shape, 1)[..., 0] for name, p in parameters.items()}

    def loss(parameters: Any) -> Any:
        result = torch.func.functional_call(model, parameters, (x,))
        return (result - y).pow(2).mean()  # PyTorch has no tangents of mse_loss's gradient

    value, slope = torch.func.jvp(loss, (parameters,), (directions,))
    gradients, second = torch.func.jvp(torch.func.grad(loss), (parameters,), (directions,))
    along = sum((gradients[n] * directions[n]).sum() for n in gradients)
    assert_close(slope, along)
    h = 1e-5
    moved = [
        torch.func.grad(loss)({n: p + sign * h * directions[n] for n, p in parameters.items()})
        for sign in (1, -1)
    ]
    for name in second:
        assert_close(second[name], (moved[0][name] - moved[1][name]) / (2 * h), 1e-7)
    jacobian = torch.func.jacrev(
        lambda p: torch.func.functional_call(model, p, (x,))
    )(parameters)  # fmt: skip
    forward = torch.func.jacfwd(
        lambda p: torch.func.functional_call(model, p, (x,))
    )(parameters)  # fmt: skip
    assert_close(jacobian, forward)
    return {"value": value, "slope": slope, **second, **{f"j {n}": j for n, j in forward.items()}}


def checked_tangents(torch: Any, model: Any) -> dict[str, Any]:
    """Tangents of a module along a direction, beside its gradients and beside differences."""
    x = data(torch, 5, 3)
    parameters, buffers = state_of(model.double().eval())
    directions = {name: data(torch, *p.shape, 1)[..., 0] for name, p in parameters.items()}

    def call(parameters: Any) -> Any:
        return torch.func.functional_call(model, (parameters, buffers), (x,))

    value, slope = torch.func.jvp(call, (parameters,), (directions,))
    _, pull = torch.func.vjp(call, parameters)
    (gradients,) = pull(value)
    along = sum((gradients[n] * directions[n]).sum() for n in gradients)
    assert_close((slope * value).sum(), along)
    h = 1e-5
    ahead, behind = (
        call({n: p + sign * h * directions[n] for n, p in parameters.items()}) for sign in (1, -1)
    )
    assert_close(slope, (ahead - behind) / (2 * h), 1e-7)
    return {"value": value, "slope": slope, **gradients}


@program
def tangents_through_computed_weights(torch: Any) -> dict[str, Any]:
    torch.manual_seed(8)
    nn, normed = torch.nn, torch.nn.utils.parametrizations
    f64 = torch.float64
    first = normed.spectral_norm(nn.Linear(3, 4, dtype=f64))
    last = normed.orthogonal(nn.Linear(4, 4, dtype=f64))
    return checked_tangents(torch, nn.Sequential(first, nn.Tanh(), last))


@pytest.mark.parametrize("dim", [0, 1, None])
def test_tangents_through_weight_norm(dim: int | None) -> None:
    """PyTorch has none."""
    nn = retrograd.nn
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 4), dim=dim)
    checked_tangents(retrograd, nn.Sequential(layer, nn.LayerNorm(4)))


# -- tied weights --------------------------------------------------------------------------------


@program
def tied_weights(torch: Any) -> dict[str, Any]:
    torch.manual_seed(9)
    nn = torch.nn

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(5, 3)
            self.inner = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
            self.out = nn.Linear(3, 5, bias=False)
            self.out.weight = self.table.weight

        def forward(self, places: Any) -> Any:
            return self.out(self.inner(self.table(places)))

    model = Tied().double()
    places = torch.arange(4)
    parameters, _ = state_of(model)
    assert list(parameters) == ["table.weight", "inner.0.weight", "inner.0.bias"]

    def loss(parameters: Any, places: Any) -> Any:
        return torch.func.functional_call(model, parameters, (places,)).pow(2).sum()

    found = torch.func.grad(loss)(parameters, places)
    model(places).pow(2).sum().backward()
    assert_close(found, {name: p.grad for name, p in model.named_parameters()})
    singles = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, places.unsqueeze(1))
    assert_close({name: g.sum(0) for name, g in singles.items()}, found)
    by_other_name = {**parameters, "out.weight": parameters["table.weight"]}
    del by_other_name["table.weight"]
    again = torch.func.grad(loss)(by_other_name, places)
    assert_close(again["out.weight"], found["table.weight"])
    apart = torch.func.grad(
        lambda p: torch.func.functional_call(model, p, (places,), tie_weights=False).pow(2).sum()
    )({**parameters, "out.weight": parameters["table.weight"]})
    assert_close(apart["table.weight"] + apart["out.weight"], found["table.weight"])
    return {**found, "table": apart["table.weight"], "out": apart["out.weight"]}


# -- random numbers ------------------------------------------------------------------------------


@program
def dropout_of_an_ensemble(torch: Any) -> dict[str, Any]:
    nn = torch.nn
    models = [nn.Sequential(nn.Linear(4, 50), nn.Dropout(0.5)).double() for _ in range(2)]
    for model in models:
        nn.init.ones_(model[0].weight)
        nn.init.ones_(model[0].bias)
    parameters, buffers = torch.func.stack_module_state(models)

    def call(parameters: Any, buffers: Any, x: Any) -> Any:
        return torch.func.functional_call(models[0], (parameters, buffers), (x,))

    x = torch.ones(3, 4, dtype=torch.float64)
    for randomness, equal in (("same", True), ("different", False)):
        torch.manual_seed(1)
        mapped = torch.func.vmap(call, in_dims=(0, 0, None), randomness=randomness)
        found = mapped(parameters, buffers, x)
        assert found[0].equal(found[1]) is equal
        assert set(found.flatten().tolist()) == {0.0, 10.0}
    with pytest.raises(RuntimeError, match="randomness"):
        torch.func.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)
    return {}


# -- the modules themselves ----------------------------------------------------------------------


@pytest.mark.parametrize("library", ["retrograd", "torch"])
def test_calls_nest_and_hooks_run(library: str) -> None:
    torch = pytest.importorskip(library, reason="PyTorch is the reference to compare with")
    inner = torch.nn.Linear(2, 2, bias=False)
    seen = []
    inner.register_forward_hook(
        lambda module, args, result: seen.append(module.weight.detach().sum())
    )
    call, x = torch.func.functional_call, torch.ones(2)

    def outer(parameters: Any) -> Any:
        def both(w: Any) -> Any:
            return call(inner, {"weight": w}, x).sum() + call(inner, parameters, x).sum()

        return torch.func.grad(both)(parameters["weight"] * 2)

    found = call(inner, {"weight": torch.zeros(2, 2)}, outer({"weight": torch.ones(2, 2)})[0])
    assert found.tolist() == [0, 0]
    assert [float(s) for s in seen] == [8, 4, 0]
    assert inner.weight is dict(inner.named_parameters())["weight"]


def test_a_computed_weight_can_be_given_itself() -> None:
    """As PyTorch's documentation has it: the parametrization is then not asked."""
    torch = retrograd
    layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(2, 2, bias=False))
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    x = torch.tensor([1.0, 2.0])
    weight = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    call = torch.func.functional_call
    assert call(layer, {"weight": weight}, x).tolist() == [5, 11]
    found = torch.func.grad(lambda w: call(layer, {"weight": w}, x).sum())(weight)
    assert found.tolist() == [[1, 2], [1, 2]]
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes"):
        call(layer, {"weight": torch.ones(3, 3)}, x)
    assert "weight" not in layer.__dict__
    assert all(value.equal(before[name]) for name, value in layer.state_dict().items())


def test_an_ensemble_of_parametrized_modules() -> None:
    torch = retrograd
    made = torch.nn.utils.parametrizations.weight_norm
    models = [made(torch.nn.Linear(3, 2)) for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(models)
    assert list(parameters) == ["bias", *(f"parametrizations.weight.original{i}" for i in (0, 1))]
    x = torch.randn(4, 3)
    found = torch.func.vmap(
        lambda p: torch.func.functional_call(models[0], p, (x,))
    )(parameters)  # fmt: skip
    for result, model in zip(found, models, strict=True):
        assert torch.allclose(result, model(x))
    assert buffers == {}


def test_a_vector_of_parameters_is_differentiated() -> None:
    """Curvature of a loss, with respect to all parameters as one vector."""
    torch = retrograd
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    model.double()
    x, names = data(torch, 4, 2), [name for name, _ in model.named_parameters()]
    sizes = [p.numel() for p in model.parameters()]
    shapes = [p.shape for p in model.parameters()]
    vector = torch.nn.utils.parameters_to_vector(model.parameters()).detach()

    def loss(vector: Any) -> Any:
        pieces = vector.split(sizes)
        given = {n: v.view(s) for n, v, s in zip(names, pieces, shapes, strict=True)}
        return torch.func.functional_call(model, given, (x,)).pow(2).sum()

    hessian = torch.func.hessian(loss)(vector)
    np.testing.assert_allclose(hessian.numpy(), hessian.T.numpy(), rtol=1e-10, atol=1e-12)
    gradient, h = torch.func.grad(loss), 1e-6
    for i in (0, 5, len(vector) - 1):
        step = torch.zeros_like(vector)
        step[i] = h
        expected = (gradient(vector + step) - gradient(vector - step)) / (2 * h)
        np.testing.assert_allclose(hessian[i].numpy(), expected.numpy(), rtol=1e-6, atol=1e-7)


def test_norms_over_batches_can_do_without_averages() -> None:
    torch = retrograd
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)).double()
    x = torch.randn(5, 4, 2, generator=torch.Generator().manual_seed(0)).double()
    parameters = {n: p.detach() for n, p in model.named_parameters()}

    def loss(parameters: Any, x: Any) -> Any:
        return torch.func.functional_call(model, parameters, (x,)).square().mean()

    with pytest.raises(RuntimeError, match="mutate a captured Tensor"):
        torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, x)
    assert torch.func.replace_all_batch_norm_modules_(model) is model
    found = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, x)
    for i in range(5):
        single = torch.func.grad(loss)(parameters, x[i])
        for name, gradient in single.items():
            np.testing.assert_allclose(found[name][i].numpy(), gradient.numpy(), atol=1e-6)
