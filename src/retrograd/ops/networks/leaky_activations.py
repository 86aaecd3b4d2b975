"""Activations that are not flat for negative inputs: leaky_relu, prelu, rrelu, elu, selu, celu.

Applied in place, they save their result instead of their input, which is overwritten, and compute
the derivative from it. So the slope for negative inputs must have a sign that keeps the two sides
apart.
"""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops._dims import numel
from retrograd.ops._lifted import bare
from retrograd.ops._operation import Elementwise, composite, elementwise, raw
from retrograd.ops._public import public
from retrograd.ops._randomness import drawn, open_batches
from retrograd.ops._refusals import kernel
from retrograd.ops._words import DERIVATIVE
from retrograd.ops.comparisons import gt, le, lt
from retrograd.ops.copies import zero, zeros_like
from retrograd.ops.elementwise import exp
from retrograd.ops.linear import reshape
from retrograd.ops.networks._inplace import with_inplace
from retrograd.ops.networks.activations import _backward_of, _recorded_as, _written_as
from retrograd.ops.piecewise import where

# -- leaky_relu ------------------------------------------------------------------------------


def _of_leaky_result(g: Any, result: Any, negative_slope: float) -> Any:
    if negative_slope < 0:
        raise RuntimeError(
            "In-place leakyReLu backward calculation is triggered with a negative slope which is "
            "not supported. This is caused by calling in-place forward function with a negative "
            "slope, please call out-of-place version instead. File an issue at "
            "https://github.com/pytorch/pytorch if you do require supporting in-place leakRelu "
            "backward calculation with negative slope"
        )
    return leaky_relu_backward(g, result, negative_slope=negative_slope)


leaky_relu_backward = _backward_of(
    "leaky_relu_backward",
    lambda grad_output, self, negative_slope: grad_output * where(
        gt(self, 0), zero(self) + 1, zero(self) + negative_slope
    ),
    lambda grad_output, self, negative_slope:
        arrays.networks.leaky_relu_backward(grad_output, self, negative_slope),
)  # fmt: skip
leaky_relu_op = elementwise(
    "leaky_relu", lambda self, negative_slope: arrays.networks.leaky_relu(self, negative_slope),
    lambda g, self, negative_slope: leaky_relu_backward(g, self, negative_slope=negative_slope),
    check=kernel("leaky_relu_cpu", "biuc"),
    words="Where the input is positive the gradient passes unchanged; elsewhere it is multiplied "
          "by negative_slope.",
)  # fmt: skip
_written_as(leaky_relu_op, _of_leaky_result, "LeakyReluBackward1")


@with_inplace(in_place="functional")
def leaky_relu(input: Any, negative_slope: float = 0.01) -> Any:
    """Leaky ReLU: ``x`` if ``x > 0``, else ``negative_slope * x``.

    Args:
        negative_slope: slope for negative inputs.

    Example:
        >>> torch.nn.functional.leaky_relu(torch.tensor([-1.0, 2.0]), 0.5)
        tensor([-0.5000,  2.0000])
    """
    return leaky_relu_op(input, negative_slope=negative_slope)


# -- prelu: a leaky one whose slope is learned -----------------------------------------------


prelu_op = Elementwise(
    "prelu",
    lambda self, weight: arrays.where(self > 0, self, weight * self), inputs=("self", "weight"),
    rules={
        "self": lambda g, self, weight: where(raw(self) > 0, g, g * weight),
        "weight": lambda g, self, weight: g * where(raw(self) > 0, zeros_like(self), self),
    },
    node="PreluKernelBackward0", check=kernel("prelu_cpu", "biuc"),
)  # fmt: skip


@public("torch method functional")
def prelu(input: Any, weight: Any) -> Any:
    """Parametric ReLU: ``x`` if ``x > 0``, else ``weight * x``.

    Args:
        input: the input. Its channels are in dimension 1.
        weight: the slope for negative inputs: one for all channels, or one for each.

    Example:
        >>> torch.prelu(torch.tensor([-1.0, 2.0]), torch.tensor(0.25))
        tensor([-0.2500,  2.0000])
    """
    if raw(input).dtype != raw(weight).dtype:
        words = [arrays.dtypes.type_word(raw(x).dtype) for x in (input, weight)]
        raise RuntimeError(f"prelu: Type promoting not supported. Got {words[0]} and {words[1]}")
    ndim, sizes = input.ndim, tuple(weight.shape)
    count = numel(sizes)
    if count != 1:
        if not ndim:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input.shape[1] if ndim > 1 else 1
        if channels != count:
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{count} and channel size = {channels}."
            )
    if len(sizes) > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {len(sizes)}"
        )
    shape = tuple(count if d == 1 else 1 for d in range(ndim))
    if shape != sizes:
        weight = reshape(weight, shape)
    return prelu_op(input, weight)


# -- rrelu: a leaky one whose slope is drawn -------------------------------------------------


def _rrelu(self: Raw, noise: Raw, lower: float, upper: float, training: bool) -> Raw:
    if training:
        return self * noise
    return arrays.networks.leaky_relu(self, (lower + upper) / 2)


def _rrelu_rule(g: Any, self: Any, noise: Any, lower: float, upper: float, training: bool) -> Any:
    if training and upper - lower > 1e-6:
        return g * (noise + zero(self))
    return leaky_relu_backward(g, self, negative_slope=(lower + upper) / 2)


def _of_rrelu_result(
    g: Any, result: Any, noise: Any, lower: float, upper: float, training: bool
) -> Any:
    if not (training and upper - lower > 1e-6) and (lower + upper) / 2 < 0:
        return _of_leaky_result(g, result, negative_slope=(lower + upper) / 2)
    return _rrelu_rule(g, result, noise, lower, upper, training)


