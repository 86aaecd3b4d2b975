"""What all normalizations share: numbers moved and scaled to mean 0 and variance 1, in groups.

What differs is which numbers share their statistics (a row, a channel of the whole batch, some
channels of one sample) and along what the weights go. The derivative is the same for all, and is
written once, in ``gradients``: its operators record themselves when second derivatives are wanted.
On plain arrays the kernels of ``arrays.normalizing`` do the same in fewer steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._batching import BatchLevel
from retrograd.ops._dims import numel
from retrograd.ops._operation import raw
from retrograd.ops.elementwise import add, mul, to_dtype

type_word = arrays.dtypes.type_word


class Layout(NamedTuple):
    """How to look at the numbers to be normalized: the shape to see them in, the dimensions of it
    over which statistics are taken, and those along which weights go."""

    shape: tuple[int, ...]
    reduced: tuple[int, ...]
    weighted: tuple[int, ...]

    def stretched(self, x: Any, dims: Sequence[int]) -> Any:
        """An array that goes along ``dims``, with size 1 in all others."""
        return linear.reshape(x, tuple(s if d in dims else 1 for d, s in enumerate(self.shape)))

    def statistic(self, x: Any) -> Any:
        return self.stretched(x, [d for d in range(len(self.shape)) if d not in self.reduced])

    @property
    def others(self) -> tuple[int, ...]:
        """The dimensions that weights do not go along."""
        return tuple(d for d in range(len(self.shape)) if d not in self.weighted)

    @property
    def sharing(self) -> int:
        """How many numbers share their statistics."""
        return numel([self.shape[d] for d in self.reduced])


def by_rows(shape: Sequence[int], weighted: int) -> Layout:
    """Each row on its own; its last ``weighted`` dimensions are one."""
    width = numel(shape[len(shape) - weighted :])
    return Layout((numel(shape[: len(shape) - weighted]), width), (1,), (1,))


def by_channels(shape: Sequence[int]) -> Layout:
    """Each channel over the whole batch."""
    return Layout((shape[0], shape[1], numel(shape[2:])), (0, 2), (1,))


def by_groups(shape: Sequence[int], groups: int) -> Layout:
    """Some channels of each sample together."""
    sizes = (shape[0], groups, shape[1] // groups, numel(shape[2:]))
    return Layout(sizes, (2, 3), (1, 2))


def gradients(
    g: Sequence[Any], input: Any, weight: Any, mean: Any, scale: Any, layout: Layout,
    needs: Sequence[bool], fixed: bool = False,
) -> list[Any]:  # fmt: skip
    """The gradients of the input, the weight and the bias (the latter two as vectors), from those
    of the result and of the statistics. The statistics may be ``fixed``: then they do not depend on
    the input."""
    x, mean, scale = linear.reshape(input, layout.shape), *map(layout.statistic, (mean, scale))
    normal = (x - mean) * scale
    found: list[Any] = [None, None, None]
    of_normal = None
    if g[0] is not None:
        of_normal = gradient = linear.reshape(g[0], layout.shape)
        if needs[1]:
            found[1] = _along_weights(gradient * normal, layout)
        if needs[2]:
            found[2] = _along_weights(gradient, layout)
        if weight is not None:
            of_normal = gradient * layout.stretched(weight, layout.weighted)
    if not needs[0]:
        return found
    terms = []
    if of_normal is not None:
        terms.append(of_normal * scale)
        if not fixed:
            terms.append(-scale * _mean(of_normal, layout))
            terms.append(-scale * normal * _mean(of_normal * normal, layout))
    if g[1] is not None and not fixed:
        of_mean = layout.statistic(g[1]) / (layout.sharing or 1)
        terms.append(linear.expand(of_mean, size=layout.shape))
    if g[2] is not None and not fixed:
        of_scale = layout.statistic(g[2]) * (-1 / (layout.sharing or 1))
        terms.append(of_scale * (scale * scale) * normal)
    total = terms[0] if terms else x * 0
    for term in terms[1:]:
        total = total + term
    found[0] = linear.reshape(total, input.shape)
    return found


def tangents(
    t: Sequence[Any], input: Any, weight: Any, statistics: tuple[Any, Any], layout: Layout,
    fixed: bool = False,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """How the result, the mean and the scale move with the input, the weight and the bias."""
    x, mean, scale = linear.reshape(input, layout.shape), *map(layout.statistic, statistics)
    normal = (x - mean) * scale
    of_x, of_weight, of_bias = t
    terms, moved = [], (None, None)
    if of_x is not None:
        change = linear.reshape(of_x, layout.shape)
        if not fixed:
            of_mean, along = _mean(change, layout), _mean(change * normal, layout)
            change = change - of_mean - normal * along
            moved = (of_mean, -(scale * scale) * along)
        change = change * scale
        terms.append(
            change if weight is None else change * layout.stretched(weight, layout.weighted)
        )
    if of_weight is not None:
        terms.append(normal * layout.stretched(of_weight, layout.weighted))
    if of_bias is not None:
        column = layout.stretched(of_bias, layout.weighted)
        terms.append(linear.expand(column, size=layout.shape))
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return _as(input, total), *(
        m if m is None else _as(s, m) for s, m in zip(statistics, moved, strict=True)
    )  # fmt: skip


def _as(like: Any, x: Any) -> Any:
    """A value in the shape and dtype of another."""
    return linear.reshape(_in(raw(like).dtype, x), tuple(like.shape))


def weighted(
    level: BatchLevel, normalized: Sequence[Any], parameters: Sequence[Any], shape: Sequence[int]
) -> tuple[Any, Any, Any]:
    """What was normalized without weight and bias, for a batch whose entries have their own, with
    them. In ``shape`` they line up with one entry."""
    result, *statistics = normalized
    given = raw(result).dtype
    for parameter, combine in zip(parameters, (mul, add), strict=True):
        if parameter is not None:
            lead = (level.size,) if level.owns(parameter) else ()
            result = combine(result, linear.reshape(level.plain(parameter), (*lead, *shape)))
    kept = next(raw(p).dtype for p in parameters if p is not None)
    return _in(given, result), _in(kept, statistics[0]), _in(kept, statistics[1])


def _in(dtype: Any, x: Any) -> Any:
    return x if raw(x).dtype == dtype else to_dtype(x, dtype=dtype)


def _along_weights(x: Any, layout: Layout) -> Any:
    summed = linear.sum_dim(x, dim=layout.others, keepdim=False)
    return linear.reshape(summed, (numel([layout.shape[d] for d in layout.weighted]),))


def _mean(x: Any, layout: Layout) -> Any:
    return linear.mean_dim(x, dim=layout.reduced, keepdim=True)


def is_plain(g: Sequence[Any], input: Any, weight: Any) -> bool:
    """Whether a rule runs on arrays and for the result alone, so that a kernel can do its work."""
    if g[1] is not None or g[2] is not None:
        return False
    return all(map(arrays.is_raw, (g[0], input) if weight is None else (g[0], input, weight)))


# -- what is refused ---------------------------------------------------------------------------


def check_dtypes(input: Raw, *parameters: Raw | None) -> None:
    """Parameters are of the input's dtype; those of a half precision input may be float32."""
    given = [p for p in map(raw, parameters) if p is not None]
    if given and given[0].dtype != input.dtype:
        if any(p.dtype.name != "float32" for p in given):
            raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
        if input.dtype.name != "float16":
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
