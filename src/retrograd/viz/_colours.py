"""Colours of pictures: yellow data, green leaves, brown results, blue operations; of programs green
inputs, blue lines, red lines of the backward pass.

The green is bluish, and the kinds also differ in lightness and shape, so that colour-blind readers
can distinguish them."""

from __future__ import annotations

from typing import NamedTuple


class Palette(NamedTuple):
    """The colours of one kind of box."""

    fill: str
    line: str
    text: str


LIGHT = {
    "data": Palette("#fff4bf", "#b98a00", "#4a3800"),
    "leaf": Palette("#c4eede", "#0b7a5b", "#043d2d"),
    "intermediate": Palette("#f1dfcd", "#9a5b22", "#4a2a0d"),
    "operation": Palette("#d4e4ff", "#2f66c4", "#0c2a5c"),
    "group": Palette("#e4e1f7", "#6558b1", "#2b2360"),
    "input": Palette("#c4eede", "#0b7a5b", "#043d2d"),
    "line": Palette("#d4e4ff", "#2f66c4", "#0c2a5c"),
    "backward": Palette("#fbdcd3", "#b4432a", "#571a0c"),
}
DARK = {
    "data": Palette("#4a3f0b", "#e3bf3a", "#fff2c2"),
    "leaf": Palette("#0e4435", "#46d3a4", "#d5fff0"),
    "intermediate": Palette("#4b3420", "#d49a60", "#ffe8d1"),
    "operation": Palette("#193766", "#7db0ff", "#dfebff"),
    "group": Palette("#332d5e", "#a79bf0", "#e9e5ff"),
    "input": Palette("#0e4435", "#46d3a4", "#d5fff0"),
    "line": Palette("#193766", "#7db0ff", "#dfebff"),
    "backward": Palette("#5a2418", "#f09a83", "#ffe4dc"),
}
EDGE = "#8a93a5"  # visible on white and on black
