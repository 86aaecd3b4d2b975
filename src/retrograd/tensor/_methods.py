"""The table bound to the Tensor class: every operation as a function and a method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.autograd._wrap import wrap
from retrograd.ops import copies, elementwise, linear, piecewise
from retrograd.ops._arguments import (
    check_operands,
    check_tensor,
    element,
    invalid_combination,
    is_number,
    number_of,
    older_order,
)
from retrograd.ops._lifted import Lifted
from retrograd.ops._operands import Target
from retrograd.ops._operation import TABLE, Operation, TensorLike
from retrograd.ops._public import public
from retrograd.ops.shapes import reshaping, slicing  # noqa: F401 - slicing declares methods
from retrograd.tensor._calls import is_operand
from retrograd.tensor._device import device, is_meta, is_on, without_memory
from retrograd.tensor._fast import bind
from retrograd.tensor._memory_formats import order_of, put_in_order
from retrograd.tensor._moving import moved as moved_to
from retrograd.tensor._overrides import overridden_method
from retrograd.tensor._queries import equal
from retrograd.tensor._tensor import Tensor

for _operation in TABLE.values():
    bind(_operation)
Operation.bind = staticmethod(bind)  # for those that are declared later


def function_of(op: Operation) -> Callable[..., Any]:
    """The function to call on Tensors for an operation: the fast path, without
    ``Operation.__call__``."""
    assert op.function is not None
    return op.function


# -- functions whose arguments need a word before the operation is called --------------------


def _alpha(
    plain: Operation, scaled: Operation, name: str, sign: str, example: str, alias: str = ""
) -> Callable[..., Any]:
    once, times = function_of(plain), function_of(scaled)

    def function(input: Any, other: Any, _older: Any = None, *, alpha: Any = 1) -> Any:
        if _older is not None:
            other, alpha = older_order(name, "alpha", None, other, _older)
        if type(alpha) is int and alpha == 1:
            return once(input, other)
        return times(input, other, alpha=number_of(name, "alpha", alpha))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Computes ``input {sign} alpha * other``.

Args:
    input: The first operand: a tensor or a number.
    other: The second operand, a tensor or a number, which is broadcast with the first.
    alpha: A factor that ``other`` is multiplied by.

Returns:
    The result of the operation.

Example:
    >>> torch.{name}(torch.tensor([1.0, 2.0]), 10, alpha=2)
    {example}
"""
    return public("torch method", alias=alias, out="cast")(function)


add = _alpha(elementwise.add, elementwise.add_scaled, "add", "+", "tensor([21., 22.])")
sub = _alpha(
    elementwise.sub, elementwise.sub_scaled, "sub", "-", "tensor([-19., -18.])", "subtract"
)
_pow_scalar = function_of(elementwise.pow_scalar)
_div = function_of(elementwise.div)
_where, _clamp = function_of(piecewise.where), function_of(piecewise.clamp)
_masked_fill = function_of(piecewise.masked_fill)


@public("torch method", in_place=True, out="cast, aligned")
def pow(input: Any, exponent: Any) -> Any:
    """Raises the elements of a tensor to a power.

    Args:
        input: The base: a tensor or a number.
        exponent: The exponent: a tensor or a number.

    Returns:
        ``input ** exponent``, broadcast.

    Example:
        >>> torch.pow(torch.tensor([1., 3.]), 2)
        tensor([1., 9.])
    """
    if is_number(exponent) and isinstance(input, TensorLike):
        operation = elementwise.pow_scalar if type(input) is Target else _pow_scalar
        return operation(input, exponent=exponent)
    if not isinstance(input, TensorLike):
        check_operands("pow", input, exponent)
        return elementwise.power_of_number(input, exponent)
    if not is_operand(exponent):
        result = overridden_method("pow", (input, exponent))
        if result is not NotImplemented:
            return result
        raise invalid_combination("pow", input, exponent)
    return elementwise.pow_tensor(input, exponent)


