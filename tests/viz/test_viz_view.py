"""The page, in a real browser: what is drawn of a large graph, where one is in it, what is said."""

from __future__ import annotations

import re
from typing import Any

import _viz_stories as stories
import pytest
from _viz_browser import Open, read, until

import retrograd as torch
from retrograd.viz._page import Page


def words(page: Any, selector: str) -> str:
    return re.sub(r"\s+", " ", page.inner_text(selector)).strip()


# -- what is said --------------------------------------------------------------------------------


def test_the_first_screen_says_what_to_do(opened: Open) -> None:
    page = opened(stories.small())
    said = words(page, ".welcome")
    assert "y.backward()" in said
    assert "4 steps, starting at Add" in said
    assert "A gradient says how much the result changes when a value changes slightly." in said
    assert "First step ▶ or press →" in said
    page.click(".welcome .main")
    assert read(page)["step"] == 1


def test_each_step_in_plain_words(opened: Open) -> None:
    told = stories.small()
    told["passes"][0]["steps"][3]["parts"] = told["passes"][0]["steps"][3]["parts"][:2]
    page = opened(told)
    said = []
    for _ in range(4):
        page.keyboard.press("ArrowRight")
        said.append(words(page, ".arrives .says"))
    assert said == [
        "The pass starts here, with 1: the derivative of the result with respect to itself.",
        "How much the result changes when the result of Mul changes.",
        "How much the result changes when a changes.",
        "How much the result changes when w changes. It was used 2 times; the gradients of "
        "all uses are added.",
    ]
    kept = "This is a leaf: the gradient is stored in .grad, which was empty."
    assert words(page, ".accumulates .says") == kept
    page.select_option("#pass", "1")
    page.click("#last")
    added = "The gradient is added to the previous value of .grad."
    assert words(page, ".accumulates .says") == added


def test_where_gradients_go(opened: Open) -> None:
    page = opened(stories.small())
    page.keyboard.press("ArrowRight")
    assert [words(page, f".leaves .entry >> nth={n} >> .which") for n in (0, 1)] == [
        "→ Mul, which computed a", "→ Mul",
    ]  # fmt: skip
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    nowhere = words(page, ".leaves .entry >> nth=1")
    assert nowhere == "for an input that needs no gradient: None"


def test_what_was_given_is_not_said_to_be_one(opened: Open) -> None:
    told = stories.small()
    told["passes"][0]["steps"][0]["incoming"] = [stories.value(2.0)]
    page = opened(told)
    page.keyboard.press("ArrowRight")
    given = "The pass starts here, with the gradient that you passed."
    assert words(page, ".arrives .says") == given
    for step in told["passes"][0]["steps"]:
        step["incoming"] = [stories.value(1.0, 2.0)]
    page = opened(told)
    page.keyboard.press("ArrowRight")
    assert words(page, ".arrives .says") == given
    page.keyboard.press("ArrowRight")
    assert words(page, ".arrives .says") == (
        "How much the result (weighted as given) changes when the result of Mul changes, "
        "element by element."
    )


def test_what_is_heard(opened: Open) -> None:
    page = opened(stories.small())
    heard = lambda: page.text_content("#live")
    page.keyboard.press("ArrowRight")
    assert heard() == "step 1 of 4: Add, line 5. Both get it as it is."
    page.focus("#lines")
    page.keyboard.press("ArrowDown")
    assert heard() == "line 2: w = torch.tensor(1.5, requires_grad=True), computed 1 node"
    page.focus("#canvas")
    page.keyboard.press("n")
    assert heard().endswith(", waiting")


def test_steps_that_were_not_kept_are_missed(opened: Open) -> None:
    told = stories.small()
    for step, number in zip(told["passes"][0]["steps"], (0, 1, 40, 41), strict=True):
        step["number"] = number
    page = opened(told)
    said = []
    for _ in range(4):
        page.keyboard.press("ArrowRight")
        said.append(page.locator(".lost").all_inner_texts())
    assert said == [[], [], ["38 steps before this one were not kept."], []]


def test_marks_are_told_in_full(opened: Open) -> None:
    told = stories.small()
    cut = "x, which Mul uses, was cut off from its history by detach, " + "a long way off " * 9
    told["marks"] = [
        {"kind": "detached", "item": 2, "step": None, "place": [0, 4], "text": cut},
        {"kind": "unused", "item": None, "step": None, "place": None, "text": "v is not reached"},
        {"kind": "vanishing", "item": 0, "step": [0, 3], "place": None, "text": "It is zero."},
    ]
    page = opened(told)
    assert words(page, "#marks .chip.vanishing") == "↘ vanishing w It is zero."
    page.click("#marks .chip.detached")
    assert read(page)["step"] == 3
    assert words(page, ".step-card .chip.detached").endswith(cut.strip())
    page.click("#marks .chip.unused")
    assert words(page, ".card.picked") == "× ∅ unused v is not reached"
    page.keyboard.press("Escape")
    assert page.locator(".card.picked").count() == 0
    ticks = page.locator("#norms .tick")
    assert ticks.evaluate_all("all => all.map(t => t.getAttribute('x1'))") == ["100.00"]


