"""What compiled functions return and store shares memory with nothing that it would not share
memory with after an eager call."""

from typing import Any

import pytest

import retrograd as torch


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
