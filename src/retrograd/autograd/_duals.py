"""Dual numbers: a value and how fast it moves.

The parts of a dual number are values of the levels below, so that whatever is done to compute a
tangent is itself recorded, batched or differentiated, if those levels do that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd.autograd._forward import call, push_forward
from retrograd.autograd._levels import as_tensor
from retrograd.autograd._wrap import wrap
from retrograd.ops._lifted import Level, Lifted
from retrograd.ops._operation import Operation


class Dual(Lifted):
    """A value and its tangent; None is a tangent of zero."""

    __slots__ = ("_tangent", "primal", "view_of")

    def __init__(self, level: Level, primal: Any, tangent: Any) -> None:
        self.level = level
        self.primal = primal
        self._tangent = tangent
        # For a view whose tangent is zero: the value it is a view of, and how. That may be given
        # a tangent later, by a write, which is then the view's, too.
        self.view_of: tuple[Dual, Callable[[Any], Any]] | None = None

    @property
    def inner(self) -> Any:
        return self.primal

    def start_moving(self) -> None:
        """Give the value, and what it is a view of, a tangent of zeros that can be written."""
        source = self
        while source.view_of is not None:
            source = source.view_of[0]
        source._tangent = as_tensor(source.primal).new_zeros(source.primal.shape)

    @property
    def tangent(self) -> Any:
        """How fast the value moves, or None."""
        steps, source = [], self
        while source._tangent is None and source.view_of is not None:
            steps.append(source)
            source = source.view_of[0]
        for view in reversed(steps if source._tangent is not None else []):
            assert view.view_of is not None
            base, take = view.view_of
            view._tangent = take(base._tangent)
        return self._tangent

    def item(self) -> Any:
        """The one element as a number."""
        return as_tensor(self.primal).item()

    def tolist(self) -> Any:
        """The elements as nested lists of numbers."""
        return as_tensor(self.primal).tolist()

    def __array__(self, *given: Any, **named: Any) -> Any:
        return as_tensor(self.primal).detach().__array__(*given, **named)

    def detached(self) -> Lifted:
        """The value alone, which does not move."""
        return Dual(self.level, as_tensor(self.primal).detach(), None)

    def text(self, suffixes: str) -> str:
        primal = as_tensor(self.primal)
        if self.level.closed:
            return repr(primal)
        tangent = self.tangent
        shown = "" if tangent is None else f", tangent={as_tensor(tangent).detach()!r}"
        return f"{repr(primal)[:-1]}{shown}{suffixes})"


class DualLevel(Level):
    """Forward mode: every operation takes tangents along."""

    __slots__ = ()

    name = "forward mode"

    def run_on_parts(
        self, operation: Operation, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        several = operation.inputs == ("tensors",)
        given = list(args[0]) if several else list(args)
        primals = [self.primal_of(x) for x in given]
        tangents = [self.tangent_of(x) for x in given]
        options = {name: self.primal_of(value) for name, value in options.items()}
        found = call(operation, primals, options)
        outputs = list(found) if isinstance(found, (tuple, list)) else [found]
        moved: Any = (None,) * len(outputs)
        if operation.differentiable and any(t is not None for t in tangents):
            moved = push_forward(operation, primals, tangents, options, outputs)
        results = tuple(Dual(self, y, t) for y, t in zip(outputs, moved, strict=True))
        if operation.view and isinstance(given[0], Dual):
            for i, result in enumerate(results):
                result.view_of = (given[0], _taking(operation, options, i))
        return results if isinstance(found, (tuple, list)) else results[0]

    def below(self, x: Any) -> tuple[Any, bool]:
        return (x.primal, x.tangent is not None) if self.owns(x) else (x, False)

    def take_in(self, tensor: Any) -> None:
        if tensor._meta is not None and tensor._meta.view is not None:
            raise RuntimeError(
                "A value that has a tangent is being written into a view of a tensor that has "
                "none. Write it into that tensor itself, or compute a new one."
            )
        inner = wrap(tensor._data, tensor._node, tensor._number, tensor._version_counter)
        if tensor.requires_grad and tensor._node is None:
            inner.requires_grad_()  # and writing it will be refused
        tensor._data = self.constant(inner)
        tensor._node = tensor._meta = tensor._version_counter = None

    def write(self, target: Any, result: Any) -> None:
        as_tensor(target.primal).copy_(as_tensor(result.primal))
        tangent = result.tangent
        if tangent is None:
            if target.tangent is not None:
                as_tensor(target.tangent).zero_()
            return
        if target.tangent is None:
            target.start_moving()
        as_tensor(target.tangent).copy_(as_tensor(tangent))

    def left_of(self, x: Any) -> Any:
        return as_tensor(x.primal)

    def constant(self, x: Any) -> Lifted:
        return Dual(self, x, None)

    def owns(self, x: Any) -> bool:
        return isinstance(x, Dual) and x.level is self

    def primal_of(self, x: Any) -> Any:
        """A value as the levels below know it."""
        if isinstance(x, tuple) and any(isinstance(part, Lifted) for part in x):
            return tuple(self.primal_of(part) for part in x)
        return x.primal if self.owns(x) else x

    def tangent_of(self, x: Any) -> Any:
        return x.tangent if self.owns(x) else None


def _taking(op: Operation, options: dict[str, Any], i: int) -> Callable[[Any], Any]:
    def take(tangent: Any) -> Any:
        found = op(tangent, **options)
        return found[i] if isinstance(found, (tuple, list)) else found

    return take
