"""Modules as functions of their parameters: ``functional_call`` and ``stack_module_state``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from _transform_programs import LIBRARIES, assert_same, library_named, warnings_of

Torch = Any


@pytest.fixture(params=LIBRARIES)
def torch(request: pytest.FixtureRequest) -> Iterator[Torch]:
    library = library_named(request.param)
    with warnings_of(library):
        yield library


def modules(torch: Torch) -> tuple[Any, Any]:
    """A layer with a weight and a buffer; and a net of two layers."""

    class Layer(torch.nn.Module):
        def __init__(self, scale: float) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]) * scale)
            self.register_buffer("offset", torch.zeros(()))

        def forward(self, x: Any, factor: float = 1.0) -> Any:
            return (self.weight * x).sum() * factor + self.offset

    class Net(torch.nn.Module):
        def __init__(self, scale: float = 1.0) -> None:
            super().__init__()
            self.first = Layer(scale)
            self.second = Layer(scale * 10)

        def forward(self, x: Any, factor: float = 1.0) -> Any:
            return torch.stack([self.first(x, factor), self.second(x)])

    return Layer, Net


def test_parameters_are_replaced_for_the_call(torch: Torch) -> None:
    _, Net = modules(torch)
    net, x = Net(), torch.tensor([1.0, 1.0])
    call, kept = torch.func.functional_call, net.first.weight
    other = torch.tensor([5.0, 5.0])
    assert call(net, {"first.weight": other}, (x,)).tolist() == [10, 30]
    assert call(net, {"first.weight": other}, x).tolist() == [10, 30]  # one argument, alone
    assert call(net, {"first.weight": other}, (x, 2.0)).tolist() == [20, 30]
    assert call(net, {"first.weight": other}, x, {"factor": 3.0}).tolist() == [30, 30]
    both = ({"first.weight": other}, {"second.offset": torch.tensor(0.5)})
    assert call(net, both, (x,)).tolist() == [10, 30.5]
    assert net.first.weight is kept
    assert net(x).tolist() == [3, 30]


def test_an_exception_puts_the_parameters_back(torch: Torch) -> None:
    Layer, _ = modules(torch)
    layer = Layer(1.0)
    kept = layer.weight
    with pytest.raises(RuntimeError, match="must match the size"):
        torch.func.functional_call(layer, {"weight": torch.ones(3)}, torch.ones(2))
    assert layer.weight is kept


def test_gradients_with_respect_to_parameters(torch: Torch) -> None:
    _, Net = modules(torch)
    net, x = Net(), torch.tensor([3.0, 4.0])
    parameters = {name: p.detach() for name, p in net.named_parameters()}
    assert list(parameters) == ["first.weight", "second.weight"]

    def loss(parameters: Any, x: Any) -> Any:
        return torch.func.functional_call(net, parameters, (x,)).prod()

    found = torch.func.grad(loss)(parameters, x)
    assert found["first.weight"].tolist() == [330, 440]  # x * 110
    assert found["second.weight"].tolist() == [33, 44]
    assert all(p.grad is None for _, p in net.named_parameters())
    batch = torch.stack([x, x * 2])
    per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, batch)
    assert per_sample["first.weight"].tolist() == [[330, 440], [1320, 1760]]


def test_an_ensemble_of_modules(torch: Torch) -> None:
    _, Net = modules(torch)
    nets = [Net(scale) for scale in (1.0, 2.0, 3.0)]
    parameters, buffers = torch.func.stack_module_state(nets)
    assert {k: tuple(v.shape) for k, v in parameters.items()} == {
        "first.weight": (3, 2), "second.weight": (3, 2),
    }  # fmt: skip
    assert {k: tuple(v.shape) for k, v in buffers.items()} == {
        "first.offset": (3,), "second.offset": (3,),
    }  # fmt: skip
    assert parameters["first.weight"].requires_grad
    assert parameters["first.weight"].is_leaf
    assert not buffers["first.offset"].requires_grad
    assert_same(parameters["first.weight"][2], nets[2].first.weight, 0)
    x = torch.tensor([1.0, 1.0])

    def call(parameters: Any, buffers: Any, x: Any) -> Any:
        return torch.func.functional_call(nets[0], (parameters, buffers), (x,))

    found = torch.func.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)
    assert found.tolist() == [[3, 30], [6, 60], [9, 90]]
    found.sum().backward()
    assert parameters["second.weight"].grad.tolist() == [[1, 1]] * 3


def test_tied_weights(torch: Torch) -> None:
    _, Net = modules(torch)
    net, x = Net(), torch.tensor([1.0, 1.0])
    net.second.weight = net.first.weight
    other = {"first.weight": torch.tensor([5.0, 5.0])}
    call = torch.func.functional_call
    assert call(net, other, x).tolist() == [10, 10]
    assert call(net, {"second.weight": other["first.weight"]}, x).tolist() == [10, 10]
    assert call(net, other, x, tie_weights=False).tolist() == [10, 3]
    assert net(x).tolist() == [3, 3]
    with pytest.raises(ValueError, match="functional_call got multiple values for keys"):
        call(net, {**other, "second.weight": x}, x)


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        ("call(net, {'first.weight': x}, x, strict=True)", RuntimeError,
         "Error(s) in reparametrizing for Net:\n\tMissing key(s): "),
        ("call(net, {**state, 'u': x}, x, strict=True)", RuntimeError,
         "Error(s) in reparametrizing for Net:\n\tUnexpected key(s): 'u'."),
        ("call(net, ({'first.weight': x}, {'first.weight': x}), x)", ValueError,
         "['first.weight'] appeared in multiple dictionaries; behavior of functional call is"),
        ("call(net, x, x)", ValueError,
         "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got"),
        ("call(net, {'first.weight': 3.0}, x)", TypeError, "3.0 is not an instance of torch."),
        ("stack([])", RuntimeError, "stack_module_state: Expected at least one model, got 0."),
        ("stack([Net(), Layer(1.0)])", RuntimeError,
         "stack_module_state: Expected all models to be of the same class."),
        ("stack([Net().eval(), Net()])", RuntimeError,
         "stack_module_state: Expected all models to have the same training/eval mode."),
    ],
)  # fmt: skip
def test_mistakes(torch: Torch, code: str, error: Any, words: str) -> None:
    Layer, Net = modules(torch)
    net, x = Net(), torch.ones(2)
    space = {
        "call": torch.func.functional_call, "stack": torch.func.stack_module_state, "net": net,
        "x": x, "Net": Net, "Layer": Layer,
        "state": {**dict(net.named_parameters()), **dict(net.named_buffers())},
    }  # fmt: skip
    with pytest.raises(error) as caught:
        eval(code, space)
    assert words in str(caught.value).replace("retrograd.", "torch.")
    assert net(x).tolist() == [3, 30]


def test_what_the_module_puts_in_place_goes_to_the_dict(torch: Torch) -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.tensor(10.0))

        def forward(self, x: Any) -> Any:
            self.count = self.count + 1
            return x * self.count

    module, state = Counting(), {"count": torch.tensor(0.0)}
    for expected in (3, 6):
        assert torch.func.functional_call(module, state, torch.tensor(3.0)).item() == expected
    assert state["count"].item() == 2
    assert module.count.item() == 10
