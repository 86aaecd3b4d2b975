"""Interpolation, differentiable with respect to the points, the values and the arguments.

The names and arguments are NumPy's (``interp``) and SciPy's (``CubicSpline``).
"""

from __future__ import annotations

import math
from typing import Any

from retrograd import arrays
from retrograd.ops._operation import raw
from retrograd.ops.linear import stack
from retrograd.ops.shapes import reshaping, slicing
from retrograd.ops.shapes.sorting import argsort, searchsorted
from retrograd.optimize._points import on_cpu
from retrograd.sparse import sparse_coo_tensor, spsolve
from retrograd.tensor._conversion import as_tensor
from retrograd.tensor._tensor import Tensor

__all__ = ["CubicSpline", "interp"]


def _floats(x: Any) -> Tensor:
    tensor = as_tensor(x)
    return tensor if tensor.is_floating_point() else tensor.double()


def _of_one_dtype(*values: Any) -> list[Tensor]:
    """Values as tensors of one dtype: that of the tensors given, or else float64."""
    given = [x.dtype for x in values if isinstance(x, Tensor) and x.is_floating_point()]
    tensors = [_floats(x) for x in values]
    return [x.to(given[0]) if given else x.double() for x in tensors]


def _interval(points: Tensor, x: Tensor) -> Tensor:
    """The number of the interval between points that each value is in, or is nearest to."""
    above = searchsorted(points.detach().contiguous(), x.detach().contiguous(), right=True)
    interval: Tensor = (above - 1).clamp(0, points.shape[0] - 2)
    return interval


def _check_increasing(name: str, what: str, points: Tensor, strictly: bool = True) -> None:
    data = raw(points)
    if not arrays.is_raw(data):
        return
    before, after = data[:-1], data[1:]
    if not (after > before if strictly else after >= before).all():
        raise ValueError(f"{name}: {what} must be {'strictly ' * strictly}increasing.")


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Tensor:
    """Interpolates linearly between points, as ``numpy.interp`` does.

    Args:
        x: Where to interpolate: of any shape.
        xp: The points, in increasing order unless ``period`` is given.
        fp: The values at the points.
        left: The value for ``x < xp[0]``; by default ``fp[0]``.
        right: The value for ``x > xp[-1]``; by default ``fp[-1]``.
        period: The period of the function. The points need not be in order then.

    Returns:
        A Tensor of the shape of ``x``, differentiable by ``x``, ``xp``, ``fp``, ``left`` and
        ``right``.

    Example:
        >>> from retrograd.interpolate import interp
        >>> y = torch.tensor([0.0, 10.0, 20.0], requires_grad=True)
        >>> values = interp(torch.tensor([0.5, 1.25]), [0.0, 1.0, 2.0], y); values.detach()
        tensor([ 5.0000, 12.5000])
        >>> values.sum().backward(); y.grad
        tensor([0.5000, 1.2500, 0.2500])
    """
    x, xp, fp = _of_one_dtype(x, xp, fp)
    if xp.ndim != 1 or fp.shape != xp.shape or not xp.shape[0]:
        raise ValueError(
            f"interp: xp and fp must be vectors of one length, got shapes {list(xp.shape)} and "
            f"{list(fp.shape)}."
        )
    if period is not None:
        if period == 0:
            raise ValueError("interp: period must be a non-zero value.")
        period = abs(period)
        x, xp = x % period, xp % period
        order = argsort(xp.detach())
        xp, fp = xp[order], fp[order]
        xp = slicing.cat([xp[-1:] - period, xp, xp[:1] + period])
        fp = slicing.cat([fp[-1:], fp, fp[:1]])
    _check_increasing("interp", "xp", xp, strictly=False)
    if xp.shape[0] == 1:
        inside = fp[0].expand(x.shape)
    else:
        i = _interval(xp, x)
        start, end = fp[i], fp[i + 1]
        width = xp[i + 1] - xp[i]
        width = width.where(width != 0, 1.0)  # of the same point twice, where the values jump
        share = ((x - xp[i]) / width).clamp(0.0, 1.0)
        inside = start + share * (end - start)
    if left is not None:
        inside = as_tensor(left, dtype=x.dtype).expand(x.shape).where(x < xp[0], inside)
    if right is not None:
        inside = as_tensor(right, dtype=x.dtype).expand(x.shape).where(x > xp[-1], inside)
    values: Tensor = inside
    return values


