"""Pictures of sparsity patterns: which entries there are, in the colours by which they are
computed."""

from __future__ import annotations

import io
import os
from html import escape
from typing import Any

from retrograd import arrays
from retrograd.files._atomic import write_as
from retrograd.viz._layout import need

# Twelve colours that can be told apart; further ones are repeated.
COLORS = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee7733", "#009988",
    "#7f5fbf", "#999933", "#882255", "#555555",
)  # fmt: skip
LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST_CELLS = 250  # along a side of a picture; of a larger pattern, a cell stands for a block
MOST_LETTERS = 72  # along a side, in text
SIDE = 480.0  # points along the longer side of a picture


class PatternPicture:
    """A picture of a sparsity pattern. ``print`` shows it as text, a notebook as a drawing, and
    ``save`` writes it to a file. Made by ``viz.sparsity``."""

    def __init__(self, shape: tuple[int, int], entries: tuple[Any, Any, Any], title: str) -> None:
        self.shape = shape
        self.title = title
        self._entries = entries  # rows, columns, and the colour of each entry

    def cells(self, most: int) -> tuple[dict[tuple[int, int], int], int]:
        """The colour of each cell that is not empty, and how many elements along a side a cell
        stands for."""
        size = max(1, -(-max(self.shape) // most))
        rows, columns, colors = self._entries
        last = zip((rows // size).tolist(), (columns // size).tolist(), colors.tolist(),
                   strict=True)  # fmt: skip
        return {(i, j): color for i, j, color in last}, size

    def __str__(self) -> str:
        """A line for each row: a letter for the colour of each entry, a dot where there is none."""
        cells, size = self.cells(MOST_LETTERS)
        height, width = (-(-n // size) for n in self.shape)
        lines = [
            "".join(
                LETTERS[cells[i, j] % len(LETTERS)] if (i, j) in cells else "·"
                for j in range(width)
            )
            for i in range(height)
        ]  # fmt: skip
        if size > 1:
            lines.append(f"(each letter stands for {size} × {size} elements)")
        return "\n".join(lines)

    def __repr__(self) -> str:
        rows, columns = self.shape
        return (
            f"<picture of a {rows} × {columns} pattern: print() shows it as text, a notebook draws "
            'it, .save("pattern.svg") writes it>'
        )

    @property
    def svg(self) -> str:
        """The picture as the text of an SVG file."""
        cells, size = self.cells(MOST_CELLS)
        height, width = (max(-(-n // size), 1) for n in self.shape)
        side = SIDE / max(height, width)
        gap = 0.08 * side if side > 4 else 0.0
        boxes = [
            f'<rect x="{8 + j * side + gap:.2f}" y="{28 + i * side + gap:.2f}" '
            f'width="{side - 2 * gap:.2f}" height="{side - 2 * gap:.2f}" '
            f'fill="{COLORS[color % len(COLORS)]}"/>'
            for (i, j), color in sorted(cells.items())
        ]  # fmt: skip
        title = escape(self.title)
        wide, high = max(width * side, 260) + 16, height * side + 36
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}" '
            f'viewBox="0 0 {wide:.0f} {high:.0f}" role="img">',
            f"<title>{title}</title>",
            f'<rect width="{wide:.0f}" height="{high:.0f}" fill="#ffffff"/>',
            f'<text x="8" y="18" font-family="DejaVu Sans, sans-serif" font-size="12" '
            f'fill="#222222">{title}</text>',
            f'<rect x="8" y="28" width="{width * side:.2f}" height="{height * side:.2f}" '
            'fill="#f4f4f4" stroke="#8a93a5"/>',
            *boxes, "</svg>",
        ])  # fmt: skip

    @property
    def png(self) -> bytes:
        """The picture as the bytes of a PNG file."""
        figures, canvases = need("matplotlib.figure"), need("matplotlib.backends.backend_agg")
        colors = need("matplotlib.colors")
        cells, size = self.cells(MOST_CELLS)
        height, width = (max(-(-n // size), 1) for n in self.shape)
        image = [[(0.957,) * 3] * width for _ in range(height)]
        for (i, j), color in cells.items():
            image[i][j] = colors.to_rgb(COLORS[color % len(COLORS)])
        longer = max(height, width)
        figure = figures.Figure(figsize=(6 * width / longer + 0.4, 6 * height / longer + 0.6),
                                dpi=120, layout="constrained")  # fmt: skip
        axes = figure.subplots()
        axes.imshow(image, interpolation="nearest", extent=(0, width, height, 0))
        if longer <= 60:  # lines between the cells
            axes.set_xticks(range(width + 1), minor=True)
            axes.set_yticks(range(height + 1), minor=True)
            axes.grid(which="minor", color="white", linewidth=1.5)
        axes.tick_params(which="both", length=0, labelbottom=False, labelleft=False)
        axes.set_title(self.title, fontsize=9)
        target = io.BytesIO()
        canvases.FigureCanvasAgg(figure).print_png(target)
        return target.getvalue()

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture. The ending of the name says how: .svg, .png or .txt."""
        write_as(path, {
            ".svg": lambda: self.svg, ".png": lambda: self.png, ".txt": lambda: f"{self}\n"
        })  # fmt: skip


def sparsity(matrix: Any, title: str | None = None) -> PatternPicture:
    """Draws the pattern of a sparse Jacobian or Hessian, or any other pattern.

    Entries that are computed together have one colour: that of their column in forward mode, that
    of their row in reverse mode or where the function is cut.

    Args:
        matrix: what ``sparse_jacobian`` or ``sparse_hessian`` returned, or a pattern: a SciPy
            sparse array, an array or a tensor whose entries that are not zero are shown.
        title: the title of the picture.

    Returns:
        A picture: ``print`` shows it as text, ``save`` writes it to a file.

    Example:
        >>> import retrograd as torch
        >>> from retrograd import viz
        >>> from retrograd.func import sparse_jacobian
        >>> jac = sparse_jacobian(lambda x: x[1:] * x[:-1], torch.ones(6), mode="forward")
        >>> print(viz.sparsity(jac))
        01····
        ·10···
        ··01··
        ···10·
        ····01
    """
    pattern = getattr(matrix, "pattern", None)
    if pattern is None:
        pattern = arrays.patterns.from_array(getattr(matrix, "_data", matrix))
    rows, columns = arrays.patterns.entries(pattern)
    own = columns * 0
    count = None
    if hasattr(matrix, "color_count"):
        count = matrix.color_count
        by_column = getattr(matrix, "column_colors", matrix.colors)
        own = by_column[columns]
        if hasattr(matrix, "row_colors"):
            colors = arrays.bidirectional.Colors(by_column, matrix.row_colors)
            by_rows = arrays.bidirectional.by_rows(pattern, colors)
            first = int(by_column.max(initial=-1)) + 1
            own = arrays.where(by_rows, matrix.row_colors[rows] + first, own)
    shape = (int(pattern.shape[0]), int(pattern.shape[1]))
    if title is None:
        colored = "" if count is None else f", {count} colour{'' if count == 1 else 's'}"
        title = f"{shape[0]} × {shape[1]}, {pattern.nnz} entries{colored}"
    return PatternPicture(shape, (rows, columns, own), title)
