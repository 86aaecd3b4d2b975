"""``jvp``: Jacobian-vector products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd.autograd._duals import Dual, DualLevel
from retrograd.autograd._levels import as_tensor, is_of, opened, value_of
from retrograd.autograd._wrap import wrap
from retrograd.autograd.forward_ad import checked_tangent
from retrograd.func._arguments import check_outputs, gives_arrays, with_aux
from retrograd.func._captured import Running
from retrograd.func._trees import Shape, describe, flatten, flatten_as, tree_map, unflatten
from retrograd.ops._operation import raw
from retrograd.tensor._tensor import Tensor

WHAT = "jvp(f, primals, tangents)"


@gives_arrays
def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False,
    has_aux: bool = False,
) -> Any:  # fmt: skip
    """Computes a function and its Jacobian-vector product, by forward mode.

    Args:
        func: a function of tensors, or of nested tuples, lists and dictionaries of tensors.
        primals: a tuple of the arguments of ``func``.
        tangents: a tuple of the directions in which the arguments move, nested as they are.
        strict: raise an error for a result that does not depend on the arguments.
        has_aux: whether ``func`` returns a pair of results and other values, which are passed on.

    Returns:
        The results and their tangents. With ``has_aux``, the other values come third.

    Example:
        >>> from retrograd.func import jvp
        >>> jvp(lambda x: x**3, (torch.tensor(2.0),), (torch.tensor(1.0),))
        (tensor(8.), tensor(12.))
    """
    values, directions, shape = _points(primals, tangents)
    moved = Moved(func, values, directions, lambda duals: unflatten(duals, shape), has_aux, primals)
    if strict and None in [t if t is None else 0 for t in moved.tangents]:
        place = [t is None for t in moved.tangents].index(True)
        which = f" (output {place})" if len(moved.tangents) > 1 else ""
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. "
            f"This is not allowed with strict=True{which}."
        )
    results = (unflatten(moved.values, moved.shape), unflatten(moved.filled(), moved.shape))
    return (*results, moved.aux) if has_aux else results


class Moved:
    """The results of a function at some values, how they move when these do, and its aux."""

    shape: Shape

    def __init__(
        self, func: Callable[..., Any], values: Sequence[Any], directions: Sequence[Any],
        arguments: Callable[[list[Any]], Any], has_aux: bool, *given: Any,
    ) -> None:  # fmt: skip
        """``arguments`` makes the arguments of ``func`` of values that move; ``given``: what the
        user has passed."""
        running = Running(func, given)
        with opened(DualLevel()) as level:
            duals = [wrap(Dual(level, x, t)) for x, t in zip(values, directions, strict=True)]
            with running:
                output = func(*arguments(duals))
            output, aux = with_aux(output, has_aux, WHAT)
            outputs, self.shape = flatten(output)
            check_outputs(outputs, WHAT)
            self.values = [unpacked(level, y) for y in outputs]
            self.tangents = [level.tangent_of(value_of(y)) for y in outputs]
            self.separate(values, directions)
            self.aux = tree_map(lambda x: unpacked(level, x), aux)

    def separate(self, values: Sequence[Any], directions: Sequence[Any]) -> None:
        """Copy tangents that are the user's own, since a rule may hand on what it gets. One of a
        result that is a view of an argument stays a view, as in PyTorch."""
        for i, (y, t) in enumerate(zip(self.values, self.tangents, strict=True)):
            if t is not None and any(
                _overlap(t, d) and not _overlap(y, x)
                for x, d in zip(values, directions, strict=True)
            ):
                self.tangents[i] = as_tensor(t).clone()

    def filled(self) -> list[Any]:
        """The tangents, with zeros where there are none."""
        pairs = zip(self.values, self.tangents, strict=True)
        return [y.new_zeros(y.shape) if t is None else as_tensor(t) for y, t in pairs]


def unpacked(level: DualLevel, x: Any) -> Any:
    """The value of a Tensor, as the levels below know it."""
    return as_tensor(x._data.primal) if isinstance(x, Tensor) and is_of(level, x) else x


def _overlap(a: Any, b: Any) -> bool:
    a, b = raw(a), raw(b)
    if a is b:  # also where there are no elements
        return True
    return arrays.is_raw(a) and arrays.is_raw(b) and arrays.may_overlap(a, b)


def _points(primals: Any, tangents: Any) -> tuple[list[Any], list[Any], Shape]:
    """Values and tangents, checked against each other, and the tree of the values."""
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{WHAT}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    values, shape = flatten(primals)
    try:
        directions = flatten_as(shape, tangents)
    except ValueError:
        raise RuntimeError(
            f"{WHAT}: Expected primals and tangents to have the same python structure. For "
            "example, if primals is a tuple of 3 tensors, tangents also must be. Got primals with "
            f"structure {describe(shape)} and tangents with structure "
            f"{describe(flatten(tangents)[1])}"
        ) from None
    for name, leaves in (("primals", values), ("tangents", directions)):
        if not leaves:
            raise RuntimeError(f"{WHAT}: Expected {name} to contain at least one Tensor.")
        for x in leaves:
            if not isinstance(x, Tensor):
                raise RuntimeError(
                    f"{WHAT}: Expected {name} to only contain Tensors, got {type(x)}"
                )
    directions = [checked_tangent(x, t) for x, t in zip(values, directions, strict=True)]
    return values, directions, shape
