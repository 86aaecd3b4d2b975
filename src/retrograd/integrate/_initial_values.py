"""Initial value problems: ``solve_ivp`` and ``odeint``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd.func._trees import flatten
from retrograd.integrate._branches import Crossing
from retrograd.integrate._trajectory import Grid, Trajectory, states
from retrograd.ops._batching import Batched
from retrograd.ops._operation import raw
from retrograd.ops.shapes import slicing
from retrograd.optimize._captures import is_live, representative
from retrograd.optimize._equations import doubles, vector, wide
from retrograd.optimize._points import as_data, on_cpu
from retrograd.tensor._conversion import as_tensor
from retrograd.tensor._tensor import Tensor

METHODS = ("RK45", "RK23", "DOP853", "Radau", "BDF", "LSODA")


class _Scipy(Trajectory):
    """A trajectory that ``scipy.integrate.solve_ivp`` computes."""

    known: Any = None  # SciPy's result, if its steps are to be taken again
    evaluated: Sequence[float] = ()  # the times at which it evaluated the right-hand side

    def solve(self, inputs: Sequence[Any]) -> tuple[Grid, Tensor]:
        first, last, y0, outputs, *values = inputs
        result = self.known
        if result is None:
            result = self.run(first, last, y0, values, dense_output=True)
            if not result.success:
                raise RuntimeError(f"solve_ivp: {result.message} There are no derivatives.")
            self.result = result
        times = [float(t) for t in result.t]
        wanted = times if outputs is None else [float(t) for t in outputs]
        sign = 1.0 if times[-1] >= times[0] else -1.0
        low, high = min(times), max(times)
        if self.known is not None:  # the time of an event is more precise than SciPy's
            slack = 1e-9 * (high - low)
            wanted = [min(max(t, low), high) if low - slack <= t <= high + slack else t
                      for t in wanted]  # fmt: skip
        if any(not low <= t <= high for t in wanted) and (
            self.known is not None or result.status != 1
        ):
            what = "times of t_eval must be within t_span."
            if self.known is not None:
                what = f"times that sol takes must be within [{low:g}, {high:g}]."
            raise ValueError(f"solve_ivp: the {what}")
        if result.status == 1:  # a terminal event ended it
            wanted = [t for t in wanted if sign * t <= sign * times[-1]]
        self.grid = Grid(times, wanted, result.sol, self.evaluated)
        if outputs is None:
            return self.grid, vector(result.y.T.copy(), y0)
        rows = [result.sol(t) for t in wanted]
        return self.grid, vector(arrays.solvers.rows(rows, y0.numel()), y0)

    def again(self) -> _Scipy:
        """The same trajectory with the steps that were taken, for other outputs."""
        found = copy.copy(self)
        found.known, found._known = self.result, {}
        found.has_outputs, found.count = True, self.count + (not self.has_outputs)
        return found

    def run(
        self, first: Tensor, last: Tensor, y0: Tensor, values: Sequence[Tensor], **more: Any
    ) -> Any:
        """SciPy's result."""

        def at(t: Any, y: Any) -> tuple[Tensor, Tensor]:
            return vector(t, y0), vector(y, y0)

        def event(g: Any) -> Any:
            call = lambda t, y, args: g(t, y, *args)
            found = lambda t, y: float(self.parameters.call(call, values, *at(t, y)))
            found.terminal = getattr(g, "terminal", False)  # type: ignore[attr-defined]
            found.direction = getattr(g, "direction", 0)  # type: ignore[attr-defined]
            return found

        evaluated: list[float] = []

        def rate(t: Any, y: Any) -> Any:
            found = doubles(self.rate, *at(t, y), *values)
            if not evaluated and not arrays.isfinite(found).all():  # SciPy would not come to an end
                raise RuntimeError(f"solve_ivp: fun is infinite or NaN at the start, t = {t:g}.")
            evaluated.append(t)
            return found

        self.evaluated = evaluated
        given: dict[str, Any] = {**self.options, **more}
        if self.method in arrays.integration.IMPLICIT:
            given["jac"] = lambda t, y: doubles(self.jacobian, *at(t, y), *values)
        if self.events:
            given["events"] = [event(g) for g in self.events]
        return arrays.integration.solve_ivp(
            rate, (float(first), float(last)), wide(y0), method=self.method, **given
        )

    def everything(self, t: Tensor, y: Tensor, args: Any) -> list[Any]:
        return [self.functions(t, y, args), *[g(t, y, *args) for g in self.events]]


