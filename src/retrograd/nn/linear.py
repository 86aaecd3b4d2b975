"""Layers that apply a linear or bilinear map."""

from __future__ import annotations

import math
from typing import Any

from retrograd.nn import functional as F
from retrograd.nn import init
from retrograd.nn.module import Module
from retrograd.nn.parameter import Parameter
from retrograd.tensor._creation import empty
from retrograd.tensor._tensor import Tensor


class Identity(Module):
    """Returns its input unchanged. Use it as a placeholder for a layer.

    Args:
        args, kwargs: ignored.

    Shape:
        Input and output: any.

    Example:
        >>> torch.nn.Identity(54, unused=True)(torch.ones(2))
        tensor([1., 1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """Affine map of the last dimension: ``x @ weight.T + bias``.

    Weight and bias are drawn from the uniform distribution on ``[-b, b]``, with
    ``b = 1 / sqrt(in_features)``.

    Args:
        in_features: size of each input.
        out_features: size of each output.
        bias: whether to add a learned bias.

    Shape:
        Input: ``(*, in_features)``. Output: ``(*, out_features)``.
        weight: ``(out_features, in_features)``. bias: ``(out_features,)``.

    Example:
        >>> layer = torch.nn.Linear(3, 2)
        >>> layer(torch.ones(5, 3)).shape
        torch.Size([5, 2])
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        factory = {"device": device, "dtype": dtype}
        self.weight = Parameter(empty((out_features, in_features), **factory))
        if bias:
            self.bias = Parameter(empty(out_features, **factory))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias uniformly from ``[-b, b]``, with ``b = 1 / sqrt(in_features)``."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        parameters: dict[str, Any] = self._parameters
        try:
            weight, bias = parameters["weight"], parameters["bias"]
        except KeyError:  # a parametrized weight, see nn.utils
            weight, bias = self.weight, self.bias
        return F.linear(input, weight, bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Bilinear(Module):
    """Bilinear map of two inputs: ``x1 @ weight[k] @ x2 + bias[k]`` for each output ``k``.

    Args:
        in1_features: size of the first input.
        in2_features: size of the second input.
        out_features: size of the output.
        bias: whether to add a learned bias.

    Shape:
        input1: ``(*, in1_features)``. input2: ``(*, in2_features)``. Output: ``(*, out_features)``.
        weight: ``(out_features, in1_features, in2_features)``. bias: ``(out_features,)``.

    Example:
        >>> torch.nn.Bilinear(3, 4, 2)(torch.ones(5, 3), torch.ones(5, 4)).shape
        torch.Size([5, 2])
    """

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        factory = {"device": device, "dtype": dtype}
        self.weight = Parameter(empty((out_features, in1_features, in2_features), **factory))
        if bias:
            self.bias = Parameter(empty(out_features, **factory))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias uniformly from ``[-b, b]``, with ``b = 1 / sqrt(in1_features)``."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


__all__ = ["Bilinear", "Identity", "Linear"]
