"""What all normalizations share: numbers moved and scaled to mean 0 and variance 1, in groups.

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
