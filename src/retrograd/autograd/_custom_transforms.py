"""Custom operations under transforms.

What the user wrote says what the derivative is, so a transform must not look into ``forward``.
Forward mode asks ``jvp`` or, where there is none, transposes ``backward``. ``vmap`` asks the
user's ``vmap`` or, with ``generate_vmap_rule``, runs all parts of the operation on batches; with
neither it goes entry by entry, and says so once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd._modes import modes, within
from retrograd.arrays import dtypes
from retrograd.autograd import function as custom
from retrograd.autograd._custom_batches import flat, run_batched
from retrograd.autograd._duals import Dual, DualLevel
from retrograd.autograd._forward import transposed_twice
from retrograd.autograd._history import edge
from retrograd.autograd._levels import as_tensor, is_of, value_of
from retrograd.autograd._versions import version_of
from retrograd.autograd._wrap import Plug, wrap
from retrograd.autograd.grad_mode import no_grad
from retrograd.ops import copies
from retrograd.ops._batching import BatchLevel
from retrograd.ops._lifted import Level, highest_level

Custom = type["custom.Function"]


def level_of(args: tuple[Any, ...]) -> Level | None:
    """The innermost transform that some arguments belong to. A device is none."""
    level = highest_level(value_of(a) for a in flat(args) if isinstance(a, Plug.tensor))
    return level if level is not None and level.number else None


def lifted(level: Level, args: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments as Tensors of a level; what comes from below is constant for it."""
    results = []
    for a in args:
        if isinstance(a, Plug.tensor) and not is_of(level, a):
            node, number = edge(a) if level.transparent else (None, None)
            a = wrap(level.constant(a), node, number)
        results.append(a)
    return tuple(results)


def run(level: Level, cls: Custom, args: tuple[Any, ...]) -> Any:
    """The output of a custom operation on Tensors lifted to ``level``, without what may be recorded
    above that level."""
    outside = tuple(x for x in modes.levels if x.number < level.number)
    with within(levels=outside):
        if isinstance(level, DualLevel):
            return _pushed_forward(level, cls, args)
        if level.run_custom is not None:
            return level.run_custom(cls, args)
        assert isinstance(level, BatchLevel)
        return run_batched(level, cls, args)


# -- forward mode ----------------------------------------------------------------------------


def _pushed_forward(level: DualLevel, cls: Custom, args: tuple[Any, ...]) -> Any:
    primals, tangents = _parts(level, args)
    if cls.jvp is not custom.Function.jvp:
        output, ctx = custom.run_under_transforms(cls, primals)
        outputs = output if isinstance(output, tuple) else (output,)
        given = _given_tangents(ctx, primals, tangents)
        moved = _by_jvp(cls, ctx, given, outputs)
        _check_written(ctx, given, moved, primals, outputs)
    else:
        output = cls.apply(*primals)
        outputs = output if isinstance(output, tuple) else (output,)
        moved = _by_backward(cls, primals, tangents, outputs)
    results = _duals(level, args, primals, outputs, moved)
    return results if isinstance(output, tuple) else results[0]


def run_with_context(level: Level, cls: Custom, ctx: Any, args: tuple[Any, ...]) -> Any:
    """The output of a custom operation, whose ``forward`` takes the ctx, on dual numbers made by
    hand. ``forward`` sees their values; what it notes on the ctx is put in terms of ``args``."""
    assert isinstance(level, DualLevel)
    primals, tangents = _parts(level, args)
    below = level_of(primals)
    if below is not None and not below.transparent:
        raise RuntimeError(custom.NEEDS_SETUP_CONTEXT)
    outside = tuple(x for x in modes.levels if x.number < level.number)
    with within(levels=outside):
        with no_grad():
            output = cls.forward(ctx.user_context(ctx), *primals)
        outputs = output if isinstance(output, tuple) else (output,)
        ctx.dirty_places = _places(ctx.dirty_tensors, primals)
        if cls.jvp is not custom.Function.jvp:
            given = _given_tangents(ctx, primals, tangents)
            moved = _by_jvp(cls, ctx, given, outputs)
            _check_written(ctx, given, moved, primals, outputs)
        else:
            moved = _by_backward(cls, primals, tangents, outputs)
    results = _duals(level, args, primals, outputs, moved)
    known = {id(x): y for x, y in zip((*primals, *outputs), (*args, *results), strict=True)}
    for name in ("to_save", "dirty_tensors", "non_differentiable"):
        noted = getattr(ctx, name)
        if noted is not None:
            setattr(ctx, name, tuple(known.get(id(x), x) for x in noted))
    return results if isinstance(output, tuple) else results[0]


