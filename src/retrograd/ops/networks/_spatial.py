"""Functions that exist for sequences, images and volumes, declared once for all three."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from retrograd.ops._public import public
from retrograd.ops._sections import sections

SIGNALS = {1: "sequences", 2: "images", 3: "volumes"}


def spatial(
    name: str, summary: str, shared: str | Mapping[int, str], examples: Mapping[int, str],
    in_torch: tuple[int, ...] = (),
) -> Callable[[Callable[[int], Callable[..., Any]]], tuple[Any, ...]]:  # fmt: skip
    """Decorate a function that makes the function for ``n`` spatial dimensions: the result is a
    tuple of public functions, one for each ``n`` in ``examples``.

    ``{n}`` in their name and summary is the number of dimensions, and ``{signals}`` what has so
    many. ``shared`` has the sections of all docstrings: see ``sections``. All functions are in
    ``nn.functional``, and those for ``in_torch`` dimensions in ``torch`` as well.
    """

    def declare(make: Callable[[int], Callable[..., Any]]) -> tuple[Any, ...]:
        functions = []
        for n, example in examples.items():
            function = make(n)
            function.__name__ = function.__qualname__ = name.format(n=n)
            lines = textwrap.indent(textwrap.dedent(example).strip(), "    ")
            first = summary.format(n=n, signals=SIGNALS[n])
            function.__doc__ = f"{first}\n\nExample:\n{lines}\n"
            sections(shared if isinstance(shared, str) else shared[n], n)(function)
            namespaces = "torch functional" if n in in_torch else "functional"
            functions.append(public(namespaces)(function))
        return tuple(functions)

    return declare
