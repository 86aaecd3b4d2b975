"""Docstrings of layers that exist for one, two and three spatial dimensions.

What such layers share, the sections on arguments and shapes, is written once for all three.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

C = TypeVar("C", bound=type[Any])
SPATIAL = {1: ["L"], 2: ["H", "W"], 3: ["D", "H", "W"]}
SIZES = {1: "an int", 2: "an int, or a tuple of 2", 3: "an int, or a tuple of 3"}


def sections(text: str, spatial: int) -> Callable[[C], C]:
    """Decorate a class: insert ``text`` into its docstring, before the example.

    In ``text``, ``{n}`` is the number of spatial dimensions, ``{sizes}`` how a size is given,
    ``{input}`` the spatial dimensions of the input and ``{output}`` those of the output.
    """
    names = SPATIAL[spatial]
    filled = text.format(
        n=spatial, sizes=SIZES[spatial], input=", ".join(names),
        output=", ".join(f"{name}_out" for name in names),
    )  # fmt: skip

    def insert(cls: C) -> C:
        if cls.__doc__:  # python -OO removes docstrings
            summary, example, rest = cls.__doc__.partition("    Example:")
            body = "".join(f"    {line}\n" if line else "\n" for line in filled.split("\n"))
            cls.__doc__ = f"{summary}{body.strip(chr(10))}\n\n{example}{rest}"
        return cls

    return insert
