"""High-order derivatives by Taylor series: ``jet``, and functions built on it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import retrograd.autograd._custom_series
import retrograd.autograd._recurrences  # noqa: F401 - both add to what the level knows
from retrograd.autograd._collapsed import level_for
from retrograd.autograd._levels import as_tensor, is_of, opened, value_of
from retrograd.autograd._series import Series, SeriesLevel
from retrograd.autograd._wrap import wrap
from retrograd.func._arguments import check_outputs, gives_arrays, takes_arrays
from retrograd.func._captured import Running
from retrograd.func._trees import Shape, describe, flatten, flatten_as, unflatten
from retrograd.ops._batching import Batched, BatchLevel
from retrograd.ops.shapes import slicing
from retrograd.tensor._creation import eye, tensor
from retrograd.tensor._randoms import rand
from retrograd.tensor._tensor import Tensor


@gives_arrays
def jet(func: Callable[..., Any], primals: Any, series: Any) -> tuple[Any, list[Any]]:
    """Computes the derivatives of a function along a curve, up to a given order, in one evaluation.

    For the curve ``x(t) = x0 + x1 * t + x2 * t**2 / 2! + ...``, with ``x0`` in ``primals`` and
    ``x1, x2, ...`` in ``series``, these are the derivatives of ``func(x(t))`` by ``t`` at 0. The
    cost grows with the square of the order.

    Args:
        func: A function of Tensors, or trees of them, that returns Tensors, or a tree of them.
        primals: A tuple of arguments.
        series: A tuple with, for each argument, a list of the derivatives of the curve, each of
            the structure of the argument. Lists that are shorter than the longest end in zeros.

    Returns:
        The value of ``func``, and a list of its derivatives, from the first on.

    Example:
        >>> from retrograd.func import jet
        >>> x = torch.tensor(2.0)
        >>> line = [torch.tensor(1.0), torch.tensor(0.0)]
        >>> value, (first, second) = jet(lambda x: x**3, (x,), (line,))
        >>> value, first, second
        (tensor(8.), tensor(12.), tensor(12.))
    """
    what = "jet(f, primals, series)"
    if not isinstance(primals, tuple) or not isinstance(series, (tuple, list)):
        raise TypeError(f"{what}: primals and series must be tuples, with one entry per argument.")
    if len(primals) != len(series):
        raise ValueError(
            f"{what}: got {len(primals)} primals but {len(series)} series. Give one list of "
            "derivatives for each argument."
        )
    order = max((len(terms) for terms in series), default=0)
    if not order:
        raise ValueError(f"{what}: no series has a term, so there is nothing to differentiate by.")
    curves: list[list[Any]] = []
    for number, (x, terms) in enumerate(zip(primals, series, strict=True)):
        leaves, shape = flatten(x)
        columns = [_leaves_like(what, number, shape, term) for term in terms]
        for i, leaf in enumerate(leaves):
            derivatives = [column[i] for column in columns]
            _check_curve(what, number, leaf, derivatives)
            coefficients = [
                None if d is None else d / math.factorial(k)
                for k, d in enumerate(derivatives, start=1)
            ]
            curves.append([leaf, *coefficients])
    expansion = Expansion(func, curves, flatten(primals)[1], order, what)
    derivatives = [
        unflatten([y * math.factorial(k) for y in expansion.coefficients(k)], expansion.shape)
        for k in range(1, order + 1)
    ]
    return unflatten(expansion.coefficients(0), expansion.shape), derivatives


@gives_arrays
def taylor(func: Callable[..., Any], x: Any, v: Any, order: int) -> tuple[Any, ...]:
    """Computes the Taylor coefficients of ``func(x + t * v)`` in ``t``, at 0.

    Args:
        func: A function of one argument, a Tensor or a tree of them.
        x: Where to expand.
        v: The direction, of the structure and shapes of ``x``.
        order: The highest order.

    Returns:
        A tuple of ``order + 1`` coefficients: the first is ``func(x)``, and coefficient ``k`` is
        the ``k``-th derivative over ``k!``.

    Example:
        >>> from retrograd.func import taylor
        >>> taylor(torch.exp, torch.tensor(0.0), torch.tensor(1.0), 3)
        (tensor(1.), tensor(1.), tensor(0.5000), tensor(0.1667))
    """
    what = "taylor(f, x, v, order)"
    _check_order(what, order)
    values, shape = flatten(x)
    directions = _leaves_like(what, 0, shape, v)
    for leaf, direction in zip(values, directions, strict=True):
        _check_curve(what, 0, leaf, [direction])
    curves = [[leaf, t] for leaf, t in zip(values, directions, strict=True)]
    expansion = Expansion(func, curves, Shape(tuple, (), (shape,), None), order, what)
    return tuple(unflatten(expansion.coefficients(k), expansion.shape) for k in range(order + 1))


@gives_arrays
def derivatives(func: Callable[[Any], Any], x: Tensor, order: int) -> tuple[Any, ...]:
    """Computes the derivatives of a function of one variable, from order 0 to ``order``.

    Args:
        func: A function of a Tensor that works on each element for itself.
        x: Where to evaluate, any shape.
        order: The highest order.

    Returns:
        A tuple of ``order + 1`` Tensors: ``func(x)``, ``func'(x)``, and so on.

    Example:
        >>> from retrograd.func import derivatives
        >>> derivatives(torch.sin, torch.tensor([0.0]), 3)
        (tensor([0.]), tensor([1.]), tensor([-0.]), tensor([-1.]))
    """
    terms = taylor(func, x, x.new_ones(x.shape) if isinstance(x, Tensor) else x, order)
    return tuple(
        unflatten([y * math.factorial(k) for y in leaves], shape)
        for k, (leaves, shape) in enumerate(map(flatten, terms))
    )


def weighted_directional(
    func: Callable[[Tensor], Any], directions: Tensor, order: int, weights: Tensor | None = None
) -> Callable[[Tensor], Any]:
    """Transforms a function into one that sums directional derivatives of one order.

    The sum over directions is taken inside the series: the highest coefficient is one Tensor, not
    one for each direction. That is faster, and takes less memory, than summing afterwards.

    Args:
        func: A function of one Tensor.
        directions: The directions, stacked along the first dimension: ``(R, *x.shape)``.
        order: The order of the derivatives.
        weights: The factor of each direction, ``(R,)``. Without it all are 1.

    Returns:
        A function of ``x`` that returns ``sum_r weights[r] * d^order/dt^order func(x + t * v_r)``.

    Example:
        >>> from retrograd.func import weighted_directional
        >>> cubes = weighted_directional(lambda x: (x**3).sum(), torch.eye(2), order=3)
        >>> cubes(torch.tensor([1.0, 5.0]))
        tensor(12.)
    """
    what = "weighted_directional(f, directions, order)"
    _check_order(what, order, lowest=1)

    def summed(x: Tensor) -> Any:
        if tuple(directions.shape[1:]) != tuple(x.shape):
            raise ValueError(
                f"{what}: directions of shape {list(directions.shape)} do not fit an argument of "
                f"shape {list(x.shape)}: expected [R, {', '.join(map(str, x.shape))}]."
            )
        if weights is not None and tuple(weights.shape) != (len(directions),):
            raise ValueError(
                f"{what}: expected one weight for each of {len(directions)} directions, got "
                f"weights of shape {list(weights.shape)}."
            )
        return _collapsed(func, x, directions, order, weights, what)

    return takes_arrays(summed, 0, False)


def laplacian(func: Callable[[Tensor], Any], samples: int | None = None) -> Callable[[Tensor], Any]:
    """Transforms a function into one that computes its Laplacian, the trace of its Hessian.

    Args:
        func: A function of one Tensor. If it returns more than one number, the result is the
            Laplacian of each.
        samples: The number of random directions to estimate it from, for functions of very many
            variables. The estimate is unbiased, and exact if the Hessian is diagonal.

    Returns:
        A function of a Tensor that returns the Laplacian there.

    Example:
        >>> from retrograd.func import laplacian
        >>> laplacian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
        tensor(18.)
    """
    if samples is not None and samples < 1:
        raise ValueError(f"laplacian(f, samples): expected at least one sample, got {samples}.")

    def summed(x: Tensor) -> Any:
        if samples is None:
            return _collapsed(func, x, _basis(x), 2, None, "laplacian(f)")
        signs = (rand((samples, *x.shape), dtype=x.dtype) < 0.5).to(x.dtype) * 2 - 1
        total = _collapsed(func, x, signs, 2, None, "laplacian(f, samples)")
        leaves, shape = flatten(total)
        return unflatten([y / samples for y in leaves], shape)

    return takes_arrays(summed, 0, False)


def bilaplacian(func: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    """Transforms a function into one that computes the Laplacian of its Laplacian.

    Mixed derivatives come from directions between the axes, by
    ``12 * d^4 f/(dx^2 dy^2) = D[x+y] + D[x-y] - 2 D[x] - 2 D[y]``, where ``D[v]`` is the fourth
    derivative along ``v``. The number of directions is the square of the number of variables.

    Args:
        func: A function of one Tensor.

    Returns:
        A function of a Tensor that returns the bi-Laplacian there.

    Example:
        >>> from retrograd.func import bilaplacian
        >>> bilaplacian(lambda x: (x[0] * x[1]) ** 2)(torch.tensor([1.0, 2.0]))
        tensor(8.)
    """

    def summed(x: Tensor) -> Any:
        n = x.numel()
        axes = _basis(x).reshape(n, n)
        vectors, weights = [axes], [axes.new_full((n,), 1 - (n - 1) / 3)]
        pairs = list(itertools.combinations(range(n), 2))
        if pairs:
            first, second = (axes[list(side)] for side in zip(*pairs, strict=True))
            vectors += [first + second, first - second]
            weights += [axes.new_full((2 * len(pairs),), 1 / 6)]
        stacked = vectors[0].new_zeros((0, n)) if not n else slicing.cat(vectors)
        directions = stacked.reshape(len(stacked), *x.shape)
        return _collapsed(func, x, directions, 4, slicing.cat(weights), "bilaplacian(f)")

    return takes_arrays(summed, 0, False)


@gives_arrays
def mixed_partial(func: Callable[[Tensor], Any], x: Tensor, orders: Sequence[int]) -> Any:
    """Computes a mixed partial derivative of any order.

    It is a weighted sum of derivatives along the directions ``sum_m i_m e_m`` with
    ``0 <= i_m <= orders[m]``, by the binomial formula of finite differences, which is exact for
    the homogeneous polynomial that these derivatives are.

    Args:
        func: A function of one Tensor.
        x: Where to evaluate: a vector.
        orders: How often to differentiate by each element of ``x``.

    Returns:
        What ``func`` returns, differentiated.

    Example:
        >>> from retrograd.func import mixed_partial
        >>> mixed_partial(lambda x: x[0] ** 2 * x[1] ** 3, torch.tensor([1.0, 2.0]), (1, 2))
        tensor(24.)
    """
    what = "mixed_partial(f, x, orders)"
    if x.ndim != 1 or len(orders) != len(x) or any(k < 0 for k in orders):
        raise ValueError(
            f"{what}: expected a vector, and a natural number for each of its elements, got x of "
            f"shape {list(x.shape)} and orders={tuple(orders)}."
        )
    degree = sum(orders)
    if not degree:
        return func(x)
    steps = [i for i in itertools.product(*[range(k + 1) for k in orders]) if any(i)]
    weights = [
        (-1.0) ** (degree - sum(i)) * math.prod(map(math.comb, orders, i)) / math.factorial(degree)
        for i in steps
    ]
    directions, weighted = (tensor(y, dtype=x.dtype, device=x.device) for y in (steps, weights))
    return _collapsed(func, x, directions, degree, weighted, what)


# -- evaluation ------------------------------------------------------------------------------


class Expansion:
    """The results of a function of curves, as series."""

    def __init__(
        self, func: Callable[..., Any], curves: Sequence[list[Any]], arguments: Shape, order: int,
        what: str, level: SeriesLevel | None = None,
    ) -> None:  # fmt: skip
        """``curves``: the Taylor coefficients of every leaf of the arguments."""
        self.level = level or SeriesLevel(order)
        with opened(self.level) as level:
            leaves = [
                c[0] if all(x is None for x in c[1:]) else wrap(Series(level, list(c), order))
                for c in curves
            ]
            given = unflatten(leaves, arguments)
            with Running(func, given):
                output = func(*given)
            outputs, self.shape = flatten(output)
            check_outputs(outputs, what)
            self.series = [value_of(y) if is_of(level, y) else Series(level, [y]) for y in outputs]

    def coefficients(self, k: int) -> list[Any]:
        """Coefficient ``k`` of every result, with zeros where there is none."""
        results = []
        for y in self.series:
            c = y.coefficient(k)
            results.append(_zeros_like(y.known[0]) if c is None else as_tensor(c))
        return results


def _collapsed(
    func: Callable[[Tensor], Any], x: Tensor, directions: Tensor, order: int,
    weights: Tensor | None, what: str,
) -> Any:  # fmt: skip
    """The weighted sum of derivatives of ``func`` along directions."""
    _check_curve(what, 0, x, [])
    if not len(directions):
        leaves, shape = flatten(func(x))
        return unflatten([_zeros_like(y) for y in leaves], shape)
    arguments = Shape(tuple, (), (flatten(x)[1],), None)
    with opened(BatchLevel(len(directions))) as batch:
        first = wrap(Batched(batch, directions.to(x.dtype)))
        level = level_for(x, order, batch, weights)
        curve = [x, first if order > 1 else as_tensor(level.collapsed(first))]
        expansion = Expansion(func, [curve], arguments, order, what, level)
        coefficients = expansion.coefficients(order)
        if any(is_of(batch, y) for y in coefficients):
            # An operation without a rule that sums early. Sum at the end.
            plain = SeriesLevel(order)
            expansion = Expansion(func, [[x, first]], arguments, order, what, plain)
            coefficients = [level.collapsed(y) for y in expansion.coefficients(order)]
    return unflatten([y * math.factorial(order) for y in coefficients], expansion.shape)


def _basis(x: Tensor) -> Tensor:
    """The unit vectors of the space that ``x`` lies in, stacked."""
    n = x.numel()
    unit: Tensor = eye(n, dtype=x.dtype, device=x.device).reshape(n, *x.shape)
    return unit


def _zeros_like(y: Any) -> Tensor:
    y = as_tensor(y)
    result: Tensor = y.new_zeros(y.shape)
    return result


def _leaves_like(what: str, number: int, shape: Shape, term: Any) -> list[Any]:
    try:
        return flatten_as(shape, term)
    except ValueError:
        raise ValueError(
            f"{what}: a direction of argument {number} has the structure "
            f"{describe(flatten(term)[1])}, but the argument has {describe(shape)}."
        ) from None


def _check_curve(what: str, number: int, x: Any, terms: Sequence[Any]) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{what}: expected Tensors in argument {number}, got {type(x)}.")
    if not (x.is_floating_point() or x.is_complex()):
        raise TypeError(
            f"{what}: argument {number} has the dtype {x.dtype}, which has no derivatives. Convert "
            "it by .double() or .float()."
        )
    for term in terms:
        if term is None:
            continue
        if not isinstance(term, Tensor) or term.shape != x.shape:
            got = list(term.shape) if isinstance(term, Tensor) else type(term)
            raise ValueError(
                f"{what}: a direction of argument {number} must be a Tensor of shape "
                f"{list(x.shape)}, got {got}."
            )
        if term.dtype != x.dtype:
            raise TypeError(
                f"{what}: argument {number} has the dtype {x.dtype}, its direction {term.dtype}. "
                "Convert one of them."
            )


def _check_order(what: str, order: Any, lowest: int = 0) -> None:
    if not isinstance(order, int) or isinstance(order, bool) or order < lowest:
        raise ValueError(f"{what}: expected an order of at least {lowest}, got {order!r}.")
