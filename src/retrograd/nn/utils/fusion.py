"""Fusion of a layer with the batch normalization that follows it."""

from __future__ import annotations

import copy
from typing import Any

from retrograd.nn.parameter import Parameter
from retrograd.tensor._like import ones_like, zeros_like


def _fused(
    weight: Any, bias: Any, mean: Any, var: Any, eps: float, scale: Any, shift: Any, shape: Any
) -> tuple[Any, Any]:
    """Weight and bias of the layer that is equivalent to a layer and a batch normalization."""
    kept = weight.dtype if bias is None else bias.dtype
    bias = zeros_like(mean) if bias is None else bias
    scale = ones_like(mean) if scale is None else scale
    shift = zeros_like(mean) if shift is None else shift
    factor = scale * (var + eps).rsqrt()
    new_weight = (weight * factor.reshape(shape)).to(weight.dtype)
    new_bias = ((bias - mean) * factor + shift).to(kept)
    return Parameter(new_weight, weight.requires_grad), Parameter(new_bias, bias.requires_grad)


def fuse_conv_bn_weights(
    conv_w: Any, conv_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any,
    transpose: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Fold a batch normalization into the weight and bias of the convolution before it.

    Args:
        conv_w, conv_b: weight and bias of the convolution; the bias may be None.
        bn_rm, bn_rv: running mean and variance of the batch normalization.
        bn_eps: its ``eps``.
        bn_w, bn_b: its weight and bias, or None.
        transpose: whether the convolution is a transposed one.

    Returns:
        The new weight and bias.

    Example:
        >>> statistics = torch.tensor([1.0]), torch.tensor([4.0])
        >>> weight, bias = torch.nn.utils.fuse_conv_bn_weights(
        ...     torch.ones(1, 1, 1), torch.tensor([3.0]), *statistics, 0.0, None, None)
        >>> weight.item(), bias.item()
        (0.5, 1.0)
    """
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Any, Any]:
    """Fold a batch normalization into the weight and bias of the linear layer before it.

    Args:
        linear_w, linear_b: weight and bias of the layer; the bias may be None.
        bn_rm, bn_rv: running mean and variance of the batch normalization.
        bn_eps: its ``eps``.
        bn_w, bn_b: its weight and bias, or None.

    Returns:
        The new weight and bias.

    Example:
        >>> statistics = torch.tensor([1.0]), torch.tensor([4.0])
        >>> weight, bias = torch.nn.utils.fuse_linear_bn_weights(
        ...     torch.ones(1, 1), torch.tensor([3.0]), *statistics, 0.0, None, None)
        >>> weight.item(), bias.item()
        (0.5, 1.0)
    """
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, (-1, 1))


def _checked_copy(layer: Any, bn: Any) -> Any:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    return copy.deepcopy(layer)


def _statistics(bn: Any) -> tuple[Any, Any, float, Any, Any]:
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    return bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that is equivalent to a convolution and a batch normalization.

    Args:
        conv: the convolution, in evaluation mode.
        bn: the batch normalization, in evaluation mode.
        transpose: whether the convolution is a transposed one.

    Example:
        >>> conv, bn = torch.nn.Conv2d(1, 2, 3).eval(), torch.nn.BatchNorm2d(2).eval()
        >>> fused, x = torch.nn.utils.fuse_conv_bn_eval(conv, bn), torch.ones(1, 1, 4, 4)
        >>> torch.allclose(fused(x), bn(conv(x)), atol=1e-6)
        True
    """
    fused = _checked_copy(conv, bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, *_statistics(bn), transpose
    )
    return fused


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer that is equivalent to a linear layer and a batch normalization.

    Args:
        linear: the linear layer, in evaluation mode.
        bn: the batch normalization, in evaluation mode.

    Example:
        >>> linear, bn = torch.nn.Linear(3, 2).eval(), torch.nn.BatchNorm1d(2).eval()
        >>> fused, x = torch.nn.utils.fuse_linear_bn_eval(linear, bn), torch.ones(4, 3)
        >>> torch.allclose(fused(x), bn(linear(x)), atol=1e-6)
        True
    """
    fused = _checked_copy(linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, *_statistics(bn))
    return fused


__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval",
           "fuse_linear_bn_weights"]  # fmt: skip
