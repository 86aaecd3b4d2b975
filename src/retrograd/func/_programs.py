"""Functions that are called many times: eager at first, then compiled.

A solver calls a function and its derivatives at one point after the other, with the same shapes,
and what the function has captured stays the same meanwhile. The first calls are eager. If there
are more, the function is traced, and from then on its program runs (``compiler.Quiet``), which
gives the same to the bit. A function that looks at values, or that does more than compute, stays
eager.

A program is made when eager calls have taken as long as making it will: so the total is at most
twice that of the better choice, however many calls there are. The calls of all solves count. What
making a program takes is known in eager calls of the same function (``CALLS``). Loading the
compiler is paid for once, so the eager calls of all functions count toward it (``LOADING``).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from retrograd.autograd._wrap import Plug
from retrograd.func._trees import flatten
from retrograd.ops._operation import raw
from retrograd.tensor._tensor import Tensor

# How many eager calls take as long as tracing the function. Tracing takes some milliseconds for
# the first operations and 0.1 ms for each one more, so that it is the same for small and large
# functions within a factor of two.
CALLS = {"value": 70, "gradient": 22, "matrix": 5}
LOADING = 0.03  # seconds, for loading the compiler and tracing the first function


class _Eager:
    """The time that eager calls have taken, of all functions."""

    seconds = 0.0


class Evaluation:
    """A function of tensors, to be called many times.

    ``function`` must not refer to more than it needs, since all that it refers to is compared
    before each call of its program. ``kind`` is what it computes: see ``CALLS``.
    """

    def __init__(self, function: Callable[..., Any], kind: str) -> None:
        self.function: Any = function
        self._kind = kind
        self._calls = 0
        self._fastest = 0.0  # of the eager calls, without the first, which may load modules
        self.is_program = False
        self.note: Any = None  # what whoever calls it has found out about it

    def _count(self, seconds: float) -> None:
        """Note an eager call, and make a program if it pays. A call that took longer than others,
        as on a busy machine, counts as much as the fastest."""
        self._calls += 1
        if self._calls == 1:
            return
        self._fastest = min(self._fastest or seconds, seconds)
        _Eager.seconds += self._fastest
        if self._calls > CALLS[self._kind] and (
            "retrograd.compiler" in sys.modules or _Eager.seconds > LOADING
        ):
            self.function, self.is_program = Plug.compiler().Quiet(self.function), True

    def arrays(self, *tensors: Tensor) -> list[Any]:
        """The results of the function, as a flat list of raw arrays."""
        if self.is_program and type(results := self.function.arrays(*tensors)) is list:
            return results
        return [raw(x) for x in flatten(self(*tensors))[0]]

    def __call__(self, *tensors: Tensor) -> Any:
        if self.is_program:
            return self.function(*tensors)
        start = time.perf_counter()
        result = self.function(*tensors)
        self._count(time.perf_counter() - start)
        return result

    def __reduce__(self) -> Any:
        """A copy, and what a pickle holds, is eager at first."""
        function = self.function.compiled_function if self.is_program else self.function
        return Evaluation, (function, self._kind)
