"""Pooling: one number for each window of an image, its mean or its largest element.

Windows of a fixed size slide; adaptive ones divide the image evenly. Largest elements are picked by
their place in the image, which ``put_in_images`` and ``take_in_images`` carry gradients by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import elementwise, linear, reducing
from retrograd.ops._dims import is_integer
from retrograd.ops._operation import Linear, Selecting, Selection, raw
from retrograd.ops._operation import linear as declare
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel
from retrograd.ops._words import AVERAGE, POOL
from retrograd.ops.networks._pools import (
    Sizes,
    adaptive_sizes,
    check_average,
    check_maxima,
    check_one_dimensional,
    fitted,
    output_sizes,
)

# -- elements at places of an image ----------------------------------------------------------


def _put_in_images(self: Raw, like: Raw, indices: Raw, sizes: Sizes, distinct: bool) -> Raw:
    return arrays.windows.add_places(self, indices, sizes, distinct)


def _take_in_images(self: Raw, indices: Raw, ndim: int) -> Raw:
    return arrays.windows.take_places(self, indices, ndim)


def _not_by(g: Any, shape: Sequence[int]) -> Any:
    """The gradient by a tensor that only said how large to be: PyTorch makes it zeros."""
    return linear.new_zeros(g, shape)


put_in_images: Linear = Linear(
    "put_in_images", _put_in_images, inputs=("self", "like"),
    rules={
        "self": lambda g, indices, sizes: take_in_images(g, indices=indices, ndim=len(sizes)),
        "like": _not_by,
    },
    node="MaxPoolBackwardBackward0", batch="leading",
)  # fmt: skip
take_in_images: Linear = declare(
    "take_in_images", _take_in_images,
    lambda g, shape, indices, ndim: put_in_images(
        g, None, indices=indices, sizes=tuple(shape[-ndim:]), distinct=False
    ),
    node="MaxPoolBackwardBackward1", batch="leading",
)  # fmt: skip

# -- the largest element of each window ------------------------------------------------------


def _max_pool(
    self: Raw, kernel_size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool
) -> tuple[Raw, Raw]:
    sizes = self.shape[-len(kernel_size) :]
    counts = output_sizes(sizes, kernel_size, stride, padding, dilation, ceil_mode)
    return arrays.windows.window_maxima(self, kernel_size, stride, padding, dilation, counts)


def _put_maxima(
    g: Any, self: Any, result1: Any, kernel_size: Sizes, stride: Sizes, dilation: Sizes
) -> Any:
    apart = all(s > d * (k - 1) for k, s, d in zip(kernel_size, stride, dilation, strict=True))
    sizes = tuple(self.shape[-len(stride) :])
    return put_in_images(g[0], self, indices=raw(result1), sizes=sizes, distinct=apart)


def _take_maxima(t: Any, result1: Any, kernel_size: Sizes) -> Any:
    return take_in_images(t, indices=raw(result1), ndim=len(kernel_size))


def _largest(name: str, forward: Any, selection: Selection) -> Selecting:
    two = name.replace("2d", "_2_d").replace("3d", "_3_d")
    node = "".join(w.capitalize() for w in two.split("_"))
    return Selecting(
        name, forward, selection, outputs=("result0", "result1"), node=f"{node}Backward0",
        batch="leading", words=POOL,
    )  # fmt: skip


_MAXIMA = Selection(_take_maxima, _put_maxima)
MAX_POOL = {n: _largest(f"max_pool{n}d_with_indices", _max_pool, _MAXIMA) for n in (2, 3)}


def _adaptive_max_pool(self: Raw, output_size: Sizes) -> tuple[Raw, Raw]:
    windows = arrays.windows
    sizes = self.shape[-len(output_size) :]
    if all(n and s % n == 0 for s, n in zip(sizes, output_size, strict=True)):
        each = tuple(s // n for s, n in zip(sizes, output_size, strict=True))
        none, once = (0,) * len(each), (1,) * len(each)
        return windows.window_maxima(self, each, each, none, once, output_size)
    parts = [windows.divided(s, n) for s, n in zip(sizes, output_size, strict=True)]
    return windows.maxima_among(self, parts)


def _put_adaptive_maxima(g: Any, self: Any, result1: Any, output_size: Sizes) -> Any:
    sizes = tuple(self.shape[-len(output_size) :])
    return put_in_images(g[0], self, indices=raw(result1), sizes=sizes, distinct=False)


_ADAPTIVE_MAXIMA = Selection(
    lambda t, result1, output_size: _take_maxima(t, result1, output_size), _put_adaptive_maxima
)
ADAPTIVE_MAX_POOL = {
    n: _largest(f"adaptive_max_pool{n}d", _adaptive_max_pool, _ADAPTIVE_MAXIMA) for n in (2, 3)
}


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
    return arrays.cast(sums, given)


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
    """The transpose of a pool of means. Besides the gradient it is given what was pooled."""
    return Linear(
        name, forward, inputs=("self", "like"), rules={"self": rule, "like": _not_by},
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
    return arrays.images.resample(self, _averages(self.shape[-len(output_size) :], output_size))


def _adaptive_avg_spread(self: Raw, like: Raw, sizes: Sizes) -> Raw:
    return arrays.images.unresample(self, _averages(sizes, self.shape[-len(sizes) :]))


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
    "adaptive_avg_spread", _adaptive_avg_spread,
    lambda g, shape, sizes: ADAPTIVE_AVG_POOL[len(sizes)](
        g, output_size=tuple(shape[-len(sizes) :])
    ),
)  # fmt: skip

# -- what users call: the largest ------------------------------------------------------------


def _maxima(
    ndim: int, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool,
) -> Any:  # fmt: skip
    options = check_maxima(ndim, raw(input), kernel_size, stride, padding, dilation, ceil_mode)
    return MAX_POOL[ndim](input, **options, ceil_mode=bool(ceil_mode))


def _flat(input: Any, pool: Any) -> tuple[Any, ...]:
    """A pool over signals, done as one over images that are one pixel high."""
    found = pool(linear.unsqueeze(input, dim=len(input.shape) - 1))
    results = found if isinstance(found, tuple) else (found,)
    return tuple(linear.squeeze_dim(r, dims=(len(r.shape) - 2,)) for r in results)


@public("torch functional")
def max_pool1d_with_indices(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Max pooling over sequences, with the indices of the maxima.

    Args:
        input: the input, of shape ``(N, C, L)`` or ``(C, L)``.
        kernel_size: size of the window, an int.
        stride: distance between windows; ``kernel_size`` by default.
        padding: elements of minus infinity added on both sides; at most half a window.
        dilation: distance between the elements of a window.
        ceil_mode: round the output size up in place of down, so that the last window may reach over
            the end.
        return_indices: no effect.

    Returns:
        A pair: the maxima, and the index of each in its flattened input channel.

    Example:
        >>> import retrograd as torch
        >>> x = torch.tensor([[1.0, 3.0, 2.0, 0.0]])
        >>> maxima, indices = torch.max_pool1d_with_indices(x, 2)
        >>> indices
        tensor([[1, 2]])
    """
    recorded = bool(getattr(input, "requires_grad", False))
    k, s, p, d = check_one_dimensional(
        raw(input), kernel_size, stride, padding, dilation, ceil_mode, recorded
    )
    return _flat(input, lambda x: _maxima(2, x, (1, k), (1, s), (0, p), (1, d), ceil_mode))


