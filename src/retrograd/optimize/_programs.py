"""Functions that a solver calls many times: after a while, as programs.

A solver calls a function and its derivatives at one point after the other, with the same shapes,
and what the function has captured stays the same meanwhile. The first calls are eager. If there
are more, the function is traced, and from then on its program runs (``compiler.Quiet``), which
gives the same to the bit. A function that looks at values, or that does more than compute, stays
eager. Programs stay with the user's function, and serve the next solve with the same shapes.
"""

from __future__ import annotations

import sys
import time
import types
from collections.abc import Callable
from typing import Any

from retrograd.tensor._tensor import Tensor

# How many calls are eager. Tracing takes about as long as so many of them, so that a solve takes at
# most twice as long as with the better choice, wherever it ends.
CALLS = {"value": 50, "gradient": 12, "matrix": 3}
ATTRIBUTE = "__retrograd__"
MOST_KEPT = 16  # of one function, for different shapes and arguments
LOADING = 0.06  # seconds, for loading the compiler


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


class Evaluation:
    """A function of tensors, to be called many times.

    ``function`` must not refer to more than it needs, since all that it refers to is compared
    before each call of its program. ``kind`` is what it computes: see ``CALLS``.
    """

    def __init__(self, function: Callable[..., Any], kind: str) -> None:
        self.function: Callable[..., Any] = function
        self._left = CALLS[kind]
        self._seconds = 0.0
        self._is_program = False

    def __call__(self, *tensors: Tensor) -> Any:
        if self._is_program:
            return self.function(*tensors)
        start = time.perf_counter()
        found = self.function(*tensors)
        self._seconds += time.perf_counter() - start
        self._left -= 1
        if self._left <= 0 and (
            "retrograd.compiler" in sys.modules or self._seconds > LOADING
        ):
            from retrograd.compiler._compiled import Quiet

            self.function, self._is_program = Quiet(self.function), True
        return found
