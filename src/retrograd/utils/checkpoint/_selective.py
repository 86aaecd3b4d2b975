"""Selective checkpointing: a policy decides which results are stored."""

from __future__ import annotations

import enum
import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from retrograd import _source, fft, linalg, special
from retrograd._modes import modes, within
from retrograd.autograd._versions import Version, version_of
from retrograd.autograd.grad_mode import no_grad
from retrograd.nn import functional
from retrograd.ops._operation import Operation, raw
from retrograd.tensor._calls import apply
from retrograd.tensor._public import calls
from retrograd.utils.checkpoint._interception import Interceptor


class CheckpointPolicy(enum.Enum):
    """A decision for the result of an operation: ``*_SAVE`` stores it, ``*_RECOMPUTE`` recomputes
    it in the backward pass. Offloading to the CPU is the same as storing.

    >>> from retrograd.utils.checkpoint import CheckpointPolicy
    >>> CheckpointPolicy.MUST_SAVE
    <CheckpointPolicy.MUST_SAVE: 0>
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


RECOMPUTE = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)


class SelectiveCheckpointContext:
    """The context passed to a policy, besides the operation and its arguments.

    Args:
        is_recompute: always False: policies are asked in the forward pass only.
        op_output: the result of the operation.

    Example:
        >>> from retrograd.utils.checkpoint import SelectiveCheckpointContext
        >>> SelectiveCheckpointContext(is_recompute=False).op_output is None
        True
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


Policy = Callable[..., Any]


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Policy | list[Any], allow_cache_entry_mutation: bool = False
) -> tuple[Interceptor, Interceptor]:
    """Creates context managers with which ``checkpoint`` stores some results instead of recomputing
    them.

    Pass this function as ``context_fn``, with its arguments bound.

    An operation is identified by the functions that users call, such as ``torch.mm`` or
    ``torch.nn.functional.gelu``: the one of its own name, and each that it was called through. ``x
    @ w`` and ``torch.matmul(x, w)`` of matrices end in the operation ``mm``, so they are known as
    both ``torch.mm`` and ``torch.matmul``. In a list, any of these will do. A policy is asked with
    one after the other until it returns something other than PREFER_RECOMPUTE. An operation without
    a public name (``x[rows]``) is passed as it is, an object with a ``name``. Policies are not
    asked about views, which have nothing to keep, nor about in-place writes, which are always done
    again.

    Args:
        policy_fn_or_list: functions whose results are kept; or a policy, called as ``policy(ctx,
            op, *args, **kwargs)`` for each operation, that returns a ``CheckpointPolicy``, or True
            to keep the result.
        allow_cache_entry_mutation: allow in-place writes to kept results.

    Returns:
        A pair of context managers, one for each run.

    Example:
        >>> import functools
        >>> from retrograd.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
        >>> keep_products = functools.partial(create_selective_checkpoint_contexts, [torch.matmul])
        >>> x, w = torch.ones(1, 2), torch.eye(2, requires_grad=True)
        >>> def layer(x, w):
        ...     return torch.tanh(x @ w)
        >>> y = checkpoint(layer, x, w, use_reentrant=False, context_fn=keep_products)
        >>> y.sum().backward()  # computes tanh again, but not x @ w
        >>> w.grad
        tensor([[0.4200, 0.4200],
                [0.4200, 0.4200]])
    """
    decide: Callable[[_Asked], bool]
    if isinstance(policy_fn_or_list, list):
        wanted = {_listed_name(f) for f in policy_fn_or_list}

        def decide(asked: _Asked) -> bool:
            return not wanted.isdisjoint(asked.names)
    elif callable(policy_fn_or_list):
        decide = functools.partial(_ask, policy_fn_or_list)
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    kept: Kept = {}
    return _Keeping(decide, kept), _Reusing(kept, allow_cache_entry_mutation)


# -- names -----------------------------------------------------------------------------------

# The package itself is a layer above. It is looked up, not imported: it is loaded whenever a user
# has a function of it.
_NAMESPACES = (sys.modules["retrograd"], functional, linalg, special, fft)


@functools.cache
def _functions_called(name: str) -> tuple[Any, ...]:
    """What users can call by a name, in any of the namespaces."""
    result = [getattr(space, name, None) for space in _NAMESPACES]
    return tuple(dict.fromkeys(f for f in result if hasattr(f, "__wrapped__")))


def _listed_name(function: Any) -> str:
    """The name of an operation in a list."""
    name = getattr(function, "__name__", "").lstrip("_")  # methods may be functions of ours
    if not callable(function) or not _functions_called(name):
        raise ValueError(
            f"Expected op in `op_list` to be an OpOverload but got: {function} of type "
            f"{type(function)}. Name operations by the functions that users call, such as torch.mm "
            "or torch.nn.functional.gelu."
        )
    return name


class _Asked:
    """An operation that has run, as a policy hears of it."""

    __slots__ = ("args", "names", "op", "options", "result")

    def __init__(self, op: Operation, args: Any, options: dict[str, Any], result: Any) -> None:
        self.op = op
        self.args = args
        self.options = options
        self.result = result
        self.names = list(dict.fromkeys(_names_of(op)))


