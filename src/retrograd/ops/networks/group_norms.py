"""Normalization of groups of channels."""

from __future__ import annotations

import operator
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._dims import numel, one_dim
from retrograd.ops._operation import composite, raw
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel
from retrograd.ops._sections import complete_all
from retrograd.ops._words import NORM
from retrograd.ops.elementwise import rsqrt
from retrograd.ops.networks._normal import (
    MEANINGS,
    by_groups,
    channel_gradients,
    check_dtypes,
    check_several,
    check_tensor,
    each_channel,
    normalize_channels,
    normalized,
    pooled,
    statistics_dtype,
    weighted,
)
from retrograd.ops.reductions.basic import in_dtype, widened
from retrograd.ops.reductions.statistics import var_mean


def _group_norm(
    input: Raw, weight: Raw | None, bias: Raw | None, num_groups: int, eps: float
) -> tuple[Raw, Raw, Raw]:
    layout = by_groups(input.shape, num_groups)
    batch, channels = input.shape[:2]
    flat = arrays.reshape(input, (batch, channels, layout.shape[3]))
    moments = arrays.normalizing.channel_moments(flat)
    means, distances = (arrays.reshape(m, layout.shape[:3]) for m in moments)
    mean, squares = pooled(means, distances, layout)
    scale = 1 / arrays.sqrt(squares / (layout.sharing or 1) + eps)
    tables = [each_channel(t, layout) for t in (mean, scale)]
    result = normalize_channels(input, weight, bias, tables[0], tables[1])
    kept = statistics_dtype(input, (weight, bias))
    return result, arrays.cast(mean, kept), arrays.cast(scale, kept)


def _group_norm_definition(
    input: Any, weight: Any, bias: Any, num_groups: int, eps: float
) -> tuple[Any, Any, Any]:
    given, kept = raw(input).dtype, statistics_dtype(input, (weight, bias))
    layout = by_groups(input.shape, num_groups)
    x = linear.reshape(widened(input), layout.shape)
    normal, mean, scale, _ = normalized(x, layout.reduced, eps)
    columns = (*layout.shape[1:3], 1)
    weight, bias = (p if p is None else linear.reshape(p, columns) for p in (weight, bias))
    result = linear.reshape(weighted(normal, weight, bias), tuple(input.shape))
    statistics = (in_dtype(linear.reshape(s, layout.shape[:2]), kept) for s in (mean, scale))
    return in_dtype(result, given), *statistics


def _group_norm_rule(
    g: Any, input: Raw, weight: Raw | None, result1: Raw, result2: Raw, num_groups: int,
    needs: list[bool],
) -> Any:  # fmt: skip
    if g[1] is not None or g[2] is not None:
        return NotImplemented
    layout = by_groups(input.shape, num_groups)
    mean, scale = (each_channel(t, layout) for t in (result1, result2))
    return channel_gradients(g[0], input, weight, mean, scale, layout, needs)


def _check_group_norm(input: Any, weight: Any, bias: Any, **options: Any) -> None:
    check_dtypes(input, weight, bias)
    kernel("GroupNormKernelImpl", "biuc")(input)


native_group_norm = composite(
    "native_group_norm", _group_norm_definition, _group_norm, inputs=("input", "weight", "bias"),
    joint=_group_norm_rule, fused=True, outputs=("result", "result1", "result2"), dtypes="free",
    check=_check_group_norm,
    words=NORM,
)  # fmt: skip


@public("torch.group_norm")
def torch_group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Any:  # fmt: skip
    """Group normalization: normalization over groups of channels of each sample.

    The same as ``nn.functional.group_norm``.

    Args:
        input: the input, of shape ``(N, C, ...)``.
        num_groups: number of groups; divides ``C``.

    Example:
        >>> torch.group_norm(torch.tensor([[1.0, 3.0, 2.0, 6.0]]), 2)
        tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    check_tensor("group_norm", input)
    one_dim(1, len(input.shape))
    _check_groups(list(input.shape), input.shape[1], num_groups, weight, bias)
    input = input.contiguous()
    return native_group_norm(input, weight, bias, num_groups=num_groups, eps=eps)[0]


def _check_groups(
    shape: list[int], channels: int, num_groups: int, weight: Any, bias: Any
) -> None:
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if channels % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {shape} and num_groups={num_groups}"
        )
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and tuple(value.shape) != (channels,):
            told = [0] if weight is None else list(weight.shape)  # PyTorch tells that of the weight
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, "
                f"but got {name} of shape {told} and input of shape {shape}"
            )


@public("torch.native_group_norm")
def group_norm_with_statistics(
    input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int,  # noqa: N803
    eps: float,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Group normalization, with the statistics that it used.

    Args:
        input: the input, of shape ``(N, C, ...)``.
        weight: factors of shape ``(C,)``, or None.
        bias: summands of shape ``(C,)``, or None.
        N: the number of samples.
        C: the number of channels.
        HxW: the number of positions.
        group: number of groups; divides ``C``.
        eps: added to the variance.

    Returns:
        The result, and the mean and the inverse of the standard deviation of each group.

    Example:
        >>> x = torch.tensor([[1.0, 3.0, 2.0, 6.0]])
        >>> torch.native_group_norm(x, None, None, 1, 4, 1, 2, 1e-5)[1]
        tensor([[2., 4.]])
    """
    _check_groups(list(input.shape), C, group, weight, bias)
    if numel(input.shape) != N * C * HxW:
        raise RuntimeError(
            f"native_group_norm(): an input of shape {list(input.shape)} does not have "
            f"N * C * HxW = {N} * {C} * {HxW} elements"
        )
    result = native_group_norm(input.contiguous(), weight, bias, num_groups=group, eps=eps)[0]
    groups = linear.reshape(input, (N, group, C // group * HxW))
    var, mean = var_mean(groups, dim=-1, correction=0)
    return result, mean, rsqrt(var + eps)


@public("functional")
def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Group normalization: normalization over groups of channels of each sample.

    ``(x - mean) / sqrt(var + eps) * weight + bias``, with mean and (biased) variance over all
    positions of the channels of a group.

    Args:
        input: the input, of shape ``(N, C, ...)``.
        num_groups: number of groups; divides ``C``.

    Example:
        >>> torch.nn.functional.group_norm(torch.tensor([[1., 3., 2., 6.]]), 2)
        tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    if len(input.shape) < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {len(input.shape)}"
        )
    num_groups = operator.index(num_groups)
    size = [input.shape[0] * input.shape[1] // num_groups, num_groups, *input.shape[2:]]
    check_several(size, "value per channel")
    return torch_group_norm(input, num_groups, weight, bias, eps)


complete_all(globals(), MEANINGS)
