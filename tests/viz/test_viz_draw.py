"""Pictures of graphs: what is in them, that they can be read, and that drawing changes nothing.

The graphs of the notes and of small networks are kept in ``tests/golden``, structure only; after a
change that is meant, ``python tests/_viz_graphs.py`` writes them, and ``docs/pictures``, anew.
"""

from __future__ import annotations

import gc
import itertools
import json
import re
import subprocess
import sys
import weakref
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from _viz_graphs import (
    GOLDEN,
    IN_DOCUMENTS,
    LOOKS,
    NAMES,
    PICTURES,
    WITHOUT_VALUES,
    drawn_as,
    picture,
    run,
    source_of,
    structure,
)

import retrograd as rg
from retrograd import nn, viz
from retrograd.viz._facts import label_of
from retrograd.viz._model import Graph
from retrograd.viz._scene import scene_of

pytest.importorskip("matplotlib", reason="pictures need the extra viz")
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [t.text or "" for t in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def leaf(*shape: int) -> Any:
    return rg.ones(*shape, requires_grad=True)


# -- the graphs of the notes ---------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_structure_is_as_it_was(name: str) -> None:
    drawn = picture(name)
    assert structure(drawn) == (GOLDEN / f"{name}.json").read_text(encoding="utf-8")
    if name in WITHOUT_VALUES:
        assert drawn.dot == (GOLDEN / f"{name}.dot").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", IN_DOCUMENTS)
def test_pictures_in_documents_show_what_is_drawn_now(name: str) -> None:
    kept = (PICTURES / f"{name}.svg").read_text(encoding="utf-8")
    assert Counter(texts(kept)) == Counter(texts(picture(name).svg))


@pytest.mark.parametrize("name", LOOKS)
def test_other_looks_in_documents_are_drawn_now(name: str) -> None:
    of, look = LOOKS[name]
    kept = (PICTURES / f"{name}.svg").read_text(encoding="utf-8")
    assert Counter(texts(kept)) == Counter(texts(drawn_as(of, **look).svg))


def torch_graph(roots: list[Any]) -> Counter[Any]:
    """Operations and leaves of a graph of PyTorch, with what each leads to."""
    found: Counter[Any] = Counter()
    todo = [r.grad_fn for r in roots if r.grad_fn is not None]
    seen = set(todo)

    def short(node: Any) -> str:
        name = type(node).__name__
        return "leaf" if name == "AccumulateGrad" else re.sub(r"Backwards?\d*$", "", name)

    while todo:
        node = todo.pop()
        inputs = [n for n, _ in node.next_functions if n is not None]
        if short(node) != "leaf":
            found[short(node), tuple(sorted(map(short, inputs)))] += 1
        new = [n for n in dict.fromkeys(inputs) if n not in seen]
        seen.update(new)
        todo += new
    return found


def drawn_graph(graph: Graph) -> Counter[Any]:
    """The same, read off the items and edges."""
    makers = {b: a for a, b in graph.edges if graph.items[b].kind == "intermediate"}
    found: Counter[Any] = Counter()
    for item in graph.items:
        if item.kind != "operation":
            continue
        inputs = [a for a, b in graph.edges if b == item.id and graph.items[a].kind != "data"]
        labels = [graph.items[makers.get(a, a)].label for a in inputs]
        found[item.label, tuple(sorted(labels))] += 1
    return found


# Not where the graph need not be PyTorch's: those of gradients, and what PyTorch fuses otherwise.
OTHERWISE = ("note4-orders", "note4-second", "recurrent", "transformer")


@pytest.mark.parametrize("name", [n for n in WITHOUT_VALUES if n not in (*OTHERWISE, "deep")])
def test_operations_and_edges_are_pytorchs(name: str, torch: Any) -> None:
    _, what, _ = source_of(name)
    variables = run(name, replace="torch")
    roots = eval(what, variables)
    expected = torch_graph(roots if isinstance(roots, list) else [roots])
    assert drawn_graph(picture(name).graph) == expected


def test_every_tensor_stands_between_operations() -> None:
    for name in ("network", "recurrent", "note4-circuit"):
        graph = picture(name).graph
        for a, b in graph.edges:
            kinds = {graph.items[a].kind, graph.items[b].kind}
            assert len(kinds & {"operation"}) == 1
            assert len(kinds & {"leaf", "data", "intermediate"}) == 1


def test_colours_are_those_of_the_note() -> None:
    root = ElementTree.fromstring(picture("network").svg)
    fills = {
        group.get("class"): rect.get("fill")
        for group in root.iter(f"{SVG}g")
        for rect in group.iter(f"{SVG}rect")
    }

    def hue(kind: str) -> tuple[int, int, int]:
        colour = fills[kind] or ""
        return tuple(int(colour[k : k + 2], 16) for k in (1, 3, 5))  # type: ignore[return-value]

    red, green, blue = hue("operation")
    assert blue > green > red
    red, green, blue = hue("leaf")
    assert green == max(red, green, blue)
    red, green, blue = hue("data")
    assert min(red, green) - blue > 40  # yellow
    red, green, blue = hue("intermediate")
    assert red > green > blue  # brown
    assert {"data", "leaf", "result", "operation"} <= set(texts(picture("network").svg))


# -- names, shapes, values -----------------------------------------------------------------------


def test_names_come_from_variables_and_from_assignments() -> None:
    weight = leaf(3, 2)
    data = rg.ones(4, 3)

    def inner() -> Any:
        product = data @ weight
        return product.tanh()

    out = inner().sum()
    items = viz.draw(out).graph.items
    by_name = {i.name: (i.kind, i.shape) for i in items if i.name}
    assert by_name == {
        "weight": ("leaf", (3, 2)),
        "data": ("data", (4, 3)),
        "product": ("intermediate", (4, 2)),
        "out": ("intermediate", ()),
    }


def test_a_call_of_several_operations_has_one_result() -> None:
    data = rg.ones(4, 3)
    logits = nn.functional.linear(data, leaf(2, 3), leaf(2))  # a transpose, then a product
    assert [i.name for i in viz.draw(logits).graph.items if i.kind == "intermediate"] == [
        None,
        "logits",
    ]


@pytest.mark.parametrize("how", ["module", "dict", "pairs"])
def test_params_give_names(how: str) -> None:
    model = nn.Linear(3, 2)
    params = {
        "module": model,
        "dict": dict(model.named_parameters()),
        "pairs": model.named_parameters(),
    }[how]
    graph = Graph.of(model(rg.ones(1, 3)).sum(), params=params)
    assert sorted(i.name for i in graph.items if i.kind == "leaf") == ["bias", "weight"]


def test_params_that_are_none_are_refused() -> None:
    x = leaf(2)
    with pytest.raises(TypeError, match="pairs of a name and a tensor"):
        viz.draw(x.sum(), params=[x])


def test_what_boxes_show() -> None:
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    total = y.sum()
    before = viz.draw(total, show=("values", "saved", "source"))
    assert "= [1, 2]" in texts(before.svg)
    assert "= 10.11" in texts(before.svg)
    assert "saves result: 8 bytes" in texts(before.svg)
    assert "y = x.exp()" in texts(before.svg)
    assert not any(t.startswith("grad") for t in texts(before.svg))
    total.backward()
    after = texts(viz.draw(total, show=("gradients", "saved")).svg)
    assert "grad [2.718, 7.389]" in after
    assert "saved values freed" in after


def test_retained_gradients_are_shown() -> None:
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.retain_grad()
    y.sum().backward()
    assert "grad [1, 1]" in texts(viz.draw(y.exp(), show="gradients").svg)


@pytest.mark.parametrize("operation", ["tanh", "exp", "neg", "sqrt", "sigmoid", "relu"])
def test_shapes_pass_through_elementwise_operations(operation: str) -> None:
    x = leaf(2, 5)
    y = getattr(getattr(x, operation)() + 1, operation)() * 2
    shapes = [i.shape for i in Graph.of(y.sum()).items if i.kind == "intermediate"]
    assert shapes == [(2, 5)] * 4 + [()]


def test_shapes_are_those_of_the_results() -> None:
    a, b = leaf(4, 1), leaf(3)
    products = a * b
    row = b.reshape(1, 3)
    sums = products + row
    tall = (sums @ leaf(3, 2)).t()
    total = tall.sum(1)
    found = {i.name: i.shape for i in viz.draw(total).graph.items if i.name}
    tensors = {"a": a, "b": b, "products": products, "row": row, "sums": sums, "tall": tall}
    assert found == {name: tuple(t.shape) for name, t in {**tensors, "total": total}.items()}


# -- all kinds of graphs -------------------------------------------------------------------------


class Twice(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, factor: Any) -> Any:
        ctx.save_for_backward(factor)
        return x * factor, x + factor

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any) -> Any:
        (factor,) = ctx.saved_tensors
        return first * factor + second, None


