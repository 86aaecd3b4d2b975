"""Initialization of parameters. Every function fills the tensor it is given and returns it."""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

from retrograd._later import MissingNameError
from retrograd.autograd.grad_mode import no_grad
from retrograd.ops._sections import complete_all, like
from retrograd.ops.piecewise import where
from retrograd.tensor._like import empty_like

_ONE = {"linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
        "conv_transpose3d", "sigmoid"}  # fmt: skip


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The recommended gain of an activation function for initialization.

    Args:
        nonlinearity: the function that follows: "linear", "conv1d" and so on, "sigmoid", "tanh",
            "relu", "leaky_relu" or "selu".
        param: the negative slope of "leaky_relu".

    Example:
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
    """Fill ``tensor`` with ``val``.

    Args:
        val: the value.

    Example:
        >>> torch.nn.init.constant_(torch.empty(2), 0.5)
        tensor([0.5000, 0.5000])
    """
    return tensor.fill_(val)


def ones_(tensor: Any) -> Any:
    """Fill ``tensor`` with ones.

    Example:
        >>> torch.nn.init.ones_(torch.empty(2))
        tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Any) -> Any:
    """Fill ``tensor`` with zeros.

    Example:
        >>> torch.nn.init.zeros_(torch.empty(2))
        tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


@no_grad()
def eye_(tensor: Any) -> Any:
    """Fill a matrix with ones on the diagonal and zeros elsewhere.

    Args:
        tensor: a matrix.

    Example:
        >>> torch.nn.init.eye_(torch.empty(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    tensor.zero_()
    tensor.diagonal().fill_(1)
    return tensor


@no_grad()
def dirac_(tensor: Any, groups: int = 1) -> Any:
    """Fill the filters of a convolution so that it preserves as many channels as possible.

    Args:
        tensor: the weight of a convolution, with 3, 4 or 5 dimensions.
        groups: number of groups of the convolution.

    Example:
        >>> torch.nn.init.dirac_(torch.empty(1, 1, 3))
        tensor([[[0., 1., 0.]]])
    """
    if tensor.ndimension() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    outputs, inputs, *window = tensor.shape
    if outputs % groups:
        raise ValueError("dim 0 must be divisible by groups")
    tensor.zero_()
    for group in range(groups):
        for d in range(min(outputs // groups, inputs)):
            index = (group * (outputs // groups) + d, d, *(size // 2 for size in window))
            tensor[index] = 1
    return tensor


# -- random numbers ----------------------------------------------------------------------------


@no_grad()
def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    """Fill ``tensor`` from the uniform distribution on ``[a, b)``.

    Args:
        a: lower bound.
        b: upper bound.

    Example:
        >>> torch.nn.init.uniform_(torch.empty(100), 2.0, 3.0).min() >= 2
        tensor(True)
    """
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Fill ``tensor`` from a normal distribution.

    Args:
        mean: mean.
        std: standard deviation.

    Example:
        >>> torch.nn.init.normal_(torch.empty(3, 5), std=0.1).shape
        torch.Size([3, 5])
    """
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def trunc_normal_(
    tensor: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
    generator: Any = None,
) -> Any:  # fmt: skip
    """Fill ``tensor`` from a normal distribution that is restricted to ``[a, b]``.

    Args:
        mean: mean of the distribution before it is restricted.
        std: standard deviation before it is restricted.
        a: lower bound.
        b: upper bound.

    Example:
        >>> torch.nn.init.trunc_normal_(torch.empty(100)).abs().max() <= 2
        tensor(True)
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be incorrect.",
            stacklevel=2,
        )
    inside = _normal_cdf((b - mean) / std) - _normal_cdf((a - mean) / std)
    draw = _by_rejecting_normal if inside > 0.3 else _by_rejecting_uniform
    return draw(tensor, mean, std, a, b, generator)


def _normal_cdf(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def _by_rejecting_normal(
    tensor: Any, mean: float, std: float, a: float, b: float, generator: Any
) -> Any:
    low, high = (tensor.new_tensor(bound).item() for bound in (a, b))
    tensor.normal_(mean, std, generator=generator)
    while (outside := (tensor < low) | (tensor > high)).any():
        again = empty_like(tensor).normal_(mean, std, generator=generator)
        tensor.copy_(where(outside, again, tensor))
    return tensor


def _by_rejecting_uniform(
    tensor: Any, mean: float, std: float, a: float, b: float, generator: Any
) -> Any:
    """Rejection sampling from uniform numbers, for bounds that few normal numbers fall between."""
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
    """The number of inputs of each output of a layer, and of outputs of each input."""
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    window = math.prod(tensor.shape[2:])
    return tensor.shape[1] * window, tensor.shape[0] * window


_calculate_fan_in_and_fan_out = _fans


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Glorot initialization: uniform on ``[-b, b]``, ``b = gain * sqrt(6 / (fan_in + fan_out))``.

    Args:
        tensor: weight with at least two dimensions.
        gain: factor, see ``calculate_gain``.

    Example:
        >>> torch.nn.init.xavier_uniform_(torch.empty(2, 3)).abs().max() <= (6 / 5) ** 0.5
        tensor(True)
    """
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / float(sum(_fans(tensor))))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Glorot initialization: normal, ``std = gain * sqrt(2 / (fan_in + fan_out))``.

    Args:
        tensor: weight with at least two dimensions.
        gain: factor, see ``calculate_gain``.

    Example:
        >>> torch.nn.init.xavier_normal_(torch.empty(2, 3)).shape
        torch.Size([2, 3])
    """
    std = gain * math.sqrt(2.0 / float(sum(_fans(tensor))))
    return normal_(tensor, 0.0, std, generator)


def _kaiming_std(tensor: Any, a: float, mode: str, nonlinearity: str) -> float | None:
    """The standard deviation that preserves variance through rectifiers; None for an empty tensor.
    """
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
    """He initialization: uniform on ``[-b, b]``, ``b = gain * sqrt(3 / fan)``.

    Args:
        tensor: weight with at least two dimensions.
        a: negative slope, for "leaky_relu".
        mode: "fan_in" preserves the variance of values, "fan_out" that of gradients.
        nonlinearity: determines the gain, see ``calculate_gain``.

    Example:
        >>> torch.nn.init.kaiming_uniform_(torch.empty(2, 6)).abs().max() <= 1
        tensor(True)
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