def _parts(level: DualLevel, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[Any]]:
    """The values and the tangents of arguments. A value may be written, so it is held as Tensor."""
    primals, tangents = [], []
    for a in args:
        if is_of(level, a):
            a._data.hold(as_tensor)
            primals.append(a._data.primal)
            tangents.append(a._data.tangent)
        else:
            primals.append(a)
            tangents.append(None)
    return tuple(primals), tangents


def _places(some: Sequence[Any], values: Sequence[Any]) -> tuple[int, ...]:
    """Where some values are among others."""
    return tuple(i for i, v in enumerate(values) if any(v is x for x in some))


def _given_tangents(ctx: Any, primals: Sequence[Any], tangents: list[Any]) -> list[Any]:
    """The tangents for ``jvp``. That of an input that was written is a copy, to be written too:
    the one at hand may be shared with other values."""
    given = [t if t is None else as_tensor(t) for t in tangents]
    if ctx.materialize_grads:
        given = [
            copies.zeros_like(x) if t is None and _is_float(x) else t
            for x, t in zip(primals, given, strict=True)
        ]
    for place in ctx.dirty_places:
        if given[place] is not None:
            given[place] = copies.clone(given[place])
    return given


def _by_jvp(
    cls: Custom, ctx: Any, given: list[Any], outputs: tuple[Any, ...]
) -> Sequence[Any]:
    with ctx.as_in_jvp():
        moved = cls.jvp(ctx.user_context(ctx), *given)
    ctx.saved_for_forward = ()  # which may be outputs, and those refer to the ctx
    result = list(moved) if isinstance(moved, tuple) else [moved]
    if len(result) != len(outputs):
        raise RuntimeError(
            f"Function {cls.__name__} returned an incorrect number of forward gradients (expected "
            f"{len(outputs)} got {len(result)})"
        )
    for i, (y, t) in enumerate(zip(outputs, result, strict=True)):
        if t is not None and isinstance(y, Plug.tensor) and tuple(t.shape) != tuple(y.shape):
            raise RuntimeError(
                f"Function {cls.__name__} returned a forward gradient of shape {list(t.shape)} for "
                f"output {i}, which is of shape {list(y.shape)}: jvp() must return tangents of the "
                "shapes of forward()'s outputs"
            )
    return result


def _check_written(
    ctx: Any, given: list[Any], moved: Sequence[Any], primals: Sequence[Any], outputs: Sequence[Any]
) -> None:
    """RuntimeError if ``forward`` wrote an input, but ``jvp`` did not write its tangent."""
    for place in ctx.dirty_places:
        number = next(i for i, y in enumerate(outputs) if y is primals[place])
        if moved[number] is not given[place]:
            raise RuntimeError(
                "An inplace custom Function is not modifying the forward mode gradients inplace. "
                "If the forward is modifying an input inplace, then the jvp function must modify "
                "the corresponding gradient inplace."
            )


def _duals(
    level: DualLevel, args: Sequence[Any], primals: Sequence[Any], outputs: Sequence[Any],
    moved: Sequence[Any],
) -> tuple[Any, ...]:  # fmt: skip
    """The outputs with their tangents. An input that was written is itself, with a new tangent."""
    results = []
    for y, t in zip(outputs, moved, strict=True):
        same = next((a for a, x in zip(args, primals, strict=True) if x is y), None)
        if same is None or not isinstance(y, Plug.tensor):
            results.append(wrap(Dual(level, y, t)) if isinstance(y, Plug.tensor) else y)
            continue
        if is_of(level, same):
            if t is not None:
                same._data.write_tangent(t)
            version_of(same).bump()
        results.append(same)
    return tuple(results)


def _is_float(x: Any) -> bool:
    return isinstance(x, Plug.tensor) and x._data.dtype.kind in dtypes.INEXACT


def _by_backward(
    cls: Custom, primals: Sequence[Any], tangents: list[Any], outputs: tuple[Any, ...]
) -> Sequence[Any]:
    if all(t is None for t in tangents):
        return [None] * len(outputs)
    if _places(outputs, primals):  # it was written, and running the operation again does it again
        custom.Function.jvp(None)
    try:
        return transposed_twice(lambda xs: cls.apply(*xs), primals, tangents)
    except RuntimeError as error:
        error.add_note(
            f"{cls.__name__} has no jvp(), so its tangent is derived from backward(), which must "
            "be differentiable for that. Implement the jvp static method."
        )
        raise
