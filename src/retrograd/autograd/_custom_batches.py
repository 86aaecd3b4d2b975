"""Custom operations under ``vmap``: by the user's rule, by running all parts of the operation on
batches, or entry by entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from retrograd.autograd import function as custom
from retrograd.autograd._levels import as_tensor, is_of, opened
from retrograd.autograd._versions import version_of
from retrograd.autograd._wrap import Plug, wrap
from retrograd.ops import linear
from retrograd.ops._batching import Batched, BatchLevel, announce, check_entries
from retrograd.ops.shapes import reshaping

Custom = type["custom.Function"]


class VmapInfo(NamedTuple):
    """The context passed to a ``vmap`` static method."""

    batch_size: int
    randomness: str


def run_batched(level: BatchLevel, cls: Custom, args: tuple[Any, ...]) -> Any:
    entries = [_entries(level, a) for a in args]
    values, in_dims = tuple(v for v, _ in entries), tuple(d for _, d in entries)
    given = list(zip(values, args, strict=True))
    if not any(d is not None for d in flat(in_dims)):
        return _wrapped(level, cls.apply(*values), None, given)
    has_rule = cls.vmap is not custom.Function.vmap
    if cls.generate_vmap_rule:
        if has_rule:
            raise RuntimeError(
                f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True "
                "and an overridden vmap staticmethod. Please set generate_vmap_rule=False or "
                "delete the overridden vmap staticmethod to avoid ambiguity."
            )
        # The parts are run on batches of our own making, whose dimension is the first.
        values = tuple(_in_front(v, d) for v, d in entries)
        flags = nested(lambda d: d if d is None else 0, in_dims)
        return _wrapped(level, vmapped(cls).apply(level.size, level.randomness, flags, *values), 0)
    if has_rule:
        return _by_vmap(level, cls, values, in_dims, given)
    return _one_by_one(level, cls, values, in_dims, given)


def nested(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Apply a function to the leaves of nested tuples, lists and dicts, and to those of others."""
    if type(tree) is dict:
        return {k: nested(function, x, *(o[k] for o in others)) for k, x in tree.items()}
    if type(tree) in (tuple, list):
        columns = zip(tree, *others, strict=True)
        return type(tree)(nested(function, *column) for column in columns)
    return function(tree, *others)


def flat(tree: Any) -> list[Any]:
    """What is in nested tuples, lists and dicts."""
    results: list[Any] = []
    nested(results.append, tree)
    return results


def _entries(level: BatchLevel, arg: Any) -> tuple[Any, Any]:
    """An argument as ``vmap`` static methods see it: Tensors of the whole batch, and the dimension
    along which the entries lie, or None if it is the same for all. A Tensor that was given to
    ``vmap`` is seen as it was given."""

    def whole(x: Any) -> Any:
        if not is_of(level, x):
            return x
        batch = x._data
        batch.hold(as_tensor)
        return reshaping.movedim(batch.value, 0, batch.dim) if batch.dim else batch.value

    def dim(x: Any) -> Any:
        return None if not is_of(level, x) or x._data.same else x._data.dim

    return nested(whole, arg), nested(dim, arg)


def _in_front(value: Any, dim: Any) -> Any:
    return nested(lambda v, d: reshaping.movedim(v, d, 0) if d else v, value, dim)


def _wrapped(level: BatchLevel, output: Any, out_dims: Any, given: Sequence[Any] = ()) -> Any:
    """Outputs as Tensors of the level. What was given and comes back, written, is itself."""

    def one(y: Any, dim: Any) -> Any:
        if not isinstance(y, Plug.tensor):
            return y
        for value, arg in given:
            if y is value:
                if is_of(level, arg):
                    version_of(arg).bump()
                return arg
        if dim is None:
            return wrap(Batched(level, y, same=True))
        return wrap(Batched(level, reshaping.movedim(y, dim, 0) if dim else y, dim=dim % y.dim()))

    return nested(one, output, _like(output, out_dims))


def _like(output: Any, dims: Any) -> Any:
    """Dimensions in the nest of an output; one may stand for several."""
    kind = type(output)
    if kind not in (tuple, list, dict):
        if isinstance(dims, (tuple, list, dict)):
            raise ValueError
        return dims
    if not isinstance(dims, (tuple, list, dict)):
        return nested(lambda _: dims, output)
    if type(dims) is not kind or len(dims) != len(output):
        raise ValueError
    if kind is dict:
        return {k: _like(y, dims[k]) for k, y in output.items()}
    return kind(_like(y, d) for y, d in zip(output, dims, strict=True))


