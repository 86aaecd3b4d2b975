"""The operators and properties of the Tensor class: ``+``, ``@``, ``x[...]``, ``x.T``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd._modes import modes, switch
from retrograd._records import Record
from retrograd.arrays import dtypes
from retrograd.autograd._wrap import SPARSE, wrap
from retrograd.ops import comparisons, elementwise, piecewise, products
from retrograd.ops._operation import TABLE, Operation
from retrograd.ops.shapes import reshaping
from retrograd.tensor import _writing
from retrograd.tensor._calls import apply, is_operand
from retrograd.tensor._fast import binary
from retrograd.tensor._indexing import getitem, setitem
from retrograd.tensor._methods import conj, function_of, positive, pow, sub
from retrograd.tensor._overrides import unknown
from retrograd.tensor._public import bind_methods
from retrograd.tensor._tensor import Tensor

_div, _rsub = map(function_of, (elementwise.div, elementwise.rsub))


def _tensor(other: Any) -> Any:
    """The other operand, which is a tensor if a program calls the method itself."""
    return wrap(other) if arrays.is_raw(other) else other


def rsub(self: Tensor, other: Any) -> Any:
    """``other - self``."""
    if isinstance(other, (bool, int, float, complex)):
        return _rsub(self, other=other)
    if isinstance(other, Tensor) or arrays.is_raw(other):
        return sub(_tensor(other), self)
    return unknown("__rsub__", self, other)


def rdiv(self: Tensor, other: Any) -> Any:
    """``other / self``."""
    if isinstance(other, (bool, int, float, complex)):
        return elementwise.reciprocal(self) * other
    if isinstance(other, Tensor) or arrays.is_raw(other):
        return _div(_tensor(other), self)
    return unknown("__rdiv__", self, other)


def rpow(self: Tensor, other: Any) -> Any:
    """``other ** self``."""
    if not is_operand(other):
        return unknown("__rpow__", self, other)
    return pow(_tensor(other), self)


def matmul(self: Tensor, other: Any) -> Any:
    """``self @ other``."""
    if switch.active and modes.interceptors and isinstance(other, Tensor):
        return self.matmul(other)  # which says so to those who intercept operations
    if isinstance(other, Tensor) or (arrays.is_raw(other) and other.ndim):
        return products.matmul(self, other)
    return unknown("__matmul__", self, other)


def invert(self: Tensor) -> Any:
    """``~self``."""
    if self._data.dtype.kind in dtypes.INEXACT:
        raise TypeError(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors"
        )
    return comparisons.bitwise_not(self)


def rmatmul(self: Tensor, other: Any) -> Any:
    """``other @ self``."""
    if isinstance(other, Tensor) or arrays.is_raw(other):
        return products.matmul(_tensor(other), self)
    return unknown("__rmatmul__", self, other)


class Named(Record):
    """An operator that is made with its own name."""

    make: Callable[[str], Callable[..., Any]]


def _reflected(name: str) -> Named:
    """``other op self`` for an operation that does not commute."""

    def function(self: Tensor, other: Any) -> Any:
        if name not in TABLE:
            getattr(Tensor, name)  # loads the module that declares it
        return apply(TABLE[name], (other, self), {})

    return _known(function)


def _known(called: Callable[..., Any]) -> Named:
    """An operator that leaves operands it does not know to the other side."""
    function = function_of(called) if isinstance(called, Operation) else called

    def make(operator: str) -> Callable[..., Any]:
        def method(self: Tensor, other: Any) -> Any:
            return function(self, other) if is_operand(other) else unknown(operator, self, other)

        return method

    return Named(make)


def _augmented(name: str) -> Named:
    def make(operator: str) -> Callable[..., Any]:
        def method(self: Tensor, other: Any) -> Any:
            if is_operand(other) or type(other) in SPARSE:
                return getattr(self, name)(other)
            return unknown(operator, self, other)

        return method

    return Named(make)


def _shift(direction: str, input: Any, other: Any) -> Any:
    from retrograd.ops.pointwise import integers

    return getattr(integers, f"bitwise_{direction}_shift")(input, other)


_HOT = {name: binary(TABLE[name], as_operator=True)
        for name in ("add", "sub", "mul", "div")}  # fmt: skip
_OPERATORS = {
    "__add__": _HOT["add"], "__radd__": _HOT["add"], "__mul__": _HOT["mul"],
    "__rmul__": _HOT["mul"], "__sub__": _HOT["sub"], "__rsub__": rsub, "__truediv__": _HOT["div"],
    "__rtruediv__": rdiv, "__pow__": _known(pow), "__rpow__": rpow, "__rmatmul__": rmatmul,
    "__matmul__": matmul, "__floordiv__": _known(lambda self, other: self.floor_divide(other)),
    "__mod__": _known(lambda self, other: self.remainder(other)),
    "__and__": _known(comparisons.bitwise_and), "__or__": _known(comparisons.bitwise_or),
    "__xor__": _known(comparisons.bitwise_xor),
    "__rmod__": _reflected("remainder"), "__rfloordiv__": _reflected("floor_divide"),
    "__rand__": _reflected("bitwise_and"), "__ror__": _reflected("bitwise_or"),
    "__rxor__": _reflected("bitwise_xor"),
    "__lshift__": _known(lambda self, other: self.bitwise_left_shift(other)),
    "__rshift__": _known(lambda self, other: self.bitwise_right_shift(other)),
    "__rlshift__": _known(lambda self, other: _shift("left", other, self)),
    "__rrshift__": _known(lambda self, other: _shift("right", other, self)),
    "__ilshift__": _augmented("bitwise_left_shift_"),
    "__irshift__": _augmented("bitwise_right_shift_"),
    "__eq__": _known(comparisons.eq), "__ne__": _known(comparisons.ne),
    "__lt__": _known(comparisons.lt), "__le__": _known(comparisons.le),
    "__gt__": _known(comparisons.gt), "__ge__": _known(comparisons.ge),
    "__neg__": function_of(elementwise.neg), "__pos__": positive,
    "__abs__": function_of(piecewise.abs),
    "__invert__": invert, "__getitem__": getitem, "__setitem__": setitem,
    "__iadd__": _augmented("add_"), "__isub__": _augmented("sub_"), "__imul__": _augmented("mul_"),
    "__itruediv__": _augmented("div_"), "__ipow__": _augmented("pow_"),
    "__iand__": _augmented("bitwise_and_"), "__ior__": _augmented("bitwise_or_"),
    "__ixor__": _augmented("bitwise_xor_"), "__ifloordiv__": _augmented("floor_divide_"),
    "__imod__": _augmented("remainder_"), "__rdiv__": rdiv, "__div__": _HOT["div"],
    "__idiv__": _augmented("div_"),
}  # fmt: skip


def _transposed(self: Tensor) -> Any:
    """The dimensions in reverse order."""
    return reshaping.permute(self, *range(self.ndim - 1, -1, -1))


def _matrices_transposed(self: Tensor, name: str = "mT") -> Any:
    """The tensor with its last two dimensions swapped."""
    if self.ndim == 1:
        raise RuntimeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. Got 1-D tensor."
        )
    return reshaping.transpose(self, -2, -1) if self.ndim else self


def _matrices_adjoint(self: Tensor) -> Any:
    """The conjugate transpose of the last two dimensions; a scalar tensor is only conjugated."""
    return conj(_matrices_transposed(self, "mH"))


def _matrix_adjoint(self: Tensor) -> Any:
    """The conjugate transpose of a matrix."""
    if self.ndim not in (0, 2):
        hint = " For batches of matrices, consider using tensor.mH" if self.ndim > 2 else ""
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.{hint}"
        )
    return conj(_matrices_transposed(self))


_PROPERTIES = {
    "T": property(_transposed), "mT": property(_matrices_transposed),
    "real": property(reshaping.real, _writing.set_real),
    "H": property(_matrix_adjoint),
    "mH": property(_matrices_adjoint),
    "imag": property(reshaping.imag, _writing.set_imag),
}  # fmt: skip
bind_methods()  # all that are loaded at import have been declared
for _name, _member in {**_OPERATORS, **_PROPERTIES}.items():
    setattr(Tensor, _name, _member.make(_name) if isinstance(_member, Named) else _member)
