"""The graphs that are alive, and who holds them."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

import retrograd as torch
from retrograd.autograd import graph as graphs
from retrograd.autograd._explaining._alive import Alive

KILO = 1000  # elements of 4 bytes each


def alive() -> Alive:
    """The graphs that are alive and were made here: other tests may have left some."""
    found = graphs.alive()
    here = ("test_alive.py:", "<string>:")
    found[:] = [graph for graph in found if graph.lines[0][0].startswith(here)]
    found.bytes = sum(graph.bytes for graph in found)
    return found


def weight() -> Any:
    return torch.ones(KILO, requires_grad=True)


KEPT: list[Any] = []


@pytest.fixture(autouse=True, scope="module")
def _holders_are_found_in_modules() -> Iterator[None]:
    """tests/conftest.py leaves modules out of what the garbage collector looks through."""
    gc.unfreeze()
    yield
    gc.freeze()


def test_none() -> None:
    assert str(alive()) == "No graph is alive."
    w = weight()
    with torch.no_grad():
        kept = w.exp()
    assert alive() == []
    assert kept.requires_grad is False


def test_a_list_of_losses() -> None:
    w = weight()
    losses = []
    for _ in range(3):
        x = torch.ones(KILO)
        loss = (w * x).exp().sum()
        losses.append(loss)
    found = alive()
    assert [(graph.nodes, graph.bytes, graph.freed) for graph in found] == [(3, 8000, False)] * 3
    assert found.bytes == 24_000
    assert all(graph.held_by[0].startswith("losses[") for graph in found)
    assert sum("loss in test_a_list_of_losses()" in graph.held_by for graph in found) == 1
    lines = str(found).splitlines()
    assert lines[0] == "3 graphs are alive: 9 nodes, 24 kB of saved tensors."
    assert lines[1] == (
        "  losses[...] in test_a_list_of_losses() holds 3 graphs: 9 nodes, 24 kB of saved tensors"
    )
    assert lines[2].startswith("    made at test_alive.py:")
    assert lines[2].endswith(": loss = (w * x).exp().sum()")
    assert "What to do: losses[...] in test_a_list_of_losses() keeps every graph" in lines[3]
    del loss
    losses[:] = [x.detach() for x in losses]
    assert alive() == []


def test_what_a_pass_has_freed() -> None:
    loss = weight().exp().sum()
    loss.backward()
    (graph,) = alive()
    assert (graph.nodes, graph.bytes, graph.freed) == (2, 0, True)
    assert "a backward pass has freed what was saved" in str(alive())
    assert loss.grad_fn is not None


def test_a_state_that_is_carried_on_is_one_graph() -> None:
    w = weight()
    h = torch.zeros(KILO)
    for _ in range(5):
        h = (h + w).tanh()
    (graph,) = alive()
    assert (graph.nodes, graph.bytes) == (10, 20_000)
    assert [line.rpartition(": ")[2] for line, _ in graph.lines] == ["h = (h + w).tanh()"]
    assert graph.lines[0][1] == 10
    assert "1 graph is alive: 10 nodes, 20 kB" in str(alive())
    assert h.requires_grad


class Trainer:
    def __init__(self) -> None:
        self.last: Any = None
        self.seen: dict[str, Any] = {}


class Slotted:
    __slots__ = ("value",)


@pytest.mark.parametrize(("keep", "said"), [
    ("trainer.last = y", "trainer.last"),
    ("trainer.seen['loss'] = y", "trainer.seen['loss']"),
    ("trainer.seen['all'] = [None, (y, 2)]", "trainer.seen['all'][1][0]"),
    ("slotted.value = y", "slotted.value"),
    ("queue.append(y)", "queue[0]"),
    ("KEPT.append(y)", "test_alive.KEPT[0]"),
    ("globals()['LOSS'] = y", "LOSS"),
    ("other = y.grad_fn", "other"),
    ("view = y[:2]", "view"),
    ("w.grad = y", "w.grad"),
    ("ask = lambda: y", "y"),
])  # fmt: skip
def test_who_holds_it(keep: str, said: str) -> None:
    program = (
        "def held():\n    w = weight()\n"
        "    trainer, slotted, queue = Trainer(), Slotted(), deque()\n"
        f"    y = w.exp()\n    {keep}\n{'' if 'ask' in keep else '    del y'}\n    return alive()\n"
    )
    names: dict[str, Any] = {**globals()}
    exec(program, names)
    found = names["held"]()
    KEPT.clear()
    in_function = said if said.isupper() or "KEPT" in said else f"{said} in held()"
    assert in_function in [text for graph in found for text in graph.held_by]


def test_saved_for_custom_functions_and_parts() -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x * 1)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * g

    y = Square.apply(weight())
    z = weight().clone()
    z[:2] = y[:2].exp()
    found = alive()
    assert len(found) == 1  # the write joins both
    assert found[0].bytes >= 4 * KILO
    assert z.requires_grad


def test_objects_that_answer_to_everything() -> None:
    class Odd:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

    odd, other = Odd(), Odd()
    odd.kept = weight().exp()
    (graph,) = alive()
    assert graph.held_by == ["odd.kept in test_objects_that_answer_to_everything()"]
    assert type(other) is Odd


def test_more_than_can_be_listed() -> None:
    w = weight()
    names = {f"v{i}": w * i for i in range(20)}
    found = alive()
    assert len(found) == 20
    assert {text for graph in found for text in graph.held_by} == {
        f"names['v{i}'] in test_more_than_can_be_listed()" for i in range(20)
    }
    assert "... and 8 more" in str(found)
    assert repr(found[0]).startswith("<graph of 1 node")
    assert len(names) == 20
    assert isinstance(deque(names), deque)
