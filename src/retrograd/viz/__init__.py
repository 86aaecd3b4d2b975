"""Pictures of graphs and of backward passes: see what ``backward()`` does.

``draw`` makes a picture of a graph, ``explore`` a page that steps through a backward pass, and
``jvp`` one that steps through a Jacobian-vector product. ``recording`` records a program for these,
``difference`` says where two recordings part, ``Report`` follows a training run, ``gradient_flow``
shows how large gradients are, and ``sparsity`` which entries a Jacobian has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrograd._later import later

if TYPE_CHECKING:
    from retrograd.viz._draw import draw as draw
    from retrograd.viz._report import Report as Report

# Loaded on first use: each needs modules that the others do not.
_MODULES = {
    "Report": "_report",
    "difference": "_difference",
    "draw": "_draw",
    "explore": "_explore",
    "gradient_flow": "_flow",
    "jvp": "_explore",
    "recording": "_recording",
    "sparsity": "_sparsity",
}
__getattr__, __dir__ = later(__name__, names={n: f"viz.{m}" for n, m in _MODULES.items()})

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