@public("torch method", alias="divide true_divide", in_place=True, out="cast")
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """Divides a tensor by another one, or by a number.

    Args:
        input: The dividend.
        other: The divisor.
        rounding_mode: None for true division, ``"trunc"`` to round towards zero, or ``"floor"`` to
            round down.

    Returns:
        ``input / other``, broadcast and rounded.

    Example:
        >>> torch.div(torch.tensor([7.0, -7.0]), 2, rounding_mode="floor")
        tensor([ 3., -4.])
    """
    if rounding_mode is None:
        return (elementwise.div if type(input) is Target else _div)(input, other)
    from retrograd.ops.pointwise import division

    division.check_rounding_mode(rounding_mode)
    return division.div_rounded(input, other, rounding_mode=rounding_mode)


@public("torch", out="computed")
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """Selects elements from two tensors by a condition.

    Args:
        condition: A tensor of bool.
        input: The value where the condition is true: a tensor or a number.
        other: The value where the condition is false: a tensor or a number.

    Returns:
        The selected elements, broadcast. If only ``condition`` is given, a tuple of the indices at
        which it is true, one tensor for each dimension.

    Example:
        >>> x = torch.tensor([1.0, -2.0])
        >>> torch.where(x > 0, x, 0.0)
        tensor([1., 0.])
    """
    if input is None and other is None:
        from retrograd.ops.shapes.sorting import nonzero

        return nonzero(condition, as_tuple=True)
    if not (is_operand(input) and is_operand(other)):
        given = (condition, input) if other is None else (condition, input, other)
        raise invalid_combination("where", *given)
    if condition._data.dtype.kind != "b" and condition._data.dtype.name != "uint8":
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{dtypes.type_word(condition._data.dtype)}"
        )
    return _where(condition, *_of_one_dtype(input, other))


def _of_one_dtype(input: Any, other: Any) -> tuple[Any, Any]:
    """Two values to choose from; an integer beside integers must be one that their dtype holds."""
    if not (is_number(input) ^ is_number(other)):
        return input, other
    common = dtypes.result_type([x._data if isinstance(x, Tensor) else x for x in (input, other)])
    if common.kind not in "iu":
        return input, other
    first, second = (element(x, common) if is_number(x) else x for x in (input, other))
    return first, second


@public("torch method", alias="clip", in_place="torch method", out="computed")
def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """Limits the elements of a tensor to the range ``[min, max]``.

    Args:
        min: The lower bound: a number or a tensor. By default, there is none.
        max: The upper bound: a number or a tensor. By default, there is none.

    Returns:
        A tensor of elements within the bounds.

    Example:
        >>> torch.clamp(torch.tensor([-1.0, 0.5, 3.0]), 0, 1)
        tensor([0.0000, 0.5000, 1.0000])
    """
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        if is_number(min) or is_number(max):
            raise invalid_combination("clamp", input, min, max)
        return piecewise.clamp_tensor(input, min, max)
    return (piecewise.clamp if type(input) is Target else _clamp)(input, min=min, max=max)


@public("torch method")
def conj(input: Any) -> Any:
    """Computes the complex conjugate.

    Returns:
        The conjugate. A real tensor is returned as it is.

    Example:
        >>> torch.conj(torch.tensor([1 + 2j]))
        tensor([1.-2.j])
    """
    check_tensor("conj", "input", 1, input)
    return copies.conj(input) if input.is_complex() else input


@public("torch method")
def clone(input: Any, *, memory_format: Any = None) -> Any:
    """Copies a tensor; gradients flow through the copy to ``input``.

    Args:
        memory_format: ``torch.contiguous_format`` for row-major order. By default, the order of
            ``input`` is preserved.

    Returns:
        A copy of ``input`` with its own memory.

    Example:
        >>> torch.clone(torch.tensor([1, 2]))
        tensor([1, 2])
    """
    check_tensor("clone", "input", 1, input)
    if memory_format is not None and memory_format != "preserve":
        return _contiguous_clone(input, memory_format)
    return copies.clone(input)


def _contiguous_clone(input: Any, memory_format: Any = None) -> Any:
    result = copies.clone(input)
    if memory_format is not None and memory_format != "contiguous":
        if isinstance(result._data, Lifted):
            return result
        result._data = put_in_order(result._data, memory_format)
        return result
    if isinstance(result._data, Lifted):  # in one dimension there is but one order
        flat = linear.unsafe_view(result, size=(result.numel(),))
        return linear.unsafe_view(flat, size=tuple(result.shape))
    result._data = arrays.ascontiguous(result._data)
    return result


