"""Reasons why the program of a traced call cannot be used for other calls."""

from __future__ import annotations

import gc
import sys
import types
from typing import TYPE_CHECKING, Any

from retrograd.compiler._guards import apart_in_memory
from retrograd.func._trees import is_nest

if TYPE_CHECKING:
    from retrograd.compiler._trace import Trace

Reason = tuple[str, Any]  # and the location in the user's code, or None


def reason_against(trace: Trace, drawn_from: str | None, result: Any) -> Reason | None:
    """The reason why a program cannot be used for other calls; None if it can. ``drawn_from`` is
    the source of random numbers of other libraries, if any were drawn."""
    if trace.level.looked is not None:
        how, where = trace.level.looked
        return _about_look(how), where
    if drawn_from is not None:
        return (f"it draws numbers from {drawn_from}, which differ in each call. Use "
                "torch.rand(), or pass them as arguments.", None)  # fmt: skip
    if not apart_in_memory([t.memory.value for t in trace.traced], [i for i, _ in trace.writes]):
        return "it writes to tensors that share memory with others.", None
    return _about_unknown(trace, result)


def _about_look(how: str) -> str:
    """The reason if the function read a value, changed a random generator, or did something else
    that a program cannot do."""
    if "random generator" in how:
        return f"it changes state that the program depends on: {how}. Do that outside."
    if how.startswith("a new "):
        return (
            f"a program cannot create {how}. Return and store only tensors, numbers, and "
            "lists, tuples and dicts of them."
        )
    if how.startswith("control flow: "):
        return f"it contains {how.removeprefix('control flow: ')}."
    return (
        f"it depends on the values of tensors, which it reads with {how}. Use "
        "torch.where() to select values, torch.cond() to select a branch, or read the "
        "values outside of the function."
    )


def _about_unknown(trace: Trace, result: Any) -> Reason | None:
    """The reason if the function used a tensor that the guards do not know and that something still
    refers to. It is from outside, and may be another tensor in the next call."""
    unknown = list({id(x): x for x in trace.level.unknown}.values())
    trace.level.unknown.clear()
    if _holder_of(unknown, trace, result) is None:
        return None
    gc.collect()  # garbage may refer to them
    holder = _holder_of(unknown, trace, result)
    if holder is None:
        return None
    return (
        "it uses a tensor that is not an argument, and not in its closure, its globals or "
        f"attributes of objects there, but in a {holder.__name__}. Pass it as an "
        "argument.", None,
    )  # fmt: skip


def _holder_of(unknown: list[Any], trace: Trace, result: Any) -> type | None:
    """The type of an object from outside that refers to one of these tensors, or None."""
    held = [unknown[i] for i in range(len(unknown)) if sys.getrefcount(unknown[i]) > 2]
    if not held:
        return None
    own = {id(x) for x in (unknown, held, trace.tensors, *_containers_in(result))}
    frozen = gc.get_freeze_count() > 0
    if frozen:  # the collector does not look for referrers among frozen objects
        gc.unfreeze()
    holders = gc.get_referrers(*held)
    if frozen:
        gc.freeze()
    for holder in holders:
        kind = type(holder)
        if id(holder) in own or kind is types.FrameType or kind is tuple:
            continue
        if kind.__module__.split(".")[0] != "retrograd":
            return kind
    return None


def _containers_in(tree: Any) -> list[Any]:
    """The lists, tuples and dicts in a result."""
    containers, to_visit = [], [tree]
    while to_visit:
        x = to_visit.pop()
        if is_nest(x):
            containers.append(x)
            to_visit += x.values() if isinstance(x, dict) else x
    return containers
