"""``draw``: the graph of a tensor as a picture."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from retrograd._source import user_frame
from retrograd.viz._model import MAX_NODES, Graph
from retrograd.viz._naming import Names
from retrograd.viz._picture import Picture
from retrograd.viz._programs import graph_of, program_of
from retrograd.viz._scene import Look
from retrograd.viz._text import SHOWS


def draw(
    tensors: Any,
    params: Any = None,
    max_nodes: int = MAX_NODES,
    show: str | Iterable[str] = (),
    title: str | None = None,
    *,
    compact: bool = False,
    direction: str = "TB",
    theme: str = "auto",
    frames: bool = False,
) -> Picture:
    """Draws the graph of one or more tensors, or a compiled program.

    Operations are blue, leaves green, results brown, and data that needs no gradient
    yellow. Drawing looks at the graph and changes nothing.

    Of a compiled function, the program that ran last is drawn: a box for each statement, blue in
    the forward pass and red in the backward pass. Inputs are green, and outputs have thick lines.

    Args:
        tensors: a tensor, or several, or a function that ``torch.compile`` returned.
        params: what names parameters: a Module, a dictionary of tensors, or
            ``named_parameters()``. Without it, tensors and Modules in the variables of the code
            that calls ``draw`` give the names.
        max_nodes: the most operations in the picture. What is more is folded: by Module where the
            graph was made in ``viz.recording()`` or the names of parameters tell, otherwise by
            repetition.
        show: what boxes say besides names, shapes and dtypes, any of "values", "gradients",
            "saved" (what operations keep for backward) and "source" (the lines that made them).
        title: the title of the picture.
        compact: whether results are lines in the boxes of their operations, instead of boxes of
            their own.
        direction: "TB", from top to bottom, or "LR", from left to right.
        theme: "light", "dark" or "auto": a PNG is light, and everything else is as the reader
            prefers.
        frames: whether to draw frames around Modules. They are known where the graph was made in
            ``viz.recording()``, or by the names of parameters.

    Returns:
        A ``Picture``. A notebook shows it, and ``save`` writes it to a file.

    Example:
        >>> import retrograd as torch
        >>> from retrograd import viz
        >>> x = torch.ones(2, 2, requires_grad=True)
        >>> y = x + 2
        >>> out = (y * y * 3).mean()
        >>> picture = viz.draw(out, show="values")
        >>> picture.svg[:4]
        '<svg'
        >>> picture
        <Picture: 4 operations, 1 leaf, 4 results; a notebook shows it, ...>
        >>> slope = torch.compile(torch.func.grad(lambda x: (x.exp() * x).sum()))
        >>> _ = slope(torch.ones(2, 2))
        >>> viz.draw(slope)
        <Picture: 1 input, 1 line, 1 line of the backward pass; a notebook shows it, ...>
    """
    shown = (show,) if isinstance(show, str) else tuple(show)
    unknown = [name for name in shown if name not in SHOWS]
    if unknown:
        raise ValueError(f"cannot show {unknown[0]!r}: choose from {', '.join(SHOWS)}")
    if not isinstance(max_nodes, int) or max_nodes < 2:
        raise ValueError(f"max_nodes must be an integer of at least 2, but is {max_nodes!r}")
    choose("direction", direction, ("TB", "LR"))
    choose("theme", theme, ("auto", "light", "dark"))
    look = Look(shown, bool(compact), direction, theme)
    program = program_of(tensors)
    if program is not None:
        graph = graph_of(program, max_nodes)
        return Picture(graph, look, title if title is not None else f"Program {program.name}")
    names = Names.of(params, user_frame(sys._getframe(1)))
    graph = Graph.of(tensors, max_nodes=max_nodes, names=names, frames=frames)
    graph.let_go()
    return Picture(graph, look, title if title is not None else "The graph of a result")


def choose(name: str, given: object, choices: tuple[str, ...]) -> None:
    """Refuse what is not one of the choices of an argument."""
    if given not in choices:
        known = ", ".join(map(repr, choices))
        raise ValueError(f"{name} must be one of {known}, but is {given!r}")
