"""Normalization of rows and of neighbouring channels: layer_norm, rms_norm, local_response_norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._dims import is_integer, sizes_of
from retrograd.ops._operands import detached
from retrograd.ops._operation import composite, raw
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel
from retrograd.ops._sections import like
from retrograd.ops._words import NORM
from retrograd.ops.copies import clone
from retrograd.ops.elementwise import pow_scalar, rsqrt
from retrograd.ops.networks import avg_pooling, padding
from retrograd.ops.networks._normal import by_rows, check_dtypes, check_tensor, normalized, weighted
from retrograd.ops.pointwise.scalar_arithmetic import plus
from retrograd.ops.reductions.basic import in_dtype, widened


def _check_normalized_shape(
    name: str, input: Any, normalized_shape: Any, separator: str, **parameters: Any
) -> tuple[int, ...]:
    """The dimensions to normalize over, from the last; or what is wrong with them."""
    check_tensor(name, input)
    if _is_usual(raw(input).shape, normalized_shape, parameters):
        return normalized_shape  # type: ignore[no-any-return]
    if is_integer(normalized_shape):
        raise TypeError(
            f"{name}(): argument 'normalized_shape' (position 2) must be tuple of ints, not int"
        )
    sizes = sizes_of(name, "normalized_shape", 2, normalized_shape)
    if not sizes:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            "element, but got normalized_shape = []"
        )
    for parameter, value in parameters.items():
        if value is not None and tuple(value.shape) != sizes:
            raise RuntimeError(
                f"Expected {parameter} to be of same shape as normalized_shape, but got "
                f"{parameter} of shape {list(value.shape)} and normalized_shape = {list(sizes)}"
            )
    if tuple(input.shape[-len(sizes) :]) != sizes or len(input.shape) < len(sizes):
        words = ", ".join(map(str, sizes))
        raise RuntimeError(
            f"Given normalized_shape={list(sizes)}, expected input with shape "
            f"[*{separator}{words}], but got input of size{list(input.shape)}"
        )
    return sizes


def _is_usual(shape: Any, sizes: Any, parameters: dict[str, Any]) -> bool:
    """Whether sizes are a tuple of integers with which all is well: most calls."""
    if type(sizes) is not tuple or not sizes or tuple(shape[-len(sizes) :]) != sizes:
        return False
    for size in sizes:
        if type(size) is not int:
            return False
    for value in parameters.values():
        if value is not None and raw(value).shape != sizes:
            return False
    return True


def _layer_norm(
    input: Raw, weight: Raw | None, bias: Raw | None, normalized_shape: tuple[int, ...], eps: float
) -> tuple[Raw, Raw, Raw]:
    (rows,), vectors = _as_rows(len(normalized_shape), (input,), (weight, bias))
    result, mean, scale = arrays.normalizing.norm_rows(rows, vectors[0], vectors[1], eps)
    first = bias if weight is None else weight
    if first is not None and first.dtype != mean.dtype:
        mean, scale = arrays.cast(mean, first.dtype), arrays.cast(scale, first.dtype)
    elif first is None and input.dtype != mean.dtype:
        mean, scale = arrays.cast(mean, input.dtype), arrays.cast(scale, input.dtype)
    if result.shape == input.shape:
        return result, mean, scale
    shape = (*input.shape[: -len(normalized_shape)], *(1 for _ in normalized_shape))
    return result.reshape(input.shape), mean.reshape(shape), scale.reshape(shape)


def _as_rows(
    weighted: int, inputs: Sequence[Raw], parameters: Sequence[Raw | None]
) -> tuple[Sequence[Raw], Sequence[Raw | None]]:
    """Arrays as matrices, their last ``weighted`` dimensions being one, and weights as vectors."""
    if weighted == 1 and inputs[0].ndim == 2:
        return inputs, parameters
    shape = by_rows(inputs[0].shape, weighted).shape
    rows = [arrays.reshape(x, shape) for x in inputs]
    return rows, [p if p is None else arrays.reshape(p, shape[1:]) for p in parameters]


def _layer_norm_rule(
    g: Any, input: Any, weight: Any, bias: Any, result1: Any, result2: Any,
    normalized_shape: tuple[int, ...], needs: list[bool],
) -> Any:  # fmt: skip
    if g[1] is not None or g[2] is not None:  # the mean and the scale, which users do not see
        return NotImplemented
    (of_rows, rows), (vector,) = _as_rows(len(normalized_shape), (g[0], input), (weight,))
    gradients = arrays.normalizing.norm_rows_gradients
    if rows is input:
        return gradients(of_rows, rows, vector, result1, result2, needs)
    mean, scale = (arrays.reshape(s, (len(rows), 1)) for s in (result1, result2))
    result = gradients(of_rows, rows, vector, mean, scale, needs)
    shapes = (input.shape, normalized_shape, normalized_shape)
    return [x if x is None else arrays.reshape(x, s) for x, s in zip(result, shapes, strict=True)]


def _layer_norm_definition(
    input: Any, weight: Any, bias: Any, normalized_shape: tuple[int, ...], eps: float
) -> tuple[Any, Any, Any]:
    rank, given = len(input.shape), raw(input).dtype
    dims = tuple(range(rank - len(normalized_shape), rank))
    normal, mean, scale, _ = normalized(widened(input), dims, eps)
    result = weighted(normal, weight, bias)
    return in_dtype(result, given), mean, scale


def _check_layer_norm(input: Any, weight: Any, bias: Any, **options: Any) -> None:
    dtype = input.dtype
    if (
        dtype.kind == "f"
        and (weight is None or weight.dtype is dtype)
        and (bias is None or bias.dtype is dtype)
    ):  # most calls
        return
    check_dtypes(input, weight, bias)
    kernel("LayerNormKernelImpl", "biuc")(input)


native_layer_norm = composite(
    "native_layer_norm", _layer_norm_definition, _layer_norm, inputs=("input", "weight", "bias"),
    joint=_layer_norm_rule, fused=True, outputs=("result", "result1", "result2"), dtypes="free",
    check=_check_layer_norm,
    words=NORM,
)  # fmt: skip


@public("functional")
def layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None,
    eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Layer normalization over the last dimensions.

    ``(x - mean) / sqrt(var + eps) * weight + bias``, with mean and (biased) variance over the
    dimensions of ``normalized_shape``.

    Args:
        input: the input, of shape ``(..., *normalized_shape)``.
        normalized_shape: sizes of the last dimensions, over which to normalize.
        weight: factors of shape ``normalized_shape``, or None.
        bias: summands of shape ``normalized_shape``, or None.
        eps: added to the variance.

    Example:
        >>> torch.nn.functional.layer_norm(torch.tensor([[1., 2., 3.]]), (3,))
        tensor([[-1.2247,  0.0000,  1.2247]])
    """
    sizes = _check_normalized_shape(
        "layer_norm", input, normalized_shape, ", ", weight=weight, bias=bias
    )
    return native_layer_norm(input, weight, bias, normalized_shape=sizes, eps=eps)[0]


