"""Activation functions.

Most come in pairs, as in PyTorch. The function's rule is an operation of its own: ``g`` times the
derivative of the function. That is a composite, one kernel on arrays, and an expression wherever it
is differentiated again. ``elu``, ``leaky_relu`` and ``rrelu`` have a third form each, for writing
in place, whose rule computes the derivative from the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import elementwise as basic
from retrograd.ops import linear, piecewise
from retrograd.ops._arguments import element
from retrograd.ops._dims import one_dim
from retrograd.ops._operation import Composite, Elementwise, Operation, composite, elementwise, raw
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel, refuses
from retrograd.ops.comparisons import ge, le, logical_or, lt
from retrograd.ops.copies import zero
from retrograd.ops.elementwise import sigmoid
from retrograd.ops.networks._inplace import with_inplace
from retrograd.ops.piecewise import where
from retrograd.ops.pointwise.trigonometry import tanh

_PAIR = ("grad_output", "self")


def _recorded_as(operation: Operation, name: str, rule: Callable[..., Any], node: str) -> Composite:
    """The same function with a node and a rule of its own, where PyTorch gives it another name."""
    return composite(
        name, lambda *inputs, **options: operation(*inputs, **options), operation.forward,
        operation.inputs, rules={"self": rule}, node=node, check=operation.check,
        words=operation.words, batch="pointwise",
    )  # fmt: skip


def _written_as(operation: Operation, rule: Callable[..., Any], node: str) -> None:
    """Give an operation a node and a rule of its own for when it is written in place."""
    operation.written = _recorded_as(operation, f"{operation.name}_written", rule, node)


def _backward_of(
    name: str, definition: Callable[..., Any], kernel: Callable[..., Raw],
    inputs: tuple[str, ...] = _PAIR,
) -> Composite:  # fmt: skip
    """The rule of an activation as an operation: ``g`` times the derivative.

    Derivatives of the first order that are constant in pieces are built on ``zero(self)``, so that
    those of the second order are zeros, as in PyTorch, not nothing.
    """
    return composite(name, definition, kernel, inputs, batch="pointwise")


def _not_for(name: str, kinds: str = "biuc") -> Any:
    return kernel(name, kinds)


# -- threshold, relu -------------------------------------------------------------------------


def _threshold(self: Raw, threshold: float, value: float) -> Raw:
    if self.dtype.kind in "iu":
        limit, other = (element(x, self.dtype) for x in (threshold, value))
        return arrays.where(self <= limit, other, self)
    return arrays.networks.threshold(self, threshold, value)


threshold_backward = _backward_of(
    "general_threshold_backward",
    lambda grad_output, self, threshold: where(le(self, threshold), zero(self), grad_output),
    arrays.networks.keep_above,
)  # fmt: skip
threshold_op = elementwise(
    "threshold", _threshold,
    lambda g, self, threshold: threshold_backward(g, self, threshold=threshold),
    check=_not_for("threshold_cpu", "bc"),
)  # fmt: skip
_written_as(
    threshold_op, lambda g, self, threshold: threshold_backward(g, self, threshold=threshold),
    "ThresholdBackward1",
)  # fmt: skip


@with_inplace("torch", in_place="torch functional", out="computed")
def threshold(input: Any, threshold: float, value: float) -> Any:
    """Threshold: ``x`` if ``x > threshold``, else ``value``.

    Args:
        threshold: the threshold.
        value: the value that replaces elements at or below the threshold.

    Example:
        >>> torch.nn.functional.threshold(torch.tensor([0.5, 1.5]), 1.0, 9.0)
        tensor([9.0000, 1.5000])
    """
    return threshold_op(input, threshold=threshold, value=value)


@public("functional")
def relu(input: Any, inplace: bool = False) -> Any:
    """Rectified linear unit: ``max(x, 0)``.

    Example:
        >>> torch.nn.functional.relu(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    return input.relu_() if inplace else basic.relu(input)


@public("functional")
def relu_(input: Any) -> Any:
    """In-place version of ``relu``.

    Returns:
        ``input``, overwritten.

    Example:
        >>> x = torch.tensor([-1.0, 2.0])
        >>> torch.nn.functional.relu_(x)
        tensor([0., 2.])
    """
    return input.relu_()


# -- bounded pieces --------------------------------------------------------------------------


def _hardtanh(self: Raw, min_val: float, max_val: float) -> Raw:
    if self.dtype.kind in "iu":
        min_val, max_val = (element(x, self.dtype) for x in (min_val, max_val))
    return arrays.networks.clamped(self, min_val, max_val)


hardtanh_backward = _backward_of(
    "hardtanh_backward",
    lambda grad_output, self, min_val, max_val: where(
        logical_or(le(self, min_val), ge(self, max_val)), zero(self), grad_output
    ),
    lambda grad_output, self, min_val, max_val:
        arrays.networks.keep_inside(grad_output, self, min_val, max_val),
)  # fmt: skip
hardtanh_op = elementwise(
    "hardtanh", _hardtanh,
    lambda g, self, min_val, max_val: hardtanh_backward(g, self, min_val=min_val, max_val=max_val),
    check=refuses("c", "clamp is not supported for complex types"),
)  # fmt: skip


def _check_limits(input: Any, min_val: float, max_val: float) -> None:
    kind = raw(input).dtype.kind
    if kind == "b":
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if kind == "u" and (min_val < 0 or max_val < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")


@with_inplace(in_place="functional")
def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """Clamp to the interval from ``min_val`` to ``max_val``.

    Args:
        min_val: lower bound.
        max_val: upper bound.

    Example:
        >>> torch.nn.functional.hardtanh(torch.tensor([-3.0, 0.5]))
        tensor([-1.0000,  0.5000])
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    _check_limits(input, min_val, max_val)
    return hardtanh_op(input, min_val=min_val, max_val=max_val)


@with_inplace()
def relu6(input: Any) -> Any:
    """Rectified linear unit with an upper bound: ``min(max(x, 0), 6)``.

    Example:
        >>> torch.nn.functional.relu6(torch.tensor([-1.0, 8.0]))
        tensor([0., 6.])
    """
    return hardtanh(input, 0, 6)


def _hardswish_backward(grad_output: Any, self: Any) -> Any:
    inside = lt(piecewise.abs(raw(self)), 3)
    beyond = where(le(self, -3), zero(self) - 1.5, zero(self) + 1.5)
    return grad_output * (where(inside, self, beyond) / 3 + 0.5)


hardswish_backward = _backward_of(
    "hardswish_backward", _hardswish_backward,
    lambda grad_output, self: arrays.networks.hard_swish_backward(grad_output, self),
)  # fmt: skip
hardswish_op = elementwise(
    "hardswish", lambda self: arrays.networks.hard_swish(self),
    lambda g, self: hardswish_backward(g, self), check=_not_for("hardswish_cpu"),
)  # fmt: skip


@with_inplace()
def hardswish(input: Any) -> Any:
    """Piecewise approximation of ``silu``: ``x * relu6(x + 3) / 6``.

    Example:
        >>> torch.nn.functional.hardswish(torch.tensor([-4.0, 0.0, 1.5]))
        tensor([-0.0000, 0.0000, 1.1250])
    """
    return hardswish_op(input)


def _no_second(g: Any) -> Any:
    raise RuntimeError("derivative for aten::hardsigmoid_backward is not implemented")


# No composite: its derivative is refused, as in PyTorch.
hardsigmoid_backward = Elementwise(
    "hardsigmoid_backward",
    lambda grad_output, self: arrays.networks.hard_sigmoid_backward(grad_output, self),
    inputs=_PAIR, rules=dict.fromkeys(_PAIR, _no_second), node="NotImplemented",
)  # fmt: skip
hardsigmoid_op = elementwise(
    "hardsigmoid", lambda self: arrays.networks.hard_sigmoid(self),
    lambda g, self: hardsigmoid_backward(g, self), check=_not_for("hardsigmoid_cpu"),
)  # fmt: skip


@with_inplace()
def hardsigmoid(input: Any) -> Any:
    """Piecewise linear approximation of ``sigmoid``: ``relu6(x + 3) / 6``.

    Example:
        >>> torch.nn.functional.hardsigmoid(torch.tensor([-4.0, 0.0]))
        tensor([0.0000, 0.5000])
    """
    return hardsigmoid_op(input)


# -- shrinking -------------------------------------------------------------------------------


def _keep_outside(grad_output: Raw, self: Raw, lambd: float) -> Raw:
    return arrays.networks.keep_outside(grad_output, self, lambd)


def _shrink(name: str, forward: Callable[..., Raw], word: str) -> Elementwise:
    """A function that is zero up to a size and has derivative 1 beyond."""
    derivative = _backward_of(
        f"{name}_backward_of",
        lambda grad_output, self, lambd: where(
            le(piecewise.abs(raw(self)), lambd), zero(self), grad_output
        ),
        _keep_outside,
    )  # fmt: skip
    return elementwise(
        name, forward, lambda g, self, lambd: derivative(g, self, lambd=lambd),
        check=_not_for(f"{name}_{word}"),
    )  # fmt: skip


softshrink_op = _shrink(
    "softshrink", lambda self, lambd: arrays.networks.soft_shrink(self, lambd), "check",
)  # fmt: skip
hardshrink_op = _shrink(
    "hardshrink", lambda self, lambd: arrays.networks.keep_outside(self, self, lambd), "cpu",
)  # fmt: skip


@public("functional")
def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """Soft shrinkage: ``x - lambd`` if ``x > lambd``, ``x + lambd`` if ``x < -lambd``, else 0.

    Args:
        lambd: the threshold; not negative.

    Example:
        >>> torch.nn.functional.softshrink(torch.tensor([-2.0, 0.25]))
        tensor([-1.5000,  0.0000])
    """
    if lambd < 0:
        given = raw(input).dtype
        largest = f"{float(arrays.float_limits(given).max):g}"
        raise RuntimeError(
            f"lambda must be in range [0, {largest}] for input dtype "
            f"{arrays.dtypes.type_word(given)}, but found {lambd:g}"
        )
    return softshrink_op(input, lambd=lambd)


@public("torch method functional", out="computed")
def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """Hard shrinkage: ``x`` if ``abs(x) > lambd``, else 0.

    Args:
        lambd: the threshold.

    Example:
        >>> torch.nn.functional.hardshrink(torch.tensor([-2.0, 0.25]))
        tensor([-2.,  0.])
    """
    return hardshrink_op(input, lambd=lambd)


@public("functional")
def tanhshrink(input: Any) -> Any:
    """Shrinkage by the hyperbolic tangent: ``x - tanh(x)``.

    Example:
        >>> torch.nn.functional.tanhshrink(torch.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.2384,  0.0000,  1.0360])
    """
    return input - tanh(input)


@public("functional")
def softsign(input: Any) -> Any:
    """Softsign: ``x / (1 + abs(x))``.

    Example:
        >>> torch.nn.functional.softsign(torch.tensor([-1.0, 3.0]))
        tensor([-0.5000,  0.7500])
    """
    return input / (piecewise.abs(input) + 1)


# -- gates -----------------------------------------------------------------------------------


def _halves(x: Any, dim: int) -> tuple[Any, Any]:
    half = x.shape[dim] // 2
    first, second = linear.split(x, sizes=(half, half), dim=dim)
    return first, second


def _gated(self: Any, dim: int) -> Any:
    first, second = _halves(self, dim)
    return first * sigmoid(second)


def _gated_backward(grad_output: Any, self: Any, dim: int) -> Any:
    first, second = _halves(self, dim)
    gate = sigmoid(second)
    to_first = grad_output * gate
    return linear.cat([to_first, to_first * (first * (1 - gate))], dim=dim)


def _gated_backward_in_g(g: Any, self: Any, dim: int) -> Any:
    first, second = _halves(self, dim)
    gate, (to_first, to_second) = sigmoid(second), _halves(g, dim)
    return to_first * gate + to_second * first * (gate * (1 - gate))


def _gated_backward_in_self(g: Any, grad_output: Any, self: Any, dim: int) -> Any:
    first, second = _halves(self, dim)
    gate, (to_first, to_second) = sigmoid(second), _halves(g, dim)
    derivative = grad_output * (gate * (1 - gate))
    bend = to_first + to_second * first * (1 - 2 * gate)
    return linear.cat([to_second * derivative, derivative * bend], dim=dim)


# With rules: those that follow from the definition give NaN, infinity less infinity, where the
# second derivative is infinite.
glu_backward = composite(
    "glu_backward", _gated_backward,
    lambda grad_output, self, dim: arrays.networks.glu_backward(grad_output, self, dim), _PAIR,
    rules={"grad_output": _gated_backward_in_g, "self": _gated_backward_in_self},
    node="GluBackwardBackward0",
)  # fmt: skip
glu_op = composite(
    "glu", _gated, lambda self, dim: arrays.networks.glu(self, dim),
    rules={"self": lambda g, self, dim: glu_backward(g, self, dim=dim)},
    check=_not_for("glu_cpu"),
)  # fmt: skip


@public("functional")
def glu(input: Any, dim: int = -1) -> Any:
    """Gated linear unit: ``a * sigmoid(b)``, with ``a`` and ``b`` the halves of the input.

    Args:
        input: the input. Its size along ``dim`` is even.
        dim: the dimension to split.

    Returns:
        A tensor with half the size of ``input`` along ``dim``.

    Example:
        >>> torch.nn.functional.glu(torch.tensor([4.0, 0.0]))
        tensor([2.])
    """
    if not input.ndim:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    plain = one_dim(dim, input.ndim)
    if input.shape[plain] % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {plain} is size {input.shape[plain]}"
        )
    return glu_op(input, dim=plain)