def test_a_histogram_of_many_entries(opened: Open) -> None:
    told = stories.small()
    many = stories.value(-1.0, 0.0, 2.0) | {"data": None, "some": [-1.0], "shape": [300]}
    told["passes"][0]["steps"][0]["incoming"] = [many | {"histogram": [3, 0, 290, 7]}]
    page = opened(told)
    page.keyboard.press("ArrowRight")
    bars = page.locator(".arrives .column")
    counts = bars.evaluate_all("all => all.map(b => Number(b.dataset.count))")
    heights = bars.evaluate_all("all => all.map(b => b.height.baseVal.value)")
    assert counts == [3, 0, 290, 7]
    assert heights == [1, 0, 34, 1]
    zero = page.locator(".arrives .zero").evaluate("l => l.x1.baseVal.value")
    assert zero == pytest.approx(4 + 192 / 3)


def test_values_are_copied_as_python(opened: Open) -> None:
    told = stories.small()
    values = [
        stories.value(0.1, -0.0, "nan", "-inf", shape=[2, 2]),
        stories.value([1.0, -2.5], dtype="complex64"),
        stories.value(1, 0, dtype="bool"),
        stories.value(shape=[0, 3]),
    ]
    for step, value in zip(told["passes"][0]["steps"], values, strict=True):
        step["incoming"], step["parts"] = [value], []
    page = opened(told, permissions=["clipboard-read", "clipboard-write"])
    copied = []
    for _ in values:
        page.keyboard.press("ArrowRight")
        page.click(".arrives button.type")
        until(page, "() => document.querySelector('.arrives .type').innerText === 'copied'")
        copied.append(page.evaluate("navigator.clipboard.readText()"))
    assert copied == [
        'torch.tensor([[0.1, -0.0], [float("nan"), float("-inf")]], dtype=torch.float32)',
        "torch.tensor(complex(1, -2.5), dtype=torch.complex64)",
        "torch.tensor([True, False], dtype=torch.bool)",
        "torch.zeros([0, 3], dtype=torch.float32)",
    ]
    made = [eval(text, {"torch": torch}) for text in copied]
    assert [list(x.shape) for x in made] == [[2, 2], [], [2], [0, 3]]
    assert str(made[0].tolist()) == "[[0.10000000149011612, -0.0], [nan, -inf]]"


# -- where one is --------------------------------------------------------------------------------


def test_a_link_leads_to_a_step(opened: Open) -> None:
    told = stories.small()
    page = opened(told, place="#pass=2&step=3")
    assert (page.input_value("#pass"), read(page)["step"]) == ("1", 3)
    inside = opened(stories.nested(27, 3), place="#pass=1&step=2&in=38")
    assert inside.locator("#crumbs .crumb").count() == 2
    assert read(inside)["step"] == 2
    for odd in ("#pass=9&step=99", "#pass=x&step=-1", "#panel", "#step=2&in=99", "#%%%"):
        page = opened(told, place=odd)
        assert read(page)["step"] == {"#pass=9&step=99": 4, "#step=2&in=99": 2}.get(odd, 0)


def test_back_and_forward(opened: Open) -> None:
    page = opened(stories.wide(40))
    at = lambda hash_: until(page, f"() => location.hash === '{hash_}'")
    step = lambda k: until(
        page, f"() => document.querySelector('.step-card').dataset.step === '{k}'"
    )
    entries = page.evaluate("history.length")
    page.keyboard.press("ArrowRight")
    at("#pass=1&step=1")
    page.keyboard.press("ArrowRight")
    at("#pass=1&step=2")
    assert page.evaluate("history.length") == entries  # single steps share an entry
    page.keyboard.press("End")
    at("#pass=1&step=40")
    page.click(".node[data-id='20']")
    at("#pass=1&step=20")
    page.go_back()
    step(40)
    page.go_back()
    step(2)
    page.go_forward()
    step(40)
    assert read(page)["count"] == "step 40 of 40"


def test_the_current_line_is_in_sight(opened: Open) -> None:
    page = opened(stories.wide(1000))
    in_sight = """() => {
        const frame = document.getElementById("lines").getBoundingClientRect();
        const line = document.querySelector(".line.current").getBoundingClientRect();
        return line.height > 0 && line.top >= frame.top && line.bottom <= frame.bottom;
    }"""
    for key in ("ArrowRight", "End", "ArrowLeft", "Home", "ArrowRight"):
        page.keyboard.press(key)
        until(page, in_sight)


# -- panes, paper, notebooks ---------------------------------------------------------------------


def width(page: Any, pane: str) -> float:
    return float(page.locator(pane).bounding_box()["width"])


