"""Sections of docstrings that several functions or classes share, written once.

``@sections(text)`` merges the sections of ``text`` into a docstring: what stands under ``Args:`` in
``text`` is appended to the ``Args:`` of the docstring, and a section that the docstring lacks is
inserted where it belongs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])
SPATIAL = {1: ["L"], 2: ["H", "W"], 3: ["D", "H", "W"]}
SIZES = {1: "an int", 2: "an int, or a tuple of 2", 3: "an int, or a tuple of 3"}
_ORDER = ("", "Args", "Shape", "Returns", "Raises", "Example")
_TITLE = re.compile(rf"^({'|'.join(_ORDER[1:])}):\n", re.MULTILINE)


def sections(text: str, spatial: int = 0, **words: str) -> Callable[[T], T]:
    """Decorate a function or class: merge the sections of ``text`` into its docstring.

    Names in braces in ``text`` are replaced by ``words``. For a layer or function of one, two or
    three spatial dimensions, ``{n}`` is their number, ``{sizes}`` how a size is given, ``{input}``
    the spatial dimensions of the input, ``{output}`` those of the output and ``{kernel}`` those of
    a window.
    """
    if spatial:
        names = SPATIAL[spatial]
        words |= {
            "n": str(spatial), "sizes": SIZES[spatial], "input": ", ".join(names),
            "output": ", ".join(f"{name}_out" for name in names),
            "kernel": ", ".join(f"K_{name.lower()}" for name in names) if spatial > 1 else "K",
        }  # fmt: skip
    shared = _parsed(text.format(**words))

    def insert(target: T) -> T:
        if target.__doc__:  # python -OO removes docstrings
            own = _parsed(inspect.cleandoc(target.__doc__))
            for title, lines in shared.items():
                gap = "\n" if title else "\n\n"
                own[title] = f"{own[title]}{gap}{lines}" if title in own else lines
            parts = [f"{title}:\n{own[title]}" for title in _ORDER[1:] if title in own]
            target.__doc__ = "\n\n".join((own[""], *parts))
        return target

    return insert


def _parsed(text: str) -> dict[str, str]:
    """The text of each section by its title; the title of what comes first is empty."""
    first, *rest = _TITLE.split(text)
    parsed = dict(zip(rest[::2], rest[1::2], strict=True))
    return {title: lines.strip("\n") for title, lines in {"": first, **parsed}.items() if lines}
