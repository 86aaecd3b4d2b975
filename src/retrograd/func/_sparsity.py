"""Sparsity patterns of Jacobians and Hessians, without evaluating derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from retrograd import arrays
from retrograd.autograd._levels import is_of, opened
from retrograd.autograd._patterns import Dependent, PatternLevel
from retrograd.autograd._wrap import wrap
from retrograd.func._arguments import check_outputs
from retrograd.func._captured import Running
from retrograd.func._reverse import grad
from retrograd.tensor._tensor import Tensor

patterns, steps = arrays.patterns, arrays.dependencies


def sparsity(func: Callable[[Tensor], Any], x: Tensor, *, every_value: bool = False) -> Any:
    """Computes the sparsity pattern of a Jacobian: which outputs can depend on which inputs.

    It is found by one run of ``func`` that follows dependencies, never by evaluating derivatives.
    It may contain entries that turn out to be zero, and misses none that is not.

    Args:
        func: A function of one Tensor that returns one Tensor.
        x: Where to look: choices that ``func`` makes by values, by ``where`` or by sorting, are
            made as for this ``x``.
        every_value: Find a pattern that holds for every ``x`` of this shape. A function that
            branches on values, or takes elements at indices that it computes, is refused.

    Returns:
        A SciPy sparse array of bool, with a row for each element of the output, in reading order,
        and a column for each element of ``x``.

    Example:
        >>> from retrograd.func import sparsity
        >>> sparsity(lambda x: x[1:] * x[:-1], torch.ones(4)).toarray().astype(int)
        array([[1, 1, 0, 0],
               [0, 1, 1, 0],
               [0, 0, 1, 1]])
    """
    what = "sparsity(f, x)"
    return _checked(follow(func, x, every_value, what), every_value, what).pattern()


def hessian_sparsity(func: Callable[[Tensor], Any], x: Tensor, *, every_value: bool = False) -> Any:
    """The pattern of the Hessian of a scalar function: that of the Jacobian of its gradient, made
    symmetric.

    Args:
        func: A function of one Tensor that returns one number.
        x: Where to look, as for ``sparsity``.
        every_value: As for ``sparsity``.

    Returns:
        A SciPy sparse array of bool, square.

    Example:
        >>> from retrograd.func import hessian_sparsity
        >>> hessian_sparsity(lambda x: (x[1:] * x[:-1]).sum(), torch.ones(3)).toarray().astype(int)
        array([[0, 1, 0],
               [1, 0, 1],
               [0, 1, 0]])
    """
    what = "hessian_sparsity(f, x)"
    pattern = _checked(follow(grad(func), x, every_value, what), every_value, what).pattern()
    return patterns.union([pattern, patterns.transposed(pattern)])


class Followed(NamedTuple):
    """What was found out about a function."""

    step: Any  # from which its pattern can be read; None if its result is constant
    inputs: int  # how many there are
    shape: tuple[int, ...]  # of the output
    looked: bool  # whether it looked at values that depend on the input
    wrote: bool  # whether it wrote to values in place

    def pattern(self, sources: Sequence[Any] = (), inner: Any = None) -> Any:
        """The pattern of the Jacobian. ``sources``: if the function was cut, which input each
        variable is a copy of, for each leaf but the first. ``inner``: the pattern of an
        intermediate value, whose elements count as inputs there, after the others."""
        if self.step is None:
            return patterns.empty(patterns.size_of(self.shape), self.inputs)
        own = arrays.arange(0, self.inputs, 1)
        columns = self.inputs + (0 if inner is None else inner.shape[0])
        pattern = steps.pattern(self.step, [own, *sources], columns)
        if inner is None:
            return pattern
        return patterns.through(pattern, patterns.stacked([patterns.identity(self.inputs), inner]))


def follow(
    func: Callable[[Tensor], Any], x: Tensor, every_value: bool, what: str,
    watch: Callable[[PatternLevel], Any] | None = None,
) -> Followed:  # fmt: skip
    """Run a function and track dependencies. ``watch`` creates a context to run it in."""
    check_point(x, what)
    count = x.numel()
    with opened(PatternLevel(count, local=not every_value)) as level:
        source = None if watch is None else arrays.arange(0, count, 1)
        argument = wrap(Dependent(level, x.detach(), steps.leaf(0, count), source=source))
        with Running(func, x), watch(level) if watch is not None else nullcontext():
            output = func(argument)
        check_outputs([output], what)
        if output.is_complex():
            raise TypeError(f"{what}: func returned complex numbers, which are not supported.")
        step = output._data.pattern if is_of(level, output) else None
        return Followed(step, count, tuple(output.shape), level.looked, level.written)


def _checked(followed: Followed, every_value: bool, what: str) -> Followed:
    if every_value and followed.looked:
        raise RuntimeError(
            f"{what}: func looks at values that depend on x, so what it depends on may be "
            "different for another x. Leave every_value out for the pattern at this x."
        )
    return followed


def banded(rows: int, columns: int, lower: int, upper: int) -> Any:
    """The pattern of a banded matrix.

    Args:
        rows: Number of rows.
        columns: Number of columns.
        lower: Number of diagonals below the main one.
        upper: Number of diagonals above it.

    Returns:
        A SciPy sparse array of bool, for ``sparse_jacobian(..., pattern=...)``.

    Example:
        >>> from retrograd.func import banded
        >>> banded(3, 3, 1, 0).toarray().astype(int)
        array([[1, 0, 0],
               [1, 1, 0],
               [0, 1, 1]])
    """
    return patterns.banded(rows, columns, lower, upper)


def find(func: Callable[[Tensor], Any], x: Tensor, what: str) -> tuple[Any, tuple[int, ...], bool]:
    """A pattern for every value, or the one at ``x`` if ``func`` looks at values; the shape of the
    output; and whether it is the one at ``x``."""
    followed = follow(func, x, True, what)
    local = followed.looked
    if local:
        followed = follow(func, x, False, what)
    return followed.pattern(), followed.shape, local


def check_point(x: Any, what: str) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{what}: expected x to be a Tensor, got {type(x)}.")
    if not x.is_floating_point():
        raise TypeError(
            f"{what}: expected x of a floating-point dtype, got {x.dtype}. Complex numbers are not "
            "supported; integers have no derivatives."
        )
