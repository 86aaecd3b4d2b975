"""Who is right about a derivative: PyTorch, retrograd, or neither, by differences of values.

The values are PyTorch's own, in double precision, unless those are not defined or wrong. A verdict
is given only where the function is smooth, so that differences from either side agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ._comparing import Difference, as_array, is_tensor
from ._machine import Libraries, in_dtype, run

STEPS = (0.02, 0.001)  # the longest of three that are extrapolated from, and another to try
KINK = 1e-4  # the step by which either side of a point is looked at
_BACKWARD = re.compile(r"^(.*)\.backward\((.*)\)$")
_GRAD = re.compile(r"^\w+ = torch\.autograd\.grad\((\w+), \[([^\]]*)\], (.*), create_graph=True,")
_TRANSFORMS = re.compile(r"torch\.(func|autograd\.functional)\.")
_NOT_DIFFERENCES = re.compile(r"\binf\b|\bnan\b|checkpoint|manual_seed|register_hook")
_DERIVATIVES = ("values", "gradient", "gradient is None")
_MOST = 24  # elements that a derivative is taken by


class NotSmoothError(Exception):
    """There is no derivative, or none that differences show."""


def verdict(
    lines: list[str], found: Difference, libraries: Libraries, of_ours: bool = False
) -> str | None:
    """ "ours" if differences are what we have and not what PyTorch has, "theirs" if it is the
    other way round; None if they do not tell. With ``of_ours``, the differences are of our own
    values, where those of PyTorch's may well be others, and "theirs" is said if they are not what
    we have."""
    program = "\n".join(lines)
    if found.kind not in _DERIVATIVES or _NOT_DIFFERENCES.search(program):
        return None
    if found.size == np.inf and "nan" not in found.theirs + found.ours:
        return None
    lines = [in_dtype("float64", line) for line in lines]
    theirs = value_of(libraries.torch, lines, found.what, libraries)
    ours = value_of(libraries.retrograd, lines, found.what, libraries)
    if found.kind == "gradient is None":  # which is 0
        theirs = np.zeros_like(ours) if theirs is None and ours is not None else theirs
        ours = np.zeros_like(theirs) if ours is None and theirs is not None else ours
    if theirs is None or ours is None or theirs.shape != ours.shape:
        return None
    if theirs.dtype.kind not in "fc" or theirs.dtype != ours.dtype:
        return None
    if is_close(theirs, ours):
        return None
    try:
        with np.errstate(all="ignore"):
            torch = libraries.retrograd if of_ours else libraries.torch
            right = by_differences(torch, lines, found, libraries)
    except NotSmoothError:
        return None
    finally:
        libraries.reset()
    if right is None or right.shape != ours.shape or not np.isfinite(right).all():
        return None
    if of_ours:
        return None if is_close(ours, right) else "theirs"
    sides = [name for name, x in (("theirs", theirs), ("ours", ours)) if is_close(x, right)]
    return sides[0] if len(sides) == 1 else None


def is_close(a: np.ndarray, b: np.ndarray) -> bool:
    if not np.isfinite(a).all() or not np.isfinite(b).all():
        return False
    scale = max(1.0, np.abs(b).max(initial=0))
    return bool(np.abs(a - b).max(initial=0) <= 1e-5 * scale)


def by_differences(
    torch: Any, lines: list[str], found: Difference, libraries: Libraries
) -> Any:
    """What a value of a program should be, with differences in place of derivatives. ``torch``:
    the library that computes the values."""
    if _TRANSFORMS.search(found.line) and found.kind == "values":
        return value_of(Numeric(torch), lines, found.what, libraries)
    grad = _GRAD.match(found.line)
    if grad and found.kind == "values":
        at = re.match(r"^\w+\[(\d+)\]$", found.what)
        leaves = grad[2].split(", ")
        if at is None or lines[-1] != in_dtype("float64", found.line):
            return None
        root = weighted(grad[1], grad[3])
        return slope_by_leaf(torch, lines[:-1], root, leaves[int(at[1])], libraries)
    name = re.match(r"^(\w+)\.grad$", found.what)
    if found.kind == "values" or name is None:
        return None
    total: Any = None
    for at, line in enumerate(lines):
        backward = _BACKWARD.match(line)
        if backward is None:
            continue
        weight = backward[2].partition("retain_graph")[0].rstrip(", ")
        root = weighted(backward[1], weight or "1")
        slope = slope_by_leaf(torch, lines[:at], root, name[1], libraries)
        if slope is None:
            return None
        total = slope if total is None else total + slope
    return total


def weighted(root: str, weight: str) -> str:
    """The number whose gradient a pass computes that begins with a weight."""
    return f"(({weight}) * ({root}).conj()).real.sum()"


def value_of(
    torch: Any, lines: list[str], what: str, libraries: Libraries,
    moved: str = "", by: np.ndarray | None = None,
) -> np.ndarray | None:  # fmt: skip
    """What a program gives for an expression, if it runs; ``moved`` is a leaf to add something
    to."""
    space: dict[str, Any] = {"torch": torch, "inf": float("inf"), "nan": float("nan")}
    torch.set_default_dtype(torch.float64)
    try:
        for line in lines:
            run(compile(line, "<program>", "exec"), space)
            if moved and line.startswith(f"{moved} = "):
                if not re.match(r"^\w+ = torch\.tensor\(", line):
                    return None
                space[moved].data += torch.tensor(by)
        value = eval(what, space)
    except NotSmoothError:
        raise
    except Exception:
        return None
    finally:
        libraries.reset()
    return as_array(value) if is_tensor(value) else None


def slope_by_leaf(
    torch: Any, lines: list[str], root: str, leaf: str, libraries: Libraries
) -> Any:
    """The gradient of a number that a program computes, by one of its leaves."""
    start = value_of(torch, lines, leaf, libraries)
    if start is None or start.dtype.name not in ("float64", "complex128") or start.size > _MOST:
        return None

    def moved(by: np.ndarray) -> np.ndarray:
        value = value_of(torch, lines, root, libraries, leaf, by)
        if value is None:
            raise NotSmoothError
        return value

    slopes = [along(moved, unit) for unit in units(start.shape)]
    gradient = np.array(slopes, np.float64).reshape(start.shape)
    if start.dtype.kind == "c":
        slopes = [along(moved, 1j * unit) for unit in units(start.shape)]
        gradient = gradient + 1j * np.array(slopes, np.float64).reshape(start.shape)
    return gradient


def units(shape: tuple[int, ...]) -> np.ndarray:
    count = int(np.prod(shape))
    return np.eye(count).reshape(count, *shape)


def along(function: Callable[[np.ndarray], np.ndarray], direction: np.ndarray) -> np.ndarray:
    """The derivative of a function of a step, at 0, along a direction."""
    try:
        return extrapolated(function, direction, STEPS[0])
    except NotSmoothError:
        return extrapolated(function, direction, STEPS[1])


def extrapolated(
    function: Callable[[np.ndarray], np.ndarray], direction: np.ndarray, step: float
) -> np.ndarray:
    size = max(1.0, float(np.abs(direction).max(initial=0)))

    def sloped(h: float) -> np.ndarray:
        ahead, behind = function(direction * h), function(direction * -h)
        if ahead.shape != behind.shape:
            raise NotSmoothError
        return (ahead - behind) / (2 * h)

    first, second, third = (sloped(step / size / 2**n) for n in range(3))
    better, best = (4 * second - first) / 3, (4 * third - second) / 3
    slope = (16 * best - better) / 15
    scale = max(1.0, np.abs(slope).max(initial=0))
    middle = function(direction * 0)
    sides = [(function(direction * h) - middle) / h for h in (KINK / size, -KINK / size)]
    for other, bound in ((best, 1e-4), (sides[0], 0.02), (sides[1], 0.02)):
        if not np.abs(other - slope).max(initial=0) <= bound * scale:  # nor if it is NaN
            raise NotSmoothError
    return np.asarray(slope)


# -- transforms ----------------------------------------------------------------------------------


class Numeric:
    """PyTorch, with transforms that take differences, and loops over batches."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.func = NumericTransforms(torch)
        self.autograd = NumericAutograd(torch, self.func)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)


