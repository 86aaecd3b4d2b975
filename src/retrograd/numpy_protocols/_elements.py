"""NumPy's elementwise functions that are not ufuncs, differences, interpolation and ranges."""

# ruff: noqa: A001 - NumPy's names

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import retrograd as torch
from retrograd import Tensor
from retrograd.numpy_protocols._arguments import (
    Axis,
    array,
    axes_of,
    cast,
    floating,
    is_number,
    operands,
    refuse,
)
from retrograd.numpy_protocols._selecting import nonzero


def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None,
         max: Any = None, dtype: Any = None, where: Any = True, **options: Any) -> Any:  # fmt: skip
    low, high = (y if x is None else x for x, y in ((a_min, min), (a_max, max)))
    result = cast(array(a), dtype)
    if low is not None:
        result = torch.maximum(*operands((result, low)))
    if high is not None:
        result = torch.minimum(*operands((result, high)))
    return result if where is True else torch.where(array(where), result, array(a))


def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    a = array(a)
    if a.is_complex():
        parts = (torch.real(a), torch.imag(a))
        return torch.complex(*[torch.round(x, decimals=decimals) for x in parts])
    if not a.is_floating_point():
        if decimals < 0:
            refuse("numpy.round of integers to tens and more")
        return a
    return torch.round(a, decimals=decimals)


around = round


def real(val: Any) -> Any:
    return torch.real(array(val))


def imag(val: Any) -> Any:
    val = array(val)
    return torch.imag(val) if val.is_complex() else torch.zeros_like(val)


def angle(z: Any, deg: bool = False) -> Any:
    radians = torch.angle(array(z))
    return torch.rad2deg(radians) if deg else radians


def iscomplex(x: Any) -> Any:
    return imag(x) != 0


def isreal(x: Any) -> Any:
    return imag(x) == 0


def real_if_close(a: Any, tol: float = 100) -> Any:
    a = array(a)
    if not a.is_complex():
        return a
    bound = tol * torch.finfo(a.dtype).eps if tol > 1 else tol
    return torch.real(a) if bool((torch.abs(torch.imag(a)) < bound).all()) else a


def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: float | None = None,
               neginf: float | None = None) -> Any:  # fmt: skip
    x = array(x)
    result = torch.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)
    if copy:
        return result
    x[...] = result
    return x


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8,
            equal_nan: bool = False) -> Any:  # fmt: skip
    a, b = (floating(x) for x in operands((a, b)))
    dtype = torch.result_type(a, b)
    return torch.isclose(a.to(dtype), b.to(dtype), rtol=rtol, atol=atol, equal_nan=equal_nan)


# -- choosing --------------------------------------------------------------------------------


def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    if x is None and y is None:
        return nonzero(condition)
    if is_number(x) and is_number(y):
        return torch.where(array(condition) != 0, x, y)
    x, y = operands((x, y))
    return torch.where(array(condition) != 0, x, y)


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    result: Any = default
    for condition, choice in list(zip(condlist, choicelist, strict=True))[::-1]:
        result = where(condition, choice, result)
    return result


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    x = array(x)
    conditions = list(condlist) if isinstance(condlist, (list, tuple)) else [condlist]
    conditions = [array(c).expand(x.shape) for c in conditions]
    if len(funclist) == len(conditions) + 1:
        conditions.append(~torch.stack(conditions).any(0))
    result = torch.zeros_like(x)
    for condition, function in zip(conditions, funclist, strict=True):
        # Each function is called with the elements that it is for, and may be wrong elsewhere.
        values = function(x[condition], *args, **kw) if callable(function) else function
        values = array(values).to(x.dtype).expand(x[condition].shape)
        result = result.index_put((condition,), values)
    return result


def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    if mode != "raise":
        refuse(f"numpy.choose(mode={mode!r})")
    a = array(a)
    parts = torch.broadcast_tensors(a, *[array(c) for c in choices])
    return torch.take_along_dim(torch.stack(parts[1:]), parts[0][None].to(torch.int64), 0)[0]


# -- differences and integrals ---------------------------------------------------------------


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    a = array(a)
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")

    def beside(x: Any) -> Any:
        if x is None:
            return None
        x = array(x).to(a.dtype)
        return x if x.ndim else x.expand([1 if d == axis % a.ndim else s
                                          for d, s in enumerate(a.shape)])  # fmt: skip

    return torch.diff(a, n, axis, beside(prepend), beside(append))


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    parts = [to_begin, torch.diff(array(ary).reshape(-1)), to_end]
    return torch.cat([array(p).reshape(-1) for p in parts if p is not None])


