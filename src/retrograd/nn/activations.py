"""Activations as layers."""

from __future__ import annotations

from typing import Any, ClassVar

from retrograd.nn import functional as F
from retrograd.nn._options import WithOptions
from retrograd.nn.module import Module
from retrograd.nn.parameter import Parameter
from retrograd.tensor._creation import full

_INPLACE: dict[str, Any] = {"inplace": False}


class _Activation(WithOptions):
    """An activation that may overwrite its input."""

    unless_default: ClassVar[dict[str, Any]] = _INPLACE


class ReLU(_Activation):
    """What is positive, and zero for the rest.

    >>> import retrograd as torch
    >>> torch.nn.ReLU()(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    function = "relu"

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class ReLU6(_Activation):
    """As ReLU, but 6 at most."""

    function = "relu6"

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class SELU(_Activation):
    """The exponential linear unit that keeps mean and variance."""

    function = "selu"

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class SiLU(_Activation):
    """``x * sigmoid(x)``, also called swish."""

    function = "silu"

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class Mish(_Activation):
    """``x * tanh(softplus(x))``."""

    function = "mish"

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class Hardsigmoid(WithOptions):
    """The sigmoid, by three straight lines."""

    function = "hardsigmoid"

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class Hardswish(WithOptions):
    """``x * hardsigmoid(x)``."""

    function = "hardswish"

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class ELU(_Activation):
    """``x`` where positive, ``alpha * (exp(x) - 1)`` elsewhere."""

    function = "elu"
    shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(alpha=alpha, inplace=inplace)


class CELU(_Activation):
    """As ELU, with ``x / alpha`` in the exponent: differentiable for every alpha."""

    function = "celu"
    shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(alpha=alpha, inplace=inplace)


class LeakyReLU(_Activation):
    """As ReLU, with a small slope where it is flat."""

    function = "leaky_relu"
    shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__(negative_slope=negative_slope, inplace=inplace)


class Threshold(_Activation):
    """What is above a threshold, and a value for the rest."""

    function = "threshold"
    shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(threshold=threshold, value=value, inplace=inplace)


class Hardtanh(_Activation):
    """``x`` moved into an interval."""

    function = "hardtanh"
    shown = ("min_val", "max_val")

    def __init__(
        self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
    ) -> None:
        super().__init__(min_val=min_val, max_val=max_val, inplace=inplace)
        if not max_val > min_val:
            raise AssertionError("max_val must be larger than min_val")


class RReLU(_Activation):
    """As LeakyReLU, with slopes drawn at random in training."""

    function = "rrelu"
    shown = ("lower", "upper")

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__(lower=lower, upper=upper, inplace=inplace)

    def forward(self, input: Any) -> Any:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Sigmoid(WithOptions):
    """``1 / (1 + exp(-x))``."""

    function = "sigmoid"


class Tanh(WithOptions):
    """The hyperbolic tangent."""

    function = "tanh"


class LogSigmoid(WithOptions):
    """The logarithm of the sigmoid."""

    function = "logsigmoid"


class Softsign(WithOptions):
    """``x / (1 + |x|)``."""

    function = "softsign"


class Tanhshrink(WithOptions):
    """``x - tanh(x)``."""

    function = "tanhshrink"


class GELU(WithOptions):
    """``x`` times the probability that a normal number is below it.

    >>> import retrograd as torch
    >>> torch.nn.GELU()(torch.tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """

    function = "gelu"
    shown = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        super().__init__(approximate=approximate)


class GLU(WithOptions):
    """One half of a dimension times the sigmoid of the other."""

    function = "glu"
    shown = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim=dim)


class Softplus(WithOptions):
    """``log(1 + exp(beta * x)) / beta``, a smooth ReLU."""

    function = "softplus"
    shown = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__(beta=beta, threshold=threshold)


class _Shrink(WithOptions):
    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__(lambd=lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """``x`` where it is further from zero than ``lambd``, zero elsewhere."""

    function = "hardshrink"


class Softshrink(_Shrink):
    """``x`` moved towards zero by ``lambd``."""

    function = "softshrink"


class _AlongDim(WithOptions):
    shown = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__(dim=dim)


class Softmax(_AlongDim):
    """Exponentials along a dimension, divided by their sum."""

    function = "softmax"


class Softmin(_AlongDim):
    """The softmax of ``-x``."""

    function = "softmin"


class LogSoftmax(_AlongDim):
    """The logarithm of the softmax."""

    function = "log_softmax"


class Softmax2d(Module):
    """The softmax over the channels at each place of an image."""

    def forward(self, input: Any) -> Any:
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3)


class PReLU(Module):
    """As LeakyReLU, with a slope that is learned, one for all channels or one for each."""

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(full((num_parameters,), init, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set all slopes to what they were at first."""
        self.weight.data.fill_(self.init)

    def forward(self, input: Any) -> Any:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"
