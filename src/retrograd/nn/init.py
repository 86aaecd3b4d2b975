"""Initial values of parameters. Every function writes into the tensor it is given."""

from __future__ import annotations

import math
import warnings
from typing import Any

from retrograd.autograd.grad_mode import no_grad
from retrograd.ops.elementwise import where
from retrograd.tensor._creation import empty_like

_ONE = {"linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
        "conv_transpose3d", "sigmoid"}  # fmt: skip


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """How much larger weights must be before an activation, to keep the variance.

    >>> round(calculate_gain("relu"), 4)
    1.4142
    """
    if nonlinearity in _ONE:
        return 1
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    known = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
    if nonlinearity not in known:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return known[nonlinearity]


# -- constants ---------------------------------------------------------------------------------


@no_grad()
def constant_(tensor: Any, val: float) -> Any:
    """Fill a tensor with one value."""
    return tensor.fill_(val)


def ones_(tensor: Any) -> Any:
    """Fill a tensor with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Any) -> Any:
    """Fill a tensor with zeros."""
    return constant_(tensor, 0.0)


@no_grad()
def eye_(tensor: Any) -> Any:
    """Ones on the diagonal of a matrix, zeros elsewhere."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    tensor.zero_()
    tensor.diagonal().fill_(1)
    return tensor


@no_grad()
def dirac_(tensor: Any, groups: int = 1) -> Any:
    """Filters of a convolution that pass on as many channels as they can."""
    if tensor.ndimension() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    outputs, inputs, *window = tensor.shape
    if outputs % groups:
        raise ValueError("dim 0 must be divisible by groups")
    tensor.zero_()
    for group in range(groups):
        for d in range(min(outputs // groups, inputs)):
            place = (group * (outputs // groups) + d, d, *(size // 2 for size in window))
            tensor[place] = 1
    return tensor


# -- random numbers ----------------------------------------------------------------------------


@no_grad()
def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    """Numbers from ``[a, b)``, all equally likely."""
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Numbers of a normal distribution."""
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def trunc_normal_(
    tensor: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
    generator: Any = None,
) -> Any:  # fmt: skip
    """Numbers of a normal distribution that lie in ``[a, b]``; others are drawn again."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be incorrect.",
            stacklevel=2,
        )
    inside = _below((b - mean) / std) - _below((a - mean) / std)
    draw = _drawn_normal if inside > 0.3 else _drawn_evenly
    return draw(tensor, mean, std, a, b, generator)


def _below(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def _drawn_normal(
    tensor: Any, mean: float, std: float, a: float, b: float, generator: Any
) -> Any:
    low, high = (tensor.new_tensor(bound).item() for bound in (a, b))
    tensor.normal_(mean, std, generator=generator)
    while (outside := (tensor < low) | (tensor > high)).any():
        again = empty_like(tensor).normal_(mean, std, generator=generator)
        tensor.copy_(where(outside, again, tensor))
    return tensor


def _drawn_evenly(
    tensor: Any, mean: float, std: float, a: float, b: float, generator: Any
) -> Any:
    """For bounds far out, where few normal numbers fall: even ones, kept as the density says."""
    mode = max(a, min(mean, b))
    log_peak = -0.5 * ((mode - mean) / std) ** 2

    def refused(candidates: Any) -> Any:
        log_density = candidates.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(log_peak)
        return empty_like(tensor).uniform_(generator=generator).log_().gt(log_density)

    tensor.uniform_(a, b, generator=generator)
    pending = refused(tensor)
    while pending.any():
        candidates = empty_like(tensor).uniform_(a, b, generator=generator)
        tensor.copy_(where(pending, candidates, tensor))
        pending = pending & refused(candidates)
    return tensor


def _fans(tensor: Any) -> tuple[int, int]:
    """How many inputs each output of a layer has, and how many outputs each input."""
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    window = math.prod(tensor.shape[2:])
    return tensor.shape[1] * window, tensor.shape[0] * window


_calculate_fan_in_and_fan_out = _fans


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Even numbers of a variance that keeps that of values and of gradients alike.

    >>> import retrograd as torch
    >>> torch.nn.init.xavier_uniform_(torch.empty(2, 3)).abs().max() <= (6 / 5) ** 0.5
    tensor(True)
    """
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / float(sum(_fans(tensor))))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """As ``xavier_uniform_``, of a normal distribution."""
    std = gain * math.sqrt(2.0 / float(sum(_fans(tensor))))
    return normal_(tensor, 0.0, std, generator)


def _kaiming_std(tensor: Any, a: float, mode: str, nonlinearity: str) -> float | None:
    """The deviation that keeps the variance through rectifiers; None for a tensor of nothing."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return None
    modes = ("fan_in", "fan_out")
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {list(modes)}")
    fan = _fans(tensor)[modes.index(mode.lower())]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:  # fmt: skip
    """Even numbers of a variance that keeps that of values (``fan_in``) or of gradients."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:  # fmt: skip
    """As ``kaiming_uniform_``, of a normal distribution."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0.0, std, generator)


@no_grad()
def orthogonal_(tensor: Any, gain: float = 1, generator: Any = None) -> Any:
    """A random matrix with orthogonal rows or columns, whichever are fewer."""
    from retrograd.linalg import qr

    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if not tensor.numel():
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    flat = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
    q, r = qr(flat.t() if rows < columns else flat)
    q = q * r.diagonal().sign()  # so that all orthogonal matrices are equally likely
    tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape))
    return tensor.mul_(gain)


@no_grad()
def sparse_(
    tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None
) -> Any:
    """Normal numbers, of which a part of each column is zero."""
    from retrograd.tensor._randoms import randperm

    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        order: Any = randperm(rows)
        zeros = order[: math.ceil(sparsity * rows)]
        tensor[zeros, column] = 0
    return tensor


__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_",
    "normal_", "ones_", "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_",
    "xavier_uniform_", "zeros_",
]  # fmt: skip
