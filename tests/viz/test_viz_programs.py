"""Pictures of compiled programs: a box for each statement, and an edge for each use of a result."""

from __future__ import annotations

from typing import Any

import pytest
from _viz_graphs import run

import retrograd as torch
from retrograd import viz
from retrograd.func import grad

pytest.importorskip("matplotlib", reason="pictures need the extra viz")


def boxes(graph: Any, group: int | None = None) -> list[tuple[str, str]]:
    return [(item.kind, item.name or item.label) for item in graph.items if item.group == group]


def edges(graph: Any) -> set[tuple[str, str]]:
    names = [item.name or item.label for item in graph.items]
    return {(names[a], names[b]) for a, b in graph.edges}


def test_statements_inputs_and_outputs_of_a_gradient() -> None:
    graph = viz.draw(run("program")["slope"]).graph
    first, second = "t1 = h + h", "t1 = x.T @ (t1 - t1 * (h * h))"
    assert boxes(graph) == [
        ("input", "w"), ("input", "x"), ("line", "h = np.tanh(x @ w)"), ("backward", first),
        ("backward", second),
    ]  # fmt: skip
    h = "h = np.tanh(x @ w)"
    assert edges(graph) == {
        ("w", h), ("x", h), (h, first), (first, second), ("x", second), (h, second)
    }  # fmt: skip
    assert [item.root for item in graph.items] == [False, False, False, False, True]
    assert [(item.shape, item.dtype) for item in graph.items[1:3]] == [
        ((4, 3), "float32"), ((4, 2), "float32")
    ]  # fmt: skip
    assert graph.items[4].details == ("output",)


def test_pictures_say_what_statements_do() -> None:
    picture = viz.draw(run("program")["slope"], show="source")
    for text in ("h = np.tanh(x @ w)", "[4, 2] float32", "program.py:5", "line of the backward"):
        assert text in picture.svg
        assert text in picture.dot or text.startswith("line of")
    assert repr(picture).startswith("<Picture: 2 inputs, 1 line, 2 lines of the backward pass;")
    assert picture.png.startswith(b"\x89PNG")


def loop(x: Any, w: Any) -> Any:
    y = torch.cond(x.sum() > 0, lambda x: torch.sin(x), lambda x: x * w, (x,))

    def step(h: Any, v: Any) -> Any:
        return torch.tanh(h * w + v), None

    return torch.scan(step, w, y)[0]


def test_control_flow_is_a_group_with_its_statements_inside() -> None:
    compiled = torch.compile(loop, fullgraph=True)
    compiled(torch.ones(5), torch.tensor(0.5))
    graph = viz.draw(compiled).graph
    condition, body = "if np.add.reduce(x, axis=None) > 0", "for i in range(5)"
    assert boxes(graph) == [("input", "x"), ("input", "w"), ("group", condition), ("group", body)]
    groups = {item.label: item.id for item in graph.groups()}
    assert boxes(graph, groups[condition]) == [("line", "y = np.sin(x)"), ("line", "y = x * w")]
    ((kind, statement),) = boxes(graph, groups[body])
    assert kind == "line"
    assert "np.tanh(" in statement
    found = edges(graph)
    assert {("y = np.sin(x)", statement), ("y = x * w", statement), ("w", statement)} <= found
    assert ("w", "y = np.sin(x)") not in edges(graph)
    assert [item.root for item in graph.items if item.kind == "group"] == [False, True]
    assert "np.sin(x)" in viz.draw(compiled).html
    backward = torch.compile(grad(loop))
    backward(torch.ones(5), torch.tensor(0.5))
    kinds = {item.kind for item in viz.draw(backward).graph.items}
    assert kinds == {"input", "line", "backward", "group"}


def test_training_step_says_what_becomes_of_parameters() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(2):
        step(torch.ones(3, 2))
    graph = viz.draw(step).graph
    details = [detail for item in graph.items for detail in item.details]
    assert {"new value of model_weight", "new value of model_bias", "output"} == set(details)
    update = next(i for i in graph.items if i.details == ("new value of model_weight",))
    assert {("model_weight", update.label)} <= edges(graph)


def test_long_programs_are_folded_by_lines_of_the_user() -> None:
    def chain(x: Any) -> Any:
        for _ in range(30):
            x = torch.sin(x)
            x = torch.cos(x) + 1
        return x.sum()

    compiled = torch.compile(grad(chain))
    compiled(torch.ones(3))
    whole = viz.draw(compiled, max_nodes=1000).graph
    folded = viz.draw(compiled, max_nodes=10).graph
    statements = [item for item in whole.items if item.kind != "input"]
    assert len(statements) > 60
    top = [item for item in folded.items if item.group is None and item.kind != "input"]
    assert 2 <= len(top) <= 10
    assert sum(item.count or 1 for item in top) == len(statements)
    order = {item.id: k for k, item in enumerate(folded.items)}
    assert all(order[a] < order[b] for a, b in folded.edges if folded.items[b].kind != "group")
    assert viz.draw(compiled, max_nodes=10).svg.startswith("<svg")


def test_large_arrays_are_a_group_of_what_is_done_block_by_block() -> None:
    compiled = torch.compile(lambda x: torch.tanh(x * 2) + x)
    compiled(torch.ones(1000, 1000))
    graph = viz.draw(compiled).graph
    (group,) = graph.groups()
    assert [kind for kind, _ in boxes(graph, group.id)] == ["line"] * 3
    assert group.root


def test_what_has_no_program_is_refused() -> None:
    with pytest.raises(RuntimeError, match="call the function first"):
        viz.draw(torch.compile(loop))
    with pytest.raises(TypeError, match="expected a Tensor"):
        viz.draw(loop)
