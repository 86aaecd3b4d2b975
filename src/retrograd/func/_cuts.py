"""Jacobians of functions that gather elements of their input and then work row by row.

The residuals of a bundle adjustment, of a difference equation or of a network of springs have one
form in common: elements of the input are gathered, one row for each residual, and what is done to a
row does not depend on the others. Cut behind the gathering, such a function has a Jacobian with
small blocks along the diagonal, one for each row. One pass backward gives a row of every block,
however many columns it has, so there are as many passes as a block has rows. What was gathered
where says which elements of the Jacobian the numbers are.

The function is followed once, by the level that follows patterns (``autograd/_patterns.py``), where
values that are nothing but copies of elements of the input are known. Where such a value meets an
operation that does more than move elements, the function is cut: the operation is given a variable
in place of it. Whether blocks come out, and which, is then read off the steps that were noted
(``arrays/_row_blocks.py:Blocks``).

What is gathered may also be an intermediate value with few elements: the vertices of a hand, posed
by a few numbers, to which thousands of points belong. Its elements then count as further inputs.
The Jacobian is the one by these, times that of the intermediate value (``Middle``), which is found
by products with a much smaller function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from retrograd import arrays
from retrograd._modes import within
from retrograd.autograd._backward import grad
from retrograd.autograd._levels import as_tensor, is_of
from retrograd.autograd._patterns import Dependent, PatternLevel
from retrograd.autograd._wrap import wrap
from retrograd.func._sparsity import find as find_pattern
from retrograd.func._sparsity import follow
from retrograd.ops import copies, elementwise, linear
from retrograd.ops._operation import Operation, raw
from retrograd.tensor._calls import apply
from retrograd.tensor._tensor import Tensor
from retrograd.utils.checkpoint._interception import Interceptor

steps, row_blocks = arrays.dependencies, arrays.row_blocks


class Cut(NamedTuple):
    """One operand of an operation that a variable takes the place of, expanded to a shape first."""

    position: int
    leaf: int  # the number of the leaf, counted from one
    shape: tuple[int, ...]


class Call(NamedTuple):
    """An operation on copies of elements of the input, and which operands are replaced; None if it
    only moves elements."""

    name: str
    cuts: list[Cut] | None


class Calls(Interceptor):
    """Intercepts operations on copies of input elements. Operations that only move elements are
    run; for others, the operands are replaced."""

    def handle(
        self, op: Operation, args: Sequence[Any], options: dict[str, Any], computed: Any
    ) -> Any:
        several = op.inputs == ("tensors",)
        operands = list(args[0]) if several else list(args)
        if op.name in GATHERING:
            operands = self.gathered(op, operands, options)
            args = operands
        positions = [i for i, x in enumerate(operands) if self.is_copy(x)]
        if not positions or not op.differentiable:
            return apply(op, args, options, computed)
        if self.may_move(op):
            result = apply(op, args, options, computed)
            if self.moves(op, list(result) if isinstance(result, (tuple, list)) else [result]):
                return result
        replaced = self.replaced(op, operands, positions)
        return apply(op, [replaced] if several else replaced, options, computed)

    def gathered(self, op: Operation, operands: list[Any], options: dict[str, Any]) -> list[Any]:
        """The operands of an operation that gathers elements, with copies in place of the first if
        that is the intermediate value."""
        raise NotImplementedError

    def is_copy(self, x: Any) -> bool:
        """Whether a value is known to hold nothing but copies of elements of the input."""
        raise NotImplementedError

    def may_move(self, op: Operation) -> bool:
        """Whether an operation, given copies, may return copies."""
        raise NotImplementedError

    def moves(self, op: Operation, outputs: list[Any]) -> bool:
        """Whether results are copies, or have nothing to do with derivatives."""
        raise NotImplementedError

    def replaced(self, op: Operation, operands: list[Any], positions: list[int]) -> list[Any]:
        """The operands with variables in place of the copies."""
        raise NotImplementedError


GATHERING = ("index", "index_select", "gather", "embedding")
SMALLER = 4  # how many times fewer elements an intermediate value has than are gathered of it


class Middle(NamedTuple):
    """An intermediate value of which elements are gathered."""

    name: str  # of the first operation that gathers them
    numbers: list[int]  # of all such calls, among those of operations that gather
    leaf: int
    shape: tuple[int, ...]
    step: Any  # by which its own pattern can be read off

    @property
    def size(self) -> int:
        return int(arrays.patterns.size_of(self.shape))


def by_element(op: Operation) -> bool:
    return op.family == "elementwise" or op is elementwise.mul


class Following(Calls):
    """Cuts a function where it is found that it can be cut."""

    def __init__(self, level: PatternLevel) -> None:
        self.level = level
        self.calls: list[Call] = []
        self.sources: list[Any] = [None]  # of each leaf; the first one is the input itself
        self.alike: list[int] = [0]
        self.middle: Middle | None = None
        self._replaced: Any = None  # the intermediate value, and the variable in place of it
        self._gathered = 0
        self._numbers: dict[Any, int] = {}
        self._alive: list[Any] = []  # so that no identity is used twice

    def gathered(self, op: Operation, operands: list[Any], options: dict[str, Any]) -> list[Any]:
        x, self._gathered = operands[0], self._gathered + 1
        if self.middle is not None:
            if x is not self._replaced[0]:
                return operands
            self.middle.numbers.append(self._gathered)
            return [self._replaced[1], *operands[1:]]
        if not self.follows(x) or raw(x).source is not None:
            return operands
        result = apply(op, operands, options)
        if raw(x).size * SMALLER > raw(result).size:
            return operands
        leaf, size, inputs = len(self.sources), raw(x).size, self.level.count
        self.middle = Middle(op.name, [self._gathered], leaf, tuple(x.shape), raw(x).pattern)
        source = arrays.arange(inputs, inputs + size, 1)
        self.sources.append(source)
        self.alike.append(-leaf)
        variable = Dependent(self.level, raw(x).value, steps.leaf(leaf, size), source=source)
        self._replaced = (x, wrap(variable))
        return [self._replaced[1], *operands[1:]]

    def follows(self, x: Any) -> bool:
        """Whether a value depends on the input, and may be replaced: a gradient that the function
        computes itself must still get to what it is taken by."""
        return is_of(self.level, x) and raw(x).moves and not x.requires_grad

    def is_copy(self, x: Any) -> bool:
        return self.follows(x) and raw(x).source is not None

    def may_move(self, op: Operation) -> bool:
        return op.family == "linear" or only_copies(op) or not op.has_rules

    def moves(self, op: Operation, outputs: list[Any]) -> bool:
        moving = [y for y in outputs if is_of(self.level, y) and raw(y).moves]
        if not all(self.is_copy(y) for y in moving):
            return False
        if not only_copies(op):
            self.calls.append(Call(op.name, None))
        return True

    def replaced(self, op: Operation, operands: list[Any], positions: list[int]) -> list[Any]:
        shapes = [tuple(operands[i].shape) for i in positions]
        if by_element(op):
            shapes = [_broadcast(operands)] * len(positions)
        cuts = []
        for i, shape in zip(positions, shapes, strict=True):
            x = operands[i]
            number = self._numbers.setdefault((id(x), shape), len(self._numbers) + 1)
            self._alive.append(x)
            if tuple(x.shape) != shape:
                x = linear.expand(x, size=shape)
            leaf = len(self.sources)
            self.sources.append(raw(x).source)
            self.alike.append(number)
            cuts.append(Cut(i, leaf, shape))
            operands[i] = wrap(Dependent(self.level, raw(x).value, steps.leaf(leaf, raw(x).size)))
        self.calls.append(Call(op.name, cuts))
        return operands


def _broadcast(operands: list[Any]) -> tuple[int, ...]:
    return arrays.broadcast_shapes(*[tuple(x.shape) for x in operands if isinstance(x, Tensor)])


def only_copies(op: Operation) -> bool:
    """Whether an operation does nothing but show or copy elements. How many of these there are
    depends on how values lie in memory, so they are not counted."""
    return op.view or op is copies.clone or op is linear.unsafe_view


class Plan(NamedTuple):
    """Where a function is cut, and which input elements arrive at the cuts."""

    calls: list[Call]
    blocks: Any
    output: tuple[int, ...]
    middle: Middle | None = None
    inner: Any = None  # the pattern of the intermediate value
    parts: Any = None  # how the Jacobian follows from both

    @property
    def cost(self) -> float:
        """In products with the Jacobian, as for colourings."""
        cost = float(arrays.bidirectional.REVERSE_COST * self.blocks.color_count)
        if self.middle is None:
            return cost
        share: float = self.middle.size / max(self.blocks.pattern.shape[0], 1)
        return cost + 1 + share * len(self.parts.columns)


def find(
    func: Callable[[Tensor], Any], x: Tensor, what: str
) -> tuple[Plan | None, Any, tuple[int, ...], bool]:
    """Where to cut a function, or None if it does not work row by row; the pattern of its Jacobian,
    the shape of its output, and whether the pattern is the one at ``x`` only."""
    watching: list[Following] = []

    def watch(level: PatternLevel) -> Following:
        watching.append(Following(level))
        return watching[0]

    followed = follow(func, x, True, what, watch)
    if followed.looked:
        return (None, *find_pattern(func, x, what))
    (following,) = watching
    sources, middle = following.sources[1:], following.middle
    inner = None
    if middle is not None:
        own = followed._replace(step=middle.step, shape=middle.shape)
        inner = own.pattern(sources[: middle.leaf - 1])
    needed = [] if followed.step is None else steps.needed(followed.step)
    leaves = {each.data for each in needed if each.kind == "leaf"}
    # What was not cut leads to the input itself, the first leaf, or to the intermediate value.
    uncut = {0} if middle is None else {0, middle.leaf}
    if followed.step is not None and not followed.wrote and not leaves & uncut:
        plan = _planned(following, followed, leaves, inner)
        if plan is not None:
            pattern = plan.blocks.pattern if plan.parts is None else plan.parts.pattern
            return plan, pattern, followed.shape, False
    return None, followed.pattern(sources, inner), followed.shape, False


def _planned(following: Following, found: Any, leaves: set[int], inner: Any) -> Plan | None:
    """A plan, if the function works row by row behind the cuts that its result depends on."""
    none = arrays.arange(0, 0, 1)
    sources = [s if i in leaves else none for i, s in enumerate(following.sources)]
    alike = [n if i in leaves else -i for i, n in enumerate(following.alike)]
    calls = [
        Call(name, cuts) if cuts is None or any(cut.leaf in leaves for cut in cuts)
        else Call(name, [])
        for name, cuts in following.calls
    ]  # fmt: skip
    middle = following.middle
    columns = found.inputs + (0 if middle is None else middle.size)
    shapes = {cut.leaf: cut.shape for _, cuts in calls for cut in cuts or ()}
    try:
        shaped = [shapes.get(i, ()) for i in range(len(sources))]
        blocks = row_blocks.Blocks(found.step, row_blocks.Leaves(sources, alike, shaped), columns)
    except row_blocks.NoBlocks:
        return None
    if middle is None:
        return Plan(calls, blocks, found.shape)
    parts = arrays.patterns.Composed(blocks.pattern, inner)
    if not parts.is_cheap:
        return None
    return Plan(calls, blocks, found.shape, middle, inner, parts)


class Cutting(Calls):
    """Gives the operations of a function the variables that a plan says."""

    def __init__(self, plan: Plan, x: Tensor) -> None:
        self.plan = plan
        self.count = 0  # of calls
        self.variables: dict[int, Tensor] = {}
        self._copies = {id(x): x}
        self._gathered = 0
        self._replaced: Any = (None, None)

    def gathered(self, op: Operation, operands: list[Any], options: dict[str, Any]) -> list[Any]:
        self._gathered += 1
        middle = self.plan.middle
        if middle is None or self._gathered not in middle.numbers:
            return operands
        x = operands[0]
        if self._gathered == middle.numbers[0]:
            if op.name != middle.name or tuple(x.shape) != middle.shape:
                raise changed()
            self._replaced = (x, x.detach())
            self._copies[id(self._replaced[1])] = self._replaced[1]
        elif x is not self._replaced[0]:
            raise changed()
        return [self._replaced[1], *operands[1:]]

    def is_copy(self, x: Any) -> bool:
        return id(x) in self._copies

    def may_move(self, op: Operation) -> bool:
        return only_copies(op) or self.next_call(op).cuts is None

    def next_call(self, op: Operation) -> Call:
        calls = self.plan.calls
        if self.count == len(calls) or op.name != calls[self.count].name:
            raise changed()
        return calls[self.count]

    def moves(self, op: Operation, outputs: list[Any]) -> bool:
        self.count += not only_copies(op)
        for y in outputs:
            if isinstance(y, Tensor) and y.is_floating_point():
                self._copies[id(y)] = y
        return True

    def replaced(self, op: Operation, operands: list[Any], positions: list[int]) -> list[Any]:
        cuts = self.next_call(op).cuts
        if cuts == []:  # its result does not matter behind the intermediate value
            self.count += 1
            return operands
        if cuts is None or positions != [cut.position for cut in cuts]:
            raise changed()
        self.count += 1
        for cut in cuts:
            x = operands[cut.position]
            shape = _broadcast(operands) if by_element(op) else tuple(x.shape)
            if shape != cut.shape:
                raise changed()
            variable = self.plan.blocks.variable_of[cut.leaf]
            if variable not in self.variables:
                x = x.detach()
                x = x if tuple(x.shape) == shape else linear.expand(x, size=shape)
                self.variables[variable] = as_tensor(raw(x)).requires_grad_()
            operands[cut.position] = self.variables[variable]
        return operands


class Reached(BaseException):
    """Ends a function at the intermediate value."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Reaching(Calls):
    """Runs a function as far as to its intermediate value."""

    def __init__(self, middle: Middle) -> None:
        self.middle = middle
        self._gathered = 0

    def handle(
        self, op: Operation, args: Sequence[Any], options: dict[str, Any], computed: Any
    ) -> Any:
        if op.name in GATHERING:
            self._gathered += 1
            if self._gathered == self.middle.numbers[0]:
                if op.name != self.middle.name or tuple(args[0].shape) != self.middle.shape:
                    raise changed()
                raise Reached(args[0])
        return apply(op, args, options, computed)


