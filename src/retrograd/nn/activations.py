"""Activations: functions that are applied to each element on its own."""

from __future__ import annotations

from typing import Any, ClassVar

from retrograd.nn import functional as F
from retrograd.nn._options import WithOptions
from retrograd.nn.module import Module
from retrograd.nn.parameter import Parameter
from retrograd.tensor._creation import full
from retrograd.tensor._tensor import Tensor


class _Pointwise(WithOptions):
    """An activation. Unless a subclass has a constructor of its own, it takes no options."""

    shared = "Shape:\n    Input and output: any shape.\n"

    def __init__(self) -> None:
        super().__init__()


class _Activation(_Pointwise):
    """An activation that can overwrite its input."""

    shared = f"Args:\n    inplace: overwrite the input.\n\n{_Pointwise.shared}"
    unless_default: ClassVar[dict[str, Any]] = {"inplace": False}

    def __init__(self, inplace: bool = False) -> None:
        WithOptions.__init__(self, inplace=inplace)


# -- piecewise linear --------------------------------------------------------------------------


class ReLU(_Activation, function="relu"):
    """Rectified linear unit: ``max(0, x)``.

    Example:
        >>> torch.nn.ReLU()(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """


class ReLU6(_Activation, function="relu6"):
    """Rectified linear unit with an upper bound of 6: ``min(max(0, x), 6)``.

    Example:
        >>> torch.nn.ReLU6()(torch.tensor([-1.0, 2.0, 8.0]))
        tensor([0., 2., 6.])
    """


class LeakyReLU(_Activation, function="leaky_relu"):
    """Leaky rectified linear unit: ``x`` if ``x > 0``, else ``negative_slope * x``.

    Args:
        negative_slope: factor for negative elements.

    Example:
        >>> torch.nn.LeakyReLU(0.1)(torch.tensor([-1.0, 2.0]))
        tensor([-0.1000,  2.0000])
    """

    shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        WithOptions.__init__(self, negative_slope=negative_slope, inplace=inplace)


