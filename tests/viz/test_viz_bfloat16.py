"""bfloat16, which NumPy has no kind for, is a float to recordings and reports."""

import json
import math
from pathlib import Path
from typing import Any

from test_viz_report import data_of
from test_viz_story import document, kinds

import retrograd as torch
from retrograd import nn, viz
from retrograd.viz._values import Value


def leaf(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.bfloat16, requires_grad=True)


def test_the_summary_is_that_of_the_finite_elements() -> None:
    value = Value(leaf(1.0, 2.0, math.nan, -math.inf)._data)
    said = value.to_json()
    assert not value.finite
    assert said["data"] == [1.0, 2.0, "nan", "-inf"]
    assert (said["min"], said["max"], said["mean"], said["nan"], said["inf"]) == (1, 2, 1.5, 1, 1)
    json.dumps(said, allow_nan=False)


def test_a_large_array_has_a_histogram() -> None:
    said = Value(torch.arange(512).to(torch.bfloat16)._data).to_json()
    assert sum(said["histogram"]) == 512


def test_a_cut_is_noted() -> None:
    w, scale = leaf(1.0, 2.0), leaf(3.0, 4.0)
    with viz.recording() as story:
        with torch.no_grad():
            h = w * 2
        loss = (h * scale).sum()
        loss.backward()
    assert kinds(document(story)) == ["unused", "no_grad"]


def test_an_infinity_beyond_the_steps_that_are_kept_is_marked() -> None:
    x = leaf(0.0, 4.0)
    with viz.recording(max_steps=1) as story:
        x.sqrt().sum().backward()
    assert "passes on" in next(mark.text for mark in story.marks if mark.kind == "inf")


def test_a_report_follows_the_parameters(tmp_path: Path) -> None:
    model = nn.Linear(2, 1).to(torch.bfloat16)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 2.0]]))
        model.bias.zero_()
    report: Any = viz.Report(tmp_path / "run.html", model, every=1)
    loss = model(torch.ones(1, 2, dtype=torch.bfloat16)).square().sum()
    loss.backward()
    report.step(loss)
    report.close()
    weight, bias = data_of(tmp_path / "run.html")["parameters"]
    assert weight["norms"] == [[1, 8.4853]]  # of (6, 6)
    assert bias["norms"] == [[1, 6.0]]
