"""Helpers of the rules of matrix decompositions.

Singular vectors and eigenvectors are defined only up to a factor: a sign, or a phase where numbers
are complex. The rules hold for losses that do not depend on it; one that depends on the phase has
no gradient, and that is an error, as in PyTorch. The gradients are those of the adjoint, written
out, since none of these is complex-differentiable.
"""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.ops._lifted import bare
from retrograd.ops._operation import raw
from retrograd.ops.algebra._matrix import adjoint, as_column, as_row, diagonal, is_complex
from retrograd.ops.copies import real

NO_EXPRESSION = "a matrix decomposition: no expression in other operations gives the factors"
_PHASE = 1e-2  # how far a loss may depend on a phase and still count as independent of it


def depends_on_phase(turns: Any) -> bool:
    phases = arrays.imag(bare(turns))
    return not arrays.linalg.allclose(phases, 0.0, _PHASE, _PHASE)


def gaps_between(values: Any) -> Any:
    """Each value less each other, and ones on the diagonal: what rotations are divided by. Where
    values repeat, the directions are not unique, and the gradient is infinite or NaN."""
    gaps = as_row(values) - as_column(values)
    return gaps + arrays.eye(values.shape[-1], dtype=raw(values).dtype)


def skew_part(x: Any) -> Any:
    return x - adjoint(x)


def real_diagonal(x: Any) -> Any:
    return real(diagonal(x)) if is_complex(x) else diagonal(x)


def records(x: Any) -> bool:
    """Whether a gradient may be asked for, which needs the vectors too."""
    return bool(getattr(x, "requires_grad", False))
