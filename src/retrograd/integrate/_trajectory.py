"""The solution of an initial value problem as a differentiable function.

SciPy chooses the steps. A derivative is that of the steps that were taken, at the times where they
were taken: what a method computed, differentiated exactly (the "discrete adjoint"). A backward pass
keeps the states between steps only, and one step at a time in full. Implicit methods have the same
derivatives as Radau's method on their steps, which is of the highest order among them. Steps across
a kink of the right-hand side are differentiated in pieces (``_branches.py``).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd._modes import modes
from retrograd.autograd._wrap import wrap
from retrograd.autograd.function import Function
from retrograd.func._forward import jvp
from retrograd.func._jacobians import jacfwd
from retrograd.func._programs import Evaluation
from retrograd.func._reverse import vjp
from retrograd.integrate._branches import Branches, Crossing
from retrograd.integrate._steps import Explicit, Implicit
from retrograd.ops._operation import raw
from retrograd.ops.linear import stack
from retrograd.ops.shapes import slicing
from retrograd.optimize._captures import Parameters, outside, representative
from retrograd.optimize._programs import fits, kept
from retrograd.tensor._conversion import as_tensor
from retrograd.tensor._tensor import Tensor

Piece = arrays.integration.Piece
MOST_KNOWN = 1000  # solutions whose steps are kept, such as those of a batch


def _rate_of(fun: Callable[..., Any]) -> Callable[[Tensor, Tensor, Any], Tensor]:
    """The right-hand side, of time, state and the arguments of the user's function."""

    def rate(t: Tensor, y: Tensor, args: Any) -> Tensor:
        found = fun(t, y, *args)
        if isinstance(found, (list, tuple)):
            found = slicing.stack([as_tensor(x, dtype=y.dtype) for x in found])
        if not isinstance(found, Tensor):
            raise TypeError(
                "solve_ivp: fun must return a Tensor, or a list of Tensors and numbers, got "
                f"{type(found).__name__}. Write it with operations on Tensors, so that it can be "
                "differentiated."
            )
        if found.shape != y.shape:
            raise ValueError(
                f"solve_ivp: fun must return a Tensor of the shape of y0, {list(y.shape)}, got "
                f"{list(found.shape)}."
            )
        return found

    return rate


class Grid:
    """The steps that were taken, and where outputs are between them."""

    def __init__(
        self, times: Sequence[float], outputs: Sequence[float], states: Any,
        evaluated: Sequence[float],
    ) -> None:  # fmt: skip
        """``states``: a function of a time that gives the state there, approximately.
        ``evaluated``: the times at which the right-hand side was evaluated, in that order."""
        self.evaluated = evaluated
        self.times, self.outputs, self.states = list(times), list(outputs), states
        self.steps = max(len(self.times) - 1, 1)
        self.is_checked = False  # whether jumps and kinks of the right-hand side were looked for
        self.jump = ""  # what is wrong with it, if there is a jump that moves
        self.moving = False  # whether the times of kinks move with the inputs
        of_step = [int(i) for i in arrays.integration.segments(self.times, self.outputs)]
        self.within: list[list[int]] = [[] for _ in range(self.steps)]
        for k, i in enumerate(of_step):
            self.within[i].append(k)
        pairs = zip(self.times, self.times[1:], strict=False)
        self.pieces = [[Piece(start, end, None, -1)] for start, end in pairs]

    def at_order(self, order: int) -> Grid:
        """The same for derivatives of an order: from the second on, they depend on how the times
        of kinks move."""
        if order < 2 or self.moving or all(len(parts) == 1 for parts in self.pieces):
            return self
        found = copy.copy(self)
        found.moving = True
        found.pieces = [arrays.integration.with_short_ends(parts) for parts in self.pieces]
        return found

    def parts(self, i: int) -> list[tuple[Piece, list[int]]]:
        """The pieces of a step, each with the outputs in it."""
        pieces = self.pieces[i]
        if len(pieces) == 1:
            return [(pieces[0], self.within[i])]
        sign = 1.0 if self.times[-1] >= self.times[0] else -1.0
        left, found = list(self.within[i]), []
        for piece in pieces:
            is_last = piece is pieces[-1]
            own = [k for k in left if is_last or sign * self.outputs[k] <= sign * piece.end]
            left = [k for k in left if k not in own]
            found.append((piece, own))
        return found

    def expected(self, t: float, end: float, places: Sequence[float], step: int = -1) -> Any:
        """The states between two times, at shares of the way, a row for each. ``step``: the number
        of the step that the times are in, if known."""
        times = [t + c * (end - t) for c in places]
        between = getattr(self.states, "interpolants", ())
        if step >= 0 and len(between) == self.steps:
            return arrays.ascontiguous(between[step](arrays.asarray(times)).T)
        return arrays.solvers.rows([self.states(x) for x in times], 0)


