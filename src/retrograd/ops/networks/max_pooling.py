"""Pooling by the largest element of each window.

Windows of a fixed size slide; adaptive ones divide the image evenly. Largest elements are selected
by their index in the image, by which ``put_in_images`` and ``take_in_images`` carry gradients.
"""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops._operation import Linear, Selecting, Selection, raw
from retrograd.ops._operation import linear as declare
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel
from retrograd.ops._words import POOL
from retrograd.ops.copies import index_for
from retrograd.ops.networks._pools import (
    ADAPTIVE,
    Sizes,
    adaptive_sizes,
    as_flat_images,
    check_maxima,
    check_one_dimensional,
    output_sizes,
    zeros_by_shape,
)
from retrograd.ops.networks._spatial import spatial

# -- elements at indices of an image ---------------------------------------------------------


put_in_images: Linear = Linear(
    "put_in_images",
    lambda self, like, indices, sizes, distinct:
        arrays.windows.add_at_indices(self, indices, sizes, distinct),
    inputs=("self", "like"),
    rules={
        "self": lambda g, indices, sizes: take_in_images(g, indices=indices, ndim=len(sizes)),
        "like": zeros_by_shape,
    },
    node="MaxPoolBackwardBackward0", batch="leading",
)  # fmt: skip
take_in_images: Linear = declare(
    "take_in_images", arrays.windows.take_at_indices,
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
    largest = arrays.windows.window_maxima(self, kernel_size, stride, padding, dilation, counts)
    return arrays.windows.alike(self, largest[0]), arrays.windows.alike(self, largest[1])


def _put_maxima(
    g: Any, self: Any, result1: Any, kernel_size: Sizes, stride: Sizes, dilation: Sizes
) -> Any:
    apart = all(s > d * (k - 1) for k, s, d in zip(kernel_size, stride, dilation, strict=True))
    sizes = tuple(self.shape[-len(stride) :])
    indices = index_for(result1, g[0])
    return put_in_images(g[0], self, indices=indices, sizes=sizes, distinct=apart)


def _take_maxima(t: Any, result1: Any, kernel_size: Sizes) -> Any:
    return take_in_images(t, indices=index_for(result1, t), ndim=len(kernel_size))


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
        largest = windows.window_maxima(self, each, each, none, once, output_size)
    else:
        parts = [windows.divided(s, n) for s, n in zip(sizes, output_size, strict=True)]
        largest = windows.maxima_among(self, parts)
    return windows.alike(self, largest[0]), windows.alike(self, largest[1])


def _put_adaptive_maxima(g: Any, self: Any, result1: Any, output_size: Sizes) -> Any:
    sizes = tuple(self.shape[-len(output_size) :])
    indices = index_for(result1, g[0])
    return put_in_images(g[0], self, indices=indices, sizes=sizes, distinct=False)


_ADAPTIVE_MAXIMA = Selection(
    lambda t, result1, output_size: _take_maxima(t, result1, output_size), _put_adaptive_maxima
)
ADAPTIVE_MAX_POOL = {
    n: _largest(f"adaptive_max_pool{n}d", _adaptive_max_pool, _ADAPTIVE_MAXIMA) for n in (2, 3)
}

# -- what users call: the largest ------------------------------------------------------------


def _maxima(
    ndim: int, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool,
) -> Any:  # fmt: skip
    if ndim == 1:
        recorded = bool(getattr(input, "requires_grad", False))
        k, s, p, d = check_one_dimensional(
            raw(input), kernel_size, stride, padding, dilation, ceil_mode, recorded
        )
        return as_flat_images(
            input, lambda x: _maxima(2, x, (1, k), (1, s), (0, p), (1, d), ceil_mode)
        )
    options = check_maxima(ndim, raw(input), kernel_size, stride, padding, dilation, ceil_mode)
    return MAX_POOL[ndim](input, **options, ceil_mode=bool(ceil_mode))


_WINDOWS = """\
Args:
    input: the input, of shape ``(N, C, {input})`` or ``(C, {input})``.
    kernel_size: size of the window, {sizes}.
    stride: distance between windows; ``kernel_size`` by default.
    padding: elements of minus infinity added on both sides; at most half a window.
    dilation: distance between the elements of a window.
    ceil_mode: round the output size up in place of down, so that the last window may reach over
        the end.
"""
_PAIR = """\
    return_indices: no effect.

Returns:
    A pair: the maxima, and the index of each in its flattened input channel.
"""
_MAXIMA_OR_PAIR = """\
    return_indices: also return the index of each maximum in its flattened input channel, for
        ``max_unpool{n}d``.

Returns:
    The maxima, or a pair of maxima and indices if ``return_indices``.
"""


@spatial(
    "max_pool{n}d_with_indices", "Max pooling over {signals}, with the indices of the maxima.",
    _WINDOWS + _PAIR, {
        1: """
            >>> x = torch.tensor([[1.0, 3.0, 2.0, 0.0]])
            >>> maxima, indices = torch.max_pool1d_with_indices(x, 2)
            >>> indices
            tensor([[1, 2]])
            """,
        2: """
            >>> x = torch.arange(16.0).reshape(1, 4, 4)
            >>> maxima, indices = torch.nn.functional.max_pool2d_with_indices(x, 2)
            >>> indices
            tensor([[[ 5,  7],
                     [13, 15]]])
            """,
        3: """
            >>> x = torch.arange(8.0).reshape(1, 2, 2, 2)
            >>> maxima, indices = torch.nn.functional.max_pool3d_with_indices(x, 2)
            >>> indices
            tensor([[[[7]]]])
            """,
    }, in_torch=(1,),
)  # fmt: skip
def _max_pools_with_indices(n: int) -> Any:
    def max_pool(
        input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> Any:  # fmt: skip
        return _maxima(n, input, kernel_size, stride, padding, dilation, ceil_mode)

    return max_pool


@spatial(
    "max_pool{n}d", "Max pooling over {signals}.", _WINDOWS + _MAXIMA_OR_PAIR, {
        1: """
            >>> torch.max_pool1d(torch.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
            tensor([[3., 2.]])
            """,
        2: """
            >>> torch.max_pool2d(torch.arange(16.0).reshape(1, 4, 4), 2)
            tensor([[[ 5.,  7.],
                     [13., 15.]]])
            """,
        3: """
            >>> x = torch.arange(8.0).reshape(1, 2, 2, 2)
            >>> torch.max_pool3d(x, 2)
            tensor([[[[7.]]]])
            """,
    }, in_torch=(1, 2, 3),
)  # fmt: skip
def _max_pools(n: int) -> Any:
    def max_pool(
        input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> Any:  # fmt: skip
        result = _maxima(n, input, kernel_size, stride, padding, dilation, ceil_mode)
        return result if return_indices else result[0]

    return max_pool


max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = _max_pools_with_indices
max_pool1d, max_pool2d, max_pool3d = _max_pools


def _adaptive_maxima(ndim: int, input: Any, output_size: Any) -> Any:
    counts = adaptive_sizes(f"adaptive_max_pool{ndim}d", ndim, raw(input), output_size)
    if ndim == 1:
        return as_flat_images(input, lambda x: _adaptive_maxima(2, x, (1, *counts)))
    name = "adaptive_max_pool2d" if ndim == 2 else "adaptive_max_pool3d_cpu"
    kernel(name, "biuc")(raw(input))
    return ADAPTIVE_MAX_POOL[ndim](input, output_size=counts)


@spatial(
    "adaptive_max_pool{n}d_with_indices",
    "Max pooling of {signals} to a given size, with the indices of the maxima.",
    {n: text + _PAIR for n, text in ADAPTIVE.items()}, {
        1: """
            >>> x = torch.tensor([[1.0, 3.0, 2.0, 0.0]])
            >>> maxima, indices = torch.nn.functional.adaptive_max_pool1d_with_indices(x, 2)
            >>> indices
            tensor([[1, 2]])
            """,
        2: """
            >>> x = torch.arange(16.0).reshape(1, 4, 4)
            >>> maxima, indices = torch.nn.functional.adaptive_max_pool2d_with_indices(x, (1, 2))
            >>> indices
            tensor([[[13, 15]]])
            """,
        3: """
            >>> x = torch.arange(8.0).reshape(1, 2, 2, 2)
            >>> maxima, indices = torch.nn.functional.adaptive_max_pool3d_with_indices(x, (1, 1, 2))
            >>> indices
            tensor([[[[6, 7]]]])
            """,
    },
)  # fmt: skip
def _adaptive_max_pools_with_indices(n: int) -> Any:
    def adaptive_max_pool(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        return _adaptive_maxima(n, input, output_size)

    return adaptive_max_pool


@spatial(
    "adaptive_max_pool{n}d", "Max pooling of {signals} to a given size.",
    {n: text + _MAXIMA_OR_PAIR for n, text in ADAPTIVE.items()}, {
        1: """
            >>> x = torch.tensor([[1.0, 3.0, 2.0, 0.0]])
            >>> torch.nn.functional.adaptive_max_pool1d(x, 2)
            tensor([[3., 2.]])
            """,
        2: """
            >>> x = torch.arange(16.0).reshape(1, 4, 4)
            >>> torch.nn.functional.adaptive_max_pool2d(x, (1, 2))
            tensor([[[13., 15.]]])
            """,
        3: """
            >>> x = torch.arange(8.0).reshape(1, 2, 2, 2)
            >>> torch.nn.functional.adaptive_max_pool3d(x, (1, 1, 2))
            tensor([[[[6., 7.]]]])
            """,
    },
)  # fmt: skip
def _adaptive_max_pools(n: int) -> Any:
    def adaptive_max_pool(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        result = _adaptive_maxima(n, input, output_size)
        return result if return_indices else result[0]

    return adaptive_max_pool


@public("torch.adaptive_max_pool1d")
def adaptive_max_pool1d_pair(input: Any, output_size: Any) -> Any:
    """Max pooling of sequences to a given size, with the indices of the maxima.

    Args:
        input: the input, of shape ``(N, C, L)`` or ``(C, L)``.
        output_size: size of the output, an int.

    Returns:
        A pair: the maxima, and the index of each in its input channel.

    Example:
        >>> torch.adaptive_max_pool1d(torch.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
        (tensor([[3., 2.]]), tensor([[1, 2]]))
    """
    return _adaptive_maxima(1, input, output_size)
