"""Gradients of convolutions as functions, for hand-written backward passes."""

from __future__ import annotations

from typing import Any

from retrograd.autograd import grad
from retrograd.autograd.grad_mode import enable_grad
from retrograd.nn import functional
from retrograd.tensor._tensor import Tensor


def _gradient(dims: int, input: Tensor, weight: Tensor, grad_output: Tensor, by: int,
              options: tuple[Any, ...]) -> Tensor:  # fmt: skip
    stride, padding, dilation, groups = options
    both = [x.detach() for x in (input, weight)]
    with enable_grad():
        both[by].requires_grad_()
        convolution: Any = getattr(functional, f"conv{dims}d")
        result = convolution(*both, None, stride, padding, dilation, groups)
        gradient: Tensor = grad(result, both[by], grad_output)[0]
    return gradient


def _functions(dims: int) -> tuple[Any, Any]:
    """The functions of the gradients of convolutions in a number of dimensions."""

    def by_input(input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1,
                 padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:  # fmt: skip
        image: Tensor = weight.new_zeros(tuple(input_size))
        options = (stride, padding, dilation, groups)
        return _gradient(dims, image, weight, grad_output, 0, options)

    def by_weight(input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1,
                  padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:  # fmt: skip
        weight: Tensor = input.new_zeros(tuple(weight_size))
        options = (stride, padding, dilation, groups)
        return _gradient(dims, input, weight, grad_output, 1, options)

    for function, word in ((by_input, "input"), (by_weight, "weight")):
        function.__name__ = function.__qualname__ = f"conv{dims}d_{word}"
        function.__doc__ = f"""The gradient of ``conv{dims}d`` with respect to its {word}.

Args:
    input_size, input: The shape of the input, or the input.
    weight, weight_size: The weight, or its shape.
    grad_output: The gradient of the result.
    stride, padding, dilation, groups: As for the convolution.

Returns:
    The gradient.
"""
    return by_input, by_weight


conv1d_input, conv1d_weight = _functions(1)
conv2d_input, conv2d_weight = _functions(2)
conv3d_input, conv3d_weight = _functions(3)

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input",
           "conv3d_weight"]  # fmt: skip
