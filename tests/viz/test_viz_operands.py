"""The inputs of operations in pictures: in their order, and those that no node keeps."""

from __future__ import annotations

from typing import Any

import pytest

import retrograd as torch
from retrograd import nn, viz
from retrograd.viz._scene import scene_of


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(values, requires_grad=True)


def across(drawn: Any, label: str) -> list[str]:
    """What goes into the last operation of a kind, from left to right in the picture."""
    graph = drawn.graph
    (*_, operation) = [item.id for item in graph.items if item.label == label]
    boxes = {box.id: box for box in scene_of(graph).boxes}
    inputs = sorted((boxes[a].x, a) for a, b in graph.edges if b == operation)
    edges = [graph.items[a].name for a, b in graph.edges if b == operation]
    shown = [graph.items[a].name for _, a in inputs]
    assert edges == shown
    return shown


def test_operands_are_drawn_in_their_order() -> None:
    a, c, d = leaf(1.0, 2.0), torch.tensor([3.0, 4.0]), leaf(5.0, 6.0)
    x, b = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
    assert across(viz.draw(c - a), "Sub") == ["c", "a"]
    assert across(viz.draw(c / d), "Div") == ["c", "d"]
    assert across(viz.draw(d / c), "Div") == ["d", "c"]
    assert across(viz.draw(x @ b), "Mm") == ["x", "b"]
    assert across(viz.draw(b @ x), "Mm") == ["b", "x"]


def test_results_are_drawn_in_the_order_of_operands_not_of_creation() -> None:
    a, b = leaf(1.0), leaf(2.0)
    second = b.exp().sin()
    first = a.exp().sin()
    assert across(viz.draw(first - second), "Sub") == ["first", "second"]
    assert across(viz.draw(second - first), "Sub") == ["second", "first"]


def test_a_layer_has_bias_input_and_weight_in_the_order_of_addmm() -> None:
    layer, x = nn.Linear(2, 3), torch.ones(4, 2)
    with viz.recording() as story:
        layer(x).sum().backward()
    graph = story.graph
    (addmm,) = [item.id for item in graph.items if item.label == "Addmm"]
    boxes = {box.id: box for box in scene_of(graph).boxes}
    inputs = sorted((boxes[a].x, graph.items[a].name) for a, b in graph.edges if b == addmm)
    assert [name for _, name in inputs] == ["layer.bias", "x", None]


def details(y: torch.Tensor) -> list[tuple[str, str | None, tuple[str, ...]]]:
    kept = ("data", "operation")
    items = viz.draw(y).graph.items
    return [(i.label, i.name, i.details) for i in items if i.kind in kept]


def test_inputs_that_were_not_saved_are_drawn_and_say_so() -> None:
    x, w = torch.ones(2), leaf(1.0, 2.0)
    assert details(x + w.exp()) == [
        ("Exp", None, ()), ("not saved", "x", ("not saved",)), ("Add", None, ())
    ]  # fmt: skip
    assert details(w.exp() - x) == [
        ("Exp", None, ()), ("not saved", "x", ("not saved",)), ("Sub", None, ())
    ]  # fmt: skip
    # Its shape is known where it has to be broadcast.
    (missing,) = [i for i in viz.draw(w.exp() + torch.ones(3, 1)).graph.items if i.kind == "data"]
    assert (missing.name, missing.shape) == ("torch.ones(3, 1)", (3, 1))
    assert missing.value is None


def test_numbers_are_no_inputs() -> None:
    w = leaf(1.0, 2.0)
    assert details(w + 2) == [("Add", None, ("other=2",))]
    assert details(2 + w.exp()) == [("Exp", None, ()), ("Add", None, ("other=2",))]
    assert details(w - -0.5) == [("Sub", None, ("other=-0.5",))]
    assert details(3 - w)[0][0] == "Rsub"


@pytest.mark.parametrize("reflected", [False, True])
def test_an_operand_is_named_only_where_it_is_known_which_it_is(reflected: bool) -> None:
    """``number + h`` calls ``h.__radd__(number)``; its node is like that of ``h + number``."""
    w, number = leaf(1.0), 3.0
    h = w.exp()
    (data,) = [x for x in details(number + h if reflected else h + number) if x[0] == "not saved"]
    assert data[1] == "number"
    pair = [w.exp()]
    (data,) = [x for x in details(number + pair[0]) if "not saved" in x[0]]
    assert data[:2] == ("number or tensor, not saved", None)


def test_the_residual_of_a_layer_is_drawn() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.inner(x)

    net = Residual()
    drawn = viz.draw(net(torch.ones(3, 2)))
    (add,) = [item.id for item in drawn.graph.items if item.label == "Add"]
    inputs = [drawn.graph.items[a] for a, b in drawn.graph.edges if b == add]
    assert [item.kind for item in inputs] == ["data", "intermediate"]
    assert inputs[0].name == "x"
    assert "not saved" in drawn.svg


def test_what_a_pass_has_freed_says_so() -> None:
    w, x = leaf(1.0, 2.0), torch.ones(2)
    y = (w * x).sum() - torch.ones(())
    y.backward()
    names = [(i.label, i.name) for i in viz.draw(y).graph.items if i.kind == "data"]
    assert ("not saved", "torch.ones(())") in names
