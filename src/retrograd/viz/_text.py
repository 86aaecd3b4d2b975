"""Text in boxes: its contents and width."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any, NamedTuple

from retrograd.autograd._explaining._words import bytes_text
from retrograd.viz._model import Graph, Item
from retrograd.viz._values import Value

SHOWS = ("values", "gradients", "saved", "source")
LARGE, SMALL = 13.0, 11.0  # font sizes
LINE = 1.35  # line height, relative to the font size
LONGEST = 34  # characters in a line
SEPARATORS = " ._,/-"  # of words
WORD_ENDS = r"[ ._,/-]"
LONGEST_STATEMENT = 56
STATEMENTS = ("line", "backward")  # kinds of boxes that show a statement of a program

# Widths of the characters from space to ~ in hundredths of the size of letters, in DejaVu Sans, the
# widest of the usual typefaces: what fits in it fits in all of them.
_PLAIN = (
    32, 40, 46, 84, 64, 95, 78, 28, 39, 39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 64, 34, 34, 84, 84, 84, 53, 100, 68, 69, 70, 77, 63, 58, 78, 75, 30, 30, 66, 56, 86,
    75, 79, 60, 79, 70, 64, 61, 73, 68, 99, 69, 61, 69, 39, 34, 39, 84, 50, 50, 61, 64, 55, 64,
    62, 35, 64, 63, 28, 28, 58, 28, 97, 63, 61, 64, 64, 41, 52, 39, 63, 59, 82, 59, 59, 53, 64,
    34, 64, 84,
)  # fmt: skip
_BOLD = (
    35, 46, 52, 84, 70, 100, 87, 31, 46, 46, 52, 84, 38, 42, 38, 37, 70, 70, 70, 70, 70, 70, 70,
    70, 70, 70, 40, 40, 84, 84, 84, 58, 100, 77, 76, 73, 83, 68, 68, 82, 84, 37, 37, 77, 64, 100,
    84, 85, 73, 85, 77, 72, 68, 81, 77, 110, 77, 72, 73, 46, 37, 46, 84, 50, 50, 67, 72, 59, 72,
    68, 44, 72, 71, 34, 34, 67, 34, 104, 71, 69, 72, 72, 49, 60, 48, 71, 65, 92, 65, 65, 58, 71,
    37, 71, 84,
)  # fmt: skip
_OTHER, _WIDE = 108, 140  # letters of other scripts; ideographs and emoji


class Line(NamedTuple):
    """A line of a box."""

    text: str
    bold: bool = False
    size: float = SMALL

    @property
    def width(self) -> float:
        return width(self.text, self.size, self.bold)


def width(text: str, size: float, bold: bool = False) -> float:
    """How wide a text is at most.

    >>> width("Tanh", 13.0) < width("Tanh", 13.0, bold=True) < 45
    True
    """
    widths, total = _BOLD if bold else _PLAIN, 0
    for character in text:
        code = ord(character)
        if 32 <= code < 127:
            total += widths[code - 32]
        elif unicodedata.combining(character):
            continue
        else:
            total += _WIDE if unicodedata.east_asian_width(character) in "WF" else _OTHER
    return total / 100 * size


def shortened(text: str, longest: int = LONGEST) -> str:
    """A text in one line, without control characters, and with its middle left out if it is long:
    whole words, where words are short enough.

    >>> shortened("a_very_long_name_of_some_parameter.weight", 20)
    'a_very_…weight'
    """
    plain = "".join(c if c.isprintable() else " " for c in text).strip()
    if len(plain) <= longest:
        return plain
    half = longest // 2
    left, right = plain[:half], plain[-(longest - half - 1) :]
    words = [m.end() for m in re.finditer(WORD_ENDS, left)]
    if plain[half] not in SEPARATORS and words and words[-1] > half // 2:
        left = left[: words[-1]]
    words = [m.end() for m in re.finditer(WORD_ENDS, right)]
    before = plain[-(longest - half)]
    if before not in SEPARATORS and words and words[0] < len(right) - len(right) // 2:
        right = right[words[0] :]
    return f"{left}…{right}"


def shape_text(item: Item) -> str:
    """``[2, 3] float32``."""
    if item.shape is None:
        return ""
    shape = f"[{', '.join(map(str, item.shape))}]" if item.shape else "scalar"
    return f"{shape} {item.dtype or ''}".strip()


def number_text(x: Any) -> str:
    """A number in few digits."""
    if isinstance(x, list):
        return f"{number_text(x[0])}{'+' if not str(x[1]).startswith('-') else ''}" + (
            f"{number_text(x[1])}i"
        )
    return x if isinstance(x, str) else f"{x:.4g}"


def value_text(value: Value | None, most: int = 6, longest: int = LONGEST) -> str:
    """A value in one short line: its elements if they are few, otherwise the range."""
    return "" if value is None else json_text(value.to_json(), most, longest)


def json_text(result: dict[str, Any], most: int = 6, longest: int = LONGEST) -> str:
    """The same of a value as JSON."""
    data = result["data"]
    if data is not None and not result["shape"]:
        return number_text(data[0])
    if data is not None and len(data) <= most:
        text = "[" + ", ".join(map(number_text, data)) + "]"
        if len(text) <= longest:
            return text
    if result["min"] is None:
        return f"norm {number_text(result['norm'])}" if result["norm"] is not None else ""
    bad = [f"{result[kind]} {kind}" for kind in ("nan", "inf") if result[kind]]
    return ", ".join([f"{number_text(result['min'])} … {number_text(result['max'])}", *bad])


def lines_of(graph: Graph | None, item: Item, show: Iterable[str]) -> list[Line]:
    """What the box of an item says. Only its source needs the graph."""
    show = set(show)
    if item.kind in ("operation", "group"):
        lines = _operation_lines(item)
    elif item.kind in STATEMENTS:
        lines = [Line(shortened(item.label, LONGEST_STATEMENT), True, SMALL + 1)]
        lines += [Line(text) for text in (shape_text(item), *item.details) if text]
    else:
        shape = shape_text(item)
        title = item.name or ("" if shape else item.label)
        lines = [Line(shortened(title), True, LARGE)] if title else []
        if shape:
            lines.append(Line(shape))
        if "values" in show and (text := value_text(item.value)):
            lines.append(Line(f"= {text}"))
        if "gradients" in show and (text := value_text(item.grad)):
            lines.append(Line(f"grad {text}"))
        lines += [Line(shortened(detail)) for detail in item.details]
        lines += [Line(text, True) for text in item.room]
    if "saved" in show and item.kind == "operation" and item.bytes is not None:
        lines.append(Line("saved values freed" if item.freed else saved_text(item)))
    has_source = item.kind in ("operation", "group", *STATEMENTS)
    if "source" in show and graph is not None and item.place is not None and has_source:
        number, line = item.place
        where = f"{graph.files.name(number)}:{line}"
        text = graph.files.text(item.place)
        lines.append(Line(shortened(where)))
        if text:
            lines.append(
                Line(shortened(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"))
            )
    return lines


def result_lines(item: Item, show: Iterable[str]) -> list[Line]:
    """What the box of an operation says about one of its results: ``h: [2, 3] float32``."""
    lines = [Line(shortened(": ".join(filter(None, [item.name, shape_text(item)]))))]
    if "values" in show and (text := value_text(item.value)):
        lines.append(Line(f"= {text}"))
    if "gradients" in show and (text := value_text(item.grad)):
        lines.append(Line(f"grad {text}"))
    return [line for line in lines if line.text]


def _operation_lines(item: Item) -> list[Line]:
    lines = [Line(shortened(item.label), True, LARGE)]
    if item.kind == "group" and item.name and item.name != item.label:
        lines.append(Line(shortened(item.name)))
    if item.details:
        lines.append(Line(shortened(", ".join(item.details))))
    return lines


def saved_text(item: Item) -> str:
    """What an operation keeps: ``saves self, other: 48 bytes``."""
    custom = item.saved and item.saved[0].startswith("saved_tensors")
    what = f"{len(item.saved)} tensors" if custom else ", ".join(item.saved) or "nothing"
    return shortened(f"saves {what}: {bytes_text(item.bytes or 0)}")