class CubicSpline:
    """A curve of cubic polynomials through points, with two continuous derivatives, as
    ``scipy.interpolate.CubicSpline``.

    Args:
        x: The points, in increasing order.
        y: The values at the points, along dimension ``axis``.
        axis: The dimension of ``y`` along which the points are.
        bc_type: The condition at the ends: "not-a-knot", "natural" (no curvature), "clamped" (no
            slope), "periodic", or a pair of ``(order, value)`` for the two ends, which gives the
            first or the second derivative.
        extrapolate: Whether the first and the last polynomial are used outside of the points
            (by default), or NaN is returned; "periodic" repeats the curve.

    Example:
        >>> from retrograd.interpolate import CubicSpline
        >>> x = torch.arange(5.0, dtype=torch.float64)
        >>> y = torch.sin(x).requires_grad_()
        >>> spline = CubicSpline(x, y, bc_type="natural")
        >>> spline(1.5).detach()
        tensor(0.9969, dtype=torch.float64)
        >>> torch.autograd.grad(spline(1.5), y)[0]
        tensor([-0.0737,  0.5670,  0.6071, -0.1205,  0.0201], dtype=torch.float64)
    """

    def __init__(
        self, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None
    ) -> None:
        points, values = map(on_cpu, _of_one_dtype(x, y))
        if points.ndim != 1 or points.shape[0] < 2:
            raise ValueError("CubicSpline: x must be a vector of at least 2 points.")
        if values.shape[axis] != points.shape[0]:
            raise ValueError(
                f"CubicSpline: y has {values.shape[axis]} values along its dimension {axis}, but "
                f"there are {points.shape[0]} points."
            )
        _check_increasing("CubicSpline", "x", points)
        self.x, self.axis = points, axis % values.ndim
        values = reshaping.movedim(values, axis, 0)
        self._shape = tuple(values.shape[1:])
        periodic = bc_type == "periodic"
        if extrapolate is None:
            extrapolate = "periodic" if periodic else True
        self.extrapolate = extrapolate
        flat = values.reshape(points.shape[0], -1)
        self.c = self._coefficients(flat, _ends(bc_type))

    def _coefficients(self, y: Tensor, ends: Any) -> Tensor:
        """The coefficients of each polynomial, those of the highest power first."""
        h = (self.x[1:] - self.x[:-1])[:, None]
        slope = (y[1:] - y[:-1]) / h
        s = _slopes(self.x, h[:, 0], slope, ends)
        bend = (s[:-1] + s[1:] - 2 * slope) / h
        coefficients: Tensor = stack([bend / h, (slope - s[:-1]) / h - bend, s[:-1], y[:-1]], dim=0)
        return coefficients

    def __call__(self, x: Any, nu: int = 0) -> Tensor:
        """The curve, or a derivative of it.

        Args:
            x: Where: of any shape.
            nu: The order of the derivative.

        Returns:
            A Tensor, in which the shape of ``x`` stands where the points were in ``y``.
        """
        at = on_cpu(as_tensor(x, dtype=self.x.dtype))
        if self.extrapolate == "periodic":
            at = self.x[0] + (at - self.x[0]) % (self.x[-1] - self.x[0])
        flat = at.reshape(-1)
        i = _interval(self.x, flat)
        distance = (flat - self.x[i])[:, None]
        total: Any = None
        for power in range(3, nu - 1, -1):
            factor = math.perm(power, nu)
            c = factor * self.c[3 - power][i]
            total = c if total is None else total * distance + c
        if total is None:
            total = 0.0 * self.c[3][i]
        if self.extrapolate is False:
            outside = (flat < self.x[0]) | (flat > self.x[-1])
            total = (total * math.nan).where(outside[:, None], total)
        values: Tensor = total.reshape(*at.shape, *self._shape)
        if self.axis and at.ndim:
            dims = list(range(at.ndim))
            values = reshaping.movedim(values, dims, [self.axis + d for d in dims])
        return values

    def integrate(self, a: Any, b: Any) -> Tensor:
        """The integral of the curve between two limits, which must be between the points.

        Args:
            a: The lower limit.
            b: The upper limit.

        Returns:
            A Tensor, of the shape of a value.
        """
        integral: Tensor = self._integral_to(b) - self._integral_to(a)
        return integral

    def _integral_to(self, end: Any) -> Tensor:
        at = as_tensor(end, dtype=self.x.dtype).reshape(())
        h = (self.x[1:] - self.x[:-1])[:, None]
        # The part of each interval that is before the end.
        part = (at - self.x[:-1])[:, None].clamp(min=0.0)
        part = part.where(part < h, h)
        c3, c2, c1, c0 = (self.c[k] for k in range(4))
        parts = part * (c0 + part * (c1 / 2 + part * (c2 / 3 + part * c3 / 4)))
        integral: Tensor = parts.sum(0).reshape(self._shape)
        return integral


