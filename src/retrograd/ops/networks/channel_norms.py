"""Normalization of channels: batch norm and instance norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd._modes import modes
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._batching import batches_of
from retrograd.ops._dims import numel, one_dim
from retrograd.ops._lifted import Lifted, bare, device_value
from retrograd.ops._operands import detached
from retrograd.ops._operation import composite, raw
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel
from retrograd.ops._sections import complete_all
from retrograd.ops._words import NORM
from retrograd.ops.copies import clone
from retrograd.ops.elementwise import rsqrt
from retrograd.ops.networks._normal import (
    MEANINGS,
    by_channels,
    channel_gradients,
    check_dtypes,
    check_several,
    check_tensor,
    normalize_channels,
    normalized,
    pooled,
    statistics_dtype,
    weighted,
)
from retrograd.ops.reductions.basic import in_dtype, widened


class Running:
    """Running statistics, which are updated once: not when the definition is evaluated again to be
    differentiated."""

    __slots__ = ("kept", "momentum")
    acts_once = True  # an option that writes in the first call only: see ``devices``

    def __init__(self, mean: Any, var: Any, momentum: float) -> None:
        self.kept: tuple[Any, ...] = (mean, var)
        self.momentum = momentum

    def of(self, statistics: Sequence[Any]) -> Running:
        """The same for other statistics."""
        result = Running(None, None, self.momentum)
        result.kept = tuple(statistics)
        return result

    def update(self, mean: Any, squares: Any, count: int) -> None:
        """Move on towards the mean of ``count`` numbers, and their variance: the sum of their
        squared distances from it, by one less, as it is judged from a sample."""
        news = (mean, squares / arrays.asarray(count - 1))
        for kept, new in zip(self.kept, news, strict=False):
            moved = kept * (1 - self.momentum) + new * self.momentum
            if batches_of(moved) != batches_of(kept):
                raise RuntimeError(_NOT_BATCHED)
            there = device_value(kept)
            if isinstance(kept, Lifted) and kept.level.traces and raw(moved).level is kept.level:
                kept.level.write(kept, moved)
            elif there is not None:
                there.level.write(there, device_value(moved))
            else:
                arrays.write(bare(kept), bare(moved))
        self.kept = ()


_NOT_BATCHED = (
    "Batch norm got a batched tensor as input while the running_mean or running_var, which will be "
    "updated in place, were not batched.\nIf you are using a module and do not need eval mode, "
    "please set `track_running_stats` to be False.If you are using a prebuilt module and do not "
    "need eval mode, please see the functorch website for resources on how to patch your module to "
    "work with vmap"
)


def _batch_norm(
    input: Raw, weight: Raw | None, bias: Raw | None, running_mean: Any, running_var: Any,
    training: bool, running: Running | None, eps: float,
) -> tuple[Raw, Raw, Raw]:  # fmt: skip
    kept = statistics_dtype(input, (weight, bias, running_mean, running_var))
    if not training:
        scale = 1 / arrays.sqrt(running_var + eps)
        result = normalize_channels(input, weight, bias, running_mean, scale)
        return result, arrays.zeros((0,), kept), arrays.zeros((0,), kept)
    layout = by_channels(input.shape)
    moments = arrays.normalizing.channel_moments(arrays.reshape(input, layout.shape))
    means, distances = (arrays.permute(m, None) for m in moments)
    mean, squares = pooled(means, distances, layout)
    if running is not None:
        running.update(mean, squares, layout.sharing)
    scale = 1 / arrays.sqrt(squares / layout.sharing + eps)
    result = normalize_channels(input, weight, bias, mean, scale)
    return result, arrays.cast(mean, kept), arrays.cast(scale, kept)


def _batch_norm_definition(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    running: Running | None, eps: float,
) -> tuple[Any, Any, Any]:  # fmt: skip
    given, kept = raw(input).dtype, statistics_dtype(input, (weight, bias, running_mean))
    channels, rank = input.shape[1], len(input.shape)

    def column(x: Any) -> Any:
        return x if x is None else linear.reshape(x, (channels, *(1,) * (rank - 2)))

    x, weight, bias = widened(input), column(weight), column(bias)
    if not training:
        mean, scale = column(widened(running_mean)), rsqrt(column(widened(running_var)) + eps)
        nothing = in_dtype(linear.new_zeros(x, (0,)), kept)
        result = weighted(x - mean, weighted(scale, weight, None), bias)
        return in_dtype(result, given), nothing, nothing
    dims = (0, *range(2, rank))
    normal, mean, scale, variance = normalized(x, dims, eps)
    mean, scale, variance = (linear.reshape(s, (channels,)) for s in (mean, scale, variance))
    if running is not None:
        count = numel([input.shape[d] for d in dims])
        running.update(raw(detached(mean)), raw(detached(variance)) * count, count)
    result = weighted(normal, weight, bias)
    return in_dtype(result, given), in_dtype(mean, kept), in_dtype(scale, kept)


def _batch_norm_rule(
    g: Any, input: Raw, weight: Raw | None, result1: Raw, result2: Raw, running_mean: Any,
    running_var: Any, training: bool, eps: float, needs: list[bool],
) -> Any:  # fmt: skip
    if g[1] is not None or g[2] is not None:  # the statistics, which users do not see
        return NotImplemented
    layout = by_channels(input.shape)
    mean, scale = result1, result2
    if not training:
        mean, scale = running_mean, 1 / arrays.sqrt(running_var + eps)
    return channel_gradients(g[0], input, weight, mean, scale, layout, needs, fixed=not training)


def _check_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, **options: Any
) -> None:
    kernel("batch_norm", "biuc")(input)
    check_dtypes(input, weight, bias, running_mean, running_var)
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")


native_batch_norm = composite(
    "native_batch_norm", _batch_norm_definition, _batch_norm, inputs=("input", "weight", "bias"),
    joint=_batch_norm_rule, fused=True, outputs=("result", "result1", "result2"), dtypes="free",
    check=_check_batch_norm,
    words=NORM,
)  # fmt: skip


@public("torch.batch_norm")
def torch_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float, cudnn_enabled: bool = True,
) -> Any:  # fmt: skip
    """Batch normalization of each channel over the batch and all positions.

    The same as ``nn.functional.batch_norm``, with the arguments in another order.

    Args:
        input: the input, of shape ``(N, C, ...)``.
        running_mean: running mean of shape ``(C,)``, or None. Updated in place in training.
        running_var: running variance of shape ``(C,)``, or None. Updated in place in training.

    Example:
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 6.0]])
        >>> torch.batch_norm(x, None, None, None, None, True, 0.1, 1e-5)
        tensor([[-1.0000, -1.0000],
                [ 1.0000,  1.0000]])
    """
    return _batch_normalized(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )[0]


@public("torch.native_batch_norm")
def batch_norm_with_statistics(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Batch normalization, with the statistics that it used.

    Args:
        input, weight, bias, running_mean, running_var, training, momentum, eps: as for
            ``torch.batch_norm``.

    Returns:
        The result, the mean and the inverse of the standard deviation of each channel, which are
        constants, and empty unless ``training``.

    Example:
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 6.0]])
        >>> torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[1]
        tensor([2., 4.])
    """
    result, *statistics = _batch_normalized(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )
    return result, *(detached(x) for x in statistics)