class Trajectory:
    """An initial value problem. Inputs are the first and the last time, the state at the first one,
    the times of outputs or None, and the values of the parameters."""

    def __init__(
        self, fun: Callable[..., Any], args: tuple[Any, ...], method: str, options: dict[str, Any],
        events: Sequence[Any],
    ) -> None:  # fmt: skip
        self.fun, self.method, self.options, self.events = fun, method, options, events
        self.parameters = Parameters(args)
        self.has_outputs = False  # whether times of outputs are among the inputs
        self.count = 0  # of inputs
        self.grid: Any = None  # of the last solution
        self.result: Any = None  # SciPy's
        self._known: dict[Any, tuple[Grid, Tensor]] = {}
        self.functions = _rate_of(fun)

    def is_known(self, t: Tensor, y: Tensor) -> bool:
        """Whether there is a program of the right-hand side, which can see the same as it did in an
        earlier solve, so that there is nothing that it has captured."""
        at = [representative(x) for x in (t, y, *self.parameters.live)]
        key = self.parameters.key
        named = None if key is None else ("rate", self.method, key)
        return not modes.levels and fits(self.fun, named, *at)

    def prepare(self) -> None:
        """Make what is called again and again, when all parameters have been found."""
        rate = self.parameters.of_values(self.functions)
        key = self.parameters.key

        def make(what: str, function: Callable[..., Any], kind: str) -> Evaluation:
            named = None if key is None else (what, self.method, key)
            return kept(self.fun, named, lambda: function, kind)

        implicit = self.method in arrays.integration.IMPLICIT

        def step(rate: Any, make: Any) -> Any:
            return Implicit(rate, make) if implicit else Explicit(self.method, rate, make)

        self.step = step(rate, make)
        self.rate = make("rate", rate, "value")
        self.jacobian = make("jacobian of the rate", jacfwd(rate, argnums=1), "matrix")
        self.branches = Branches(rate, self.rate, make, step)

    # -- one step after the other ----------------------------------------------------------------

    def segment(self, grid: Grid, i: int, y: Tensor, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The state after step ``i``, from the one before it, and the outputs within the step."""
        first, last, _, outputs, *values = inputs
        ends = grid.times
        start = first if i == 0 else y.new_tensor(ends[i])
        end = last if i == grid.steps - 1 else y.new_tensor(ends[i + 1])
        before, found = y, {}
        for piece, own in grid.parts(i):
            is_last = piece is grid.pieces[i][-1]
            to = end if is_last else self.switch_time(grid, i, piece, start, y, values)
            after = self.stepped(grid, i, piece, piece.end, start, to, y, values)
            for k in own:
                at = grid.outputs[k]
                if outputs is None and at in (ends[i], ends[i + 1]):
                    found[k] = before if at == ends[i] else after
                else:
                    t = y.new_tensor(at) if outputs is None else outputs[k]
                    found[k] = self.stepped(grid, i, piece, at, start, t, y, values)
            start, y = to, after
        return y, *[found[k] for k in grid.within[i]]

    def stepped(
        self, grid: Grid, i: int, piece: Piece, end: float, start: Tensor, to: Tensor, y: Tensor,
        values: Sequence[Tensor],
    ) -> Tensor:  # fmt: skip
        """A step from the start of a piece to another time, which are also given as numbers."""
        guess = self.guess(grid, piece.start, end, i)
        if piece.decisions is not None:
            found = self.branches.stepped(start, to - start, y, piece.decisions, values, guess)
            if found is not None:
                return found
        whole: Tensor = self.step(start, to - start, y, values, guess)
        return whole

    def switch_time(
        self, grid: Grid, i: int, piece: Piece, start: Tensor, y: Tensor, values: Sequence[Tensor]
    ) -> Tensor:
        """When a piece ends."""
        if not grid.moving or piece.switch < 0:
            return y.new_tensor(piece.end)
        margin = self.branches.margin(piece)
        state = lambda t, start, y, values: self.stepped(
            grid, i, piece, piece.end, start, t, y, values
        )
        return Crossing(margin, state, "a kink", piece.end).time(start, y, values)

    def guess(self, grid: Grid, t: float, end: float, step: int = -1) -> Any:
        """The states that are expected at the stages of an implicit step, a row for each."""
        if not isinstance(self.step, Implicit):
            return None
        return grid.expected(t, end, self.step.times, step)

    def pulled(
        self, grid: Grid, i: int, piece: Piece, end: float, t: Any, h: Any, y: Any,
        values: Sequence[Tensor], g: Any,
    ) -> Sequence[Any]:  # fmt: skip
        """The gradients of ``stepped`` by ``t``, ``h``, ``y`` and the values."""
        guess = self.guess(grid, piece.start, end, i)
        if piece.decisions is not None:
            found = self.branches.pulled(t, h, y, piece.decisions, values, guess, g)
            if found is not None:
                return found
        whole: Sequence[Any] = self.step.pulled(t, h, y, values, guess, g)
        return whole

    def replay(self, grid: Grid, inputs: Sequence[Any]) -> Tensor:
        """All outputs, one row for each."""
        y = inputs[2]
        found: list[Any] = [None] * len(grid.outputs)
        for i in range(grid.steps):
            y, *rows = self.segment(grid, i, y, inputs)
            for k, row in zip(grid.within[i], rows, strict=True):
                found[k] = row
        result: Tensor = stack(found, dim=0)
        return result

    # -- what is computed from plain values ------------------------------------------------------

    def inputs_of(self, args: Sequence[Any]) -> list[Any]:
        """The inputs, with None for times of outputs that were not given."""
        return list(args) if self.has_outputs else [*args[:3], None, *args[3:]]

    def solution(self, args: Sequence[Any]) -> tuple[Grid, Tensor]:
        """The steps and the outputs for plain inputs. Those of the last few are kept: derivatives
        need the steps again."""
        key = tuple(raw(x).tobytes() for x in args)
        if key not in self._known:
            if len(self._known) >= MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[key] = self.solve(self.inputs_of(args))
        return self._known[key]

    def check(self, grid: Grid, args: Sequence[Any]) -> None:
        """RuntimeError if the right-hand side jumps along the trajectory, where the state or the
        parameters say: then derivatives have a term for the jump, which the steps lack."""
        self.look(grid, args)
        if grid.jump:
            raise RuntimeError(grid.jump)

    def look(self, grid: Grid, args: Sequence[Any]) -> None:
        """Find jumps and kinks along the trajectory, so that no piece of a step has one inside."""
        if grid.is_checked:
            return
        first, _, y0, _, *values = self.inputs_of(args)
        dtype = raw(first).dtype
        floats = [i for i, v in enumerate(values) if v.is_floating_point()]

        def rate(t: float, moved: bool = False) -> Any:
            at = [arrays.asarray(grid.states(float(t)), dtype), *[raw(values[i]) for i in floats]]
            y, *others = arrays.integration.nearby(at) if moved else at
            given = _with(values, floats, [wrap(x) for x in others])
            (found,) = self.rate.arrays(wrap(arrays.asarray(t, dtype)), wrap(y), *given)
            return arrays.asarray(found, arrays.float64)

        pairs = arrays.integration.jumps_within_steps(rate, grid.times, grid.evaluated, dtype)
        if self.branches.exist(first, y0, values):
            near, grid.pieces = self.branches.pieces(grid.states, grid.times, values, dtype)
            pairs += arrays.integration.jumps_among(rate, near, grid.times, dtype)
        for pair in pairs:
            before, after = ([rate(t, moved) for t in pair] for moved in (False, True))
            if arrays.integration.has_moved(before, after, dtype):
                grid.jump = (
                    f"solve_ivp: fun jumps at t = {pair[0]:.6g}, at a state or a time that depends "
                    "on what to differentiate by. Derivatives then have a term for the jump, which "
                    "is not known. End there by a terminal event, and go on from its time and "
                    "state with what fun is after it."
                )
                break
        grid.is_checked = True

    def solve(self, inputs: Sequence[Any]) -> tuple[Grid, Tensor]:
        """SciPy's steps and outputs."""
        raise NotImplementedError


# -- what is differentiated ----------------------------------------------------------------------


class States:
    """The outputs of a trajectory, as a function of its inputs."""

    order = 0  # of the derivative

    def __init__(self, trajectory: Trajectory) -> None:
        self.trajectory = trajectory

    def value(self, grid: Grid, args: Sequence[Any]) -> Tensor:
        """From plain values."""
        return self.trajectory.solution(args)[1]

    def __call__(self, grid: Grid, args: Sequence[Any]) -> Tensor:
        """As a differentiable function."""
        return self.trajectory.replay(grid, self.trajectory.inputs_of(args))


class Pushed:
    """The tangent of a function, as a function of its arguments and of their tangents."""

    def __init__(self, of: Any, places: Sequence[int], count: int) -> None:
        self.of, self.places, self.count = of, places, count
        self.order = of.order + 1

    def __call__(self, grid: Grid, args: Sequence[Any]) -> Tensor:
        at, tangents = args[: self.count], args[self.count :]
        f = lambda *some: self.of(grid, _with(at, self.places, some))
        found: Tensor = jvp(f, tuple(at[i] for i in self.places), tuple(tangents))[1]
        return found

    value = __call__


class Pulled:
    """The gradients of a function by some of its arguments, as one vector: a function of its
    arguments and of the gradient of its result."""

    def __init__(self, of: Any, places: Sequence[int]) -> None:
        self.of, self.places = of, places
        self.order = of.order + 1

    def __call__(self, grid: Grid, args: Sequence[Any]) -> Tensor:
        *at, g = args
        f = lambda *some: self.of(grid, _with(at, self.places, some))
        return _flat(vjp(f, *[at[i] for i in self.places])[1](g))

    def value(self, grid: Grid, args: Sequence[Any]) -> Tensor:
        if not isinstance(self.of, States):
            return self(grid, args)
        *at, g = args
        return self._step_by_step(self.of.trajectory, grid, at, g)

    def _step_by_step(
        self, trajectory: Trajectory, grid: Grid, at: Sequence[Any], g: Tensor
    ) -> Tensor:
        """Gradients that are carried back through one step at a time, from the states between."""
        inputs = trajectory.inputs_of(at)
        first, last, y0 = (raw(x) for x in inputs[:3])
        outputs: Any = None if inputs[3] is None else raw(inputs[3])
        values = inputs[4:]
        number: Callable[[float], Any] = lambda t: arrays.asarray(t, y0.dtype)[()]
        ends, by_outputs = grid.times, [0.0 * last for _ in grid.outputs]
        by_first, by_last, by_values = 0.0 * first, 0.0 * last, [0.0 * raw(v) for v in values]
        states = [y0, *arrays.integration.states_between(grid.states, ends, y0.dtype)]
        carried = 0.0 * y0
        g = raw(g.contiguous())  # so that one program serves all steps
        for i in reversed(range(grid.steps)):
            parts = grid.parts(i)
            inner = [piece.start for piece, _ in parts[1:]]
            begun = [states[i], *arrays.integration.states_at(grid.states, inner, y0.dtype)]
            for j in reversed(range(len(parts))):
                piece, own = parts[j]
                is_first, is_last = i == j == 0, i == grid.steps - 1 and j == len(parts) - 1
                start = first if is_first else number(piece.start)
                end = last if is_last else number(piece.end)
                arrived, carried = carried, 0.0 * y0
                steps: list[Any] = []  # to outputs within this one
                for k in own:
                    if outputs is None and grid.outputs[k] == ends[i + 1]:
                        arrived = arrived + g[k]
                    elif outputs is None and grid.outputs[k] == ends[i]:
                        carried = carried + g[k]
                    else:
                        to = number(grid.outputs[k]) if outputs is None else outputs[k]
                        steps.append((k, grid.outputs[k], to, g[k]))
                for output, time, to, gradient in [*steps, (None, piece.end, end, arrived)]:
                    by_start, by_length, by_y, *others = trajectory.pulled(
                        grid, i, piece, time, start, to - start, begun[j], values, gradient
                    )
                    carried = carried + by_y
                    by_values = [a + b for a, b in zip(by_values, others, strict=True)]
                    if is_first:
                        by_first = by_first + by_start - by_length
                    if output is not None:
                        by_outputs[output] = by_length
                    elif is_last:
                        by_last = by_length
        given = [arrays.asarray(by_outputs, y0.dtype)] if trajectory.has_outputs else []
        found = [by_first, by_last, carried, *given, *by_values]
        return _flat([wrap(found[i]) for i in self.places])


def _with(args: Sequence[Any], places: Sequence[int], some: Sequence[Any]) -> list[Any]:
    whole = list(args)
    for i, x in zip(places, some, strict=True):
        whole[i] = x
    return whole


def _flat(parts: Sequence[Tensor]) -> Tensor:
    found: Tensor = slicing.cat([x.reshape(-1) for x in parts])
    return found


class Replayed(Function):
    """A function of the steps of a trajectory and of tensors, of which the first are the inputs of
    the trajectory. It is evaluated from plain values only, so that each entry of a batch has the
    steps that SciPy took for it; its derivatives are functions of the same kind."""

    @staticmethod
    def forward(trajectory: Trajectory, function: Any, *args: Tensor) -> Tensor:
        def replayed(*args: Tensor) -> Tensor:
            with trajectory.parameters.plainly():
                grid, _ = trajectory.solution(args[: trajectory.count])
                if not isinstance(function, States):
                    trajectory.check(grid, args[: trajectory.count])
                found: Tensor = function.value(grid.at_order(function.order), args).detach()
            return found

        return outside("solve_ivp", replayed, *args)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.trajectory, ctx.replayed, *args = inputs
        ctx.save_for_backward(*args)
        ctx.save_for_forward(*args)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        found: list[Any] = [None] * len(ctx.needs_input_grad)
        args = ctx.saved_tensors
        places = [
            i for i, x in enumerate(args) if ctx.needs_input_grad[2 + i] and x.is_floating_point()
        ]
        if g is None or not places:
            return tuple(found)
        pulled = Pulled(ctx.replayed, places)
        flat = Replayed.apply(ctx.trajectory, pulled, *args, g)
        parts = slicing.split(flat, [args[i].numel() for i in places])
        for i, part in zip(places, parts, strict=True):
            found[2 + i] = part.reshape(args[i].shape)
        return tuple(found)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        args, moving = ctx.saved_tensors, tangents[2:]
        places = [i for i, t in enumerate(moving) if t is not None]
        if not places:
            return None
        pushed = Pushed(ctx.replayed, places, len(args))
        return Replayed.apply(ctx.trajectory, pushed, *args, *[moving[i] for i in places])

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any, **_: Any) -> Any:
        rows = []
        for i in range(info.batch_size):
            entry = [a if d is None else a.select(d, i) for a, d in zip(args, in_dims, strict=True)]
            rows.append(Replayed.apply(*entry))
        if len({tuple(row.shape) for row in rows}) > 1:
            raise RuntimeError(
                "solve_ivp: the entries of a batch take different numbers of steps. Pass t_eval, "
                "so that their solutions have one shape."
            )
        return stack(rows, dim=0), 0


def states(trajectory: Trajectory, inputs: Sequence[Any]) -> Tensor:
    """The outputs of a trajectory, one row for each, with derivatives."""
    args = [x for x in inputs if x is not None]
    found: Tensor = Replayed.apply(trajectory, States(trajectory), *args)
    return found
