"""Convolution: linear in the images, in the filters and in the bias.

One operation slides filters over images; transposed, it computes the gradient with respect to the
images. The other computes the gradient with respect to the filters. The rules of both are written
with both, so derivatives of any order follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._batching import BatchLevel, folded, in_channels, out_of_channels, unfolded
from retrograd.ops._batching_declarations import own
from retrograd.ops._operation import Multilinear, Operation, composite, multilinear
from retrograd.ops._public import public
from retrograd.ops.networks._convolution_arguments import (
    Sizes,
    check_arguments,
    fitted,
    output_sizes,
)
from retrograd.ops.networks._spatial import spatial
from retrograd.ops.networks.padding import constant_pad_nd


def _convolution(
    input: Raw, weight: Raw, bias: Raw | None, stride: Sizes, padding: Sizes, dilation: Sizes,
    transposed: bool, output_padding: Sizes, groups: int,
) -> Raw:  # fmt: skip
    given = input.dtype
    if given.char == "e":  # BLAS has no half precision
        input, weight = (arrays.cast(x, arrays.float32) for x in (input, weight))
    sizes = output_sizes(
        input.shape, weight.shape, stride, padding, dilation, transposed, output_padding
    )
    compute = arrays.windows.correlate_input if transposed else arrays.windows.correlate
    result = compute(input, weight, stride, padding, dilation, sizes, groups)
    if bias is not None:
        result += bias.reshape(-1, *(1,) * len(sizes))
    if arrays.is_channels_last(input) or arrays.is_channels_last(weight):
        result = arrays.windows.channels_last(result)
    return arrays.cast(result, given)


def _by_input(
    g: Any, weight: Any, shape: Sequence[int], stride: Sizes, padding: Sizes, dilation: Sizes,
    transposed: bool, groups: int,
) -> Any:  # fmt: skip
    """The gradient with respect to the images, which had the shape ``shape``."""
    none = (0,) * len(stride)
    back = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if transposed:
        result = correlation(g, weight, **back, transposed=False, output_padding=none)
        # A window that an output padding as wide as a stride added belongs to no image.
        where = (slice(None),) * 2 + tuple(slice(0, n) for n in shape[2:])
        return result if tuple(result.shape) == tuple(shape) else linear.slice_(result, where=where)
    smallest = output_sizes(g.shape, weight.shape, stride, padding, dilation, True, none)
    missing = tuple(n - m for n, m in zip(shape[2:], smallest, strict=True))
    return correlation(g, weight, **back, transposed=True, output_padding=missing)


def _by_weight(
    g: Any, input: Any, shape: Sequence[int], stride: Sizes, padding: Sizes, dilation: Sizes,
    transposed: bool, groups: int,
) -> Any:  # fmt: skip
    """The gradient with respect to the filters, which had the shape ``shape``."""
    images, windows = (g, input) if transposed else (input, g)
    return convolution_weight(
        images, windows, kernel=tuple(shape[2:]), stride=stride, padding=padding,
        dilation=dilation, groups=groups,
    )  # fmt: skip


def _gradients(
    g: Any, input: Any, weight: Any, needs: list[bool], stride: Sizes, padding: Sizes,
    dilation: Sizes, transposed: bool, groups: int,
) -> list[Any]:  # fmt: skip
    """All gradients. A node that needs any of them saves the values for all, as in PyTorch."""
    how = (stride, padding, dilation, transposed, groups)
    bias_dims = (0, *range(2, len(g.shape)))
    return [
        _by_input(g, weight, input.shape, *how) if needs[0] else None,
        _by_weight(g, input, weight.shape, *how) if needs[1] else None,
        linear.sum_dim(g, dim=bias_dims, keepdim=False) if needs[2] else None,
    ]


@own("images of each entry are more images, and filters of each entry are more groups")
def _of_many(level: BatchLevel, op: Operation, args: list[Any], options: dict[str, Any]) -> Any:
    """If all entries have the same filters, their images form one larger batch. If they have
    filters of their own, they are groups of channels. If they have the same images, these meet more
    filters."""
    input, weight = args
    if not level.owns(weight):
        return unfolded(level, op(folded(level, input), weight, **options), input.shape[0])
    groups = options["groups"]
    if level.owns(input):
        channels, filters = in_channels(level, input), folded(level, weight)
        result = op(channels, filters, **{**options, "groups": groups * level.size})
        return out_of_channels(level, result)
    return _more_filters(level, op, input, weight, options)


def _more_filters(
    level: BatchLevel, op: Operation, input: Any, weight: Any, options: dict[str, Any]
) -> Any:
    """The same images, seen by the filters of all entries; those of a group stay together."""
    groups, size = options["groups"], level.size
    first, second, *kernel = weight.shape
    if options["transposed"]:
        shape, apart = (first, size * second), weight.value
    else:
        shape, split = (size * first, second), (size, groups, first // groups, second)
        apart = linear.reshape(weight.value, (*split, *kernel))
    together = linear.reshape(linear.transpose(apart, dim0=0, dim1=1), (*shape, *kernel))
    result = op(input, together, **options)
    images, filters, *sizes = result.shape
    grouped = linear.reshape(result, (images, groups, size, filters // (groups * size), *sizes))
    by_entry = linear.permute(grouped, dims=(2, 0, 1, *range(3, len(grouped.shape))))
    return linear.reshape(by_entry, (size, images, filters // size, *sizes))


def _with_bias(input: Any, weight: Any, bias: Any, **options: Any) -> Any:
    result = correlation(input, weight, **options)
    if bias is None:
        return result
    return result + linear.reshape(bias, (-1, *(1,) * len(options["stride"])))


correlation: Multilinear = multilinear(
    "correlation",
    lambda input, weight, stride, padding, dilation, transposed, output_padding, groups:
        _convolution(input, weight, None, stride, padding, dilation, transposed, output_padding,
                     groups),
    {"input": _by_input, "weight": _by_weight},
    node="ConvolutionBackward0", batch=_of_many,
)  # fmt: skip
convolution = composite(
    "convolution", _with_bias, _convolution, inputs=("input", "weight", "bias"),
    joint=_gradients,
    words="The input gets the transposed convolution of the gradient; the weight gets the sum of "
          "products of gradient and input at each offset; the bias gets the sum of the gradient "
          "over all dimensions except the channels.",
)  # fmt: skip


@own("images of each entry are more images, and filters of each entry are more groups")
def _weight_of_many(
    level: BatchLevel, op: Operation, args: list[Any], options: dict[str, Any]
) -> Any:
    """Every entry has filters of its own: its images are a group of channels."""
    input, grad = (in_channels(level, x) for x in args)
    result = op(input, grad, **{**options, "groups": options["groups"] * level.size})
    return unfolded(level, result, args[1].shape[1])


convolution_weight = multilinear(
    "convolution_weight",
    lambda input, grad, kernel, stride, padding, dilation, groups:
        arrays.windows.correlate_weight(input, grad, kernel, stride, padding, dilation, groups),
    {
        "input": lambda g, grad, shape, stride, padding, dilation, groups:
            _by_input(grad, g, shape, stride, padding, dilation, False, groups),
        "grad": lambda g, input, shape, stride, padding, dilation, groups:
            _by_input(input, g, shape, stride, padding, dilation, True, groups),
    },
    node="ConvolutionBackwardBackward0", batch=_weight_of_many,
)  # fmt: skip


def _convolved(
    name: str, ndim: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any,
    dilation: Any, groups: int, transposed: bool = False, output_padding: Any = 0,
) -> Any:  # fmt: skip
    """A convolution over ``ndim`` dimensions, of a batch of images or of one."""
    for x in (input, weight):
        if not hasattr(x, "shape"):
            words = ", ".join("Tensor" if hasattr(x, "shape") else type(x).__name__
                              for x in (input, weight))  # fmt: skip
            raise TypeError(
                f"{name}() received an invalid combination of arguments - got ({words}), but "
                "expected one of:"
            )
    if transposed and isinstance(padding, str):
        raise TypeError(f"{name}(): argument 'padding' must be tuple of ints, not str")
    if len(input.shape) not in (ndim + 1, ndim + 2):
        raise RuntimeError(
            f"Expected {ndim + 1}D (unbatched) or {ndim + 2}D (batched) input to {name}, but got "
            f"input of size: {list(input.shape)}"
        )
    alone = len(input.shape) == ndim + 1
    if alone:
        input = linear.unsqueeze(input, dim=0)
    wanted = len(weight.shape) - 2
    stride = fitted("stride", stride, ndim, wanted)
    dilation = fitted("dilation", dilation, ndim, wanted)
    if isinstance(padding, str):
        input, padding = _padded(padding, input, weight, stride, dilation)
    padding = fitted("padding", padding, ndim, wanted)
    output_padding = fitted("output_padding", output_padding, ndim, wanted)
    check_arguments(
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )
    result = convolution(
        input, weight, bias, stride=stride, padding=padding, dilation=dilation,
        transposed=transposed, output_padding=output_padding, groups=groups,
    )  # fmt: skip
    return linear.squeeze_dim(result, dims=(0,)) if alone else result


def _padded(
    padding: str, input: Any, weight: Any, stride: Sizes, dilation: Sizes
) -> tuple[Any, Sizes]:
    """``padding="same"`` and ``"valid"`` in numbers. Where the two sides need different numbers,
    the one that needs more is padded beforehand."""
    if padding == "valid":
        return input, (0,) * len(stride)
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    if any(t % 2 for t in total):
        pad = [v for t in reversed(total) for v in (0, t % 2)]
        input = constant_pad_nd(input, pad=tuple(pad), value=0)
    return input, tuple(t // 2 for t in total)


_CONVOLUTION = """\
For each output channel, the sum of products of each window with the filter of that channel (a
cross-correlation), plus a bias.

