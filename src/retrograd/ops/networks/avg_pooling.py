"""Pooling by the mean of each window, or by its norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import elementwise, piecewise
from retrograd.ops._dims import is_integer
from retrograd.ops._operation import Linear, raw
from retrograd.ops._operation import linear as declare
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel
from retrograd.ops._sections import sections
from retrograd.ops._words import AVERAGE
from retrograd.ops.networks._pools import (
    ADAPTIVE,
    Sizes,
    adaptive_sizes,
    as_flat_images,
    check_average,
    fitted,
    is_mean,
    output_sizes,
    zeros_by_shape,
)
from retrograd.ops.networks._spatial import spatial
from retrograd.ops.networks.max_pooling import max_pool1d, max_pool2d, max_pool3d
from retrograd.ops.reductions import basic as reductions

# -- the mean of each window -----------------------------------------------------------------


def _divisors(
    sizes: Sizes, kernel_size: Sizes, stride: Sizes, padding: Sizes, counts: Sizes,
    count_include_pad: bool, divisor_override: int | None, dtype: Any,
) -> Any:  # fmt: skip
    if divisor_override is not None:
        return arrays.asarray(divisor_override, dtype)
    return arrays.windows.divisors(
        kernel_size, stride, padding, counts, sizes, count_include_pad, dtype
    )


def _avg_pool(
    self: Raw, kernel_size: Sizes, stride: Sizes, padding: Sizes, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Raw:  # fmt: skip
    given, sizes = self.dtype, self.shape[-len(kernel_size) :]
    once = (1,) * len(sizes)
    counts = output_sizes(sizes, kernel_size, stride, padding, once, ceil_mode)
    if given.char == "e":
        self = arrays.cast(self, arrays.float32)
    sums = arrays.windows.window_sums(self, kernel_size, stride, padding, counts)
    divisors = _divisors(sizes, kernel_size, stride, padding, counts, count_include_pad,
                         divisor_override, self.dtype)  # fmt: skip
    if given.kind in "iu":
        return arrays.trunc_divide(sums, divisors)
    sums /= divisors
    return arrays.cast(arrays.windows.alike(self, sums), given)


def _avg_spread(
    self: Raw, like: Raw, sizes: Sizes, kernel_size: Sizes, stride: Sizes, padding: Sizes,
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> Raw:  # fmt: skip
    counts = self.shape[-len(sizes) :]
    divisors = _divisors(sizes, kernel_size, stride, padding, counts, count_include_pad,
                         divisor_override, self.dtype)  # fmt: skip
    return arrays.windows.window_spread(self / divisors, kernel_size, stride, padding, sizes)


def _avg_rule(
    g: Any, self: Any, kernel_size: Sizes, stride: Sizes, padding: Sizes, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Any:  # fmt: skip
    return avg_spread(
        g, self, sizes=tuple(self.shape[-len(stride) :]), kernel_size=kernel_size, stride=stride,
        padding=padding, ceil_mode=ceil_mode, count_include_pad=count_include_pad,
        divisor_override=divisor_override,
    )  # fmt: skip


def _avg_spread_rule(
    g: Any, kernel_size: Sizes, stride: Sizes, padding: Sizes, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Any:  # fmt: skip
    return AVG_POOL[len(stride)](
        g, kernel_size=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode,
        count_include_pad=count_include_pad, divisor_override=divisor_override,
    )  # fmt: skip


def _spreading(name: str, forward: Any, rule: Any) -> Linear:
    """The transpose of average pooling. It takes the gradient and the pooled input."""
    return Linear(
        name, forward, inputs=("self", "like"), rules={"self": rule, "like": zeros_by_shape},
        batch="leading",
    )  # fmt: skip


AVG_POOL = {
    n: declare(
        f"avg_pool{n}d", _avg_pool, _avg_rule, node=f"AvgPool{n}DBackward0", batch="leading",
        words=AVERAGE,
    ) for n in (2, 3)
}  # fmt: skip
avg_spread: Linear = _spreading("avg_spread", _avg_spread, _avg_spread_rule)


def _averages(sizes: Sequence[int], counts: Sizes) -> list[Any]:
    return [arrays.images.average(s, n) for s, n in zip(sizes, counts, strict=True)]


def _adaptive_avg_pool(self: Raw, output_size: Sizes) -> Raw:
    maps = _averages(self.shape[-len(output_size) :], output_size)
    return arrays.windows.alike(self, arrays.images.resample(self, maps))


ADAPTIVE_AVG_POOL = {
    n: declare(
        f"adaptive_avg_pool{n}d", _adaptive_avg_pool,
        lambda g, self, output_size: adaptive_avg_spread(
            g, self, sizes=tuple(self.shape[-len(output_size) :])
        ),
        node=f"AdaptiveAvgPool{n}DBackward0", batch="leading", words=AVERAGE,
    ) for n in (2, 3)
}  # fmt: skip
adaptive_avg_spread: Linear = _spreading(
    "adaptive_avg_spread",
    lambda self, like, sizes:
        arrays.images.unresample(self, _averages(sizes, self.shape[-len(sizes) :])),
    lambda g, shape, sizes: ADAPTIVE_AVG_POOL[len(sizes)](
        g, output_size=tuple(shape[-len(sizes) :])
    ),
)  # fmt: skip


# -- what users call: means ------------------------------------------------------------------


def _means(
    ndim: int, input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Any:  # fmt: skip
    options = check_average(
        ndim, raw(input), kernel_size, stride, padding, ceil_mode, divisor_override
    )
    return AVG_POOL[ndim](
        input, **options, ceil_mode=bool(ceil_mode), count_include_pad=bool(count_include_pad),
        divisor_override=divisor_override,
    )  # fmt: skip


_MEANS = """\
Args:
    input: the input, of shape ``(N, C, {input})`` or ``(C, {input})``.
    kernel_size: size of the window, {sizes}.
    stride: distance between windows; ``kernel_size`` by default.
    padding: zeros added on both sides; at most half a window.
    ceil_mode: round the output size up in place of down, so that the last window may reach over
        the end.
    count_include_pad: count padding as elements when dividing.
