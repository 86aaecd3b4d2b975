"""Large graphs: what is folded is true, pictures stay small, and nothing hangs or recurses."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import retrograd as rg
from retrograd import nn, viz
from retrograd.viz._folding import Group, Operations, fold, repetitions
from retrograd.viz._model import Graph
from retrograd.viz._scene import contents


def leaf(*shape: int) -> Any:
    return rg.ones(*shape, requires_grad=True)


def labels(graph: Graph, group: int | None = None) -> list[str]:
    return [i.label for i in graph.items if i.group == group and i.kind in ("operation", "group")]


# -- repetition ----------------------------------------------------------------------------------


def test_a_chain_is_one_box() -> None:
    y = leaf(2)
    for _ in range(500):
        y = y.tanh()
    graph = Graph.of(y, max_nodes=10)
    assert labels(graph) == ["Tanh ×500"]
    assert next(i.count for i in graph.groups()) == 500
    assert sum(i.kind == "operation" for i in graph.items) == 500  # all can be looked at


def test_a_loop_is_folded_from_its_first_operation_to_its_last() -> None:
    w, u = leaf(4, 4), leaf(3, 4)
    h, x = rg.zeros(2, 4), rg.ones(2, 3)
    for _ in range(50):
        h = (x @ u + h @ w).tanh()
    graph = viz.draw(h.sum(), max_nodes=10).graph
    assert labels(graph) == ["Sum", "4 operations ×50"]
    group = next(iter(graph.groups()))
    assert group.details == ("Mm ×2, Add, Tanh",)
    assert sorted(i.name or "" for i in graph.items if i.kind == "leaf" and i.group is None) == [
        "u",
        "w",
    ]


def test_loops_in_loops() -> None:
    x = leaf(2)
    y = x
    for _ in range(30):
        for _ in range(20):
            y = y.sin()
        y = y * x
    graph = Graph.of(y, max_nodes=8)
    assert labels(graph) == ["21 operations ×30"]


def test_folding_ends_where_structure_differs() -> None:
    y = leaf(2)
    for _ in range(40):
        y = y.sin()
    y = y.exp()
    for _ in range(30):
        y = y.cos()
    assert labels(Graph.of(y, max_nodes=10)) == ["Exp", "Sin ×40", "Cos ×30"]


@given(st.lists(st.integers(0, 2), max_size=40))
def test_repetitions_are_repetitions(symbols: list[int]) -> None:
    end = 0
    for start, period, times in repetitions(symbols):
        assert start >= end
        assert times >= 2
        end = start + period * times
        assert symbols[start:end] == symbols[start : start + period] * times
    assert end <= len(symbols)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["", "a", "a.b", "a.c", "d"])), max_size=30
    ).map(lambda some: some * 3),
    st.integers(2, 6),
    st.booleans(),
)
def test_every_operation_is_in_one_group_and_groups_are_small(
    symbols: list[tuple[int, str]], limit: int, abridged: bool
) -> None:
    kinds = [number for number, _ in symbols]
    modules = [module for _, module in symbols]
    operations = Operations(kinds, kinds, modules, [()] * len(kinds))
    top = fold(operations, limit, detail=0 if abridged else 10**9)
    seen: list[int] = []
    todo: list[Group | int] = [top]
    while todo:
        child = todo.pop()
        if isinstance(child, int):
            seen.append(child)
            continue
        assert len(child.children) <= limit
        assert child.low <= child.high
        for inner in child.children:
            low, high = (inner, inner + 1) if isinstance(inner, int) else (inner.low, inner.high)
            assert child.low <= low <= high <= child.high
        if child.times > 1:
            assert len(child) % child.times == 0
            period = len(child) // child.times
            one = kinds[child.low : child.low + period]
            assert kinds[child.low : child.high] == one * child.times
        todo += child.children
    assert len(set(seen)) == len(seen)
    if not abridged:
        assert sorted(seen) == list(range(len(symbols)))


# -- modules -------------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return x + self.second(rg.tanh(self.first(x)))


class Net(nn.Module):
    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.embed = nn.Linear(3, 4)
        self.blocks = nn.ModuleList([Block() for _ in range(blocks)])
        self.head = nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x).sum()


def test_names_of_parameters_fold_by_module() -> None:
    net = Net(5)
    graph = viz.draw(net(rg.ones(2, 3)), params=net, max_nodes=15).graph
    groups = [(i.label, i.name) for i in graph.groups() if i.group is None]
    assert groups == [("Block", f"blocks.{k}") for k in range(5)]
    for item in graph.items:  # parameters are with their modules
        if item.kind == "leaf" and (item.name or "").startswith("blocks."):
            assert item.group is not None
            assert (item.name or "").startswith(f"{graph.items[item.group].name}.")


def test_many_modules_of_the_same_structure_are_one_box() -> None:
    net = Net(30)
    graph = viz.draw(net(rg.ones(2, 3)), params=net, max_nodes=15).graph
    groups = [(i.label, i.name) for i in graph.groups() if i.group is None]
    assert groups == [("Block ×30", "blocks.0 … blocks.29")]


def test_recorded_modules_fold_without_names() -> None:
    net = Net(5)
    with viz.recording():
        loss = net(rg.ones(2, 3))
    graph = Graph.of(loss, max_nodes=15)
    groups = [(i.label, i.name) for i in graph.groups() if i.group is None]
    assert groups == [("Block", f"blocks.{k}") for k in range(5)]


def test_a_recording_tells_of_constants_and_shapes() -> None:
    x = leaf(2)
    with viz.recording():
        y = (x + rg.ones(3, 1)).sum(0)  # the sum keeps nothing of what was added
    graph = Graph.of(y)
    assert [(i.kind, i.shape) for i in graph.items if i.kind != "operation"] == [
        ("leaf", (2,)),
        ("data", (3, 1)),
        ("intermediate", (3, 2)),
        ("intermediate", (2,)),
    ]


# -- many ----------------------------------------------------------------------------------------


def test_hundreds_of_inputs_are_one_box() -> None:
    parts = [leaf(2) for _ in range(300)]
    graph = viz.draw(rg.stack(parts).sum()).graph
    top = [i.label for i in graph.items if i.group is None]
    assert top == ["Stack", "result", "Sum", "result", "300 leaves"]
    assert next(iter(graph.groups())).name == "parts[0] … parts[299]"


def test_many_results_between_groups_stay_inside() -> None:
    outs = [leaf(1).sin() * 2 for _ in range(400)]
    drawn = viz.draw(rg.stack(outs).sum())
    boxes, pairs = contents(drawn.graph)
    assert len(boxes) <= 10
    assert len(pairs) <= 10


def pictures_are_small(graph: Graph, limit: int) -> None:
    sizes = Counter(i.group for i in graph.items if i.kind in ("operation", "group"))
    assert max(sizes.values()) <= limit
    for group in [None, *(i.id for i in graph.groups())]:
        boxes, pairs = contents(graph, group)
        assert len(boxes) <= 10 * limit
        places = {box.id for box in boxes}
        assert {n for pair in pairs for n in pair} <= places


def test_irregular_graphs_are_cut_in_parts() -> None:
    pool = [leaf(1) for _ in range(5)]
    functions = [rg.tanh, rg.sin, rg.exp, rg.cos]
    state = 1
    for _ in range(3000):  # a linear congruential generator: the same graph on every machine
        state = (state * 1103515245 + 12345) % 2**31
        a, b = pool[-1 - state % 5], pool[-1 - (state >> 8) % len(pool[-50:])]
        pool.append(functions[(state >> 16) % 4](a) if state >> 20 & 1 else a * b)
    graph = Graph.of(pool[-1] + pool[-2], max_nodes=20, detail=500)
    assert graph.abridged
    pictures_are_small(graph, 20)
    for node in graph.nodes:
        assert graph.items[graph.item_of(node)].kind in ("operation", "group")


@pytest.mark.exhaustive
def test_a_million_operations_without_recursion() -> None:
    x = leaf(2)
    y = x
    for _ in range(1_000_000):
        y = y.tanh()
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(250)
    try:
        drawn = viz.draw(y, show=("values", "source"))
        drawn.svg  # is made in no time: it is one box
    finally:
        sys.setrecursionlimit(limit)
    assert labels(drawn.graph) == ["Tanh ×1,000,000"]
    assert len(drawn.graph.items) < 10
    assert "with 1,000,000 operations" in repr(drawn)


def test_abridged_repetitions_stand_for_each_other() -> None:
    weights = [leaf(2) for _ in range(3)]
    y = rg.ones(2)
    nodes, leaves = [], []
    for k in range(4000):
        w = weights[k] if k < 3 else leaf(2)
        product = y * w
        y = product.sin()
        nodes.append((product.grad_fn, y.grad_fn))
        leaves.append(product.grad_fn.next_nodes[1])
    graph = Graph.of(y, detail=100)
    assert graph.abridged
    first = [graph.item_of(node) for node in nodes[0]]
    assert [graph.items[n].label for n in first] == ["Mul", "Sin"]
    for pair in nodes[1::97]:
        assert [graph.item_of(node) for node in pair] == first
    assert graph.items[graph.item_of(leaves[2000])].kind == "leaf"
