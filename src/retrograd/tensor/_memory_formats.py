"""Memory formats: row-major (contiguous) or channels-last."""

from __future__ import annotations

from typing import Any

from retrograd import arrays


class memory_format(str):  # noqa: N801 - PyTorch's name
    """The name of an order of elements in memory, such as ``torch.channels_last``.

    Example:
        >>> x = torch.ones(1, 2, 3, 4).to(memory_format=torch.channels_last)
        >>> x.is_contiguous(), x.is_contiguous(memory_format=torch.channels_last)
        (False, True)
    """

    __module__ = "retrograd"
    __slots__ = ()

    def __repr__(self) -> str:
        return f"torch.{self}" if self.startswith("channels") else f"torch.{self}_format"


contiguous_format, preserve_format = memory_format("contiguous"), memory_format("preserve")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")
_ORDERS = {"channels_last": (0, 2, 3, 1), "channels_last_3d": (0, 2, 3, 4, 1)}


class layout(str):  # noqa: N801 - PyTorch's name
    """How a tensor stores its elements: ``torch.strided``, or one of the sparse layouts.

    Example:
        >>> torch.ones(2).layout, torch.eye(2).to_sparse().layout
        (torch.strided, torch.sparse_coo)
    """

    __module__ = "retrograd"
    __slots__ = ()
    __repr__ = str.__str__


strided = layout("torch.strided")


def check_strided(name: str, wanted: Any) -> None:
    """NotImplementedError for a layout in which a function creates no tensors."""
    if wanted is not None and wanted != strided:
        raise NotImplementedError(
            f"{name}() creates strided tensors only: use {name}(...).to_sparse(layout={wanted})"
        )


def order_of(wanted: Any, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The dimensions of a shape from the outermost to the innermost in memory; None if it is not
    one of the orders with the channels innermost."""
    order = _ORDERS.get(wanted)
    if order is None:
        return None
    if len(order) != len(shape):
        raise RuntimeError(f"required rank {len(order)} tensor to use {wanted} format")
    return order


def is_in_order(data: Any, wanted: Any) -> bool:
    """Whether the elements of an array lie in memory in an order, without gaps."""
    order = _ORDERS.get(wanted)
    if order is None:
        return arrays.is_contiguous(data)
    if len(order) != data.ndim:
        return False
    strides, expected = arrays.strides(data), 1
    for d in reversed(order):
        if data.shape[d] != 1:
            if strides[d] != expected:
                return False
            expected *= data.shape[d]
    return True


def put_in_order(data: Any, wanted: Any) -> Any:
    """A copy of an array whose elements lie in memory in an order."""
    order = order_of(wanted, data.shape)
    if order is None:
        return arrays.ascontiguous(data)
    laid = arrays.ascontiguous(arrays.permute(data, order))
    return arrays.permute(laid, [order.index(d) for d in range(data.ndim)])
