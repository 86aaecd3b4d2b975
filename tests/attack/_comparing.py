"""Whether two results are the same, up to rounding.

The rules, which are few:

- Types, shapes, dtypes and ``requires_grad`` must be the same. So must integers and booleans.
- A derivative may have no history where PyTorch's has one, and be None where PyTorch's is zero:
  that tells how a rule is written. Not the other way round.
- Floats may differ by a part of the largest number in the result and in the operands of the line,
  which depends on the dtype. Gradients may by that of the coarsest dtype of the program.
- Infinities and NaN must be at the same places. Where numbers are complex, it is enough that both
  are not finite: which part is NaN differs between compilers.
- The sign of zero does not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

TOLERANCE = {"float16": 8e-3, "float32": 3e-5, "complex64": 3e-5}  # of float64: FINE
FINE = 1e-9


@dataclass
class Difference:
    """What a program does otherwise than in PyTorch, after its last line."""

    kind: str  # "error", "values", "gradient"...
    what: str  # an expression in the names of the program
    theirs: str
    ours: str
    size: float = 0.0  # how far apart values are
    line: str = ""  # the line after which it showed
    misfit: bool = False  # whether the line was drawn with operands that may well not fit

    def same_way(self, other: Difference | None) -> bool:
        """Whether another difference is of the same kind: one program may stand for both."""
        if other is None or self.kind != other.kind:
            return False
        if self.kind == "error":
            return (self.theirs.split(":")[0], self.ours.split(":")[0]) == (
                other.theirs.split(":")[0], other.ours.split(":")[0])  # fmt: skip
        if self.kind in ("dtype", "requires_grad", "type"):
            return (self.theirs, self.ours) == (other.theirs, other.ours)
        return True


def is_tensor(value: Any) -> bool:
    return hasattr(value, "retain_grad")  # other attributes may bring its history up to date


def as_array(tensor: Any) -> np.ndarray:
    """The elements of a tensor of either library: a copy, since PyTorch does not resize a tensor
    whose memory NumPy has seen."""
    return np.asarray(tensor.detach().clone().numpy(force=True))


def elements(tensor: Any) -> np.ndarray:
    """The elements of a tensor of retrograd's."""
    return np.asarray(tensor.numpy(force=True))


def largest(array: np.ndarray) -> float:
    """The largest finite magnitude; infinite if there is anything that is not finite."""
    if not array.size:
        return 0.0
    if array.dtype.kind in "biu":
        return float(max(abs(int(array.max())), abs(int(array.min()))))
    with np.errstate(all="ignore"):
        top = float(np.abs(array).max())
    return top if np.isfinite(top) else np.inf


def apart(a: np.ndarray, b: np.ndarray, tolerance: float, scale: float) -> float:
    """How far two arrays of one dtype and shape are apart; 0 if they count as the same."""
    if a.tobytes() == b.tobytes():
        return 0.0
    kind = a.dtype.kind
    if kind not in "fc":
        return float((a != b).sum())
    with np.errstate(all="ignore"):
        finite = np.isfinite(a)
        if not finite.all():
            if kind == "c":
                same = bool((finite == np.isfinite(b)).all())
            else:
                odd_a, odd_b = a[~finite], b[~finite]
                same = bool(((odd_a == odd_b) | (np.isnan(odd_a) & np.isnan(odd_b))).all())
            if not same:
                return np.inf
        elif not np.isfinite(b).all():
            return np.inf
        wide = np.complex128 if kind == "c" else np.float64
        x, y = a[finite].astype(wide), b[finite].astype(wide)
        if not x.size:
            return 0.0
        distance = float(np.abs(x - y).max())
        bound = tolerance * max(scale, float(np.abs(x).max()))
    if np.isnan(distance):
        return np.inf
    return distance if distance > bound else 0.0


def shown(value: Any) -> str:
    """A value in a few words."""
    if is_tensor(value):
        text = repr(as_array(value).tolist())
        return text if len(text) < 400 else text[:400] + "..."
    return repr(value)[:400]
