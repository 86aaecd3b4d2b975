"""Windows of images extracted and put back: unpooling, fold and unfold, and fractional pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._dims import sizes_of
from retrograd.ops._lifted import bare
from retrograd.ops._operation import Linear, raw
from retrograd.ops._operation import linear as declare
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel
from retrograd.ops._sections import like
from retrograd.ops.copies import index_for
from retrograd.ops.networks._pools import Sizes
from retrograd.ops.networks._spatial import spatial
from retrograd.ops.networks.max_pooling import take_in_images

type_word = arrays.dtypes.type_word

# -- unpooling -------------------------------------------------------------------------------


MAX_UNPOOL = {
    n: Linear(
        f"max_unpool{n}d",
        lambda self, indices, output_size: arrays.windows.add_at_indices(
            self, indices, output_size, True
        ),
        inputs=("self", "indices"),
        rules={
            "self": lambda g, indices, output_size: take_in_images(
                g, indices=index_for(indices, g), ndim=len(output_size)
            )
        },
        node=f"MaxUnpool{n}DBackward0", batch="leading",
    )
    for n in (2, 3)
}  # fmt: skip


def _unpooled_sizes(
    input: Any, kernel_size: Sizes, stride: Sizes, padding: Sizes, output_size: Any
) -> Sizes:
    """The sizes of unpooled images: those asked for, if a pool could have come from them."""
    ndim = len(kernel_size)
    usual = [
        (n - 1) * s + k - 2 * p
        for n, k, s, p in zip(input.shape[-ndim:], kernel_size, stride, padding, strict=True)
    ]
    if output_size is None:
        return tuple(usual)
    asked = tuple(output_size)
    if len(asked) == ndim + 2:
        asked = asked[2:]
    if len(asked) != ndim:
        raise ValueError(
            f"output_size should be a sequence containing {ndim} or {ndim + 2} elements, but it "
            f"has a length of '{len(asked)}'"
        )
    for d, (n, u, s) in enumerate(zip(asked, usual, stride, strict=True)):
        if not u - s < n < u + s:
            raise ValueError(
                f'invalid output_size "{asked}" (dim {d} must be between {u - s} and {u + s})'
            )
    return tuple(int(n) for n in asked)


def _unpooled(ndim: int, input: Any, indices: Any, sizes: Sizes) -> Any:
    x, index_array = raw(input), raw(indices)
    shape = list(x.shape)
    if index_array.dtype.name != "int64":
        got = f" but got: {type_word(index_array.dtype)}" if ndim == 2 else ""
        raise RuntimeError(f"elements in indices should be type int64{got}")
    if x.ndim not in (ndim + 1, ndim + 2):
        raise RuntimeError(
            f"Input to max_unpooling{ndim}d should be a {ndim + 1}d or {ndim + 2}d Tensor, but got "
            f"a tensor with {x.ndim} dimensions."
        )
    if index_array.shape != x.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({shape}) but got "
            f"indices tensor with shape: {list(index_array.shape)}"
        )
    empty = [d for d in range(1, x.ndim) if shape[d] == 0]
    if empty:
        raise RuntimeError(
            f"max_unpooling{ndim}d_forward_out_cpu(): Expected input to have non-zero size for "
            f"non-batch dimensions, but got {shape} with dimension {empty[0]} being empty."
        )
    kernel(f"max_unpool{ndim}d", "biuc")(x)
    result = bare(index_array)
    wrong = result[(result < 0) | (result >= math.prod(sizes))]
    if wrong.size:
        raise RuntimeError(
            f"Found an invalid max index: {wrong.flat[0]} (output volumes are of size "
            f"{'x'.join(str(n) for n in sizes)})"
        )
    sizes = sizes_of(f"max_unpool{max(ndim, 2)}d", "output_size", 3, sizes)
    return MAX_UNPOOL[ndim](input, indices, output_size=sizes)


def _options(ndim: int, *values: Any) -> list[Sizes]:
    """Kernel size, stride and padding in each dimension. As in PyTorch, they may be floats."""
    sizes = [
        tuple(int(v) for v in value) if hasattr(value, "__iter__") else (int(value),)
        for value in values
    ]
    return [(s * ndim)[:ndim] if len(s) == 1 else s for s in sizes]


_UNPOOLING = """\
Args:
    input: the maxima, of shape ``(N, C, {input})`` or ``(C, {input})``.
    indices: the indices of the maxima, from ``max_pool{n}d`` with ``return_indices=True``.
    kernel_size: size of the window that was pooled, {sizes}.
    stride: distance between windows; ``kernel_size`` by default.
    padding: padding that was added before pooling.
    output_size: size of the output; by default the smallest one that pools to the size of the
        input.

