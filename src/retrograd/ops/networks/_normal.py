"""Helpers of all normalizations: shifting and scaling groups to mean 0 and variance 1.

What differs is which numbers share their statistics (a row, a channel of the whole batch, some
channels of one sample) and along what the weights go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._dims import numel
from retrograd.ops._operation import raw
from retrograd.ops.elementwise import rsqrt
from retrograd.ops.pointwise.scalar_arithmetic import plus

type_word = arrays.dtypes.type_word

# What arguments mean in all normalizations of channels.
MEANINGS = {
    "weight": "factors of shape ``(C,)``, or None.",
    "bias": "summands of shape ``(C,)``, or None.",
    "training": (
        "whether to normalize by the statistics of the batch. Otherwise the running ones are "
        "used."
    ),
    "momentum": "weight of the current batch in the running statistics.",
    "eps": "added to the variance.",
    "cudnn_enabled": "no effect.",
    "running_mean": (
        "running mean of shape ``(C,)``, or None. Updated in place if ``use_input_stats``."
    ),
    "running_var": (
        "running variance of shape ``(C,)``, or None. Updated in place if ``use_input_stats``."
    ),
    "use_input_stats": (
        "whether to normalize by the statistics of the input. Otherwise the running ones are "
        "used."
    ),
}  # fmt: skip


def normalized(x: Any, dims: tuple[int, ...], eps: float) -> tuple[Any, Any, Any, Any]:
    """Numbers with mean 0 and variance 1 over some dimensions; their mean, scale (1 over the
    standard deviation) and variance before."""
    mean = linear.mean_dim(x, dim=dims, keepdim=True)
    centred = x - mean
    variance = linear.mean_dim(centred * centred, dim=dims, keepdim=True)
    scale = rsqrt(plus(variance, number=eps))
    return centred * scale, mean, scale, variance


def weighted(normal: Any, weight: Any, bias: Any) -> Any:
    result = normal if weight is None else normal * weight
    return result if bias is None else result + bias


class Layout(NamedTuple):
    """How kernels look at the numbers to be normalized: the shape to see them in, and the
    dimensions of it over which statistics are taken."""

    shape: tuple[int, ...]
    reduced: tuple[int, ...]

    @property
    def sharing(self) -> int:
        """How many numbers share their statistics."""
        return numel([self.shape[d] for d in self.reduced])


def by_rows(shape: Sequence[int], weighted: int) -> Layout:
    """Each row on its own; its last ``weighted`` dimensions are one."""
    width = numel(shape[len(shape) - weighted :])
    return Layout((numel(shape[: len(shape) - weighted]), width), (1,))


def by_channels(shape: Sequence[int]) -> Layout:
    """Each channel over the whole batch."""
    return Layout((shape[0], shape[1], numel(shape[2:])), (0, 2))


def by_groups(shape: Sequence[int], groups: int) -> Layout:
    """Some channels of each sample together."""
    sizes = (shape[0], groups, shape[1] // groups, numel(shape[2:]))
    return Layout(sizes, (2, 3))


# -- channels ----------------------------------------------------------------------------------


def normalize_channels(
    input: Raw, weight: Raw | None, bias: Raw | None, mean: Raw, scale: Raw
) -> Raw:
    """``(input - mean) * scale * weight + bias``, with tables of numbers for each channel (of each
    sample)."""
    factor = scale if weight is None else scale * weight
    if not arrays.is_contiguous(input) and not arrays.isfinite(factor).all():
        # As PyTorch does where memory is not in one piece: infinite weights times a mean of 0 would
        # be NaN in the sum below.
        rank = (1,) * (len(input.shape) - 2)
        m, s, w, b = (t if t is None else t.reshape(*t.shape, *rank)
                      for t in (mean, scale, weight, bias))  # fmt: skip
        return arrays.cast(weighted((input - m) * s, w, b), input.dtype)
    shift = -mean * factor if bias is None else bias - mean * factor
    batch, channels = input.shape[:2]
    flat = input.reshape(batch, channels, numel(input.shape[2:]))
    return arrays.normalizing.scale_channels(flat, factor, shift).reshape(input.shape)


def channel_gradients(
    g: Raw, input: Raw, weight: Raw | None, mean: Raw, scale: Raw, layout: Layout,
    needs: Sequence[bool], fixed: bool = False,
) -> list[Any]:  # fmt: skip
    """The gradients of the input, the weight and the bias: sums over the positions of each channel
    first, and then all else on small tables of these. ``mean`` and ``scale`` are such tables. The
    statistics may be ``fixed``: then they do not depend on the input."""
    batch, channels = input.shape[:2]
    shape = (batch, channels, numel(input.shape[2:]))
    g, x = arrays.reshape(g, shape), arrays.reshape(input, shape)
    total, product = arrays.normalizing.channel_sums(g, x, mean)
    product = product * scale
    results: list[Any] = [None, None, None]
    if needs[1]:
        results[1] = arrays.sum(product, 0)
    if needs[2]:
        results[2] = arrays.sum(total, 0)
    if not needs[0]:
        return results
    factor = scale if weight is None else scale * weight
    if fixed:
        gx = arrays.normalizing.scale_channels(g, factor, arrays.zeros_like(factor))
    else:
        of_mean, of_scale = (_shared(t if weight is None else t * weight, layout)
                             for t in (total, product))  # fmt: skip
        of_x = of_scale * scale * scale * (-1 / (layout.sharing or 1))
        shift = of_mean * scale * (-1 / (layout.sharing or 1)) - of_x * mean
        gx = arrays.normalizing.mix_channels(g, x, factor, of_x, shift)
    results[0] = arrays.reshape(gx, input.shape)
    return results


def _shared(table: Raw, layout: Layout) -> Raw:
    """For each channel of each sample, the sum of a table over all that share its statistics."""
    if layout.reduced == (0, 2):
        return arrays.sum(table, 0, True)
    groups = arrays.reshape(table, layout.shape[:3])
    return each_channel(arrays.sum(groups, 2), layout)


def each_channel(table: Raw, layout: Layout) -> Raw:
    """A number for each group of channels, given to each of them."""
    batch, groups, size = layout.shape[:3]
    spread = arrays.expand(arrays.reshape(table, (batch, groups, 1)), (batch, groups, size))
    return arrays.reshape(spread, (batch, groups * size))


def pooled(mean: Raw, squares: Raw, layout: Layout) -> tuple[Raw, Raw]:
    """The mean and the sum of squared distances of groups of rows, from those of the rows, which
    are all of one length, along the last dimension of two tables."""
    length = layout.shape[-1]
    whole = arrays.sum(mean, -1, True) / (mean.shape[-1] or 1)
    spread = arrays.sum(arrays.square(mean - whole), -1)
    return whole[..., 0], arrays.sum(squares, -1) + length * spread


def statistics_dtype(input: Any, parameters: Sequence[Any]) -> Any:
    """The dtype in which statistics are kept: that of the parameters, if any."""
    return raw(next((p for p in parameters if p is not None), input)).dtype


# -- what is refused ---------------------------------------------------------------------------


def check_dtypes(input: Raw, *parameters: Raw | None) -> None:
    """Parameters are of the input's dtype; those of a half precision input may be float32."""
    given = [p for p in map(raw, parameters) if p is not None]
    if given and given[0].dtype != input.dtype:
        if any(p.dtype.name != "float32" for p in given):
            raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
        if input.dtype.name not in ("float16", "bfloat16"):
            raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")
    for p in given:
        if p.dtype != given[0].dtype:
            words = type_word(given[0].dtype), type_word(p.dtype)
            raise RuntimeError("expected scalar type {} but found {}".format(*words))


def check_tensor(name: str, input: Any) -> None:
    if not hasattr(input, "shape"):
        raise TypeError(
            f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )


def check_several(size: Any, what: str) -> None:
    """One value alone has no deviation."""
    first = size[0] if what == "value per channel" else 1
    if first * numel(size[2:]) == 1:
        raise ValueError(f"Expected more than 1 {what} when training, got input size {size}")
