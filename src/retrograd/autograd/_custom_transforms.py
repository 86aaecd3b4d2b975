"""Custom operations under transforms.

What the user wrote says what the derivative is, so a transform must not look into ``forward``.
Forward mode asks ``jvp`` or, where there is none, transposes ``backward``. ``vmap`` asks the
user's ``vmap`` or, with ``generate_vmap_rule``, runs all parts of the operation on batches; with
neither it goes entry by entry, and says so once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from retrograd._modes import modes, set_modes
from retrograd.autograd import function as custom
from retrograd.autograd._duals import Dual, DualLevel
from retrograd.autograd._forward import transposed_twice
from retrograd.autograd._history import edge
from retrograd.autograd._levels import as_tensor, is_of, opened, value_of
from retrograd.autograd._wrap import Plug, wrap
from retrograd.ops import _batching_core as _batching_core
from retrograd.ops import elementwise, linear, shaping
from retrograd.ops._batching import Batched, BatchLevel, announce, check_entries
from retrograd.ops._lifted import Level, highest_level


class VmapInfo(NamedTuple):
    """What a ``vmap`` static method is told besides its arguments."""

    batch_size: int
    randomness: str


Custom = type["custom.Function"]


def level_of(args: Sequence[Any]) -> Level | None:
    """The innermost transform that some arguments belong to."""
    return highest_level(value_of(a) for a in args if isinstance(a, Plug.tensor))


def lifted(level: Level, args: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments as Tensors of a level; what comes from below is constant for it."""
    found = []
    for a in args:
        if isinstance(a, Plug.tensor) and not is_of(level, a):
            node, number = edge(a) if level.transparent else (None, None)
            a = wrap(level.constant(a), node, number)
        found.append(a)
    return tuple(found)


def run(level: Level, cls: Custom, args: tuple[Any, ...]) -> Any:
    """The output of a custom operation on Tensors lifted to ``level``, without what may be recorded
    above that level."""
    outside = tuple(x for x in modes.levels if x.number < level.number)
    before = set_modes(levels=outside)
    try:
        if isinstance(level, DualLevel):
            return _pushed_forward(level, cls, args)
        assert isinstance(level, BatchLevel)
        return _batched(level, cls, args)
    finally:
        set_modes(**before)


# -- forward mode ----------------------------------------------------------------------------


def _pushed_forward(level: DualLevel, cls: Custom, args: tuple[Any, ...]) -> Any:
    duals = [a._data if is_of(level, a) else None for a in args]
    primals = [a if d is None else as_tensor(d.primal) for a, d in zip(args, duals, strict=True)]
    tangents = [None if d is None else d.tangent for d in duals]
    if cls.jvp is not custom.Function.jvp:
        output, ctx = custom.run_under_transforms(cls, tuple(primals))
        outputs = output if isinstance(output, tuple) else (output,)
        moved = _by_jvp(cls, ctx, primals, tangents, outputs)
    else:
        output = cls.apply(*primals)
        outputs = output if isinstance(output, tuple) else (output,)
        moved = _by_backward(cls, primals, tangents, outputs)
    results = tuple(
        wrap(Dual(level, y, t)) if isinstance(y, Plug.tensor) else y
        for y, t in zip(outputs, moved, strict=True)
    )
    return results if isinstance(output, tuple) else results[0]


def _by_jvp(
    cls: Custom, ctx: Any, primals: list[Any], tangents: list[Any], outputs: tuple[Any, ...]
) -> Sequence[Any]:
    given = [t if t is None else as_tensor(t) for t in tangents]
    if ctx.materialize_grads:
        given = [
            elementwise.zeros_like(x) if t is None and _is_float(x) else t
            for x, t in zip(primals, given, strict=True)
        ]
    with ctx.as_in_jvp():
        moved = cls.jvp(ctx, *given)
    ctx.saved_for_forward = ()  # which may be outputs, and those refer to the ctx
    found = list(moved) if isinstance(moved, tuple) else [moved]
    if len(found) != len(outputs):
        raise RuntimeError(
            f"Function {cls.__name__} returned an incorrect number of forward gradients (expected "
            f"{len(outputs)} got {len(found)})"
        )
    for i, (y, t) in enumerate(zip(outputs, found, strict=True)):
        if t is not None and isinstance(y, Plug.tensor) and tuple(t.shape) != tuple(y.shape):
            raise RuntimeError(
                f"Function {cls.__name__} returned a forward gradient of shape {list(t.shape)} for "
                f"output {i}, which is of shape {list(y.shape)}: jvp() must return tangents of the "
                "shapes of forward()'s outputs"
            )
    return found


def _is_float(x: Any) -> bool:
    return isinstance(x, Plug.tensor) and x._data.dtype.kind in "fc"


