"""A picture as a page of its own, in which groups can be opened. It has no script: a group is a
link to a part of the page that is only shown while the address points to it, so that the browser's
back button closes it."""

from __future__ import annotations

from retrograd.viz._model import Graph, Item
from retrograd.viz._scene import Scene, groups_with_inside, scene_of
from retrograd.viz._svg import svg, text

MAX_INSIDES = 40  # groups that can be opened

_STYLE = """
:root { color-scheme: THEME; }
body { margin: 0; font-family: 'Helvetica Neue', 'Segoe UI', Arial, sans-serif; }
main, section { padding: 1.5rem 2rem; background: Canvas; color: CanvasText; }
h1, h2 { font-size: 1.2rem; margin: 0 0 1rem; }
nav { margin-bottom: 1rem; } p { color: GrayText; } svg { max-width: 100%; height: auto; }
svg a:hover .shape, svg a:focus-visible .shape { stroke-width: 3; }
@media screen {
  section { position: fixed; inset: 0; overflow: auto; display: none; }
  section:target { display: block; }
}
@media print { section { break-before: page; } nav { display: none; } }
"""


def page(graph: Graph, scene: Scene) -> str:
    """The text of an HTML file that needs nothing else."""
    title = text(scene.title)
    groups = [graph.items[n] for n in groups_with_inside(graph) if n not in graph.framed]
    shown = {item.id: item for item in groups[:MAX_INSIDES]}
    links = {number: f"#group-{number}" for number in shown}
    style = _STYLE.replace("THEME", {"auto": "light dark"}.get(scene.look.theme, scene.look.theme))
    parts = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{style}</style></head><body>",
        f'<main id="top"><h1>{title}</h1>',
        svg(scene, links),
    ]
    if shown:
        parts.append("<p>Click a group to open it.</p>")
    if len(groups) > MAX_INSIDES:
        parts.append(f"<p>{len(groups) - MAX_INSIDES} more groups cannot be opened here.</p>")
    parts.append("</main>")
    for item in shown.values():
        name = name_of(graph, item)
        inside = svg(scene_of(graph, item.id, scene.look, legend=False, title=name), links)
        parts.append(
            f'<section id="group-{item.id}"><nav>{path(graph, item, scene.title)}</nav>'
            f"<h2>{text(name)}</h2>\n{inside}</section>"
        )
    return "\n".join([*parts, "</body></html>"]) + "\n"


def name_of(graph: Graph, item: Item) -> str:
    """What is inside of a group."""
    name = " · ".join(dict.fromkeys(filter(None, [item.name, item.label])))
    return f"{name}, the first" if graph.abridged and item.times not in (None, 1) else name


def path(graph: Graph, item: Item, title: str) -> str:
    """Links to what a group is in, the whole picture first."""
    links = [f'<a href="#top">{text(title)}</a>']
    for number in graph.views.around(item.id):
        if number is not None and number not in graph.framed:
            name = text(name_of(graph, graph.items[number]))
            links.append(f'<a href="#group-{number}">{name}</a>')
    return " › ".join(links)