@public("torch.layer_norm")
@like(layer_norm)
def torch_layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None,
    eps: float = 1e-5, cudnn_enable: bool = True,
) -> Any:  # fmt: skip
    """Layer normalization over the last dimensions.

    The same as ``nn.functional.layer_norm``.

    Args:
        cudnn_enable: no effect.

    Example:
        >>> torch.layer_norm(torch.tensor([[1.0, 2.0, 3.0]]), (3,))
        tensor([[-1.2247,  0.0000,  1.2247]])
    """
    return layer_norm(input, normalized_shape, weight, bias, eps)


@public("torch.native_layer_norm")
def layer_norm_with_statistics(
    input: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float
) -> tuple[Any, Any, Any]:
    """Layer normalization, with the statistics that it used.

    Args:
        input, normalized_shape, weight, bias, eps: as for ``nn.functional.layer_norm``.

    Returns:
        The result, and the mean and the inverse of the standard deviation, which are constants.

    Example:
        >>> torch.native_layer_norm(torch.tensor([[1.0, 2.0, 3.0]]), (3,), None, None, 1e-5)[1]
        tensor([[2.]])
    """
    sizes = _check_normalized_shape(
        "layer_norm", input, normalized_shape, ", ", weight=weight, bias=bias
    )
    parts = native_layer_norm(input, weight, bias, normalized_shape=sizes, eps=eps)
    return parts[0], clone(detached(parts[1])), clone(detached(parts[2]))


@public("torch functional")
def rms_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None
) -> Any:
    """Root mean square normalization over the last dimensions.

    ``x / sqrt(mean(x**2) + eps) * weight``.

    Args:
        input: the input, of shape ``(..., *normalized_shape)``.
        normalized_shape: sizes of the last dimensions, over which to normalize.
        weight: factors of shape ``normalized_shape``, or None.
        eps: added to the mean square; the machine epsilon of the dtype by default.

    Example:
        >>> torch.nn.functional.rms_norm(torch.tensor([3., 4.]), (2,))
        tensor([0.8485, 1.1314])
    """
    sizes = _check_normalized_shape("rms_norm", input, normalized_shape, "", weight=weight)
    kernel("rms_norm", "biu")(raw(input))
    given = raw(input).dtype
    wide = widened(input)
    computed = raw(wide).dtype
    if eps is None:
        eps = arrays.normalizing.epsilon(computed)
    dims = tuple(range(len(input.shape) - len(sizes), len(input.shape)))
    squares = linear.mean_dim(pow_scalar(wide, exponent=2), dim=dims, keepdim=True)
    result = wide * rsqrt(plus(squares, number=eps))
    if weight is not None:
        result = result * weight
    return in_dtype(result, given).contiguous()


@public("functional")
def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    """Local response normalization across neighbouring channels.

    ``x / (k + alpha * mean of x**2 over size channels around it)**beta``.

    Args:
        input: the input, of shape ``(N, C, ...)``.
        size: number of neighbouring channels.
        alpha: factor of the mean square.
        beta: exponent.
        k: additive constant.

    Example:
        >>> x = torch.tensor([[[1.0], [2.0]]])
        >>> torch.nn.functional.local_response_norm(x, 2, alpha=2.0, beta=1.0)
        tensor([[[0.5000],
                 [0.3333]]])
    """
    shape = tuple(input.shape)
    if len(shape) < 3:
        raise ValueError(
            "Expected 3D or higher dimensionality                          input (got "
            f"{len(shape)} dimensions)"
        )
    if 0 in shape:
        return input
    squares = input * input
    around = (size // 2, (size - 1) // 2)
    if len(shape) == 3:
        squares = padding.pad(squares.unsqueeze(1), (0, 0, *around))
        means = avg_pooling.avg_pool2d(squares, (size, 1), stride=1).squeeze(1)
    else:
        squares = squares.view(shape[0], 1, shape[1], shape[2], -1)
        squares = padding.pad(squares, (0, 0, 0, 0, *around))
        means = avg_pooling.avg_pool3d(squares, (size, 1, 1), stride=1).squeeze(1).view(shape)
    return input / (means * alpha + k) ** beta
