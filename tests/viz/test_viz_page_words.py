"""The words, colours and lists of the page and of pictures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import _viz_stories as stories
import pytest
from _viz_browser import Open, read

import retrograd as torch
from retrograd import nn, viz
from retrograd.viz import _colours, _facts
from retrograd.viz._scene import LEGEND
from retrograd.viz._text import bytes_text, shortened

PAGE = Path(viz.__file__).parent / "page"
COLOURS = {
    "data": "yellow", "leaf": "green", "intermediate": "brown", "operation": "blue",
    "group": "slate",
}  # fmt: skip


def test_pictures_have_the_colours_of_the_page() -> None:
    style = "".join((PAGE / f"{x}.css").read_text(encoding="utf-8") for x in ("base", "page"))
    pairs = re.findall(r"--([\w-]+): (light-dark\(.*?\))", style)
    found = dict(reversed(pairs))  # the first are those of the screen
    for kind, name in COLOURS.items():
        light, dark = _colours.LIGHT[kind], _colours.DARK[kind]
        assert found[name] == f"light-dark({light.line}, {dark.line})"
        assert found[f"{name}-wash"] == f"light-dark({light.fill}, {dark.fill})"


def test_pictures_and_the_page_have_the_same_words(opened: Open) -> None:
    page = opened(stories.small())
    words = page.locator("#legend li").all_inner_texts()
    assert words[:4] == [LEGEND[kind] for kind in ("operation", "leaf", "intermediate", "data")]
    assert words[4:] == ["waiting", "running now", "has run"]


def test_states_in_the_legend_look_as_in_the_graph(opened: Open) -> None:
    page = opened(stories.small())
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    looks = """(box) => [getComputedStyle(box).stroke, getComputedStyle(box).fill]"""
    swatch = (
        """(box) => [getComputedStyle(box).borderTopColor, getComputedStyle(box).backgroundColor]"""
    )
    for state, id_ in (("waiting", 2), ("running", 4), ("done", 5)):
        assert read(page)["step"] == 2
        node = page.locator(f".node[data-id='{id_}'] .body").evaluate(looks)
        assert page.locator(f"#legend .swatch.{state}").evaluate(swatch) == node, state


def test_the_legend_says_what_a_pass_does_not_run(opened: Open) -> None:
    w = torch.tensor(1.0, requires_grad=True)
    with viz.recording() as story:
        w.exp().backward()
        w.sin().backward()
    page = opened(viz.explore(story))
    assert page.locator("#legend li").all_inner_texts()[-1] == "not part of this pass"


def test_headings_are_nouns(opened: Open) -> None:
    page = opened(stories.small())
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    headings = [text.lower() for text in page.locator(".step-card h3").all_inner_texts()]
    assert headings == [
        "incoming gradient", "rule", "values saved in the forward pass", "outgoing gradients"
    ]  # fmt: skip
    page.keyboard.press("End")
    assert page.locator(".step-card h3").all_inner_texts()[-1].lower() == "accumulation"


@pytest.mark.parametrize("scalar", [True, False])
def test_very_many_addends_are_not_listed(opened: Open, scalar: bool) -> None:
    told = stories.small()
    part = stories.value(1.0) if scalar else stories.value(1.0, 2.0)
    last = told["passes"][0]["steps"][3]
    last["parts"] = [{"from": 2, "value": part}] * 25_001
    last["incoming"] = [stories.value(25_001.0) if scalar else stories.value(25_001.0, 50_002.0)]
    page = opened(told)
    page.keyboard.press("End")
    assert page.locator("[data-role=part]").count() == 20
    assert page.locator(".others").text_content() == "and 24,981 more"
    if not scalar:
        assert page.inner_text(".parts summary") == "the sum of 25,001 gradients"


def test_operations_that_keep_memory_can_be_told_apart(opened: Open) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2), nn.Tanh())
    with viz.recording() as story:
        y = net(torch.ones(3, 2))
        y.sum().backward()
    page = opened(viz.explore(story))
    rows = page.locator(".bars .of").all_inner_texts()
    assert len(rows) == len(set(rows)) == 4
    assert re.fullmatch(r"Addmm 2 line \d+", sorted(rows)[1]), rows


def test_tuples_do_not_look_like_shapes() -> None:
    x = torch.ones(2, 3, 4, requires_grad=True)
    assert _facts.options_of(x.sum(dim=(1, 2)).grad_fn) == ["dim=(1, 2)"]
    assert _facts.options_of(x.permute(2, 0, 1).grad_fn) == ["dims=(2, 0, 1)"]
    assert _facts.options_of(x.sum(dim=1).grad_fn) == ["dim=1"]


def run(page: Any, file: str, expression: str, given: Any) -> Any:
    """The value of an expression in ``given``, with the functions of a file of the page."""
    source = (PAGE / file).read_text(encoding="utf-8")
    return page.evaluate(f"(given) => {{ {source}\nreturn {expression}; }}", given)


def test_words_are_left_out_whole(opened: Open) -> None:
    cases = [
        ("encoder.layers.11.self_attention.in_proj_weight", 34, "encoder.layers.11…in_proj_weight"),
        ("a" * 40, 11, "aaaaa…aaaaa"),  # no words
        ("first second third fourth", 20, "first …fourth"),
    ]
    shown = run(
        opened(stories.small()), "boxes.js",
        "given.map(([text, longest]) => withoutMiddle([...text], longest).join(''))", cases,
    )  # fmt: skip
    for (text, longest, short), by_page in zip(cases, shown, strict=True):
        assert shortened(text, longest) == short
        assert by_page == short
    assert shortened("one.two") == "one.two"


def test_sizes_have_the_same_units_everywhere(opened: Open) -> None:
    counts = [0, 1, 999, 1000, 12_345, 999_499, 999_500, 3_500_000, 10**12]
    shown = run(opened(stories.small()), "values.js", "given.map(bytesText)", counts)
    assert shown == [bytes_text(count) for count in counts]
    assert shown[:4] == ["0 bytes", "1 byte", "999 bytes", "1 kB"]


def test_on_a_phone_the_worst_comes_first(opened: Open) -> None:
    w = torch.tensor([-1.0, 4.0], requires_grad=True)
    with viz.recording() as story:
        fixed = w.detach()
        (w.sqrt() * fixed).sum().backward()
    page = opened(viz.explore(story), width=390, height=800)
    first = page.locator("#marks .chip").first
    assert first.get_attribute("class") == "chip nan"
    box = first.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + 40 < 390