def _with_events(trajectory: _Scipy, result: Any, inputs: list[Any]) -> tuple[list[Any], list[Any]]:
    """The times of events and the states at them, with derivatives."""
    first, _, y0, _, *live = inputs
    again = trajectory.again()
    grid = trajectory.grid
    if any(len(found) for found in trajectory.result.t_events):
        with trajectory.parameters.plainly():
            trajectory.look(grid, [representative(x) for x in inputs if x is not None])
        grid = grid.at_order(2)
    times: list[Any] = []
    found_states: list[Any] = []
    for event, found in zip(trajectory.events, trajectory.result.t_events, strict=True):
        rows = []
        for end in found:
            i = int(arrays.integration.segments(grid.times, [end])[0])
            start = first if i == 0 else y0.new_tensor(grid.times[i])
            y = y0
            if i > 0:
                y = states(again, [*inputs[:3], y0.detach().new_tensor([grid.times[i]]), *live])[0]
            crossing = _event(trajectory, grid, i, event, float(end))
            t = crossing.time(start, y, live)
            rows.append((t, crossing.state(t, start, y, live)))
        times.append(slicing.stack([t for t, _ in rows]) if rows else y0.new_zeros(0))
        none = y0.new_zeros(0, y0.numel())
        found_states.append(slicing.stack([y for _, y in rows]) if rows else none)
    return times, found_states


def _event(trajectory: _Scipy, grid: Grid, i: int, event: Any, end: float) -> Crossing:
    """When an event happens in step ``i``, near a time."""
    call = lambda t, y, args: event(t, y, *args)
    sign = 1.0 if grid.times[-1] >= grid.times[0] else -1.0

    def function(t: Tensor, y: Tensor, values: Sequence[Tensor]) -> Tensor:
        found: Tensor = trajectory.parameters.call(call, values, t, y)
        return found

    def state(t: Tensor, start: Tensor, y: Tensor, values: Sequence[Tensor]) -> Tensor:
        for piece in grid.pieces[i]:
            if piece is grid.pieces[i][-1] or sign * end <= sign * piece.end:
                return trajectory.stepped(grid, i, piece, end, start, t, y, values)
            to = trajectory.switch_time(grid, i, piece, start, y, values)
            y = trajectory.stepped(grid, i, piece, piece.end, start, to, y, values)
            start = to
        raise AssertionError("the last piece of a step has no switch")

    return Crossing(function, state, "an event", end, grid.jump)


def _number(t: Any, like: Tensor) -> Tensor:
    found: Tensor = on_cpu(as_tensor(t, dtype=like.dtype)).reshape(())
    return found


def _in_order(times: Tensor, first: Tensor, last: Tensor) -> bool:
    t, a, b = (raw(representative(x)) for x in (times, first, last))
    return bool(((t[1:] - t[:-1]) * (-1.0 if b < a else 1.0) >= 0).all())