def _batch_normalized(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float,
) -> tuple[Any, ...]:  # fmt: skip
    check_tensor("batch_norm", input)
    if not isinstance(momentum, (int, float)):
        raise TypeError(
            "batch_norm(): argument 'momentum' (position 7) must be float, not "
            f"{type(momentum).__name__}"
        )
    channels = input.shape[1] if len(input.shape) > 1 else 0
    if 0 in input.shape:  # not a view of the input, and still a result that depends on all
        result = clone(input)
        result = result if weight is None else result * weight[0]
        none = linear.new_zeros(result, (channels if training else 0,))
        return result if bias is None else result + bias[0], none, none
    running = {"running_mean": running_mean, "running_var": running_var}
    for name, value in {**running, "weight": weight, "bias": bias}.items():
        if value is not None and numel(value.shape) != channels:
            raise RuntimeError(
                f"{name} should contain {channels} elements not {numel(value.shape)}"
            )
        if value is None and name in running and not training:
            raise RuntimeError(f"{name} must be defined in evaluation mode")
        if name in running and modes.grad_enabled and getattr(value, "requires_grad", False):
            raise RuntimeError(
                f"The function 'native_batch_norm' is not differentiable with respect to argument "
                f"'{name}'. This input cannot have requires_grad True."
            )
    mean, var = (None if v is None else raw(v) for v in running.values())
    updated = None
    if training and mean is not None:
        updated = Running(mean, var, momentum)
    elif not training:  # kept for the gradient: later writes must not change it
        mean, var = clone(mean), clone(var)
    return tuple(native_batch_norm(
        input, weight, bias, running_mean=mean, running_var=var, training=bool(training),
        running=updated, eps=eps,
    ))  # fmt: skip


