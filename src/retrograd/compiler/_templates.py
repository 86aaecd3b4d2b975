"""Templates: how to put together what a function gave and changed, from what a run of its program
gives and from the tensors that are known."""

from __future__ import annotations

from typing import Any

from retrograd._records import Record
from retrograd.compiler._program import Program, Var
from retrograd.compiler._watching import Held


class Known(Record):
    """A tensor that the function was given or can see, by its number."""

    number: int


class Part(Record):
    """A tensor in the memory of another: of a known one, or of a result."""

    of: Any  # Known or New
    steps: tuple[Any, ...]


class New(Record):
    """A new tensor: which output of the program it holds, and whether it has a history."""

    output: int
    recorded: bool = False
    requires_grad: bool = False  # a leaf that does


class Fixed(Record):
    """A Python value, the same in each run."""

    value: Any


class Same(Record):
    """A container that the function was given or can see, by its name in the comparing function."""

    local: str


class Nest(Record):
    """A new container of templates."""

    leaves: list[Any]
    shape: Any


class Change(Record):
    """An entry of a container that is set: ``key`` is None for a cell and for ``.grad``."""

    held: Held
    key: Any
    template: Any  # or REMOVED

    def alone(self) -> Change:
        """The same without what the container was and held."""
        return self.replaced(held=Held(self.held.kind, None, None, self.held.local))


REMOVED = object()


class Pull(Record):
    """How gradients of recorded results are computed: by a second program."""

    program: Program | None  # None if they cannot be
    saved: list[Var]  # its inputs, before the gradients
    variables: list[int]  # the known tensors that it gives gradients for
    outputs: list[bool]  # for each of these, whether there is one
    error: str = ""  # why there is no program: the graph has been freed, say