"""
_OF_MEANS = "\nReturns:\n    The means of the windows.\n"
_DIVISOR = "    divisor_override: divide by this number, not by the number of elements.\n"


@public("torch functional")
@sections(_MEANS + _OF_MEANS, 1)
def avg_pool1d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """Average pooling over sequences.

    Example:
        >>> torch.avg_pool1d(torch.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
        tensor([[2., 1.]])
    """
    k, s, p = (
        fitted("avg_pool1d", name, value, 1)
        for name, value in (("kernel_size", kernel_size), ("stride", stride), ("padding", padding))
    )
    if len(input.shape) not in (2, 3):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {len(input.shape)}-dimensional tensor for "
            "argument #1 'self' (while checking arguments for avg_pool1d)"
        )
    return as_flat_images(
        input,
        lambda x: _means(2, x, (1, *k), (1, *(s or k)), (0, *p), ceil_mode, count_include_pad,
                         None),
    )[0]  # fmt: skip


@spatial(
    "avg_pool{n}d", "Average pooling over {signals}.", _MEANS + _DIVISOR + _OF_MEANS, {
        2: """
            >>> torch.nn.functional.avg_pool2d(torch.arange(16.0).reshape(1, 4, 4), 2)
            tensor([[[ 2.5000,  4.5000],
                     [10.5000, 12.5000]]])
            """,
        3: """
            >>> x = torch.arange(8.0).reshape(1, 2, 2, 2)
            >>> torch.nn.functional.avg_pool3d(x, 2)
            tensor([[[[3.5000]]]])
            """,
    },
)  # fmt: skip
def _avg_pools(n: int) -> Any:
    def avg_pool(
        input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> Any:  # fmt: skip
        return _means(n, input, kernel_size, stride, padding, ceil_mode, count_include_pad,
                      divisor_override)  # fmt: skip

    return avg_pool


avg_pool2d, avg_pool3d = _avg_pools


def _adaptive_means(ndim: int, input: Any, output_size: Any) -> Any:
    function = f"adaptive_avg_pool{ndim}d"
    counts = adaptive_sizes(function, ndim, raw(input), output_size)
    if ndim == 1:
        return as_flat_images(input, lambda x: _adaptive_means(2, x, (1, *counts)))[0]
    if is_mean(function, counts):
        return reductions.mean(input, tuple(range(-1, -ndim - 1, -1)), True)
    if ndim == 3:
        kernel("adaptive_avg_pool3d_cpu", "biuc")(raw(input))
    elif 0 not in (*input.shape[:-2], *counts):  # else PyTorch does not reach its kernel
        kernel(function, "biuc")(raw(input))
    return ADAPTIVE_AVG_POOL[ndim](input, output_size=counts)


@spatial(
    "adaptive_avg_pool{n}d", "Average pooling of {signals} to a given size.",
    {n: text + _OF_MEANS for n, text in ADAPTIVE.items()}, {
        1: """
            >>> x = torch.tensor([[1.0, 3.0, 2.0, 0.0]])
            >>> torch.nn.functional.adaptive_avg_pool1d(x, 2)
            tensor([[2., 1.]])
            """,
        2: """
            >>> x = torch.arange(16.0).reshape(1, 4, 4)
            >>> torch.nn.functional.adaptive_avg_pool2d(x, (1, 2))
            tensor([[[6.5000, 8.5000]]])
            """,
        3: """
            >>> x = torch.arange(8.0).reshape(1, 2, 2, 2)
            >>> torch.nn.functional.adaptive_avg_pool3d(x, (1, 1, 2))
            tensor([[[[3., 4.]]]])
            """,
    }, in_torch=(1,),
)  # fmt: skip
def _adaptive_avg_pools(n: int) -> Any:
    def adaptive_avg_pool(input: Any, output_size: Any) -> Any:
        return _adaptive_means(n, input, output_size)

    return adaptive_avg_pool


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = _adaptive_avg_pools

# -- what users call: norms ------------------------------------------------------------------


def _norms(
    ndim: int, input: Any, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool
) -> Any:
    if math.isinf(norm_type):
        largest = {1: max_pool1d, 2: max_pool2d, 3: max_pool3d}[ndim]
        sizes, windows = piecewise.abs(input), (kernel_size, stride, 0, 1, ceil_mode)
        return largest(sizes, *windows) if norm_type > 0 else -largest(-sizes, *windows)
    count = math.prod((kernel_size,) * ndim if is_integer(kernel_size) else kernel_size)
    means = {1: avg_pool1d, 2: avg_pool2d, 3: avg_pool3d}[ndim]
    out = means(input**norm_type, kernel_size, stride, 0, ceil_mode)
    return ((piecewise.sign(out) * elementwise.relu(piecewise.abs(out))) * count) ** (
        1.0 / norm_type
    )


_NORMS = """\
Each result is ``(sum of x**p over the window)**(1 / p)``, with ``p = norm_type``.

Args:
    input: the input, of shape ``(N, C, {input})`` or ``(C, {input})``.
    norm_type: the exponent ``p``; 1 gives sums, infinity maxima.
    kernel_size: size of the window, {sizes}.
    stride: distance between windows; ``kernel_size`` by default.
    ceil_mode: round the output size up in place of down.

Returns:
    The norms of the windows.
"""


@spatial(
    "lp_pool{n}d", "Power-average pooling over {signals}.", _NORMS, {
        1: """
            >>> torch.nn.functional.lp_pool1d(torch.tensor([[3.0, 4.0, 0.0, 2.0]]), 2.0, 2)
            tensor([[5., 2.]])
            """,
        2: """
            >>> torch.nn.functional.lp_pool2d(torch.tensor([[[3.0, 4.0], [0.0, 0.0]]]), 2.0, 2)
            tensor([[[5.]]])
            """,
        3: """
            >>> torch.nn.functional.lp_pool3d(torch.ones(1, 2, 2, 4), 1.0, 2)
            tensor([[[[8., 8.]]]])
            """,
    },
)  # fmt: skip
def _lp_pools(n: int) -> Any:
    def lp_pool(
        input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> Any:
        return _norms(n, input, norm_type, kernel_size, stride, ceil_mode)

    return lp_pool
