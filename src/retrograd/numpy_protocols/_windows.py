"""``numpy.lib.stride_tricks``."""

from __future__ import annotations

from typing import Any

from retrograd.numpy_protocols._arguments import array


def sliding_window_view(x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False,
                        writeable: bool = False) -> Any:  # fmt: skip
    x = array(x)
    sizes = tuple(window_shape) if isinstance(window_shape, (tuple, list)) else (window_shape,)
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    if len(sizes) != len(axes):
        raise ValueError(
            f"sliding_window_view: {len(sizes)} sizes of windows for {len(axes)} axes; give one "
            "for each axis"
        )
    found = x
    for size, by in zip(sizes, (a % x.ndim for a in axes), strict=True):
        found = found.unfold(by, size, 1)
    return found
