"""``autograd.explain``: a gradient explained in text. See ``_explain.py``."""

from retrograd.autograd._explaining._amounts import Amount
from retrograd.autograd._explaining._explain import explain
from retrograd.autograd._explaining._words import Explanation, Part, Path, Step

__all__ = ["Amount", "Explanation", "Part", "Path", "Step", "explain"]