def _by_backward(
    cls: Custom, primals: list[Any], tangents: list[Any], outputs: tuple[Any, ...]
) -> Sequence[Any]:
    if all(t is None for t in tangents):
        return [None] * len(outputs)
    try:
        return transposed_twice(lambda xs: cls.apply(*xs), primals, tangents)
    except RuntimeError as error:
        error.add_note(
            f"{cls.__name__} has no jvp(), so its tangent is derived from backward(), which must "
            "be differentiable for that. Implement the jvp static method."
        )
        raise


# -- batches ---------------------------------------------------------------------------------


def _batched(level: BatchLevel, cls: Custom, args: tuple[Any, ...]) -> Any:
    pairs = [level.below(a._data) if is_of(level, a) else (a, False) for a in args]
    values = tuple(as_tensor(v) if isinstance(a, Plug.tensor) else v
                   for a, (v, _) in zip(args, pairs, strict=True))  # fmt: skip
    flags = [batched for _, batched in pairs]
    if not any(flags):
        return _wrapped(level, cls.apply(*values), False)
    in_dims = tuple(0 if batched else None for batched in flags)
    has_rule = cls.vmap is not custom.Function.vmap
    if cls.generate_vmap_rule:
        if has_rule:
            raise RuntimeError(
                f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True "
                "and an overridden vmap staticmethod. Please set generate_vmap_rule=False or "
                "delete the overridden vmap staticmethod to avoid ambiguity."
            )
        return _wrapped(level, vmapped(cls).apply(level.size, level.randomness, in_dims, *values))
    if has_rule:
        return _by_vmap(level, cls, values, in_dims)
    return _one_by_one(level, cls, values, flags)


def _wrapped(level: BatchLevel, output: Any, batched: bool = True) -> Any:
    if isinstance(output, tuple):
        return tuple(_wrapped(level, y, batched) for y in output)
    return wrap(Batched(level, output, not batched)) if isinstance(output, Plug.tensor) else output


def _by_vmap(level: BatchLevel, cls: Custom, values: tuple[Any, ...], in_dims: Any) -> Any:
    found = cls.vmap(VmapInfo(level.size, level.randomness), in_dims, *values)
    if not (isinstance(found, tuple) and len(found) == 2):
        raise RuntimeError(
            f"Expected the vmap staticmethod of {cls.__name__} to have two returns, an output and "
            "out_dims with pytree structure compatible with the output."
        )
    output, out_dims = found
    outputs = output if isinstance(output, tuple) else (output,)
    dims = out_dims if isinstance(out_dims, (tuple, list)) else (out_dims,) * len(outputs)
    results = []
    for y, d in zip(outputs, dims, strict=True):
        moved = shaping.movedim(y, d, 0) if d else y
        results.append(_wrapped(level, moved, d is not None))
    return tuple(results) if isinstance(output, tuple) else results[0]


def _one_by_one(
    level: BatchLevel, cls: Custom, values: tuple[Any, ...], flags: list[bool]
) -> Any:
    announce(cls.__name__)
    check_entries(level, cls.__name__)
    rows = []
    for i in range(level.size):
        entry = [linear.select(v, dim=0, index=i) if batched else v
                 for v, batched in zip(values, flags, strict=True)]  # fmt: skip
        rows.append(cls.apply(*entry))
    if not isinstance(rows[0], tuple):
        return _wrapped(level, linear.stack(rows, dim=0))
    return tuple(_wrapped(level, linear.stack(list(ys), dim=0)) for ys in zip(*rows, strict=True))


# -- a custom operation whose every part is run on batches -----------------------------------


class Context:
    """The ``ctx`` of a part that is run on batches: notes what is kept, to be unpacked and kept by
    the ``ctx`` of the operation on the whole batch."""

    def __init__(self, real: Any) -> None:
        self.needs_input_grad = real.needs_input_grad[3:]
        self.materialize_grads = True
        self.saved_tensors: tuple[Any, ...] = ()
        self.kept: dict[str, tuple[Any, ...]] = {"backward": (), "forward": ()}
        self.non_differentiable: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.kept["backward"] = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        self.kept["forward"] = tensors

    def mark_non_differentiable(self, *args: Any) -> None:
        self.non_differentiable = args

    def mark_dirty(self, *args: Any) -> None:
        raise RuntimeError(
            "generate_vmap_rule=True does not go with mark_dirty(): an input that is changed in "
            "place cannot be one of a batch. Implement the vmap static method instead."
        )

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize_grads = bool(value)


_OWN = frozenset({"needs_input_grad", "materialize_grads", "saved_tensors", "kept",
                  "non_differentiable"})  # fmt: skip


def _lift(level: BatchLevel, value: Any, dim: int | None) -> Any:
    if not isinstance(value, Plug.tensor):
        return value
    return wrap(Batched(level, value, dim is None))


def _unpack(level: BatchLevel, x: Any) -> tuple[Any, int | None]:
    if not is_of(level, x):
        return x, None
    value, batched = level.below(x._data)
    return as_tensor(value), 0 if batched else None


