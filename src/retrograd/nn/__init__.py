"""Neural networks."""

from retrograd.nn import functional

__all__ = ["functional"]
