"""Differences along a dimension, the trapezoidal rule, and numerical gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.ops import linear
from retrograd.ops._arguments import check_int, check_tensor, invalid_combination
from retrograd.ops._dims import is_integer, many_dims, one_dim
from retrograd.ops._operation import TensorLike, raw
from retrograd.ops._public import public
from retrograd.ops._refusals import refuses
from retrograd.ops._sections import like
from retrograd.ops.comparisons import logical_xor
from retrograd.ops.copies import clone
from retrograd.ops.elementwise import sub
from retrograd.ops.pointwise.scalar_arithmetic import over, times
from retrograd.ops.reductions import basic as reductions
from retrograd.ops.shapes import slicing


def _part(x: Any, dim: int, start: int | None, stop: int | None) -> Any:
    """A stretch of ``x`` along ``dim``."""
    return linear.slice_(x, where=(*(slice(None),) * dim, slice(start, stop)))


# -- differences -----------------------------------------------------------------------------


@public("torch method", out="cast, apart")
def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """The ``n``-th forward difference along a dimension.

    Args:
        n: how many times to take differences.
        dim: dimension to take differences along.
        prepend: tensor to put before ``input`` along ``dim`` first.
        append: tensor to put after ``input`` along ``dim`` first.

    Returns:
        A tensor whose size along ``dim`` is ``n`` less.

    Example:
        >>> torch.diff(torch.tensor([1., 4., 9., 16.]))
        tensor([3., 5., 7.])
    """
    check_int("diff", "n", 2, n)
    if not input.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    plain = one_dim(dim, input.ndim)
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    for other in (prepend, append):
        if other is not None:
            _check_joinable(input, other, plain)
    if n == 0:
        return clone(input)
    if prepend is not None or append is not None:
        pieces = [x for x in (prepend, input, append) if x is not None]
        input = slicing.cat(pieces, plain)
    subtract = logical_xor if raw(input).dtype.kind == "b" else sub
    for _ in range(min(n, input.shape[plain])):
        length = input.shape[plain] - 1
        input = subtract(
            slicing.narrow(input, plain, 1, length), slicing.narrow(input, plain, 0, length)
        )
    return input


def _check_joinable(input: Any, other: Any, dim: int) -> None:
    if other.ndim != input.ndim:
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    for d, (have, given) in enumerate(zip(input.shape, other.shape, strict=True)):
        if d != dim and have != given:
            raise RuntimeError(
                "diff expects the shape of tensor to prepend or append to match that of input "
                f"except along the differencing dimension; input.size({d}) = {have}, but got "
                f"tensor.size({d}) = {given}"
            )


# -- integrals -------------------------------------------------------------------------------


def _check_integrand(name: str, y: Any, x: Any, dx: Any) -> None:
    if x is not None and dx is not None:
        raise invalid_combination(name, y, x, dx)
    if x is None:
        words = f"{name}: received a bool input for `y`, but bool is not supported"
        refuses("b", words, RuntimeError)(raw(y))
        if isinstance(dx, (bool, complex)):
            raise RuntimeError(f"{name}: Currently, we only support dx as a real number.")
        return
    for values in (y, x):
        words = f"{name}: received a bool input for `x` or `y`, but bool is not supported"
        refuses("b", words, RuntimeError)(raw(values))


def _steps(name: str, y: Any, x: Any, dim: int) -> Any:
    """The distances between sample points, in a shape that goes with ``y``."""
    if x.ndim == 1:
        if x.shape[0] != y.shape[dim]:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        x = linear.view(x, size=tuple(x.shape[0] if d == dim else 1 for d in range(y.ndim)))
    elif x.ndim < y.ndim:
        x = linear.view(x, size=(*(1,) * (y.ndim - x.ndim), *x.shape))
    return _part(x, dim, 1, None) - _part(x, dim, None, -1)


@public("torch torch.trapz")
def trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """The integral along a dimension, by the trapezoidal rule.

    Args:
        y: values of the function.
        x: sample points; cannot be given together with ``dx``.
        dx: distance between sample points; 1 by default.
        dim: dimension to integrate along.

    Returns:
        A tensor without the dimension ``dim``.

    Example:
        >>> torch.trapezoid(torch.tensor([1., 2., 3.]))
        tensor(4.)
    """
    check_tensor("trapezoid", "y", 1, y)
    if x is None and not y.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    plain = one_dim(dim, y.ndim)
    if y.shape[plain] == 0:
        shape = [s for d, s in enumerate(y.shape) if d != plain]
        return y.detach().new_zeros(shape)
    _check_integrand("trapezoid", y, x, dx)
    if x is None:
        ends = slicing.select(y, plain, 0) + slicing.select(y, plain, -1)
        inner = reductions.sum(y, plain) - times(ends, number=0.5)
        return times(inner, number=float(1 if dx is None else dx))
    steps = _steps("trapezoid", y, x, plain)
    heights = _part(y, plain, None, -1) + _part(y, plain, 1, None)
    return over(reductions.sum(heights * steps, plain), number=2.0)


@public("torch")
@like(trapezoid)
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """The cumulative integral along a dimension, by the trapezoidal rule.

    Returns:
        A tensor whose size along ``dim`` is one less than that of ``y``.

    Example:
        >>> torch.cumulative_trapezoid(torch.tensor([1., 2., 3.]))
        tensor([1.5000, 4.0000])
    """
    name = "cumulative_trapezoid"
    check_tensor(name, "y", 1, y)
    plain = one_dim(dim, y.ndim)
    _check_integrand(name, y, x, dx)
    if not y.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    if x is None:
        heights = _part(y, plain, None, -1) + _part(y, plain, 1, None)
        return reductions.cumsum(times(heights, number=(1 if dx is None else dx) / 2), plain)
    steps = _steps(name, y, x, plain)
    heights = _part(y, plain, None, -1) + _part(y, plain, 1, None)
    return over(reductions.cumsum(heights * steps, plain), number=2.0)


# -- numerical gradients ---------------------------------------------------------------------


@public("torch")
def gradient(input: Any, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> Any:
    """The numerical gradient of a sampled function, by central differences.

    Args:
        input: values of the function at the sample points.
        spacing: distance between points, or, for each dimension, a distance or a vector of
            coordinates.
        dim: dimension or dimensions to differentiate along; all by default.
        edge_order: order of accuracy at the boundary, 1 or 2.

    Returns:
        A tuple of tensors of the shape of ``input``, one for each dimension.

    Example:
        >>> torch.gradient(torch.tensor([1., 4., 9., 16.]))
        (tensor([3., 4., 6., 7.]),)
    """
    check_tensor("gradient", "input", 1, input)
    if isinstance(spacing, TensorLike):
        raise invalid_combination("gradient", input, spacing)
    spacing = 1 if spacing is None else spacing
    dims = tuple(range(input.ndim))
    if dim is not None:
        dims = () if not is_integer(dim) and not len(dim) else many_dims(dim, input.ndim)
        if not dims and dim != () and dim != []:
            first = dim if is_integer(dim) else dim[0]
            raise IndexError(f"Dimension specified as {first} but tensor has no dimensions")
    _check_gradient(input, spacing, dim, dims, edge_order)
    spacings = spacing if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    return tuple(
        (_from_points if isinstance(s, TensorLike) else _from_distance)(input, s, d, edge_order)
        for s, d in zip(spacings, dims, strict=True)
    )


def _check_gradient(
    input: Any, spacing: Any, dim: Any, dims: Sequence[int], edge_order: int
) -> None:
    if raw(input).dtype.name == "uint8":
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if isinstance(spacing, (list, tuple)):
        expected = "torch.gradient expected spacing to be unspecified, a scalar"
        if dim is None and len(spacing) != input.ndim:
            raise RuntimeError(
                f"{expected}, or a list of length equal to 'self.dim() = {input.ndim}', since dim "
                f"argument was not given, but got a list of length {len(spacing)}"
            )
        if len(spacing) != len(dims):
            raise RuntimeError(
                f"{expected} or it's spacing and dim arguments to have the same length, but got a "
                f"spacing argument of length {len(spacing)} and a dim argument of length "
                f"{len(dims)}."
            )
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    for d in dims:
        if input.shape[d] < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1"
            )
    for points in spacing if isinstance(spacing, (list, tuple)) else ():
        if isinstance(points, TensorLike) and raw(points).ndim != 1:
            raise RuntimeError(
                "torch.gradient expected each element of spacing to have one dimension, but got an "
                f"element with {raw(points).ndim} dimensions!"
            )
        if isinstance(points, TensorLike) and raw(points).size <= edge_order:
            raise IndexError(
                f"torch.gradient needs {edge_order + 1} coordinates, but got {raw(points).size}"
            )


def _from_distance(x: Any, distance: float, dim: int, edge_order: int) -> Any:
    def at(start: int | None, stop: int | None = None) -> Any:
        return _part(x, dim, start, stop)

    if edge_order == 1:
        first, last = at(1, 2) - at(0, 1), at(-1) - at(-2, -1)
    else:
        first = times(at(0, 1), number=-1.5) + times(at(1, 2), number=2)
        first = first - times(at(2, 3), number=0.5)
        last = times(at(-3, -2), number=0.5) - times(at(-2, -1), number=2)
        last = last + times(at(-1), number=1.5)
    centre = over(over(at(2) - at(None, -2), number=distance), number=2)
    ends = over(first, number=distance), over(last, number=distance)
    return slicing.cat([ends[0], centre, ends[1]], dim)


def _from_points(x: Any, points: Any, dim: int, edge_order: int) -> Any:
    """Differences over uneven steps: exact for parabolas, except at the ends if these are of the
    first order."""

    def at(start: int | None, stop: int | None = None) -> Any:
        return _part(x, dim, start, stop)

    steps = _part(points, 0, 1, None) - _part(points, 0, None, -1)
    steps = linear.reshape(steps, tuple(-1 if d == dim else 1 for d in range(x.ndim)))
    before, after = _part(steps, dim, None, -1), _part(steps, dim, 1, None)
    both = before + after
    centre = (
        -after / (before * both) * at(None, -2)
        + (after - before) / (before * after) * at(1, -1)
        + before / (after * both) * at(2)
    )
    if edge_order == 1:
        first = (at(1, 2) - at(0, 1)) / _part(steps, dim, 0, 1)
        last = (at(-1) - at(-2, -1)) / _part(steps, dim, -1, None)
        return slicing.cat([first, centre, last], dim)
    near, far = _part(steps, dim, 0, 1), _part(steps, dim, 1, 2)
    first = (
        -(2 * near + far) / (near * (near + far)) * at(0, 1)
        + (near + far) / (near * far) * at(1, 2)
        + -near / (far * (near + far)) * at(2, 3)
    )
    far, near = _part(steps, dim, -2, -1), _part(steps, dim, -1, None)
    last = (
        near / (far * (far + near)) * at(-3, -2)
        + -(near + far) / (far * near) * at(-2, -1)
        + (2 * near + far) / (near * (far + near)) * at(-1)
    )
    return slicing.cat([first, centre, last], dim)
