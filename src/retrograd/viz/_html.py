"""A picture as a page of its own."""

from __future__ import annotations

from retrograd.viz._model import Graph
from retrograd.viz._scene import Scene, groups_with_inside, scene_of
from retrograd.viz._svg import svg, text

MAX_INSIDES = 40  # groups whose contents the page shows

_STYLE = """
:root { color-scheme: light dark; }
body { margin: 2rem; font-family: 'Helvetica Neue', 'Segoe UI', Arial, sans-serif; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
p { color: GrayText; } svg { max-width: 100%; height: auto; }
"""


def page(graph: Graph, scene: Scene) -> str:
    """The text of an HTML file that needs nothing else."""
    title = text(scene.title)
    parts = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{title}</h1>",
        svg(scene),
    ]
    groups = [graph.items[number] for number in groups_with_inside(graph)]
    for item in groups[:MAX_INSIDES]:
        name = " · ".join(filter(None, [item.name, item.label]))
        first = graph.abridged and item.times not in (None, 1)
        inside = f"Inside: {name}, the first" if first else f"Inside: {name}"
        parts.append(f"<h2>{text(inside)}</h2>")
        parts.append(svg(scene_of(graph, item.id, scene.look, legend=False, title=inside)))
    if len(groups) > MAX_INSIDES:
        parts.append(f"<p>and {len(groups) - MAX_INSIDES} more groups</p>")
    return "\n".join([*parts, "</body></html>"]) + "\n"
