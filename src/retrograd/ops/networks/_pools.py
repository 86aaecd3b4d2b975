"""Helpers of all pooling operations: sizes, PyTorch's errors about them, 1-D pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._arguments import check_int
from retrograd.ops._dims import sizes_of
from retrograd.ops._refusals import kernel

Sizes = tuple[int, ...]
_COUNT = {1: "one", 2: "two", 3: "three"}
_NAMES = {2: "HW", 3: "THW"}
_ADAPTIVE = """\
The windows cover the input evenly: along each dimension, the i-th begins at
``floor(i * size / output_size)`` and ends before ``ceil((i + 1) * size / output_size)``.

Args:
    input: the input, of shape ``(N, C, {input})`` or ``(C, {input})``.
    output_size: size of the output, {sizes}"""
_ADAPTIVE_SEVERAL = f"{_ADAPTIVE}; None keeps the size of a dimension.\n"
ADAPTIVE = {1: f"{_ADAPTIVE}.\n", 2: _ADAPTIVE_SEVERAL, 3: _ADAPTIVE_SEVERAL}  # documentation

_PLACES = {"kernel_size": 2, "stride": 3, "padding": 4, "dilation": 5, "output_size": 2}


def fitted(function: str, name: str, value: Any, ndim: int) -> Sizes:
    """An option for each dimension, from one number or as many as there are dimensions. Nothing at
    all may be given for a stride."""
    values = () if value is None else sizes_of(function, name, _PLACES[name], value)
    if len(values) in (1, ndim):
        return values * (ndim // len(values))
    if name == "stride" and not values:
        return ()
    if ndim == 1:
        raise RuntimeError(
            f"{function}() argument '{name}' should contain one int (got {len(values)})"
        )
    either = "" if function == "avg_pool3d" else "either "
    must = "be either " if name == "dilation" else f"{either}be "
    omitted = "omitted, " if name == "stride" else ""
    raise RuntimeError(
        f"{function}: {name} must {must}{omitted}a single int, or a tuple of {_COUNT[ndim]} ints"
    )


def output_sizes(
    sizes: Sequence[int], kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil: bool
) -> Sizes:
    """How many windows there are in each dimension. None begins in the padding at the far end."""
    results = []
    for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        count = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil else 0)) // s + 1
        if ceil and (count - 1) * s >= n + p:
            count -= 1
        results.append(count)
    return tuple(results)


def _check_windows(
    ndim: int, x: Raw, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil: bool,
    name: str,
) -> None:  # fmt: skip
    """What both kinds of pools ask of their windows, in the order in which PyTorch looks."""
    if 0 in stride:
        raise RuntimeError("stride should not be zero")
    letters = _NAMES[ndim]
    counts: Sizes = ()
    if not any(p < 0 for p in padding) and 0 not in kernel and 0 not in dilation:
        counts = output_sizes(x.shape[-ndim:], kernel, stride, padding, dilation, ceil)
    for p, k, d in zip(padding, kernel, dilation, strict=True):
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if p > ((k - 1) * d + 1) // 2:
            raise RuntimeError(
                "pad should be at most half of effective kernel size, but got "
                f"pad={p}, kernel_size={k} and dilation={d}"
            )
    if 0 in kernel:
        words = " ".join(f"k{c}: {k}" for c, k in zip(letters, kernel, strict=True))
        raise RuntimeError(f"kernel size should be greater than zero, but got {words}")
    if 0 in dilation:
        words = " ".join(f"dilation{c}: {d}" for c, d in zip(letters, dilation, strict=True))
        raise RuntimeError(f"dilation should be greater than zero, but got {words}")
    _check_input(ndim, x, name)
    too_small = any(n < k for n, k in zip(x.shape[-ndim:], kernel, strict=True))
    if ndim == 3 and name == "avg_pool3d()" and too_small:
        image = " ".join(f"{c}: {n}" for c, n in zip(letters, x.shape[-3:], strict=True))
        words = " ".join(f"k{c}: {k}" for c, k in zip(letters, kernel, strict=True))
        raise RuntimeError(f"input image ({image}) smaller than kernel size ({words})")
    if any(n < 1 for n in counts):
        channels = x.shape[-ndim - 1]
        given = "x".join(str(n) for n in (channels, *x.shape[-ndim:]))
        result = "x".join(str(n) for n in (channels, *counts))
        raise RuntimeError(
            f"Given input size: ({given}). Calculated output size: ({result}). Output size is too "
            "small"
        )


def _check_input(ndim: int, x: Raw, name: str) -> None:
    shape, alone = list(x.shape), x.ndim == ndim + 1
    inner = shape if alone else shape[1:]
    if ndim == 2 and (x.ndim not in (3, 4) or 0 in inner):
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but "
            f"got:{shape}"
        )
    if ndim == 3 and 0 in inner:
        raise RuntimeError(
            f"{name}: Expected input's non-batch dimensions to have positive length, but input has "
            f"a shape of {shape} and non-batch dimension 0 has length zero!"
        )


def check_maxima(
    ndim: int, x: Raw, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> dict[str, Sizes]:
    """The options of a pool of largest elements, one number for each dimension."""
    function = f"max_pool{ndim}d"
    k = fitted(function, "kernel_size", kernel_size, ndim)
    s = fitted(function, "stride", stride, ndim) or k
    p = fitted(function, "padding", padding, ndim)
    d = fitted(function, "dilation", dilation, ndim)
    if x.ndim not in (ndim + 1, ndim + 2):
        raise RuntimeError(
            f"non-empty {ndim + 1}D or {ndim + 2}D (batch mode) tensor expected for input"
        )
    _check_windows(ndim, x, k, s, p, d, ceil, "max_pool3d_with_indices_out_cpu_template()")
    kernel(function, "bc")(x)
    return {"kernel_size": k, "stride": s, "padding": p, "dilation": d}


def check_average(
    ndim: int, x: Raw, kernel_size: Any, stride: Any, padding: Any, ceil: bool, divisor: int | None
) -> dict[str, Sizes]:
    """The options of a pool of means, one number for each dimension."""
    function = f"avg_pool{ndim}d"
    k = fitted(function, "kernel_size", kernel_size, ndim)
    s = fitted(function, "stride", stride, ndim) or k
    p = fitted(function, "padding", padding, ndim)
    if divisor is not None:
        check_int(function, "divisor_override", 7, divisor)
    if divisor == 0:
        raise RuntimeError("divisor must be not zero")
    if ndim == 2 and x.ndim < 3:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-x.ndim}, {x.ndim - 1}], but "
            "got -3)"
        )
    if ndim == 3 and x.ndim not in (4, 5):
        raise RuntimeError("non-empty 4D or 5D (batch mode) tensor expected for input")
    _check_windows(ndim, x, k, s, p, (1,) * ndim, ceil, "avg_pool3d()")
    name = "avg_pool2d" if ndim == 2 else "avg_pool3d_out_frame"
    if x.dtype.name != "int64":
        kernel(name, "biuc" if ndim == 2 else "biucV")(x)
    return {"kernel_size": k, "stride": s, "padding": p}


def check_one_dimensional(
    x: Raw, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, recorded: bool
) -> Sizes:
    """The options of ``max_pool1d``, which has words of its own, and a kernel of its own for what
    is not recorded."""
    results: list[Sizes] = []
    for name, value, kinds in (
        ("kernel_size", kernel_size, "an int, list of ints or"),
        ("stride", stride, "None, an int, list of ints, or"),
        ("padding", padding, "an int, list of ints, or"),
        ("dilation", dilation, "an int, list of ints or"),
    ):
        values = () if value is None else sizes_of("max_pool1d", name, _PLACES[name], value)
        if name == "stride" and not values:
            values = results[0]
        if len(values) != 1:
            raise RuntimeError(
                f"max_pool1d() {name} must be {kinds} tuple of ints of size 1 but got size "
                f"{len(values)}"
            )
        results.append(values)
    if x.ndim not in (2, 3) or 0 in x.shape[1 if x.ndim == 3 else 0 :]:
        raise RuntimeError(
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got:{list(x.shape)}"
        )
    (k,), (s,), (p,), (d,) = results
    for name, value in (("kernel_size", k), ("stride", s)):
        if value <= 0:
            raise RuntimeError(f"max_pool1d() {name} must be greater than zero, but got {value}")
    if p < 0:
        raise RuntimeError(f"max_pool1d() padding must be non-negative, but got {p}")
    if p > k // 2:
        raise RuntimeError(
            f"max_pool1d() padding should be at most half of kernel size, but got padding={p} and "
            f"kernel_size={k}"
        )
    if d <= 0:
        raise RuntimeError(f"max_pool1d() dilation must be greater than zero, but got {d}")
    (count,) = output_sizes(x.shape[-1:], (k,), (s,), (p,), (d,), ceil)
    if count <= 0:
        raise RuntimeError(f"max_pool1d() Invalid computed output size: {count}")
    kernel("max_pool1d_impl", "biu" if recorded else "biuc")(x)
    return k, s, p, d


def adaptive_sizes(function: str, ndim: int, x: Raw, output_size: Any) -> Sizes:
    """How many windows an adaptive pool has in each dimension; None keeps the size."""
    if ndim > 1 and not hasattr(output_size, "__index__") and None in tuple(output_size):
        have = x.shape[-ndim:]
        output_size = tuple(h if o is None else o for h, o in zip(have, output_size, strict=True))
    counts = sizes_of(function, "output_size", 2, output_size)
    if ndim > 1 and x.ndim <= len(counts) and not hasattr(output_size, "__index__"):
        raise ValueError(f"Input dimension should be at least {len(counts) + 1}")
    if hasattr(output_size, "__index__"):
        counts *= ndim
    if ndim == 1 and x.ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {x.ndim}-dimensional tensor for argument #1 "
            f"'self' (while checking arguments for {function})"
        )
    if len(counts) != ndim:
        raise RuntimeError(_wrong_count(function, ndim, len(counts)))
    if "avg" in function and any(n < 0 for n in counts) and ndim > 1:
        words = ", ".join(str(n) for n in counts[:2]) + "".join(f",{n}" for n in counts[2:])
        raise RuntimeError(
            f"{function}: elements of output_size must be greater than or equal to 0 but received "
            f"{{{words}}}"
        )
    if is_mean(function, counts):
        return counts
    shape = list(x.shape)
    if x.ndim not in (ndim + 1, ndim + 2):
        got = "got" if "avg" in function else "got:"
        raise RuntimeError(
            f"{function}(): Expected {ndim + 1}D or {ndim + 2}D tensor, but {got} {shape}"
        )
    first = x.ndim - ndim if "avg" in function and ndim < 3 else 1
    empty = [d for d in range(first, x.ndim) if shape[d] == 0]
    if empty and not ("avg" in function and ndim == 1):
        raise RuntimeError(
            f"{function}(): Expected input to have non-zero size for non-batch dimensions, but "
            f"input has sizes {shape} with dimension {empty[0]} being empty"
        )
    if "max" in function and any(n < 0 for n in counts) and ndim > 1:
        wanted = [*shape[:-ndim], *counts]
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {min(counts)}: {wanted}"
        )
    return counts


def is_mean(function: str, counts: Sizes) -> bool:
    """Whether an adaptive pool is the mean of whole images. For that PyTorch calls ``mean``, so
    inputs may be empty and of any rank."""
    return "avg" in function and len(counts) > 1 and all(n == 1 for n in counts)


def _wrong_count(function: str, ndim: int, given: int) -> str:
    if ndim == 1:
        return f"{function}() argument 'output_size' should contain one int (got {given})"
    if "avg" in function:
        return f"{function}: output_size must be {ndim}"
    return f"{function}(): internal error: output_size.size() must be {ndim}"


def as_flat_images(input: Any, pool: Any) -> tuple[Any, ...]:
    """A pool over signals, done as one over images that are one pixel high."""
    pooled = pool(linear.unsqueeze(input, dim=len(input.shape) - 1))
    results = pooled if isinstance(pooled, tuple) else (pooled,)
    return tuple(linear.squeeze_dim(r, dims=(len(r.shape) - 2,)) for r in results)


def zeros_by_shape(g: Any, shape: Sequence[int]) -> Any:
    """The gradient by a tensor that only said how large to be: PyTorch makes it zeros."""
    return linear.new_zeros(g, shape)
