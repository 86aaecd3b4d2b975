"""The table bound to the Tensor class: every operation as a function, method and operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.autograd._wrap import wrap
from retrograd.ops import elementwise, products, reducing, shaping
from retrograd.ops._operation import TABLE, Operation
from retrograd.tensor._calls import apply, is_operand
from retrograd.tensor._fast import binary, bind
from retrograd.tensor._indexing import getitem, setitem
from retrograd.tensor._inplace import in_place, write_in_place
from retrograd.tensor._public import bind_methods, public
from retrograd.tensor._queries import equal
from retrograd.tensor._tensor import Tensor, device

FUNCTIONS: dict[str, Callable[..., Any]] = {name: bind(op) for name, op in TABLE.items()}
Operation.bind = staticmethod(bind)  # for those that are declared later

# -- functions whose arguments need a word before the operation is called --------------------


def _alpha(plain: Operation, scaled: Operation) -> Callable[..., Any]:
    def function(input: Any, other: Any, *, alpha: Any = 1) -> Any:
        return plain.function(input, other) if alpha == 1 else scaled(input, other, alpha=alpha)  # type: ignore[misc]

    return function


def pow(input: Any, exponent: Any) -> Any:
    """``input ** exponent``; either may be a number.

    >>> import retrograd as torch
    >>> torch.pow(torch.tensor([1., 3.]), 2)
    tensor([1., 9.])
    """
    if not isinstance(input, Tensor):
        return elementwise.pow_of_number(exponent, self=input)
    if input._data.dtype.kind in "biu":
        check_integer_power(exponent)
    if isinstance(exponent, Tensor):
        return elementwise.pow_tensor(input, exponent)
    return _pow_scalar(input, exponent=exponent)


_pow_scalar, _rsub = FUNCTIONS["pow_scalar"], FUNCTIONS["rsub"]
_mm = TABLE["mm"].function or products.mm


def check_integer_power(exponent: Any) -> None:
    """Refuse negative integers as exponents of integers: no integer is 2 ** -1."""
    exponent = exponent._data if isinstance(exponent, Tensor) else exponent
    if dtypes.result_type([exponent]).kind in "biu" and arrays.any(arrays.less(exponent, 0)):
        raise RuntimeError("Integers to negative integer powers are not allowed.")


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """``input / other``, rounded to ``"trunc"`` or ``"floor"`` on request."""
    if rounding_mode is None:
        return _div(input, other)
    if rounding_mode in ("floor", "trunc"):
        return elementwise.div_rounded(input, other, rounding_mode=rounding_mode)
    raise RuntimeError(
        "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
        f"'{rounding_mode}'"
    )


_div = FUNCTIONS["div"]


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """``input`` where ``condition`` holds and ``other`` elsewhere; without them, the places where
    it holds, as one tensor of indices for each dimension."""
    if input is None and other is None:
        return tuple(wrap(places) for places in arrays.nonzero(condition._data))
    if condition._data.dtype.kind != "b" and condition._data.dtype.name != "uint8":
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{dtypes.type_word(condition._data.dtype)}"
        )
    return elementwise.where(condition, input, other)


def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """Every element moved into ``[min, max]``; the bounds are numbers or tensors."""
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        return elementwise.clamp_tensor(input, min, max)
    return elementwise.clamp(input, min=min, max=max)


def conj(input: Any) -> Any:
    """The complex conjugate; a real tensor is its own."""
    return elementwise.conj(input) if input.is_complex() else input


def clone(input: Any, *, memory_format: Any = None) -> Any:
    """A copy that gradients flow through."""
    if memory_format == "contiguous":
        return _contiguous_clone(input)
    return elementwise.clone(input)


def _contiguous_clone(input: Any) -> Any:
    result = elementwise.clone(input)
    result._data = arrays.ascontiguous(result._data)
    return result


def contiguous(input: Any, memory_format: Any = None) -> Any:
    """The tensor itself if its elements lie in reading order, else a copy whose do."""
    return input if input.is_contiguous() else _contiguous_clone(input)


def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """``value`` where ``mask`` holds, ``input`` elsewhere."""
    return elementwise.masked_fill(input, mask, value)


def square(input: Any) -> Any:
    """``input ** 2``."""
    return elementwise.pow_scalar(input, exponent=2)


FUNCTIONS.update(
    add=_alpha(elementwise.add, elementwise.add_scaled),
    sub=_alpha(elementwise.sub, elementwise.sub_scaled),
    pow=pow, div=div, where=where, clamp=clamp, conj=conj, clone=clone,
    masked_fill=masked_fill, square=square, matmul=products.matmul, mm=products._mm,
    mv=products._mv, dot=products._dot, bmm=products._bmm, outer=products.outer,
)  # fmt: skip
for module, names in (
    (shaping, "reshape flatten transpose t permute movedim broadcast_to unsqueeze squeeze cat "
              "stack split chunk unbind select narrow flip view_as_real view_as_complex real imag"),
    (reducing, "sum mean prod amax amin max min argmax argmin all any cumsum"),
):  # fmt: skip
    FUNCTIONS.update({name: getattr(module, name) for name in names.split()})
_ALIASES = {
    "negative": "neg", "absolute": "abs", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "arctan2": "atan2", "clip": "clamp",
    "divide": "div", "true_divide": "div", "multiply": "mul", "subtract": "sub", "greater": "gt",
    "greater_equal": "ge", "less": "lt", "less_equal": "le", "not_equal": "ne", "concat": "cat",
    "concatenate": "cat", "moveaxis": "movedim", "swapaxes": "transpose",
}  # fmt: skip
FUNCTIONS.update({alias: FUNCTIONS[name] for alias, name in _ALIASES.items()})
_INTERNAL = {
    "add_scaled", "sub_scaled", "pow_scalar", "pow_tensor", "pow_of_number", "to_dtype", "copy",
    "fill", "zero", "view", "expand", "slice", "unsafe_view", "squeeze_dim", "alias", "put_zeros",
    "take_flat", "add_flat", "split_with_sizes", "sum_dim", "mean_dim", "prod_dim", "max_dim",
    "min_dim", "index_add_zeros", "scatter_zeros", "index", "gather", "index_put", "zeros_like",
    "div_rounded", "remainder_number", "floor_divide_number", "threshold_backward", "clamp_tensor",
    "masked_fill_number", "fill_number", "reshape_alias", "squeeze_dims", "unsafe_squeeze", "rsub",
    "cumsum_from_end",
}  # fmt: skip
PUBLIC = {name: f for name, f in FUNCTIONS.items() if name not in _INTERNAL}


# -- methods ---------------------------------------------------------------------------------


_TAKES_AXIS = "sum mean prod amax amin max min argmax argmin all any cumsum unbind squeeze"
for _name in _TAKES_AXIS.split():
    PUBLIC[_name] = public(PUBLIC[_name])
_NOT_METHODS = {"cat", "stack", "concat", "concatenate"}
for _name, _function in PUBLIC.items():
    if _name not in _NOT_METHODS:
        setattr(Tensor, _name, _function)
PUBLIC = {
    name: function if hasattr(function, "__wrapped__") else public(function)
    for name, function in PUBLIC.items()
}


def view(self: Tensor, *shape: Any) -> Any:
    """The same memory in another shape."""
    if len(shape) == 1 and isinstance(shape[0], dtypes.dtype):
        raise NotImplementedError("view(dtype) is not supported; use .to(dtype) to convert")
    return shaping.view(self, *shape)


def to(self: Tensor, *args: Any, dtype: Any = None, copy: bool = False, **ignored: Any) -> Any:
    """The tensor in another dtype (or of another tensor's); itself if there is nothing to do."""
    for a in args:
        if isinstance(a, dtypes.dtype):
            dtype = a
        elif isinstance(a, Tensor):
            dtype = a.dtype
        elif isinstance(a, (str, device)):
            device(a)
    if "device" in ignored and ignored["device"] is not None:
        device(ignored["device"])
    if dtype is None or dtype is self.dtype:
        if not copy:
            return self
        dtype = self.dtype
    result = elementwise.to_dtype(self, dtype=dtype.numpy)
    if result._data is self._data:
        result._data = arrays.copy(self._data)
    return result


def _caster(target: dtypes.dtype) -> Callable[[Tensor], Any]:
    def method(self: Tensor) -> Any:
        return to(self, target)

    method.__name__ = target.name
    return method


def type_(self: Tensor, dtype: Any = None) -> Any:
    """The type's name, as ``torch.FloatTensor``, or the tensor converted to a dtype."""
    if dtype is not None:
        return to(self, dtype)
    return f"torch.{dtypes.type_word(self._data.dtype)}Tensor"


def type_as(self: Tensor, other: Tensor) -> Any:
    """The tensor in the dtype of another."""
    return to(self, other.dtype)


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Overwrite with the elements of ``src``, broadcast and cast."""
    return write_in_place(elementwise.copy, [self, src], {})


def fill_(self: Tensor, value: Any) -> Tensor:
    """Overwrite every element with ``value``."""
    if not isinstance(value, Tensor):
        return write_in_place(elementwise.fill_number, [self], {"value": value})
    return write_in_place(elementwise.fill, [self, value], {})


def zero_(self: Tensor) -> Tensor:
    """Overwrite every element with zero."""
    return write_in_place(elementwise.zero, [self], {})


def pow_(self: Tensor, exponent: Any) -> Tensor:
    """In-place version of ``pow``."""
    if isinstance(exponent, Tensor):
        return _pow_tensor_(self, exponent)
    return _pow_scalar_(self, exponent=exponent)


def clamp_(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """In-place version of ``clamp``."""
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        return _clamp_tensor_(self, min, max)
    return _clamp_(self, min=min, max=max)


def _alpha_(plain: Operation, scaled: Operation) -> Callable[..., Tensor]:
    once, times = in_place(plain), in_place(scaled)

    def method(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
        return once(self, other) if alpha == 1 else times(self, other, alpha=alpha)

    return method


_pow_tensor_, _pow_scalar_ = in_place(elementwise.pow_tensor), in_place(elementwise.pow_scalar)
_clamp_, _clamp_tensor_ = in_place(elementwise.clamp), in_place(elementwise.clamp_tensor)
_IN_PLACE = (
    "mul div neg reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos "
    "atan sinh cosh tanh asinh acosh atanh sigmoid relu abs sign floor ceil trunc round remainder "
    "floor_divide masked_fill logical_and logical_or logical_xor logical_not bitwise_and "
    "bitwise_or bitwise_xor bitwise_not eq ne lt le gt ge cumsum"
)
for _name in _IN_PLACE.split():
    setattr(Tensor, f"{_name}_", in_place(TABLE[_name]))


# -- operators -------------------------------------------------------------------------------


def rsub(self: Tensor, other: Any) -> Any:
    """``other - self``."""
    if isinstance(other, (bool, int, float, complex)):
        return _rsub(self, other=other)
    return FUNCTIONS["sub"](wrap(other), self) if arrays.is_raw(other) else NotImplemented


def rdiv(self: Tensor, other: Any) -> Any:
    """``other / self``."""
    if isinstance(other, (bool, int, float, complex)):
        return elementwise.reciprocal(self) * other
    return _div(wrap(other), self) if arrays.is_raw(other) else NotImplemented


def rpow(self: Tensor, other: Any) -> Any:
    """``other ** self``."""
    return pow(wrap(other) if arrays.is_raw(other) else other, self)


def matmul(self: Tensor, other: Any) -> Any:
    """``self @ other``."""
    if isinstance(other, Tensor):
        x, y = self._data, other._data
        if x.ndim == y.ndim == 2 and x.shape[1] == y.shape[0] and x.dtype is y.dtype:
            return _mm(self, other)
    known = isinstance(other, Tensor) or (arrays.is_raw(other) and other.ndim)
    return products.matmul(self, other) if known else NotImplemented


def invert(self: Tensor) -> Any:
    """``~self``."""
    if self._data.dtype.kind in "fc":
        raise TypeError(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors"
        )
    return FUNCTIONS["bitwise_not"](self)


def rmatmul(self: Tensor, other: Any) -> Any:
    """``other @ self``."""
    return products.matmul(wrap(other), self) if arrays.is_raw(other) else NotImplemented


def _reflected(name: str) -> Callable[..., Any]:
    """``other op self`` for an operation that does not commute."""

    def method(self: Tensor, other: Any) -> Any:
        return apply(TABLE[name], (other, self), {}) if is_operand(other) else NotImplemented

    return method


def _known(function: Callable[..., Any], otherwise: Any = NotImplemented) -> Callable[..., Any]:
    """An operator that leaves operands it does not know to the other side."""

    def method(self: Tensor, other: Any) -> Any:
        return function(self, other) if is_operand(other) else otherwise

    return method


def _augmented(name: str) -> Callable[..., Any]:
    def method(self: Tensor, other: Any) -> Any:
        return getattr(self, name)(other) if is_operand(other) else NotImplemented

    return method


_HOT = {name: binary(TABLE[name], as_operator=True)
        for name in ("add", "sub", "mul", "div")}  # fmt: skip
_OPERATORS = {
    "__add__": _HOT["add"], "__radd__": _HOT["add"], "__mul__": _HOT["mul"],
    "__rmul__": _HOT["mul"], "__sub__": _HOT["sub"], "__rsub__": rsub, "__truediv__": _HOT["div"],
    "__rtruediv__": rdiv, "__pow__": _known(pow), "__rpow__": rpow, "__rmatmul__": rmatmul,
    "__matmul__": matmul, "__floordiv__": _known(FUNCTIONS["floor_divide"]),
    "__mod__": _known(FUNCTIONS["remainder"]), "__and__": _known(FUNCTIONS["bitwise_and"]),
    "__or__": _known(FUNCTIONS["bitwise_or"]), "__xor__": _known(FUNCTIONS["bitwise_xor"]),
    "__rmod__": _reflected("remainder"), "__rfloordiv__": _reflected("floor_divide"),
    "__rand__": _reflected("bitwise_and"), "__ror__": _reflected("bitwise_or"),
    "__rxor__": _reflected("bitwise_xor"),
    "__eq__": _known(FUNCTIONS["eq"], False), "__ne__": _known(FUNCTIONS["ne"], True),
    "__lt__": _known(FUNCTIONS["lt"]), "__le__": _known(FUNCTIONS["le"]),
    "__gt__": _known(FUNCTIONS["gt"]), "__ge__": _known(FUNCTIONS["ge"]),
    "__neg__": FUNCTIONS["neg"], "__pos__": lambda self: self, "__abs__": FUNCTIONS["abs"],
    "__invert__": invert, "__getitem__": getitem, "__setitem__": setitem,
    "__iadd__": _augmented("add_"), "__isub__": _augmented("sub_"), "__imul__": _augmented("mul_"),
    "__itruediv__": _augmented("div_"), "__ipow__": _augmented("pow_"),
    "__iand__": _augmented("bitwise_and_"), "__ior__": _augmented("bitwise_or_"),
    "__ixor__": _augmented("bitwise_xor_"), "__ifloordiv__": _augmented("floor_divide_"),
    "__imod__": _augmented("remainder_"),
}  # fmt: skip
_METHODS = {
    "add_": _alpha_(elementwise.add, elementwise.add_scaled),
    "sub_": _alpha_(elementwise.sub, elementwise.sub_scaled),
    "where": lambda self, condition, other: where(condition, self, other),
    "view": view, "expand": shaping.expand, "to": to, "type": type_, "equal": equal,
    "expand_as": lambda self, other: shaping.expand(self, other.shape),
    "view_as": lambda self, other: shaping.view(self, other.shape),
    "type_as": type_as, "copy_": copy_, "fill_": fill_, "zero_": zero_, "pow_": pow_,
    "clamp_": clamp_, "contiguous": contiguous, "cpu": lambda self: self,
    "reshape_as": lambda self, other: shaping.reshape(self, other.shape),
    **{name: _caster(d) for name, d in {
        "float": dtypes.float32, "double": dtypes.float64, "half": dtypes.float16,
        "long": dtypes.int64, "int": dtypes.int32, "short": dtypes.int16, "char": dtypes.int8,
        "byte": dtypes.uint8, "bool": dtypes.bool_, "cfloat": dtypes.complex64,
        "cdouble": dtypes.complex128}.items()},
}  # fmt: skip


def _transposed(self: Tensor) -> Any:
    """The dimensions in reverse order."""
    return shaping.permute(self, *range(self.ndim - 1, -1, -1))


def _matrices_transposed(self: Tensor) -> Any:
    """The last two dimensions exchanged."""
    return shaping.transpose(self, -2, -1)


_PROPERTIES = {
    "T": property(_transposed), "mT": property(_matrices_transposed),
    "real": property(shaping.real),
    "H": property(lambda self: conj(_matrices_transposed(self))),
    "imag": property(shaping.imag),
}  # fmt: skip
for _name, _member in {**_METHODS, **_OPERATORS, **_PROPERTIES}.items():
    setattr(Tensor, _name, _member)
bind_methods()
