"""What a function decides on the way: comparisons, selections and roundings of its operations.

A function with kinks, such as those of ``relu``, ``abs`` or ``where``, is smooth as long as it
decides alike. Operations that are defined in pieces are replaced by their definitions in terms of
comparisons here, so that a function is called with its decisions noted, or with decisions that are
given. With given decisions it is smooth: the branch that it takes goes on beyond the kink.

A comparison has a *margin*, which is zero where the decision changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd._modes import modes, within
from retrograd.autograd._wrap import wrap
from retrograd.ops._batching import Batched
from retrograd.ops._lifted import Lifted
from retrograd.ops._operation import Operation, raw
from retrograd.ops.copies import to_dtype
from retrograd.ops.elementwise import expm1
from retrograd.ops.piecewise import abs as absolute
from retrograd.ops.piecewise import floor, round, trunc, where
from retrograd.ops.selecting import ALONG
from retrograd.ops.shapes import slicing
from retrograd.optimize._captures import Observer
from retrograd.tensor._calls import apply, defined
from retrograd.tensor._tensor import Tensor

Rate = Callable[..., Tensor]  # of time, state and the values of parameters

# -- operations in pieces, by comparisons --------------------------------------------------------


def _number(value: Any, like: Any) -> Any:
    """A number in the dtype of a tensor; a tensor as it is. (Not ``value + 0 * like``, which is NaN
    where ``like`` is infinite.)"""
    return value if isinstance(value, Tensor) else arrays.asarray(value, raw(like).dtype)


def _abs(x: Any) -> Any:
    return where(x > 0, x, where(x < 0, -x, _number(0.0, x)))


def _sign(x: Any) -> Any:
    one, minus_one, zero = (_number(value, x) for value in (1.0, -1.0, 0.0))
    return where(x > 0, one, where(x < 0, minus_one, zero))


def _larger(x: Any, other: Any) -> Any:
    return where(x > other, x, where(x < other, other, (x + other) / 2))


def _smaller(x: Any, other: Any) -> Any:
    return where(x < other, x, where(x > other, other, (x + other) / 2))


def _clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    if min is not None:
        x = where(x < min, _number(min, x), x)
    return x if max is None else where(x > max, _number(max, x), x)


def _elu(x: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    positive = x > 0
    below = where(positive, _number(0.0, x), x)  # so that the other branch does not overflow
    return where(positive, scale * x, scale * alpha * expm1(input_scale * below))


def _softshrink(x: Any, lambd: float) -> Any:
    return where(x > lambd, x - lambd, where(x < -lambd, x + lambd, _number(0.0, x)))


def _hardshrink(x: Any, lambd: float) -> Any:
    return where(x > lambd, x, where(x < -lambd, x, _number(0.0, x)))


def _copysign(x: Any, other: Any) -> Any:
    size = absolute(x)
    return where(other.signbit(), -size, size) if isinstance(other, Tensor) else size * (
        -1.0 if str(float(other)).startswith("-") else 1.0
    )  # fmt: skip


def _divided(x: Any, other: Any, rounding_mode: str | None) -> Any:
    ways: dict[str | None, Any] = {None: lambda q: q, "floor": floor, "trunc": trunc}
    return ways[rounding_mode](x / other)


def _itself(op: Operation, x: Any, options: dict[str, Any]) -> Any:
    """An operation as it is, from its own definition."""
    with within(interceptors=modes.interceptors[:-1]):
        return apply(op, (x,), options)


def _vector_norm(
    op: Operation, x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False
) -> Any:
    if ord == 1:
        sizes = absolute(x)
        return sizes.sum() if dim is None else sizes.sum(dim, keepdim)
    if ord in (float("inf"), -float("inf")):
        sizes = absolute(x)
        over = tuple(range(x.ndim)) if dim is None else dim
        return (sizes.amax if ord > 0 else sizes.amin)(over, keepdim)
    return _itself(op, x, {"ord": ord, "dim": dim, "keepdim": keepdim})


def _length(op: Operation, x: Any, p: float, dim: tuple[int, ...]) -> Any:
    """The norm of differences, as distances have it."""
    if p in (1, float("inf")):
        return _vector_norm(op, x, p, dim)
    return _itself(op, x, {"p": p, "dim": dim})


DEFINITIONS: dict[str, Callable[..., Any]] = {
    "abs": _abs, "sign": _sign, "sgn": _sign,
    "relu": lambda x: where(x > 0, x, _number(0.0, x)),
    "leaky_relu": lambda x, negative_slope: where(x > 0, x, negative_slope * x),
    "prelu": lambda x, weight: where(x > 0, x, weight * x),
    "threshold": lambda x, threshold, value: where(x > threshold, x, _number(value, x)),
    "elu": _elu, "celu": _elu, "elu_written": _elu,
    "clamp": _clamp, "clamp_tensor": _clamp, "clamp_min": _clamp, "clamp_min_tensor": _clamp,
    "clamp_max": lambda x, max: _clamp(x, None, max),
    "clamp_max_tensor": lambda x, max: _clamp(x, None, max),
    "bounded": lambda x, limit: _clamp(x, -limit, limit),
    "hardtanh": lambda x, min_val, max_val: _clamp(x, min_val, max_val),
    "hardsigmoid": lambda x: _clamp(x + 3, 0.0, 6.0) / 6,
    "hardswish": lambda x: x * _clamp(x + 3, 0.0, 6.0) / 6,
    "softshrink": _softshrink, "hardshrink": _hardshrink,
    "maximum": _larger, "fmax": _larger, "minimum": _smaller, "fmin": _smaller,
    "heaviside": lambda x, values: where(
        x > 0, _number(1.0, x), where(x < 0, _number(0.0, x), _number(values, x))
    ),
    "copysign": _copysign, "copysign_number": _copysign,
    "frac": lambda x: x - trunc(x),
    "fmod": lambda x, other: x - other * trunc(x / other),
    "fmod_number": lambda x, other: x - other * trunc(x / other),
    "remainder": lambda x, other: x - other * floor(x / other),
    "remainder_number": lambda x, other: x - other * floor(x / other),
    "floor_divide": lambda x, other: floor(x / other),
    "floor_divide_number": lambda x, other: floor(x / other),
    "div_rounded": _divided,
    "round_decimals": lambda x, decimals: round(x * 10.0**decimals) / 10.0**decimals,
}  # fmt: skip
BY_OPERATION: dict[str, Callable[..., Any]] = {
    "linalg_vector_norm": _vector_norm, "length": _length,
}
EXTREMES = {"max", "min", "amax", "amin"}
COMPARISONS = {"lt", "le", "gt", "ge", "eq", "ne"}
ROUNDING = {"floor", "ceil", "round", "trunc"}
DEFINED = {"leaky_relu_written", "threshold_written", "rrelu", "rrelu_written", "median",
           "nanmedian", "aminmax", "dist", "pdist", "cdist", "huber_loss", "smooth_l1_loss",
           "index_reduce"}  # fmt: skip
# Constants that only depend on shapes and dtypes, or on what is not finite.
APART = {"zeros_like", "view_dtype", "isnan", "isfinite", "isinf", "isposinf", "isneginf", "isreal"}
UNFOLLOWED = {"scatter_reduce", "adaptive_max_pool2d", "adaptive_max_pool3d", "grid_sampler_2d",
              "grid_sampler_3d", "max_pool2d_with_indices", "max_pool3d_with_indices", "mode",
              "embedding_bag_max", "renorm", "multi_margin_loss", "multilabel_margin_loss",
              "norm_of_differences", "rnn_layer"}  # fmt: skip


# -- calls that are watched ----------------------------------------------------------------------


class Deciding(Observer):
    """Notes the decisions of a function, or has it decide as given, by a vector of all of them."""

    def __init__(self, given: Tensor | None = None) -> None:
        self.given, self.levels = given, modes.levels
        self.count = 0  # of decisions so far
        self.decisions: list[Tensor] = []
        self.margins: list[Tensor] = []
        self.unfollowed: set[str] = set()

    def before(self, args: Any) -> Any:
        return args

    def handle(
        self, op: Operation, args: Sequence[Any], options: dict[str, Any], computed: Any
    ) -> Any:
        name = op.name
        if op.family == "elementwise" and name not in DEFINITIONS and name not in ROUNDING:
            return apply(op, args, options, computed)
        if not any(isinstance(x, Tensor) and x.is_floating_point() for x in args):
            return apply(op, args, options, computed)
        if name in DEFINITIONS:
            return self._instead(DEFINITIONS[name], *args, **options)
        if name in BY_OPERATION:
            return self._instead(BY_OPERATION[name], op, *args, **options)
        if name in EXTREMES:
            return self._extreme(op, args[0], options)
        if name in DEFINED:
            return self._instead(defined, op, list(args), options)
        result = apply(op, args, options, computed)
        if name in COMPARISONS:
            return self._decided(result, args[0] - args[1])
        if name in ROUNDING or (op.family == "constant" and name not in APART):
            return self._decided(result)
        if name == "to_dtype" and not result.is_floating_point() and not result.is_complex():
            return self._decided(result)
        if name in UNFOLLOWED:
            self.unfollowed.add(name)
        elif op.family == "selecting" and op.output_names == ("values", "indices"):
            indices = self._decided(result[1])
            return ALONG.gather(args[0], indices, options["dim"]), indices
        return result

    def write(
        self, write_in_place: Callable[..., Any], op: Operation, operands: list[Any],
        options: dict[str, Any],
    ) -> Any:  # fmt: skip
        target, *others = operands
        if op.name in DEFINITIONS or op.name in DEFINED or op.name in ROUNDING:
            return target.copy_(op(target.clone(), *others, **options))
        return super().write(write_in_place, op, operands, options)

    def _instead(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a function whose operations are watched in their turn."""
        with within(interceptors=(*modes.interceptors, self), observer=self):
            return function(*args, **options)

    def _extreme(self, op: Operation, x: Any, options: dict[str, Any]) -> Any:
        """The mean of the elements that are equal to the extreme."""
        over = options.get("dim", tuple(range(x.ndim)))
        kept = {**options, "keepdim": True} if options else {}
        chosen = self._decided(x.detach() == apply(op, (x.detach(),), kept))
        value = where(chosen, x, _number(0.0, x)).sum(over, True) / chosen.sum(over, True)
        margin = self._without_levels_inside(x - value)[1]
        self.margins[-1] = to_dtype(margin.reshape(-1), dtype=arrays.float64)
        keepdim = options.get("keepdim", False)
        return value if keepdim else value.squeeze(over)

    def _decided(self, result: Tensor, margin: Any = None) -> Tensor:
        level, whole = self._without_levels_inside(result)
        start, self.count = self.count, self.count + whole.numel()
        if margin is None:
            margin = float("nan") + 0.0 * to_dtype(whole.detach(), dtype=arrays.float64)
        else:
            margin = self._without_levels_inside(margin)[1].expand(whole.shape)
        self.margins.append(to_dtype(margin.reshape(-1), dtype=arrays.float64))
        if self.given is None:
            self.decisions.append(to_dtype(whole.detach().reshape(-1), dtype=arrays.float64))
            return result
        chosen = self.given[start : self.count].reshape(whole.shape)
        chosen = to_dtype(chosen, dtype=raw(whole).dtype)
        frozen: Tensor = chosen if level is None else wrap(Batched(level, chosen))
        return frozen

    def _without_levels_inside(self, x: Any) -> tuple[Any, Tensor]:
        """A value without the transforms that were opened in the function, and the level of the
        batch that it is, if any."""
        level = None
        while isinstance(data := raw(x), Lifted) and data.level not in self.levels:
            if not data.level.number:
                break
            if isinstance(data, Batched) and not data.same:
                if level is not None:
                    raise NotImplementedError("operations under one vmap inside another")
                level = data.level
            x = data.inner if isinstance(data.inner, Tensor) else wrap(data.inner)
        return level, x


def _flat(parts: list[Tensor]) -> Tensor:
    if not parts:
        return wrap(arrays.asarray([], arrays.float64))  # type: ignore[no-any-return]
    found: Tensor = slicing.cat(parts)
    return found


def decisions_of(rate: Rate) -> Rate:
    """A function of time, state and values that gives all decisions, and their margins."""

    def decided(t: Tensor, y: Tensor, *values: Tensor) -> Tensor:
        with Deciding() as deciding:
            rate(t, y, *values)
        found: Tensor = slicing.stack([_flat(deciding.decisions), _flat(deciding.margins)])
        return found

    return decided


def with_decisions(rate: Rate) -> Rate:
    """The rate as a function of time, state, decisions and values."""

    def frozen(t: Tensor, y: Tensor, decisions: Tensor, *values: Tensor) -> Tensor:
        with Deciding(decisions):
            return rate(t, y, *values)

    return frozen


def margins_of(rate: Rate) -> Rate:
    """The margins of decisions as a function of time, state, decisions and values."""

    def margins(t: Tensor, y: Tensor, decisions: Tensor, *values: Tensor) -> Tensor:
        with Deciding(decisions) as deciding:
            rate(t, y, *values)
        return _flat(deciding.margins)

    return margins
