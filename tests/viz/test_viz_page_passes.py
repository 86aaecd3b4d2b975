"""Pages of programs with several passes, as training loops have them, in a real browser."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import Any

import pytest
from _viz_browser import Open, read
from test_viz_marks import diverging

import retrograd as torch
from retrograd import viz
from retrograd.viz._story import Story


def badges(page: Any) -> dict[str, str]:
    """The operations that have a badge, and what it is about."""
    found: dict[str, str] = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll(".node .badge")].map((badge) =>
          [badge.parentElement.querySelector("text").textContent, badge.dataset.kind]))"""
    )
    return found


def test_marks_lead_to_their_pass(opened: Open) -> None:
    page = opened(viz.explore(diverging()))
    assert page.input_value("#pass") == "0"
    assert badges(page) == {}  # all is finite in the first pass
    chips = page.locator("#marks .chip")
    chips.nth(0).click()
    assert page.input_value("#pass") == "1"
    assert page.inner_text(".step-card h2") == "Log"
    assert badges(page) == {"Log": "inf", "Pow": "inf", "Abs": "nan"}
    chips.nth(3).click()
    assert page.input_value("#pass") == "2"
    assert badges(page) == {"Mul": "nan", "Pow": "nan"}
    page.select_option("#pass", "3")
    chips.nth(4).click()  # true of this pass, too
    assert page.input_value("#pass") == "3"
    assert read(page)["step"] == 2
    assert page.locator("#norms .tick.nan").count() == 1
    page.select_option("#pass", "0")
    assert badges(page) == {}
    page.click(".node:has(text:text-is('Log'))")
    assert page.locator(".step-card .chip").count() == 0


def trained() -> Story:
    """Two steps of gradient descent: w is [1, 2], then [-1, 1.5]."""
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    x, target = torch.tensor([2.0, 0.5]), torch.tensor(1.0)
    with viz.recording() as story:
        for _ in range(2):
            y = w * x
            loss = (y.sum() - target).square()
            loss.backward()
            with torch.no_grad():
                w -= 0.25 * w.grad
            w.grad = None
    return story


def picked(page: Any) -> dict[str, Any]:
    """What the card of the selected item says: its title, and the numbers under each heading."""
    found: dict[str, Any] = page.evaluate(
        """() => Object.fromEntries([["title", document.querySelector(".picked h2")?.textContent],
          ...[...document.querySelectorAll(".picked .entry")].map((entry) => [
            entry.querySelector(".which").textContent,
            [...entry.querySelectorAll("[data-value]")].map((n) => Number(n.dataset.value))])])"""
    )
    return found


def test_each_pass_has_its_forward_values(opened: Open) -> None:
    story = trained()
    items = {item["name"]: item for item in story.to_json()["graph"]["items"]}
    # What does not change is written once.
    first, second = (one["values"] for one in story.to_json()["passes"])
    assert first == {}
    assert str(items["x"]["id"]) not in second
    assert str(items["target"]["id"]) not in second
    assert second[str(items["w"]["id"])]["data"] == [-1.0, 1.5]
    page = opened(viz.explore(story))
    wanted = {"y": ([2.0, 1.0], [-2.0, 0.75]), "x": ([2.0, 0.5],) * 2, "target": ([1.0],) * 2,
              "loss": ([4.0], [5.0625])}  # fmt: skip
    for name, values in wanted.items():
        for number, value in enumerate(values):
            page.select_option("#pass", str(number))
            page.click(f".node:has(text:text-is('{name}'))")
            assert picked(page)["value in this pass"] == value, (name, number)
    page.select_option("#pass", "0")  # the card that is open changes with the pass
    assert picked(page) == {"title": "loss", "value in this pass": [4.0]}


def test_a_leaf_shows_what_it_held_at_this_point(opened: Open) -> None:
    page = opened(viz.explore(trained()))
    page.focus("#canvas")
    while picked(page)["title"] != "w":
        page.keyboard.press("n")
    value, grad = "value in this pass", ".grad at this point"
    assert picked(page) == {"title": "w", value: [1.0, 2.0], grad: []}
    assert page.inner_text(".now tr").split() == ["w", "None"]
    page.keyboard.press("End")
    assert picked(page) == {"title": "w", value: [1.0, 2.0], grad: [8.0, 2.0]}
    page.keyboard.press("ArrowLeft")
    assert picked(page) == {"title": "w", value: [1.0, 2.0], grad: []}
    page.select_option("#pass", "1")
    assert picked(page) == {"title": "w", value: [-1.0, 1.5], grad: []}
    page.keyboard.press("End")
    assert picked(page) == {"title": "w", value: [-1.0, 1.5], grad: [-9.0, -2.25]}