@like(kaiming_uniform_)
def kaiming_normal_(
    tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:  # fmt: skip
    """He initialization: normal, ``std = gain / sqrt(fan)``.

    Example:
        >>> torch.nn.init.kaiming_normal_(torch.empty(2, 6), nonlinearity="relu").shape
        torch.Size([2, 6])
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0.0, std, generator)


@no_grad()
def orthogonal_(tensor: Any, gain: float = 1, generator: Any = None) -> Any:
    """Fill a matrix with random orthogonal rows or columns, whichever are fewer.

    Args:
        tensor: tensor with at least two dimensions; all but the first are flattened.
        gain: factor.

    Example:
        >>> q = torch.nn.init.orthogonal_(torch.empty(2, 3))
        >>> torch.allclose(q @ q.T, torch.eye(2), atol=1e-6)
        True
    """
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
    """Fill a matrix from a normal distribution, with a share of zeros in each column.

    Args:
        tensor: a matrix.
        sparsity: share of zeros.
        std: standard deviation of the other elements.

    Example:
        >>> (torch.nn.init.sparse_(torch.empty(4, 2), sparsity=0.5) == 0).sum(0)
        tensor([2, 2])
    """
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


_DEPRECATED = ("constant", "dirac", "eye", "kaiming_normal", "kaiming_uniform", "normal",
               "orthogonal", "sparse", "uniform", "xavier_normal", "xavier_uniform")  # fmt: skip


def __getattr__(name: str) -> Any:
    """The older names of the functions, which warn."""
    if name not in _DEPRECATED:
        raise MissingNameError(name, __name__)
    function = globals()[f"{name}_"]

    @functools.wraps(function)
    def older(*args: Any, **named: Any) -> Any:
        warnings.warn(
            f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.",
            FutureWarning, stacklevel=2,
        )  # fmt: skip
        return function(*args, **named)

    return older


__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_",
    "normal_", "ones_", "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_",
    "xavier_uniform_", "zeros_",
]  # fmt: skip

complete_all(
    globals(), {"tensor": "tensor to fill.", "generator": "source of random numbers."},
    results={"tensor": "``tensor``."},
)  # fmt: skip
