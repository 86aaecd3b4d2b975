"""NaN and infinity in gradients: where they come from, and what to do.

An operation declares where its derivative is infinite or undefined (``Singular``). When a gradient
is not finite, what its node has saved is compared with that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from retrograd import arrays
from retrograd.autograd._explaining import _facts as facts
from retrograd.autograd._explaining._paths import in_order, reachable
from retrograd.autograd._node import FREED, Node
from retrograd.autograd._operation_node import OperationNode
from retrograd.ops._lifted import bare, device_value
from retrograd.ops._operation import Singular

HIDES = "`where`, or a factor of 0, masks the value but not its gradient."


class Point(NamedTuple):
    """An element of a saved value at which the derivative is not finite."""

    node: Node
    singular: Singular
    element: tuple[int, ...]  # its index
    shape: tuple[int, ...]

    @property
    def infinite(self) -> bool:
        """Whether the value itself is infinite or NaN, and not only the derivative."""
        return not all(map(math.isfinite, self.singular.at))


def points(node: Node, gradient: Any = None) -> Iterator[Point]:
    """Where the derivative of a node is not finite; of a gradient that it gave, elements that are
    NaN come first."""
    if not isinstance(node, OperationNode) or node.saved is FREED or not node.saved:
        return
    for singular in node.operation.singular:
        value = node.saved[3 * node.operation.saves.index(singular.name)]
        if device_value(value) is None and not arrays.is_raw(value):
            continue
        value = arrays.asarray(bare(value))
        hit = arrays.asarray(sum(_equal(value, x) for x in singular.at)) != 0
        if not arrays.any(hit):
            continue
        if gradient is not None and tuple(gradient.shape) == tuple(hit.shape):
            odd = hit & arrays.isnan(arrays.asarray(gradient))
            hit = odd if arrays.any(odd) else hit
        yield Point(node, singular, _first(hit), tuple(hit.shape))


def _equal(value: Any, x: float) -> Any:
    return arrays.isnan(value) if math.isnan(x) else value == x


def _first(hit: Any) -> tuple[int, ...]:
    """The index of the first element that is True."""
    position = arrays.argmax(hit.ravel()).item()
    index: list[int] = []
    for size in reversed(hit.shape):
        index.insert(0, position % size)
        position //= size
    return tuple(index)


def cause(
    node: Node, gradient: Any = None, grads: Sequence[Any] = (), gave_nan: bool = False
) -> list[str]:
    """Why a node gives a gradient that is not finite, and what to do. ``grads``: what it was given.
    ``gave_nan``: that it gave NaN, if neither is at hand. Empty if it is not known."""
    here = next(points(node, gradient), None)
    if here is not None:
        given = _given(here, grads, gave_nan)
        if given is None or math.isfinite(given):  # otherwise it is not this node's doing
            return _sentences(here, given)
    for other in reversed(in_order(reachable([node]))):  # the oldest first: what came first
        for point in points(other):
            if point.infinite:
                line = f"The infinity came from {facts.operation_name(other)}{facts.at(other)}"
                return [line, *_sentences(point, None)]
    return []


def points_of_values(node: Node) -> list[str]:
    """Why a node gives a value that is not finite, and what to do; empty if it is not known."""
    return next((_sentences(point, None) for point in points(node)), [])


# The infinity that a pass has met first, with its cause: a NaN may follow from it.
_infinities: WeakKeyDictionary[Any, list[str]] = WeakKeyDictionary()


def note_infinity(task: Any, node: Node, received: Sequence[Any], grads: Sequence[Any]) -> None:
    """Note that a node of a pass has made an infinite gradient of finite ones."""
    if task in _infinities or not any(g is not None and _not_finite(g) for g in received):
        return
    if not any(g is not None and _not_finite(g) for g in grads):
        came = f"An infinite gradient came from {facts.operation_name(node)}{facts.at(node)}"
        _infinities[task] = [came, *cause(node, None, [g for g in grads if g is not None])]


def cause_in_pass(task: Any, node: Node, gradient: Any, grads: Sequence[Any]) -> list[str]:
    """Why a node gives NaN in a pass: by itself, or because an infinity came to it."""
    if any(g is not None and _not_finite(g) for g in grads) and task in _infinities:
        return _infinities[task]
    return cause(node, gradient, [g for g in grads if g is not None])


def _not_finite(g: Any) -> bool:
    return not bool(arrays.all(arrays.isfinite(g)))


def _given(point: Point, grads: Sequence[Any], gave_nan: bool) -> float | None:
    """The gradient that a node was given for an element."""
    if len(grads) == 1 and tuple(grads[0].shape) == point.shape:
        element: float = arrays.asarray(grads[0])[point.element].item()
        return element
    # The product of an infinite slope and a number is NaN only for 0.
    return 0.0 if gave_nan and len(point.node.next_nodes) == 1 else None


def _sentences(point: Point, g: float | None) -> list[str]:
    index, singular = list(point.element), point.singular
    hidden = g == 0 and not any(map(math.isnan, singular.at))
    where = f"at element {index}: " if index else ""
    what = f"{'0/0' if 0 in singular.at else '0 · inf'} " if hidden else ""
    first = f"{what}{where}{singular.says}."
    cure = "put the `where` inside, so that the operation never sees the element; or " * hidden
    return [
        first[0].upper() + first[1:] if first.startswith(("at ", "the ", "all ")) else first,
        *([HIDES] if hidden else []),
        f"What to do: {cure}{singular.cure}.",
    ]
