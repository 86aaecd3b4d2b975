"""Gradients kept from growing too large."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from retrograd import arrays, linalg
from retrograd._modes import modes
from retrograd.arrays import Raw
from retrograd.autograd._wrap import wrap
from retrograd.autograd.grad_mode import no_grad
from retrograd.ops.shaping import stack
from retrograd.tensor._creation import tensor
from retrograd.tensor._tensor import Tensor

Tensors = Iterable[Any] | Tensor


def _listed(tensors: Tensors) -> list[Any]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: list[Any]) -> list[Any]:
    return [p.grad for p in parameters if p.grad is not None]


# -- gradients as raw arrays, where they are plain ones --------------------------------------------


def _norm(x: Any, norm_type: float) -> Any:
    data = x._data
    if isinstance(data, arrays.ndarray) and data.dtype.kind in "fc" and data.size:
        return wrap(arrays.statistics.vector_norm(data, norm_type, None, False))
    return linalg.vector_norm(x, norm_type)


def _times(x: Raw, factor: Raw) -> None:
    x *= factor


def _between(x: Raw, low: Raw, high: Raw) -> None:
    x.clip(low, high, out=x)


def _written(g: Any, kernel: Callable[..., None], *numbers: float) -> bool:
    """Write into a gradient that is nothing else to anybody; whether it is one."""
    if g._meta is not None or modes.running is not None or not arrays.can_add_to(g._data):
        return False
    arrays.updates.update(kernel, (g._data,), numbers)
    if g._version_counter is not None:
        g._version_counter.bump()
    return True


# -- what users call -------------------------------------------------------------------------------


@no_grad()
def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:  # fmt: skip
    """The norm of several tensors, as if they were one vector.

    >>> import retrograd as torch
    >>> torch.nn.utils.get_total_norm([torch.tensor([3.0]), torch.tensor([[4.0]])])
    tensor(5.)
    """
    several, norm_type = _listed(tensors), float(norm_type)
    if not several:
        return tensor(0.0)
    norms = [_norm(x, norm_type) for x in several]
    total = linalg.vector_norm(stack(norms, dim=0), norm_type)
    if error_if_nonfinite and not total.isfinite():
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Any, foreach: bool | None = None
) -> None:
    """Scale gradients so that their norm, which is known, is at most ``max_norm``."""
    gradients = _gradients(_listed(parameters))
    if not gradients:
        return
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    known = factor.item() if arrays.is_raw(factor._data) else None
    if known == 1:  # the norm is small enough
        return
    for g in gradients:
        if known is None or not _written(g, _times, known):
            g.mul_(factor)


@no_grad()
def clip_grad_norm_(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0,
    error_if_nonfinite: bool = False, foreach: bool | None = None,
) -> Any:  # fmt: skip
    """Scale gradients so that the norm of all of them together is at most ``max_norm``, and give
    back what it was.

    >>> import retrograd as torch
    >>> w = torch.zeros(2, requires_grad=True)
    >>> w.grad = torch.tensor([3.0, 4.0])
    >>> torch.nn.utils.clip_grad_norm_(w, max_norm=1.0), w.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    several = _listed(parameters)
    if not several and isinstance(parameters, types.GeneratorType):
        warnings.warn(
            "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3
        )
    total = get_total_norm(_gradients(several), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(several, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0,
    error_if_nonfinite: bool = False, foreach: bool | None = None,
) -> Any:  # fmt: skip
    """The older name of :func:`clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning, stacklevel=2,
    )  # fmt: skip
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Move every element of the gradients into ``[-clip_value, clip_value]``.

    >>> import retrograd as torch
    >>> w = torch.zeros(2, requires_grad=True)
    >>> w.grad = torch.tensor([3.0, -0.5])
    >>> torch.nn.utils.clip_grad_value_(w, 1.0)
    >>> w.grad
    tensor([ 1.0000, -0.5000])
    """
    bound = float(clip_value)
    for g in _gradients(_listed(parameters)):
        if not _written(g, _between, -bound, bound):
            g.clamp_(min=-bound, max=bound)


__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
           "get_total_norm"]  # fmt: skip