class PReLU(Module):
    """Parametric ReLU: ``x`` if ``x > 0``, else ``weight * x`` with a learned weight.

    Args:
        num_parameters: 1 for a single weight, or the number of channels (dimension 1 of the
            input) for a weight per channel.
        init: initial value of the weight.
        dtype: dtype of the weight.

    Shape:
        Input and output: any shape, ``(N, C, ...)`` for a weight per channel.
        weight: ``(num_parameters,)``.

    Example:
        >>> torch.nn.PReLU()(torch.tensor([-1.0, 2.0]))
        tensor([-0.2500,  2.0000], grad_fn=<PreluKernelBackward0>)
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(full((num_parameters,), init, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set the weight to its initial value."""
        self.weight.data.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class RReLU(_Activation, function="rrelu"):
    """Randomized leaky ReLU: ``x`` if ``x >= 0``, else ``a * x``.

    In training, ``a`` is drawn from the uniform distribution on ``[lower, upper]`` for each
    element. In evaluation mode, ``a = (lower + upper) / 2``.

    Args:
        lower: lower bound of the uniform distribution.
        upper: upper bound of the uniform distribution.

    Example:
        >>> torch.nn.RReLU(0.1, 0.3).eval()(torch.tensor([-1.0, 2.0]))
        tensor([-0.2000,  2.0000])
    """

    shown = ("lower", "upper")

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        WithOptions.__init__(self, lower=lower, upper=upper, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Threshold(_Activation, function="threshold"):
    """``x`` if ``x > threshold``, else ``value``.

    Args:
        threshold: bound above which elements are kept.
        value: replacement for all other elements.

    Example:
        >>> torch.nn.Threshold(1.0, -5.0)(torch.tensor([0.5, 2.0]))
        tensor([-5.,  2.])
    """

    shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        WithOptions.__init__(self, threshold=threshold, value=value, inplace=inplace)


class Hardtanh(_Activation, function="hardtanh"):
    """Clamp to an interval: ``min(max(x, min_val), max_val)``.

    Args:
        min_val: lower bound.
        max_val: upper bound, larger than ``min_val``.

    Example:
        >>> torch.nn.Hardtanh()(torch.tensor([-3.0, 0.5, 2.0]))
        tensor([-1.0000,  0.5000,  1.0000])
    """

    shown = ("min_val", "max_val")

    def __init__(
        self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
    ) -> None:
        WithOptions.__init__(self, min_val=min_val, max_val=max_val, inplace=inplace)
        if not max_val > min_val:
            raise AssertionError("max_val must be larger than min_val")


class Hardsigmoid(_Activation, function="hardsigmoid"):
    """Piecewise linear approximation of the sigmoid: ``min(max(x / 6 + 1 / 2, 0), 1)``.

    Example:
        >>> torch.nn.Hardsigmoid()(torch.tensor([-4.0, 0.0, 1.5]))
        tensor([0.0000, 0.5000, 0.7500])
    """

    unless_default: ClassVar[dict[str, Any]] = {}


class Hardswish(_Activation, function="hardswish"):
    """``x * hardsigmoid(x)``, an approximation of ``SiLU``.

    Example:
        >>> torch.nn.Hardswish()(torch.tensor([-4.0, 0.0, 1.5]))
        tensor([-0.0000, 0.0000, 1.1250])
    """

    unless_default: ClassVar[dict[str, Any]] = {}


class _Shrink(_Pointwise):
    def __init__(self, lambd: float = 0.5) -> None:
        WithOptions.__init__(self, lambd=lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink, function="hardshrink"):
    """``x`` if ``abs(x) > lambd``, else 0.

    Args:
        lambd: bound on the absolute value.

    Example:
        >>> torch.nn.Hardshrink()(torch.tensor([-1.0, 0.2, 2.0]))
        tensor([-1.,  0.,  2.])
    """


class Softshrink(_Shrink, function="softshrink"):
    """``x - lambd`` if ``x > lambd``, ``x + lambd`` if ``x < -lambd``, else 0.

    Args:
        lambd: how far each element moves towards zero; not negative.

    Example:
        >>> torch.nn.Softshrink()(torch.tensor([-1.0, 0.2, 2.0]))
        tensor([-0.5000,  0.0000,  1.5000])
    """


# -- exponential and sigmoid units ---------------------------------------------------------------


class ELU(_Activation, function="elu"):
    """Exponential linear unit: ``x`` if ``x > 0``, else ``alpha * (exp(x) - 1)``.

    Args:
        alpha: minus the limit for very negative elements.

    Example:
        >>> torch.nn.ELU()(torch.tensor([-1.0, 2.0]))
        tensor([-0.6321,  2.0000])
    """

    shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        WithOptions.__init__(self, alpha=alpha, inplace=inplace)


class CELU(_Activation, function="celu"):
    """Continuously differentiable exponential linear unit.

    Computes ``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``. Its derivative at zero is 1 for
    every ``alpha``.

    Args:
        alpha: minus the limit for very negative elements.

    Example:
        >>> torch.nn.CELU(2.0)(torch.tensor([-1.0, 2.0]))
        tensor([-0.7869,  2.0000])
    """

    shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        WithOptions.__init__(self, alpha=alpha, inplace=inplace)


class SELU(_Activation, function="selu"):
    """Scaled exponential linear unit, for self-normalizing networks.

    Computes ``scale * x`` if ``x > 0``, else ``scale * alpha * (exp(x) - 1)``, with ``scale``
    1.0507... and ``alpha`` 1.6732..., which keep mean zero and variance one from layer to layer.

    Example:
        >>> torch.nn.SELU()(torch.tensor([-1.0, 2.0]))
        tensor([-1.1113,  2.1014])
    """


class SiLU(_Activation, function="silu"):
    """Sigmoid linear unit, also called swish: ``x * sigmoid(x)``.

    Example:
        >>> torch.nn.SiLU()(torch.tensor([-1.0, 2.0]))
        tensor([-0.2689,  1.7616])
    """


class Mish(_Activation, function="mish"):
    """``x * tanh(softplus(x))``.

    Example:
        >>> torch.nn.Mish()(torch.tensor([-1.0, 2.0]))
        tensor([-0.3034,  1.9440])
    """


class GELU(_Pointwise, function="gelu"):
    """Gaussian error linear unit: ``x * Phi(x)``, Phi the normal distribution function.

    Args:
        approximate: "none" for the exact function, "tanh" for
            ``0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))``.

    Example:
        >>> torch.nn.GELU()(torch.tensor([-1.0, 2.0]))
        tensor([-0.1587,  1.9545])
    """

    shown = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        WithOptions.__init__(self, approximate=approximate)


class Softplus(_Pointwise, function="softplus"):
    """Smooth approximation of ReLU: ``log(1 + exp(beta * x)) / beta``.

    Args:
        beta: how closely the function follows ReLU.
        threshold: where ``beta * x`` is above it, the result is ``x``.

    Example:
        >>> torch.nn.Softplus()(torch.tensor([-1.0, 2.0]))
        tensor([0.3133, 2.1269])
    """

    shown = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        WithOptions.__init__(self, beta=beta, threshold=threshold)


class Sigmoid(_Pointwise, function="sigmoid"):
    """Logistic function: ``1 / (1 + exp(-x))``.

    Example:
        >>> torch.nn.Sigmoid()(torch.tensor([-1.0, 0.0]))
        tensor([0.2689, 0.5000])
    """


class LogSigmoid(_Pointwise, function="logsigmoid"):
    """Logarithm of the logistic function: ``-log(1 + exp(-x))``.

    Example:
        >>> torch.nn.LogSigmoid()(torch.tensor([-1.0, 0.0]))
        tensor([-1.3133, -0.6931])
    """


class Tanh(_Pointwise, function="tanh"):
    """Hyperbolic tangent.

    Example:
        >>> torch.nn.Tanh()(torch.tensor([-1.0, 2.0]))
        tensor([-0.7616,  0.9640])
    """


class Tanhshrink(_Pointwise, function="tanhshrink"):
    """``x - tanh(x)``.

    Example:
        >>> torch.nn.Tanhshrink()(torch.tensor([-1.0, 2.0]))
        tensor([-0.2384,  1.0360])
    """


class Softsign(_Pointwise, function="softsign"):
    """``x / (1 + abs(x))``.

    Example:
        >>> torch.nn.Softsign()(torch.tensor([-1.0, 3.0]))
        tensor([-0.5000,  0.7500])
    """


__all__ = [
    "CELU", "ELU", "GELU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
    "LeakyReLU", "LogSigmoid", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SiLU", "Sigmoid",
    "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip
