"""Integrals of functions of one variable, differentiable by their limits and parameters.

The derivative of an integral by a parameter is the integral of the derivative, so derivatives of
any order are integrals in their turn, computed to the same tolerance.
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
from retrograd.optimize._captures import Parameters, is_live, outside
from retrograd.optimize._equations import as_args, vector
from retrograd.tensor._conversion import as_tensor
from retrograd.tensor._tensor import Tensor


class _Integrand:
    """A function of a number and of the values of parameters, which returns a vector."""

    def __init__(
        self, call: Callable[[Tensor, Sequence[Tensor]], Tensor], options: dict[str, Any],
        parameters: Parameters,
    ) -> None:  # fmt: skip
        self.call, self.options, self.parameters = call, options, parameters
        self.error = 0.0  # that SciPy estimated

    def derived(self, call: Callable[[Tensor, Sequence[Tensor]], Tensor]) -> _Integrand:
        return _Integrand(call, self.options, self.parameters)


def _split(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    parts = slicing.split(flat, [x.numel() for x in like])
    return [part.reshape(x.shape) for part, x in zip(parts, like, strict=True)]


class _Integral(Function):
    """The integral of each element of what an integrand returns."""

    @staticmethod
    def forward(integrand: _Integrand, low: Tensor, high: Tensor, *values: Tensor) -> Tensor:
        def integral(low: Tensor, high: Tensor, *values: Tensor) -> Tensor:
            def f(x: float) -> Any:
                return arrays.asarray(raw(integrand.call(vector(x, low), values)), arrays.float64)

            with integrand.parameters.plainly():
                found, integrand.error = arrays.integration.integral(
                    f, float(low), float(high), integrand.options
                )
            return vector(found, low)

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
        of = ctx.integrand
        _, by_low, by_high, *needed = ctx.needs_input_grad
        found: list[Any] = [None, None, None, *[None] * len(values)]
        if by_low:
            found[1] = -_at_limit(of, low, values, g)
        if by_high:
            found[2] = _at_limit(of, high, values, g)
        places = [i for i, v in enumerate(values) if needed[i] and v.is_floating_point()]
        if places:

            def gradient(x: Tensor, all_values: Sequence[Tensor]) -> Tensor:
                g, *values = all_values
                one = lambda *some: of.call(x, _with(values, places, some))
                pulled = vjp(one, *[values[i] for i in places])[1](g)
                flat: Tensor = slicing.cat([part.reshape(-1) for part in pulled])
                return flat

            whole = _Integral.apply(of.derived(gradient), low, high, g, *values)
            for i, part in zip(places, _split(whole, [values[i] for i in places]), strict=True):
                found[3 + i] = part
        return tuple(found)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        low, high, *values = ctx.saved_tensors
        of = ctx.integrand
        _, of_low, of_high, *moving = tangents
        total: Any = None
        for at, t, sign in ((low, of_low, -1.0), (high, of_high, 1.0)):
            if t is not None and not _is_infinite(at):
                part = sign * t * of.call(at, values)
                total = part if total is None else total + part
        places = [i for i, t in enumerate(moving) if t is not None]
        if places:

            def moved(x: Tensor, all_values: Sequence[Tensor]) -> Tensor:
                directions, values = all_values[: len(places)], all_values[len(places) :]
                one = lambda *some: of.call(x, _with(values, places, some))
                found: Tensor = jvp(one, tuple(values[i] for i in places), tuple(directions))[1]
                return found

            part = _Integral.apply(
                of.derived(moved), low, high, *[moving[i] for i in places], *values
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


def _at_limit(of: _Integrand, at: Tensor, values: Sequence[Tensor], g: Tensor) -> Tensor:
    """How the integral moves with a limit: by the integrand there, or not at all at infinity."""
    if _is_infinite(at):
        return 0.0 * g.sum()
    found: Tensor = (g * of.call(at, values)).sum()
    return found


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
        points: Where ``func`` may have singularities or jumps, between the limits.

    Returns:
        The integral, as a Tensor, and an estimate of its absolute error.

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
    integrand = _Integrand(
        lambda x, values: parameters.call(flat, values, x),
        {"epsabs": epsabs, "epsrel": epsrel, "limit": limit, "points": points}, parameters,
    )  # fmt: skip
    found = _Integral.apply(integrand, low, high, *live)
    return found.reshape(shape), integrand.error


def _limit(x: Any, dtype: Any) -> Tensor:
    if isinstance(x, Tensor):
        return x.reshape(())
    found: Tensor = wrap(arrays.asarray(float(x), arrays.float64))
    return found if dtype is None else as_tensor(found, dtype=dtype)


def _inside(low: Tensor, high: Tensor) -> Tensor:
    """A number between two limits, where the function can be looked at."""
    top = 1e3
    found: Tensor = 0.37 * low.detach().clamp(-top, top) + 0.63 * high.detach().clamp(-top, top)
    return found
