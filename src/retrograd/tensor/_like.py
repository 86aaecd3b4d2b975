"""Tensors in the shape, dtype and layout of another one: zeros_like, full_like."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.autograd._wrap import Plug
from retrograd.ops._arguments import element
from retrograd.ops._lifted import Lifted, device_value, layout_of, tracer
from retrograd.ops.linear import permute
from retrograd.tensor._creation import (
    OPTIONS,
    checked_fill_value,
    device_like,
    for_each_entry,
    new_tensor,
    numpy_dtype,
)
from retrograd.tensor._memory_formats import order_of, strided
from retrograd.tensor._overrides import INSTALLED, met, sparse_among
from retrograd.tensor._tensor import Tensor

LIKE_OPTIONS = OPTIONS.replace("the default floating-point dtype", "that of ``input``") + (
    "\n    memory_format: ``torch.contiguous_format`` for row-major order. By default, the order "
    "of\n        ``input`` is preserved."
)


def _like(
    fill: Callable[[tuple[int, ...], Any], Raw], name: str, what: str, example: str
) -> Callable[..., Tensor]:
    def function(
        input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
        pin_memory: bool = False, requires_grad: bool = False, memory_format: Any = None,
    ) -> Tensor:  # fmt: skip
        if layout is not None and layout != strided:
            return Plug.sparse().like(name, input, dtype, layout, requires_grad)  # type: ignore[no-any-return]
        try:
            data = in_layout_of(name, input, dtype, memory_format, fill)
        except NotImplementedError:
            if sparse_among((input,)) is None:
                raise
            return Plug.sparse().like(name, input, dtype, layout, requires_grad)  # type: ignore[no-any-return]
        except TypeError:
            if not met((input,)):
                raise
            function = getattr(sys.modules["retrograd"], name)
            overridden: Tensor = INSTALLED[0].overridden(function, (input,), {})
            return overridden
        return tensor_like(input, for_each_entry(input, data), requires_grad, device, name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Creates {what} in the shape and dtype of another tensor.

Args:
    input: The tensor that determines the shape and, by default, the dtype.
    {LIKE_OPTIONS}

Returns:
    The tensor.

Example:
    >>> {example}
"""
    return function


def in_layout_of(
    name: str, input: Any, dtype: Any, memory_format: Any, fill: Callable[[Any, Any], Raw]
) -> Raw:
    """The result of ``fill`` for the shape and dtype of a tensor, with the same memory layout."""
    if not isinstance(input, Tensor):
        raise TypeError(
            f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )
    like = input._data
    wanted = numpy_dtype(dtype, like.dtype, name)
    lies = layout_of(like)
    named = None if memory_format is None else order_of(memory_format, like.shape)
    if named is None and (
        memory_format == "contiguous" or lies is None or arrays.is_contiguous(lies)
    ):
        return fill(like.shape, wanted)
    order = arrays.layout_order(lies) if named is None else list(named)
    data = fill(tuple(like.shape[d] for d in order), wanted)
    dims = tuple(order.index(d) for d in range(like.ndim))
    return permute(data, dims=dims) if isinstance(data, Lifted) else arrays.permute(data, dims)


def tensor_like(input: Tensor, data: Any, requires_grad: Any, device: Any, name: str) -> Tensor:
    """A new tensor on the given device, by default that of ``input``. On a mesh, it gets the
    placements of ``input``."""
    device = device_like(input, device)
    if isinstance(input._data, Lifted) and arrays.is_raw(data) and tracer() is None:
        value = device_value(input)
        there = None if value is None else value.memory.device
        if there is not None and there._mesh is not None and device == there:
            data = Plug.devices().put(data, device, value.array.sharding)
    return new_tensor(data, requires_grad, device, name)


zeros_like = _like(
    arrays.zeros, "zeros_like", "a tensor of zeros",
    "torch.zeros_like(torch.tensor([1, 2]))\n    tensor([0, 0])",
)  # fmt: skip
ones_like = _like(
    arrays.ones, "ones_like", "a tensor of ones",
    "torch.ones_like(torch.tensor([1, 2]))\n    tensor([1, 1])",
)  # fmt: skip
empty_like = _like(
    arrays.empty, "empty_like", "an uninitialized tensor",
    "torch.empty_like(torch.tensor([1, 2])).dtype\n    torch.int64",
)  # fmt: skip


def full_like(
    input: Any, fill_value: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Creates a tensor filled with one value in the shape of another tensor.

    Args:
        input: The tensor that determines the shape and, by default, the dtype.
        fill_value: The value.
        dtype: The dtype of the result.
        layout: ``torch.strided``.
        device: The device of the result. Only the CPU is supported.
        pin_memory: Accepted for compatibility; it has no effect.
        requires_grad: Whether operations on the result are recorded for autograd.
        memory_format: ``torch.contiguous_format`` for row-major order. By default, the order of
            ``input`` is preserved.

    Example:
        >>> torch.full_like(torch.zeros(2), 3)
        tensor([3., 3.])
    """
    value = checked_fill_value("full_like", fill_value)

    def fill(shape: tuple[int, ...], wanted: Any) -> Raw:
        return arrays.full(shape, element(value, wanted), wanted)

    data = in_layout_of("full_like", input, dtype, memory_format, fill)
    return tensor_like(input, for_each_entry(input, data), requires_grad, device, "full_like")