rrelu_op = composite(
    "rrelu",
    lambda self, noise, lower, upper, training: self * noise if training
    else leaky_relu_op(self, negative_slope=(lower + upper) / 2),
    _rrelu, inputs=("self", "noise"), rules={"self": _rrelu_rule}, node="RreluWithNoiseBackward0",
    batch="pointwise",
)  # fmt: skip
_written_as(rrelu_op, _of_rrelu_result, "RreluWithNoiseBackward1")


def _noise(input: Any, lower: float, upper: float, training: bool) -> Any:
    """What to multiply with: 1 where positive, elsewhere a number drawn between the bounds."""
    x = raw(input)
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    kernel("rrelu_with_noise_out_cpu" if training else "leaky_relu_cpu", "biuc")(x)
    if not training:
        return zeros_like(x)
    if not open_batches():
        return arrays.networks.leaky_noise(bare(x), lower, upper)
    noise = drawn(x.shape, lambda size: arrays.random.uniform(size, x.dtype, None, lower, upper), x)
    return where(x <= 0, noise, zeros_like(noise) + 1)


@with_inplace("torch", in_place="torch functional")
def rrelu(
    input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Any:
    """Randomized leaky ReLU: ``x`` if ``x > 0``, else ``a * x``.

    In training, ``a`` is drawn from the uniform distribution on ``[lower, upper]`` for each
    element. Otherwise, ``a = (lower + upper) / 2``.

    Args:
        lower: lower bound of the uniform distribution.
        upper: upper bound of the uniform distribution.
        training: whether to draw the slopes.

    Example:
        >>> torch.nn.functional.rrelu(torch.tensor([-1.0, 2.0]), 0.25, 0.75)
        tensor([-0.5000,  2.0000])
    """
    noise = _noise(input, lower, upper, training)
    return rrelu_op(input, noise, lower=lower, upper=upper, training=training)


# -- elu and its kin -------------------------------------------------------------------------

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _elu_rule(g: Any, self: Any, alpha: float, scale: float, input_scale: float) -> Any:
    return elu_backward(g, self, alpha=alpha, scale=scale, input_scale=input_scale)


def _elu_backward_defined(
    grad_output: Any, self: Any, alpha: float, scale: float, input_scale: float
) -> Any:
    curve = exp(where(lt(self, 0), self, zero(self)) * input_scale) * (alpha * scale * input_scale)
    return grad_output * where(le(self, 0), curve, zero(self) + scale)


def _elu_backward_of_result_defined(
    grad_output: Any, result: Any, alpha: float, scale: float, input_scale: float
) -> Any:
    # The exponential is what the result has in excess of its least value.
    curve = (where(lt(result, 0), result, zero(result)) + alpha * scale) * input_scale
    return grad_output * where(le(result, 0), curve, zero(result) + scale)


def _of_elu_result(g: Any, result: Any, alpha: float, scale: float, input_scale: float) -> Any:
    if alpha < 0:
        raise RuntimeError(
            "In-place elu backward calculation is triggered with a negative slope which is not "
            "supported. This is caused by calling in-place forward function with a negative slope, "
            "please call out-of-place version instead."
        )
    return elu_backward_of_result(g, result, alpha=alpha, scale=scale, input_scale=input_scale)


elu_backward = _backward_of("elu_backward", _elu_backward_defined, arrays.networks.elu_backward)
elu_backward_of_result = _backward_of(
    "elu_backward_of_result", _elu_backward_of_result_defined,
    arrays.networks.elu_backward_of_result, inputs=("grad_output", "result"),
)  # fmt: skip
elu_op = elementwise(
    "elu", arrays.networks.elu, _elu_rule, check=kernel("elu_cpu", "biuc"),
    words=DERIVATIVE,
)  # fmt: skip
celu_op = _recorded_as(elu_op, "celu", _elu_rule, "CeluBackward0")
_written_as(elu_op, _of_elu_result, "EluBackward1")
_written_as(celu_op, _of_elu_result, "CeluBackward1")


@with_inplace(in_place="functional")
def elu(input: Any, alpha: float = 1.0) -> Any:
    """Exponential linear unit: ``x`` if ``x > 0``, else ``alpha * (exp(x) - 1)``.

    Args:
        alpha: the limit for negative inputs is ``-alpha``.

    Example:
        >>> torch.nn.functional.elu(torch.tensor([-1.0, 2.0]))
        tensor([-0.6321,  2.0000])
    """
    return elu_op(input, alpha=alpha, scale=1, input_scale=1)


@with_inplace("torch", in_place="torch functional")
def selu(input: Any) -> Any:
    """Scaled exponential linear unit, for self-normalizing networks.

    ``scale * x`` if ``x > 0``, else ``scale * alpha * (exp(x) - 1)``, with ``scale = 1.0507...``
    and ``alpha = 1.6732...``.

    Example:
        >>> torch.selu(torch.tensor([-1.0, 2.0]))
        tensor([-1.1113,  2.1014])
    """
    return elu_op(input, alpha=_SELU_ALPHA, scale=_SELU_SCALE, input_scale=1)


@with_inplace("torch", in_place="torch functional")
def celu(input: Any, alpha: float = 1.0) -> Any:
    """Continuously differentiable exponential linear unit.

    ``x`` if ``x > 0``, else ``alpha * (exp(x / alpha) - 1)``.

    Args:
        alpha: the limit for negative inputs is ``-alpha``; not 0.

    Example:
        >>> torch.celu(torch.tensor([-1.0, 2.0]), 0.5)
        tensor([-0.4323,  2.0000])
    """
    return celu_op(input, alpha=alpha, scale=1, input_scale=_inverse(alpha))


def _inverse(alpha: float) -> float:
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return 1 / alpha
