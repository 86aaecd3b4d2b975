"""``autograd.explain`` of a model: a row for each parameter, and what is most worth doing."""

from __future__ import annotations

from typing import Any

import pytest

import retrograd as torch
from retrograd import nn
from retrograd.autograd import explain


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.head = nn.Linear(3, 3), nn.Linear(3, 1)
        self.spare = nn.Linear(2, 2, bias=False)

    def forward(self, x: Any) -> Any:
        h = self.encoder(x).tanh()
        h = h.detach()
        return self.head(h)


def row(story: Any, name: str) -> Any:
    return next(r for r in story.rows if r.name == name)


def test_every_parameter_has_a_row_with_its_reason() -> None:
    torch.manual_seed(0)
    model = Net()
    model.head.bias.requires_grad_(False)
    loss = model(torch.ones(2, 3)).sum()
    loss.backward()
    story = explain(model, loss)
    assert [r.name for r in story.rows] == [name for name, _ in model.named_parameters()]
    assert row(story, "encoder.weight").why.startswith("cut at test_explain_models.py:")
    assert row(story, "encoder.weight").why.endswith("by .detach()")
    assert row(story, "spare.weight").why == "unused: no recorded operation has used it"
    assert row(story, "head.bias").why == "frozen: requires_grad is False"
    head = row(story, "head.weight")
    assert head.norm == pytest.approx(model.head.weight.grad.norm().item())
    assert (head.why, head.passes) == ("", 1)
    assert len(story.todo) == 3
    assert ".detach()" in story.todo[0]
    assert "parameter" in str(story).splitlines()[0]


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.AdamW])
def test_the_ratio_is_that_of_the_next_step(make: Any) -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = make(model.parameters(), lr=0.01)
    loss = model(torch.ones(3)).square().sum()
    loss.backward()
    before, grad = model.weight.detach().clone(), model.weight.grad.clone()
    story = explain(model, loss, optimizer=optimizer)
    assert torch.equal(model.weight, before)
    assert torch.equal(model.weight.grad, grad)
    assert not optimizer.state
    optimizer.step()
    moved = ((model.weight.detach() - before).norm() / before.norm()).item()
    assert row(story, "weight").ratio == pytest.approx(moved, rel=1e-5)


def test_an_optimizer_that_is_not_that_of_the_model() -> None:
    model, other = nn.Linear(3, 1), nn.Linear(2, 2)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    loss = model(torch.ones(3)).sum()
    loss.backward()
    story = explain(model, loss, optimizer=optimizer)
    assert row(story, "weight").why == "not in the optimizer"
    assert "make the optimizer with model.parameters()" in story.todo[0]


def test_a_parameter_that_was_replaced() -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.weight = nn.Parameter(torch.ones(1, 3))
    loss = model(torch.ones(3)).sum()
    loss.backward()
    story = explain(model, loss, optimizer=optimizer)
    assert row(story, "weight").why == "replaced since the optimizer was made"
    assert row(story, "bias").why != "replaced since the optimizer was made"
    assert story.todo[0].startswith("model.weight was replaced since the optimizer was made")


def test_passes_that_were_added_up() -> None:
    model = nn.Linear(3, 1)
    for _ in range(3):
        loss = model(torch.ones(3)).sum()
        loss.backward()
    story = explain(model, loss)
    assert row(story, "weight").passes == 3
    assert "3 passes have added to the gradients" in story.todo[0]
    assert "loss.backward()" in story.todo[0]


class Listed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.layers = [nn.Linear(2, 2, bias=False)]

    def forward(self, x: Any) -> Any:
        return self.layers[0](self.first(x))


def test_modules_in_a_plain_list_have_rows_too() -> None:
    model = Listed()
    loss = model(torch.ones(2)).sum()
    loss.backward()
    story = explain(model, loss)
    assert row(story, "model.layers[...] 0").why == "in a plain list: not a parameter of model"
    assert "nn.ModuleList" in story.todo[0]


def test_a_gradient_that_is_not_finite_comes_first() -> None:
    model = nn.Linear(1, 1, bias=False)
    loss = (model(torch.zeros(1)).sqrt() * 0).sum()
    loss.backward()
    story = explain(model, loss)
    assert row(story, "weight").why == "NaN or infinity"
    assert story.todo[0].startswith("The gradient of weight is not finite")


def test_before_a_pass() -> None:
    model = nn.Linear(1, 1)
    assert row(explain(model), "weight").why == "nothing recorded has used it"
    loss = model(torch.ones(1)).sum()
    assert row(explain(model, loss), "weight").why == "the loss leads to it: call backward()"


def test_large_and_tiny_steps() -> None:
    model = nn.Linear(3, 1, bias=False)
    loss = model(torch.ones(3)).sum()
    loss.backward()
    large = explain(model, loss, optimizer=torch.optim.SGD(model.parameters(), lr=100.0))
    assert "smaller learning rate" in large.todo[0]
    tiny = explain(model, loss, optimizer=torch.optim.SGD(model.parameters(), lr=1e-12))
    assert "larger learning rate" in tiny.todo[0]
