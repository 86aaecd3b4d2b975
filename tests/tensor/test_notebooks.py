"""What notebooks show of tensors and modules."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

import retrograd as torch


class Checked(HTMLParser):
    """Every element is closed, in order; and the text of the cells of tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []
        self.colours: list[str] = re.findall(r"rgba\(([^)]*)\)", text)
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        assert tag == "rect"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


def test_small_tensors_show_numbers_and_their_gradient() -> None:
    x = torch.tensor([[1.0, -2.0], [0.0, float("nan")]], requires_grad=True)
    assert "requires_grad" in x._repr_html_()
    (3 * x).sum().backward()
    shown = Checked(x._repr_html_())
    assert shown.cells == ["1", "-2", "0", "nan", "3", "3", "3", "3"]
    assert shown.colours[:2] == ["178, 24, 43, 0.38", "33, 102, 172, 0.75"]  # by sign and size
    assert shown.colours[3].startswith("230, 171, 2")
    text = (x * 2)._repr_html_()
    assert "<b>Tensor [2, 2]</b> torch.float32, grad_fn=MulBackward0" in text


def test_large_tensors_show_a_picture_and_statistics() -> None:
    x = torch.zeros(100, 300)
    x[:50] = 2.0
    x[0, 0] = float("inf")
    text = x._repr_html_()
    shown = Checked(text)
    assert shown.cells == []
    assert len(shown.colours) == 24 * 24
    assert "min 0, mean 1, max 2, 1 NaN or infinite" in text
    assert "width=" in torch.arange(1000.0)._repr_html_()  # folded
    assert len(torch.randn(1000, 1000)._repr_html_()) < 100_000


@pytest.mark.parametrize("x", [
    torch.tensor(2.5), torch.zeros(0, 3), torch.tensor([True, False]), torch.tensor([1 + 2j]),
    torch.tensor([float("nan")] * 200), torch.ones(2, 3, 4, dtype=torch.uint8),
    torch.nn.Parameter(torch.ones(1)), torch.ones(2, device="meta"),
])  # fmt: skip
def test_every_kind_is_shown(x: Any) -> None:
    Checked(x._repr_html_())


def test_under_a_transform_it_is_what_print_shows() -> None:
    texts = []
    torch.func.vmap(lambda x: (texts.append(x._repr_html_()), x)[1])(torch.ones(2))
    assert texts[0].startswith("<pre>BatchedTensor(")


def test_modules_are_tables() -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 2), torch.nn.Sequential(torch.nn.BatchNorm1d(2)), torch.nn.LazyLinear(1)
    )
    model[0].bias.requires_grad_(False)
    text = model._repr_html_()
    shown = Checked(text)
    rows = [shown.cells[i : i + 4] for i in range(0, len(shown.cells), 4)]
    assert rows[1] == ["(whole)", "Sequential", "", "12"]
    assert rows[2][2:] == ["weight 2×3, bias 2", "8"]
    assert rows[4][0] == "    0"
    assert "running_mean 2 (buffer)" in rows[4][2]
    assert rows[5][2] == "weight ?, bias ?"
    assert "12 parameters, 10 of them to be trained, 48 bytes, and more" in text
    many = torch.nn.Sequential(*[torch.nn.ReLU() for _ in range(300)])
    assert "101 more" in many._repr_html_()


def test_text_is_escaped() -> None:
    class Odd(torch.nn.Module):
        def extra_repr(self) -> str:
            return "<script>"

    assert "<script>" not in Odd()._repr_html_()