def written_view() -> Any:
    base = leaf(4).clone()
    base[1:3].mul_(3.0)
    return base.sum()


def freed() -> Any:
    loss = (leaf(2).exp() * rg.ones(2)).sum()
    loss.backward()
    return loss


def twice_differentiated() -> Any:
    x = leaf(2)
    (slope,) = rg.autograd.grad((x**3).sum(), x, create_graph=True)
    return slope


KINDS: dict[str, tuple[Any, list[str]]] = {
    "several outputs": (lambda: sum(leaf(4).chunk(2)), ["Split", "Add", "Add"]),
    "custom": (lambda: Twice.apply(leaf(2), rg.ones(2))[1].sum(), ["Twice", "Sum"]),
    "view": (written_view, ["Clone", "CopySlices", "Sum"]),
    "in place": (lambda: leaf(2).clone().sin_().add_(1), ["Clone", "Sin", "Add"]),
    "complex": (lambda: leaf(2).to(rg.complex64).abs(), ["ToCopy", "Abs"]),
    "several roots": (lambda: [leaf(2).sin(), leaf(3).cos()], ["Sin", "Cos"]),
    "leaf": (lambda: leaf(2), []),
    "constant": (lambda: rg.ones(2), []),
    "mixed": (lambda: [rg.ones(2), leaf(2), leaf(2).exp()], ["Exp"]),
    "freed": (freed, ["Exp", "Mul", "Sum"]),
    "graph of a graph": (twice_differentiated, ["Pow", "Mul", "Mul"]),
    "edge": (lambda: rg.autograd.graph.get_gradient_edge(leaf(2).exp()), ["Exp"]),
    "empty": (lambda: rg.zeros(0, 3, requires_grad=True).sum(), ["Sum"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_graph_is_drawn(kind: str, tmp_path: Path) -> None:
    make, expected = KINDS[kind]
    drawn = viz.draw(make(), show=("values", "gradients", "saved", "source"))
    assert [i.label for i in drawn.graph.items if i.kind == "operation"] == expected
    assert any(i.root for i in drawn.graph.items)
    for ending in ("svg", "png", "dot", "html", "json"):
        drawn.save(tmp_path / f"x.{ending}")
        assert (tmp_path / f"x.{ending}").stat().st_size > 100
    assert (tmp_path / "x.png").read_bytes()[:4] == b"\x89PNG"


def test_several_outputs_are_several_results() -> None:
    first, second = leaf(4).chunk(2)
    graph = viz.draw(first * second).graph
    names = [i.name for i in graph.items if i.kind == "intermediate"]
    assert names == ["first", "second", None]
    split = next(i.id for i in graph.items if i.label == "Split")
    assert sum(a == split for a, _ in graph.edges) == 2


def test_a_value_used_twice_has_two_edges() -> None:
    x = leaf(2)
    graph = Graph.of(x * x)
    assert graph.edges == [(0, 1), (0, 1), (1, 2)]


def test_item_of_every_node() -> None:
    x = leaf(2)
    y = (x * x).exp().sum()
    graph = Graph.of(y)
    todo = [y.grad_fn]
    while todo:
        node = todo.pop()
        item = graph.items[graph.item_of(node)]
        assert item.label == ("leaf" if hasattr(node, "variable") else label_of(node))
        todo += [n for n, _ in node.next_functions if n is not None]
    with pytest.raises(KeyError):
        graph.item_of(x.sin().grad_fn)


# -- nothing is changed --------------------------------------------------------------------------


def test_drawing_changes_nothing() -> None:
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    calls: list[Any] = []
    x.register_hook(calls.append)
    base = x.clone()
    base[0] = 3.0
    y = (base * rg.ones(2)).exp().sum()
    nodes = Graph.of(y).nodes
    state = [(n, n.extras, n.saved, n.next_nodes) for n in nodes]
    viz.draw(y, show=("values", "gradients", "saved", "source")).to_json()
    for node, extras, saved, following in state:
        assert node.extras is extras
        assert node.saved is saved
        assert node.next_nodes is following
    assert x.grad is None
    assert not calls
    y.backward()
    assert x.grad.tolist() == pytest.approx([0.0, 2.718281828**2])


def test_a_picture_keeps_no_graph_alive() -> None:
    y = leaf(2).exp().sum()
    node = weakref.ref(y.grad_fn)
    drawn = viz.draw(y)
    drawn.svg
    del y
    gc.collect()
    assert node() is None
    assert "Exp" in drawn.dot  # and can still be written


def test_the_package_does_not_load_pictures() -> None:
    code = "import sys, retrograd; print([m for m in sys.modules if 'viz' in m])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout == "[]\n", result.stderr


# -- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "kind", "says"),
    [
        (lambda: viz.draw(3.0), TypeError, "expected a Tensor, but got a float"),
        (lambda: viz.draw([]), ValueError, "nothing to draw"),
        (lambda: viz.draw([leaf(1), "x"]), TypeError, "got a str among them"),
        (lambda: viz.draw(leaf(1), show="colour"), ValueError, "cannot show 'colour'"),
        (lambda: viz.draw(leaf(1), max_nodes=0), ValueError, "at least 2"),
        (lambda: viz.nothing, AttributeError, "no attribute 'nothing'"),
    ],
)
def test_mistakes_are_explained(make: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        make()


def test_unknown_endings_are_refused_in_one_line(tmp_path: Path) -> None:
    drawn = viz.draw(leaf(1))
    for name in ("x.bmp", "x", "svg"):
        with pytest.raises(ValueError, match=r"one of \.svg, \.png") as caught:
            drawn.save(tmp_path / name)
        assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_saving_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "graph.svg"
    path.write_text("old")
    drawn = viz.draw(leaf(1))

    def fail(file: Any, data: Any) -> None:
        file.write(data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("retrograd.files._atomic.write_all", fail)
    with pytest.raises(OSError, match="what was there before is unchanged"):
        drawn.save(path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["graph.svg"]


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    drawn = viz.draw(leaf(7) * 3)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=re.escape('pip install "retrograd[viz]"')):
        drawn.save(tmp_path / "x.png")
    for ending in ("svg", "html", "dot", "json"):  # which need nothing
        drawn.save(tmp_path / f"x.{ending}")


# -- hostile text --------------------------------------------------------------------------------

HOSTILE = [
    "</script><script>alert(1)</script>", '"quoted" & \'so\'', "a\\nb\\N", "漢字 🎉 é", "]]>",
    "$x_1$", "new\nline\ttab", "\x00\x1b[31m\ud800", "{{a}} %s <!-- -->", "‮desrever",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(name: str, tmp_path: Path) -> None:
    x = leaf(2)
    drawn = viz.draw(x * 2, params={name: x}, title=name)
    printable = "".join(c if c.isprintable() else " " for c in name).strip()
    assert printable in texts(drawn.svg)
    html = drawn.html
    assert "<script" not in html
    assert html.count("<svg") == 1
    strings = re.findall(r'label="((?:[^"\\]|\\.)*)"', drawn.dot)
    unescaped = [re.sub(r"\\(.)", r"\1", s.partition("\\n")[0]) for s in strings]
    if "\\n" not in name:
        assert printable in [s.replace("&amp;", "&") for s in unescaped]
    for ending in ("svg", "html", "json", "png", "dot"):
        drawn.save(tmp_path / f"x.{ending}")
    assert json.loads((tmp_path / "x.json").read_text())["items"][0]["name"] is not None


# -- readable ------------------------------------------------------------------------------------


def overlaps(boxes: list[Any]) -> list[tuple[Any, Any]]:
    return [
        (a.lines[0].text, b.lines[0].text)
        for k, a in enumerate(boxes)
        for b in boxes[:k]
        if a.x < b.x + b.width and b.x < a.x + a.width
        and a.y < b.y + b.height and b.y < a.y + a.height
    ]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_boxes_and_labels_do_not_overlap_and_text_fits(name: str) -> None:
    font = pytest.importorskip("matplotlib.font_manager")
    paths = pytest.importorskip("matplotlib.textpath")
    scene = picture(name).scene
    assert overlaps([*scene.boxes, *scene.legend]) == []
    for box in [*scene.boxes, *scene.legend]:
        assert box.x >= 0
        assert box.y >= 0
        assert box.x + box.width <= scene.width
        assert box.y + box.height <= scene.height
        for line in box.lines:
            weight = "bold" if line.bold else "normal"
            typeface = font.FontProperties(family="DejaVu Sans", weight=weight, size=line.size)
            drawn = paths.TextPath((0, 0), line.text, prop=typeface, usetex=False)
            assert drawn.get_extents().width <= box.width - 8, line.text


@pytest.mark.parametrize("name", NAMES)
def test_data_flows_downwards_and_past_other_boxes(name: str) -> None:
    scene = picture(name).scene
    place = {box.id: box for box in scene.boxes}
    for arrow in scene.arrows:
        start, end = place[arrow.source], place[arrow.target]
        assert arrow.points[0][1] == pytest.approx(start.y + start.height, abs=0.2)
        assert arrow.points[-1][1] == pytest.approx(end.y, abs=0.2)
        assert start.x < arrow.points[0][0] < start.x + start.width
        assert end.x < arrow.points[-1][0] < end.x + end.width
        for (_, y), (_, below) in itertools.pairwise(arrow.points):
            assert below >= y
        for x, y in curve(arrow.points):
            for box in scene.boxes:
                if box not in (start, end):
                    inside = box.x < x < box.x + box.width and box.y < y < box.y + box.height
                    assert not inside, (name, arrow, box)


def curve(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Places on the curve that is drawn through some points."""
    found = []
    for (x, y), (to_x, to_y) in itertools.pairwise(points):
        for k in range(21):
            t = k / 20
            early, late = (1 - t) ** 3 + 3 * t * (1 - t) ** 2, t**3 + 3 * t * t * (1 - t)
            bend = 3 * t * (1 - t) / 2  # of both control points, which are half way down
            down = (1 - t) ** 3 * y + bend * (y + to_y) + t**3 * to_y
            found.append((early * x + late * to_x, down))
    return found


def test_insides_of_groups_are_pictures_too() -> None:
    drawn = picture("deep")
    found = drawn.to_json()
    groups = [i for i in found["items"] if i["kind"] == "group"]
    assert found["pictures"][0]["group"] is None
    assert {p["group"] for p in found["pictures"][1:]} == {g["id"] for g in groups}
    shown: Counter[int] = Counter()
    for part in found["pictures"]:
        inside = {int(n) for n in part["boxes"]} - set(part["stubs"])
        assert inside == {i["id"] for i in found["items"] if i["group"] == part["group"]}
        shown.update(inside)
        assert all(e["from"] != e["to"] for e in part["edges"])
        assert overlaps(scene_of(drawn.graph, part["group"]).boxes) == []
    assert shown == Counter(i["id"] for i in found["items"])  # each in one picture


def test_repr_says_what_there_is_and_what_to_do() -> None:
    drawn = viz.draw(leaf(2).exp())
    assert repr(drawn) == (
        "<Picture: 1 operation, 1 leaf, 1 result; a notebook shows it, "
        '.save("graph.svg") writes it>'
    )
    assert drawn._repr_svg_() == drawn.svg
    assert drawn.svg in drawn._repr_html_()
