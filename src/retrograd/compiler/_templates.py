"""Templates: how to construct the results and side effects of a function from the outputs of its
program and from known tensors."""

from __future__ import annotations

from typing import Any

from retrograd._records import Record
from retrograd.compiler._program import Program, Var
from retrograd.compiler._watching import Held


class Known(Record):
    """A tensor among the arguments of the function or visible to it, by its number."""

    number: int


class Part(Record):
    """A view of another tensor: of a known one, or of a result."""

    of: Any  # Known or New
    steps: tuple[Any, ...]


class New(Record):
    """A new tensor: the output of the program that it holds, and whether it has a history."""

    output: int
    recorded: bool = False
    requires_grad: bool = False  # whether it is a leaf that requires grad


class Fixed(Record):
    """A Python value, the same in each run."""

    value: Any


class Same(Record):
    """A container among the arguments of the function or visible to it, by its name in the guard
    function."""

    local: str


class Nest(Record):
    """A new container of templates."""

    leaves: list[Any]
    shape: Any


class Change(Record):
    """A change of an entry of a container. ``key`` is None for a cell and for ``.grad``."""

    held: Held
    key: Any
    template: Any  # or REMOVED

    def alone(self) -> Change:
        """The same without references to the container and its contents."""
        return self.replaced(held=Held(self.held.kind, None, None, self.held.local))


REMOVED = object()


class Pull(Record):
    """The program that computes gradients of the results that have a history."""

    program: Program | None  # None if they cannot be
    saved: list[Var]  # its inputs, before the gradients
    variables: list[int]  # the known tensors whose gradients it computes
    outputs: list[bool]  # for each of these, whether there is a gradient
    error: str = ""  # why there is no program, for example because the graph was freed
