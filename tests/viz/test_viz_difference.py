"""Where two recordings of one program first part."""

from __future__ import annotations

import pytest
from _viz_browser import Open

import retrograd as torch
from retrograd import viz
from retrograd.viz._story import Story


def run(
    dtype: torch.dtype = torch.float32, rate: float = 0.5, start: float = 1.0, edited: bool = False,
    factor: float = 1.0, passes: int = 2,
) -> Story:  # fmt: skip
    """Gradient descent in two variants."""
    w = torch.tensor([start, 2.0], dtype=dtype, requires_grad=True)
    x = torch.tensor([0.1, 0.2], dtype=dtype)
    with viz.recording() as story:
        for _ in range(passes):
            y = w * x
            if edited:
                y = y.exp()
            y.register_hook(lambda g: g * factor)
            loss = y.square().sum()
            loss.backward()
            with torch.no_grad():
                w -= rate * w.grad
            w.grad = None
    return story


def test_the_same_program_has_no_difference() -> None:
    result = viz.difference(run(), run())
    assert result.first is None
    assert str(result) == f"No difference in {result.compared} values and gradients."
    assert viz.difference(run(), run(torch.float64)).first is None  # but for rounding


def test_precision() -> None:
    result = viz.difference(run(torch.float64), run(), tolerance=1e-10)
    assert result.first is not None
    assert (result.first.kind, result.first.number) == ("value", 0)
    assert result.first.text == "x, which Mul was given"
    assert result.first.first is not None
    assert result.first.first.endswith("y = w * x")
    assert result.first.size == pytest.approx(0.2000000029802322 / 0.2 - 1, rel=0.05)


def test_a_leaf_that_begins_elsewhere() -> None:
    first = viz.difference(run(), run(start=3.0)).first
    assert first is not None
    assert (first.kind, first.text, first.number) == ("leaf", "w", 0)
    assert first.a is not None and first.b is not None  # noqa: PT018
    assert (first.a.to_json()["data"], first.b.to_json()["data"]) == ([1.0, 2.0], [3.0, 2.0])
    assert first.size == pytest.approx(2 / 3)


def test_a_learning_rate_is_seen_in_the_second_pass() -> None:
    first = viz.difference(run(), run(rate=0.25)).first
    assert first is not None
    assert (first.kind, first.text, first.number) == ("leaf", "w", 1)


def test_a_gradient_that_a_hook_changes() -> None:
    result = viz.difference(run(passes=1), run(passes=1, factor=2.0))
    first = result.first
    assert first is not None
    assert (first.kind, first.text) == ("gradient", "the gradient that arrives at Mul")
    assert first.size == pytest.approx(0.5)
    text = str(result)
    assert text.startswith("Pass 1: the first difference is in the gradient that arrives at Mul at")
    assert "\n  first:  0.2" in text


def test_an_edit_adds_an_operation() -> None:
    result = viz.difference(run(), run(edited=True))
    assert [part.kind for part in result.parts] == ["operation"]
    assert result.first is not None
    assert result.first.text == "the operation: Pow in the first, Exp in the second"
    assert "in the second recording at test_viz_difference.py:" in str(result)


def test_passes_that_only_one_has() -> None:
    first = viz.difference(run(), run(passes=1)).first
    assert first is not None
    assert first.text == "the number of passes: 2 and 1"


def test_only_recordings_are_compared() -> None:
    with pytest.raises(TypeError, match=r"takes what viz\.recording gave"):
        viz.difference(torch.ones(2), run())


def test_the_page_marks_it(opened: Open) -> None:
    a = run()
    page = opened(viz.difference(a, run(rate=0.25)).page())
    assert page.inner_text(".answer.differs .matter").startswith(
        "Pass 2: the first difference of leaves: w"
    )
    page.click("#marks .chip.differs >> nth=1")
    assert page.input_value("#pass") == "1"
    assert [mark.kind for mark in a.marks] == []  # the recording is as it was