def _by_vmap(
    level: BatchLevel, cls: Custom, values: tuple[Any, ...], in_dims: Any, given: Sequence[Any]
) -> Any:
    result = cls.vmap(VmapInfo(level.size, level.randomness), in_dims, *values)
    if not (isinstance(result, tuple) and len(result) == 2):
        several = isinstance(result, tuple)
        got = f"{len(result)} returns" if several else f"a {type(result)}"
        raise RuntimeError(
            "Expected the vmap staticmethod to have two returns, an output and out_dims with "
            f"pytree structure compatible with the output. Got {got} instead"
        )
    output, out_dims = result
    try:
        return _wrapped(level, output, out_dims, given)
    except (ValueError, KeyError):
        raise RuntimeError(
            "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) "
            f"tuple. Expected out_dims={out_dims} to be compatible with the structure of `output`. "
            "For more details, please see "
            "https://pytorch.org/docs/main/notes/extending.func.html"
        ) from None


def _one_by_one(
    level: BatchLevel, cls: Custom, values: tuple[Any, ...], in_dims: Any, given: Sequence[Any]
) -> Any:
    announce(cls.__name__)
    check_entries(level, cls.__name__)

    def entry(value: Any, dim: Any, i: int) -> Any:
        return value if dim is None else linear.select(value, dim=dim, index=i)

    rows, written = [], None
    for i in range(level.size):
        entries = [nested(lambda v, d, i=i: entry(v, d, i), *pair)
                   for pair in zip(values, in_dims, strict=True)]  # fmt: skip
        row = cls.apply(*entries)
        ys = row if isinstance(row, tuple) else (row,)
        written = [next((a for e, (_, a) in zip(entries, given, strict=True) if e is y), None)
                   for y in ys]  # fmt: skip
        rows.append(ys)
    several = isinstance(row, tuple)
    results = []
    for column, arg in zip(zip(*rows, strict=True), written or (), strict=True):
        if arg is not None and isinstance(arg, Plug.tensor):
            version_of(arg).bump()
            results.append(arg)
        else:
            whole = column[0]
            if isinstance(whole, Plug.tensor):
                whole = linear.stack(list(column), dim=0)
            results.append(_wrapped(level, whole, 0))
    return tuple(results) if several else results[0]


# -- a custom operation whose every part is run on batches -----------------------------------


class Context:
    """The ``ctx`` of a part that is run on batches: notes what is kept, to be unpacked and kept by
    the ``ctx`` of the operation on the whole batch."""

    def __init__(self, real: Any) -> None:
        self.needs_input_grad = real.needs_input_grad[3:]
        self.materialize_grads = True
        self.saved_tensors: tuple[Any, ...] = ()
        self._kept: dict[str, tuple[Any, ...]] = {"backward": (), "forward": ()}
        self.non_differentiable: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self._kept["backward"] = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        self._kept["forward"] = tensors

    def mark_non_differentiable(self, *args: Any) -> None:
        self.non_differentiable = args

    def mark_dirty(self, *args: Any) -> None:
        raise RuntimeError(
            "generate_vmap_rule=True does not go with mark_dirty(): an input that is changed in "
            "place cannot be one of a batch. Implement the vmap static method instead."
        )

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize_grads = bool(value)


_OWN = frozenset({"needs_input_grad", "materialize_grads", "saved_tensors", "_kept",
                  "non_differentiable"})  # fmt: skip


def _lift(level: BatchLevel, value: Any, dims: Any) -> Any:
    """A value under ``level``. ``dims``: None where it is the same for all entries."""

    def one(x: Any, dim: int | None = None) -> Any:
        return wrap(Batched(level, x, dim is None)) if isinstance(x, Plug.tensor) else x

    return nested(one, value) if dims is None else nested(one, value, dims)


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

            kept = {kind: [unpack(x) for x in tensors] for kind, tensors in inner._kept.items()}
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
            lifted = [_lift(level, g, 0) for g in grads]
            received = rule(inner, lifted) if cls.boxed_grads_call else rule(inner, *lifted)
            received = received if isinstance(received, tuple) else (received,)
            results: list[Any] = []
            for g, dim in zip(received, in_dims, strict=False):
                if g is None:
                    results.append(None)
                    continue
                whole = _stacked(level, g)
                # One value for all entries: their gradients add up.
                results.append(linear.sum_dim(whole, dim=(0,), keepdim=False) if dim is None
                             else whole)  # fmt: skip
        return (None, None, None, *results)

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
