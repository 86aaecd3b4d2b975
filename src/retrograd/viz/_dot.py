"""A graph in the DOT language, for Graphviz and other programs."""

from __future__ import annotations

from collections.abc import Callable

from retrograd.viz._colours import LIGHT
from retrograd.viz._scene import Box, Frame

_SHAPES = {
    "operation": 'shape=box style="rounded,filled"',
    "group": 'shape=box3d style="filled"',
    "leaf": 'shape=box style="filled,bold"',
    "intermediate": 'shape=box style="filled"',
    "data": 'shape=box style="filled,dashed"',
    "input": 'shape=box style="filled,bold"',
    "line": 'shape=box style="filled"',
    "backward": 'shape=box style="filled"',
}


def dot(
    boxes: list[Box], pairs: list[tuple[int, int]], direction: str,
    frames: list[Frame], around: Callable[[int], int | None],
) -> str:  # fmt: skip
    """The text of a DOT file: boxes with the text that pictures show, and the edges between.
    Frames, the outer ones first, become clusters; ``around`` gives the frame around a box or
    frame."""
    lines = ["digraph retrograd {", '  node [fontname="Helvetica" fontsize=11];']
    if direction != "TB":
        lines.append(f"  rankdir={direction};")
    for box in boxes:
        colours = LIGHT[box.kind]
        label = quoted("\n".join(line.text for line in box.lines))
        peripheries = " peripheries=2" if box.root else ""
        lines.append(
            f"  n{box.id} [label={label} {_SHAPES[box.kind]} "
            f'fillcolor="{colours.fill}" color="{colours.line}"{peripheries}];'
        )
    clusters: dict[int | None, list[str]] = {frame.id: [] for frame in frames} | {None: []}
    for box in boxes:
        if (number := around(box.id)) is not None:
            clusters[number].append(f"n{box.id};")
    for frame in reversed(frames):
        inside = " ".join(clusters[frame.id])
        text = f"subgraph cluster_{frame.id} {{ label={quoted(frame.title.text)}; {inside} }}"
        clusters[around(frame.id)].append(text)
    lines += [f"  {cluster}" for cluster in clusters[None]]
    lines += [f"  n{source} -> n{target};" for source, target in pairs]
    return "\n".join([*lines, "}"]) + "\n"


def quoted(text: str) -> str:
    r"""A string of the DOT language that is shown as ``text``.

    >>> print(quoted('say "a\\b" & <c>'))
    "say \"a\\b\" &amp; <c>"
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
    return '"' + escaped.replace("\n", "\\n") + '"'