Args:
    input: the input, of shape ``(N, C_in, {input})`` or ``(C_in, {input})``.
    weight: filters, of shape ``(C_out, C_in / groups, {kernel})``.
    bias: bias to add, of shape ``(C_out,)``, or None.
    stride: distance between windows, {sizes}.
    padding: zeros added on both sides, {sizes}; or "valid" for none, or "same"
        for an output as large as the input (with a stride of 1).
    dilation: distance between the elements of a window, {sizes}.
    groups: number of groups that channels are divided into. Each group of outputs sees one
        group of inputs only.

Returns:
    The output, of shape ``(N, C_out, {input})`` or ``(C_out, {input})``, as the input.
"""


@spatial(
    "conv{n}d", "Convolution over {signals}.", _CONVOLUTION, {
        1: """
            >>> torch.conv1d(torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([[[1.0, -1.0]]]))
            tensor([[-1., -2.]])
            """,
        2: """
            >>> torch.conv2d(torch.ones(1, 1, 3, 3), torch.ones(2, 1, 2, 2)).shape
            torch.Size([1, 2, 2, 2])
            """,
        3: """
            >>> torch.conv3d(torch.ones(1, 1, 3, 3, 3), torch.ones(2, 1, 2, 2, 2)).shape
            torch.Size([1, 2, 2, 2, 2])
            """,
    }, in_torch=(1, 2, 3),
)  # fmt: skip
def _convolutions(n: int) -> Any:
    name = f"conv{n}d"

    def conv(
        input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1,
    ) -> Any:  # fmt: skip
        return _convolved(name, n, input, weight, bias, stride, padding, dilation, groups)

    return conv


conv1d, conv2d, conv3d = _convolutions
_TRANSPOSED = """\
Computes the gradient of ``conv{n}d`` with respect to its input (also called fractionally strided
convolution, or deconvolution).