def gradient(f: Any, *varargs: Any, axis: Axis = None, edge_order: int = 1) -> Any:
    f = floating(f)
    axes = axes_of(axis, f.ndim)
    spacings = varargs * len(axes) if len(varargs) == 1 else varargs or (1.0,) * len(axes)
    if len(spacings) != len(axes):
        raise TypeError("invalid number of arguments")
    steps: list[Any] = [h if is_number(h) else array(h) for h in spacings]
    gradients = []
    for h, d in zip(steps, axes, strict=True):
        known = [h] if isinstance(h, Tensor) and h.ndim else h if is_number(h) else h.item()
        gradients.append(torch.gradient(f, spacing=known, dim=d, edge_order=edge_order)[0])
    return gradients[0] if len(gradients) == 1 else tuple(gradients)


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    y = array(y)
    if x is None:
        return torch.trapezoid(y, dx=1.0, dim=axis) * dx
    return torch.trapezoid(y, array(x), dim=axis)


def unwrap(p: Any, discont: float | None = None, axis: int = -1, *,
           period: float = 2 * math.pi) -> Any:  # fmt: skip
    p = floating(p)
    if not p.shape[axis]:
        return p
    jumps = torch.diff(p.detach(), dim=axis)
    wrapped = torch.remainder(jumps + period / 2, period) - period / 2
    wrapped = torch.where((wrapped == -period / 2) & (jumps > 0), period / 2, wrapped)
    limit = period / 2 if discont is None else max(discont, period / 2)
    change = torch.where(torch.abs(jumps) < limit, 0.0, wrapped - jumps)
    first = torch.zeros_like(p.narrow(axis, 0, 1))
    return p + torch.cat([first, torch.cumsum(change, axis)], axis)


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None,
           period: float | None = None) -> Any:  # fmt: skip
    return torch.interpolate.interp(floating(x), floating(xp), floating(fp), left, right, period)


# -- ranges whose ends are tensors -----------------------------------------------------------


def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
             dtype: Any = None, axis: int = 0, *, device: Any = None) -> Any:  # fmt: skip
    start, stop = (floating(x) for x in operands((start, stop)))
    parts = num - 1 if endpoint else num
    start, stop = torch.broadcast_tensors(start, stop)
    shares = torch.arange(num, dtype=stop.dtype.to_real()) / max(parts, 1)
    shares = shares.reshape([-1] + [1] * stop.ndim)
    result = torch.movedim(start * (1 - shares) + stop * shares, 0, axis)
    step = (stop - start) / parts if parts > 0 else torch.full_like(stop, torch.nan)
    return (cast(result, dtype), step) if retstep else cast(result, dtype)


def logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0,
             dtype: Any = None, axis: int = 0) -> Any:  # fmt: skip
    return cast(base ** linspace(start, stop, num, endpoint, axis=axis), dtype)


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None,
              axis: int = 0) -> Any:  # fmt: skip
    start, stop = (floating(x) for x in operands((start, stop)))
    if start.is_complex() or stop.is_complex():
        refuse("numpy.geomspace of complex numbers")
    sign = torch.sgn(start)
    exponents = linspace(torch.log(torch.abs(start)), torch.log(torch.abs(stop)), num, endpoint)
    return cast(torch.movedim(sign * torch.exp(exponents), 0, axis), dtype)


# -- functions of functions ------------------------------------------------------------------


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any,
                     **kwargs: Any) -> Any:  # fmt: skip
    arr = array(arr)
    rows = torch.movedim(arr, axis, -1)
    results = [array(func1d(row, *args, **kwargs)) for row in rows.reshape(-1, rows.shape[-1])]
    result = torch.stack(results).reshape(*rows.shape[:-1], *results[0].shape)
    inner, place = results[0].ndim, axis % arr.ndim
    source = list(range(result.ndim - inner, result.ndim))
    return torch.movedim(result, source, list(range(place, place + inner))) if inner else result


def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Any:
    a = array(a)
    for axis in axes_of(axes, a.ndim):
        reduced = func(a, axis)
        a = reduced if reduced.ndim == a.ndim else reduced.unsqueeze(axis)
    return a
