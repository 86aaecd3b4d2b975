"""The report of a training run: its numbers, the cause of the first NaN, the file, and the page."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from _viz_browser import Open

import retrograd as torch
from retrograd import nn, viz
from retrograd.utils.checkpoint import checkpoint
from retrograd.viz import _report


def data_of(path: Path) -> dict[str, Any]:
    """What a file shows."""
    text = path.read_text(encoding="utf-8")
    match = re.search(r'id="data">(.*?)</script>', text, re.S)
    assert match is not None
    found: dict[str, Any] = json.loads(match[1])
    return found


def train(report: Any, model: nn.Module, steps: int, bad: int | None = None) -> list[float]:
    """Some steps of plain gradient descent; from step ``bad`` on, the slope of the loss is
    infinite."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        error = model(torch.ones(2, 3)) * (0.0 if bad is not None and step >= bad else 1.0)
        loss = error.square().sum().sqrt()
        loss.backward()
        optimizer.step()
        report.step(loss, double=2 * loss.item())
        losses.append(loss.item())
    return losses


def test_its_numbers_are_those_of_the_run(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    report = viz.Report(tmp_path / "run.html", model, every=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses, norms, ratios = [], [], {}
    for step in range(1, 6):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 3)).square().sum()
        loss.backward()
        losses.append(loss.item())
        norms.append(math.hypot(model.weight.grad.norm().item(), model.bias.grad.norm().item()))
        before = model.weight.detach().clone()
        optimizer.step()
        ratios[step] = ((model.weight - before).norm() / before.norm()).item()
        report.step(loss)
    report.close()
    told = data_of(tmp_path / "run.html")
    assert told["done"]
    assert told["curves"]["loss"] == {"x": [1, 2, 3, 4, 5], "y": pytest.approx(losses, rel=1e-4)}
    assert told["curves"]["gradient norm"]["y"] == pytest.approx(norms, rel=1e-4)
    weight, bias = told["parameters"]
    assert (weight["name"], weight["shape"], bias["name"]) == ("weight", [1, 3], "bias")
    assert [step for step, _ in weight["norms"]] == [1, 2, 4]
    assert weight["ratios"] == [[s, pytest.approx(ratios[s], rel=1e-4)] for s in (2, 4)]
    assert sum(weight["weights"]["counts"]) == 3
    assert sum(weight["gradient"]["counts"]) == 3


def test_the_first_nan_has_its_cause_and_the_page_of_its_pass(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    report = viz.Report(tmp_path / "run.html", model)
    train(report, model, 6, bad=4)
    report.close()
    told = data_of(tmp_path / "run.html")
    (mark,) = [mark for mark in told["marks"] if mark["kind"] == "nan"]
    assert mark["text"] == "Step 4: the gradient of weight and bias is not finite."
    assert "a gradient that Sqrt passes on, at test_viz_report.py:" in mark["why"][0]
    assert mark["why"][1:] == [
        "The derivative of sqrt is infinite at 0.",
        "What to do: add a small number first: (x + 1e-12).sqrt().",
    ]
    assert mark["page"] == "run-step-4.html"
    assert '"SqrtBackward0"' in (tmp_path / mark["page"]).read_text(encoding="utf-8")
    assert told["curves"]["loss"]["y"][4:] == [None, None]


@pytest.mark.parametrize("causes", [True, False])
def test_a_nan_in_a_checkpoint_is_marked_too(tmp_path: Path, causes: bool) -> None:
    model = nn.Linear(3, 1)
    report = viz.Report(tmp_path / "run.html", model, every=1, causes=causes)
    for scale in (1.0, 0.0, 0.0):
        model.zero_grad()
        x = torch.ones(2, 3, requires_grad=True)
        out = checkpoint(lambda x, scale=scale: model(x) * scale, x, use_reentrant=False)
        loss = out.square().sum().sqrt()
        loss.backward()
        report.step(loss)
    report.close()
    found = [mark for mark in data_of(tmp_path / "run.html")["marks"] if mark["kind"] == "nan"]
    assert [mark["text"] for mark in found] == [
        "Step 2: the gradient of weight and bias is not finite."
    ]
    assert "set_detect_anomaly" in found[0]["why"][0]


def test_training_is_the_same_with_a_report_and_graphs_are_freed(tmp_path: Path) -> None:
    results = []
    for reported in (True, False):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        report = viz.Report(tmp_path / "run.html", model, passes=[2]) if reported else Nothing()
        losses = train(report, model, 5)
        results.append((losses, [p.tolist() for p in model.parameters()]))
        loss = model(torch.ones(2, 3)).sum()
        loss.backward()
        with pytest.raises(RuntimeError, match="a second time"):
            loss.backward()
        report.close()
    assert results[0] == results[1]
    assert (tmp_path / "run-step-2.html").exists()


class Nothing:
    """In place of a report."""

    def step(self, *given: Any, **named: Any) -> None: ...

    def close(self) -> None: ...


def test_the_file_is_whole_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_report, "SECONDS", 0.0)
    monkeypatch.setattr(_report, "SHARE", 0)
    path = tmp_path / "run.html"
    model = nn.Linear(3, 1)
    report = viz.Report(path, model)
    assert data_of(path)["step"] == 0
    for step in range(1, 4):
        train(report, model, 1)
        told = data_of(path)
        assert (told["step"], told["done"]) == (step, False)
    assert [file.name for file in tmp_path.iterdir()] == ["run.html"]
    report.close()
    assert data_of(path)["done"]


