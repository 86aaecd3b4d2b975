"""Collapsed series of order 2 as three arrays each, for Laplacians.

In general a coefficient is a value of the levels below: the first one is a batch of directions in
a batch of points, and each operation goes through both. Here a series is its value, its first
coefficient for every direction, and the sum of the second ones, with the points as one dimension in
front. What most networks are made of takes one operation on each of them. Everything else is left
to the general path, which asks for the coefficients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd._modes import call_below, modes
from retrograd.autograd._duals import taking
from retrograd.autograd._levels import value_of
from retrograd.autograd._series import Series, SeriesLevel, slopes
from retrograd.autograd._wrap import Plug
from retrograd.ops import elementwise, linear
from retrograd.ops._batching import (
    Batched,
    BatchLevel,
    definition_on,
    entry_by_entry,
    is_pointwise,
    rule_of,
)
from retrograd.ops._lifted import Lifted, bare_dtype_of, by_kernel, on_arrays
from retrograd.ops._operands import NUMBERS as REAL_NUMBERS
from retrograd.ops._operation import TABLE, Linear, Operation, TensorLike, any_arrays

# The value, the first coefficient, and the second one, which is None for zero. The points come
# first: one, if all are alike. The first coefficient has the directions after them.
Parts = tuple[Any, Any, Any]

NUMBERS = REAL_NUMBERS | {complex}


class Collapsed(Series):
    """A series that is made of ``Parts``. Its coefficients are made when they are asked for."""

    __slots__ = ("_known", "bare_dtype", "flat")

    bare_dtype: Any

    def __init__(self, level: CollapsedLevel, flat: Parts) -> None:
        self.level: Any = level
        self.flat: Parts | None = flat
        self._known: list[Any] | None = None
        self.bare_dtype = bare_dtype_of(flat[0])
        self.order = 2
        self.compute = self.view_of = self.seen = self.part = None

    @property
    def known(self) -> list[Any]:
        if self._known is None:
            assert self.flat is not None
            at_points = self.level.at_points
            value, first, second = [None if x is None else at_points(x) for x in self.flat]
            self._known = [value, Batched(self.level.directions, first), second]
        return self._known

    @known.setter
    def known(self, coefficients: list[Any]) -> None:
        """The series has been written: what it was made of is no longer true."""
        self._known, self.flat, self.bare_dtype = coefficients, None, None

    @property
    def shape(self) -> tuple[int, ...]:
        return super().shape if self.flat is None else tuple(self.flat[0].shape[1:])

    @property
    def moves(self) -> bool:
        return self.flat is not None or super().moves

    def coefficient(self, k: int) -> Any:
        if k == 2 and self.flat is not None and self._known is None:
            second = self.flat[2]
            return None if second is None else self.level.at_points(second)
        return super().coefficient(k)

    def become_view(self, of: Series, take: Callable[[Any], Any]) -> None:
        self.view_of = (of, take)
        self.seen = None if isinstance(of, Collapsed) and of.flat is not None else of.known

    def refresh(self) -> None:
        """As that of any series. Nothing has been written where all have their parts."""
        if not all([isinstance(x, Collapsed) and x.flat is not None for x in self.path]):
            super().refresh()


class CollapsedLevel(SeriesLevel):
    """Taylor mode of order 2, summed over directions, at the points of one ``vmap`` or at one."""

    __slots__ = ("points",)

    def __init__(self, directions: BatchLevel, weights: Any, points: BatchLevel | None) -> None:
        super().__init__(2, directions, weights)
        self.points = points

    # -- parts and coefficients ------------------------------------------------------------------

    def at_points(self, x: Any) -> Any:
        """A part as a value of the levels below."""
        if self.points is None or x.shape[0] != self.points.size:
            return linear.reshape(x, tuple(x.shape[1:]))
        return Batched(self.points, x)

    def over_points(self, x: Any) -> Any:
        """A value of the levels below as a part, or None if it cannot be one."""
        if isinstance(x, TensorLike) and (isinstance(x._data, Lifted) or x._is_plain):
            if not x._is_plain:
                return None
            x = x._data
        if isinstance(x, Batched) and x.level is self.points and not x.same:
            value = x.value
            return value._data if isinstance(value, TensorLike) and value._is_plain else value
        if isinstance(x, Lifted) and not x.level.traces:
            return None
        return linear.reshape(x, (1, *x.shape))

    def parts_of(self, x: Series) -> Parts | None:
        """What a series that moves is made of."""
        if x.view_of is not None:
            x.refresh()
        if isinstance(x, Collapsed) and x.flat is not None:
            return x.flat
        if x.order != 2 or x.compute is not None:
            return None
        first, second = x.coefficient(1), x.coefficient(2)
        first = first._data if isinstance(first, TensorLike) else first
        if not isinstance(first, Batched) or first.level is not self.directions or first.same:
            return None
        value, first = self.over_points(x.known[0]), self.over_points(first.value)
        if second is not None:
            second = self.over_points(second)
            if second is None:
                return None
        return None if value is None or first is None else (value, first, second)

    # -- operations ------------------------------------------------------------------------------

    def run(self, operation: Operation, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if not self.depth and operation.definition is None:
            result = self.by_parts(operation, args, options)
            if result is not None:
                return result
        return super().run(operation, args, options)

    def run_elementwise(self, operation: Operation, args: Any, options: dict[str, Any]) -> Lifted:
        result: Lifted = self.run(operation, tuple(args), options)
        return result

    def by_parts(self, op: Operation, args: Any, options: dict[str, Any]) -> Collapsed | None:
        """An operation on series by operations on their parts. None if it is not that simple."""
        several = op.inputs == ("tensors",) or op.output_names != ("result",)
        if several or op.random or not op.differentiable or (options and any_arrays(options)):
            return None
        moving: list[Parts | None] = []
        given: list[Any] = []
        bare = True
        for x in args:
            parts = None
            if isinstance(x, Series) and x.level is self:
                if x.moves:
                    parts = self.parts_of(x)
                    if parts is None:
                        return None
                    bare = bare and x.bare_dtype is not None
                else:
                    x = x.known[0]
            if parts is None and type(x) not in NUMBERS:
                if isinstance(x, Plug.tensor) and not (x.requires_grad or modes.inference):
                    x = value_of(x)  # a view, too: nobody writes to it meanwhile
                bare = bare and arrays.is_raw(x)
            moving.append(parts)
            given.append(x if parts is None else None)
        step = Step(self, op, given, moving, options)
        if bare:
            coefficients = step.run()
        else:
            outside = self.directions if self.points is None else self.points
            assert outside is not None
            coefficients = call_below(outside.number, step.run)
        if coefficients is None:
            return None
        result = Collapsed(self, coefficients)
        if op.view:
            result.become_view(args[0], taking(op, options, 0))
        return result

    def sum_of_products(self, a: Any, b: Any) -> Any:
        """The products of first coefficients, summed over the directions."""
        if self.weights is not None:
            weights = self.weights
            if isinstance(weights, TensorLike) and weights._is_plain:
                weights = weights._data
            a = a * linear.reshape(weights, (-1, *[1] * (len(a.shape) - 2)))
        if on_arrays(a, b):
            return by_kernel(arrays.sum_of_products, a, b)
        return linear.sum_dim(a * b, dim=(1,), keepdim=False)


def level_for(x: Any, order: int, directions: BatchLevel, weights: Any) -> SeriesLevel:
    """The level for a series of a Tensor, summed over directions: by parts, if they are arrays of
    ordinary floats, at the points of one ``vmap`` at most."""
    data = x._data
    points: Any = None
    if isinstance(data, Batched) and not data.same:
        points, data = data.level, _data(data.value)
    plain = weights is None or not isinstance(weights._data, Lifted) or weights._data.level.traces
    if isinstance(data, Lifted) and not data.level.traces:
        plain = False
    if order != 2 or not plain or data.dtype not in (arrays.float32, arrays.float64):
        return SeriesLevel(order, directions, weights)
    return CollapsedLevel(directions, weights, points)


class Step:
    """One operation on parts. Its methods give None for what is left to the general path."""

    def __init__(
        self, level: CollapsedLevel, op: Operation, given: list[Any],
        moving: list[Parts | None], options: dict[str, Any],
    ) -> None:  # fmt: skip
        self.level, self.op, self.given, self.moving = level, op, given, moving
        self.options = options

    def run(self) -> Parts | None:
        op, moving = self.op, self.moving
        count = len(moving) - moving.count(None)
        if count == 1:
            position = next(i for i, m in enumerate(moving) if m is not None)
            if is_pointwise(op):
                return self.of_elements(position)
            if op.family in ("linear", "multilinear"):
                return self.by_rule(position)
        elif count == 2 and len(moving) == 2 and op in (ADD, SUB, MUL):
            return self.of_two(*moving)  # type: ignore[arg-type]
        return None

    def by_rule(self, position: int) -> Parts | None:
        """What is linear in the one that moves, by the rule that batches the operation: for the
        points, and for points and directions as one batch."""
        op, rule = self.op, rule_of(self.op)
        if rule is entry_by_entry or rule is definition_on or op.jvp is not None:
            return None
        if isinstance(op, Linear) and (op.offset is not None or len(op.inputs) > 1):
            return None  # affine, if the others are terms of a sum
        if any([isinstance(x, Lifted) and not x.level.traces for x in map(_data, self.given)]):
            return None
        value, first, second = self.moving[position]  # type: ignore[misc]

        def run(x: Any) -> Any:
            level = BatchLevel(x.shape[0])
            args = list(self.given)
            args[position] = Batched(level, x)
            return rule(level, op, args, self.options)

        count = tuple(first.shape[:2])
        value = run(value)
        first = run(linear.reshape(first, (count[0] * count[1], *first.shape[2:])))
        first = linear.reshape(first, (*count, *first.shape[1:]))
        return value, first, None if second is None else run(second)

    def of_elements(self, position: int) -> Parts | None:
        """A function of one number at each element."""
        op, level = self.op, self.level
        x, first, second = self.moving[position]  # type: ignore[misc]
        others = [level.over_points(c) if _has_shape(c) else c for c in self.given]
        if any([c is None and _has_shape(g) for c, g in zip(others, self.given, strict=True)]):
            return None
        others[position] = x
        rank = max([len(c.shape) for c in others if _has_shape(c)])
        values = [_with_rank(c, rank, 1) for c in others]
        x, first = values[position], _with_rank(first, rank + 1, 2)
        second = None if second is None else _with_rank(second, rank, 1)
        value = op(*values, **self.options)
        if value.shape[1:] != x.shape[1:] or _data(value).dtype is not _data(x).dtype:
            return None
        if op in (ADD, SUB):
            if op is ADD or position == 0:
                return value, first, second
            return value, -first, None if second is None else -second
        if op is MUL or (op is DIV and position == 0):
            factor = values[1 - position]
            beside = _beside(factor) if _has_shape(factor) else factor
            second = None if second is None else op(second, factor)
            return value, op(first, beside), second
        if op.family != "elementwise" or op.adjoint:
            return None
        known = SLOPES.get(op.name)
        if known is not None:
            slope, bend = known(x, value)
        else:
            slope, bend = slopes(op, values, position, self.options)
        return value, *self.bent(slope, bend, first, second)

    def bent(self, slope: Any, bend: Any, first: Any, second: Any) -> tuple[Any, Any]:
        """Both coefficients: ``slope * x_1``, and ``slope * x_2 + bend * sum(x_1**2)``."""
        slope = 0 if slope is None else slope
        straight = first * (_beside(slope) if _has_shape(slope) else slope)
        second = None if second is None else second * slope
        if bend is not None:
            curved = self.level.sum_of_products(first, first) * bend
            second = curved if second is None else second + curved
        return straight, second

    def of_two(self, a: Parts, b: Parts) -> Parts | None:
        """A sum, a difference or a product of two that move."""
        op, level = self.op, self.level
        if len(a[0].shape) != len(b[0].shape) or self.options:
            return None
        value = op(a[0], b[0])
        if op is MUL:
            first = a[1] * _beside(b[0]) + _beside(a[0]) * b[1]
            terms = [level.sum_of_products(a[1], b[1])]
            terms += [] if a[2] is None else [a[2] * b[0]]
            terms += [] if b[2] is None else [a[0] * b[2]]
            second = terms[0]
            for term in terms[1:]:
                second = second + term
            return value, first, second
        if a[0].shape[1:] != b[0].shape[1:]:
            return None
        first = op(a[1], b[1])
        if b[2] is None:
            return value, first, a[2]
        if a[2] is None:
            return value, first, b[2] if op is ADD else -b[2]
        return value, first, op(a[2], b[2])


def _has_shape(x: Any) -> bool:
    return type(x) not in NUMBERS


def _data(x: Any) -> Any:
    return x._data if isinstance(x, TensorLike) else x


def _with_rank(x: Any, rank: int, front: int) -> Any:
    """A value of ``rank`` dimensions: missing ones are inserted after so many in front."""
    if not _has_shape(x) or len(x.shape) == rank:
        return x
    shape = tuple(x.shape)
    return linear.reshape(x, (*shape[:front], *[1] * (rank - len(shape)), *shape[front:]))


def _beside(x: Any) -> Any:
    """A value that is the same for every direction."""
    return linear.reshape(x, (x.shape[0], 1, *x.shape[1:]))


ADD, SUB, MUL, DIV = elementwise.add, elementwise.sub, elementwise.mul, elementwise.div

Slopes = Callable[[Any, Any], tuple[Any, Any]]


def _tanh(x: Any, y: Any) -> tuple[Any, Any]:
    slope = 1 - y * y
    return slope, slope * -y


def _sigmoid(x: Any, y: Any) -> tuple[Any, Any]:
    slope = y * (1 - y)
    return slope, slope * (0.5 - y)


# The slope and half of the curvature of what networks are often made of, from ``x`` and the result:
# in general they follow from the series of the operation, in several times as many steps.
SLOPES: dict[str, Slopes] = {
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "exp": lambda x, y: (y, y * 0.5),
    "sin": lambda x, y: (TABLE["cos"](x), y * -0.5),
    "cos": lambda x, y: (-TABLE["sin"](x), y * -0.5),
    "neg": lambda x, y: (-1, None),
}
