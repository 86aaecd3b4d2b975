"""Fractional max pooling: windows with random offsets and a given output size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.autograd._wrap import wrap
from retrograd.nn._options import Family
from retrograd.nn.convolution import sizes
from retrograd.ops._sections import like
from retrograd.tensor._randoms import rand
from retrograd.tensor._tensor import Tensor


def _pooled(
    spatial: int, name: str, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any,
    return_indices: bool, samples: Any,
) -> Any:  # fmt: skip
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if input.dim() not in (spatial + 1, spatial + 2):
        raise RuntimeError(
            f"{name}_(): Expected {spatial + 1}D or {spatial + 2}D tensor, but got: "
            f"{list(input.shape)}"
        )
    shape = tuple(input.shape[-spatial:])
    kernel = sizes(kernel_size, spatial)
    if output_size is None:
        ratios = sizes(output_ratio, spatial)
        output_size = [int(n * ratio) for n, ratio in zip(shape, ratios, strict=True)]
    out = sizes(output_size, spatial)
    for n, k, o in zip(shape, kernel, out, strict=True):
        if o + k - 1 > n:
            raise RuntimeError(f"{name}(): pool size {k} too large relative to input size {n}")
    batched = input if input.dim() == spatial + 2 else input.unsqueeze(0)
    count, channels = batched.shape[:2]
    if samples is None:
        samples = rand(count, channels, spatial, dtype=input.dtype, device="cpu")
    # PyTorch takes the samples of two dimensions in the other order.
    order = (1, 0) if spatial == 2 else (0, 1, 2)
    numbers = samples.detach().cpu().numpy()
    indices = wrap(arrays.windows.windows_at_random(numbers, shape, kernel, out, order))
    indices = indices.to(input.device)
    windows = batched.flatten(2).gather(2, indices.flatten(2))
    values, which = windows.reshape(indices.shape).max(-1)
    result = values.reshape(count, channels, *out)
    positions = indices.gather(3, which.unsqueeze(-1)).reshape(count, channels, *out)
    if input.dim() == spatial + 1:
        result, positions = result.squeeze(0), positions.squeeze(0)
    return (result, positions) if return_indices else result


def fractional_max_pool2d(
    input: Tensor, kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> Any:  # fmt: skip
    """Fractional max pooling over images: windows with random offsets.

    Args:
        input: a tensor ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: size of the window.
        output_size: size of the output; or
        output_ratio: the share of the size of the input that it has.
        return_indices: whether to return the indices of the elements, too.

    Returns:
        The result, or a pair of it and the indices.

    Example:
        >>> torch.nn.functional.fractional_max_pool2d(torch.ones(1, 1, 6, 6), 2, 3).shape
        torch.Size([1, 1, 3, 3])
    """
    return _pooled(2, "fractional_max_pool2d", input, kernel_size, output_size, output_ratio,
                   return_indices, _random_samples)  # fmt: skip


@like(fractional_max_pool2d)
def fractional_max_pool3d(
    input: Tensor, kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> Any:  # fmt: skip
    """Fractional max pooling over volumes: windows with random offsets.

    Args:
        input: a tensor ``(N, C, T, H, W)`` or ``(C, T, H, W)``.

    Example:
        >>> torch.nn.functional.fractional_max_pool3d(torch.ones(1, 1, 4, 4, 4), 2, 2).shape
        torch.Size([1, 1, 2, 2, 2])
    """
    return _pooled(3, "fractional_max_pool3d", input, kernel_size, output_size, output_ratio,
                   return_indices, _random_samples)  # fmt: skip


class _FractionalMaxPool(Family):
    def __init__(
        self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        name = type(self).__name__
        self.kernel_size = sizes(kernel_size, self.spatial)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else sizes(output_size, self.spatial)
        self.output_ratio = None if output_ratio is None else sizes(output_ratio, self.spatial)
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        return _pooled(
            self.spatial, f"fractional_max_pool{self.spatial}d", input, self.kernel_size,
            self.output_size, self.output_ratio, self.return_indices, self._random_samples,
        )  # fmt: skip


@like(fractional_max_pool2d)
class FractionalMaxPool2d(_FractionalMaxPool, spatial=2):
    """Fractional max pooling over images: windows with random offsets.

    Shape:
        Input: ``(N, C, H, W)`` or ``(C, H, W)``. Output: ``(N, C, *output_size)``.

    Example:
        >>> torch.nn.FractionalMaxPool2d(2, output_ratio=0.5)(torch.ones(1, 1, 6, 6)).shape
        torch.Size([1, 1, 3, 3])
    """


@like(fractional_max_pool2d)
class FractionalMaxPool3d(_FractionalMaxPool, spatial=3):
    """Fractional max pooling over volumes: windows with random offsets.

    Shape:
        Input: ``(N, C, T, H, W)`` or ``(C, T, H, W)``. Output: ``(N, C, *output_size)``.

    Example:
        >>> torch.nn.FractionalMaxPool3d(2, 3)(torch.ones(1, 1, 6, 6, 6)).shape
        torch.Size([1, 1, 3, 3, 3])
    """


__all__ = ["FractionalMaxPool2d", "FractionalMaxPool3d", "fractional_max_pool2d",
           "fractional_max_pool3d"]  # fmt: skip
