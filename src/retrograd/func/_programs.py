"""Functions that are called many times: after a while, as programs.

A solver calls a function and its derivatives at one point after the other, with the same shapes,
and what the function has captured stays the same meanwhile. The first calls are eager. If there
are more, the function is traced, and from then on its program runs (``compiler.Quiet``), which
gives the same to the bit. A function that looks at values, or that does more than compute, stays
eager.
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

# How many calls of a first solve are eager. Tracing takes about as long as so many of them, so that
# a solve takes at most twice as long as with the better choice, wherever it ends.
CALLS = {"value": 50, "gradient": 12, "matrix": 3}
LOADING = 0.06  # seconds, for loading the compiler


class Evaluation:
    """A function of tensors, to be called many times.

    ``function`` must not refer to more than it needs, since all that it refers to is compared
    before each call of its program. ``kind`` is what it computes: see ``CALLS``.
    """

    def __init__(self, function: Callable[..., Any], kind: str) -> None:
        self.function: Any = function
        self._kind = kind
        self._left = CALLS[kind]
        self._seconds = 0.0
        self.is_program = False

    def comes_again(self) -> None:
        """Is told that another solve begins with it. Then there will be more, so that the next call
        is traced."""
        if self._seconds > 0.0:
            self._left = 0
            self._make_program()

    def _make_program(self) -> None:
        if self._left > 0 or self.is_program:
            return
        if "retrograd.compiler" in sys.modules or self._seconds > LOADING:
            self.function, self.is_program = Plug.compiler().Quiet(self.function), True

    def arrays(self, *tensors: Tensor) -> list[Any]:
        """The raw arrays of what the function gives, one after the other."""
        if self.is_program and type(found := self.function.arrays(*tensors)) is list:
            return found
        return [raw(x) for x in flatten(self(*tensors))[0]]

    def __call__(self, *tensors: Tensor) -> Any:
        if self.is_program:
            return self.function(*tensors)
        start = time.perf_counter()
        found = self.function(*tensors)
        self._seconds += time.perf_counter() - start
        self._left -= 1
        self._make_program()
        return found

    def __reduce__(self) -> Any:
        """A copy, and what a pickle holds, is eager at first."""
        function = self.function.compiled_function if self.is_program else self.function
        return Evaluation, (function, self._kind)