def _names_of(op: Operation) -> Iterator[str]:
    """The names that users know an operation by: its own (``pow`` for ``pow_scalar``), and those of
    the functions that it is being called through."""
    words = op.name.split("_")
    stems = ("_".join(words[:n]) for n in range(len(words), 0, -1))
    yield from [stem for stem in stems if _functions_called(stem)][:1]
    yield from [name for name in reversed(calls.names) if _functions_called(name)]


def _ask(policy: Policy, asked: _Asked) -> bool:
    """Whether a policy wants a result kept, by one of its names."""
    functions = [f for name in asked.names for f in _functions_called(name)]
    for function in functions or [asked.op]:
        context = SelectiveCheckpointContext(is_recompute=False, op_output=asked.result)
        answer = policy(context, function, *asked.args, **asked.options)
        if answer is None or isinstance(answer, bool):
            answer = CheckpointPolicy.MUST_SAVE if answer else CheckpointPolicy.PREFER_RECOMPUTE
        if not isinstance(answer, CheckpointPolicy):
            raise TypeError(
                f"a checkpoint policy must return a CheckpointPolicy or a bool, but returned "
                f"{answer!r}"
            )
        if answer is not CheckpointPolicy.PREFER_RECOMPUTE:
            return answer not in RECOMPUTE
    return False


# -- the two contexts ------------------------------------------------------------------------


class _Result:
    """A kept result of an operation, and the version counters of whoever could write over it."""

    __slots__ = ("several", "values", "watched")

    def __init__(self, result: Any) -> None:
        self.several = isinstance(result, tuple)
        self.values = tuple(t._data for t in _tensors(result))
        self.watched: list[tuple[Version, int]] = []
        self.watch(result)

    def watch(self, result: Any) -> None:
        versions = [version_of(t) for t in _tensors(result)]
        self.watched += [(version, version.count) for version in versions]

    def check(self) -> None:
        for version, count in self.watched:
            if version.count != count:
                line = _source.describe(version.written_at)
                raise RuntimeError(
                    "Tensor cached during selective activation checkpoint has been mutated"
                    + (f"\n  changed at {line}" if line else "")
                )


def _tensors(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


# For each operation, its results in order: kept, to be computed again, or used up.
Kept = dict[Operation, list[_Result | str]]
AGAIN, USED = "again", "used"


class _Keeping(Interceptor):
    """The context of the first run, which keeps what the policy says."""

    def __init__(self, decide: Callable[[_Asked], bool], kept: Kept) -> None:
        super().__init__()
        self.decide = decide
        self.kept = kept
        self.levels = modes.levels

    def handle(
        self, op: Operation, args: Sequence[Any], options: dict[str, Any], computed: Any
    ) -> Any:
        result = apply(op, args, options, computed)
        if op.view:
            return result
        # What a policy computes for itself is no part of the function.
        with within(grad_enabled=False, interceptors=()):
            keep = self.decide(_Asked(op, args, options, result))
        if _is_input(result, args) or modes.levels != self.levels:  # of use in this run only
            keep = False
        self.kept.setdefault(op, []).append(_Result(result) if keep else AGAIN)
        return result


def _is_input(result: Any, args: Sequence[Any]) -> bool:
    """Whether a result is the array that went in (a conversion that had nothing to do)."""
    inputs = [raw(x) for x in args]
    return any(t._data is x for t in _tensors(result) for x in inputs)


class _Reusing(Interceptor):
    """The context of the second run, which uses what was kept."""

    def __init__(self, kept: Kept, allow_mutation: bool) -> None:
        super().__init__()
        self.kept = kept
        self.allow_mutation = allow_mutation
        self.done: Counter[Operation] = Counter()

    def __enter__(self) -> Self:
        self.done.clear()
        return super().__enter__()

    def handle(
        self, op: Operation, args: Sequence[Any], options: dict[str, Any], computed: Any
    ) -> Any:
        if op.view:
            return apply(op, args, options, computed)
        number, results = self.done[op], self.kept.get(op, [])
        self.done[op] += 1
        if number >= len(results):
            index = f" invocation index {number}" if results else ""
            raise RuntimeError(
                f"{op.name}{index} encountered during backward but not found in storage. This can "
                "happen if the operations in the checkpointed region are nondeterministic or "
                "depend on global state that changed between forward and backward."
                f"\n  called at {_source.describe(_source.user_place(2))}"
            )
        result = results[number]
        if result is AGAIN:
            return apply(op, args, options, computed)
        if not isinstance(result, _Result):
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any "
                "region computed under selective activation checkpoint. Specify retain_graph=True "
                "the first time if you need to do so again."
            )
        if not self.allow_mutation:
            result.check()
        stays = not modes.tasks or modes.tasks[-1].keep_graph
        if not stays:
            results[number] = USED
        if "generator" in op.options:
            with no_grad():
                apply(op, args, options)  # so that the numbers drawn after these are as they were
        again = apply(op, args, options, result.values if result.several else result.values[0])
        if stays:
            result.watch(again)
        return again


__all__ = ["CheckpointPolicy", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts"]
