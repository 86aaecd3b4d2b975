"""``checkpoint_loop``: a long loop as one node, with few stored states.

Forward, every step is run recorded, and its graph is dropped at once. That tells which tensors from
outside the step its graph ends in: captured parameters, and the initial state. They become the
inputs of the node, so hooks, ``autograd.grad`` and ``backward(inputs=...)`` see the loop as they
would see any operation, and a tensor that only some steps use is not missed.

Backward, a schedule says which steps to run again, and from which of the states that were kept.
The graph of one step at a time is recorded and gone through. Where it ends in a tensor from
outside, a ``Collector`` is put, which holds the sum of all that has come so far: the engine adds
to it what the step gives, one contribution after the other and in the same order as in a graph of
the whole loop. So the gradients are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd._modes import modes, within
from retrograd._source import user_place
from retrograd.autograd._engine import current_task
from retrograd.autograd._node import FREED, SECOND_BACKWARD, Node, orders
from retrograd.autograd._saved import modified_error
from retrograd.autograd._versions import version_of
from retrograd.autograd._wrap import wrap
from retrograd.func._trees import flatten, unflatten
from retrograd.utils.checkpoint import _schedule
from retrograd.utils.checkpoint._loop_run import Loop
from retrograd.utils.checkpoint._loop_state import AS_IS, check_part


def checkpoint_loop(
    body: Callable[[Any, int], Any], init: Any, n: int | None = None, *, slots: int,
    until: Callable[[Any], Any] | None = None, preserve_rng_state: bool = True,
    determinism_check: str = "default",
) -> Any:  # fmt: skip
    """Runs a loop whose backward pass stores only some states and recomputes the others.

    It returns ``functools.reduce(body, range(n), init)``. All tensors that ``body`` uses get their
    gradients, including those it captures; they are equal to those of the plain loop to the last
    bit. ``print(LoopSchedule(n, slots))`` shows which steps run when.

    Args:
        body: called as ``state = body(state, i)`` for i from 0 to ``n - 1``. It runs several times
            for each i, must compute the same each time, and must not write to its state in place. A
            state is a tensor, or nested tuples, lists and dictionaries of tensors and other values,
            and keeps its structure, shapes and dtypes.
        init: the first state.
        n: number of steps. May be None if ``until`` is given.
        slots: number of states to keep at most, ``init`` among them. One more is held while a step
            runs.
        until: end the loop as soon as ``until(state)`` is true. The states to keep are then chosen
            without knowing where the loop ends, which costs some more steps. It must not draw
            random numbers.
        preserve_rng_state: draw the same random numbers each time a step runs.
        determinism_check: "default" compares elements of the states that a step computes; "none"
            does not.

    Returns:
        The last state.

    Note:
        With ``create_graph=True``, under ``vmap`` and in forward mode the graph of the whole loop
        is recorded. A gradient that ``body`` takes by ``autograd.grad`` ends at its state.

    Example:
        >>> w = torch.tensor(0.5, requires_grad=True)
        >>> y = torch.utils.checkpoint.checkpoint_loop(
        ...     lambda x, i: torch.sin(w * x) + i / 1000, torch.ones(3), 1000, slots=10
        ... )
        >>> y.sum().backward()
        >>> w.grad
        tensor(4.9186)

        The 1,000 steps take 3,637 runs of ``body`` to reach states, and 1,000 more to go backward.
    """
    if n is None and until is None:
        raise TypeError("checkpoint_loop() needs n, the number of steps, or until, or both")
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f'determinism_check must be "default" or "none", but got {determinism_check!r}'
        )
    _schedule.check_counts(0 if n is None else n, slots)
    parts, shape = flatten(init)
    for part in parts:
        check_part(part)
    loop = Loop(body, shape, slots, preserve_rng_state, determinism_check == "default")
    if not modes.grad_enabled or modes.levels:
        return unflatten(loop.plainly(parts, n, until), shape)
    choice: _schedule.Choice
    if until is None and n is not None:
        choice = _schedule.OfflineChoice(n, slots)
    else:
        choice = _schedule.OnlineChoice(slots)
    # the graphs made on the way are not kept
    with within(saved_tensor_hooks=()):
        last = loop.forward(parts, n, until, choice)
    return unflatten(results(loop, last), shape)


def results(loop: Loop, parts: list[Any]) -> list[Any]:
    """The last state, as outputs of one node."""
    kinds = loop.kinds_before(loop.n)
    own = [j for j, kind in enumerate(kinds) if kind == j]
    if not own:
        return parts
    loop.pack()
    node = CheckpointLoopBackward(loop, own, parts)
    made: dict[int, Any] = {}
    for number, j in enumerate(own):
        several = node.outputs is not None
        made[j] = wrap(parts[j]._data, node, number if several else None, version_of(parts[j]))
    return [part if kind == AS_IS else made[kind] for part, kind in zip(parts, kinds, strict=True)]


# -- the nodes -------------------------------------------------------------------------------


class CheckpointLoopBackward(Node):
    """The node of a whole loop."""

    __slots__ = ("outputs", "own")

    def __init__(self, loop: Loop, own: list[int], parts: list[Any]) -> None:
        self.next_nodes = tuple(node for node, _ in loop.edges)
        self.order = next(orders)
        self.saved = loop
        self.extras = None
        self.code, self.lasti = user_place(3)
        numbers = tuple(number for _, number in loop.edges)
        if any(number is not None for number in numbers):
            self.get_extras().next_numbers = numbers
        self.own = own  # the parts of the state that are outputs of this node
        infos = tuple((parts[j]._data.shape, parts[j]._data.dtype) for j in own)
        self.outputs = infos if len(infos) > 1 else None

    def backward(self, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        loop, grads = self._start(g)
        return loop.go_back(grads, next_nodes, self._waiting(next_nodes))

    def backward_recorded(self, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        loop, grads = self._start(g)
        return loop.go_back_recorded(grads, next_nodes, self._waiting(next_nodes))

    def _start(self, g: Any) -> tuple[Loop, list[Any]]:
        if self.saved is FREED:
            raise RuntimeError(SECOND_BACKWARD)
        loop: Loop = self.saved
        for version, count, value in loop.captured:
            if version.count != count:
                raise modified_error(self, value, version, count)
        grads: list[Any] = [None] * len(loop.kinds_before(loop.n))
        received = [g] if self.outputs is None else g
        for j, gradient in zip(self.own, received, strict=True):
            grads[j] = gradient
        return loop, grads

    def _waiting(self, next_nodes: Sequence[Node | None]) -> list[Any]:
        """What has come to the inputs from users after the loop. The loop's own contributions are
        to be added to that one by one, as those of its steps would be."""
        sums: list[Any] = [None] * len(next_nodes)
        if self.extras is not None and self.extras.post_hooks:
            return sums  # the hooks are shown what the loop gives, and nothing else
        numbers = self.extras.next_numbers if self.extras is not None else None
        waiting = current_task().waiting
        for i, node in enumerate(next_nodes):
            entry = waiting.get(node) if node is not None else None
            if isinstance(entry, dict):
                entry = entry.get(numbers[i]) if numbers is not None else None
            if entry is not None:
                sums[i], entry[0], entry[1] = entry[0], None, False
        return sums
