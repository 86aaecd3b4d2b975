"""Running a function that is being differentiated, and refusing its writes to captured tensors.

A tensor that a function writes in place must be one that it made itself, or one that it was given:
another is state from outside, and what the function does to it is no part of what is
differentiated. Nothing is noted about the tensors that are made; that would slow down every
operation. But Python keeps its young objects in the order in which they were made
(``gc.get_objects``), so that one only has to look, when there is a write, whether the tensor comes
after a mark that was made when the function began. Whenever Python is about to collect garbage,
after which that order is lost, what was made so far is noted by id: those of captured tensors,
which are alive all the while, cannot be among them. If it is another thread that collects, some may
be missed, and tensors of unknown age are given the benefit of the doubt.

The list of young objects holds things that are still being made, which no other thread may find
held by somebody. So it is only ever walked by chains of built-in iterators, to the end: no other
thread can interrupt these, and when they end it is gone.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from functools import partial
from itertools import chain, dropwhile, repeat
from operator import is_, is_not
from typing import Any

from retrograd._modes import modes, set_modes
from retrograd._source import describe, user_place
from retrograd.autograd._node import orders
from retrograd.func._trees import flatten
from retrograd.ops._lifted import Level, Lifted
from retrograd.ops._operation import TensorLike

# Other interpreters do not keep that order. There, such writes are not refused.
IN_ORDER = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()


class Running:
    """Within it, a function runs that is being differentiated. ``given``: its arguments."""

    __slots__ = ("before", "changes", "complete", "given", "made", "start", "thread",
                 "unrecorded")  # fmt: skip

    def __init__(self, *given: Any, **changes: Any) -> None:
        self.given = given
        self.changes = changes
        self.start = next(orders)  # nodes that are made from here on have lower numbers
        self.made: set[int] = set()  # ids of what was made since, tensors among it
        self.complete = True  # whether all of them are noted that are not young any more
        self.thread = threading.get_ident()
        # Levels below which nothing is to be recorded: recording was off within them when the
        # function was called, and is on again only for this.
        outer = modes.running.unrecorded if modes.running is not None else ()
        self.unrecorded: tuple[Level, ...] = outer if modes.grad_enabled else modes.levels

    def __enter__(self) -> None:
        _running.append(self)
        if _collecting and self.thread not in _collecting:  # and may have passed us by
            self.complete = False
        self.before = set_modes(running=self, **self.changes)

    def __exit__(self, *exc: object) -> None:
        set_modes(**self.before)
        _running.remove(self)

    def check_write(self, operation: str, target: Any) -> None:
        """RuntimeError for a write to a tensor that is neither made inside nor an argument."""
        target = target if target._base is None else target._base
        is_result = target._node is not None and target._node.order < self.start
        if is_result or id(target) in self.made or not IN_ORDER:
            return
        if self.may_be_newer(target):
            self.made.add(id(target))
            return
        if not any(target is x for x in parts_of(flatten(self.given)[0])):
            raise captured(operation)

    def may_be_newer(self, target: Any) -> bool:
        """Whether a tensor was made after this, as far as one can tell."""
        if is_among(young_after(self), target):
            return True
        if is_among(young(), self):  # no collection since: it would be there
            return False
        return (
            is_among(young(), target)  # made after the last collection
            or id(target) in self.made  # if there was a collection just now
            or not self.complete
        )

    def note_young(self) -> None:
        """Note what was made since and is young still: tensors, and whatever else there is."""
        is_young = is_among(young(), self)
        self.made.update(map(id, young_after(self) if is_young else young()))


def young() -> Iterator[Any]:
    """The young objects, oldest first. To be used up by built-in functions only."""
    return chain.from_iterable(map(gc.get_objects, (0,)))


def young_after(mark: Any) -> Iterator[Any]:
    """The young objects from ``mark`` on; none, if that is not young any more."""
    return dropwhile(partial(is_not, mark), young())


def is_among(objects: Iterator[Any], wanted: Any) -> bool:
    """Whether an object is one of some. All are looked at: the iterators are young objects, too,
    and would be held by their own list if they did not come to its end."""
    return sum(map(is_, objects, repeat(wanted))) > 0


_running: list[Running] = []  # in all threads
_collecting: set[int] = set()  # the threads that collect garbage, of which there is one at most


def _at_collection(phase: str, info: Any) -> None:
    thread = threading.get_ident()
    if phase != "start":
        _collecting.discard(thread)
        return
    _collecting.add(thread)
    if not _running:
        return
    for running in tuple(_running):
        if running.thread != thread:  # which may go on meanwhile
            running.complete = False
        running.note_young()


gc.callbacks.append(_at_collection)


def parts_of(leaves: list[Any]) -> list[Any]:
    """The tensors among some values, those that they are views of, and what they are made of."""
    found: list[Any] = []
    to_visit = [x for x in leaves if isinstance(x, TensorLike)]
    while to_visit:
        tensor: Any = to_visit.pop()
        found.append(tensor)
        base, data = tensor._base, tensor._data
        parts = data.parts if isinstance(data, Lifted) else ()
        to_visit += [x for x in (base, *parts) if isinstance(x, TensorLike)]
    return found


def captured(operation: str) -> RuntimeError:
    place = describe(user_place())
    return RuntimeError(
        "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call "
        f"in-place operation ({operation}_) that would mutate a captured Tensor. This is not "
        "supported; please rewrite the function being transformed to explicitly accept the mutated "
        "Tensor(s) as inputs." + (f"\nThe write is at {place}" if place else "")
    )
