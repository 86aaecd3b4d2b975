"""The operation for each ufunc of NumPy and ``scipy.special``.

The rule: a ufunc is the function of ``torch`` or ``torch.special`` of the same name. ``OTHERS``
lists those that have another name with us, or are made of several operations.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import retrograd as torch
from retrograd import Tensor, arrays
from retrograd.numpy_protocols._arguments import (
    along_one,
    array,
    cast,
    floating,
    has_derivative,
    into,
    is_augmented_assignment,
    on_arrays,
    operands,
    refuse,
    tensors_in,
)


def cbrt(x: Tensor) -> Any:
    """The real cube root. At zero, where its graph is vertical, its derivative is NaN."""
    x = floating(x)
    return torch.sgn(x) * torch.abs(x) ** (1 / 3)


def sign(x: Tensor) -> Any:
    """The sign. That of a number that is none is none, too; PyTorch has 0."""
    result = torch.sgn(x)
    return torch.where(torch.isnan(x), x, result) if x.is_floating_point() else result


def spacing(x: Tensor) -> Any:
    """The distance to the next number away from zero."""
    with torch.no_grad():
        away = torch.copysign(torch.full_like(x, torch.inf), x)
        return torch.nextafter(x, away) - x


def bitwise_count(x: Tensor) -> Any:
    """The number of ones in the binary digits of the absolute value."""
    x = x.abs()
    bits = [torch.bitwise_and(x >> n, 1) for n in range(x.element_size() * 8 - x.dtype.is_signed)]
    return torch.stack(bits).sum(0).to(torch.uint8)


def heaviside(x: Tensor, at_zero: Tensor) -> Any:
    """0 below zero, 1 above, and ``at_zero`` at zero, by which it has a derivative."""
    step = torch.where(x == 0, at_zero, torch.where(x > 0, 1.0, 0.0).to(x.dtype))
    return torch.where(torch.isnan(x), x, step)


def matvec(a: Tensor, v: Tensor) -> Any:
    """Products of matrices with vectors."""
    return torch.matmul(a, v[..., None])[..., 0]


def vecmat(v: Tensor, a: Tensor) -> Any:
    """Products of vectors, conjugated, with matrices."""
    return torch.matmul(torch.conj(v)[..., None, :], a)[..., 0, :]


def vecdot(x: Tensor, y: Tensor) -> Any:
    """Inner products along the last axis, the first vector conjugated."""
    return (torch.conj(x) * y).sum(-1)


def _in_float(name: str) -> Callable[..., Any]:
    """A function that takes integers for numbers of the default dtype."""

    def function(*inputs: Tensor) -> Any:
        return getattr(torch, name)(*[floating(x) for x in inputs])

    return function


OTHERS: dict[str, str | Callable[..., Any]] = {
    "conjugate": "conj", "divide": "true_divide", "equal": "eq", "invert": "bitwise_not",
    "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift",
    "degrees": "rad2deg", "radians": "deg2rad", "fabs": "abs", "power": "pow", "rint": "round",
    "absolute": lambda x: x if x.dtype is torch.bool else torch.abs(x), "sign": sign, "cbrt": cbrt,
    "spacing": spacing, "bitwise_count": bitwise_count, "heaviside": heaviside,
    "matvec": matvec, "vecmat": vecmat, "vecdot": vecdot, "hypot": _in_float("hypot"),
    "logaddexp": _in_float("logaddexp"), "logaddexp2": _in_float("logaddexp2"),
    "divmod": lambda x, y: (torch.floor_divide(x, y), torch.remainder(x, y)),
    "modf": lambda x: (x - torch.trunc(x), torch.trunc(x)),
    "frexp": lambda x: tuple(torch.frexp(x)),
    "j0": "bessel_j0", "j1": "bessel_j1", "y0": "bessel_y0", "y1": "bessel_y1",
    "k0": "modified_bessel_k0", "k1": "modified_bessel_k1", "_zeta": "zeta",
    "k0e": "scaled_modified_bessel_k0", "k1e": "scaled_modified_bessel_k1",
}  # fmt: skip
# What stands for the ufunc on the other side, for an array or a number before a tensor.
_REFLECTED = {
    "add": "radd", "subtract": "rsub", "multiply": "rmul", "divide": "rtruediv", "power": "rpow",
    "floor_divide": "rfloordiv", "remainder": "rmod", "matmul": "rmatmul", "bitwise_and": "rand",
    "bitwise_or": "ror", "bitwise_xor": "rxor", "left_shift": "rlshift", "right_shift": "rrshift",
    "equal": "eq", "not_equal": "ne", "less": "gt", "less_equal": "ge", "greater": "lt",
    "greater_equal": "le",
}  # fmt: skip
_ALL = arrays.protocols.ufuncs()
REFLECTED = {_ALL[name]: getattr(Tensor, f"__{method}__") for name, method in _REFLECTED.items()}
del _ALL


@functools.cache
def counterpart(ufunc: Any) -> Callable[..., Any] | None:
    """The tensor function that implements a ufunc, or None."""
    library, name = arrays.protocols.library_of(ufunc), ufunc.__name__
    if not library:
        return None
    spaces = (torch.special, torch) if library != "numpy" else (torch, torch.special)
    operation: Any = OTHERS.get(name, name)
    if isinstance(operation, str):
        operation = next((getattr(s, operation) for s in spaces if hasattr(s, operation)), None)
    return operation  # type: ignore[no-any-return]


def array_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What ``Tensor.__array_ufunc__`` returns."""
    if method == "__call__" and not options and all(isinstance(x, Tensor) for x in inputs):
        function = counterpart(ufunc)
        if function is not None:
            return function(*inputs)
    if method == "__call__" and len(inputs) == 2 and not isinstance(inputs[0], Tensor):
        reflected = REFLECTED.get(ufunc)
        if reflected is not None and (not options or _is_in_place(inputs, options)):
            result = reflected(inputs[1], inputs[0])
            if result is not NotImplemented:
                return result
    if any(hasattr(x, "__array_ufunc__") and not _is_ours(x) for x in inputs):
        return NotImplemented
    out = options.pop("out", None)
    name = f"numpy.{ufunc.__name__}" if method == "__call__" else f"{ufunc.__name__}.{method}"
    function = counterpart(ufunc)
    if function is None:
        return _without_counterpart(ufunc, method, inputs, options, out)
    for option in ("order", "subok", "casting"):  # which are about arrays in memory
        options.pop(option, None)
    if method == "__call__":
        result = _call(ufunc, function, inputs, options, out)
        return result if options.get("where", True) is not True else into(out, result, name)
    return METHODS[method](ufunc, function, inputs, options, out)