class NumericAutograd:
    def __init__(self, torch: Any, func: NumericTransforms) -> None:
        self._torch, self.functional = torch, func

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch.autograd, name)


class NumericTransforms:
    """``torch.func`` of functions of one tensor."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def _can_move(self, x: Any) -> bool:
        return x.dtype in (self.torch.float64, self.torch.complex128)

    def _jacobian(self, f: Any, x: Any) -> Any:
        """Of the shape of the result followed by that of ``x``."""
        at = x.detach()
        if at.numel() > _MOST or at.dtype != self.torch.float64:
            raise NotSmoothError

        def moved(by: np.ndarray) -> np.ndarray:
            return as_array(f(at + self.torch.tensor(by)))

        columns = [along(moved, unit) for unit in units(tuple(at.shape))]
        if not columns:
            raise NotSmoothError
        stacked = np.stack(columns, -1)
        return self.torch.tensor(stacked.reshape((*stacked.shape[:-1], *at.shape)))

    def jacrev(self, f: Any) -> Any:
        return lambda x: self._jacobian(f, x)

    jacfwd = jacrev

    def jacobian(self, f: Any, x: Any) -> Any:
        return self._jacobian(f, x)

    def hessian(self, f: Any) -> Any:
        return self.jacrev(self.jacrev(f))

    def grad(self, f: Any) -> Any:
        return lambda x: self.vjp(f, x)[1](self.torch.ones((), dtype=self.torch.float64))[0]

    def grad_and_value(self, f: Any) -> Any:
        return lambda x: (self.grad(f)(x), f(x.detach()).detach())

    def jvp(self, f: Any, primals: Any, tangents: Any) -> Any:
        (x,), (v,) = primals, tangents
        x, v = x.detach(), as_array(v)
        if not self._can_move(x):
            raise NotSmoothError
        slope = along(lambda by: as_array(f(x + self.torch.tensor(by))), v)
        return f(x).detach(), self.torch.tensor(slope)

    def vjp(self, f: Any, x: Any) -> Any:
        at = x.detach()
        if not self._can_move(at) or not 0 < at.numel() <= _MOST:
            raise NotSmoothError

        def pulled(v: Any) -> Any:
            weights = as_array(v).conj()

            def weighed(by: np.ndarray) -> np.ndarray:
                return np.sum(weights * as_array(f(at + self.torch.tensor(by)))).real

            shape = tuple(at.shape)
            slopes = np.array([along(weighed, unit) for unit in units(shape)])
            if at.is_complex():
                slopes = slopes + 1j * np.array([along(weighed, 1j * u) for u in units(shape)])
            return (self.torch.tensor(slopes.reshape(shape)),)

        return f(at).detach(), pulled

    def hvp(self, f: Any, x: Any, v: Any) -> Any:
        hessian = self.hessian(f)(x)
        return f(x.detach()).detach(), self.torch.tensordot(hessian, v.detach(), v.ndim)

    def vmap(self, f: Any, in_dims: Any = 0, chunk_size: Any = None) -> Any:
        def mapped(*xs: Any) -> Any:
            entries = zip(*(x.detach().movedim(in_dims, 0).unbind() for x in xs), strict=True)
            results = [f(*entry) for entry in entries]
            return self._stacked(results)

        return mapped

    def _stacked(self, results: list[Any]) -> Any:
        if isinstance(results[0], (tuple, list)):
            return tuple(self._stacked(list(parts)) for parts in zip(*results, strict=True))
        return self.torch.stack([r.detach() for r in results])
