"""Arguments of convolutions: their sizes, and the errors that PyTorch raises about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops._dims import is_integer, sizes_of
from retrograd.ops._operation import raw
from retrograd.ops._refusals import c_name

type_word = arrays.dtypes.type_word
Sizes = tuple[int, ...]


def output_sizes(
    input: Sequence[int], weight: Sequence[int], stride: Sizes, padding: Sizes, dilation: Sizes,
    transposed: bool, output_padding: Sizes,
) -> Sizes:  # fmt: skip
    """The sizes of the images that a convolution gives, for shapes of input and weight."""
    options = zip(input[2:], weight[2:], stride, padding, dilation, output_padding, strict=True)
    if transposed:
        return tuple((n - 1) * s - 2 * p + d * (k - 1) + 1 + o for n, k, s, p, d, o in options)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d, _ in options)


# -- what users call -------------------------------------------------------------------------


def check_arguments(
    input: Any, weight: Any, bias: Any, stride: Sizes, padding: Sizes, dilation: Sizes,
    transposed: bool, output_padding: Sizes, groups: int,
) -> None:  # fmt: skip
    """What PyTorch refuses, in the order in which it looks."""
    x, w = list(input.shape), list(weight.shape)
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if any(p < 0 for p in padding):
        raise RuntimeError("negative padding is not supported")
    if any(p < 0 for p in output_padding):
        raise RuntimeError("negative output_padding is not supported")
    if any(s <= 0 for s in stride):
        raise RuntimeError("non-positive stride is not supported")
    if any(d <= 0 for d in dilation):
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilation)}")
    if len(w) != len(x):
        raise RuntimeError(
            f"Expected {len(w)}-dimensional input for {len(w)}-dimensional weight {w}, but got "
            f"{len(x)}-dimensional input of size {x} instead"
        )
    if w[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but "
            f"got weight of size {w} instead"
        )
    if w[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size [{w}] instead"
        )
    given = "transposed=1" if transposed else f"groups={groups}"
    channels, filters = (w[0], w[1] * groups) if transposed else (w[1] * groups, w[0])
    if x[1] != channels:
        raise RuntimeError(
            f"Given {given}, weight of size {w}, expected input{x} to have {channels} channels, "
            f"but got {x[1]} channels instead"
        )
    if bias is not None and tuple(bias.shape) != (filters,):
        given = "Given transposed=1, weight" if transposed else "Given weight"
        raise RuntimeError(
            f"{given} of size {w}, expected bias to be 1-dimensional with {filters} elements, but "
            f"got bias of size {list(bias.shape)} instead"
        )
    _refuse_sizes(x, w, stride, padding, dilation, transposed, output_padding)
    _refuse_dtypes(raw(input), raw(weight), None if bias is None else raw(bias))


def _refuse_sizes(
    x: list[int], w: list[int], stride: Sizes, padding: Sizes, dilation: Sizes, transposed: bool,
    output_padding: Sizes,
) -> None:  # fmt: skip
    if any(k == 0 for k in w[2:]):
        raise RuntimeError(
            "kernel size should be greater than zero, but got "
            + _named("kernel", w[2:], ("height", "width"))
        )
    sizes = output_sizes(x, w, stride, padding, dilation, transposed, output_padding)
    if not transposed:
        padded = [n + 2 * p for n, p in zip(x[2:], padding, strict=True)]
        kernel = [d * (k - 1) + 1 for d, k in zip(dilation, w[2:], strict=True)]
        if any(n < k for n, k in zip(padded, kernel, strict=True)):
            raise RuntimeError(
                f"Calculated padded input size per channel: ({_by(padded)}). Kernel size: "
                f"({_by(kernel)}). Kernel size can't be greater than actual input size"
            )
        if 0 in x[2:]:
            raise RuntimeError(
                f"Only zero batch or zero channel inputs are supported, but got input shape: {x}"
            )
        return
    limits = zip(output_padding, stride, dilation, strict=True)
    if any(o >= s and o >= d for o, s, d in limits):
        _refuse_output_padding(output_padding, stride, dilation)
    if any(n < 1 for n in sizes):
        raise RuntimeError(
            f"Given input size per channel: ({_by(x[2:])}). Calculated output size per channel: "
            f"({_by(sizes)}). Output size is too small"
        )


def _refuse_output_padding(output_padding: Sizes, stride: Sizes, dilation: Sizes) -> None:
    if len(stride) == 1:  # which PyTorch does as a flat image
        output_padding, stride, dilation = (0, *output_padding), (1, *stride), (1, *dilation)
    names = ("depth", "height", "width")[-len(stride) :]
    words = [
        _named(what, values, names)
        for what, values in (
            ("output_padding", output_padding), ("stride", stride), ("dilation", dilation)
        )
    ]  # fmt: skip
    raise RuntimeError(
        "output padding must be smaller than either stride or dilation, but got " + " ".join(words)
    )


def _named(what: str, values: Sequence[int], names: Sequence[str]) -> str:
    return " ".join(f"{what}_{name}: {v}" for name, v in zip(names, values, strict=False))


def _by(sizes: Sequence[int]) -> str:
    return " x ".join(str(s) for s in sizes)


def _refuse_dtypes(x: Raw, w: Raw, bias: Raw | None) -> None:
    if bias is not None and bias.dtype != x.dtype:
        raise RuntimeError(
            f"Input type ({c_name(x.dtype)}) and bias type ({c_name(bias.dtype)}) should be the "
            "same"
        )
    if x.dtype != w.dtype:
        raise RuntimeError(
            f"expected scalar type {type_word(x.dtype)} but found {type_word(w.dtype)}"
        )
    if x.dtype.kind == "b":
        raise NotImplementedError("\"slow_conv2d_cpu\" not implemented for 'Bool'")


_PLACES = {"stride": 4, "padding": 5, "dilation": 6, "output_padding": 8}


def fitted(name: str, value: Any, given: int, wanted: int) -> Sizes:
    """An option for each dimension. PyTorch repeats a number as often as the function's name says,
    before it looks at the weight."""
    values = sizes_of("convolution", name, _PLACES[name], value)
    if is_integer(value):
        values *= given
    if len(values) == 1:
        values *= wanted
    if len(values) != wanted:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {wanted} values to match "
            f"the convolution dimensions, but got {name}={list(values)}"
        )
    return values
