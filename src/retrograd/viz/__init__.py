"""Pictures of graphs and of backward passes: see what ``backward()`` does.

``draw`` makes a picture of a graph, ``explore`` a page that steps through a backward pass, and
``jvp`` one that steps through a Jacobian-vector product. ``recording`` records a program for these,
``difference`` says where two recordings part, ``Report`` follows a training run, ``gradient_flow``
shows how large gradients are, and ``sparsity`` which entries a Jacobian has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrograd._later import later as _later

if TYPE_CHECKING:
    from retrograd.viz._difference import difference
    from retrograd.viz._draw import draw
    from retrograd.viz._explore import explore, jvp
    from retrograd.viz._flow import gradient_flow
    from retrograd.viz._recording import recording
    from retrograd.viz._report import Report
    from retrograd.viz._sparsity import sparsity
else:  # loaded on first use: each needs modules that the others do not
    __getattr__, __dir__ = _later(__name__, names={
        "Report": "viz._report", "difference": "viz._difference", "draw": "viz._draw",
        "explore": "viz._explore", "gradient_flow": "viz._flow", "jvp": "viz._explore",
        "recording": "viz._recording", "sparsity": "viz._sparsity",
    })  # fmt: skip

__all__ = [
    "Report", "difference", "draw", "explore", "gradient_flow", "jvp", "recording", "sparsity",
]  # fmt: skip