def _stacked(level: BatchLevel, x: Any) -> Any:
    """A result for the whole batch, also of what is the same for all."""
    value, dim = _unpack(level, x)
    if dim is not None or not isinstance(value, Plug.tensor):
        return value
    return as_tensor(level.stacked(value)).clone()


@cache
def vmapped(cls: Custom) -> Custom:
    """The operation on a whole batch: forward, backward and jvp of ``cls`` under ``vmap``."""
    if cls.setup_context is custom.Function.setup_context:
        raise RuntimeError(
            f"{cls.__name__} has generate_vmap_rule=True but no setup_context staticmethod. For "
            "autograd.Function with generate_vmap_rule, override setup_context and let forward "
            "take no ctx."
        )
    members = {
        "forward": staticmethod(_forward_of(cls)),
        "setup_context": staticmethod(_setup_context_of(cls)),
        "backward": staticmethod(_backward_of(cls)),
        "generate_vmap_rule": True,
    }
    if cls.jvp is not custom.Function.jvp:
        members["jvp"] = staticmethod(_jvp_of(cls))
    return type(f"Vmapped{cls.__name__}", (custom.Function,), members)


def _forward_of(cls: Custom) -> Callable[..., Any]:
    def forward(size: int, randomness: str, in_dims: Any, *args: Any) -> Any:
        with opened(BatchLevel(size, randomness)) as level:
            entries = [_lift(level, a, d) for a, d in zip(args, in_dims, strict=True)]
            output = cls.forward(*entries)
            if isinstance(output, tuple):
                return tuple(_stacked(level, y) for y in output)
            return _stacked(level, output)

    return forward


def _setup_context_of(cls: Custom) -> Callable[..., Any]:
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        size, randomness, in_dims, *args = inputs
        with opened(BatchLevel(size, randomness)) as level:
            # What is saved is recognised as an input or output by being the same Tensor.
            known: dict[int, Any] = {}

            def lift(x: Any, dim: int | None) -> Any:
                entry = _lift(level, x, dim)
                known[id(entry)] = x
                return entry

            entries = tuple(lift(a, d) for a, d in zip(args, in_dims, strict=True))
            several = isinstance(output, tuple)
            results = tuple(lift(y, 0) for y in (output if several else (output,)))
            inner = Context(ctx)
            cls.setup_context(inner, entries, results if several else results[0])

            def unpack(x: Any) -> tuple[Any, int | None]:
                value, dim = _unpack(level, x)
                return known.get(id(x), value), dim

            kept = {kind: [unpack(x) for x in tensors] for kind, tensors in inner.kept.items()}
            ctx.others = {n: unpack(x) for n, x in vars(inner).items() if n not in _OWN}
            ctx.mark_non_differentiable(*[unpack(x)[0] for x in inner.non_differentiable])
        ctx.batch = (size, randomness, in_dims)
        ctx.set_materialize_grads(inner.materialize_grads)
        ctx.save_for_backward(*[x for x, _ in kept["backward"]])
        ctx.save_for_forward(*[x for x, _ in kept["forward"]])
        ctx.kept_dims = {kind: [d for _, d in pairs] for kind, pairs in kept.items()}

    return setup_context


def _context_under(level: BatchLevel, ctx: Any, kind: str) -> Context:
    inner = Context(ctx)
    dims = ctx.kept_dims[kind]
    inner.saved_tensors = tuple(
        _lift(level, x, d) for x, d in zip(ctx.saved_tensors, dims, strict=True)
    )
    for name, (value, dim) in ctx.others.items():
        setattr(inner, name, _lift(level, value, dim))
    return inner


def _backward_of(cls: Custom) -> Callable[..., Any]:
    rule = cls.vjp if cls.vjp is not custom.Function.vjp else cls.backward

    def backward(ctx: Any, *grads: Any) -> Any:
        size, randomness, in_dims = ctx.batch
        with opened(BatchLevel(size, randomness)) as level:
            inner = _context_under(level, ctx, "backward")
            received = rule(inner, *[_lift(level, g, 0) for g in grads])
            received = received if isinstance(received, tuple) else (received,)
            found: list[Any] = []
            for g, dim in zip(received, in_dims, strict=False):
                if g is None:
                    found.append(None)
                    continue
                whole = _stacked(level, g)
                # One value for all entries: their gradients add up.
                found.append(linear.sum_dim(whole, dim=(0,), keepdim=False) if dim is None
                             else whole)  # fmt: skip
        return (None, None, None, *found)

    return backward


def _jvp_of(cls: Custom) -> Callable[..., Any]:
    def jvp(ctx: Any, *tangents: Any) -> Any:
        size, randomness, in_dims = ctx.batch
        with opened(BatchLevel(size, randomness)) as level:
            inner = _context_under(level, ctx, "forward")
            given = [_lift(level, t, d) for t, d in zip(tangents[3:], in_dims, strict=True)]
            moved = cls.jvp(inner, *given)
            if isinstance(moved, tuple):
                return tuple(t if t is None else _stacked(level, t) for t in moved)
            return _stacked(level, moved)

    return jvp
