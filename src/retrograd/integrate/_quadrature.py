"""``quad``: integrals, differentiable with respect to limits and parameters.

The derivative of an integral by a parameter is the integral of the derivative, so derivatives of
any order are integrals in their turn, computed to the same tolerance.

That holds unless the integrand jumps at a place that depends on the parameter. So before a
derivative is computed, the integrand is searched for jumps, and for each it is found out whether it
stays where it is when the parameters move. If not, that is an error. It is none if the place is
given by ``points``: the integral is split there, and the limits of its parts move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd.autograd._wrap import wrap
from retrograd.autograd.function import Function
from retrograd.func._forward import jvp
from retrograd.func._reverse import vjp
from retrograd.ops._operation import raw
from retrograd.ops.linear import stack
from retrograd.ops.shapes import slicing
from retrograd.optimize._captures import Parameters, is_live, outside, representative
from retrograd.optimize._equations import as_args, vector
from retrograd.optimize._points import on_cpu
from retrograd.tensor._conversion import as_tensor
from retrograd.tensor._tensor import Tensor

MOST_KNOWN = 100  # integrals whose samples are kept, such as those of a batch


class _Integrand:
    """A function of a number and of the values of parameters, which returns a vector."""

    def __init__(
        self, call: Callable[[Tensor, Sequence[Tensor]], Tensor], options: dict[str, Any],
        parameters: Parameters, mesh: Callable[..., Sequence[float]] | None = None,
    ) -> None:  # fmt: skip
        """``mesh`` is called with the limits and the values before the integral is computed, and
        gives the places between subintervals to begin with."""
        self.call, self.options, self.parameters = call, options, parameters
        self.mesh = mesh
        self.error = 0.0  # that SciPy estimated
        self._known: dict[Any, Any] = {}

    def derived(
        self, call: Callable[[Tensor, Sequence[Tensor]], Tensor],
        mesh: Callable[..., Sequence[float]],
    ) -> _Integrand:  # fmt: skip
        return _Integrand(call, self.options, self.parameters, mesh)

    def integral(self, low: Tensor, high: Tensor, values: Sequence[Tensor]) -> Any:
        """What SciPy finds, from plain values."""
        key = tuple([raw(x).tobytes() for x in (low, high, *values)])
        if key not in self._known:
            if len(self._known) >= MOST_KNOWN:
                del self._known[next(iter(self._known))]
            mesh = () if self.mesh is None else self.mesh(low, high, values)
            self._known[key] = arrays.integration.integral(
                lambda x: self.at(vector(x, low), values), float(low), float(high), self.options,
                mesh,
            )  # fmt: skip
        return self._known[key]

    def at(self, x: Tensor, values: Sequence[Tensor]) -> Any:
        return arrays.asarray(raw(self.call(x, values)), arrays.float64)

    def mesh_without_jumps(
        self, low: Tensor, high: Tensor, values: Sequence[Tensor], moved: Sequence[Tensor],
        weights: Any = 1.0,
    ) -> Sequence[float]:  # fmt: skip
        """RuntimeError if the integrand, times weights, jumps at a place that is another one for
        values that have moved a little; else the places between subintervals of the integral,
        where its derivatives are steep, too."""
        found = self.integral(low, high, values)
        at: Callable[..., Any] = lambda x, values: self.at(vector(x, low), values)
        points = self.options["points"] or ()
        for left, right in arrays.integration.jumps(
            lambda x: at(x, values), found.samples, points, raw(low).dtype
        ):
            before, after = ([weights * at(x, v) for x in (left, right)] for v in (values, moved))
            if arrays.integration.has_moved(before, after, raw(low).dtype):
                raise RuntimeError(
                    f"quad: the integrand jumps at x = {left:.6g}, a place that depends on what to "
                    "differentiate by. The derivative then has a term for the jump, which is not "
                    "known. Pass the place, as a Tensor that depends on the same, by points."
                )
        return list(found.mesh)


def _split(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    parts = slicing.split(flat, [x.numel() for x in like])
    return [part.reshape(x.shape) for part, x in zip(parts, like, strict=True)]


class _Integral(Function):
    """The integral of each element of what an integrand returns."""

    @staticmethod
    def forward(integrand: _Integrand, low: Tensor, high: Tensor, *values: Tensor) -> Tensor:
        def integral(low: Tensor, high: Tensor, *values: Tensor) -> Tensor:
            with integrand.parameters.plainly():
                found = integrand.integral(low, high, values)
            integrand.error = found.error
            return vector(found.value, low)

        return outside("quad", integral, low, high, *values)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.integrand, *kept = inputs
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        if g is None:
            return (None,) * len(ctx.needs_input_grad)
        low, high, *values = ctx.saved_tensors
        of: _Integrand = ctx.integrand
        _, by_low, by_high, *needed = ctx.needs_input_grad
        found: list[Any] = [None, None, None, *[None] * len(values)]
        if by_low:
            found[1] = -_pulled(g, _at_limit(of, low, high, values))
        if by_high:
            found[2] = _pulled(g, _at_limit(of, high, low, values))
        places = [i for i, v in enumerate(values) if needed[i] and v.is_floating_point()]
        if places:

            def gradient(x: Tensor, all_values: Sequence[Tensor]) -> Tensor:
                g, *values = all_values
                one = lambda *some: of.call(x, _with(values, places, some))
                pulled = vjp(one, *[values[i] for i in places])[1](g)
                flat: Tensor = slicing.cat([part.reshape(-1) for part in pulled])
                return flat

            def mesh(low: Tensor, high: Tensor, all_values: Sequence[Tensor]) -> Sequence[float]:
                g, *values = all_values
                moved = arrays.integration.nearby([raw(values[i]) for i in places])
                there = _with(values, places, [wrap(x) for x in moved])
                return of.mesh_without_jumps(low, high, values, there, raw(g))

            whole = _Integral.apply(of.derived(gradient, mesh), low, high, g, *values)
            for i, part in zip(places, _split(whole, [values[i] for i in places]), strict=True):
                found[3 + i] = part
        return tuple(found)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        low, high, *values = ctx.saved_tensors
        of: _Integrand = ctx.integrand
        _, of_low, of_high, *moving = tangents
        total: Any = None
        for at, other, t, sign in ((low, high, of_low, -1.0), (high, low, of_high, 1.0)):
            value = None if t is None else _at_limit(of, at, other, values)
            if value is not None:
                part = sign * t * value
                total = part if total is None else total + part
        places = [i for i, t in enumerate(moving) if t is not None]
        if places:

            def moved(x: Tensor, all_values: Sequence[Tensor]) -> Tensor:
                directions, values = all_values[: len(places)], all_values[len(places) :]
                one = lambda *some: of.call(x, _with(values, places, some))
                found: Tensor = jvp(one, tuple(values[i] for i in places), tuple(directions))[1]
                return found

            def mesh(low: Tensor, high: Tensor, all_values: Sequence[Tensor]) -> Sequence[float]:
                directions, values = all_values[: len(places)], all_values[len(places) :]
                pairs = [(raw(values[i]), raw(t)) for i, t in zip(places, directions, strict=True)]
                moved = [wrap(arrays.integration.along(v, t)) for v, t in pairs]
                return of.mesh_without_jumps(low, high, values, _with(values, places, moved))

            part = _Integral.apply(
                of.derived(moved, mesh), low, high, *[moving[i] for i in places], *values
            )
            total = part if total is None else total + part
        return total

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any, **_: Any) -> Any:
        rows = [
            _Integral.apply(
                *[a if d is None else a.select(d, i) for a, d in zip(args, in_dims, strict=True)]
            )
            for i in range(info.batch_size)
        ]
        return stack(rows, dim=0), 0


def _pulled(g: Tensor, value: Tensor | None) -> Tensor:
    found: Tensor = 0.0 * g.sum() if value is None else (g * value).sum()
    return found


def _at_limit(of: _Integrand, at: Tensor, other: Tensor, values: Sequence[Tensor]) -> Tensor | None:
    """How the integral moves with a limit: by the integrand next to it, on the side of the other
    limit, since it may jump there; not at all at infinity. Infinite values are those at the limit
    itself."""
    if _is_infinite(at):
        return None
    fixed = at.detach()
    found = of.call(at + (fixed.nextafter(other.detach()) - fixed), values)
    edge = of.call(fixed, [v.detach() for v in values]).detach()
    chosen: Tensor = edge.where(edge.isinf(), found)
    return chosen


def _is_infinite(x: Tensor) -> bool:
    shared = raw(x)
    plain = shared if arrays.is_raw(shared) else getattr(shared, "shared", None)
    return plain is not None and math.isinf(float(plain))


def _with(values: Sequence[Any], places: Sequence[int], some: Sequence[Any]) -> list[Any]:
    whole = list(values)
    for i, x in zip(places, some, strict=True):
        whole[i] = x
    return whole


def quad(
    func: Callable[..., Any], a: Any, b: Any, args: Any = (), *, epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8, limit: int = 50, points: Any = None,
) -> tuple[Any, float]:  # fmt: skip
    """Integrates a function, as ``scipy.integrate.quad`` does, with derivatives.

    The integral is differentiable with respect to the limits, to ``args``, and to tensors that
    ``func`` uses and that were not passed to it, in both modes and to any order.

    Args:
        func: A function of a Tensor of no dimensions and of ``args``, written with Tensors, that
            returns a Tensor of no dimensions. It may also return a Tensor of any shape, each
            element of which is integrated.
        a: The lower limit; may be ``-inf``.
        b: The upper limit; may be ``inf``.
        args: Further arguments of ``func``.
        epsabs: The absolute tolerance.
        epsrel: The relative tolerance.
        limit: The largest number of subintervals.
        points: Where ``func`` may have singularities or jumps, between the limits. Where a jump
            depends on what to differentiate by, pass its place as a Tensor that depends on the
            same: then the derivative contains what the jump adds to it.

    Returns:
        The integral, as a Tensor, and an estimate of its absolute error.

    Raises:
        RuntimeError: when a derivative is asked for, and ``func`` jumps at a place that depends on
            what to differentiate by, which is not one of ``points``.

    Example:
        >>> import math
        >>> from retrograd.integrate import quad
        >>> k = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
        >>> value, error = quad(lambda x, k: torch.exp(-k * x), 0, math.inf, args=(k,))
        >>> value.backward(); value.detach(), k.grad  # 1 / k, -1 / k²
        (tensor(0.5000, dtype=torch.float64), tensor(-0.2500, dtype=torch.float64))
    """
    given = [x for x in (a, b, *as_args(args)) if isinstance(x, Tensor) and x.is_floating_point()]
    dtype = given[0].dtype if given else None
    low, high = (_limit(x, dtype) for x in (a, b))
    parameters = Parameters(as_args(args))
    start = _inside(low, high)
    first = parameters.look_at(lambda x, args: func(x, *args), start)
    if not isinstance(first, Tensor):
        raise TypeError(
            f"quad: func must return a Tensor, got {type(first).__name__}. Write it with "
            "operations on Tensors, so that it can be differentiated."
        )
    shape = tuple(first.shape)
    flat = lambda x, args: func(x, *args).reshape(-1)
    live = parameters.live
    if live or is_live(low) or is_live(high):
        parameters.check(flat, "quad", start)
    moving, fixed = _split_points(points, low)
    integrand = _Integrand(
        lambda x, values: parameters.call(flat, values, x),
        {"epsabs": epsabs, "epsrel": epsrel, "limit": limit, "points": fixed}, parameters,
    )  # fmt: skip
    total, error = None, 0.0
    for start, end in _parts(low, high, moving):
        found = _Integral.apply(integrand, start, end, *live)
        total = found if total is None else total + found
        error += integrand.error
    assert total is not None
    return total.reshape(shape), error


def _split_points(points: Any, low: Tensor) -> tuple[list[Tensor], Any]:
    """The points that can be differentiated by, and the others as numbers, or None."""
    if points is None:
        return [], None
    given = list(points.reshape(-1).unbind()) if isinstance(points, Tensor) else list(points)
    moving = [as_tensor(p, dtype=low.dtype).reshape(()) for p in given if is_live(p)]
    fixed = [float(p) for p in given if not is_live(p)]
    return moving, (fixed if fixed or not moving else None)


def _parts(low: Tensor, high: Tensor, points: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """The intervals between points, in order. Points that are not between the limits do not
    count."""
    if not points:
        return [(low, high)]
    first, last = low.minimum(high), low.maximum(high)
    down = bool(representative(low) > representative(high))
    between = slicing.stack(points).maximum(first).minimum(last)
    inner = between.sort(descending=down).values.unbind()
    return list(zip([low, *inner], [*inner, high], strict=True))


def _limit(x: Any, dtype: Any) -> Tensor:
    if isinstance(x, Tensor):
        return on_cpu(x).reshape(())
    found: Tensor = wrap(arrays.asarray(float(x), arrays.float64))
    return found if dtype is None else as_tensor(found, dtype=dtype)


def _inside(low: Tensor, high: Tensor) -> Tensor:
    """A number between two limits, where the function can be looked at."""
    top = 1e3
    found: Tensor = 0.37 * low.detach().clamp(-top, top) + 0.63 * high.detach().clamp(-top, top)
    return found