@public("method")
def contiguous(input: Any, memory_format: Any = None) -> Any:
    """Returns a tensor whose elements are in row-major order in memory.

    Args:
        memory_format: Another order, such as ``torch.channels_last``.

    Returns:
        The tensor itself if it is contiguous, or else a copy.
    """
    if memory_format is None:
        return input if arrays.is_contiguous(input._data) else _contiguous_clone(input)
    order_of(memory_format, input._data.shape)  # for the error if it has other dimensions
    is_so = input.is_contiguous(memory_format)
    return input if is_so else _contiguous_clone(input, memory_format)


@public("torch method")
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """Fills the elements for which a mask is true with a value.

    Args:
        mask: A tensor of bool, which is broadcast with ``input``.
        value: A number, or a tensor without dimensions.

    Returns:
        A copy of ``input`` with the elements filled.

    Example:
        >>> torch.masked_fill(torch.zeros(2), torch.tensor([True, False]), 5.0)
        tensor([5., 0.])
    """
    return _masked_fill(input, mask, value)


@public("torch method", in_place="torch method", out="cast", announces=True)
def square(input: Any) -> Any:
    """Computes the square of each element.

    Returns:
        ``input ** 2``.

    Example:
        >>> torch.square(torch.tensor([2.0, -3.0]))
        tensor([4., 9.])
    """
    check_tensor("square", "input", 1, input)
    return elementwise.pow_scalar(input, exponent=2)


@public("torch method", in_place="torch method", out="computed")
def round(input: Any, *, decimals: int | None = None) -> Any:
    """Rounds each element to the nearest integer, and halves to the nearest even integer.

    Args:
        decimals: The number of decimal places to round to. The default is 0.

    Returns:
        A tensor of the rounded elements.

    Example:
        >>> torch.round(torch.tensor([0.5, 1.5, -2.7]))
        tensor([ 0.,  2., -3.])
    """
    check_tensor("round", "input", 1, input)
    if decimals is None:
        return piecewise.round(input)
    return piecewise.round_decimals(input, decimals=decimals)


@public("torch method")
def positive(input: Any) -> Any:
    """Returns the tensor itself.

    Args:
        input: A tensor of any dtype but bool.

    Returns:
        ``input``.

    Example:
        >>> torch.positive(torch.tensor([1.0, -2.0]))
        tensor([ 1., -2.])
    """
    check_tensor("positive", "input", 1, input)
    if input._data.dtype.kind == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


# -- methods ---------------------------------------------------------------------------------


@public("method.where")
def _where_method(self: Tensor, condition: Any, other: Any) -> Any:
    """Selects elements from this tensor and another by a condition.

    Args:
        condition: A tensor of bool.
        other: The value where the condition is false: a tensor or a number.

    Returns:
        The elements of this tensor where the condition is true, and of ``other`` elsewhere,
        broadcast.
    """
    return where(condition, self, other)


@public("method")
def expand_as(self: Tensor, other: Any) -> Any:
    """Expands the tensor to the shape of another one.

    Args:
        other: The tensor that determines the shape.

    Returns:
        A view of the tensor.
    """
    return reshaping.expand(self, other.shape)


@public("method")
def view_as(self: Tensor, other: Any) -> Any:
    """Creates a view of the tensor in the shape of another one.

    Args:
        other: The tensor that determines the shape.
    """
    return reshaping.view(self, other.shape)


@public("method")
def reshape_as(self: Tensor, other: Any) -> Any:
    """Gives the tensor the shape of another one.

    Args:
        other: The tensor that determines the shape.

    Returns:
        A view of the tensor if possible, or else a copy.
    """
    return reshaping.reshape(self, other.shape)


@public("method")
def cpu(self: Tensor) -> Tensor:
    """Moves the tensor to the CPU, where every tensor is that has memory.

    Returns:
        The tensor itself.
    """
    return self if type(self._data) in arrays.RAW_CLASSES else to(self, "cpu")


@public("method")
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """Moves the tensor to a GPU.

    Args:
        device: The GPU; by default the current one.
        non_blocking: Accepted for compatibility.

    Returns:
        The tensor on the GPU.
    """
    result: Tensor = to(self, "cuda" if device is None else device)
    return result


