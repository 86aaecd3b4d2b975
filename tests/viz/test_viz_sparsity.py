"""Pictures of sparsity patterns."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import retrograd as torch
from retrograd import viz
from retrograd.func import banded, sparse_hessian, sparse_jacobian

X = torch.linspace(0.5, 1.5, 6, dtype=torch.float64)


def chain(x: Any) -> Any:
    return x[1:] * x[:-1]


def test_text_shows_the_colours_by_which_entries_are_computed() -> None:
    assert str(viz.sparsity(banded(3, 3, 1, 0))) == "0··\n00·\n·00"
    forward = viz.sparsity(sparse_jacobian(chain, X, mode="forward"))
    assert str(forward).splitlines()[:3] == ["01····", "·10···", "··01··"]
    assert forward.title == "5 × 6, 10 entries, 2 colours"
    pair = lambda y: torch.stack([y, y**2], 1)
    cut = sparse_jacobian(lambda x: pair(chain(x)), X, mode="cut")
    assert str(viz.sparsity(cut)).splitlines()[:4] == ["00····", "11····", "·00···", "·11···"]
    arrow = lambda x: torch.cat([(x**2).sum().reshape(1), x[1:] * x[0]])
    both = viz.sparsity(sparse_jacobian(arrow, X, mode="both"))
    assert str(both).splitlines()[:2] == ["022222", "01····"]
    hess = sparse_hessian(lambda x: chain(x).sum(), X)
    assert len(set(str(viz.sparsity(hess))) - {"·", "\n"}) == hess.color_count
    assert str(viz.sparsity(torch.eye(2))) == "0·\n·0"


def test_drawings(tmp_path: Path) -> None:
    picture = viz.sparsity(sparse_jacobian(chain, X, mode="forward"), title="a < b")
    root = ElementTree.fromstring(picture.svg)
    boxes = [e for e in root if e.tag.endswith("rect")][2:]
    assert len(boxes) == 10
    assert len({e.get("fill") for e in boxes}) == 2
    assert "a &lt; b" in picture.svg
    for ending in ("svg", "png", "txt"):
        picture.save(tmp_path / f"p.{ending}")
    assert (tmp_path / "p.txt").read_text(encoding="utf-8").startswith("01····")
    pytest.importorskip("matplotlib")
    from matplotlib.image import imread

    image = imread(io.BytesIO((tmp_path / "p.png").read_bytes()), format="png")
    blue = np.array([0x44, 0x77, 0xAA]) / 255
    assert (np.abs(image[..., :3] - blue).max(-1) < 0.02).mean() > 0.05
    with pytest.raises(ValueError, match=r"end in one of .svg, .png, .txt"):
        picture.save(tmp_path / "p.pdf")
    assert "5 × 6 pattern" in repr(picture)


def test_large_patterns_are_shown_in_blocks() -> None:
    picture = viz.sparsity(banded(5000, 5000, 1, 1))
    lines = str(picture).splitlines()
    assert lines[-1] == "(each letter stands for 70 × 70 elements)"
    assert len(lines) == 73
    assert picture.svg.count("<rect") < 250 * 4