def _ends(bc_type: Any) -> Any:
    """The condition at both ends: "periodic", or for each end "not-a-knot" or a derivative."""
    names = {"not-a-knot": "not-a-knot", "natural": (2, 0.0), "clamped": (1, 0.0)}
    if isinstance(bc_type, str):
        if bc_type == "periodic":
            return bc_type
        bc_type = (bc_type, bc_type)
    try:
        start, end = (names[end] if isinstance(end, str) else end for end in bc_type)
        for condition in (start, end):
            if condition != "not-a-knot" and condition[0] not in (1, 2):
                raise ValueError
    except (KeyError, TypeError, ValueError, IndexError):
        raise ValueError(
            "CubicSpline: expected bc_type to be 'not-a-knot', 'natural', 'clamped', 'periodic', "
            f"or a pair of (order, value) with an order of 1 or 2, got {bc_type!r}."
        ) from None
    return start, end


def _slopes(x: Tensor, h: Tensor, slope: Tensor, ends: Any) -> Tensor:
    """The derivatives at the points, by which the second derivative is continuous."""
    n = x.shape[0]
    inner = 3 * (h[1:, None] * slope[:-1] + h[:-1, None] * slope[1:])
    if ends == "periodic":
        return _periodic_slopes(h, slope, inner)
    start, end = ends
    if n == 2:
        start, end = (
            (1, slope[0]) if condition == "not-a-knot" else condition for condition in (start, end)
        )
    if n == 3 and start == end == "not-a-knot":  # one parabola through all points
        one = h[:1] * 0 + 1
        first = _Row([0, 1], [one, one], 2 * slope[:1])
        last = _Row([2, 1], [one, one], 2 * slope[1:])
    else:
        first = _end_row([0, 1], h[0:1], h[1:2], slope[:1], slope[1:2], start, 1.0)
        last = _end_row([n - 1, n - 2], h[-1:], h[-2:-1], slope[-1:], slope[-2:-1], end, -1.0)
    i = list(range(1, n - 1))
    rows = [0] * len(first.columns) + i * 3 + [n - 1] * len(last.columns)
    columns = first.columns + [k - 1 for k in i] + i + [k + 1 for k in i] + last.columns
    values = slicing.cat([*first.values, h[1:], 2 * (h[:-1] + h[1:]), h[:-1], *last.values])
    right = slicing.cat([first.right, inner, last.right])
    return spsolve(sparse_coo_tensor([rows, columns], values, (n, n)), right)


class _Row:
    """A row of a system of equations."""

    def __init__(self, columns: list[int], values: list[Tensor], right: Tensor) -> None:
        self.columns, self.values, self.right = columns, values, right


def _end_row(
    places: list[int], h: Tensor, next_h: Tensor, slope: Tensor, next_slope: Tensor,
    condition: Any, sign: float,
) -> _Row:  # fmt: skip
    """The equation of one end, by the lengths and the slopes of the first two intervals there."""
    one = h * 0 + 1
    if condition == "not-a-knot":
        both = h + next_h
        right = ((h + 2 * both) * next_h)[:, None] * slope + (h**2)[:, None] * next_slope
        return _Row(places, [next_h, both], right / both[:, None])
    order, value = condition
    given = as_tensor(value, dtype=slope.dtype).reshape(1, -1) + 0 * slope
    if order == 1:
        return _Row(places[:1], [one], given)
    return _Row(places, [2 * one, one], 3 * slope - sign * 0.5 * given * h[:, None])


def _periodic_slopes(h: Tensor, slope: Tensor, inner: Tensor) -> Tensor:
    n = h.shape[0]  # of unknowns: the last point is the first one
    if n < 2:
        none: Tensor = slope.new_zeros(2, slope.shape[1])
        return none
    before = slicing.cat([h[-1:], h[:-1]])  # the interval before each point
    first = 3 * (h[:1, None] * slope[-1:] + h[-1:, None] * slope[:1])
    i = list(range(n))
    columns = [(k - 1) % n for k in i] + i + [(k + 1) % n for k in i]
    values = slicing.cat([h, 2 * (before + h), before])
    slopes = spsolve(
        sparse_coo_tensor([i * 3, columns], values, (n, n)), slicing.cat([first, inner])
    )
    whole: Tensor = slicing.cat([slopes, slopes[:1]])
    return whole
