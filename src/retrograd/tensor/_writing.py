"""In-place methods that are not derived from the function of the same name."""

from __future__ import annotations

from typing import Any

from retrograd.ops import copies, elementwise, piecewise
from retrograd.ops._arguments import number_of, older_order
from retrograd.ops._operation import Operation
from retrograd.ops._public import public
from retrograd.ops.shapes import reshaping
from retrograd.tensor._inplace import in_place, write_in_place
from retrograd.tensor._overrides import sparse_among
from retrograd.tensor._tensor import Tensor


@public("method")
def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Overwrites the tensor with the elements of another one, broadcast and converted.

    Args:
        src: The tensor to copy from.
        non_blocking: Accepted for compatibility; it has no effect.

    Returns:
        The tensor itself.
    """
    return write_in_place(copies.copy, [self, src], {})


@public("torch method")
def fill_(self: Tensor, value: Any) -> Tensor:
    """Overwrites every element with one value.

    Args:
        input: the tensor to overwrite.
        value: A number, or a tensor without dimensions.

    Returns:
        ``input`` itself.

    Example:
        >>> torch.fill_(torch.zeros(2), 3)
        tensor([3., 3.])
    """
    if not isinstance(value, Tensor):
        return write_in_place(copies.fill_number, [self], {"value": value})
    if value.ndim:
        raise RuntimeError(
            "fill_ only supports 0-dimension value tensor but got tensor with "
            f"{value.ndim} dimensions."
        )
    return write_in_place(copies.fill, [self, value], {})


def set_real(self: Tensor, value: Any) -> None:
    """Overwrite the real part."""
    _set_part(reshaping.real(self), value)


def set_imag(self: Tensor, value: Any) -> None:
    """Overwrite the imaginary part."""
    _set_part(reshaping.imag(self), value)


def _set_part(part: Tensor, value: Any) -> None:
    if isinstance(value, Tensor):
        copy_(part, value)
    else:
        fill_(part, value)


@public("torch method")
def zero_(self: Tensor) -> Tensor:
    """Overwrites every element with zero.

    Args:
        input: the tensor to overwrite.

    Returns:
        ``input`` itself.

    Example:
        >>> torch.zero_(torch.ones(2))
        tensor([0., 0.])
    """
    return write_in_place(copies.zero, [self], {})


@public("torch method method.absolute_")
def abs_(self: Tensor) -> Tensor:
    """In-place version of ``abs``."""
    if self._data.dtype.kind == "c":
        raise RuntimeError("In-place abs is not supported for complex tensors.")
    return write_in_place(piecewise.abs, [self], {})


def _alpha_(plain: Operation, scaled: Operation, name: str, alias: str = "") -> None:
    once, times = in_place(plain), in_place(scaled)

    def method(self: Tensor, other: Any, _older: Any = None, *, alpha: Any = 1) -> Tensor:
        if _older is not None:
            other, alpha = older_order(name, "alpha", None, other, _older)
        try:
            if type(alpha) is int and alpha == 1:
                return once(self, other)
            return times(self, other, alpha=number_of(name, "alpha", alpha))
        except NotImplementedError:
            if (sparse := sparse_among((other,))) is None:
                raise
            return sparse.called(name, (self, other), {"alpha": alpha})  # type: ignore[no-any-return]

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place version of ``{plain.name}``."
    public("method", alias=alias)(method)


# These could be made from the functions. But ``x += y`` deserves a direct path.
_alpha_(elementwise.add, elementwise.add_scaled, "add_")
_alpha_(elementwise.sub, elementwise.sub_scaled, "sub_", "subtract_")


@public("torch")
def detach_(input: Tensor) -> Tensor:
    """Detaches a tensor from the graph, in place.

    Args:
        input: the tensor.

    Returns:
        ``input`` itself, which is now a leaf.

    Example:
        >>> torch.detach_(torch.ones(1, requires_grad=True) * 2)
        tensor([2.])
    """
    input.detach_()
    return input
