"""Rejects writes to captured tensors in a function that is being differentiated.

A tensor that a function writes in place must be one that it made itself, or one that it was given:
another is state from outside, and what the function does to it is no part of what is
differentiated. Nothing is noted about the tensors that are made; that would slow down every
operation. Instead, when there is a write, one looks where the tensor could have been captured: in
what the function refers to by its closure, its defaults, global names, and the object whose method
it is, and in whatever those hold in turn. (So a tensor that the function made, and put where that
reaches, counts as captured, too.)
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

from retrograd._modes import Within, modes
from retrograd._source import describe, user_place
from retrograd.autograd._node import orders
from retrograd.func._trees import flatten
from retrograd.ops._lifted import Level, Lifted
from retrograd.ops._operation import TensorLike

MOST_OBJECTS = 50_000  # that are looked at; what lies deeper is taken for the function's own


class Running(Within):
    """A context for a function that is being differentiated. ``given``: its arguments."""

    def __init__(self, function: Callable[..., Any] | None, *given: Any, **changes: Any) -> None:
        self.function = function
        self.given = given
        self.modes = changes
        self.start = next(orders)  # nodes that are made from here on have lower numbers
        self.known: dict[int, Any] | None = None  # the tensors that the function has captured
        # Levels below which nothing is to be recorded: recording was off within them when the
        # function was called, and is on again only for this.
        outer = modes.running.unrecorded if modes.running is not None else ()
        self.unrecorded: tuple[Level, ...] = outer if modes.grad_enabled else modes.levels

    def changes(self) -> dict[str, Any]:
        return {"running": self, **self.modes}

    def check_write(self, operation: str, target: Any) -> None:
        """RuntimeError for a write to a tensor that was captured, and is no argument."""
        target = target if target._base is None else target._base
        node = target._node
        if node is not None and node.order < self.start:
            return  # it was computed inside
        if node is None:
            if self.known is None:
                self.known = {id(x): x for x in captured_by(self.function)}
            if id(target) not in self.known:
                return
        if not any(target is x for x in parts_of(flatten(self.given)[0])):
            raise captured(operation)


# -- what a function refers to -----------------------------------------------------------------


def captured_by(function: Any) -> Iterator[Any]:
    """The tensors that can be reached from a function, and those that they are views of."""
    seen: set[int] = set()
    to_visit: list[Any] = [function]
    while to_visit and len(seen) < MOST_OBJECTS:
        x = to_visit.pop()
        if id(x) in seen:
            continue
        seen.add(id(x))
        if isinstance(x, TensorLike):
            yield from parts_of([x])
        else:
            to_visit += references(x)


def references(x: Any) -> list[Any]:
    """What an object refers to, as far as a program does so by names, attributes and items."""
    if isinstance(x, dict):
        return list(x.values())
    if isinstance(x, (list, tuple, set, frozenset)):
        return list(x)
    if isinstance(x, types.FunctionType):
        cells = [cell for cell in x.__closure__ or () if _is_filled(cell)]
        names = names_in(x.__code__)
        values = [x.__globals__[n] for n in names if n in x.__globals__]
        values += [cell.cell_contents for cell in cells]
        return [*values, *(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values(),
                getattr(x, "__wrapped__", None)]  # fmt: skip
    if isinstance(x, types.MethodType):
        return [x.__self__, x.__func__]
    if isinstance(x, functools.partial):
        return [x.func, *x.args, *x.keywords.values()]
    if isinstance(x, (type, types.ModuleType, str, bytes, int, float)) or x is None:
        return []
    values = list(getattr(x, "__dict__", {}).values())
    methods = [vars(kind).get(name) for kind in type(x).__mro__ for name in ("__call__", "forward")]
    return [*values, *(method for method in methods if isinstance(method, types.FunctionType))]


def names_in(code: types.CodeType) -> Iterator[str]:
    """The global names, and others, that some code uses, with those of functions in it."""
    codes = [code]
    while codes:
        each = codes.pop()
        yield from each.co_names
        codes += [c for c in each.co_consts if isinstance(c, types.CodeType)]


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def parts_of(leaves: list[Any]) -> list[Any]:
    """The tensors among some values, their bases, and the parts of lifted ones."""
    results: list[Any] = []
    to_visit = [x for x in leaves if isinstance(x, TensorLike)]
    while to_visit:
        tensor: Any = to_visit.pop()
        results.append(tensor)
        base, data = tensor._base, tensor._data
        parts = []
        if isinstance(data, Lifted):
            parts = [getattr(data, name, None) for name in ("value", "primal", "_tangent")]
        to_visit += [x for x in (base, *parts) if isinstance(x, TensorLike)]
    return results


def captured(operation: str) -> RuntimeError:
    place = describe(user_place())
    return RuntimeError(
        "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call "
        f"in-place operation ({operation}_) that would mutate a captured Tensor. This is not "
        "supported; please rewrite the function being transformed to explicitly accept the mutated "
        f"Tensor(s) as inputs." + (f"\nThe write is at {place}" if place else "")
    )