@public("method")
def to(self: Tensor, *args: Any, dtype: Any = None, copy: bool = False, **ignored: Any) -> Any:
    """Converts the tensor to another dtype.

    Args:
        *args: A dtype, a device, or a tensor whose dtype and device are used.
        dtype: The dtype, passed by keyword.
        copy: Whether to copy the tensor even if it has the dtype already.
        **ignored: A device, ``"cpu"`` or ``"meta"``, a ``memory_format``, and options that have no
            effect, such as ``non_blocking``.

    Returns:
        The converted tensor, or the tensor itself if it has the dtype already.
    """
    wanted = ignored.get("device")
    for a in args:
        if isinstance(a, dtypes.dtype):
            dtype = a
        elif isinstance(a, Tensor):
            dtype, wanted = a.dtype, a.device
        elif isinstance(a, (str, device)) or (isinstance(a, int) and a is args[0]):
            wanted = a
    if wanted is not None:
        is_meta(wanted)  # for the error if there is no such device
        target = wanted if isinstance(wanted, device) else device(wanted)
        if not is_on(self._data, target):
            return _moved(self, dtype, target)
    if "memory_format" in ignored and ignored["memory_format"] not in (None, "preserve"):
        converted = to(self, dtype=dtype, copy=copy)
        return contiguous(converted, ignored["memory_format"])
    if dtype is None or dtype is self.dtype:
        if not copy:
            return self
        dtype = self.dtype
    result = copies.to_dtype(self, dtype=dtype.numpy)
    if result._data is self._data:
        result._data = arrays.copy(self._data)
    return result


def _moved(self: Tensor, dtype: Any, target: device) -> Tensor:
    """A tensor on another device. On ``meta`` it has no history: there are no values to
    differentiate."""
    if target.type != "meta" and not self.is_meta:
        arrived: Tensor = moved_to(self, target)
        return arrived if dtype is None else to(arrived, dtype)
    if self.is_meta:
        raise NotImplementedError(
            "Cannot copy out of meta tensor; no data! Use torch.nn.Module.to_empty() to move a "
            "module from meta to another device."
        )
    moved: Tensor = wrap(without_memory(self._data))
    return moved if dtype is None else to(moved, dtype)


def _caster(name: str, target: dtypes.dtype) -> None:
    """Declare the method that converts to a dtype."""

    def method(self: Tensor, memory_format: Any = None) -> Any:
        return to(self, target, memory_format=memory_format)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"""Converts the tensor to {target.name}.

Args:
    memory_format: The order of elements in memory, such as ``torch.channels_last``.

Returns:
    The converted tensor, or the tensor itself if it has that dtype already.
"""
    public("method")(method)


for _name, _dtype in {
    "float": dtypes.float32, "double": dtypes.float64, "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16,
    "long": dtypes.int64, "int": dtypes.int32, "short": dtypes.int16, "char": dtypes.int8,
    "byte": dtypes.uint8, "bool": dtypes.bool_, "cfloat": dtypes.complex64,
    "cdouble": dtypes.complex128,
}.items():  # fmt: skip
    _caster(_name, _dtype)


@public("method.type")
def type_(self: Tensor, dtype: Any = None) -> Any:
    """Returns the name of the type, or converts the tensor to another dtype.

    Args:
        dtype: The dtype to convert to, or its name or class, such as ``torch.LongTensor``. By
            default, the name is returned.

    Returns:
        A string such as ``"torch.FloatTensor"``, or the converted tensor.
    """
    if dtype is not None:
        if not isinstance(dtype, dtypes.dtype):
            from retrograd.tensor._legacy import dtype_of

            dtype = dtype_of(dtype)
        return to(self, dtype)
    return f"torch.{dtypes.type_word(self._data.dtype)}Tensor"


@public("method")
def type_as(self: Tensor, other: Tensor) -> Any:
    """Converts the tensor to the dtype of another one.

    Args:
        other: The tensor that determines the dtype.

    Returns:
        The converted tensor, or the tensor itself if it has the dtype already.
    """
    return to(self, other.dtype)


public("method")(equal)