def _is_ours(x: Any) -> bool:
    return isinstance(x, Tensor) or arrays.is_raw(x)


def _is_in_place(inputs: tuple[Any, ...], options: dict[str, Any]) -> bool:
    out = options.get("out", (None,))[0]
    return len(options) == 1 and out is inputs[0] and is_augmented_assignment()


def _without_counterpart(
    ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any], out: Any
) -> Any:
    tensors = [*tensors_in(inputs), *tensors_in(options)]
    if any(has_derivative(x) for x in tensors):
        library = arrays.protocols.library_of(ufunc)
        refuse(f"{library}.{ufunc.__name__}" if library else f"The ufunc {ufunc.__name__!r}")
    result = on_arrays(getattr(ufunc, method), inputs, options)
    if not isinstance(result, tuple):
        return into(out, array(result), ufunc.__name__)
    return into(out, tuple(array(y) for y in result), ufunc.__name__)


def _call(
    ufunc: Any, function: Callable[..., Any], inputs: Sequence[Any], options: dict[str, Any],
    out: Any,
) -> Any:  # fmt: skip
    name = f"numpy.{ufunc.__name__}"
    where, axis = options.get("where", True), options.get("axis", -1)
    for unknown in set(options) - {"where", "dtype", "axis", "keepdims"}:
        refuse(f"{name}({unknown}=)")
    tensors = [cast(x, options.get("dtype")) for x in operands(inputs)]
    if ufunc.signature is not None:
        if axis != -1:
            tensors = [torch.movedim(x, axis, -1) for x in tensors]
        result = function(*tensors)
        return result[..., None] if options.get("keepdims") else result
    if where is True:
        return function(*tensors)
    return _where(ufunc, function, tensors, array(where), out)


def _where(ufunc: Any, function: Any, tensors: Sequence[Tensor], where: Tensor, out: Any) -> Any:
    """The function where a mask is true, and ``out`` elsewhere, or zeros.

    Elsewhere, the function is computed of numbers at which it has a derivative: the derivative of
    what was given there may be infinite, and infinity times the zero that comes back is not zero.
    """
    name = f"numpy.{ufunc.__name__}"
    harmless = 2 if ufunc.__name__ == "arccosh" else 0.5
    inputs = [torch.where(where, x, harmless if x.is_floating_point() else 1) for x in tensors]
    result = function(*inputs)
    if out is not None:
        return into(out, result, name, where)
    if isinstance(result, tuple):
        return tuple(torch.where(where, y, torch.zeros_like(y)) for y in result)
    return torch.where(where, result, torch.zeros_like(result))


# -- methods of ufuncs -----------------------------------------------------------------------

# Reductions and scans that are operations. The others go element by element.
_REDUCTIONS: dict[str, str] = {
    "add": "sum", "multiply": "prod", "maximum": "amax", "minimum": "amin", "logical_and": "all",
    "logical_or": "any", "logaddexp": "logsumexp",
}  # fmt: skip
_SCANS: dict[str, str] = {
    "add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin",
    "logaddexp": "logcumsumexp",
}  # fmt: skip


