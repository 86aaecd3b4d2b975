"""Tensors: the class, the operations bound to it, and functions that create them."""

from retrograd.tensor import _methods as _methods
from retrograd.tensor import _operators as _operators
from retrograd.tensor._tensor import Size, Tensor, device

__all__ = ["Size", "Tensor", "device"]
