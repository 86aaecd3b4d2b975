"""Activations without a kink: gelu, silu, mish, softplus, logsigmoid."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops._operation import Elementwise, Operation, elementwise, raw
from retrograd.ops._refusals import kernel, without_complex_history
from retrograd.ops.elementwise import exp, sgn, sigmoid, tanh
from retrograd.ops.networks.activations import _PAIR, _chosen, _slope, _written

# -- gelu ------------------------------------------------------------------------------------

_DENSITY_AT_0 = 0.3989422804014327  # of the normal distribution: 1 / sqrt(2 * pi)
_TWO_BETA, _KAPPA = 1.5957691216057308, 0.044715  # 2 * sqrt(2 / pi); of the approximation by tanh


def _gelu(self: Raw, approximate: str) -> Raw:
    return arrays.networks.gelu(self, approximate)


def _gelu_slope(grad_output: Raw, self: Raw, approximate: str) -> Raw:
    return arrays.networks.gelu_slope(grad_output, self, approximate)


def _gelu_bend(g: Any, grad_output: Any, self: Any, approximate: str) -> Any:
    square = self * self
    if approximate == "none":
        return g * grad_output * (exp(square * -0.5) * (2 - square) * _DENSITY_AT_0)
    # x times the logistic function s of u: its bend is 2s' + xs''.
    s = sigmoid(self * (square * _KAPPA + 1) * _TWO_BETA)
    slope_of_u, steepness = (square * (3 * _KAPPA) + 1) * _TWO_BETA, s * (1 - s)
    second = (1 - 2 * s) * (slope_of_u * slope_of_u) + self * (6 * _KAPPA * _TWO_BETA)
    return g * grad_output * (steepness * (2 * slope_of_u + self * second))


gelu_slope: Elementwise = _slope(
    "gelu_slope", _gelu_slope,
    lambda g, self, approximate: gelu_slope(g, self, approximate=approximate), _gelu_bend,
    node="GeluBackwardBackward0",
)  # fmt: skip
gelu_op = elementwise(
    "gelu", _gelu, lambda g, self, approximate: gelu_slope(g, self, approximate=approximate),
    check=kernel("GeluKernelImpl", "biuc"),
)  # fmt: skip


def gelu(input: Any, approximate: str = "none") -> Any:
    """``input`` times the normal distribution function; with ``approximate="tanh"``, nearly.

    >>> import retrograd as torch
    >>> torch.nn.functional.gelu(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.0000,  0.8413])
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return gelu_op(input, approximate=approximate)


# -- silu, mish ------------------------------------------------------------------------------


def _silu_bend(g: Any, grad_output: Any, self: Any) -> Any:
    s = sigmoid(self)
    return g * grad_output * (s * (1 - s) * (2 + self * (1 - 2 * s)))


def _mish_bend(g: Any, grad_output: Any, self: Any) -> Any:
    s, t = sigmoid(self), tanh(softplus_op(self, beta=1, threshold=20))
    bend = s * (1 - t * t) * (2 + self * (1 - s - 2 * s * t))
    return g * grad_output * bend


silu_slope: Elementwise = _slope(
    "silu_slope", lambda grad_output, self: arrays.networks.silu_slope(grad_output, self),
    lambda g, self: silu_slope(g, self), _silu_bend, node="SiluBackwardBackward0",
)  # fmt: skip
silu_op = elementwise(
    "silu", lambda self: arrays.networks.silu(self), lambda g, self: silu_slope(g, self),
    check=kernel("silu_cpu", "biu"),
)  # fmt: skip
mish_slope: Elementwise = _slope(
    "mish_slope", lambda grad_output, self: arrays.networks.mish_slope(grad_output, self),
    lambda g, self: mish_slope(g, self), _mish_bend, node="MishBackwardBackward0",
)  # fmt: skip
mish_op = elementwise(
    "mish", lambda self: arrays.networks.mish(self), lambda g, self: mish_slope(g, self),
    check=kernel("mish_cpu", "biuc"),
)  # fmt: skip


