"""Which part of its base a view is, under transforms.

For arrays, addresses in memory tell. A value under a transform has parts in several memories, or in
one that others share; there, a view is known by the steps in which it was taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from retrograd.autograd._forward import push_forward
from retrograd.autograd._history import PartOfBase, layout_of, outside, outside_of_complex
from retrograd.ops import comparisons, copies, linear
from retrograd.ops._operation import Operation, raw


class Part(PartOfBase):
    """A part by a view operation, and what that was applied to: another part, or the base."""

    __slots__ = ("before", "operation", "options", "output")

    def __init__(
        self, of: Any, before: Any, operation: Operation, options: dict[str, Any],
        output: tuple[int, int],
    ) -> None:  # fmt: skip
        """``output``: which one of the operation, and of how many."""
        self.output = output
        self.before = before
        self.operation = operation
        self.options = options
        self.shape = tuple(of.shape)
        # Of the base: squeeze_() and its kin change it, and then the steps lead somewhere else.
        self.layout = before.layout if before is not None else layout_of(of)

    def steps(self) -> Iterator[Any]:
        """From the last to the first."""
        part: Any = self
        while part is not None:
            yield part
            part = part.before

    def step(self, x: Any) -> Any:
        """What the view operation alone makes of a value."""
        number, count = self.output
        return push_forward(self.operation, (x,), (x,), self.options, (None,) * count)[number]

    def step_back(self, g: Any) -> Any:
        """The transpose of the view operation alone."""
        rule = self.operation.rules[0]
        assert rule is not None
        if self.operation.output_names != ("result",):
            number, count = self.output
            g = tuple([g if i == number else None for i in range(count)])
        return rule.function(g, *rule.arguments(self.options, self.shape))

    def take(self, x: Any) -> Any:
        for step in reversed(list(self.steps())):
            x = step.step(x)
        return x

    def back(self, g: Any) -> Any:
        """Zeros but for the part: the transpose of taking it."""
        for step in self.steps():
            g = step.step_back(g)
        return g

    def elsewhere(self, x: Any) -> Any:
        """A value with zeros for the part."""
        viewed = self.take(raw(x))
        inside = self.back(copies.zeros_like(viewed) + (1 + 1j if copies.is_complex(viewed) else 1))
        if not copies.is_complex(x):
            return outside(comparisons.ne(inside, 0), x)
        return outside_of_complex(comparisons.ne(linear.view_as_real(inside), 0), x)