Returns:
    The output, of shape ``(N, C, {input})`` or ``(C, {input})``, as the input.
"""


@spatial(
    "max_unpool{n}d",
    "Partial inverse of ``max_pool{n}d``: maxima at their indices, zeros elsewhere.", _UNPOOLING, {
        1: """
            >>> F = torch.nn.functional
            >>> x = torch.tensor([[1.0, 3.0, 2.0, 0.0]])
            >>> maxima, indices = F.max_pool1d(x, 2, return_indices=True)
            >>> F.max_unpool1d(maxima, indices, 2)
            tensor([[0., 3., 2., 0.]])
            """,
        2: """
            >>> F = torch.nn.functional
            >>> x = torch.arange(4.0).reshape(1, 2, 2)
            >>> maxima, indices = F.max_pool2d(x, 2, return_indices=True)
            >>> F.max_unpool2d(maxima, indices, 2)
            tensor([[[0., 0.],
                     [0., 3.]]])
            """,
        3: """
            >>> F = torch.nn.functional
            >>> x = torch.arange(8.0).reshape(1, 2, 2, 2)
            >>> maxima, indices = F.max_pool3d(x, 2, return_indices=True)
            >>> F.max_unpool3d(maxima, indices, 2)
            tensor([[[[0., 0.],
                      [0., 0.]],
            <BLANKLINE>
                     [[0., 0.],
                      [0., 7.]]]])
            """,
    },
)  # fmt: skip
def _max_unpools(n: int) -> Any:
    def max_unpool(
        input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
        output_size: Any = None,
    ) -> Any:  # fmt: skip
        k, s, p = _options(n, kernel_size, kernel_size if stride is None else stride, padding)
        sizes = _unpooled_sizes(input, k, s, p, output_size)
        if n > 1:
            return _unpooled(n, input, indices, sizes)
        column, index_column = (linear.unsqueeze(x, dim=len(x.shape)) for x in (input, indices))
        result = _unpooled(2, column, index_column, (*sizes, 1))
        return linear.squeeze_dim(result, dims=(len(result.shape) - 1,))

    return max_unpool


# -- windows as columns ----------------------------------------------------------------------


def _counts(
    sizes: Sequence[int], kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> Sizes:
    options = zip(sizes, kernel_size, dilation, padding, stride, strict=True)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in options)


def _im2col(self: Raw, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> Raw:
    counts = _counts(self.shape[-2:], kernel_size, dilation, padding, stride)
    result = arrays.windows.unfold(self, kernel_size, stride, padding, dilation, counts)
    lead, channels = self.shape[:-3], self.shape[-3]
    taps = kernel_size[0] * kernel_size[1]
    return result.reshape(*lead, channels * taps, counts[0] * counts[1])


def _col2im(
    self: Raw, output_size: Sizes, kernel_size: Sizes, dilation: Sizes, padding: Sizes,
    stride: Sizes,
) -> Raw:  # fmt: skip
    counts = _counts(output_size, kernel_size, dilation, padding, stride)
    channels = self.shape[-2] // (kernel_size[0] * kernel_size[1])
    columns = self.reshape(*self.shape[:-2], channels, *kernel_size, *counts)
    result = arrays.windows.fold(columns, output_size, stride, padding, dilation)
    return arrays.ascontiguous(result)


im2col: Linear = declare(
    "im2col", _im2col,
    lambda g, shape, kernel_size, dilation, padding, stride: col2im(
        g, output_size=tuple(shape[-2:]), kernel_size=kernel_size, dilation=dilation,
        padding=padding, stride=stride,
    ), node="Im2ColBackward0", batch="leading",
)  # fmt: skip
col2im: Linear = declare(
    "col2im", _col2im,
    lambda g, kernel_size, dilation, padding, stride: im2col(
        g, kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride
    ), node="Col2ImBackward0", batch="leading",
)  # fmt: skip


def _window_options(function: str, **given: Any) -> list[Sizes]:
    """Kernel size, dilation, padding and stride in both dimensions."""
    results = []
    for place, (name, value) in enumerate(given.items(), 2):
        values = sizes_of(function, name, place, value)
        if len(values) not in (1, 2):
            raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(values)}")
        results.append(values * (2 // len(values)))
    return results


def _refuse_windows(k: Sizes, d: Sizes, p: Sizes, s: Sizes) -> None:
    def words(name: str, values: Sizes) -> str:
        return f"{name}_height: {values[0]} {name}_width: {values[1]}"

    for long, name, values in (("kernel size", "kernel", k), ("stride", "stride", s),
                               ("dilation", "dilation", d)):  # fmt: skip
        if min(values) <= 0:
            raise RuntimeError(f"{long} should be greater than zero, but got {words(name, values)}")
    if min(p) < 0:
        raise RuntimeError(f"padding should be non-negative, but got {words('pad', p)}")


@public("functional")
def unfold(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """Extract the windows of images as columns.

    Args:
        input: images, of shape ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: size of the windows, an int or a tuple of 2.
        dilation: distance between the elements of a window.
        padding: elements around the images that windows reach into.
        stride: distance between windows.

    Returns:
        The columns, of shape ``(N, C * K_h * K_w, windows)``.

    Example:
        >>> torch.nn.functional.unfold(torch.arange(6.0).reshape(1, 1, 2, 3), 2)
        tensor([[[0., 1.],
                 [1., 2.],
                 [3., 4.],
                 [4., 5.]]])
    """
    k, d, p, s = _window_options(
        "im2col",
        kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride
    )
    x = raw(input)
    if x.ndim < 3:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-x.ndim}, {x.ndim - 1}], but "
            f"got {x.ndim})"
        )
    _refuse_windows(k, d, p, s)
    shape = list(x.shape)
    if x.ndim > 4 or 0 in shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {shape}"
        )
    counts = _counts(shape[-2:], k, d, p, s)
    if min(counts) < 1:
        raise RuntimeError(
            f"Given input with spatial size ({shape[-2]}, {shape[-1]}), kernel_size=({k[0]}, "
            f"{k[1]}), dilation=({d[0]}, {d[1]}), padding=({p[0]}, {p[1]}), calculated shape of "
            f"the array of sliding blocks as ({counts[0]}, {counts[1]}), but its components must "
            "be at least one."
        )
    kernel("im2col_out_cpu", "iu")(x)
    return im2col(input, kernel_size=k, dilation=d, padding=p, stride=s)


@public("functional")
@like(unfold)
def fold(
    input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
    stride: Any = 1,
) -> Any:  # fmt: skip
    """Sum windows, given as columns, into images: the transpose of ``unfold``.

    Args:
        input: columns, of shape ``(N, C * K_h * K_w, windows)``, or without ``N``.
        output_size: height and width of the images.

    Returns:
        Images, of shape ``(N, C, H, W)`` or ``(C, H, W)``.

    Example:
        >>> torch.nn.functional.fold(torch.ones(1, 4, 2), (2, 3), 2)
        tensor([[[[1., 2., 1.],
                  [1., 2., 1.]]]])
    """
    size, k, d, p, s = _window_options(
        "col2im",
        output_size=output_size, kernel_size=kernel_size, dilation=dilation, padding=padding,
        stride=stride,
    )  # fmt: skip
    x = raw(input)
    _refuse_windows(k, d, p, s)
    shape = list(x.shape)
    if x.ndim not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {shape}"
        )
    if shape[-2] % (k[0] * k[1]):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            f"but got input.size(1)={shape[-2]} and kernel_size=({k[0]}, {k[1]})."
        )
    rows, columns = _counts(size, k, d, p, s)
    if rows * columns != shape[-1]:
        options = ", ".join(
            f"{name}=({v[0]}, {v[1]})"
            for name, v in (("output_size", size), ("kernel_size", k), ("dilation", d),
                            ("padding", p), ("stride", s))
        )  # fmt: skip
        raise RuntimeError(
            f"Given {options}, expected size of input's dimension 2 to match the calculated number "
            f"of sliding blocks {rows} * {columns} = {rows * columns}, but got "
            f"input.size(2)={shape[-1]}."
        )
    kernel("col2im_out_cpu", "iu")(x)
    return col2im(input, output_size=size, kernel_size=k, dilation=d, padding=p, stride=s)
