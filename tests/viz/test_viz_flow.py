"""``viz.gradient_flow``: norms that are those of ``.grad``, passes told apart, pictures that can be
read."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import retrograd as torch
from retrograd import nn
from retrograd.viz._flow import Mark, gradient_flow


def network(depth: int = 2) -> Any:
    torch.manual_seed(0)
    layers = [layer for _ in range(depth) for layer in (nn.Linear(3, 3), nn.Tanh())]
    return nn.Sequential(*layers)


def one_pass(model: Any, scale: float = 1.0) -> None:
    model.zero_grad()
    (model(torch.randn(4, 3)).square().mean() * scale).backward()


def norm(tensor: Any) -> float:
    return float(torch.linalg.vector_norm(tensor.double()))


def test_norms_are_those_of_grad_after_each_pass() -> None:
    model = network()
    flow = gradient_flow(model)
    expected: dict[str, list[float]] = {name: [] for name in flow.names}
    weights: dict[str, list[float]] = {name: [] for name in flow.names}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        for name, p in model.named_parameters():
            weights[name].append(norm(p.detach()))
        one_pass(model)
        for name, p in model.named_parameters():
            expected[name].append(norm(p.grad))
        optimizer.step()
    assert flow.names == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert flow.steps == [0, 1, 2, 3]
    for name in flow.names:
        assert flow.norms(name) == pytest.approx(expected[name], rel=1e-12)
        assert flow.weight_norms(name) == pytest.approx(weights[name], rel=1e-12)
        assert flow.ratio(name) == pytest.approx(expected[name][-1] / weights[name][-1])


def test_norms_against_pytorch() -> None:
    pytorch = pytest.importorskip("torch", reason="PyTorch is the reference to compare with")
    ours = nn.Linear(3, 2)
    theirs = pytorch.nn.Linear(3, 2)
    theirs.weight.data = pytorch.tensor(ours.weight.tolist())
    theirs.bias.data = pytorch.tensor(ours.bias.tolist())
    flow = gradient_flow(ours)
    x = [[1.0, -2.0, 3.0], [0.5, 0.0, 1.0]]
    ours(torch.tensor(x)).exp().sum().backward()
    theirs(pytorch.tensor(x)).exp().sum().backward()
    for name, p in theirs.named_parameters():
        assert flow.norms(name) == pytest.approx([float(p.grad.norm())], rel=1e-5)


def test_norms_at_the_ends_of_what_floats_hold() -> None:
    for scale in (1e-300, 1e300, 0.0):
        x = torch.ones(4, dtype=torch.float64, requires_grad=True)
        flow = gradient_flow({"x": x})
        (x * scale).sum().backward()
        assert flow.norms("x") == [2 * scale]
    half = torch.ones(4, dtype=torch.float16, requires_grad=True)
    flow = gradient_flow({"half": half})
    (half * 60000.0).sum().backward()
    assert flow.norms("half") == [pytest.approx(2 * 60000, rel=1e-3)]


def test_each_pass_is_a_column_whatever_it_reaches() -> None:
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    flow = gradient_flow({"a": a, "b": b})
    (a * 3).sum().backward()
    (b * 4).sum().backward()
    (a * b).sum().backward()
    root = math.sqrt(2)
    assert flow.norms("a") == pytest.approx([3 * root, None, 4 * root])  # .grad adds up
    assert flow.norms("b") == pytest.approx([None, 4 * root, 5 * root])


def test_gradients_that_are_only_returned_are_no_pass() -> None:
    a = torch.ones(2, requires_grad=True)
    flow = gradient_flow({"a": a})
    torch.autograd.grad((a * 2).sum(), a)
    torch.autograd.explain(a, (a * 2).sum())
    assert flow.norms("a") == []


def test_every_tenth_pass() -> None:
    model = network()
    flow = gradient_flow(model, every=10)
    for _ in range(21):
        one_pass(model)
    assert flow.steps == [0, 10, 20]
    assert len(flow.norms("0.weight")) == 3


def test_removing_leaves_no_hook() -> None:
    model = network()
    with gradient_flow(model) as flow:
        one_pass(model)
    one_pass(model)
    assert len(flow.steps) == 1
    assert all(not p._meta.post_hooks for p in model.parameters())
    flow.remove()


def test_one_look_after_one_backward() -> None:
    model = network()
    one_pass(model)
    flow = gradient_flow(model)
    assert flow.norms("0.weight") == [pytest.approx(norm(model[0].weight.grad))]
    assert flow.marks == []
    assert "after 1 pass\n" in flow.text()


def test_by_hand_after_clipping() -> None:
    model = network()
    flow = gradient_flow(model, watch=False)
    one_pass(model, 1000.0)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    flow.step()
    together = math.hypot(*(flow.norms(name)[0] for name in flow.names))
    assert together == pytest.approx(1.0, rel=1e-4)
    assert flow.steps == [0]


# -- marks ------------------------------------------------------------------------------------


def flow_of(**series: list[float]) -> Any:
    """A flow of single numbers with given gradients, pass by pass."""
    leaves = {name: torch.ones(1, dtype=torch.float64, requires_grad=True) for name in series}
    flow = gradient_flow(leaves)
    for grads in zip(*series.values(), strict=True):
        for leaf in leaves.values():
            leaf.grad = None
        sum(leaf * g for leaf, g in zip(leaves.values(), grads, strict=True)).sum().backward()
    return flow


@pytest.mark.parametrize(
    ("series", "kind", "step"),
    [
        ([1.0, math.nan, 1.0], "nan", 1),
        ([1.0, 1.0, math.inf], "inf", 2),
        ([1.0, 0.0, 0.0], "zero", 1),
        ([1.0] * 6 + [101.0], "exploding", 6),
        ([1.0] * 6 + [1e-7, 1e-8], "vanishing", 6),
        ([1.0] * 6 + [99.0], None, None),
        ([1.0] * 6 + [101.0, 1.0], None, None),
        ([1.0] * 6 + [2e-6], None, None),
        ([1.0, 101.0], None, None),  # too few to say what is usual
    ],
)
def test_marks(series: list[float], kind: str | None, step: int | None) -> None:
    flow = flow_of(x=series, other=[1.0] * len(series))
    assert flow.marks == ([] if kind is None else [Mark("x", kind, step)])
    assert ("<- " in flow.text()) == (kind is not None)


def test_several_marks_of_one_parameter() -> None:
    flow = flow_of(x=[1.0] * 6 + [math.nan, 200.0], other=[1.0] * 8)
    assert flow.words() == {"x": "NaN in 6, exploding since 7"}


def test_parameters_that_receive_nothing() -> None:
    model = network()
    model.unused = nn.Linear(2, 2, bias=False)
    model.frozen = nn.Linear(2, 2, bias=False).requires_grad_(False)
    flow = gradient_flow(model)
    model.zero_grad()
    model[0](torch.ones(1, 3)).sum().backward()
    assert flow.marks == [Mark("2.weight", "never", None), Mark("2.bias", "never", None),
                          Mark("unused.weight", "never", None),
                          Mark("frozen.weight", "frozen", None)]  # fmt: skip


# -- showing ----------------------------------------------------------------------------------


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    flow = flow_of(first=[1.0, 10.0, 100.0], second=[5.0, 5.0, 0.0])
    flow.show()
    assert capsys.readouterr().out == (
        "norms of gradients after 3 passes\n"
        "           latest   / weight  course\n"
        "first         100        100  ▁▅█\n"
        "second          0          0  ▁▁_               <- zero since 2\n"
    )
    assert str(flow) == repr(flow) == flow.text()


def test_what_is_marked_is_not_left_out_of_a_short_table() -> None:
    series = {f"p{i}": [1.0] for i in range(100)}
    flow = flow_of(**{**series, "p70": [math.nan]})
    lines = flow.text(rows=5).splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["p0", "p1", "p2", "p3", "p70", "..."]
    assert lines[-1] == "... and 95 more"


def test_numbers_in_files(tmp_path: Path) -> None:
    flow = flow_of(a=[1.5, math.nan], b=[2.5, math.inf])
    flow.save(tmp_path / "flow.json")
    assert json.loads((tmp_path / "flow.json").read_text()) == {
        "steps": [0, 1],
        "parameters": [
            {"name": "a", "shape": [1], "norms": [1.5, "nan"], "weight_norms": [1.0, 1.0]},
            {"name": "b", "shape": [1], "norms": [2.5, "inf"], "weight_norms": [1.0, 1.0]},
        ],
        "marks": [
            {"name": "a", "kind": "nan", "step": 1},
            {"name": "b", "kind": "inf", "step": 1},
        ],
    }
    flow.save(str(tmp_path / "flow.csv"))
    rows = list(csv.DictReader(io.StringIO((tmp_path / "flow.csv").read_text())))
    assert [(row["step"], row["parameter"], row["gradient_norm"]) for row in rows] == [
        ("0", "a", "1.5"), ("0", "b", "2.5"), ("1", "a", "nan"), ("1", "b", "inf"),
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"end in one of \.png, \.svg, \.json, \.csv"):
        flow.save(tmp_path / "flow.gif")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flow.csv", "flow.json"]


def texts(svg: str) -> list[str]:
    found = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(element.itertext()).strip() for element in found]


def test_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need it")
    flow = flow_of(first=[1.0, math.nan, 2.0], second=[5.0, 5.0, 0.0], third=[1e-9, 1.0, 1.0])
    flow.save(tmp_path / "flow.png")
    assert (tmp_path / "flow.png").read_bytes() == flow._repr_png_()
    assert flow._repr_png_().startswith(b"\x89PNG\r\n")
    svg = flow._repr_svg_()
    assert {"first", "second", "third", "NaN in 1", "zero since 2"} <= set(texts(svg))
    assert svg == flow._repr_svg_()
    assert "backward pass" in texts(svg)
    single = flow_of(only=[1.0])._repr_svg_()
    assert "backward pass" not in texts(single)
    assert "latest norm" in texts(single)


def test_odd_names_are_only_text() -> None:
    pytest.importorskip("matplotlib", reason="pictures need it")
    names = ["<script>alert(1)</script>", "$\\frac{1}{0}$", "层.权重", "a\"&'b", "x" * 300]
    leaves = {name: torch.ones(1, requires_grad=True) for name in names}
    flow = gradient_flow(leaves)
    sum(leaf * 2 for leaf in leaves.values()).sum().backward()
    found = texts(flow._repr_svg_())
    assert set(names[:4]) <= set(found)
    assert flow._repr_png_().startswith(b"\x89PNG")
    assert any(text.startswith("xxx") and len(text) <= 44 for text in found)
    assert len(max(flow.text().splitlines(), key=len)) < 100


def test_many_parameters_and_passes() -> None:
    pytest.importorskip("matplotlib", reason="pictures need it")
    leaves = {f"layer{i}.weight": torch.ones(1, requires_grad=True) for i in range(200)}
    flow = gradient_flow(leaves)
    for i in range(900):
        flow._new_column()
        flow._columns[-1] = [(1.0 + i + k, 1.0) for k in range(200)]
    found = texts(flow._repr_svg_())
    assert {f"layer{i}.weight" for i in range(200)} <= set(found)
    assert "backward pass (the largest of each 3)" in found


def test_a_flow_without_any_gradient() -> None:
    flow = gradient_flow(network())
    assert [mark.kind for mark in flow.marks] == ["never"] * 4
    assert flow.text().startswith("norms of gradients after 0 passes\n")
    pytest.importorskip("matplotlib", reason="pictures need it")
    assert texts(flow._repr_svg_()).count("no gradient") == 4


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = flow_of(x=[1.0])
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "retrograd\[viz\]"'):
        flow._repr_png_()
    assert flow.text()


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="there are none"):
        gradient_flow(nn.Tanh())
    with pytest.raises(TypeError, match="x is not a Tensor, but int"):
        gradient_flow({"x": 1})
    with pytest.raises(ValueError, match="every must be at least 1, but is 0"):
        gradient_flow(network(), every=0)