def test_panes_can_be_made_wider(opened: Open) -> None:
    page = opened(stories.small())
    before = width(page, "#source-pane")
    bar = page.locator("#divider-source").bounding_box()
    page.mouse.move(bar["x"], bar["y"] + 100)
    page.mouse.down()
    page.mouse.move(bar["x"] + 80, bar["y"] + 100, steps=3)
    page.mouse.up()
    page.mouse.move(bar["x"] + 300, bar["y"] + 100)  # let go: it stays
    assert width(page, "#source-pane") == pytest.approx(before + 80, abs=1)
    page.locator("#divider-source").dblclick()
    assert width(page, "#source-pane") == pytest.approx(before, abs=1)
    step = width(page, "#panel")
    page.focus("#divider-step")
    page.keyboard.press("ArrowLeft")
    assert width(page, "#panel") == pytest.approx(step + 24, abs=1)
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    assert width(page, "#panel") == 180
    assert read(page)["step"] == 0  # the keys were for the bar


def test_on_paper(opened: Open) -> None:
    page = opened(stories.small())
    page.keyboard.press("End")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    for selector in (".pane.graph", "#panel", "#lines", ".accumulates"):
        assert page.is_visible(selector), selector
    for selector in ("#search", "#next", "#slider", ".zoom"):
        assert page.is_hidden(selector), selector
    frame = page.locator("#canvas").bounding_box()
    for box in page.locator(".node .body").all():
        place = box.bounding_box()
        assert frame["x"] <= place["x"]
        assert place["x"] + place["width"] <= frame["x"] + frame["width"]
        assert frame["y"] <= place["y"]
        assert place["y"] + place["height"] <= frame["y"] + frame["height"]
    page.emulate_media(media="screen")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.is_visible("#next")


def test_a_notebook_scrolls_past_the_graph(browser: Any) -> None:
    context = browser.new_context(viewport={"width": 1000, "height": 700})
    page = context.new_page()
    page.set_content(f"{Page(stories.wide(50))._repr_html_()}<p style='height: 3000px'>after</p>")
    frame = page.frame_locator("iframe")
    scale = lambda: frame.locator(".layer").evaluate("layer => layer.getCTM().a")
    frame.locator("html[data-ready]").wait_for(state="attached")
    before = scale()
    box = frame.locator("#canvas").bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 60)
    page.mouse.wheel(0, 100)
    until(page, "() => scrollY > 0")
    assert scale() == before
    frame.locator("#canvas").focus()
    box = frame.locator("#canvas").bounding_box()
    page.mouse.move(box["x"] + 60, max(box["y"], 0) + 60)
    page.mouse.wheel(0, -100)
    inner = page.frames[1]
    until(inner, f"() => document.querySelector('.layer').getCTM().a > {before}")
    assert inner.evaluate("location.hash") == ""
    context.close()


# -- large graphs --------------------------------------------------------------------------------


def test_a_thousand_nodes(opened: Open) -> None:
    page = opened(stories.wide(1000))
    drawn = lambda: page.locator(".node:not([hidden])").evaluate_all(
        "all => all.map(n => Number(n.dataset.id))"
    )
    assert 20 < len(drawn()) < 200  # what is in sight
    assert min(drawn()) > 800
    page.keyboard.press("End")
    assert read(page)["step"] == 1000
    assert 0 in drawn()
    assert max(drawn()) < 200
    page.keyboard.press("0")
    assert sorted(drawn()) == list(range(1000))
    states = page.locator(".node").evaluate_all("all => all.map(n => n.dataset.state)")
    assert sorted(states) == ["done"] * 999 + ["running"]
    page.keyboard.press("Home")
    states = page.locator(".node").evaluate_all("all => all.map(n => n.dataset.state)")
    assert set(states) == {"waiting"}


def test_a_step_touches_only_what_changes(opened: Open) -> None:
    page = opened(stories.wide(1000))
    page.keyboard.press("ArrowRight")
    touched = page.evaluate("""() => new Promise((done) => {
        const watch = new MutationObserver(() => {});
        const all = { attributes: true, subtree: true, childList: true };
        watch.observe(document.getElementById("canvas"), all);
        watch.observe(document.getElementById("lines"), all);
        document.getElementById("next").click();
        done(new Set(watch.takeRecords().map((record) => record.target)).size);
    })""")
    assert 0 < touched < 20


@pytest.mark.long
@pytest.mark.parametrize("nodes", [20_000, pytest.param(100_000, marks=pytest.mark.exhaustive)])
def test_many_nodes_fold(opened: Open, nodes: int) -> None:
    page = opened(stories.nested(nodes, 20))
    assert page.locator(".node").count() <= 20
    page.keyboard.press("End")
    assert read(page)["step"] == nodes
    assert page.locator(".node").first.get_attribute("data-state") == "running"
    page.keyboard.press("f")
    assert read(page)["running"] == ["0"]
    page.keyboard.press("f")
    page.fill("#search", "layer 3")
    assert page.locator("#found [role=option]").count() > 0
