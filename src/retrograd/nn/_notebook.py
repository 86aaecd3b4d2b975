"""Notebook display of modules: a table of submodules and parameters."""

from __future__ import annotations

import math
from html import escape
from typing import Any

from retrograd.nn.lazy import is_lazy

MOST_ROWS = 200
CELL = "padding: 0 8px; font-family: monospace; border: none; color: inherit"
LEFT, RIGHT = f"{CELL}; text-align: left; white-space: pre", f"{CELL}; text-align: right"


def html(module: Any) -> str:
    """What ``Module._repr_html_`` returns: a row for each module, with the shapes of its own
    parameters and how many numbers they and those below it are."""
    parts = list(module.named_modules())
    rows = [_row("module", "kind", "parameters", "numbers", "th")]
    for path, part in parts[:MOST_ROWS]:
        depth = path.count(".") + 1 if path else 0
        own = [f"{n} {_shape(p)}" for n, p in part.named_parameters(recurse=False)]
        own += [f"{n} {_shape(b)} (buffer)" for n, b in part.named_buffers(recurse=False)]
        name = "  " * depth + (path.rpartition(".")[2] or "(whole)")
        options = part.extra_repr().split("\n")
        kind = part._get_name() + (f"({options[0]})" if options[0] and len(options) == 1 else "")
        count = sum(map(_count, part.parameters()))
        rows.append(_row(name, kind, ", ".join(own), f"{count:,}" if count else "", "td"))
    omitted = len(parts) - MOST_ROWS
    if omitted > 0:
        rows.append(_row(f"… {omitted:,} more", "", "", "", "td"))
    every = list(module.parameters())
    total = sum(map(_count, every))
    trained = sum(_count(p) for p in every if p.requires_grad)
    size = sum(_count(p) * p.element_size() for p in every)
    words = f"{total:,} parameters, {trained:,} of them to be trained, {_bytes(size)}"
    if any(is_lazy(p) for p in every):
        words += ", and more that have no shape yet"
    return (
        f'<div><b>{escape(module._get_name())}</b><table style="border-collapse: collapse">'
        f"{''.join(rows)}</table><div>{words}</div></div>"
    )


def _row(name: str, kind: str, shapes: str, count: str, tag: str) -> str:
    texts = ((name, LEFT), (kind, LEFT), (shapes, LEFT), (count, RIGHT))
    cells = [f'<{tag} style="{style}">{escape(text)}</{tag}>' for text, style in texts]
    return f"<tr>{''.join(cells)}</tr>"


def _shape(x: Any) -> str:
    if x is None or is_lazy(x):
        return "?"
    return "×".join(map(str, x.shape)) or "1"


def _count(x: Any) -> int:
    return 0 if is_lazy(x) else math.prod(x.shape)


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} GiB"