def up_to(func: Callable[[Tensor], Any], middle: Middle) -> Callable[[Tensor], Tensor]:
    """The intermediate value as a function of the input."""

    def value(x: Tensor) -> Tensor:
        try:
            with Reaching(middle):
                func(x)
        except Reached as reached:
            result: Tensor = reached.value
            return result
        raise changed()

    return value


def changed() -> RuntimeError:
    return RuntimeError(
        "the function calls other operations than when its pattern was computed, so the pattern is "
        "no longer valid. Create a new sparse Jacobian, or use mode='forward' or mode='reverse'."
    )


class Cuts:
    """The entries of a Jacobian from passes that go back to where a function is cut."""

    mode = "cut"
    never_changes = True  # so that a program that refers to it need not compare it at each call

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.row_colors = plan.blocks.row_colors
        self.column_colors = arrays.full((plan.blocks.pattern.shape[1],), -1, arrays.int64)

    def compressed(self, func: Callable[[Tensor], Any], x: Tensor) -> Any:
        """The gradients by all variables, a row for each colour."""
        plan, blocks = self.plan, self.plan.blocks
        x = x.detach()
        with Cutting(plan, x) as cutting, within(grad_enabled=True, inference=False):
            output = func(x)
        if cutting.count != len(plan.calls) or tuple(output.shape) != plan.output:
            raise changed()
        variables = [cutting.variables[i] for i in blocks.variables]
        seeds = wrap(arrays.coloring.seeds(blocks.row_colors, raw(output).dtype))
        parts = []
        for color, seed in enumerate(seeds):
            parts += grad(
                output, variables, seed.reshape(plan.output),
                retain_graph=color + 1 < len(seeds), allow_unused=True,
            )  # fmt: skip
        sized = zip(parts, variables * len(seeds), strict=True)
        flat = [linear.reshape(copies.zeros_like(v) if g is None else g, (-1,))
                for g, v in sized]  # fmt: skip
        found_all: Tensor = linear.cat(flat or [wrap(arrays.zeros((0,), raw(x).dtype))], dim=0)
        return found_all

    def values(self, compressed: Tensor, dtype: Any) -> Any:
        """The values of all entries, in the order of the pattern."""
        return self.plan.blocks.values(raw(compressed))


class Composed(Cuts):
    """As ``Cuts``, behind an intermediate value whose own Jacobian is found by ``products``."""

    def __init__(self, plan: Plan, products: Any) -> None:
        super().__init__(plan)
        self.products = products
        self.column_colors = products.column_colors

    def compressed(self, func: Callable[[Tensor], Any], x: Tensor) -> Any:
        assert self.plan.middle is not None
        before = self.products.compressed(up_to(func, self.plan.middle), x)
        return super().compressed(func, x), before

    def values(self, compressed: Any, dtype: Any) -> Any:
        behind, before = compressed
        inner = self.products.values(before, dtype)
        return self.plan.parts.values(super().values(behind, dtype), inner)