@public("functional")
def max_pool2d_with_indices(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Max pooling over images, with the indices of the maxima.

    Args:
        input: the input, of shape ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: size of the window, an int, or a tuple of 2.
        stride: distance between windows; ``kernel_size`` by default.
        padding: elements of minus infinity added on both sides; at most half a window.
        dilation: distance between the elements of a window.
        ceil_mode: round the output size up in place of down, so that the last window may reach over
            the end.
        return_indices: no effect.

    Returns:
        A pair: the maxima, and the index of each in its flattened input channel.

    Example:
        >>> import retrograd as torch
        >>> x = torch.arange(16.0).reshape(1, 4, 4)
        >>> maxima, indices = torch.nn.functional.max_pool2d_with_indices(x, 2)
        >>> indices
        tensor([[[ 5,  7],
                 [13, 15]]])
    """
    return _maxima(2, input, kernel_size, stride, padding, dilation, ceil_mode)


@public("functional")
def max_pool3d_with_indices(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Max pooling over volumes, with the indices of the maxima.

    Args:
        input: the input, of shape ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
        kernel_size: size of the window, an int, or a tuple of 3.
        stride: distance between windows; ``kernel_size`` by default.
        padding: elements of minus infinity added on both sides; at most half a window.
        dilation: distance between the elements of a window.
        ceil_mode: round the output size up in place of down, so that the last window may reach over
            the end.
        return_indices: no effect.

    Returns:
        A pair: the maxima, and the index of each in its flattened input channel.

    Example:
        >>> import retrograd as torch
        >>> x = torch.arange(8.0).reshape(1, 2, 2, 2)
        >>> maxima, indices = torch.nn.functional.max_pool3d_with_indices(x, 2)
        >>> indices
        tensor([[[[7]]]])
    """
    return _maxima(3, input, kernel_size, stride, padding, dilation, ceil_mode)


@public("torch functional")
def max_pool1d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Max pooling over sequences.

    Args:
        input: the input, of shape ``(N, C, L)`` or ``(C, L)``.
        kernel_size: size of the window, an int.
        stride: distance between windows; ``kernel_size`` by default.
        padding: elements of minus infinity added on both sides; at most half a window.
        dilation: distance between the elements of a window.
        ceil_mode: round the output size up in place of down, so that the last window may reach over
            the end.
        return_indices: also return the index of each maximum in its flattened input channel, for
            ``max_unpool1d``.

    Returns:
        The maxima, or a pair of maxima and indices if ``return_indices``.

    Example:
        >>> import retrograd as torch
        >>> torch.max_pool1d(torch.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
        tensor([[3., 2.]])
    """
    found = max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return found if return_indices else found[0]


@public("torch functional")
def max_pool2d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Max pooling over images.

    Args:
        input: the input, of shape ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: size of the window, an int, or a tuple of 2.
        stride: distance between windows; ``kernel_size`` by default.
        padding: elements of minus infinity added on both sides; at most half a window.
        dilation: distance between the elements of a window.
        ceil_mode: round the output size up in place of down, so that the last window may reach over
            the end.
        return_indices: also return the index of each maximum in its flattened input channel, for
            ``max_unpool2d``.

    Returns:
        The maxima, or a pair of maxima and indices if ``return_indices``.

    Example:
        >>> import retrograd as torch
        >>> torch.max_pool2d(torch.arange(16.0).reshape(1, 4, 4), 2)
        tensor([[[ 5.,  7.],
                 [13., 15.]]])
    """
    found = _maxima(2, input, kernel_size, stride, padding, dilation, ceil_mode)
    return found if return_indices else found[0]


@public("torch functional")
def max_pool3d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Max pooling over volumes.

    Args:
        input: the input, of shape ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
        kernel_size: size of the window, an int, or a tuple of 3.
        stride: distance between windows; ``kernel_size`` by default.
        padding: elements of minus infinity added on both sides; at most half a window.
        dilation: distance between the elements of a window.
        ceil_mode: round the output size up in place of down, so that the last window may reach over
            the end.
        return_indices: also return the index of each maximum in its flattened input channel, for
            ``max_unpool3d``.

    Returns:
        The maxima, or a pair of maxima and indices if ``return_indices``.

    Example:
        >>> import retrograd as torch
        >>> x = torch.arange(8.0).reshape(1, 2, 2, 2)
        >>> torch.max_pool3d(x, 2)
        tensor([[[[7.]]]])
    """
    found = _maxima(3, input, kernel_size, stride, padding, dilation, ceil_mode)
    return found if return_indices else found[0]


def _adaptive_maxima(ndim: int, input: Any, output_size: Any) -> Any:
    counts = adaptive_sizes(f"adaptive_max_pool{ndim}d", ndim, raw(input), output_size)
    name = "adaptive_max_pool2d" if ndim == 2 else "adaptive_max_pool3d_cpu"
    kernel(name, "biuc")(raw(input))
    return ADAPTIVE_MAX_POOL[ndim](input, output_size=counts)


@public("functional")
def adaptive_max_pool1d_with_indices(
    input: Any, output_size: Any, return_indices: bool = False
) -> Any:
    """Max pooling of sequences to a given size, with the indices of the maxima.

    Args:
        input: the input, of shape ``(N, C, L)`` or ``(C, L)``.
        output_size: size of the output, an int.
        return_indices: no effect.

    Returns:
        A pair: the maxima, and the index of each in its flattened input channel.

    Example:
        >>> import retrograd as torch
        >>> x = torch.tensor([[1.0, 3.0, 2.0, 0.0]])
        >>> maxima, indices = torch.nn.functional.adaptive_max_pool1d_with_indices(x, 2)
        >>> indices
        tensor([[1, 2]])
    """
    (count,) = adaptive_sizes("adaptive_max_pool1d", 1, raw(input), output_size)
    return _flat(input, lambda x: _adaptive_maxima(2, x, (1, count)))


@public("functional")
def adaptive_max_pool2d_with_indices(
    input: Any, output_size: Any, return_indices: bool = False
) -> Any:
    """Max pooling of images to a given size, with the indices of the maxima.

    Args:
        input: the input, of shape ``(N, C, H, W)`` or ``(C, H, W)``.
        output_size: size of the output, an int, or a tuple of 2; None keeps the size of a
            dimension.
        return_indices: no effect.

    Returns:
        A pair: the maxima, and the index of each in its flattened input channel.

    Example:
        >>> import retrograd as torch
        >>> x = torch.arange(16.0).reshape(1, 4, 4)
        >>> maxima, indices = torch.nn.functional.adaptive_max_pool2d_with_indices(x, (1, 2))
        >>> indices
        tensor([[[13, 15]]])
    """
    return _adaptive_maxima(2, input, output_size)


@public("functional")
def adaptive_max_pool3d_with_indices(
    input: Any, output_size: Any, return_indices: bool = False
) -> Any:
    """Max pooling of volumes to a given size, with the indices of the maxima.

    Args:
        input: the input, of shape ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
        output_size: size of the output, an int, or a tuple of 3; None keeps the size of a
            dimension.
        return_indices: no effect.

    Returns:
        A pair: the maxima, and the index of each in its flattened input channel.

    Example:
        >>> import retrograd as torch
        >>> x = torch.arange(8.0).reshape(1, 2, 2, 2)
        >>> maxima, indices = torch.nn.functional.adaptive_max_pool3d_with_indices(x, (1, 1, 2))
        >>> indices
        tensor([[[[6, 7]]]])
    """
    return _adaptive_maxima(3, input, output_size)


@public("functional")
def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Max pooling of sequences to a given size.

    The windows cover the input evenly: along each dimension, the i-th begins at
    ``floor(i * size / output_size)`` and ends before ``ceil((i + 1) * size / output_size)``.

    Args:
        input: the input, of shape ``(N, C, L)`` or ``(C, L)``.
        output_size: size of the output, an int.
        return_indices: also return the index of each maximum in its flattened input channel.

    Returns:
        The maxima, or a pair of maxima and indices if ``return_indices``.

    Example:
        >>> import retrograd as torch
        >>> x = torch.tensor([[1.0, 3.0, 2.0, 0.0]])
        >>> torch.nn.functional.adaptive_max_pool1d(x, 2)
        tensor([[3., 2.]])
    """
    found = adaptive_max_pool1d_with_indices(input, output_size)
    return found if return_indices else found[0]


@public("torch.adaptive_max_pool1d")
def adaptive_max_pool1d_pair(input: Any, output_size: Any) -> Any:
    """Max pooling of sequences to a given size, with the indices of the maxima.

    Args:
        input: the input, of shape ``(N, C, L)`` or ``(C, L)``.
        output_size: size of the output, an int.

    Returns:
        A pair: the maxima, and the index of each in its input channel.

    Example:
        >>> import retrograd as torch
        >>> torch.adaptive_max_pool1d(torch.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
        (tensor([[3., 2.]]), tensor([[1, 2]]))
    """
    return adaptive_max_pool1d_with_indices(input, output_size)


@public("functional")
def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Max pooling of images to a given size.

    The windows cover the input evenly: along each dimension, the i-th begins at
    ``floor(i * size / output_size)`` and ends before ``ceil((i + 1) * size / output_size)``.

    Args:
        input: the input, of shape ``(N, C, H, W)`` or ``(C, H, W)``.
        output_size: size of the output, an int, or a tuple of 2; None keeps the size of a
            dimension.
        return_indices: also return the index of each maximum in its flattened input channel.

    Returns:
        The maxima, or a pair of maxima and indices if ``return_indices``.

    Example:
        >>> import retrograd as torch
        >>> x = torch.arange(16.0).reshape(1, 4, 4)
        >>> torch.nn.functional.adaptive_max_pool2d(x, (1, 2))
        tensor([[[13., 15.]]])
    """
    found = _adaptive_maxima(2, input, output_size)
    return found if return_indices else found[0]


@public("functional")
def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Max pooling of volumes to a given size.

    The windows cover the input evenly: along each dimension, the i-th begins at
    ``floor(i * size / output_size)`` and ends before ``ceil((i + 1) * size / output_size)``.

    Args:
        input: the input, of shape ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
        output_size: size of the output, an int, or a tuple of 3; None keeps the size of a
            dimension.
        return_indices: also return the index of each maximum in its flattened input channel.

    Returns:
        The maxima, or a pair of maxima and indices if ``return_indices``.

    Example:
        >>> import retrograd as torch
        >>> x = torch.arange(8.0).reshape(1, 2, 2, 2)
        >>> torch.nn.functional.adaptive_max_pool3d(x, (1, 1, 2))
        tensor([[[[6., 7.]]]])
    """
    found = _adaptive_maxima(3, input, output_size)
    return found if return_indices else found[0]


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


@public("torch functional")
def avg_pool1d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """Average pooling over sequences.

    Args:
        input: the input, of shape ``(N, C, L)`` or ``(C, L)``.
        kernel_size: size of the window, an int.
        stride: distance between windows; ``kernel_size`` by default.
        padding: zeros added on both sides; at most half a window.
        ceil_mode: round the output size up in place of down, so that the last window may reach over
            the end.
        count_include_pad: count padding as elements when dividing.

    Returns:
        The means of the windows.

    Example:
        >>> import retrograd as torch
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
    return _flat(
        input,
        lambda x: _means(2, x, (1, *k), (1, *(s or k)), (0, *p), ceil_mode, count_include_pad,
                         None),
    )[0]  # fmt: skip


@public("functional")
def avg_pool2d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """Average pooling over images.

    Args:
        input: the input, of shape ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: size of the window, an int, or a tuple of 2.
        stride: distance between windows; ``kernel_size`` by default.
        padding: zeros added on both sides; at most half a window.
        ceil_mode: round the output size up in place of down, so that the last window may reach over
            the end.
        count_include_pad: count padding as elements when dividing.
        divisor_override: divide by this number, not by the number of elements.

    Returns:
        The means of the windows.

    Example:
        >>> import retrograd as torch
        >>> torch.nn.functional.avg_pool2d(torch.arange(16.0).reshape(1, 4, 4), 2)
        tensor([[[ 2.5000,  4.5000],
                 [10.5000, 12.5000]]])
    """
    return _means(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad,
                  divisor_override)  # fmt: skip


@public("functional")
def avg_pool3d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """Average pooling over volumes.

    Args:
        input: the input, of shape ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
        kernel_size: size of the window, an int, or a tuple of 3.
        stride: distance between windows; ``kernel_size`` by default.
        padding: zeros added on both sides; at most half a window.
        ceil_mode: round the output size up in place of down, so that the last window may reach over
            the end.
        count_include_pad: count padding as elements when dividing.
        divisor_override: divide by this number, not by the number of elements.

    Returns:
        The means of the windows.

    Example:
        >>> import retrograd as torch
        >>> x = torch.arange(8.0).reshape(1, 2, 2, 2)
        >>> torch.nn.functional.avg_pool3d(x, 2)
        tensor([[[[3.5000]]]])
    """
    return _means(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad,
                  divisor_override)  # fmt: skip


def _adaptive_means(ndim: int, input: Any, output_size: Any) -> Any:
    counts = adaptive_sizes(f"adaptive_avg_pool{ndim}d", ndim, raw(input), output_size)
    if all(n == 1 for n in counts):
        dims = range(len(input.shape) - ndim, len(input.shape))
        return reducing.mean(input, tuple(dims), True)
    name = "adaptive_avg_pool2d" if ndim == 2 else "adaptive_avg_pool3d_cpu"
    kernel(name, "biuc")(raw(input))
    return ADAPTIVE_AVG_POOL[ndim](input, output_size=counts)


@public("torch functional")
def adaptive_avg_pool1d(input: Any, output_size: Any) -> Any:
    """Average pooling of sequences to a given size.

    The windows cover the input evenly: along each dimension, the i-th begins at
    ``floor(i * size / output_size)`` and ends before ``ceil((i + 1) * size / output_size)``.

    Args:
        input: the input, of shape ``(N, C, L)`` or ``(C, L)``.
        output_size: size of the output, an int.

    Returns:
        The means of the windows.

    Example:
        >>> import retrograd as torch
        >>> x = torch.tensor([[1.0, 3.0, 2.0, 0.0]])
        >>> torch.nn.functional.adaptive_avg_pool1d(x, 2)
        tensor([[2., 1.]])
    """
    (count,) = adaptive_sizes("adaptive_avg_pool1d", 1, raw(input), output_size)
    return _flat(input, lambda x: _adaptive_means(2, x, (1, count)))[0]


@public("functional")
def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """Average pooling of images to a given size.

    The windows cover the input evenly: along each dimension, the i-th begins at
    ``floor(i * size / output_size)`` and ends before ``ceil((i + 1) * size / output_size)``.

    Args:
        input: the input, of shape ``(N, C, H, W)`` or ``(C, H, W)``.
        output_size: size of the output, an int, or a tuple of 2; None keeps the size of a
            dimension.

    Returns:
        The means of the windows.

    Example:
        >>> import retrograd as torch
        >>> x = torch.arange(16.0).reshape(1, 4, 4)
        >>> torch.nn.functional.adaptive_avg_pool2d(x, (1, 2))
        tensor([[[6.5000, 8.5000]]])
    """
    return _adaptive_means(2, input, output_size)


@public("functional")
def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """Average pooling of volumes to a given size.

    The windows cover the input evenly: along each dimension, the i-th begins at
    ``floor(i * size / output_size)`` and ends before ``ceil((i + 1) * size / output_size)``.

    Args:
        input: the input, of shape ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
        output_size: size of the output, an int, or a tuple of 3; None keeps the size of a
            dimension.

    Returns:
        The means of the windows.

    Example:
        >>> import retrograd as torch
        >>> x = torch.arange(8.0).reshape(1, 2, 2, 2)
        >>> torch.nn.functional.adaptive_avg_pool3d(x, (1, 1, 2))
        tensor([[[[3., 4.]]]])
    """
    return _adaptive_means(3, input, output_size)


# -- what users call: norms ------------------------------------------------------------------


def _norms(means: Any, input: Any, norm_type: float, kernel_size: Any, stride: Any, ndim: int,
           ceil_mode: bool) -> Any:  # fmt: skip
    if norm_type == float("inf"):
        largest = {1: max_pool1d, 2: max_pool2d, 3: max_pool3d}[ndim]
        return largest(elementwise.abs(input), kernel_size, stride, 0, 1, ceil_mode)
    if norm_type == -float("inf"):
        smallest = {1: max_pool1d, 2: max_pool2d, 3: max_pool3d}[ndim]
        return -smallest(-elementwise.abs(input), kernel_size, stride, 0, 1, ceil_mode)
    count = 1
    for k in (kernel_size,) * ndim if is_integer(kernel_size) else kernel_size:
        count *= k
    out = means(input**norm_type, kernel_size, stride, 0, ceil_mode)
    return ((elementwise.sign(out) * elementwise.relu(elementwise.abs(out))) * count) ** (
        1.0 / norm_type
    )


@public("functional")
def lp_pool1d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """Power-average pooling over sequences.

    Each result is ``(sum of x**p over the window)**(1 / p)``, with ``p = norm_type``.

    Args:
        input: the input, of shape ``(N, C, L)`` or ``(C, L)``.
        norm_type: the exponent ``p``; 1 gives sums, infinity maxima.
        kernel_size: size of the window, an int.
        stride: distance between windows; ``kernel_size`` by default.
        ceil_mode: round the output size up in place of down.

    Returns:
        The norms of the windows.

    Example:
        >>> import retrograd as torch
        >>> torch.nn.functional.lp_pool1d(torch.tensor([[3.0, 4.0, 0.0, 2.0]]), 2.0, 2)
        tensor([[5., 2.]])
    """
    return _norms(avg_pool1d, input, norm_type, kernel_size, stride, 1, ceil_mode)


@public("functional")
def lp_pool2d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """Power-average pooling over images.

    Each result is ``(sum of x**p over the window)**(1 / p)``, with ``p = norm_type``.

    Args:
        input: the input, of shape ``(N, C, H, W)`` or ``(C, H, W)``.
        norm_type: the exponent ``p``; 1 gives sums, infinity maxima.
        kernel_size: size of the window, an int, or a tuple of 2.
        stride: distance between windows; ``kernel_size`` by default.
        ceil_mode: round the output size up in place of down.

    Returns:
        The norms of the windows.

    Example:
        >>> import retrograd as torch
        >>> torch.nn.functional.lp_pool2d(torch.tensor([[[3.0, 4.0], [0.0, 0.0]]]), 2.0, 2)
        tensor([[[5.]]])
    """
    return _norms(avg_pool2d, input, norm_type, kernel_size, stride, 2, ceil_mode)


@public("functional")
def lp_pool3d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """Power-average pooling over volumes.

    Each result is ``(sum of x**p over the window)**(1 / p)``, with ``p = norm_type``.

    Args:
        input: the input, of shape ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
        norm_type: the exponent ``p``; 1 gives sums, infinity maxima.
        kernel_size: size of the window, an int, or a tuple of 3.
        stride: distance between windows; ``kernel_size`` by default.
        ceil_mode: round the output size up in place of down.

    Returns:
        The norms of the windows.

    Example:
        >>> import retrograd as torch
        >>> torch.nn.functional.lp_pool3d(torch.ones(1, 2, 2, 4), 1.0, 2)
        tensor([[[[8., 8.]]]])
    """
    return _norms(avg_pool3d, input, norm_type, kernel_size, stride, 3, ceil_mode)
