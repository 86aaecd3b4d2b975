"""Which inputs each element of a result can depend on, by one run of a function.

A value of this level is an array, and beside it the pattern: for each of its elements, which ones
of the input it depends on. Steps towards it are noted, and carried out once the function has run
(``arrays/_dependencies.py``). No derivative is evaluated. What an operation does to patterns
follows from its family:

- elementwise: the union of what the operands depend on, element by element;
- linear: the map itself is looked at, by a few calls: see ``arrays/_patterns.py:of_map``;
- multilinear: linear in each operand;
- reductions: as the sum over the same dimensions;
- selecting: the elements that were selected or, for a pattern that is to hold for all values, all
  that could have been;
- composite: its definition;
- anything else: every element of the result may depend on every element of the operands.

A pattern may contain entries that are zero. It misses none that is not.

A value can *vary* with the input without depending on it smoothly: an index that was computed from
it, a mask, what was detached. For a pattern that is to hold for all values, nothing is read off
such values: what they select may be anything, and none of their zeros counts.

Some values are nothing but *copies* of elements of the input, taken by indexing and other
operations that move elements. What they are copies of is kept: see ``func/_cuts.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.autograd._duals import become_lifted_view, inner_view, take_in, taking
from retrograd.autograd._forward import call, run_rule
from retrograd.autograd._levels import as_tensor, is_of
from retrograd.autograd._wrap import wrap
from retrograd.ops import copies, elementwise, linear, piecewise
from retrograd.ops._lifted import Level, Lifted, bare_option
from retrograd.ops._operation import Linear, Operation, Reduction, Selecting, TensorLike, raw

patterns, steps = arrays.patterns, arrays.dependencies


class Dependent(Lifted):
    """A value, and the pattern of what its elements depend on; None if on nothing."""

    __slots__ = ("_pattern", "_source", "_varies", "fixed", "seen", "value", "version", "view_of")

    def __init__(
        self, level: PatternLevel, value: Any, pattern: Any = None, varies: bool = False,
        source: Any = None,
    ) -> None:  # fmt: skip
        self.level: PatternLevel = level
        self.value = value
        self._pattern = pattern
        self._varies = varies or pattern is not None
        self.version = 0  # of writes
        self.view_of: tuple[Dependent, Any] | None = None  # and which of its elements
        self.seen = 0
        self.fixed = False  # whether writes cannot be followed, as a view could not be
        self._source = source

    @property
    def inner(self) -> Any:
        return self.value

    @property
    def pattern(self) -> Any:
        """The pattern. The pattern of a view is part of that of its base."""
        if self.view_of is not None:
            base, rows = self.view_of
            if self.seen != base.version:
                whole = base.pattern
                self._pattern = None if whole is None else steps.taken(whole, rows)
                self.seen = base.version
        return self._pattern

    @property
    def moves(self) -> bool:
        return self.pattern is not None

    @property
    def source(self) -> Any:
        """If every element is a copy of one of the input, or a constant: of which one, or -1. After
        a write, nothing is known."""
        return None if self.level.written else self._source

    @source.setter
    def source(self, source: Any) -> None:
        self._source = source

    @property
    def varies(self) -> bool:
        """Whether its elements may be others for another input."""
        return self._varies or (self.view_of is not None and self.view_of[0]._varies)

    def hold(self, as_tensor: Callable[[Any], Any]) -> None:
        self.value = as_tensor(self.value)

    def become_view(self, of: Dependent, take: Callable[[Any], Any]) -> None:
        """Record the base of the view; ``take`` takes the same view of any value of that shape."""
        if self.dtype.kind == of.dtype.kind:
            rows = arrays.asarray(raw(take(as_tensor(_numbers(of.shape))))).reshape(-1)
        elif self.size < of.size:  # view_as_complex: an element is made of two
            self.fixed = of.fixed = True
            return
        else:  # real and imaginary parts, or both, one after the other
            rows = _numbers(of.shape).reshape(-1).repeat(self.size // max(of.size, 1))
        if of.source is not None:
            self.source = of.source[rows]
        if of.view_of is not None:
            of, outer = of.view_of
            rows = outer[rows]
        self.view_of = (of, rows)
        self.seen = of.version

    def write(self, pattern: Any, varies: bool) -> None:
        """Make ``pattern`` that of the value, as part of what it is a view of."""
        if self.fixed:
            raise RuntimeError(
                "sparsity: a tensor is written in place of which view_as_complex() made a view. "
                "Write to a copy of it."
            )
        self._varies = self._varies or varies
        if self.view_of is None:
            self._pattern = pattern
            self.version += 1
            return
        base, rows = self.view_of
        base._varies = base._varies or varies
        if pattern is None and base.pattern is None:
            return
        old = base.pattern if base.pattern is not None else steps.nothing(base.size)
        new = pattern if pattern is not None else steps.nothing(self.size)
        base.write(steps.written(old, rows, new), varies)

    def item(self) -> Any:
        """The one element as a number. A pattern found after looking at it holds at this value."""
        self.look()
        return as_tensor(self.value).item()

    def look(self) -> None:
        """Note that the function looks at elements, if these may be others for another input."""
        self.level.looked = self.level.looked or self.varies

    def tolist(self) -> Any:
        self.look()
        return as_tensor(self.value).tolist()

    def __array__(self, *given: Any, **named: Any) -> Any:
        self.look()
        return as_tensor(self.value).detach().__array__(*given, **named)

    def detached(self) -> Lifted:
        return Dependent(self.level, as_tensor(self.value).detach(), varies=self.varies)

    def text(self, suffixes: str) -> str:
        return repr(as_tensor(self.value))[:-1] + suffixes + ")"


class PatternLevel(Level):
    """Follows dependencies on ``count`` inputs. ``local``: at the values at hand only."""

    __slots__ = ("count", "local", "looked", "written")

    name = "sparsity"
    shows_steps = True

    def __init__(self, count: int, local: bool = True) -> None:
        super().__init__()
        self.count = count
        self.local = local
        self.looked = False  # whether the function looked at a value that depends on inputs
        self.written = False  # whether it wrote to a value in place

    def owns(self, x: Any) -> bool:
        return isinstance(x, Dependent) and x.level is self

    def value_of(self, x: Any) -> Any:
        """A value as the levels below know it."""
        if isinstance(x, tuple) and any(isinstance(part, Lifted) for part in x):
            return tuple(self.value_of(part) for part in x)
        return x.value if self.owns(x) else x

    def varies_in(self, x: Any) -> bool:
        """Whether a value, or one of several, may be another for another input."""
        if isinstance(x, (tuple, list)):
            return any(self.varies_in(part) for part in x)
        x = raw(x)
        return self.owns(x) and x.varies

    def constant(self, x: Any) -> Lifted:
        return Dependent(self, x)

    def below(self, x: Any) -> tuple[Any, bool]:
        return (x.value, x.varies) if self.owns(x) else (x, False)

    def left_of(self, x: Any) -> Any:
        return as_tensor(x.value)

    def take_in(self, tensor: Any) -> None:
        take_in(self, tensor)

    def adopt(self, tensor: Any) -> None:
        base: Dependent = tensor._meta.view.base._data
        inner, part = inner_view(tensor, base.value)
        value = Dependent(self, inner)
        value.become_view(base, part.take)
        value.seen = -1
        become_lifted_view(tensor, value, part)

    def write(self, target: Any, result: Any, moves: bool = True) -> None:
        self.written = True
        memory = target.value if moves else target.value.detach()
        memory.copy_(as_tensor(result.value))
        if not moves:
            target.write(target.pattern, result.varies)
            return
        pattern = result.pattern
        if pattern is not None and result.shape != target.shape:
            rows = patterns.broadcast_indices(result.shape, target.shape)
            pattern = steps.taken(pattern, rows)
        target.write(pattern, result.varies)

    # -- operations ------------------------------------------------------------------------------

    def run_on_parts(
        self, operation: Operation, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        inputs = list(args[0]) if operation.inputs == ("tensors",) else list(args)
        selects = any(self.varies_in(x) for x in options.values())
        options = {name: bare_option(self.value_of(x)) for name, x in options.items()}
        values = [self.value_of(x) for x in inputs]
        values = [as_tensor(x) if isinstance(x, Lifted) or arrays.is_raw(x) else x for x in values]
        computed = call(operation, values, options)
        outputs = list(computed) if isinstance(computed, (tuple, list)) else [computed]
        varies = selects or any(self.varies_in(x) for x in inputs)
        results = [Dependent(self, y, varies=varies) for y in outputs]
        moving = [i for i, x in enumerate(inputs) if self.owns(x) and x.moves]
        views = operation.view and operation.differentiable and self.owns(inputs[0])
        if views:
            for i, y in enumerate(results):
                y.become_view(inputs[0], taking(operation, options, i))
                y.seen = -1 if moving else y.seen
        only_moves = views and not selects and not any(y.fixed for y in results)
        if moving and operation.differentiable and not only_moves:
            known = Known(self, operation, inputs, values, options, outputs, moving, selects)
            for i, (y, pattern) in enumerate(zip(results, known.patterns(), strict=True)):
                if y.dtype.kind in dtypes.INEXACT:
                    y._pattern = pattern
                    y.source = known.sources.get(i, y.source)
                    if operation is copies.clone:
                        y.source = inputs[0].source
                    y.seen = y.view_of[0].version if y.view_of is not None else y.seen
        return tuple(results) if isinstance(computed, (tuple, list)) else results[0]


class Known:
    """One operation on values with patterns."""

    def __init__(
        self, level: PatternLevel, operation: Operation, inputs: list[Any], values: list[Any],
        options: dict[str, Any], outputs: list[Any], moving: list[int], selects: bool,
    ) -> None:  # fmt: skip
        """``selects``: options that may be others for another input say what goes where."""
        self.level = level
        self.operation = operation
        self.inputs = inputs
        self.values = values
        self.options = options
        self.outputs = outputs
        self.moving = moving
        self.selects = selects
        self.sources: dict[int, Any] = {}  # for each output that is a copy, of what

    def unknown(self, position: int) -> bool:
        """Whether nothing may be read off the elements of an input."""
        return not self.level.local and self.level.varies_in(self.inputs[position])

    def patterns(self) -> Sequence[Any]:
        """The pattern of each output."""
        op = self.operation
        several = op.joint or op.inputs == ("tensors",)
        without_rule = [] if several else [i for i, r in enumerate(op.rules) if r is None]
        selects = self.selects or any(map(self.unknown, without_rule))
        if op.family == "elementwise" or op is elementwise.mul:
            return [self.element_by_element()]
        if selects and not self.level.local:
            return [self.everything(y) for y in self.outputs]
        if op.rearranges or op in MOVES:
            return self.moved()
        if op in SUMS:
            return [self.reduced(self.options.get("dim"))]
        if op.family == "linear":
            relations = [self.by_map(i, linear_in=True) for i in self.moving]
            self.note_copies(relations)
            return self.total(relations)
        if op.name in PRODUCTS:
            return [self.product(*PRODUCTS[op.name])]
        if op.name == "linalg_cross" and all(map(self.anywhere, (0, 1))):
            return [self.crossed()]
        if op.family == "multilinear":
            return self.total([self.by_map(i) for i in self.moving])
        if isinstance(op, Reduction):
            dim = self.options.get("dim", op.reduced)
            return [self.reduced(dim), *[None] * (len(self.outputs) - 1)]
        if isinstance(op, Selecting) and self.level.local:
            return [self.selected(), *[None] * (len(self.outputs) - 1)]
        return [self.everything(y) for y in self.outputs]

    def total(self, of_inputs: list[list[Any]]) -> list[Any]:
        """The patterns of the outputs, by the relation of each to each input that moves."""
        sums = []
        for y, *relations in zip(self.outputs, *of_inputs, strict=True):
            pairs = zip(self.moving, relations, strict=True)
            size = patterns.size_of(raw(y).shape)
            sums.append(steps.union([_related(r, self.inputs[i].pattern, size) for i, r in pairs]))
        return sums

    def note_copies(self, of_inputs: list[list[Any]]) -> None:
        """Note which outputs consist of copies of elements of the input."""
        sources = [self.inputs[i].source for i in self.moving]
        if any(source is None for source in sources):
            return
        for output, relations in enumerate(zip(*of_inputs, strict=True)):
            if all(relation.copies for relation in relations):
                self.sources[output] = patterns.only_source(
                    [r.source for r in relations], sources
                )  # fmt: skip

    def element_by_element(self) -> Any:
        op, shape = self.operation, tuple(raw(self.outputs[0]).shape)
        parts = []
        for i in self.moving:
            if op.rules[i] is None:
                continue
            x = self.inputs[i]
            if x.shape == shape and not (op is piecewise.where and self.level.local):
                parts.append(x.pattern)
                continue
            rows = patterns.broadcast_indices(x.shape, shape)
            if op is piecewise.where and self.level.local:
                rows = self.chosen(i, rows, shape)
            parts.append(steps.taken(x.pattern, rows))
        return steps.union(parts) if parts else None

    def chosen(self, position: int, rows: Any, shape: tuple[int, ...]) -> Any:
        """The elements that ``where`` takes of an operand; -1 for those of the other."""
        condition = linear.expand(self.values[0], size=shape)
        taken = arrays.asarray(raw(condition)).reshape(-1)
        return arrays.where(taken if position == 1 else ~taken, rows, -1)

    def moved(self) -> list[Any]:
        """The patterns of results that consist of elements of the operands, found by one call with
        numbers in place of the elements."""
        inputs = [self.inputs[i] for i in self.moving]
        numbers, start = self.others(linear_in=True), 1
        for i, x in zip(self.moving, inputs, strict=True):
            numbers[i] = as_tensor(arrays.arange(start, start + x.size, 1.0).reshape(x.shape))
            start += x.size
        computed = call(self.operation, numbers, self.without_offset())
        outputs = computed if isinstance(computed, (tuple, list)) else [computed]
        rows = [patterns.from_numbers(raw(y)) for y in outputs]
        if all(x.source is not None for x in inputs):
            source = patterns.joined([x.source for x in inputs])
            self.sources = {i: patterns.rows_of(source, own) for i, own in enumerate(rows)}
        whole = steps.stacked([x.pattern for x in inputs])
        return [steps.taken(whole, own) for own in rows]

    def without_offset(self) -> dict[str, Any]:
        """The options of a linear operation, without a number that it adds or writes."""
        op = self.operation
        if isinstance(op, Linear) and op.offset is not None:
            return {**self.options, op.offset: 0}
        return self.options

    def others(self, linear_in: bool) -> list[Any]:
        """What takes the place of the operands, other than the one that is looked at: zeros if a
        map is linear in them, and numbers that make no entry zero by chance if they may be
        anything."""
        op, result = self.operation, []
        for i, v in enumerate(self.values):
            if linear_in and (op.joint or op.inputs == ("tensors",) or op.rules[i] is not None):
                v = copies.zeros_like(copies.to_dtype(v, dtype=arrays.float64))
            elif i in self.moving or self.unknown(i):
                v = as_tensor(arrays.asarray(patterns.generic(tuple(raw(v).shape))))
            result.append(v)
        return result

    def by_map(self, position: int, linear_in: bool = False) -> list[Any]:
        """The relations of the outputs to one input, as linear maps of it, the others as they
        are."""
        op, x = self.operation, self.inputs[position]
        count = len(self.outputs)
        options, others = self.without_offset(), self.others(linear_in)

        def output(i: int) -> Callable[[Any], Any]:
            def apply(given: Any) -> Any:
                xs = [*others]
                xs[position] = as_tensor(given)
                result = call(op, xs, options)
                return raw(result[i] if isinstance(result, (tuple, list)) else result)

            return apply

        result = []
        for i in range(count):
            single = count == 1 and x.dtype.kind in dtypes.FLOATS
            transpose = self.transpose(position, others) if single else None
            shape = tuple(raw(self.outputs[i]).shape)
            relation = patterns.of_map(output(i), transpose, x.shape, shape)
            if x.dtype.kind == "c":  # what it does to imaginary parts may be something else
                imaginary = patterns.of_map(_of_imaginary(output(i)), None, x.shape, shape)
                relation = patterns.either(relation, imaginary, (patterns.size_of(shape), x.size))
            result.append(relation)
        return result

    def transpose(self, position: int, others: list[Any]) -> Callable[[Any], Any] | None:
        op = self.operation
        if op.joint or op.inputs == ("tensors",) or op.rules[position] is None:
            return None
        rule = op.rules[position]
        assert rule is not None

        def apply(g: Any) -> Any:
            xs = [*others]
            xs[position] = self.values[position]
            return raw(run_rule(op, rule, as_tensor(g), xs, self.outputs, self.options, position))

        return apply

    def product(self, contracted: int, other_contracted: int) -> Any:
        """A product of matrices: an element depends on the whole row of the one and the whole
        column of the other, but for what zeros in a constant factor leave out."""
        shape = tuple(raw(self.outputs[0]).shape)
        parts = []
        for i in self.moving:
            x = self.inputs[i]
            if not self.anywhere(1 - i):
                through = patterns.of_product(raw(self.values[1 - i]), i, x.shape)
                if through is not None:
                    parts.append(steps.through(through, x.pattern))
                    continue
            dim = contracted if i == 0 else other_contracted
            dims = (len(x.shape) + dim,)
            kept = tuple(s for d, s in enumerate(x.shape) if d not in dims)
            aligned = kept
            if len(shape) > len(kept):  # a vector has no dimension for the other factor
                aligned = (*kept, 1) if i == 0 else (*kept[:-1], 1, *kept[-1:])
            rows = patterns.broadcast_indices(aligned, shape)
            parts.append(steps.taken(steps.through(patterns.sums(x.shape, dims), x.pattern), rows))
        return steps.union(parts)

    def anywhere(self, position: int) -> bool:
        """Whether no element of an operand is known to be zero."""
        known = position not in self.moving and not self.unknown(position)
        return not known or bool(arrays.asarray(raw(self.values[position])).all())

    def crossed(self) -> Any:
        """A product of vectors in space: each component depends on the two others of a factor."""
        shape, dim = tuple(raw(self.outputs[0]).shape), self.options["dim"]
        parts = []
        for i in self.moving:
            own = patterns.broadcast_indices(self.inputs[i].shape, shape).reshape(shape)
            parts += [steps.taken(self.inputs[i].pattern, patterns.rolled(own, by, dim))
                      for by in (1, 2)]  # fmt: skip
        return steps.union(parts)

    def reduced(self, dim: Any) -> Any:
        """A sum over some dimensions, or over all."""
        x = self.inputs[0]
        every = tuple(range(len(x.shape)))
        dims = every if dim is None or not every else (dim,) if isinstance(dim, int) else tuple(dim)
        dims = tuple(d % len(every) for d in dims or every)
        return steps.through(patterns.sums(x.shape, dims), x.pattern)

    def selected(self) -> Any:
        """The elements that were selected."""
        op, x = self.operation, self.inputs[0]
        assert isinstance(op, Selecting)

        def gather(t: Any) -> Any:
            return raw(run_rule(op, op.gather, as_tensor(t), self.values, self.outputs,
                                self.options, 0))  # fmt: skip

        shape = tuple(raw(self.outputs[0]).shape)
        relation = patterns.of_map(gather, None, x.shape, shape)
        return _related(relation, x.pattern, patterns.size_of(shape))

    def everything(self, y: Any) -> Any:
        """Every element may depend on all that the operands depend on."""
        size = patterns.size_of(raw(y).shape)
        return steps.union([steps.all_of(self.inputs[i].pattern, size) for i in self.moving])


def _related(relation: Any, pattern: Any, size: int) -> Any:
    """What the results of a linear map depend on."""
    if relation.source is not None:
        return steps.taken(pattern, relation.source)
    if relation.matrix is None:
        return steps.all_of(pattern, size)
    return steps.through(relation.matrix, pattern)


def _of_imaginary(apply: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: apply(x * 1j)


# The dimension that is summed over, of either operand, counted from the end.
PRODUCTS = {"mm": (-1, -2), "bmm": (-1, -2), "mv": (-1, -1), "dot": (-1, -1)}


# Operations that only move elements, and such that only add some up.
MOVES = {linear.index, linear.cat, linear.stack, linear.split, linear.split_with_sizes,
         linear.unbind, linear.select, linear.slice_}  # fmt: skip
SUMS = {linear.sum_all, linear.sum_dim, linear.mean_all, linear.mean_dim}


def _numbers(shape: tuple[int, ...]) -> Any:
    return patterns.broadcast_indices(shape, shape).reshape(shape)


def _of_custom(level: PatternLevel, cls: Any, args: tuple[Any, ...]) -> Any:
    """A custom operation: every element of a result may depend on every element of the inputs."""
    values = [as_tensor(a._data.value) if is_of(level, a) else a for a in args]
    output = cls.apply(*values)
    inputs = [raw(a) for a in args if is_of(level, a)]
    outputs = output if isinstance(output, tuple) else (output,)
    results = tuple([_result_of_custom(level, y, inputs) for y in outputs])
    return results if isinstance(output, tuple) else results[0]


def _result_of_custom(level: PatternLevel, y: Any, inputs: list[Any]) -> Any:
    if not isinstance(y, TensorLike):
        return y
    result = Dependent(level, y, varies=any(x.varies for x in inputs))
    parts = [steps.all_of(x.pattern, result.size) for x in inputs if x.moves]
    if parts and result.dtype.kind in dtypes.INEXACT:
        result._pattern = steps.union(parts)
    return wrap(result)


PatternLevel.run_custom = _of_custom
