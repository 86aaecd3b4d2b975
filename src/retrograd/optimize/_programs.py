"""Functions made of the user's function (``func/_programs.py``), which stay with it, and serve the
next solve with the same shapes."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from retrograd.func._programs import Evaluation
from retrograd.tensor._tensor import Tensor

ATTRIBUTE = "__retrograd__"
MOST_KEPT = 32  # of one function, for different shapes and arguments


class Kept:
    """The functions that were made of a user's function, kept as an attribute of it for the next
    solve. A copy of its attributes, as ``functools.wraps`` makes, and a pickle have none."""

    def __init__(self, function: Any = None) -> None:
        self.function = function
        self.known: dict[Any, Evaluation] = {}

    def __reduce__(self) -> Any:
        return Kept, ()


def kept(function: Any, key: Any, make: Callable[[], Callable[..., Any]], kind: str) -> Evaluation:
    """What ``make`` makes of a user's function, as an ``Evaluation``: the one of an earlier solve
    with the same key, if there was one. A key of None, or for another callable, is for this solve
    only."""
    if key is None or type(function) is not types.FunctionType:
        return Evaluation(make(), kind)
    own = function.__dict__.get(ATTRIBUTE)
    if own is None or own.function is not function:
        own = function.__dict__[ATTRIBUTE] = Kept(function)
    found = own.known.get(key)
    if found is None:
        if len(own.known) >= MOST_KEPT:
            del own.known[next(iter(own.known))]
        found = own.known[key] = Evaluation(make(), kind)
    return found


def fits(function: Any, key: Any, *tensors: Tensor) -> bool:
    """Whether there is a program of an earlier solve, for the same key, that serves these tensors:
    then what it was made of can see the same as it did."""
    own = getattr(function, "__dict__", {}).get(ATTRIBUTE)
    if key is None or own is None or own.function is not function:
        return False
    found = own.known.get(key)
    return found is not None and found.is_program and found.function.fits(*tensors)