def silu(input: Any, inplace: bool = False) -> Any:
    """``input * sigmoid(input)``, also called swish.

    >>> import retrograd as torch
    >>> torch.nn.functional.silu(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2689,  0.0000,  0.7311])
    """
    without_complex_history("silu", input)
    return _written(silu_op, input) if inplace else silu_op(input)


def mish(input: Any, inplace: bool = False) -> Any:
    """``input * tanh(softplus(input))``.

    >>> import retrograd as torch
    >>> torch.nn.functional.mish(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.3034,  0.0000,  0.8651])
    """
    return _written(mish_op, input) if inplace else mish_op(input)


# -- softplus, logsigmoid --------------------------------------------------------------------


def _softplus(self: Raw, beta: float, threshold: float) -> Raw:
    return arrays.networks.softplus(self, beta, threshold)


def _softplus_slope(grad_output: Raw, self: Raw, beta: float, threshold: float) -> Raw:
    return arrays.networks.softplus_slope(grad_output, self, beta, threshold)


def _softplus_bend(g: Any, grad_output: Any, self: Any, beta: float, threshold: float) -> Any:
    s = sigmoid(self * beta)
    curved = arrays.logical_not(raw(self) * beta > threshold)
    return _chosen(curved, g * grad_output * (s * (1 - s) * beta))


softplus_slope: Elementwise = _slope(
    "softplus_slope", _softplus_slope,
    lambda g, self, beta, threshold: softplus_slope(g, self, beta=beta, threshold=threshold),
    _softplus_bend, node="SoftplusBackwardBackward0",
)  # fmt: skip
softplus_op = elementwise(
    "softplus", _softplus,
    lambda g, self, beta, threshold: softplus_slope(g, self, beta=beta, threshold=threshold),
    check=kernel("softplus_cpu", "biuc"),
)  # fmt: skip


def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """``log(1 + exp(beta * input)) / beta``, and ``input`` itself where ``beta * input`` is above
    ``threshold``.

    >>> import retrograd as torch
    >>> torch.nn.functional.softplus(torch.tensor([-1.0, 0.0, 30.0]))
    tensor([ 0.3133,  0.6931, 30.0000])
    """
    return softplus_op(input, beta=beta, threshold=threshold)


def _log_sigmoid(self: Raw) -> tuple[Raw, Raw]:
    buffer = arrays.networks.exp_minus_abs(self)
    return arrays.networks.log_sigmoid(self, buffer), buffer


def _log_sigmoid_bend(g: Any, grad_output: Any, self: Any) -> Any:
    s = sigmoid(self)
    return g * grad_output * (s * (s - 1))


log_sigmoid_slope: Elementwise = Elementwise(
    "log_sigmoid_slope",
    lambda grad_output, self, buffer: arrays.networks.log_sigmoid_slope(grad_output, self, buffer),
    inputs=(*_PAIR, "buffer"),
    rules={
        "grad_output": lambda g, self, buffer: log_sigmoid_slope(g, self, buffer),
        "self": _log_sigmoid_bend,
    },
    node="LogSigmoidBackwardBackward0",
)  # fmt: skip


def _log_sigmoid_rule(g: Any, self: Any, buffer: Any) -> Any:
    slope = None if g[0] is None else log_sigmoid_slope(g[0], self, raw(buffer))
    if g[1] is None:
        return slope
    of_buffer = -g[1] * (sgn(self) * buffer)  # which nobody sees but the rule itself
    return of_buffer if slope is None else slope + of_buffer


log_sigmoid_op = Operation(
    "log_sigmoid", _log_sigmoid, inputs=("self",), outputs=("result", "buffer"),
    rules={"self": _log_sigmoid_rule}, batch="pointwise",
    check=kernel("log_sigmoid_cpu", "biuc"),
)  # fmt: skip


def logsigmoid(input: Any) -> Any:
    """The logarithm of the sigmoid, of which nothing is lost where the sigmoid is nearly zero.

    >>> import retrograd as torch
    >>> torch.nn.functional.logsigmoid(torch.tensor([-100.0, 0.0]))
    tensor([-100.0000,   -0.6931])
    """
    return log_sigmoid_op(input)[0]
