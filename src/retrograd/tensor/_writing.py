"""Everyday operations as methods that write in place, and some of them as functions too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd.ops import elementwise, shaping
from retrograd.ops._arguments import on_either, on_tensors
from retrograd.ops._operation import TABLE, Operation
from retrograd.ops.pointwise import dividing
from retrograd.tensor._inplace import in_place, in_place_of, write_in_place
from retrograd.tensor._tensor import Tensor


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Overwrite with the elements of ``src``, broadcast and cast."""
    return write_in_place(elementwise.copy, [self, src], {})


def fill_(self: Tensor, value: Any) -> Tensor:
    """Overwrite every element with ``value``."""
    if not isinstance(value, Tensor):
        return write_in_place(elementwise.fill_number, [self], {"value": value})
    if value.ndim:
        raise RuntimeError(
            "fill_ only supports 0-dimension value tensor but got tensor with "
            f"{value.ndim} dimensions."
        )
    return write_in_place(elementwise.fill, [self, value], {})


def set_real(self: Tensor, value: Any) -> None:
    """Overwrite the real part."""
    _set_part(shaping.real(self), value)


def set_imag(self: Tensor, value: Any) -> None:
    """Overwrite the imaginary part."""
    _set_part(shaping.imag(self), value)


def _set_part(part: Tensor, value: Any) -> None:
    if isinstance(value, Tensor):
        copy_(part, value)
    else:
        fill_(part, value)


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


def div_(self: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """In-place version of ``div``."""
    if rounding_mode is None:
        return _true_div_(self, other)
    dividing.check_rounding_mode(rounding_mode)
    return _div_rounded_(self, other, rounding_mode=rounding_mode)


def abs_(self: Tensor) -> Tensor:
    """In-place version of ``abs``."""
    if self._data.dtype.kind == "c":
        raise RuntimeError("In-place abs is not supported for complex tensors.")
    return _abs_(self)


def _alpha_(plain: Operation, scaled: Operation) -> Callable[..., Tensor]:
    once, times = in_place(plain), in_place(scaled)

    def method(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
        if type(alpha) is int and alpha == 1:
            return once(self, other)
        return times(self, other, alpha=alpha)

    return method


_pow_tensor_, _pow_scalar_ = in_place(elementwise.pow_tensor), in_place(elementwise.pow_scalar)
_clamp_, _clamp_tensor_ = in_place(elementwise.clamp), in_place(elementwise.clamp_tensor)
_abs_ = in_place(elementwise.abs)
_true_div_, _div_rounded_ = in_place(elementwise.div), in_place(dividing.div_rounded)
_IN_PLACE = (
    "mul neg reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan "
    "sinh cosh tanh asinh acosh atanh sigmoid relu sgn sign floor ceil trunc remainder "
    "floor_divide masked_fill logical_not bitwise_not "
    "eq ne lt le gt ge cumsum"
)
METHODS: dict[str, Callable[..., Any]] = {
    **{f"{name}_": in_place(TABLE[name]) for name in _IN_PLACE.split()},
    **{f"{name}_": in_place_of(on_either(TABLE[name], ""))
       for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    **{f"{name}_": in_place_of(on_tensors(TABLE[name], ""))
       for name in ("atan2", "logical_and", "logical_or", "logical_xor")},
    "add_": _alpha_(elementwise.add, elementwise.add_scaled),
    "sub_": _alpha_(elementwise.sub, elementwise.sub_scaled),
    "copy_": copy_, "fill_": fill_, "zero_": zero_, "pow_": pow_, "clamp_": clamp_, "abs_": abs_,
    "div_": div_, "fmod_": in_place_of(dividing.fmod),
}  # fmt: skip


def function_of(name: str) -> Callable[..., Any]:
    """``torch.f_(x)`` for ``x.f_()``."""

    def function(input: Any, *args: Any, **named: Any) -> Any:
        return getattr(input, name)(*args, **named)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The method ``{name}`` as a function."
    return function


# Of the methods that write in place, PyTorch has these as functions too.
_WRITING = (
    "abs acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil "
    "clamp clamp_max clamp_min clip conj_physical cos cosh deg2rad detach erf erfc exp exp2 expm1 "
    "fill fix floor frac gcd i0 index_put lcm ldexp log log10 log1p log2 logit nan_to_num neg "
    "negative rad2deg reciprocal relu round rsqrt sigmoid sin sinc sinh sqrt square tan tanh trunc "
    "xlogy zero"
)
FUNCTIONS = {f"{name}_": function_of(f"{name}_") for name in _WRITING.split()}
