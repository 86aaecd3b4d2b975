"""NumPy's functions that write to an argument, such as ``np.copyto``."""

from __future__ import annotations

from typing import Any

import retrograd as torch
from retrograd import Tensor
from retrograd.numpy_protocols._arguments import array, count_of, has_derivative, refuse


def _target(a: Any, name: str, *given: Any) -> Any:
    """What is written to, as a tensor. An array shares its memory, but cannot keep a history."""
    if not isinstance(a, Tensor) and any(has_derivative(x) for x in given):
        refuse(name, "cannot write a tensor with a history into an array")
    return array(a)


def _repeated(values: Any, count: int) -> Any:
    values = array(values).reshape(-1)
    return values[torch.arange(count) % values.numel()]


def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    target = _target(dst, "numpy.copyto", src)
    src = array(src)
    target[...] = src if where is True else torch.where(array(where), src, target)


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    if wrap:
        refuse("numpy.fill_diagonal(wrap=True)")
    target = _target(a, "numpy.fill_diagonal", val)
    if target.ndim < 2:
        raise ValueError("array must be at least 2-d")
    at = torch.arange(min(target.shape))
    target[(at,) * target.ndim] = _repeated(val, at.numel()).to(target.dtype)


def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    target = _target(a, "numpy.put", v)
    index = array(ind).reshape(-1).to(torch.int64)
    if mode == "wrap":
        index = torch.remainder(index, target.numel())
    elif mode == "clip":
        index = torch.clamp(index, 0, target.numel() - 1)
    target.put_(index, _repeated(v, index.numel()).to(target.dtype))


def place(arr: Any, mask: Any, vals: Any) -> None:
    target = _target(arr, "numpy.place", vals)
    mask = array(mask) != 0
    target[mask] = _repeated(vals, int(mask.sum())).to(target.dtype)


def putmask(a: Any, mask: Any, values: Any) -> None:
    target = _target(a, "numpy.putmask", values)
    repeated = _repeated(values, count_of(target.shape)).reshape(target.shape).to(target.dtype)
    target[...] = torch.where(array(mask) != 0, repeated, target)


def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    target = _target(arr, "numpy.put_along_axis", values)
    if axis is None:
        refuse("numpy.put_along_axis(axis=None)")
    indices, values = torch.broadcast_tensors(array(indices).to(torch.int64), array(values))
    target.scatter_(axis, indices, values.to(target.dtype))
