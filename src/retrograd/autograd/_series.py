"""Taylor series: every value is a polynomial in one variable ``t``, truncated at some order.

An operation is one rule for every order, and the rule follows from its family:

- linear: the operation on each coefficient;
- multilinear: the product of polynomials;
- everything that has a tangent: ``y' = push_forward(x, x')`` as an equation between series. Order
  ``k`` of ``y`` is order ``k - 1`` of the right side over ``k``, and that needs ``y`` up to order
  ``k - 1`` only. So the rules of forward mode are evaluated once, on series whose coefficients are
  computed when they are asked for, and order ``K`` costs of the order of ``K**2`` products.

The coefficients are values of the levels below, so series nest with all other transforms.

*Collapsed* series sum over many directions. Coefficients are batched over the directions, except
for the lowest, which does not depend on them, and for the highest. That one enters every operation
linearly, so its sum over the directions can be carried along in place of the summands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd._modes import modes, within
from retrograd.arrays import dtypes
from retrograd.autograd._duals import become_lifted_view, inner_view, take_in, taking, writable
from retrograd.autograd._forward import call, push_forward
from retrograd.autograd._levels import as_tensor
from retrograd.ops import linear
from retrograd.ops._batching import Batched, BatchLevel
from retrograd.ops._lifted import Level, Lifted, bare_option, device_value
from retrograd.ops._operands import is_bare, unrecorded
from retrograd.ops._operation import Operation, raw
from retrograd.ops.algebra._matrix import total

UNLIMITED = 1 << 30  # the order of what does not depend on t


class Series(Lifted):
    """A polynomial in ``t``: coefficient 0 is the value, None is a coefficient of zero.

    ``compute`` gives the coefficient of an order from those below; without it, all orders that are
    not ``known`` are zero. ``order`` is the highest order that is followed.

    Coefficients are shared freely, so they are not written. A write makes new ones, for the value
    that the target is a view of, and views take theirs from there.
    """

    __slots__ = ("compute", "known", "order", "part", "seen", "view_of")

    def __init__(
        self, level: SeriesLevel, known: list[Any], order: int = UNLIMITED,
        compute: Callable[[int], Any] | None = None,
    ) -> None:  # fmt: skip
        self.level: SeriesLevel = level
        self.known = known
        self.order = order
        self.compute = compute
        # For a view: the value that it is a view of, and how; and the coefficients of that by
        # which its own were found.
        self.view_of: tuple[Series, Callable[[Any], Any]] | None = None
        self.seen: list[Any] | None = None
        # For a view that was there before its base was taken in: which part of the base it is.
        self.part: Any = None

    def coefficient(self, k: int) -> Any:
        """The factor of ``t**k``, or None for zero."""
        if self.view_of is not None:
            self.refresh()
        known = self.known
        while len(known) <= k:
            known.append(None if self.compute is None else self.compute(len(known)))
        return known[k]

    @property
    def derivative(self) -> Series:
        """The derivative by ``t``."""

        def coefficient(k: int) -> Any:
            return scaled(self.coefficient(k + 1), k + 1)

        first = coefficient(0)
        if first is None:
            first = raw(self.known[0]) * 0
            if self.order == 1 and self.level.directions is not None:
                first = self.level.collapsed(first)
        return Series(self.level, [first], self.order - 1, coefficient)

    @property
    def inner(self) -> Any:
        return self.known[0]

    @property
    def parts(self) -> tuple[Any, ...]:
        return tuple(self.known)

    @property
    def moves(self) -> bool:
        if self.view_of is not None:
            self.refresh()
        return self.compute is not None or any(c is not None for c in self.known[1:])

    def hold(self, as_tensor: Callable[[Any], Any]) -> None:
        self.known[0] = as_tensor(self.known[0])

    def become_view(self, of: Series, take: Callable[[Any], Any]) -> None:
        """Note what the value is a view of, and how to take that view of a coefficient."""
        self.view_of = (of, take)
        self.seen = of.known

    @property
    def path(self) -> list[Series]:
        """The value, its base, the base of its base, and so on."""
        results = [self]
        while results[-1].view_of is not None:
            results.append(results[-1].view_of[0])
        return results

    def refresh(self) -> None:
        """Take the coefficients of a view anew, where what it is a view of has been written."""
        for view in reversed(self.path[:-1]):
            assert view.view_of is not None
            base, take = view.view_of
            if view.seen is not base.known:
                view.seen = base.known
                view.order = base.order
                moved = [None if c is None else take(c) for c in base.known[1:]]
                view.known = [view.known[0], *moved]

    def replace(self, coefficients: Sequence[Any]) -> None:
        """Make new coefficients, from order 1 on, those of the value, and of the part that it is of
        what it is a view of."""
        path = self.path
        top = next((i for i, view in enumerate(path) if view.part is not None), len(path) - 1)
        source = path[top]
        written: list[Any] = [source.known[0]]
        for k, new in enumerate(coefficients, start=1):
            old = source.coefficient(k)
            if old is None and new is None:
                written.append(None)
                continue
            whole = piece = writable(source.known[0], old, old if new is None else new)
            for view in reversed(path[:top]):
                assert view.view_of is not None
                piece = view.view_of[1](piece)
            piece.copy_(piece * 0 if new is None else as_tensor(new))
            written.append(whole)
        source.order = self.level.order
        source.known = written
        if source.part is not None:
            self._replace_part(source)

    def _replace_part(self, source: Series) -> None:
        """Put a view that was there before its base was taken in back into the base."""
        assert source.view_of is not None
        base = source.view_of[0]
        written: list[Any] = []
        for k, new in enumerate(source.known[1:], start=1):
            old = base.coefficient(k)
            if old is None and new is None:
                written.append(None)
                continue
            whole = writable(base.known[0], old, old if new is None else new)
            rest = source.part.elsewhere(whole)
            written.append(rest if new is None else rest + source.part.back(new))
        base.replace(written)  # it may be a view in turn: of what it was before a reshape in place
        base.refresh()
        source.seen = base.known

    def item(self) -> Any:
        """The value, if it has one element, as a number."""
        return as_tensor(self.known[0]).item()

    def tolist(self) -> Any:
        """The value as nested lists of numbers."""
        return as_tensor(self.known[0]).tolist()

    def __array__(self, *given: Any, **named: Any) -> Any:
        return as_tensor(self.known[0]).detach().__array__(*given, **named)

    def detached(self) -> Lifted:
        """The value alone, which does not depend on ``t``."""
        return Series(self.level, [as_tensor(self.known[0]).detach()])

    def text(self, suffixes: str) -> str:
        value = repr(as_tensor(self.known[0]))
        if self.level.closed:
            return value
        terms = [as_tensor(c).detach() for c in self.known[1:] if c is not None]
        return f"{value[:-1]}, series={terms!r}{suffixes})"


class SeriesLevel(Level):
    """Taylor mode: every operation takes the coefficients up to ``order`` along."""

    __slots__ = ("cache", "created", "depth", "directions", "order", "weights")

    name = "jet"
    differentiates = True

    def __init__(
        self, order: int, directions: BatchLevel | None = None, weights: Any = None
    ) -> None:
        super().__init__()
        self.order = order
        self.directions = directions  # that the highest coefficient is summed over
        self.weights = weights  # of the directions in that sum, if they are not all 1
        # Results of operations on series within a rule. A rule may lead back to the operation that
        # it belongs to, as those of sine and cosine do, which closes the recurrence.
        self.cache: dict[Any, Any] = {}
        self.depth = 0  # of rules within rules
        self.created: list[Series] | None = None  # what is not yet complete, if that is asked for

    # -- values ----------------------------------------------------------------------------------

    def owns(self, x: Any) -> bool:
        return isinstance(x, Series) and x.level is self

    def value_of(self, x: Any) -> Any:
        """A value as the levels below know it."""
        if isinstance(x, tuple) and any(isinstance(part, Lifted) for part in x):
            return tuple(self.value_of(part) for part in x)
        return x.known[0] if self.owns(x) else x

    def constant(self, x: Any) -> Lifted:
        return Series(self, [x])

    def below(self, x: Any) -> tuple[Any, bool]:
        return (x.known[0], x.moves) if self.owns(x) else (x, False)

    def left_of(self, x: Any) -> Any:
        return as_tensor(x.known[0])

    def take_in(self, tensor: Any) -> None:
        take_in(self, tensor)

    def adopt(self, tensor: Any) -> None:
        base: Series = tensor._meta.view.base._data
        inner, part = inner_view(tensor, base.known[0])
        result = Series(self, [inner])
        result.become_view(base, part.take)
        result.seen = None
        result.part = part
        become_lifted_view(tensor, result, part)

    def write(self, target: Any, result: Any, moves: bool = True) -> None:
        if self.depth:
            raise RuntimeError(
                "jet: a Tensor is written in place inside the right-hand side of a differential "
                "equation or inside a derivative rule, which is not supported. Compute a new "
                "Tensor instead: x + y in place of x.add_(y)."
            )
        memory = target.known[0] if moves else target.known[0].detach()
        memory.copy_(as_tensor(result.known[0]))
        if moves and (result.moves or target.moves):
            target.replace([result.coefficient(k) for k in range(1, self.order + 1)])

    # -- operations ------------------------------------------------------------------------------

    def run_on_parts(
        self, operation: Operation, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        inputs = list(args[0]) if operation.inputs == ("tensors",) else list(args)
        options = {name: bare_option(self.value_of(x)) for name, x in options.items()}
        key = (operation.name, *map(id, inputs), *[(n, _key(x)) for n, x in options.items()])
        if self.depth and key in self.cache:
            return self.cache[key][0]
        call = Call(self, operation, inputs, options)
        self.cache[key] = (call.result, args, options)  # what has an id in the key stays alive
        if self.created is not None:
            self.created += call.results
        if not self.depth:
            self.complete(call.results)
            if operation.view and operation.differentiable and self.owns(inputs[0]):
                for i, view in enumerate(call.results):
                    view.become_view(inputs[0], taking(operation, options, i))
        return call.result

    def complete(self, results: Sequence[Series]) -> None:
        """Compute all coefficients, order by order."""
        moving = [y for y in results if y.compute is not None]
        try:
            for k in range(1, self.order + 1):
                for y in moving:
                    y.coefficient(k)
        finally:
            self.cache.clear()
        for y in moving:
            y.compute = None

    def in_rule(self, function: Callable[[], Any]) -> Any:
        """What a rule gives for series: computed when asked for."""
        self.depth += 1
        try:
            with within(levels=(*modes.levels, self)):
                return function()
        finally:
            self.depth -= 1

    def solve(self, y: Series, rate: Callable[[], Any]) -> list[Any]:
        """The coefficients of ``y``, of which the first is known, by ``y' = rate()``.

        Those of what ``rate`` computes on the way are found in the order in which it does, so that
        none has to ask for a long chain of others."""
        created: list[Series] = []
        self.created = created
        self.depth = 1
        try:
            y.order, y.compute = self.order, _at(integrated(self, lambda: [rate()]), 0)
            for k in range(1, self.order + 1):
                for x in created if k > 1 else ():
                    if x.compute is not None:
                        x.coefficient(k - 1)
                y.coefficient(k)
                self.created = None
        finally:
            self.depth = 0
            self.created = None
            self.cache.clear()
        return y.known

    # -- sums over directions --------------------------------------------------------------------

    def collapsed(self, term: Any) -> Any:
        """The sum over all directions of a term that is there for each of them."""
        level, weights = self.directions, self.weights
        assert level is not None
        value = raw(term)
        if isinstance(value, Batched) and value.level is level:
            stacked, differs = level.below(value)
            if differs:
                stacked = as_tensor(stacked)
                if weights is not None:
                    stacked = stacked * weights.reshape(-1, *[1] * (stacked.ndim - 1))
                return linear.sum_dim(stacked, dim=(0,), keepdim=False)
        return term * (level.size if weights is None else weights.sum())


class Call:
    """One operation on series, and how its coefficients follow."""

    def __init__(
        self, level: SeriesLevel, operation: Operation, inputs: list[Any], options: dict[str, Any]
    ) -> None:
        self.level = level
        self.operation = operation
        self.inputs = inputs
        self.options = options
        self.moving = [level.owns(x) and x.moves for x in inputs]
        self.order = min([x.order for x in inputs if level.owns(x)], default=UNLIMITED)
        values = in_kind(operation, [level.value_of(x) for x in inputs])
        first = call(operation, values, options)
        several = isinstance(first, (tuple, list))
        self.results = [Series(level, [y]) for y in (first if several else [first])]
        self.result: Any = tuple(self.results) if several else self.results[0]
        if operation.differentiable and any(self.moving):
            compute = self.recurrence()
            for i, y in enumerate(self.results):
                if y.dtype.kind in dtypes.INEXACT:
                    y.order, y.compute = self.order, _at(compute, i)

    def recurrence(self) -> Callable[[int, int], Any]:
        """A function of the order and the number of the output, which gives its coefficient."""
        op = self.operation
        special = RECURRENCES.get(op.name)
        if special is not None:
            compute = special(self)
            if compute is not None:
                return lambda k, i: compute(k)
        if op.family == "linear":
            return self.each_order()
        if op.family == "multilinear" and len(self.inputs) == 2:
            a, b = self.inputs
            return lambda k, i: self.product(a, b, k)
        if self.is_affine():
            return self.each_order(tangents=True)
        if self.is_curve():
            return self.by_slopes()
        return integrated(self.level, self.tangents)

    def coefficient(self, position: int, k: int) -> Any:
        """A coefficient of an input."""
        x = self.inputs[position]
        return x.coefficient(k) if self.moving[position] else None

    def is_affine(self) -> bool:
        """Whether no needed rule depends on an operand with a tangent: the operation is then linear
        in the series."""
        op = self.operation
        if op.jvp is not None:
            rules: list[Any] = [op.jvp]
        elif op.family == "elementwise" and not op.adjoint:
            rules = [r for r, m in zip(op.rules, self.moving, strict=True) if m]
        else:
            return False
        moving = {n for n, m in zip(op.inputs, self.moving, strict=False) if m}
        moving.update(op.output_names)
        return not any(r is not None and moving & set(r.names) for r in rules)

    def is_curve(self) -> bool:
        """Whether it is a function of one real number at each element, to be summed at order 2."""
        op, level = self.operation, self.level
        return (
            level.directions is not None and self.order == level.order == 2
            and op.family == "elementwise" and not op.adjoint and sum(self.moving) == 1
            and self.results[0].dtype.kind in dtypes.FLOATS
        )  # fmt: skip

    def by_slopes(self) -> Callable[[int, int], Any]:
        """``f(x)`` at each element, with the slope and the curvature of ``f`` from its own series.
        They are the same for all directions, so that one product each is left for the directions:
        ``f' * x_1`` at order 1, and at order 2 ``f' * sum(x_2) + f'' / 2 * sum(x_1**2)``."""
        position = self.moving.index(True)
        x, level = self.inputs[position], self.level
        values = [level.value_of(v) for v in self.inputs]
        slope, bend = slopes(self.operation, values, position, self.options)

        def coefficient(k: int, i: int) -> Any:
            moved = x.coefficient(k)
            straight = None if moved is None or slope is None else slope * moved
            first = x.coefficient(1) if k == 2 and bend is not None else None
            if first is None:
                return straight
            return total(straight, bend * level.collapsed(first * first))

        return coefficient

    def each_order(self, tangents: bool = False) -> Callable[[int, int], Any]:
        """A linear operation: to each order on its own."""
        computed: dict[int, Sequence[Any]] = {}
        op = self.operation
        values = [self.level.value_of(x) for x in self.inputs]
        outputs = [y.known[0] for y in self.results] if tangents else ()

        def coefficient(k: int, i: int) -> Any:
            if k not in computed:
                moved = [self.coefficient(p, k) for p in range(len(values))]
                if all(t is None for t in moved):
                    return None
                given = in_kind(op, [*values, *moved])
                computed.clear()
                computed[k] = push_forward(
                    op, given[: len(values)], given[len(values) :], self.options, outputs
                )
            return computed[k][i]

        return coefficient

    def product(self, a: Any, b: Any, k: int) -> Any:
        """Coefficient ``k`` of a product of series, by the operation."""
        return total(*[self.term(self.by, a, j, b, k - j) for j in range(k + 1)])

    def term(self, by: Callable[[Any, Any], Any], a: Any, i: int, b: Any, j: int) -> Any:
        """Coefficient ``i`` of ``a`` by coefficient ``j`` of ``b``, or None for zero. At the
        highest order it is summed over all directions, unless a factor is such a sum."""
        level = self.level
        x = a.coefficient(i) if level.owns(a) else a if i == 0 else None
        y = b.coefficient(j) if level.owns(b) else b if j == 0 else None
        if x is None or y is None:
            return None
        term = by(x, y)
        if level.directions is None or i + j != self.order:
            return term
        summed = (level.owns(a) and i == a.order) or (level.owns(b) and j == b.order)
        return term if summed else level.collapsed(term)

    def by(self, x: Any, y: Any) -> Any:
        return call(self.operation, in_kind(self.operation, [x, y]), self.options)

    def tangents(self) -> Sequence[Any]:
        """The derivatives of the results by ``t``, as series."""
        derivatives = [
            x.derivative if moves else None
            for x, moves in zip(self.inputs, self.moving, strict=True)
        ]
        return push_forward(self.operation, self.inputs, derivatives, self.options, self.results)


def slopes(
    op: Operation, values: list[Any], position: int, options: dict[str, Any]
) -> tuple[Any, Any]:
    """The slope of an elementwise operation by one of its operands, and half of the curvature, from
    its series. None is zero."""
    level = SeriesLevel(2)
    x = values[position]
    moving = Series(level, [x, arrays.ones((), raw(x).dtype)], 2)
    given = [*values[:position], moving, *values[position + 1 :]]
    curve = Call(level, op, given, options).results[0]
    level.complete([curve])
    return curve.coefficient(1), curve.coefficient(2)


def integrated(
    level: SeriesLevel, tangents: Callable[[], Sequence[Any]]
) -> Callable[[int, int], Any]:
    """The solutions of ``y' = tangents()``, by the order and the number of the result. The right
    side is made when it is first asked for: it may lead to further such equations."""
    moved: list[Any] = []

    def coefficient(k: int, i: int) -> Any:
        if not moved:
            moved.extend(map(raw, level.in_rule(tangents)))
        rate = moved[i]
        if isinstance(rate, Series) and rate.level is level:
            return scaled(rate.coefficient(k - 1), 1 / k)
        return rate if k == 1 else None

    return coefficient


def in_kind(operation: Operation, values: list[Any]) -> list[Any]:
    """Values for an operation to work on: bare arrays, which is faster, or Tensors, where there is
    something to record or memory to share."""
    if not operation.view and not modes.inference:
        bare = unrecorded(values)
        if bare is not None:
            return bare
    if Lifted.device_level is not None:  # move constants of rules to the device of other operands
        there = next((y for x in values if (y := device_value(x)) is not None), None)
        if there is not None:
            values = [there.placed(x) if arrays.is_raw(x) else x for x in values]
    return [as_tensor(x) if isinstance(x, Lifted) or _is_array(x) else x for x in values]


def _is_array(x: Any) -> bool:
    return hasattr(x, "dtype") and is_bare(x)


def scaled(x: Any, factor: float) -> Any:
    return x if x is None or factor == 1 else x * factor


def _at(compute: Any, i: int) -> Callable[[int], Any]:
    return lambda k: compute(k, i)


def _key(x: Any) -> Any:
    return x if isinstance(x, (int, float, str, bool, type(None))) else id(x)


# Operations whose series is cheaper than by the rule of their tangent: see _recurrences.
RECURRENCES: dict[str, Callable[[Call], Callable[[int], Any] | None]] = {}
