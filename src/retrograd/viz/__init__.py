"""Pictures of graphs and of backward passes: see what ``backward()`` does.

``draw`` makes a picture of a graph, ``explore`` a page that steps through a backward pass, and
``jvp`` one that steps through a Jacobian-vector product. ``recording`` records a program for these,
``difference`` says where two recordings part, ``Report`` follows a training run, ``gradient_flow``
shows how large gradients are, and ``sparsity`` which entries a Jacobian has.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrograd.viz._draw import draw as draw
    from retrograd.viz._report import Report as Report

# Loaded on first use: each needs modules that the others do not.
_PLACES = {
    "Report": "_report",
    "difference": "_difference",
    "draw": "_draw",
    "explore": "_explore",
    "gradient_flow": "_flow",
    "jvp": "_explore",
    "recording": "_recording",
    "sparsity": "_sparsity",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'retrograd.viz' has no attribute '{name}'")
    result = getattr(importlib.import_module(f"retrograd.viz.{_PLACES[name]}"), name)
    globals()[name] = result
    return result


def __dir__() -> list[str]:
    return [*globals(), *_PLACES]


__all__ = [
    "Report",
    "difference",
    "draw",
    "explore",
    "gradient_flow",
    "jvp",
    "recording",
    "sparsity",
]
