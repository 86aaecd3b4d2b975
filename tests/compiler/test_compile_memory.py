"""What compiled functions return and store shares memory with nothing that it would not share
memory with after an eager call."""

from typing import Any

import pytest

import retrograd as torch
from retrograd import nn


def weights(*sizes: int) -> list[Any]:
    return [torch.linspace(0.5, size, size).requires_grad_() for size in sizes]


USES = {
    "sum": lambda w, v: (w + v) * torch.arange(3.0),
    "cat": lambda w, v: torch.cat([w, v]).sin(),
    "stack": lambda w, v: torch.stack([w, v]).sin(),
    "view": lambda w, v: (w.view(3, 1) + v.view(3, 1)).sin(),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("clipped", [False, True])
def test_gradients_have_memory_of_their_own(use: str, clipped: bool) -> None:
    """Rules may give one array to several parameters, or parts of one."""
    results = []
    for compiled in (False, True):
        pair = weights(3, 3) if use != "cat" else weights(3, 2)
        optimizer = torch.optim.SGD(pair, 0.1)

        def step(pair: Any = pair, optimizer: Any = optimizer) -> None:
            optimizer.zero_grad()
            USES[use](*pair).sum().backward()
            if clipped:
                nn.utils.clip_grad_norm_(pair, 0.5)
            optimizer.step()

        run = torch.compile(step, fullgraph=True) if compiled else step
        found = []
        for _ in range(3):
            run()
            found += [x.tolist() for w in pair for x in (w, w.grad)]
            pair[0].grad.add_(1)
            found.append(pair[1].grad.tolist())
        results.append(found)
    assert results[1] == results[0]


def test_a_gradient_that_is_an_argument_is_copied() -> None:
    (w,), given = weights(3), torch.ones(3)

    @torch.compile(fullgraph=True)
    def scaled(g: Any) -> None:
        w.view_as(w).backward(g)
        w.grad.mul_(2)

    for _ in range(3):
        w.grad = None
        scaled(given)
        assert w.grad.tolist() == [2.0] * 3
        w.grad.add_(1)
        assert given.tolist() == [1.0] * 3


def test_parts_of_one_tensor_as_gradients() -> None:
    w, v = weights(2, 3)

    @torch.compile(fullgraph=True)
    def store(x: Any) -> None:
        twice = x * 2
        w.grad, v.grad = twice[:2], twice[2:]

    for _ in range(3):
        store(torch.arange(5.0))
        assert (w.grad.tolist(), v.grad.tolist()) == ([0, 2], [4, 6, 8])


COPIES = {
    "clone": lambda x: x.clone().t(),
    "row of a clone": lambda x: x.clone()[0],
    "times one": lambda x: (x * 1.0).t(),
    "minus zero": lambda x: (x - 0.0)[:, 1],
}


@pytest.mark.parametrize("name", COPIES)
def test_a_view_of_a_copy_of_an_argument(name: str) -> None:
    function = torch.compile(COPIES[name], fullgraph=True)
    x = torch.ones(2, 3)
    for _ in range(3):
        function(x).add_(1)
        assert x.tolist() == [[1.0] * 3] * 2


def beside(x: Any) -> Any:
    y = x * 2
    return y.clone()[0], y


def before_a_write(x: Any) -> Any:
    y = x * 2
    row = y.clone()[0]
    y[:, 0] = 9.0
    return row, y


def before_a_sum(x: Any) -> Any:
    y = x * 2
    turned = (y * 1.0).t()
    y.fill_(3.0)
    return turned + turned, y + 1


@pytest.mark.parametrize("function", [beside, before_a_write, before_a_sum])
@pytest.mark.parametrize("shape", [(2, 3), (200, 300)])
def test_views_of_copies_are_not_overwritten(function: Any, shape: Any) -> None:
    run = torch.compile(function, fullgraph=True)
    x = torch.ones(shape)
    expected = [y.tolist() for y in function(x)]
    for _ in range(3):
        first, second = run(x)
        assert [first.tolist(), second.tolist()] == expected
        first.add_(1)
        assert second.tolist() == expected[1]
