"""Activations without a kink: gelu, silu, mish, softplus, logsigmoid."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops._operation import composite, elementwise, raw
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel, without_complex_history
from retrograd.ops._words import DERIVATIVE
from retrograd.ops.comparisons import gt
from retrograd.ops.elementwise import exp, sigmoid
from retrograd.ops.networks._inplace import with_inplace
from retrograd.ops.networks.activations import _PAIR, _backward_of
from retrograd.ops.piecewise import abs, sgn, where
from retrograd.ops.pointwise.special import erf
from retrograd.ops.pointwise.trigonometry import tanh

# -- gelu ------------------------------------------------------------------------------------

_HALF_ROOT = 0.7071067811865476  # sqrt(0.5)
_DENSITY_AT_0 = 0.3989422804014327  # of the normal distribution: 1 / sqrt(2 * pi)
_TWO_BETA, _KAPPA = 1.5957691216057308, 0.044715  # 2 * sqrt(2 / pi); of the approximation by tanh


def _gelu_backward_defined(grad_output: Any, self: Any, approximate: str) -> Any:
    square = self * self
    if approximate == "none":
        normal = (erf(self * _HALF_ROOT) + 1) * 0.5
        return grad_output * (normal + self * (exp(square * -0.5) * _DENSITY_AT_0))
    # x times the logistic function s of u: its derivative is s + xs'.
    s = sigmoid(self * (square * _KAPPA + 1) * _TWO_BETA)
    derivative_of_u = (square * (3 * _KAPPA) + 1) * _TWO_BETA
    return grad_output * (s * (self * derivative_of_u * (1 - s) + 1))


gelu_backward = _backward_of("gelu_backward", _gelu_backward_defined, arrays.networks.gelu_backward)
gelu_op = elementwise(
    "gelu", arrays.networks.gelu,
    lambda g, self, approximate: gelu_backward(g, self, approximate=approximate),
    check=kernel("GeluKernelImpl", "biuc"), words=DERIVATIVE,
)  # fmt: skip


@public("functional")
def gelu(input: Any, approximate: str = "none") -> Any:
    """Gaussian error linear unit: ``x * Phi(x)``, Phi the normal distribution function.

    Args:
        approximate: "none" for the exact function, "tanh" for
            ``0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))``.

    Example:
        >>> torch.nn.functional.gelu(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.1587,  0.0000,  0.8413])
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return gelu_op(input, approximate=approximate)


# -- silu, mish ------------------------------------------------------------------------------


def _silu_backward(grad_output: Any, self: Any) -> Any:
    s = sigmoid(self)
    return grad_output * (s * (self * (1 - s) + 1))


def _mish_backward(grad_output: Any, self: Any) -> Any:
    s, t = sigmoid(self), tanh(softplus_op(self, beta=1, threshold=20))
    return grad_output * (t + self * s * (1 - t * t))


silu_backward = _backward_of(
    "silu_backward", _silu_backward,
    lambda grad_output, self: arrays.networks.silu_backward(grad_output, self),
)  # fmt: skip
silu_op = elementwise(
    "silu", lambda self: arrays.networks.silu(self), lambda g, self: silu_backward(g, self),
    check=kernel("silu_cpu", "biu"),
    words=DERIVATIVE,
)  # fmt: skip
mish_backward = _backward_of(
    "mish_backward", _mish_backward,
    lambda grad_output, self: arrays.networks.mish_backward(grad_output, self),
)  # fmt: skip
mish_op = elementwise(
    "mish", lambda self: arrays.networks.mish(self), lambda g, self: mish_backward(g, self),
    check=kernel("mish_cpu", "biuc"),
    words=DERIVATIVE,
)  # fmt: skip


@with_inplace()
def silu(input: Any) -> Any:
    """Sigmoid linear unit, also called swish: ``x * sigmoid(x)``.

    Example:
        >>> torch.nn.functional.silu(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.2689,  0.0000,  0.7311])
    """
    without_complex_history("silu", input)
    return silu_op(input)


@with_inplace()
def mish(input: Any) -> Any:
    """Mish: ``x * tanh(softplus(x))``.

    Example:
        >>> torch.nn.functional.mish(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.3034,  0.0000,  0.8651])
    """
    return mish_op(input)


# -- softplus, logsigmoid --------------------------------------------------------------------


def _softplus_backward(grad_output: Raw, self: Raw, beta: float, threshold: float) -> Raw:
    return arrays.networks.softplus_backward(grad_output, self, beta, threshold)


softplus_backward = _backward_of(
    "softplus_backward",
    lambda grad_output, self, beta, threshold: where(
        gt(raw(self) * beta, threshold), grad_output, grad_output * sigmoid(self * beta)
    ),
    _softplus_backward,
)  # fmt: skip
softplus_op = elementwise(
    "softplus", lambda self, beta, threshold: arrays.networks.softplus(self, beta, threshold),
    lambda g, self, beta, threshold: softplus_backward(g, self, beta=beta, threshold=threshold),
    check=kernel("softplus_cpu", "biuc"),
    words="The derivative of softplus is the sigmoid of the input.",
)  # fmt: skip


@public("functional")
def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """Smooth approximation of ReLU: ``log(1 + exp(beta * x)) / beta``.

    Args:
        beta: how closely the function follows ReLU.
        threshold: where ``beta * x`` is above it, the result is ``x``.

    Example:
        >>> torch.nn.functional.softplus(torch.tensor([-1.0, 0.0, 30.0]))
        tensor([ 0.3133,  0.6931, 30.0000])
    """
    return softplus_op(input, beta=beta, threshold=threshold)


def _log_sigmoid(self: Raw) -> tuple[Raw, Raw]:
    buffer = arrays.networks.exp_minus_abs(self)
    return arrays.networks.log_sigmoid(self, buffer), buffer


def _minus_softplus(self: Any) -> tuple[Any, Any]:
    # Beyond 40 softplus is its argument to the last bit.
    return -softplus_op(-self, beta=1, threshold=40), exp(-abs(self))


log_sigmoid_backward = _backward_of(
    "log_sigmoid_backward", lambda grad_output, self, buffer: grad_output * sigmoid(-self),
    lambda grad_output, self, buffer: arrays.networks.log_sigmoid_backward(
        grad_output, self, buffer
    ),
    inputs=(*_PAIR, "buffer"),
)  # fmt: skip


def _log_sigmoid_rule(g: Any, self: Any, buffer: Any) -> Any:
    derivative = None if g[0] is None else log_sigmoid_backward(g[0], self, raw(buffer))
    if g[1] is None:
        return derivative
    of_buffer = -g[1] * (sgn(self) * buffer)  # which only the rule itself uses
    return of_buffer if derivative is None else derivative + of_buffer


log_sigmoid_op = composite(
    "log_sigmoid", _minus_softplus, _log_sigmoid, outputs=("result", "buffer"), batch="pointwise",
    rules={"self": _log_sigmoid_rule}, check=kernel("log_sigmoid_cpu", "biuc"),
)  # fmt: skip


@public("functional")
def logsigmoid(input: Any) -> Any:
    """Logarithm of the sigmoid: ``log(1 / (1 + exp(-x)))``.

    It is computed without underflow for large negative inputs.

    Example:
        >>> torch.nn.functional.logsigmoid(torch.tensor([-100.0, 0.0]))
        tensor([-100.0000,   -0.6931])
    """
    return log_sigmoid_op(input)[0]
