"""Tensors: the class, the operations bound to it, and ways to make them."""

from retrograd.tensor._methods import PUBLIC
from retrograd.tensor._tensor import Size, Tensor, device

__all__ = ["PUBLIC", "Size", "Tensor", "device"]