def test_long_runs_stay_small(tmp_path: Path) -> None:
    report = viz.Report(tmp_path / "run.html", {"w": torch.ones(2, requires_grad=True)}, every=1)
    w = report._samples[0].tensor
    for step in range(1, 3001):
        w.grad = torch.full((2,), float(step))
        report.step(float(step))
    report.close()
    told = data_of(tmp_path / "run.html")
    curve = told["curves"]["loss"]
    assert 500 <= len(curve["x"]) <= 1000
    assert sum(curve["y"]) / len(curve["y"]) == pytest.approx(1500.5, rel=0.01)  # means of all
    assert len(told["parameters"][0]["norms"]) < 100


def test_an_observer_around_it_is_told_too(tmp_path: Path) -> None:
    model = nn.Linear(3, 1)
    with viz.recording() as story, viz.Report(tmp_path / "run.html", model) as report:
        train(report, model, 2)
    assert len(story.passes) == 2


def test_the_page_shows_it(tmp_path: Path, opened: Open) -> None:
    torch.manual_seed(0)
    model = nn.ModuleDict({"used": nn.Linear(3, 1), "spare": nn.Linear(1, 1)})
    with viz.Report(tmp_path / "run.html", model, title="A <run>") as report:
        train_two(report, model)
    page = opened((tmp_path / "run.html").as_uri())
    assert page.title() == "A <run>"
    assert page.inner_text("#state").startswith("ended · 12 steps in ")
    marks = page.locator(".mark .matter").all_inner_texts()
    assert marks[0] == "Step 12: the gradient of used.weight and used.bias is not finite."
    assert "spare.weight and spare.bias get no gradient: no backward pass reaches them." in marks
    assert page.get_attribute(".mark a", "href") == "run-step-12.html"
    curves = page.locator(".chart").evaluate_all("(charts) => charts.map((c) => c.dataset.curve)")
    assert curves == ["loss", "gradient norm", "double"]
    rows = page.locator("[data-parameter='used.weight'] .n").all_inner_texts()
    assert len(rows) == 2  # weights and gradients have no finite element left to count
    assert page.locator(".chart .line").count() == 3
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def train_two(report: Any, model: Any) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1, 13):
        optimizer.zero_grad()
        loss = (model["used"](torch.ones(2, 3)) * (step < 12)).square().sum().sqrt()
        loss.backward()
        optimizer.step()
        report.step(loss, double=2 * loss.item())
