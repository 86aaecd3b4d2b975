"""How pictures are drawn: compact, from left to right, dark."""

from __future__ import annotations

import io
import itertools
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from _viz_graphs import NAMES, drawn_as

import retrograd as rg
from retrograd import viz
from retrograd.viz._colours import DARK, LIGHT, PAPER

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [t.text or "" for t in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def is_apart(a: Any, b: Any) -> bool:
    beside = a.x + a.width <= b.x or b.x + b.width <= a.x
    return bool(beside or a.y + a.height <= b.y or b.y + b.height <= a.y)


# -- compact -------------------------------------------------------------------------------------


def test_compact_pictures_have_no_boxes_for_results() -> None:
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    h = (x * 3).exp()
    loss = h.sum()
    drawn = viz.draw(loss, compact=True, show="values")
    assert [box.kind for box in drawn.scene.boxes] == [
        "leaf",
        "operation",
        "operation",
        "operation",
    ]
    said = {box.lines[0].text: [line.text for line in box.lines[1:]] for box in drawn.scene.boxes}
    assert said["Mul"] == ["other=3", "[2] float32"]
    assert said["Exp"] == ["h: [2] float32", "= [20.09, 403.4]"]
    assert said["Sum"] == ["loss: scalar float32", "= 423.5"]
    names = {box.id: box.lines[0].text for box in drawn.scene.boxes}
    edges = [(names[a.source], names[a.target]) for a in drawn.scene.arrows]
    assert edges == [("x", "Mul"), ("Mul", "Exp"), ("Exp", "Sum")]
    assert [box.root for box in drawn.scene.boxes] == [False, False, False, True]
    assert drawn.dot.count("->") == 3
    assert "intermediate" not in drawn.svg.partition("</style>")[2]


def test_compact_pictures_keep_all_paths() -> None:
    for name in ("recurrent", "transformer", "deep"):
        whole, compact = drawn_as(name), drawn_as(name, compact=True)
        maker = {
            b: a for a, b in whole.graph.views.pairs[None]
            if whole.graph.items[b].kind == "intermediate"
        }  # fmt: skip
        wanted = [(maker.get(a, a), b) for a, b in whole.graph.views.pairs[None] if b not in maker]
        assert sorted((a.source, a.target) for a in compact.scene.arrows) == sorted(wanted)


def test_a_result_outside_of_a_group_stays_a_box() -> None:
    drawn = drawn_as("deep", compact=True)
    inside = drawn.to_json()["pictures"][1]
    kinds = {drawn.graph.items[int(n)].kind for n in inside["boxes"]}
    stubs = {drawn.graph.items[n].kind for n in inside["stubs"]}
    assert kinds == {"group", "intermediate"}
    assert stubs == {"intermediate"}
    assert len(inside["edges"]) == 13  # from one block to the next, in and out


# -- from left to right --------------------------------------------------------------------------


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_data_flows_to_the_right(name: str, compact: bool) -> None:
    scene = drawn_as(name, direction="LR", compact=compact).scene
    for a, b in itertools.combinations([*scene.boxes, *scene.legend], 2):
        assert is_apart(a, b)
    boxes = {box.id: box for box in scene.boxes}
    for box in scene.boxes:
        assert min(box.x, box.y) >= 0
        assert box.x + box.width <= scene.width
        assert box.y + box.height <= scene.height
    for arrow in scene.arrows:
        start, end = boxes[arrow.source], boxes[arrow.target]
        assert arrow.points[0][0] == pytest.approx(start.x + start.width, abs=0.2)
        assert arrow.points[-1][0] == pytest.approx(end.x, abs=0.2)
        assert start.y < arrow.points[0][1] < start.y + start.height
        assert end.y < arrow.points[-1][1] < end.y + end.height
        for (x, y), (to_x, to_y) in itertools.pairwise(arrow.points):
            assert to_x >= x
            for box in scene.boxes:
                if y == to_y and box not in (start, end):
                    past = y <= box.y or y >= box.y + box.height
                    assert past or to_x <= box.x or x >= box.x + box.width


def test_arrows_point_to_the_right() -> None:
    x = rg.ones(2, requires_grad=True)
    drawn = viz.draw(x.exp(), direction="LR")
    paths = [p.get("d") or "" for p in ElementTree.fromstring(drawn.svg).iter(f"{SVG}path")]
    assert re.fullmatch(r"M[\d.]+,([\d.]+)H[\d.]+", paths[0])
    assert paths[1].endswith("l-7,-3.5v7z")
    assert "rankdir=LR;" in drawn.dot


# -- light and dark ------------------------------------------------------------------------------


def test_themes() -> None:
    x = rg.ones(2, requires_grad=True)
    y = x.exp()
    auto, light, dark = (viz.draw(y, theme=theme) for theme in ("auto", "light", "dark"))
    assert "prefers-color-scheme" in auto.svg
    for drawn, palette in ((light, LIGHT), (dark, DARK)):
        theme = drawn.look.theme
        assert "prefers-color-scheme" not in drawn.svg
        assert f'fill="{PAPER[theme]}"' in drawn.svg
        used = set(re.findall(r"#[0-9a-f]{6}", drawn.svg))
        assert set(palette["leaf"]) | set(palette["operation"]) <= used


def test_a_png_can_be_dark() -> None:
    pytest.importorskip("matplotlib")
    image = pytest.importorskip("PIL.Image")
    x = rg.ones(2, requires_grad=True)
    for theme, paper in (("auto", "light"), ("light", "light"), ("dark", "dark")):
        corner = image.open(io.BytesIO(viz.draw(x.exp(), theme=theme).png)).convert("RGB")
        assert "#{:02x}{:02x}{:02x}".format(*corner.getpixel((0, 0))) == PAPER[paper]


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"direction": "up"}, "direction must be one of 'TB', 'LR', but is 'up'"),
        ({"theme": "black"}, "theme must be one of 'auto', 'light', 'dark', but is 'black'"),
    ],
)
def test_mistakes_are_named(how: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        viz.draw(rg.ones(2, requires_grad=True), **how)


def test_all_looks_of_all_formats(tmp_path: Path) -> None:
    for ending in ("svg", "png", "dot", "html", "json"):
        for name in ("note4-product", "program"):
            drawn = drawn_as(name, compact=True, direction="LR", theme="dark")
            drawn.save(tmp_path / f"x.{ending}")
            assert (tmp_path / f"x.{ending}").stat().st_size > 100
