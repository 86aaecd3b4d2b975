"""Activations: functions of one number that networks are made of, with their slopes and bends.

Most come in pairs, as in PyTorch. The function's rule is an operation of its own, ``g`` times the
slope in one kernel; and that operation has rules too, of which the second needs only the bend, the
second derivative. ``elu``, ``leaky_relu`` and ``rrelu`` have a third form each, for writing in
place, that tells the slope from the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import elementwise as basic
from retrograd.ops import linear
from retrograd.ops._arguments import element
from retrograd.ops._dims import one_dim
from retrograd.ops._operation import Elementwise, Operation, elementwise, raw
from retrograd.ops._refusals import kernel, refuses
from retrograd.ops.elementwise import sigmoid, tanh, where, zeros_like

_PAIR = ("grad_output", "self")
_NUMBERS = "biu"


def _written(operation: Operation, *operands: Any, **options: Any) -> Any:
    """``operands[0]``, overwritten with the result of an operation."""
    assert Operation.write is not None, "the tensor layer is not loaded"
    return Operation.write(operation, list(operands), options)


def _slope(
    name: str, forward: Callable[..., Raw], for_g: Callable[..., Any], for_self: Callable[..., Any],
    inputs: tuple[str, ...] = _PAIR, node: str | None = None,
) -> Elementwise:  # fmt: skip
    """The rule of an activation as an operation: ``g`` times the slope."""
    rules = {inputs[0]: for_g, inputs[1]: for_self}
    return Elementwise(name, forward, inputs=inputs, rules=rules, node=node)


def _not_for(name: str, kinds: str = "biuc") -> Any:
    return kernel(name, kinds)


def _flat(g: Any) -> Any:
    """The rule of what is constant wherever it has a derivative at all."""
    return zeros_like(g)


def _chosen(mask: Raw, x: Any) -> Any:
    """``x`` where ``mask`` holds and zero elsewhere."""
    return where(mask, x, zeros_like(x))


# -- threshold, relu -------------------------------------------------------------------------


def _threshold(self: Raw, threshold: float, value: float) -> Raw:
    if self.dtype.kind in "iu":
        limit, other = (element(x, self.dtype) for x in (threshold, value))
        return arrays.where(self <= limit, other, self)
    return arrays.networks.threshold(self, threshold, value)


def _threshold_slope(grad_output: Raw, self: Raw, threshold: float) -> Raw:
    return arrays.networks.keep_above(grad_output, self, threshold)


threshold_slope: Elementwise = _slope(
    "threshold_slope", _threshold_slope,
    lambda g, self, threshold: threshold_slope(g, self, threshold=threshold), _flat,
    node="ThresholdBackwardBackward0",
)  # fmt: skip
threshold_op = elementwise(
    "threshold", _threshold,
    lambda g, self, threshold: threshold_slope(g, self, threshold=threshold),
    check=_not_for("threshold_cpu", "bc"),
)  # fmt: skip
threshold_written = elementwise(
    "threshold_written", _threshold,
    lambda g, self, threshold: threshold_slope(g, self, threshold=threshold),
    node="ThresholdBackward1", check=_not_for("threshold_cpu", "bc"),
)  # fmt: skip


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """``input`` where it is above ``threshold``, ``value`` elsewhere.

    >>> import retrograd as torch
    >>> torch.nn.functional.threshold(torch.tensor([0.5, 1.5]), 1.0, 9.0)
    tensor([9.0000, 1.5000])
    """
    if inplace:
        return threshold_(input, threshold, value)
    return threshold_op(input, threshold=threshold, value=value)


def threshold_(input: Any, threshold: float, value: float) -> Any:
    """In-place version of ``threshold``."""
    return _written(threshold_written, input, threshold=threshold, value=value)


def relu(input: Any, inplace: bool = False) -> Any:
    """``max(input, 0)``.

    >>> import retrograd as torch
    >>> torch.nn.functional.relu(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return input.relu_() if inplace else basic.relu(input)


def relu_(input: Any) -> Any:
    """In-place version of ``relu``."""
    return input.relu_()


# -- bounded pieces --------------------------------------------------------------------------


def _hardtanh(self: Raw, min_val: float, max_val: float) -> Raw:
    if self.dtype.kind in "iu":
        min_val, max_val = (element(x, self.dtype) for x in (min_val, max_val))
    return arrays.networks.clamped(self, min_val, max_val)


def _hardtanh_slope(grad_output: Raw, self: Raw, min_val: float, max_val: float) -> Raw:
    return arrays.networks.keep_inside(grad_output, self, min_val, max_val)


hardtanh_slope: Elementwise = _slope(
    "hardtanh_slope", _hardtanh_slope,
    lambda g, self, min_val, max_val: hardtanh_slope(g, self, min_val=min_val, max_val=max_val),
    _flat, node="HardtanhBackwardBackward0",
)  # fmt: skip
hardtanh_op = elementwise(
    "hardtanh", _hardtanh,
    lambda g, self, min_val, max_val: hardtanh_slope(g, self, min_val=min_val, max_val=max_val),
    check=refuses("c", "clamp is not supported for complex types"),
)  # fmt: skip


def _check_limits(input: Any, min_val: float, max_val: float) -> None:
    kind = raw(input).dtype.kind
    if kind == "b":
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if kind == "u" and (min_val < 0 or max_val < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """``input`` moved between two bounds.

    >>> import retrograd as torch
    >>> torch.nn.functional.hardtanh(torch.tensor([-3.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if inplace:
        return hardtanh_(input, min_val, max_val)
    _check_limits(input, min_val, max_val)
    return hardtanh_op(input, min_val=min_val, max_val=max_val)


def hardtanh_(input: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """In-place version of ``hardtanh``."""
    _check_limits(input, min_val, max_val)
    return _written(hardtanh_op, input, min_val=min_val, max_val=max_val)


def relu6(input: Any, inplace: bool = False) -> Any:
    """``input`` moved between 0 and 6.

    >>> import retrograd as torch
    >>> torch.nn.functional.relu6(torch.tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """
    return hardtanh(input, 0, 6, inplace)


hardswish_slope: Elementwise = _slope(
    "hardswish_slope",
    lambda grad_output, self: arrays.networks.hard_swish_slope(grad_output, self),
    lambda g, self: hardswish_slope(g, self),
    lambda g, grad_output, self: _chosen(abs(raw(self)) < 3, g * grad_output / 3),
    node="HardswishBackwardBackward0",
)  # fmt: skip
hardswish_op = elementwise(
    "hardswish", lambda self: arrays.networks.hard_swish(self),
    lambda g, self: hardswish_slope(g, self), check=_not_for("hardswish_cpu"),
)  # fmt: skip


def hardswish(input: Any, inplace: bool = False) -> Any:
    """``input * relu6(input + 3) / 6``.

    >>> import retrograd as torch
    >>> torch.nn.functional.hardswish(torch.tensor([-4.0, 0.0, 1.5]))
    tensor([-0.0000, 0.0000, 1.1250])
    """
    return _written(hardswish_op, input) if inplace else hardswish_op(input)


def _no_second(g: Any) -> Any:
    raise RuntimeError("derivative for aten::hardsigmoid_backward is not implemented")


hardsigmoid_slope: Elementwise = _slope(
    "hardsigmoid_slope",
    lambda grad_output, self: arrays.networks.hard_sigmoid_slope(grad_output, self),
    _no_second, _no_second, node="NotImplemented",
)  # fmt: skip
hardsigmoid_op = elementwise(
    "hardsigmoid", lambda self: arrays.networks.hard_sigmoid(self),
    lambda g, self: hardsigmoid_slope(g, self), check=_not_for("hardsigmoid_cpu"),
)  # fmt: skip


def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """``relu6(input + 3) / 6``.

    >>> import retrograd as torch
    >>> torch.nn.functional.hardsigmoid(torch.tensor([-4.0, 0.0]))
    tensor([0.0000, 0.5000])
    """
    return _written(hardsigmoid_op, input) if inplace else hardsigmoid_op(input)


# -- shrinking -------------------------------------------------------------------------------


def _keep_outside(grad_output: Raw, self: Raw, lambd: float) -> Raw:
    return arrays.networks.keep_outside(grad_output, self, lambd)


def _shrink(name: str, forward: Callable[..., Raw], word: str) -> Elementwise:
    """A function that is zero up to a size and has slope 1 beyond."""
    slope: Elementwise = _slope(
        f"{name}_slope", _keep_outside, lambda g, self, lambd: slope(g, self, lambd=lambd), _flat,
        node=f"{name.capitalize()}BackwardBackward0",
    )  # fmt: skip
    return elementwise(
        name, forward, lambda g, self, lambd: slope(g, self, lambd=lambd),
        check=_not_for(f"{name}_{word}"),
    )  # fmt: skip


def _softshrink(self: Raw, lambd: float) -> Raw:
    return arrays.networks.soft_shrink(self, lambd)


def _hardshrink(self: Raw, lambd: float) -> Raw:
    return arrays.networks.keep_outside(self, self, lambd)


softshrink_op = _shrink("softshrink", _softshrink, "check")
hardshrink_op = _shrink("hardshrink", _hardshrink, "cpu")


def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """``input`` moved towards zero by ``lambd``, but not beyond.

    >>> import retrograd as torch
    >>> torch.nn.functional.softshrink(torch.tensor([-2.0, 0.25]))
    tensor([-1.5000,  0.0000])
    """
    if lambd < 0:
        given = raw(input).dtype
        largest = {"float64": "1.79769e+308", "float32": "3.40282e+38"}.get(given.name, "65504")
        raise RuntimeError(
            f"lambda must be in range [0, {largest}] for input dtype "
            f"{arrays.dtypes.type_word(given)}, but found {lambd:g}"
        )
    return softshrink_op(input, lambd=lambd)


def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """``input`` where its size is above ``lambd``, zero elsewhere.

    >>> import retrograd as torch
    >>> torch.nn.functional.hardshrink(torch.tensor([-2.0, 0.25]))
    tensor([-2.,  0.])
    """
    return hardshrink_op(input, lambd=lambd)


def tanhshrink(input: Any) -> Any:
    """``input - tanh(input)``."""
    return input - tanh(input)


def softsign(input: Any) -> Any:
    """``input / (1 + abs(input))``.

    >>> import retrograd as torch
    >>> torch.nn.functional.softsign(torch.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """
    return input / (basic.abs(input) + 1)


# -- gates -----------------------------------------------------------------------------------


def _glu(self: Raw, dim: int) -> Raw:
    return arrays.networks.glu(self, dim)


def _glu_slope(grad_output: Raw, self: Raw, dim: int) -> Raw:
    return arrays.networks.glu_slope(grad_output, self, dim)


def _halves(x: Any, dim: int) -> tuple[Any, Any]:
    half = x.shape[dim] // 2
    first, second = linear.split(x, sizes=(half, half), dim=dim)
    return first, second


def _glu_slope_in_g(g: Any, self: Any, dim: int) -> Any:
    first, second = _halves(self, dim)
    gate, (to_first, to_second) = sigmoid(second), _halves(g, dim)
    return to_first * gate + to_second * first * (gate * (1 - gate))


def _glu_slope_in_self(g: Any, grad_output: Any, self: Any, dim: int) -> Any:
    first, second = _halves(self, dim)
    gate, (to_first, to_second) = sigmoid(second), _halves(g, dim)
    slope = grad_output * (gate * (1 - gate))
    bend = to_first + to_second * first * (1 - 2 * gate)
    return linear.cat([to_second * slope, slope * bend], dim=dim)


glu_slope = Operation(
    "glu_slope", _glu_slope, inputs=_PAIR,
    rules={"grad_output": _glu_slope_in_g, "self": _glu_slope_in_self},
    node="GluBackwardBackward0", batch="dims",
)  # fmt: skip
glu_op = Operation(
    "glu", _glu, inputs=("self",),
    rules={"self": lambda g, self, dim: glu_slope(g, self, dim=dim)}, check=_not_for("glu_cpu"),
    batch="dims",
)  # fmt: skip


def glu(input: Any, dim: int = -1) -> Any:
    """The first half along ``dim`` times the sigmoid of the second.

    >>> import retrograd as torch
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
