"""Notebook display of tensors: their properties, and numbers or a picture.

Colours are laid over the background with a transparency that grows with the number, so that they
suit light and dark notebooks: red for positive numbers, blue for negative ones, yellow for what is
no number, or infinite.
"""

from __future__ import annotations

import itertools
import math
from html import escape
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.autograd._levels import value_of
from retrograd.ops._lifted import Lifted, on_meta

MOST_NUMBERS = 100  # elements that are shown as numbers
MOST_CELLS = 24  # of a picture, along each dimension
POSITIVE, NEGATIVE, NEITHER = "178, 24, 43", "33, 102, 172", "230, 171, 2"
CELL = "padding: 1px 6px; text-align: right; font-family: monospace; border: none; color: inherit"


def html(tensor: Any) -> str:
    """What ``Tensor._repr_html_`` returns."""
    data = value_of(tensor)
    if isinstance(data, Lifted) or on_meta(data):
        return f"<pre>{escape(repr(tensor))}</pre>"
    words = [f"{type(tensor).__name__} {list(tensor.shape)}", str(tensor.dtype)]
    if tensor.grad_fn is not None:
        words.append(f"grad_fn={type(tensor.grad_fn).__name__}")
    elif tensor.requires_grad:
        words.append("requires_grad")
    parts = [f"<div><b>{escape(words[0])}</b> {escape(', '.join(words[1:]))}</div>", shown(data)]
    grad = tensor.grad if tensor.is_leaf else None
    if grad is not None and not isinstance(value_of(grad), Lifted):
        parts += ["<div><b>.grad</b></div>", shown(value_of(grad))]
    return f"<div>{''.join(parts)}</div>"


def shown(data: Raw) -> str:
    """The elements of an array: as numbers if they are few, else as a picture."""
    data = arrays.asarray(data)
    if data.size == 0:
        return "<div>no elements</div>"
    sizes = magnitudes(data)
    finite = sizes[arrays.isfinite(sizes)]
    largest = float(abs(finite).max()) if finite.size else 0.0
    if data.size <= MOST_NUMBERS and data.ndim <= 2:
        rows = data.reshape(-1, data.shape[-1] if data.ndim else 1).tolist()
        table = sizes.reshape(len(rows), -1).tolist()
        return _table(rows, table, largest)
    return _picture(sizes) + _statistics(sizes, finite)


def magnitudes(data: Raw) -> Raw:
    """What colours are of: the elements, or the absolute values of complex ones."""
    return arrays.asarray(abs(data) if data.dtype.kind == "c" else data, arrays.float64)


def colour(x: float, largest: float) -> str:
    if not math.isfinite(x):
        return f"rgba({NEITHER}, 0.7)"
    strength = 0.75 * abs(x) / largest if largest else 0.0
    return f"rgba({POSITIVE if x > 0 else NEGATIVE}, {strength:.2f})"


def _table(rows: list[list[Any]], sizes: list[list[float]], largest: float) -> str:
    lines = []
    for row, of_row in zip(rows, sizes, strict=True):
        cells = [
            f'<td style="{CELL}; background: {colour(size, largest)}">{escape(_number(x))}</td>'
            for x, size in zip(row, of_row, strict=True)
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f'<table style="border-collapse: collapse; margin: 2px 0">{"".join(lines)}</table>'


def _number(x: Any) -> str:
    return f"{x:.4g}" if isinstance(x, (float, complex)) else str(x)


def _picture(sizes: Raw) -> str:
    """The last two dimensions, those before them one below the other, averaged to fit."""
    flat = sizes.reshape(-1, sizes.shape[-1])
    if len(flat) == 1:  # a long vector, folded
        width = math.ceil(math.sqrt(flat.size))
        whole = flat.size // width * width
        flat = flat[0, :whole].reshape(-1, width)  # a last row that is not full is left out
    rows, columns = (_bounds(n) for n in flat.shape)
    means = [[float(flat[a:b, c:d].mean()) for c, d in columns] for a, b in rows]
    largest = max((abs(x) for row in means for x in row if math.isfinite(x)), default=0.0)
    side = 8
    squares = [
        f'<rect x="{j * side}" y="{i * side}" width="{side}" height="{side}" '
        f'fill="{colour(mean, largest)}"/>'
        for i, row in enumerate(means)
        for j, mean in enumerate(row)
    ]
    width, height = len(columns) * side, len(rows) * side
    return (
        f'<svg width="{width}" height="{height}" role="img" style="display: block; margin: 2px 0">'
        f"{''.join(squares)}</svg>"
    )


def _bounds(size: int) -> list[tuple[int, int]]:
    """Intervals of almost the same length that a dimension is divided into."""
    count = min(size, MOST_CELLS)
    ends = [size * i // count for i in range(count + 1)]
    return list(itertools.pairwise(ends))


def _statistics(sizes: Raw, finite: Raw) -> str:
    if not finite.size:
        return "<div>no finite elements</div>"
    words = [f"min {finite.min():.4g}", f"mean {finite.mean():.4g}", f"max {finite.max():.4g}"]
    other = sizes.size - finite.size
    if other:
        words.append(f"{other:,} NaN or infinite")
    return f"<div>{', '.join(words)}</div>"
