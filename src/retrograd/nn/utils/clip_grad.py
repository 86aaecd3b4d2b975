"""Gradient clipping, by norm and by value."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from retrograd import arrays, linalg
from retrograd._modes import modes
from retrograd.arrays import Raw, dtypes
from retrograd.autograd._wrap import SPARSE, wrap
from retrograd.autograd.grad_mode import no_grad
from retrograd.ops.shapes.slicing import stack
from retrograd.tensor._creation import tensor
from retrograd.tensor._tensor import Tensor

Tensors = Iterable[Any] | Tensor


def _as_list(tensors: Tensors) -> list[Any]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: list[Any]) -> list[Any]:
    return [p.grad for p in parameters if p.grad is not None]


# -- kernels on the raw arrays of gradients --------------------------------------------


def _norm(x: Any, norm_type: float) -> Any:
    if type(x) in SPARSE:
        x = x.coalesce().values()
    data = x._data
    if isinstance(data, arrays.ndarray) and data.dtype.kind in dtypes.INEXACT and data.size:
        return wrap(arrays.statistics.vector_norm(data, norm_type, None, False))
    return linalg.vector_norm(x, norm_type)


def _scale(x: Raw, factor: Raw) -> None:
    x *= factor


def _clamp(x: Raw, low: Raw, high: Raw) -> None:
    x.clip(low, high, out=x)


def _update_in_place(g: Any, kernel: Callable[..., None], *numbers: float) -> bool:
    """Run a kernel on a gradient in place, if nothing else refers to it; returns whether it did."""
    if type(g) in SPARSE or g._meta is not None or modes.running is not None:
        return False
    if not arrays.can_add_to(g._data):
        return False
    arrays.updates.update(kernel, (g._data,), numbers)
    if g._version_counter is not None:
        g._version_counter.bump()
    return True


# -- public functions ------------------------------------------------------------------------------


@no_grad()
def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:  # fmt: skip
    """The norm of several tensors, as if they were concatenated to one vector.

    Args:
        tensors: the tensors, or one.

    Example:
        >>> torch.nn.utils.get_total_norm([torch.tensor([3.0]), torch.tensor([[4.0]])])
        tensor(5.)
    """
    each, norm_type = _as_list(tensors), float(norm_type)
    if not each:
        return tensor(0.0)
    norms = [_norm(x, norm_type) for x in each]
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
    """Multiply gradients by ``max_norm / total_norm``, if that is less than one.

    Args:
        parameters: tensors whose gradients are scaled in place.
        max_norm: largest norm allowed.
        total_norm: norm of all gradients, as ``get_total_norm`` computes it.

    Example:
        >>> w = torch.zeros(2, requires_grad=True)
        >>> w.grad = torch.tensor([3.0, 4.0])
        >>> torch.nn.utils.clip_grads_with_norm_(w, 1.0, torch.tensor(5.0))
        >>> w.grad
        tensor([0.6000, 0.8000])
    """
    gradients = _gradients(_as_list(parameters))
    if not gradients:
        return
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    known = factor.item() if arrays.is_raw(factor._data) else None
    if known == 1:  # the norm is small enough
        return
    for g in gradients:
        if known is None or not _update_in_place(g, _scale, known):
            g.mul_(factor)


@no_grad()
def clip_grad_norm_(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0,
    error_if_nonfinite: bool = False, foreach: bool | None = None,
) -> Any:  # fmt: skip
    """Scale gradients so that their total norm is at most ``max_norm``.

    Args:
        parameters: tensors whose gradients are scaled in place.
        max_norm: largest norm allowed.

    Returns:
        The norm before scaling.

    Example:
        >>> w = torch.zeros(2, requires_grad=True)
        >>> w.grad = torch.tensor([3.0, 4.0])
        >>> torch.nn.utils.clip_grad_norm_(w, max_norm=1.0), w.grad
        (tensor(5.), tensor([0.6000, 0.8000]))
    """
    each = _as_list(parameters)
    if not each and isinstance(parameters, types.GeneratorType):
        warnings.warn(
            "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3
        )
    total = get_total_norm(_gradients(each), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(each, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0,
    error_if_nonfinite: bool = False, foreach: bool | None = None,
) -> Any:  # fmt: skip
    """Deprecated name of ``clip_grad_norm_``.

    Args:
        parameters, max_norm, norm_type, error_if_nonfinite, foreach: see ``clip_grad_norm_``.

    Returns:
        The norm before scaling.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", FutureWarning)
        ...     torch.nn.utils.clip_grad_norm(torch.zeros(2, requires_grad=True), 1.0)
        tensor(0.)
    """
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning, stacklevel=2,
    )  # fmt: skip
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp every element of the gradients to ``[-clip_value, clip_value]``.

    Args:
        parameters: tensors whose gradients are clamped in place.
        clip_value: the bound.

    Example:
        >>> w = torch.zeros(2, requires_grad=True)
        >>> w.grad = torch.tensor([3.0, -0.5])
        >>> torch.nn.utils.clip_grad_value_(w, 1.0)
        >>> w.grad
        tensor([ 1.0000, -0.5000])
    """
    bound = float(clip_value)
    for g in _gradients(_as_list(parameters)):
        if not _update_in_place(g, _clamp, -bound, bound):
            g.clamp_(min=-bound, max=bound)


__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
           "get_total_norm"]  # fmt: skip