def solve_ivp(
    fun: Callable[..., Any], t_span: Any, y0: Any, method: str = "RK45", t_eval: Any = None,
    dense_output: bool = False, events: Any = None, args: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """Solves an initial value problem, as ``scipy.integrate.solve_ivp`` does, with derivatives.

    The methods for stiff problems get the exact Jacobian. The solution is differentiable with
    respect to ``y0``, ``t_span``, ``t_eval``, ``args`` and tensors that ``fun`` uses and that were
    not passed to it, in both modes and to any order; so are the times of events and the states at
    them. Derivatives are those of the steps that were taken, with the step sizes as constants, and
    as accurate as the solution. Steps across a kink of ``fun``, such as that of ``relu``, are
    differentiated in two pieces. A jump of ``fun`` at a place that depends on what is
    differentiated is an error.

    Args:
        fun: The right-hand side: a function of the time, a Tensor of no dimensions, of the state,
            and of ``args``, written with Tensors. It returns a Tensor like ``y0``, or a list of the
            rates of each component.
        t_span: The first and the last time.
        y0: The state at the first time: a vector.
        method: "RK45", "RK23" or "DOP853"; for stiff problems "Radau", "BDF" or "LSODA".
        t_eval: The times to report; by default those of the steps.
        dense_output: Whether the result has a function ``sol`` that gives the state at any time.
        events: A function of time, state and ``args``, or several: where one is zero, an event
            happens. They may have attributes ``terminal`` and ``direction``, as in SciPy.
        args: Further arguments of ``fun`` and of events.
        options: As in SciPy: ``rtol``, ``atol``, ``max_step``, ``first_step`` and so on.

    Returns:
        SciPy's result: ``t``, ``y`` with a column for each time, ``t_events``, ``y_events``,
        ``sol``, ``success`` and so on. They are tensors if ``y0`` is a Tensor, or if they have
        derivatives.

    Example:
        >>> from retrograd.integrate import solve_ivp
        >>> k = torch.tensor(0.5, requires_grad=True)
        >>> result = solve_ivp(lambda t, y, k: -k * y, (0, 2), torch.ones(1), args=(k,), rtol=1e-6)
        >>> result.y[0, -1].detach()  # exp(-2 k)
        tensor(0.3679)
        >>> result.y[0, -1].backward(); k.grad
        tensor(-0.7358)
    """
    if method not in METHODS:
        raise ValueError(f"solve_ivp: expected a method of {', '.join(METHODS)}, got {method!r}.")
    given = isinstance(y0, Tensor)
    y = as_data(y0)
    if y.ndim != 1:
        raise ValueError(f"solve_ivp: y0 must be a vector, got the shape {list(y.shape)}.")
    if y.is_complex():
        raise TypeError("solve_ivp: y0 is complex. Solve for real and imaginary parts.")
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    functions = [] if events is None else [events] if callable(events) else list(events)
    first, last = (_number(t, y) for t in t_span)
    times = None if t_eval is None else on_cpu(as_tensor(t_eval, dtype=y.dtype))
    if times is not None and times.ndim != 1:
        raise ValueError(f"solve_ivp: t_eval must be a vector, got the shape {list(times.shape)}.")
    if times is not None and not _in_order(times, first, last):
        raise ValueError("solve_ivp: the times of t_eval must be in the order of t_span.")
    trajectory = _Scipy(fun, args, method, options, functions)
    known = not functions and trajectory.is_known(first, y)
    if not known:
        trajectory.parameters.look_at(trajectory.everything, first, y)
    trajectory.prepare()
    inputs = [first, last, y, times, *trajectory.parameters.live]
    trajectory.has_outputs = times is not None
    trajectory.count = len(inputs) - (times is None)
    if not any(is_live(x) for x in inputs):
        return _plain_result(trajectory, inputs, dense_output, given)
    if not known:
        trajectory.parameters.check(trajectory.everything, "solve_ivp", first, y)
    return _live_result(trajectory, inputs, dense_output)


def _plain_result(trajectory: _Scipy, inputs: list[Any], dense_output: bool, tensors: bool) -> Any:
    first, last, y, times = inputs
    wanted, places = (None, None) if times is None else arrays.integration.distinct(wide(times))
    result = trajectory.run(first, last, y, (), t_eval=wanted, dense_output=dense_output)
    if places is not None:
        places = places[places < len(result.t)]  # a terminal event may have ended it
        result.t, result.y = result.t[places], result.y[:, places]
    if tensors:
        result.t, result.y = vector(result.t, y), vector(result.y, y)
        if result.t_events is not None:
            result.t_events = [vector(t, y) for t in result.t_events]
            result.y_events = [vector(x, y) for x in result.y_events]
        if result.sol is not None:
            dense = result.sol
            result.sol = lambda t: vector(dense(raw(t) if isinstance(t, Tensor) else t), y)
    return result


def _live_result(trajectory: _Scipy, inputs: list[Any], dense_output: bool) -> Any:
    first, last, y, times, *_ = inputs
    batched = any(isinstance(raw(x), Batched) and not raw(x).same for x in flatten(inputs)[0]
                  if isinstance(x, Tensor))  # fmt: skip
    if batched and (trajectory.events or dense_output):
        raise RuntimeError(
            "solve_ivp: events and dense_output are not possible under vmap: the entries of a "
            "batch take steps of their own."
        )
    rows = states(trajectory, inputs)
    plain = trajectory.result
    result = arrays.integration.OdeResult(
        t=times, y=rows.T, sol=None, t_events=None, y_events=None, nfev=plain.nfev,
        njev=plain.njev, nlu=plain.nlu, status=plain.status, message=plain.message,
        success=plain.success,
    )  # fmt: skip
    if times is not None:
        result.t = times[: rows.shape[0]]
    elif not batched:
        inside = y.detach().new_tensor(trajectory.grid.times[1:-1])
        result.t = slicing.cat([first.reshape(1), inside, last.reshape(1)])
    if trajectory.events:
        result.t_events, result.y_events = _with_events(trajectory, result, inputs)
        if plain.status == 1:
            _end_at_event(trajectory, result, times)
    if dense_output:
        again = trajectory.again()
        result.sol = lambda t: _states_at(again, inputs, t)
    return result


def _end_at_event(trajectory: _Scipy, result: Any, times: Any) -> None:
    """Put the terminal event at the end, where steps are reported."""
    if times is not None:
        return
    end = trajectory.grid.times[-1]
    for found, t, y in zip(
        trajectory.result.t_events, result.t_events, result.y_events, strict=True
    ):
        if len(found) and float(found[-1]) == end:
            result.t = slicing.cat([result.t[:-1], t[-1:]])
            result.y = slicing.cat([result.y[:, :-1], y[-1:].T], 1)
            return


def _states_at(trajectory: _Scipy, inputs: list[Any], t: Any) -> Tensor:
    wanted = as_tensor(t, dtype=inputs[2].dtype)
    rows = states(trajectory, [*inputs[:3], wanted.reshape(-1), *inputs[4:]])
    found: Tensor = rows[0] if wanted.ndim == 0 else rows.T
    return found


def odeint(
    func: Callable[..., Any], y0: Any, t: Any, args: Any = (), *, tfirst: bool = False,
    rtol: float = 1.49012e-8, atol: float = 1.49012e-8, method: str = "LSODA", **options: Any,
) -> Any:  # fmt: skip
    """Solves an initial value problem, as ``scipy.integrate.odeint`` does, with derivatives.

    Args:
        func: The right-hand side: a function of the state, the time and ``args``, written with
            Tensors.
        y0: The state at ``t[0]``, of any shape.
        t: The times to report, in order.
        args: Further arguments of ``func``.
        tfirst: Whether ``func`` takes the time before the state.
        rtol: The relative tolerance.
        atol: The absolute tolerance.
        method: As for ``solve_ivp``.
        options: As for ``solve_ivp``.

    Returns:
        The states at all times, of shape ``(len(t), *y0.shape)``: see ``solve_ivp``.

    Raises:
        RuntimeError: if the integration fails.

    Example:
        >>> from retrograd.integrate import odeint
        >>> t = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
        >>> odeint(lambda y, t: -y, torch.ones(2, 1, dtype=torch.float64), t)[:, 0, 0]
        tensor([1.0000, 0.3679, 0.1353], dtype=torch.float64)
    """
    start = as_data(y0)
    shape = tuple(start.shape)
    times = on_cpu(as_tensor(t, dtype=start.dtype))
    if times.ndim != 1 or len(times) < 1:
        raise ValueError(f"odeint: t must be a vector of times, got the shape {list(times.shape)}.")

    def flat(t: Tensor, y: Tensor, *more: Any) -> Any:
        state = y.reshape(shape)
        rate = func(t, state, *more) if tfirst else func(state, t, *more)
        return rate.reshape(-1) if isinstance(rate, Tensor) and rate.shape == shape else rate

    args = args if isinstance(args, tuple) else (args,)
    result = solve_ivp(
        flat, (times[0], times[-1]), start.reshape(-1), method, times, args=args, rtol=rtol,
        atol=atol, **options,
    )  # fmt: skip
    if not result.success:
        raise RuntimeError(f"odeint: {result.message}")
    states = result.y.T.reshape(len(times), *shape)
    return states if isinstance(y0, Tensor) or is_live(states) else raw(states)