def _binary(ufunc: Any, function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    if ufunc.nin != 2 or ufunc.nout != 1:
        raise ValueError(f"only supported for binary functions, which {ufunc.__name__} is not")
    return lambda x, y: function(*operands((x, y)))


def reduce(
    ufunc: Any, function: Callable[..., Any], inputs: Sequence[Any], options: dict[str, Any],
    out: Any,
) -> Any:  # fmt: skip
    """``ufunc.reduce(array, axis=0, dtype=None, out=None, keepdims=False, initial, where)``."""
    binary = _binary(ufunc, function)
    names = ("array", "axis", "dtype", "out", "keepdims", "initial", "where")
    arguments = {**dict(zip(names, inputs, strict=False)), **options}
    a = cast(array(arguments["array"]), arguments.get("dtype"))
    where, start = arguments.get("where"), arguments.get("initial")
    if where is not None and where is not True:
        unit = ufunc.identity if start is None else start
        if unit is None:
            raise ValueError(
                f"reduction operation '{ufunc.__name__}' does not have an identity, so to use a "
                "where mask one has to specify 'initial'"
            )
        a = torch.where(array(where), a, unit)

    def along(x: Tensor, dim: int) -> Any:
        known = _REDUCTIONS.get(ufunc.__name__)
        if known is not None and (x.shape[dim] or ufunc.identity is not None):
            return getattr(torch, known)(x, dim)
        if not x.shape[dim]:
            if start is None:
                raise ValueError(
                    f"zero-size array to reduction operation {ufunc.__name__} which has no identity"
                )
            return torch.full_like(x.select(dim, 0) if x.shape[dim] else x.sum(dim), start)
        return functools.reduce(binary, x.unbind(dim))

    result = along_one(along, a, arguments.get("axis", 0), bool(arguments.get("keepdims", False)))
    if start is not None:
        result = binary(start, result)
    return into(arguments.get("out", out), result, f"{ufunc.__name__}.reduce")


def accumulate(
    ufunc: Any, function: Callable[..., Any], inputs: Sequence[Any], options: dict[str, Any],
    out: Any,
) -> Any:  # fmt: skip
    """``ufunc.accumulate(array, axis=0, dtype=None, out=None)``."""
    binary = _binary(ufunc, function)
    arguments = {**dict(zip(("array", "axis", "dtype", "out"), inputs, strict=False)), **options}
    a, axis = cast(array(arguments["array"]), arguments.get("dtype")), arguments.get("axis", 0)
    known = _SCANS.get(ufunc.__name__)
    if known is not None:
        result = getattr(torch, known)(a, axis)
        result = result.values if known in ("cummax", "cummin") else result
    elif not a.shape[axis]:
        result = a
    else:
        result = torch.stack(list(itertools.accumulate(a.unbind(axis), binary)), axis)
    return into(arguments.get("out", out), result, f"{ufunc.__name__}.accumulate")


def reduceat(
    ufunc: Any, function: Callable[..., Any], inputs: Sequence[Any], options: dict[str, Any],
    out: Any,
) -> Any:  # fmt: skip
    """``ufunc.reduceat(array, indices, axis=0, dtype=None, out=None)``: each part from an index to
    the next, or one element where that is not behind it."""
    names = ("array", "indices", "axis", "dtype", "out")
    arguments = {**dict(zip(names, inputs, strict=False)), **options}
    a, axis = cast(array(arguments["array"]), arguments.get("dtype")), arguments.get("axis", 0)
    starts = array(arguments["indices"]).tolist()
    ends = [*starts[1:], a.shape[axis]]
    parts = [
        reduce(ufunc, function, (a.narrow(axis, i, max(j - i, 1)), axis), {}, None)
        for i, j in zip(starts, ends, strict=True)
    ]
    return into(arguments.get("out", out), torch.stack(parts, axis), f"{ufunc.__name__}.reduceat")


def outer(
    ufunc: Any, function: Callable[..., Any], inputs: Sequence[Any], options: dict[str, Any],
    out: Any,
) -> Any:  # fmt: skip
    """``ufunc.outer(a, b)``: of all pairs of elements."""
    _binary(ufunc, function)
    a, b = operands(inputs)
    a = a.reshape(*a.shape, *[1] * b.ndim)
    return into(out, _call(ufunc, function, (a, b), options, out), f"{ufunc.__name__}.outer")


def at(
    ufunc: Any, function: Callable[..., Any], inputs: Sequence[Any], options: dict[str, Any],
    out: Any,
) -> None:  # fmt: skip
    """``ufunc.at(a, indices, b)``, in place. An element that is named twice is changed twice."""
    a, index, *given = inputs
    name = f"numpy.{ufunc.__name__}.at"
    if not isinstance(a, Tensor):
        if any(has_derivative(x) for x in given):
            refuse(name, "cannot write a tensor with a history into an array")
        on_arrays(ufunc.at, inputs, options)
        return
    if ufunc.__name__ not in ("add", "subtract"):
        refuse(name, "is supported for add and subtract only; see Tensor.scatter_reduce_")
    values = operands((a, given[0]))[1].to(a.dtype)
    values = values if ufunc.__name__ == "add" else -values
    indices = tuple(array(i) for i in index) if isinstance(index, tuple) else (array(index),)
    a.index_put_(indices, values, accumulate=True)


METHODS = {"reduce": reduce, "accumulate": accumulate, "reduceat": reduceat, "outer": outer,
           "at": at}  # fmt: skip
