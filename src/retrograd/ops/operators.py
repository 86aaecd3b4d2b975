"""Operators of lifted values, so that rules written with them run under transforms too."""

from __future__ import annotations

from typing import Any

from retrograd._modes import modes
from retrograd.ops import comparisons, copies, elementwise, linear, piecewise, products
from retrograd.ops._lifted import Lifted, bare_level
from retrograd.ops._operation import Operation
from retrograd.ops.pointwise import trigonometry


def _reflected(operation: Any) -> Any:
    return lambda self, other: operation(other, self)


def _power(self: Any, exponent: Any) -> Any:
    if isinstance(exponent, (bool, int, float, complex)):
        return elementwise.pow_scalar(self, exponent=exponent)
    return elementwise.pow_tensor(self, exponent)


def _power_of(self: Any, base: Any) -> Any:
    if isinstance(base, (bool, int, float, complex)):
        return elementwise.power_of_number(base, self)
    return elementwise.pow_tensor(base, self)


def _subtracted_from(self: Any, other: Any) -> Any:
    if isinstance(other, (bool, int, float, complex)):
        return elementwise.rsub(self, other=other)
    return elementwise.sub(other, self)


def _divides(self: Any, other: Any) -> Any:
    if isinstance(other, (bool, int, float, complex)):
        return elementwise.reciprocal(self) * other
    return elementwise.div(other, self)


_OPERATORS = {
    "__add__": elementwise.add, "__radd__": elementwise.add, "__mul__": elementwise.mul,
    "__rmul__": elementwise.mul, "__sub__": elementwise.sub, "__truediv__": elementwise.div,
    "__rsub__": _subtracted_from, "__rtruediv__": _divides, "__neg__": elementwise.neg,
    "__pow__": _power, "__rpow__": _power_of, "__matmul__": products.matmul,
    "__rmatmul__": _reflected(products.matmul), "__eq__": comparisons.eq,
    "__ne__": comparisons.ne, "__lt__": comparisons.lt, "__le__": comparisons.le,
    "__gt__": comparisons.gt, "__ge__": comparisons.ge, "__abs__": piecewise.abs,
}  # fmt: skip


def _method(operation: Any) -> Any:
    of_elements = isinstance(operation, Operation) and operation.of_elements

    def method(self: Lifted, *args: Any) -> Any:
        if self.level.closed:
            return self.afterwards(operation, *args)
        # Two values of one kind, as in most rules: there is nothing else that they could need.
        if of_elements and args and type(args[0]) is type(self) and modes.levels:
            level = bare_level((self, *args))
            if level is not None:
                return level.run_elementwise(operation, (self, *args), {})
        return operation(self, *args)

    return method


def _reshape(x: Any, shape: Any) -> Any:
    return linear.reshape(x, shape if len(shape) != 1 or isinstance(shape[0], int) else shape[0])


Lifted.operations.update({
    "reshape": _reshape,
    "matmul": products.matmul,
    "add": elementwise.add, "subtract": elementwise.sub, "multiply": elementwise.mul,
    "true_divide": elementwise.div, "divide": elementwise.div, "negative": elementwise.neg,
    "exp": elementwise.exp, "log": elementwise.log, "sqrt": elementwise.sqrt,
    "sin": trigonometry.sin, "cos": trigonometry.cos, "absolute": piecewise.abs,
    "equal": comparisons.eq, "not_equal": comparisons.ne, "less": comparisons.lt,
    "less_equal": comparisons.le, "greater": comparisons.gt, "greater_equal": comparisons.ge,
    "isnan": comparisons.isnan, "isinf": comparisons.isinf, "isfinite": comparisons.isfinite,
    "logical_and": comparisons.logical_and, "logical_or": comparisons.logical_or,
    "logical_not": comparisons.logical_not, "maximum": piecewise.maximum,
    "minimum": piecewise.minimum, "conjugate": copies.conj,
})  # fmt: skip
for _name, _operation in _OPERATORS.items():
    setattr(Lifted, _name, _method(_operation))
