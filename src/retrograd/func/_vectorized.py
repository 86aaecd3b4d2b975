"""A function of one example made a function of many: ``vmap``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from retrograd.autograd._levels import as_tensor, opened
from retrograd.autograd._wrap import wrap
from retrograd.func._trees import broadcast_to, flatten, unflatten
from retrograd.ops import _batching_core as _batching_core  # rules of what is always loaded
from retrograd.ops import shaping
from retrograd.ops._batching import Batched, BatchLevel
from retrograd.tensor._tensor import Tensor


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None,
) -> Any:  # fmt: skip
    """``func`` for every entry along a dimension of its arguments, computed at once.

    >>> import retrograd as torch
    >>> from retrograd.func import vmap
    >>> vmap(torch.dot)(torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([[1., 1.], [0., 1.]]))
    tensor([3., 4.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @wraps(func)
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        values, dims, shape = _arguments(args, in_dims)
        size = _batch_size(values, dims)
        with opened(BatchLevel(size, randomness)) as level:
            lifted = [
                x if d is None else wrap(Batched(level, shaping.movedim(x, d, 0)))
                for x, d in zip(values, dims, strict=True)
            ]
            output = func(*unflatten(lifted, shape), **kwargs)
            return _unwrapped(level, output, out_dims)

    return vectorized


def _arguments(args: tuple[Any, ...], in_dims: Any) -> tuple[list[Any], list[Any], Any]:
    values, shape = flatten(args)
    dims = broadcast_to(in_dims, shape)
    if dims is None:
        raise ValueError(
            f"vmap(in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure "
            "of inputs"
        )
    plain = []
    for x, d in zip(values, dims, strict=True):
        if d is not None and not isinstance(x, Tensor):
            raise ValueError(
                f"vmap(in_dims={in_dims}, ...)(<inputs>): Got in_dim={d} for an input but the "
                f"input is of type {type(x)}. We cannot vmap over non-Tensor arguments, please use "
                "None as the respective in_dim"
            )
        if d is not None and not -x.dim() <= d < x.dim():
            raise ValueError(
                f"vmap(in_dims={in_dims}, ...)(<inputs>): Got in_dim={d} for some input, but that "
                f"input is a Tensor of dimensionality {x.dim()} so expected in_dim to satisfy "
                f"-{x.dim()} <= in_dim < {x.dim()}."
            )
        plain.append(d if d is None else d % x.dim())
    return values, plain, shape


def _batch_size(values: list[Any], dims: list[Any]) -> int:
    sizes = [x.shape[d] for x, d in zip(values, dims, strict=True) if d is not None]
    if not sizes:
        raise ValueError("vmap: at least one input must have a dimension to map over")
    if len(set(sizes)) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return int(sizes[0])


def _unwrapped(level: BatchLevel, output: Any, out_dims: Any) -> Any:
    """Results with the batch dimension where it is wanted."""
    results, shape = flatten(output)
    dims = broadcast_to(out_dims, shape)
    if dims is None:
        raise ValueError(
            f"vmap(..., out_dims={out_dims}): out_dims is not compatible with the structure of "
            "outputs"
        )
    found = []
    for y, d in zip(results, dims, strict=True):
        if not isinstance(y, Tensor):
            raise ValueError(
                f"vmap: the function must only return Tensors, got type {type(y)}. Did you mean to "
                "set out_dims= to None for output?"
            )
        value, batched = level.below(y._data) if level.owns(y._data) else (y, False)
        value = as_tensor(value)
        if not batched:  # the same for all
            value = value if d is None else as_tensor(level.stacked(value))
        found.append(shaping.movedim(value, 0, d) if d else value)
    return unflatten(found, shape)
