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

from retrograd._modes import modes, within
from retrograd.autograd._forward import call, push_forward
from retrograd.autograd._levels import as_tensor
from retrograd.ops import linear
from retrograd.ops._batching import Batched, BatchLevel
from retrograd.ops._lifted import Level, Lifted, bare_option
from retrograd.ops._operation import Operation, is_bare, raw, unrecorded

UNLIMITED = 1 << 30  # the order of what does not depend on t


class Series(Lifted):
    """A polynomial in ``t``: coefficient 0 is the value, None is a coefficient of zero.

    ``compute`` gives the coefficient of an order from those below; without it, all orders that are
    not ``known`` are zero. ``order`` is the highest order that is followed.
    """

    __slots__ = ("compute", "known", "order")

    def __init__(
        self, level: SeriesLevel, known: list[Any], order: int = UNLIMITED,
        compute: Callable[[int], Any] | None = None,
    ) -> None:  # fmt: skip
        self.level: SeriesLevel = level
        self.known = known
        self.order = order
        self.compute = compute

    def coefficient(self, k: int) -> Any:
        """The factor of ``t**k``, or None for zero."""
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
            first = self.level.zeros_of(self.known[0])
        return Series(self.level, [first], self.order - 1, coefficient)

    @property
    def inner(self) -> Any:
        return self.known[0]

    @property
    def parts(self) -> tuple[Any, ...]:
        return tuple(self.known)

    @property
    def of_arrays(self) -> bool:
        return all(c is None or is_bare(c) for c in self.known)

    @property
    def moves(self) -> bool:
        return self.compute is not None or any(c is not None for c in self.known[1:])

    def hold(self, as_tensor: Callable[[Any], Any]) -> None:
        self.known = [None if c is None else as_tensor(c) for c in self.known]

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

    __slots__ = ("cache", "depth", "directions", "order", "weights")

    name = "jet"
    differentiates = True
    takes_in = False

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

    # -- values ----------------------------------------------------------------------------------

    def owns(self, x: Any) -> bool:
        return isinstance(x, Series) and x.level is self

    def value_of(self, x: Any) -> Any:
        return x.known[0] if self.owns(x) else x

    def constant(self, x: Any) -> Lifted:
        return Series(self, [x])

    def below(self, x: Any) -> tuple[Any, bool]:
        return (x.known[0], x.moves) if self.owns(x) else (x, False)

    def left_of(self, x: Any) -> Any:
        return as_tensor(x.known[0])

    def zeros_of(self, x: Any) -> Any:
        return x * 0 if isinstance(raw(x), Lifted) else raw(x) * 0

    def take_in(self, tensor: Any) -> None:
        self.write(tensor, tensor)

    def write(self, target: Any, result: Any, moves: bool = True) -> None:
        raise RuntimeError(
            "jet: a Tensor is written in place, which is not supported inside a function whose "
            "series is computed. Use the operation that returns a new Tensor (x + y for x.add_(y), "
            "torch.where or index_put for an assignment to elements)."
        )

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
        if not self.depth:
            self.complete(call.results)
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
                if y.dtype.kind in "fc":
                    y.order, y.compute = self.order, _at(compute, i)

    def recurrence(self) -> Callable[[int, int], Any]:
        """A function of the order and the number of the output, which gives its coefficient."""
        op = self.operation
        special = RECURRENCES.get(op.name)
        if special is not None:
            compute = special(self)
            return lambda k, i: compute(k)
        if op.family == "linear":
            return self.each_order()
        if op.family == "multilinear" and len(self.inputs) == 2:
            return lambda k, i: self.product(*self.inputs, k)
        if self.is_affine():
            return self.each_order(tangents=True)
        return self.integrated()

    def coefficient(self, position: int, k: int) -> Any:
        """A coefficient of an input."""
        x = self.inputs[position]
        return x.coefficient(k) if self.moving[position] else None

    def is_affine(self) -> bool:
        """Whether no rule that is needed depends on what moves: the tangent is then that of a
        linear operation, and so is every coefficient."""
        op = self.operation
        if op.family != "elementwise" or op.jvp is not None or op.adjoint:
            return False
        moving = {n for n, m in zip(op.inputs, self.moving, strict=True) if m} | {"result"}
        rules = [r for r, m in zip(op.rules, self.moving, strict=True) if m]
        return not any(r is not None and moving & set(r.names) for r in rules)

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
        return total([self.term(self.by, a, j, b, k - j) for j in range(k + 1)])

    def term(
        self, by: Callable[[Any, Any], Any], a: Any, i: int, b: Any, j: int
    ) -> Any:
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

    def integrated(self) -> Callable[[int, int], Any]:
        """The solution of ``y' = push_forward(x, x')``."""
        moved: list[Any] = []

        def coefficient(k: int, i: int) -> Any:
            if not moved:
                moved.extend(self.level.in_rule(self.tangents))
            rate = moved[i]
            if rate is None:
                return None
            if isinstance(rate, Series) and rate.level is self.level:
                return scaled(rate.coefficient(k - 1), 1 / k)
            return rate if k == 1 else None

        return coefficient

    def tangents(self) -> Sequence[Any]:
        """The derivatives of the results by ``t``, as series."""
        derivatives = [
            x.derivative if moves else None
            for x, moves in zip(self.inputs, self.moving, strict=True)
        ]
        found = push_forward(
            self.operation, self.inputs, derivatives, self.options, self.results
        )
        return [raw(t) for t in found]


def in_kind(operation: Operation, values: list[Any]) -> list[Any]:
    """Values for an operation to work on: bare arrays, which is faster, or Tensors, where there is
    something to record or memory to share."""
    if not operation.view and not modes.inference:
        bare = unrecorded(values)
        if bare is not None:
            return bare
    return [as_tensor(x) if isinstance(x, Lifted) or _is_array(x) else x for x in values]


def _is_array(x: Any) -> bool:
    return hasattr(x, "dtype") and is_bare(x)


def total(terms: Sequence[Any]) -> Any:
    """The sum of terms, of which None is zero."""
    found = None
    for term in terms:
        if term is not None:
            found = term if found is None else found + term
    return found


def scaled(x: Any, factor: float) -> Any:
    return x if x is None or factor == 1 else x * factor


def _at(compute: Any, i: int) -> Callable[[int], Any]:
    return lambda k: compute(k, i)


def _key(x: Any) -> Any:
    return x if isinstance(x, (int, float, str, bool, type(None))) else id(x)


# Operations whose series is cheaper than by the rule of their tangent: see _recurrences.
RECURRENCES: dict[str, Callable[[Call], Callable[[int], Any]]] = {}
