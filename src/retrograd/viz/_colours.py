"""Colours of pictures, the same as those of the page (page/page.css): yellow data, green leaves,
brown results, blue operations, grey groups. Those of programs: green inputs, blue lines, red lines
of the backward pass.

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
    "data": Palette("#fdf5bf", "#7a6700", "#4a3800"),
    "leaf": Palette("#d8f1e6", "#0a7a55", "#043d2d"),
    "intermediate": Palette("#f2e6d8", "#86592d", "#4a2a0d"),
    "operation": Palette("#dcedfb", "#0b62a4", "#0c2a5c"),
    "group": Palette("#eceef1", "#565d68", "#23272e"),
    "input": Palette("#c4eede", "#0b7a5b", "#043d2d"),
    "line": Palette("#d4e4ff", "#2f66c4", "#0c2a5c"),
    "backward": Palette("#fbdcd3", "#b4432a", "#571a0c"),
}
DARK = {
    "data": Palette("#453f12", "#eed94c", "#fff2c2"),
    "leaf": Palette("#16402f", "#4fcf9f", "#d5fff0"),
    "intermediate": Palette("#43331f", "#d2a679", "#ffe8d1"),
    "operation": Palette("#1b3a55", "#6db6f2", "#dfebff"),
    "group": Palette("#2e333b", "#a9b1bd", "#e7e8ea"),
    "input": Palette("#0e4435", "#46d3a4", "#d5fff0"),
    "line": Palette("#193766", "#7db0ff", "#dfebff"),
    "backward": Palette("#5a2418", "#f09a83", "#ffe4dc"),
}
EDGE = "#8a93a5"  # visible on white and on black
ACCENT = "#d9480f"  # what runs now, likewise
PAPER = {"light": "#ffffff", "dark": "#1e2024"}
