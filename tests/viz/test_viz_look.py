"""How pictures are drawn: compact, from left to right, dark."""

from __future__ import annotations

import io
import itertools
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from _viz_browser import started
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


# -- frames around Modules -----------------------------------------------------------------------


def inside(a: Any, frame: Any) -> bool:
    beside = frame.x < a.x and a.x + a.width < frame.x + frame.width
    return bool(beside and frame.y < a.y and a.y + a.height < frame.y + frame.height)


FRAMED = {"network": "model", "transformer": "layer", "deep": "model", "nested": "model"}
NESTED = """\
import retrograd as torch
from retrograd import nn

class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return x + self.second(torch.relu(self.first(x)))

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = Residual(), Residual()

    def forward(self, x):
        return self.left(x) * self.right(x)

model = nn.Sequential(Two(), nn.Linear(4, 1))
data = torch.ones(3, 4)
with viz.recording():
    loss = model(data).sum()
result = viz.draw(loss, params=model, **look)
"""


def framed(name: str, **look: Any) -> Any:
    if name != "nested":
        return drawn_as(name, frames=True, **look)
    variables: dict[str, Any] = {"look": {"frames": True, **look}, "viz": viz}
    exec(NESTED, variables)
    return variables["result"]


@pytest.mark.parametrize("look", [{}, {"compact": True, "direction": "LR"}])
@pytest.mark.parametrize("name", FRAMED)
def test_frames_contain_their_boxes_and_no_others(name: str, look: dict[str, Any]) -> None:
    drawn = framed(name, **look)
    scene, items = drawn.scene, drawn.graph.items
    assert scene.frames
    for a, b in itertools.combinations(scene.boxes, 2):
        assert is_apart(a, b)
    around = {frame.id: set(drawn.graph.views.around(frame.id)) for frame in scene.frames}
    for frame in scene.frames:
        for box in scene.boxes:
            group, members = items[box.id].group, []
            while group is not None:
                members.append(group)
                group = items[group].group
            assert inside(box, frame) if frame.id in members else is_apart(box, frame)
        for other in scene.frames:
            if other is not frame:
                nested = frame.id in around[other.id] or other.id in around[frame.id]
                assert nested or is_apart(frame, other)
                assert frame.id not in around[other.id] or inside(other, frame)
    boxes = {box.id: box for box in scene.boxes}
    for arrow in scene.arrows:
        across = look.get("direction") == "LR"
        points = [point[::-1] if across else point for point in arrow.points]
        assert all(below >= y for (_, y), (_, below) in itertools.pairwise(points))
        start, end = boxes[arrow.source], boxes[arrow.target]
        first, last = (start.x + start.width, end.x) if across else (start.y + start.height, end.y)
        assert points[0][1] == pytest.approx(first, abs=0.2)
        assert points[-1][1] == pytest.approx(last, abs=0.2)
        for (x, y), (to_x, to_y) in itertools.pairwise(arrow.points):
            for box in scene.boxes:  # straight pieces pass by
                if box not in (start, end) and (x == to_x or y == to_y):
                    beside = max(x, to_x) <= box.x or min(x, to_x) >= box.x + box.width
                    assert beside or max(y, to_y) <= box.y or min(y, to_y) >= box.y + box.height


def test_frames_show_the_same_graph() -> None:
    whole, drawn = drawn_as("transformer"), framed("transformer")

    def named(picture: Any) -> list[Any]:
        boxes = {box.id: [line.text for line in box.lines] for box in picture.scene.boxes}
        return sorted((boxes[a.source], boxes[a.target]) for a in picture.scene.arrows)

    assert named(drawn) == named(whole)
    assert drawn.dot.count("->") == whole.dot.count("->")


def test_frames_are_nested_as_modules_are() -> None:
    drawn = framed("nested")
    titles = [frame.title.text for frame in drawn.scene.frames]
    assert titles == [
        "0 · Two", "1 · Linear", "0.left · Residual", "0.right · Residual", "0.left.first · Linear",
        "0.left.second · Linear", "0.right.first · Linear", "0.right.second · Linear",
    ]  # fmt: skip
    assert set(titles) <= set(texts(drawn.svg))
    assert drawn.dot.count("subgraph cluster_") == 8
    assert drawn.dot.count("{") == drawn.dot.count("}")
    assert len(drawn.to_json()["pictures"][0]["frames"]) == 8


def test_frames_that_do_not_fit_are_groups() -> None:
    drawn = framed("nested", max_nodes=8)
    operations = [box for box in drawn.scene.boxes if box.kind in ("operation", "group")]
    assert len(operations) <= 8
    assert [frame.title.text for frame in drawn.scene.frames] == ["0 · Two", "1 · Linear"]
    assert sum(box.kind == "group" for box in drawn.scene.boxes) == 2


# -- groups that open ----------------------------------------------------------------------------


def test_every_group_is_a_link_to_what_is_inside() -> None:
    html = drawn_as("deep").html
    assert "<script" not in html
    links, sections = (
        re.findall(rf'{what}="#?group-(\d+)"', html) for what in ("<a href", "<section id")
    )
    assert len(sections) == 13  # twelve blocks, and all of them
    assert set(links) == set(sections)
    body = html.partition("</head>")[2].rpartition("</html>")[0]
    ElementTree.fromstring(body)  # well formed


def test_groups_open_and_close(tmp_path: Path) -> None:
    drawn_as("deep").save(tmp_path / "deep.html")
    for browser in started():
        page = browser.new_page()
        page.goto((tmp_path / "deep.html").as_uri())

        def headings(page: Any = page) -> list[str]:
            shown = "[...document.querySelectorAll('h2')].filter((h) => h.offsetParent)"
            return list(page.evaluate(f"{shown}.map((h) => h.textContent)"))

        assert headings() == []
        page.click("main svg a")
        assert headings() == ["1 … 12 · Block ×12"]
        page.click("section:target svg a >> nth=2")
        assert headings() == ["3 · Block"]
        page.click("section:target nav a >> nth=1")
        assert headings() == ["1 … 12 · Block ×12"]
        page.go_back()
        assert headings() == ["3 · Block"]
        page.click("section:target nav a >> nth=0")
        assert headings() == []
        page.close()