Args:
    input: the input, of shape ``(N, C_in, {input})`` or ``(C_in, {input})``.
    weight: filters, of shape ``(C_in, C_out / groups, {kernel})``.
    bias: bias to add, of shape ``(C_out,)``, or None.
    stride: distance between windows in the output, {sizes}.
    padding: elements removed on both sides of the output, {sizes}.
    output_padding: elements added on one side of the output, {sizes};
        less than the stride or the dilation.
    groups: number of groups that channels are divided into.
    dilation: distance between the elements of a window, {sizes}.

Returns:
    The output, of shape ``(N, C_out, {input})`` or ``(C_out, {input})``, as the input.
"""


@spatial(
    "conv_transpose{n}d", "Transposed convolution over {signals}.", _TRANSPOSED, {
        1: """
            >>> torch.conv_transpose1d(torch.tensor([[1.0, 2.0]]), torch.tensor([[[1.0, -1.0]]]))
            tensor([[ 1.,  1., -2.]])
            """,
        2: """
            >>> x, weight = torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2)
            >>> torch.conv_transpose2d(x, weight, stride=2).shape
            torch.Size([1, 1, 4, 4])
            """,
        3: """
            >>> x, weight = torch.ones(1, 1, 2, 2, 2), torch.ones(1, 1, 2, 2, 2)
            >>> torch.conv_transpose3d(x, weight, stride=2).shape
            torch.Size([1, 1, 4, 4, 4])
            """,
    }, in_torch=(1, 2, 3),
)  # fmt: skip
def _transposed_convolutions(n: int) -> Any:
    name = f"conv_transpose{n}d"

    def conv_transpose(
        input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
    ) -> Any:  # fmt: skip
        return _convolved(name, n, input, weight, bias, stride, padding, dilation, groups, True,
                          output_padding)  # fmt: skip

    return conv_transpose


conv_transpose1d, conv_transpose2d, conv_transpose3d = _transposed_convolutions


@public("torch.convolution")
def convolve(
    input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> Any:  # fmt: skip
    """Convolution, or transposed convolution, over 1 to 3 spatial dimensions.

    Args:
        input: the input, of shape ``(N, C_in, ...)``.
        weight: filters, of shape ``(C_out, C_in / groups, ...)``, or
            ``(C_in, C_out / groups, ...)`` if ``transposed``.
        bias: bias to add, of shape ``(C_out,)``, or None.
        stride: distance between windows in each dimension.
        padding: zeros added on both sides in each dimension.
        dilation: distance between the elements of a window in each dimension.
        transposed: whether to compute the transposed convolution.
        output_padding: elements added on one side of the output of a transposed convolution.
        groups: number of groups that channels are divided into.

    Returns:
        The output, of shape ``(N, C_out, ...)``.

    Example:
        >>> x, weight = torch.ones(1, 1, 3, 3), torch.ones(2, 1, 2, 2)
        >>> torch.convolution(x, weight, None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1).shape
        torch.Size([1, 2, 2, 2])
    """
    ndim = len(weight.shape) - 2
    s, p, d, o = (
        fitted(name, value, ndim, ndim)
        for name, value in (("stride", stride), ("padding", padding), ("dilation", dilation),
                            ("output_padding", output_padding))
    )  # fmt: skip
    check_arguments(input, weight, bias, s, p, d, transposed, o, groups)
    return convolution(
        input, weight, bias, stride=s, padding=p, dilation=d, transposed=bool(transposed),
        output_padding=o, groups=groups,
    )  # fmt: skip