def test_values_of_a_pass_that_were_not_recorded_are_not_guessed() -> None:
    w = torch.tensor(0.0, requires_grad=True)
    results = [(w + number).exp() for number in range(2)]  # each node keeps its result
    with viz.recording() as story:
        for result in results:
            result.backward(retain_graph=True)
    told = story.to_json()
    (shown,) = [i for i in told["graph"]["items"] if i["value"] and i["kind"] == "intermediate"]
    assert shown["value"]["data"] == [1.0]
    assert [one["values"] for one in told["passes"]] == [{}, {str(shown["id"]): None}]


def test_a_leaf_of_a_graph_made_before_the_recording_has_the_value_of_its_pass() -> None:
    w = torch.tensor(3.0, requires_grad=True)
    y = w + 1
    with viz.recording() as story:
        y.backward()
        with torch.no_grad():
            w.fill_(7.0)
    (leaf,) = [i for i in story.to_json()["graph"]["items"] if i["kind"] == "leaf"]
    assert leaf["value"]["data"] == [3.0]


# -- passes that end in an error -----------------------------------------------------------------


def failing() -> Story:
    """A pass that fails because a value was changed after it was saved."""
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    with viz.recording() as story, pytest.raises(RuntimeError, match="inplace"):
        a = w.exp()
        loss = (a * 2).sum()
        a.add_(1)
        loss.backward()
    return story


def test_the_error_of_a_pass_is_marked_with_its_lines(opened: Open) -> None:
    told = failing().to_json()
    (record,) = told["passes"]
    (wrong,) = record["wrong"]
    file, line = wrong["place"]
    lines = told["files"][file]["lines"]
    assert lines[line - 1].strip() == "a.add_(1)"
    assert record["error"].endswith("or change a copy, x.clone().")  # with the hint
    (mark,) = told["marks"]
    assert mark["kind"] == "error"
    name = told["files"][file]["name"]
    assert mark["text"].startswith(
        "The pass ended in an error at Exp. "
        f"A saved value was changed at {name}:{line}: a.add_(1). RuntimeError: one of the variables"
    )
    page = opened(told)
    assert page.inner_text(".line.wrong code").strip() == "a.add_(1)"
    assert page.inner_text(".line.wrong .what") == "✕ changed a saved value"
    page.click("#marks .chip.error")
    assert read(page)["step"] == len(record["steps"])
    assert page.inner_text(".step-card h2") == "Exp"
    assert badges(page) == {"Exp": "error"}
    said = page.locator(".trouble p").all_inner_texts()
    assert said[0] == "An error ended the pass here."
    assert said[-2] == f"changed at {name}:{line}: a.add_(1)"
    page.click(".trouble p:nth-last-child(2) .place")
    assert page.get_attribute(".line.picked", "data-line") == str(line)


def test_a_line_of_the_user_that_raised_is_marked() -> None:
    w = torch.tensor(1.0, requires_grad=True)

    def fail(grad: torch.Tensor) -> None:
        raise ValueError("no gradient today")

    with viz.recording() as story, pytest.raises(ValueError, match="today"):
        y = w.exp()
        y.register_hook(fail)
        (y * 2).backward()
    told = story.to_json()
    (wrong,) = told["passes"][0]["wrong"]
    file, line = wrong["place"]
    assert wrong["what"] == "raised the error"
    assert "no gradient today" in told["files"][file]["lines"][line - 1]
    (mark,) = told["marks"]
    assert mark["text"] == "The pass ended in an error at Exp. ValueError: no gradient today."


def test_a_pass_without_an_error_marks_no_line(opened: Open) -> None:
    w = torch.tensor(1.0, requires_grad=True)
    loss = w.exp()
    with viz.recording() as story:
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
    told = story.to_json()
    assert [one["wrong"] for one in told["passes"]] == [[], []]
    assert told["passes"][0]["error"] is None
    (mark,) = told["marks"]
    assert mark["text"].startswith("Pass 2 ended in an error at Exp. RuntimeError: Trying to")
    page = opened(told)
    assert badges(page) == {}
    page.click("#marks .chip")
    assert page.input_value("#pass") == "1"
    assert page.locator(".line.wrong").count() == 0


def test_the_recording_does_not_keep_the_error() -> None:
    class Held:
        pass

    def fail(grad: torch.Tensor) -> None:
        held = Held()
        alive.append(weakref.ref(held))
        raise ValueError("no")

    alive: list[weakref.ref[Held]] = []
    w = torch.tensor(1.0, requires_grad=True)
    with viz.recording() as story:
        y = w.exp()
        y.register_hook(fail)
        with contextlib.suppress(ValueError):
            y.backward()
        gc.collect()
        assert alive[0]() is None
    assert story.passes[0].error is not None
