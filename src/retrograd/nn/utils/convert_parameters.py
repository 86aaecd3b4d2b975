"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from retrograd.nn._tree import typename
from retrograd.ops.shapes.slicing import cat
from retrograd.tensor._tensor import Tensor


def parameters_to_vector(parameters: Iterable[Any]) -> Any:
    """Flatten and concatenate parameters.

    Args:
        parameters: the parameters.

    Returns:
        A vector with a history.

    Example:
        >>> torch.nn.utils.parameters_to_vector(torch.nn.Linear(2, 3).parameters()).shape
        torch.Size([9])
    """
    return cat([p.view(-1) for p in parameters], dim=0)


def vector_to_parameters(vec: Any, parameters: Iterable[Any]) -> None:
    """Set parameters to consecutive pieces of a vector. They become views of its memory.

    Args:
        vec: the vector.
        parameters: the parameters to set.

    Example:
        >>> layer = torch.nn.Linear(2, 1)
        >>> torch.nn.utils.vector_to_parameters(torch.tensor([1.0, 2.0, 3.0]), layer.parameters())
        >>> layer(torch.tensor([10.0, 100.0]))
        tensor([213.], grad_fn=<ViewBackward0>)
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {typename(vec)}")
    start = 0
    for p in parameters:
        end = start + p.numel()
        p.data = vec[start:end].view_as(p).data
        start = end


__all__ = ["parameters_to_vector", "vector_to_parameters"]