@public("functional")
def batch_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Batch normalization of each channel over the batch and all positions.

    ``(x - mean) / sqrt(var + eps) * weight + bias``, with mean and (biased) variance of each
    channel.

    Args:
        input: the input, of shape ``(N, C, ...)``.
        running_mean: running mean of shape ``(C,)``, or None. Updated in place in training.
        running_var: running variance of shape ``(C,)``, or None. Updated in place in training.

    Example:
        >>> x = torch.tensor([[1., 2.], [3., 6.]])
        >>> torch.nn.functional.batch_norm(x, None, None, training=True)
        tensor([[-1.0000, -1.0000],
                [ 1.0000,  1.0000]])
    """
    if training:
        check_several(input.shape, "value per channel")
        if eps <= 0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    elif eps < 0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return torch_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


@public("torch.instance_norm")
def torch_instance_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, use_input_stats: bool,
    momentum: float, eps: float, cudnn_enabled: bool = True,
) -> Any:  # fmt: skip
    """Instance normalization of each channel of each sample over all positions.

    The same as ``nn.functional.instance_norm``, with the arguments in another order.

    Args:
        input: the input, of shape ``(N, C, ...)``.

    Example:
        >>> x = torch.tensor([[[1.0, 3.0], [2.0, 6.0]]])
        >>> torch.instance_norm(x, None, None, None, None, True, 0.1, 1e-5)
        tensor([[[-1.0000,  1.0000],
                 [-1.0000,  1.0000]]])
    """
    check_tensor("instance_norm", input)
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError(
            "Expected running_mean and running_var to be defined when use_input_stats is false"
        )
    shape = tuple(input.shape)
    if not shape:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    one_dim(1, len(shape))
    batch, channels = shape[:2]
    weight, bias = (p if p is None else p.repeat(batch) for p in (weight, bias))
    mean, var = (
        None if r is None else r.detach().to(input.dtype).repeat(batch)
        for r in (running_mean, running_var)
    )
    flat = linear.view(input.contiguous(), size=(1, batch * channels, *shape[2:]))
    result = torch_batch_norm(flat, weight, bias, mean, var, use_input_stats, momentum, eps)
    for kept, new in ((running_mean, mean), (running_var, var)):
        if use_input_stats and kept is not None and new is not None:
            kept.detach().copy_(new.reshape(batch, channels).mean(0))
    return linear.view(result, size=shape)


@public("functional")
def instance_norm(
    input: Any, running_mean: Any = None, running_var: Any = None, weight: Any = None,
    bias: Any = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Instance normalization of each channel of each sample over all positions.

    ``(x - mean) / sqrt(var + eps) * weight + bias``, with mean and (biased) variance of each
    channel of a sample.

    Args:
        input: the input, of shape ``(N, C, ...)``.

    Example:
        >>> torch.nn.functional.instance_norm(torch.tensor([[[1., 3.], [2., 6.]]]))
        tensor([[[-1.0000,  1.0000],
                 [-1.0000,  1.0000]]])
    """
    if use_input_stats:
        check_several(input.shape, "spatial element")
    return torch_instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps
    )


complete_all(globals(), MEANINGS)
