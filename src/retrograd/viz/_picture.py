"""What ``draw`` returns: a picture to display in a notebook, or to save."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections import Counter
from typing import Any

from retrograd.files._atomic import write_as
from retrograd.viz._dot import dot
from retrograd.viz._html import page
from retrograd.viz._model import Graph
from retrograd.viz._png import png
from retrograd.viz._scene import Look, Scene, contents, frames_of, scene_of
from retrograd.viz._svg import svg

_WORDS = {
    "operation": ("operation", "operations"),
    "leaf": ("leaf", "leaves"),
    "data": ("constant", "constants"),
    "intermediate": ("result", "results"),
    "input": ("input", "inputs"),
    "line": ("line", "lines"),
    "backward": ("line of the backward pass", "lines of the backward pass"),
    "group": ("folded group", "folded groups"),
}


class Picture:
    """A picture of a graph. A notebook shows it; ``save`` writes it to a file.

    >>> import retrograd as torch
    >>> from retrograd import viz
    >>> w = torch.ones(3, requires_grad=True)
    >>> viz.draw((w * 2).sum())
    <Picture: 2 operations, 1 leaf, 2 results; a notebook shows it, .save("graph.svg") writes it>
    """

    def __init__(self, graph: Graph, look: Look, title: str) -> None:
        self.graph = graph
        self.look = look
        self.title = title

    @functools.cached_property
    def scene(self) -> Scene:
        """Boxes and edges with their positions."""
        return scene_of(self.graph, None, self.look, title=self.title)

    @functools.cached_property
    def svg(self) -> str:
        """The picture as the text of an SVG file."""
        return svg(self.scene)

    @property
    def png(self) -> bytes:
        """The picture as the bytes of a PNG file."""
        return png(self.scene)

    @property
    def dot(self) -> str:
        """The graph in the DOT language."""
        boxes, pairs = contents(self.graph, None, self.look)
        items, frames = self.graph.items, frames_of(self.graph)
        return dot(boxes, pairs, self.look.direction, frames, lambda n: items[n].group)

    @property
    def html(self) -> str:
        """A page with the picture, and the contents of folded groups below it."""
        return page(self.graph, self.scene)

    def to_json(self) -> dict[str, Any]:
        """Items, edges and positions in plain lists and dictionaries."""
        return self.graph.to_json(**dataclasses.asdict(self.look))

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f'<div style="overflow:auto;max-height:80vh">{self.svg}</div>'

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture. The ending of the name says how: .svg, .png, .dot, .html or .json."""
        write_as(path, {
            ".svg": lambda: self.svg, ".png": lambda: self.png, ".dot": lambda: self.dot,
            ".html": lambda: self.html,
            ".json": lambda: json.dumps(self.to_json(), ensure_ascii=False) + "\n",
        })  # fmt: skip

    def __repr__(self) -> str:
        kinds = Counter(item.kind for item in self.graph.items if item.group is None)
        counts = [
            f"{kinds[kind]} {words[kinds[kind] > 1]}" for kind, words in _WORDS.items()
            if kinds[kind]
        ]  # fmt: skip
        folded = [i for i in self.graph.groups() if i.group is None and i.times is not None]
        hidden = sum(item.count or 0 for item in folded)
        inside = f" with {hidden:,} operations" if hidden else ""
        return (
            f"<Picture: {', '.join(counts)}{inside}; a notebook shows it, "
            '.save("graph.svg") writes it>'
        )
