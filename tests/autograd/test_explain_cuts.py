"""What cut a graph, read from the source: the cause, the line and the cure; and which passes have
added to a gradient."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd import nn
from retrograd.autograd import explain

Story = Any


def line_of(function: Callable[..., object], text: str) -> str:
    lines, start = inspect.getsourcelines(function)
    return f"test_explain_cuts.py:{next(start + i for i, line in enumerate(lines) if text in line)}"


def by_no_grad() -> Story:
    w = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        h = w * 2  # here
    loss = (h**2).sum()
    return explain(w, loss)


def by_decorator() -> Story:
    @torch.no_grad()
    def features(x: Any) -> Any:
        return x * 2  # here

    w = torch.ones(3, requires_grad=True)
    loss = features(w).sum()
    return explain(w, loss)


def by_switch() -> Story:
    w = torch.ones(3, requires_grad=True)
    with torch.set_grad_enabled(False):
        loss = w.sum()  # here
    return explain(w, loss)


def by_detach() -> Story:
    w = torch.ones(3, requires_grad=True)
    h = w.exp()
    g = h.detach() * 3  # here
    loss = g.mean()
    return explain(w, loss)


def by_data() -> Story:
    w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    h = w.data * 2  # here
    loss = (h * v).sum()
    return explain(w, loss)


def by_item() -> Story:
    w = torch.ones(3, requires_grad=True)
    total = 0.0
    for _ in range(2):
        total += (w * 2).sum().item()  # here
    loss = torch.ones(1) * total
    return explain(w, loss)


def by_numpy() -> Story:
    w = torch.ones(3, requires_grad=True)
    h = np.exp(w.detach().numpy())  # here
    loss = torch.from_numpy(h).sum()
    return explain(w, loss)


def by_tensor() -> Story:
    w = torch.ones(3, requires_grad=True)
    parts = [w.sum(), w.mean()]
    loss = torch.tensor([parts[0].item(), parts[1].item()]).sum()  # here
    return explain(w, loss)


def by_argmax() -> Story:
    w = torch.ones(2, 3, requires_grad=True)
    labels = torch.tensor([0, 1])
    predicted = torch.argmax(w, dim=1)  # here
    loss = (predicted - labels).float().mean()
    return explain(w, loss)


def by_comparison() -> Story:
    w = torch.ones(3, requires_grad=True)
    loss = (w > 0.5).float().mean()  # here
    return explain(w, loss)


def by_conversion() -> Story:
    w = torch.ones(3, requires_grad=True)
    h = w.to(torch.int64)  # here
    loss = h.float().sum()
    return explain(w, loss)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.head = nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, x: Any) -> Any:
        h = self.encoder(x).relu()
        h = h.detach()  # here
        return self.head(h)


def in_a_module() -> Story:
    model = nn.Sequential(Net(), nn.Tanh())
    out = model(torch.ones(2, 3))
    loss = out.sum()
    return explain(model[0].encoder.weight, loss)


def squared(x: Any) -> Any:
    return doubled(x) ** 2


def doubled(x: Any) -> Any:
    values = x.tolist()  # here
    return torch.tensor([2 * v for v in values])


def in_a_function() -> Story:
    w = torch.ones(3, requires_grad=True)
    loss = squared(w).sum()
    return explain(w, loss)


def in_a_list() -> Story:
    w = torch.ones(3, requires_grad=True)
    losses = []
    for i in range(2):
        losses.append((w * i).sum().item())  # here
    loss = sum(losses) * torch.ones(1)
    return explain(w, loss)


def without_a_loss() -> Story:
    w = torch.ones(3, requires_grad=True)
    h = w.detach()  # here
    assert w is not None
    return explain(h)


@pytest.mark.parametrize(
    ("program", "by", "cure", "where"),
    [
        (by_no_grad, "torch.no_grad()", "outside of the block", by_no_grad),
        (by_decorator, "torch.no_grad()", "outside of the block", by_decorator),
        (by_switch, "torch.set_grad_enabled()", "switch it on", by_switch),
        (by_detach, ".detach()", "leave out .detach()", by_detach),
        (by_data, ".data", "without .data", by_data),
        (by_item, ".item()", "leave out .item()", by_item),
        (by_numpy, ".numpy()", "functions of torch", by_numpy),
        (by_tensor, "torch.tensor()", "torch.stack([...])", by_tensor),
        (by_argmax, "torch.argmax()", "cross_entropy", by_argmax),
        (by_comparison, "w > 0.5", "sigmoid", by_comparison),
        (by_conversion, ".to(torch.int64)", "floating point", by_conversion),
        (in_a_module, ".detach()", "leave out .detach()", Net),
        (in_a_function, ".tolist()", "leave out .tolist()", doubled),
        (in_a_list, ".item()", "leave out .item()", in_a_list),
        (without_a_loss, ".detach()", "leave out .detach()", without_a_loss),
    ],
)
def test_the_cut_is_named(program: Callable[[], Story], by: str, cure: str, where: Any) -> None:
    story = program()
    text = " ".join(str(story).split())
    assert f"The graph is cut at {line_of(where, '# here')} by {by}:" in text
    assert any(cure in sentence for sentence in story.todo), text
    assert story.likely == ()


def test_a_path_that_does_not_lead_to_the_tensor_is_not_blamed() -> None:
    w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    scale = v.detach()
    loss = (v * scale).sum()
    story = explain(w, loss)
    assert "cut at" not in str(story)
    assert story.likely[0].startswith("w was not used for loss")


def notes(call: Callable[[], object]) -> str:
    with pytest.raises(RuntimeError) as caught:
        call()
    return "\n".join(getattr(caught.value, "__notes__", ()))


def test_backward_without_history_names_the_cut() -> None:
    def program() -> None:
        w = torch.ones(3, requires_grad=True)
        h = w.detach()  # here
        (h * 2).sum().backward()

    text = notes(program)
    assert f"The graph is cut at {line_of(program, '# here')} by .detach()" in text
    assert "leave out .detach()" in text


def test_backward_without_anything_that_requires_grad() -> None:
    def program() -> None:
        w = torch.ones(3)
        w.sum().backward()

    assert "requires_grad=True" in notes(program)


def test_backward_of_a_frozen_model() -> None:
    def program() -> None:
        model = nn.Linear(2, 1).requires_grad_(False)
        model(torch.ones(2)).sum().backward()

    assert "All parameters of model are frozen" in notes(program)


def test_gradient_by_something_that_was_cut_off() -> None:
    def program() -> None:
        w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        loss = (w.detach() * v).sum()  # here
        torch.autograd.grad(loss, w)

    assert f"cut at {line_of(program, '# here')} by .detach()" in notes(program)


def test_passes_that_have_added_to_a_gradient() -> None:
    w = torch.ones(3, requires_grad=True)
    w.sum().backward()
    assert "passes have added" not in str(explain(w))
    w.exp().sum().backward()
    w.sum().backward()
    here = test_passes_that_have_added_to_a_gradient
    lines, start = inspect.getsourcelines(here)
    first, _, last = [start + i for i, x in enumerate(lines) if ".backward()" in x][:3]
    text = str(explain(w))
    assert "3 backward passes have added to it since it was last set or zeroed:" in text
    assert f"the first at test_explain_cuts.py:{first}: w.sum().backward()" in text
    assert f"the last at test_explain_cuts.py:{last}: w.sum().backward()" in text
    w.grad = None
    w.sum().backward()
    assert "passes have added" not in str(explain(w))


@pytest.mark.parametrize("how", ["zero_", "set_to_none=False", "module", "optimizer"])
def test_zeroing_starts_the_count_again(how: str) -> None:
    layer = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(3):
        if how == "zero_" and layer.weight.grad is not None:
            layer.weight.grad.zero_()
        elif how == "set_to_none=False":
            optimizer.zero_grad(set_to_none=False)
        elif how == "module":
            layer.zero_grad(set_to_none=False)
        elif how == "optimizer":
            optimizer.zero_grad()
        layer(torch.ones(2)).sum().backward()
    assert layer.weight._meta.added == 1
    layer(torch.ones(2)).sum().backward()
    assert "2 backward passes have added" in str(explain(layer.weight))


def test_the_line_of_many_passes() -> None:
    w = torch.ones(3, requires_grad=True)
    for _ in range(4):
        loss = w.sum()
        loss.backward()
    text = " ".join(str(explain(w, w.sum())).split())
    assert "w.grad is 4 times the gradient of loss" in text
    assert "4 backward passes have added to it since it was last set or zeroed, at " in text


class Listed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(2, 2)]

    def forward(self, x: Any) -> Any:
        return self.layers[0](x)


def test_a_module_in_a_plain_list() -> None:
    model = Listed()
    weight = model.layers[0].weight
    model(torch.ones(2)).sum().backward()
    story = explain(weight)
    assert any("model.layers is a plain list of Linears" in x for x in story.known)
    assert story.todo[0] == "Use nn.ModuleList in place of the list model.layers."
