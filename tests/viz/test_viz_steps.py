"""The steps of a backward pass as pictures: an animated SVG, or a PNG for each."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from _viz_browser import started

import retrograd as rg
from retrograd import nn, viz
from retrograd.viz._colours import ACCENT
from retrograd.viz._steps import animated, moments, scene_from

SVG = "{http://www.w3.org/2000/svg}"


def explored() -> Any:
    model = nn.Linear(2, 1)
    data = rg.ones(3, 2)
    loss = model(data).square().mean()
    return viz.explore(loss, params=model, title="A small loss")


def test_each_step_has_its_box_its_edges_and_its_words() -> None:
    page = explored()
    scene = scene_from(page.story, "auto")
    steps = moments(page.story, 0, scene)
    kinds = {box.id: (box.kind, box.lines[0].text) for box in scene.boxes}
    shown = [kinds[step.box] for step in steps if step.box is not None]
    assert shown == [
        ("operation", "Mean"), ("operation", "Pow"), ("operation", "Addmm"), ("leaf", "bias"),
        ("operation", "T"), ("leaf", "weight"),
    ]  # fmt: skip
    assert steps[0].caption == "1 of 6 · MeanBackward0 · gradient 1"
    assert re.fullmatch(r"4 of 6 · bias\.grad · gradient \[.+\]", steps[3].caption)
    # The gradient goes to the bias and to the transposed weight, not to the data.
    sources = [scene.arrows[n].source for n in steps[2].arrows]
    assert [kinds[n] for n in sources] == [("leaf", "bias"), ("intermediate", "[2, 1] float32")]
    assert steps[3].arrows == []


def opacities(element: Any, at: float) -> float:
    """The opacity that an element of an animation has at a time, as a part of the whole."""
    animate = element.find(f"{SVG}animate")
    if animate is None:
        return 1.0
    times = [float(t) for t in animate.get("keyTimes").split(";")]
    values = [float(v) for v in animate.get("values").split(";")]
    assert times[0] == 0
    assert times == sorted(set(times))
    assert len(times) == len(values)
    return [value for time, value in zip(times, values, strict=True) if time <= at][-1]


def test_an_animation_shows_one_step_at_a_time() -> None:
    page = explored()
    scene = scene_from(page.story, "auto")
    steps = moments(page.story, 0, scene)
    root = ElementTree.fromstring(animated(scene, steps, 2.0))
    groups = root.findall(f"{SVG}g")
    captions = [g for g in groups if g.find(f"{SVG}animate") is not None and ACCENT in strokes(g)]
    assert len(captions) == len(steps)
    boxes = [g for g in groups if g.find(f"{SVG}rect[@class='shape']") is not None]
    assert {g.find(f"{SVG}animate").get("dur") for g in captions} == {"14s"}
    for k, step in enumerate(steps):
        at = (k + 0.5) / 7
        assert [opacities(g, at) for g in captions] == [float(n == k) for n in range(len(steps))]
        assert captions[k].findtext(f"{SVG}text") == step.caption
        pale = sum(opacities(g, at) < 1 for g in boxes)
        assert pale == [8, 6, 4, 3, 1, 0][k]
    assert opacities(captions[-1], 0.999) == 1.0  # the last one stays


def strokes(element: Any) -> list[str | None]:
    return [part.get("stroke") for part in element]


def test_one_file_or_one_for_each_step(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    page = explored()
    assert page.save_steps(tmp_path / "pass.svg", seconds=0.5) == [str(tmp_path / "pass.svg")]
    ElementTree.fromstring((tmp_path / "pass.svg").read_text(encoding="utf-8"))
    files = page.save_steps(tmp_path / "pass.png", theme="dark")
    assert [Path(file).name for file in files] == [f"pass-{k}.png" for k in range(1, 7)]
    pictures = [image.open(io.BytesIO(Path(file).read_bytes())).convert("RGB") for file in files]
    assert len({picture.size for picture in pictures}) == 1
    assert len({picture.tobytes() for picture in pictures}) == 6
    accent = tuple(int(ACCENT[k : k + 2], 16) for k in (1, 3, 5))
    for picture in pictures:
        assert accent in {colour for _, colour in picture.getcolors(1 << 20)}


def test_steps_in_folded_groups_are_in_the_box_of_the_group() -> None:
    x = rg.ones(2, requires_grad=True)
    y = x
    for _ in range(100):
        y = (y * 2).sin()
    page = viz.explore(y.sum())
    scene = scene_from(page.story, "light")
    steps = moments(page.story, 0, scene)
    assert len(steps) == 202
    groups = [box.id for box in scene.boxes if box.kind == "group"]
    assert groups
    assert sum(step.box in groups for step in steps) > 100
    assert all(step.box is not None for step in steps)


def test_mistakes_are_named(tmp_path: Path) -> None:
    page = explored()
    with pytest.raises(ValueError, match="there is no pass 2: the page has 1, counted from 1"):
        page.save_steps(tmp_path / "x.svg", 2)
    with pytest.raises(ValueError, match=r"give a name in \.svg or \.png"):
        page.save_steps(tmp_path / "x.gif")
    with pytest.raises(ValueError, match="theme must be one of"):
        page.save_steps(tmp_path / "x.svg", theme="pink")
    assert list(tmp_path.iterdir()) == []


def test_a_page_in_a_document_has_no_more_than_graph_step_and_buttons(tmp_path: Path) -> None:
    explored().save(tmp_path / "page.html")
    frame = '<iframe src="page.html?embed#step=3" width="800" height="400"></iframe>'
    (tmp_path / "document.html").write_text(frame, encoding="utf-8")
    shown = """() => ["title", "search", "lines", "legend", "canvas", "panel", "slider", "count"]
      .filter((name) => document.getElementById(name).offsetParent)"""
    for browser in started():
        page = browser.new_page()
        page.goto((tmp_path / "document.html").as_uri())
        inside = page.frames[1]
        inside.wait_for_selector("html[data-ready]", state="attached")
        assert inside.evaluate(shown) == ["canvas", "panel", "slider", "count"]
        assert inside.text_content("#count") == "step 3 of 6"  # as its address says
        inside.click("#next")
        assert inside.text_content("#count") == "step 4 of 6"
        page.goto((tmp_path / "page.html").as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        assert len(page.evaluate(shown)) == 8
        page.close()
