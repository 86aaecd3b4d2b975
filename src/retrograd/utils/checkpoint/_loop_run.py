"""The two passes of ``checkpoint_loop``: forward, and backward along a schedule."""

from __future__ import annotations

import gc
import weakref
from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from retrograd._modes import modes, within
from retrograd.autograd._backward import nodes_between
from retrograd.autograd._engine import Root, Task, run
from retrograd.autograd._history import edge
from retrograd.autograd._node import NOWHERE, AccumulateGrad, Node, orders
from retrograd.autograd._versions import Version, version_of
from retrograd.autograd._wrap import Plug, wrap
from retrograd.func._trees import Shape, unflatten
from retrograd.tensor._rng import default_generator
from retrograd.utils.checkpoint import _schedule
from retrograd.utils.checkpoint._loop_graph import (
    Collector,
    Passage,
    differs,
    edges_outside,
    inside,
    lead_to,
    new_leaf,
    recorded_nodes,
    unknown_end,
)
from retrograd.utils.checkpoint._loop_state import (
    AS_IS,
    Edge,
    Kept,
    bare,
    check_parts,
    fingerprint,
    packed,
    parts_as,
    unpacked,
    versions_of,
    written,
)

OTHER_TENSORS = "its result did not depend on the same tensors as"
OTHER_VALUES = "it made another state than"


class Traits(NamedTuple):
    """How a step is tied to others, which must be the same whenever it is run."""

    # Of each part of the state after it: AS_IS, or the first part that is the same tensor (itself,
    # as a rule).
    kinds: tuple[int, ...]
    uses: frozenset[int]  # the tensors from outside in which its graph ends


class Loop:
    """What is known of a loop once it has been run: all that its backward pass needs."""

    def __init__(
        self, body: Callable[[Any, int], Any], shape: Shape, slots: int, preserve_random: bool,
        check_values: bool,
    ) -> None:  # fmt: skip
        self.body = body
        self.shape = shape  # of the state, a tree
        self.slots = slots
        self.preserve_random = preserve_random
        # Of the state after each step; empty if values are not to be checked.
        self.check_values = check_values
        self.fingerprints = array("q")
        self.n = 0
        self.edges: dict[Edge, int] = {}  # the tensors from outside, numbered as found
        # What is known of steps, and from which step on it is so: see ``Traits``.
        self.traits: list[Traits] = []
        self.traits_from: list[int] = []
        self.kept: dict[int, Kept] = {}
        self.in_hand: Kept | None = None  # the state before the last step
        self.captured: list[tuple[Version, int, Any]] = []  # leaves from outside, and their values

    # -- forward ---------------------------------------------------------------------------------

    def plainly(self, parts: list[Any], n: int | None, until: Any) -> list[Any]:
        """The loop with nothing recorded."""
        i = 0
        while not self.ends(i, parts, n, until):
            parts = self.one_step(parts, i)
            i += 1
        return parts

    def ends(self, i: int, parts: list[Any], n: int | None, until: Any) -> bool:
        """Whether the loop is over, before step ``i``."""
        if i == n:
            return True
        if until is None:
            return False
        with within(grad_enabled=False):
            return bool(until(unflatten(parts, self.shape)))

    def forward(
        self, parts: list[Any], n: int | None, until: Any, choice: _schedule.Choice
    ) -> list[Any]:
        """Run the loop, and keep the states that ``choice`` wants. Returns the last state, with
        no history."""
        self.note_edges_of(parts)
        self.note_traits(-1, Traits((AS_IS,) * len(parts), frozenset()))
        i, over = 0, self.ends(0, parts, n, until)
        state = None
        random = default_generator.saved() if self.preserve_random else None
        while not over:
            state = self.keep(parts, with_random=choice.considers(i))
            parts = self.first_run(parts, i)
            over = self.ends(i + 1, parts, n, until)
            if not over:
                wanted, dropped = choice.passed(i)
                if dropped is not None:
                    del self.kept[dropped]
                if wanted:
                    self.kept[i] = state
            i += 1
        self.n, self.in_hand = i, state
        if state is not None:
            self.kept.setdefault(0, state)  # a loop of one step
        if random is not None and random.tobytes() == default_generator.saved().tobytes():
            self.preserve_random = False  # no numbers were drawn: none will be
        return parts

    def first_run(self, parts: list[Any], i: int) -> list[Any]:
        """Run a step, note where its graph ends, and drop the graph."""
        result, kinds, uses, new_leaves = self.dropped(parts, i)
        for reference in new_leaves:
            leaf = reference()
            if leaf is not None:  # else the body has made it for itself
                node, number = edge(leaf)
                assert node is not None
                uses.add(self.note_edge((node, number)))
        self.note_traits(i, Traits(kinds, frozenset(uses)))
        return result

    def dropped(
        self, parts: list[Any], i: int
    ) -> tuple[list[Any], tuple[int, ...], set[int], list[weakref.ref[Any]]]:
        """The state after step ``i`` without its graph, of what kind its parts are, the numbers of
        the tensors from outside in which the graph ended, and leaves not used before."""
        given, own = self.stand_ins(parts, self.kinds_before(i))
        start = next(orders)
        made = self.one_step(given, i)
        uses: set[int] = set()
        new_leaves: list[weakref.ref[Any]] = []
        for node in recorded_nodes(made, start):
            for _, to in edges_outside(node, start, own):
                leaf = None if to in self.edges else new_leaf(to, start)
                if leaf is not None:
                    new_leaves.append(weakref.ref(leaf))
                else:
                    uses.add(self.note_edge(to))
        kinds = self.kinds_of(made, start, own)
        self.note_edges_of(p for p, kind in zip(made, kinds, strict=True) if kind == AS_IS)
        if self.check_values:
            self.fingerprints.append(fingerprint(made))
        return bare(made, kinds), kinds, uses, new_leaves

    def note_edge(self, to: Edge) -> int:
        if to not in self.edges:
            self.edges[to] = len(self.edges)
            if isinstance(to[0], AccumulateGrad):
                leaf = to[0].variable
                self.captured.append((version_of(leaf), version_of(leaf).count, leaf._data))
        return self.edges[to]

    def note_edges_of(self, parts: Iterable[Any]) -> None:
        for part in parts:
            if isinstance(part, Plug.tensor) and part.requires_grad:
                node, number = edge(part)
                if node is not None and node is not NOWHERE:
                    self.note_edge((node, number))

    # -- steps -----------------------------------------------------------------------------------

    def one_step(self, parts: list[Any], i: int) -> list[Any]:
        """Run the body once, and check the new state."""
        versions = versions_of(parts)
        try:
            result = self.body(unflatten(parts, self.shape), i)
        except Exception as error:
            error.add_note(f"in step {i} of checkpoint_loop")
            raise
        made = parts_as(result, self.shape, i)
        check_parts(made, parts, i)
        if (j := written(versions)) is not None:
            raise RuntimeError(
                f"the body of checkpoint_loop wrote to its state in place, in step {i} (to part "
                f"{j}, a tensor of shape {tuple(parts[j].shape)}). The state may be one that is "
                "kept to run steps again. Return a new tensor instead, or begin the body with "
                "state = state.clone()."
            )
        return made

    def step_again(self, parts: list[Any], i: int) -> list[Any]:
        """Run the body once more. What it may do was checked when it was run first, and it has
        nothing to do with a transform that the backward pass is run in."""
        if not modes.levels and modes.running is None:
            return self.one_step(parts, i)
        with within(levels=(), running=None):
            return self.one_step(parts, i)

    def check_again(self, made: list[Any], i: int) -> list[Any]:
        """Check that a step reproduced the state of its first run."""
        if self.check_values and fingerprint(made) != self.fingerprints[i]:
            raise differs(i, OTHER_VALUES)
        return made

    def kinds_before(self, step: int) -> tuple[int, ...]:
        return self.traits_of(step - 1).kinds

    def traits_of(self, step: int) -> Traits:
        return self.traits[bisect_right(self.traits_from, step) - 1]

    def note_traits(self, step: int, traits: Traits) -> None:
        if not self.traits or traits != self.traits[-1]:
            self.traits.append(traits)
            self.traits_from.append(step)

    def kinds_of(self, parts: list[Any], start: int, own: Collection[Node]) -> tuple[int, ...]:
        """What kind each part of a state is that a step has made."""
        kinds: list[int] = []
        first: dict[int, int] = {}
        for j, part in enumerate(parts):
            node = edge(part)[0] if isinstance(part, Plug.tensor) else None
            if node is not None and (node in own or inside(node, start)):
                kinds.append(first.setdefault(id(part), j))
            else:
                kinds.append(AS_IS)
        return tuple(kinds)

    def stand_ins(
        self, parts: list[Any], kinds: tuple[int, ...]
    ) -> tuple[list[Any], dict[Collector, int]]:
        """A state for a step to begin with whose own parts come from collectors; and which of those
        stands for which part."""
        given: list[Any] = []
        own: dict[Collector, int] = {}
        for j, (part, kind) in enumerate(zip(parts, kinds, strict=True)):
            if kind == j:
                collector = Collector()
                own[collector] = j
                part = wrap(part._data, collector, None, version_of(part))
            given.append(part if kind in (AS_IS, j) else given[kind])
        return given, own

    def keep(self, parts: list[Any], with_random: bool = True) -> Kept:
        random = default_generator.saved() if self.preserve_random and with_random else None
        return Kept(parts, versions_of(parts), random)

    # -- saved_tensors_hooks -----------------------------------------------------------------------

    def pack(self) -> None:
        """Pass stored states to the active saved-tensor hooks."""
        if modes.saved_tensor_hooks:
            hooks = modes.saved_tensor_hooks[-1]
            self.kept = {i: packed(kept, hooks) for i, kept in self.kept.items()}
            if self.in_hand is not None:
                self.in_hand = packed(self.in_hand, hooks)

    # -- backward ----------------------------------------------------------------------------------

    def go_back(
        self, grads: list[Any], next_nodes: Sequence[Node | None], sums: list[Any]
    ) -> list[Any]:
        """The gradients of the inputs from those of the last state. ``sums`` is what has come to
        the inputs before, and is counted in."""
        ends = [
            None if node is None else Collector(total)
            for node, total in zip(next_nodes, sums, strict=True)
        ]
        random = default_generator.saved() if self.preserve_random else None
        try:
            with within(grad_enabled=True, saved_tensor_hooks=()):
                self.follow_schedule(grads, dict(zip(self.edges, ends, strict=True)))
        finally:
            if random is not None:
                default_generator.restore(random)
        return [None if end is None else end.total for end in ends]

    def follow_schedule(self, grads: list[Any], ends: dict[Edge, Collector | None]) -> None:
        states = {i: unpacked(state) for i, state in self.kept.items()}
        parts: list[Any] = []
        position = None
        if self.in_hand is not None:
            position = self.n - 1
            parts = self.restored(unpacked(self.in_hand), position)
        # What a step is done with goes at once. Another pass would begin with the initial state.
        self.kept, self.in_hand = {0: self.kept[0]}, None
        for do in _schedule.reversal(sorted(states), self.n, self.slots, position):
            match do:
                case _schedule.Restore(step):
                    parts = self.restored(states[step], step)
                case _schedule.Advance(start, stop):
                    for i in range(start, stop):
                        parts = self.run_again(parts, i)
                case _schedule.Save(step):
                    states[step] = self.keep(parts)
                case _schedule.Free(step):
                    del states[step]
                case _schedule.Backward(step):
                    grads = self.back_through(step, parts, grads, ends)
                    parts = []
                    if all(g is None for g in grads):
                        return

    def restored(self, kept: Kept, step: int) -> list[Any]:
        """A state that was kept, to run steps from."""
        if (j := written(kept.versions)) is not None:
            version, count = kept.versions[j]  # type: ignore[misc]
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an "
                f"inplace operation: part {j} of the state before step {step}, a tensor of shape "
                f"{tuple(kept.parts[j].shape)}, is at version {version.count}; expected version "
                f"{count} instead. checkpoint_loop keeps it to run steps again."
            )
        if self.preserve_random:
            default_generator.restore(kept.random)
        return kept.parts

    def run_again(self, parts: list[Any], i: int) -> list[Any]:
        """From one state to the next. The step is recorded as it is when it counts, though nobody
        needs the graph: a body that takes gradients itself needs it, and so do bodies that ask
        what requires grad."""
        given, _ = self.stand_ins(parts, self.kinds_before(i))
        made = self.check_again(self.step_again(given, i), i)
        return bare(made, self.kinds_before(i + 1))

    def back_through(
        self, step: int, parts: list[Any], grads: list[Any], ends: dict[Edge, Collector | None]
    ) -> list[Any]:
        """From the gradients of the state after a step to those of the state before it."""
        totals, new_leaves = self.pass_through(step, parts, grads, ends)
        if any(reference() is not None for reference in new_leaves):
            gc.collect()
        for reference in new_leaves:
            leaf = reference()
            if leaf is not None:  # others hold it, and will miss its gradient
                raise unknown_end(edge(leaf), step)
        return totals

    def pass_through(
        self, step: int, parts: list[Any], grads: list[Any], ends: dict[Edge, Collector | None]
    ) -> tuple[list[Any], list[weakref.ref[Any]]]:
        """The gradients of the state before a step, and leaves that have not got theirs, which is
        right only if the step has made them for itself."""
        given, own = self.stand_ins(parts, self.kinds_before(step))
        start = next(orders)
        made = self.step_again(given, step)
        new_leaves = self.end_in(ends, made, step, start, start, own, dropped_soon=True)
        roots = roots_of(made, grads)
        del made, given
        collectors = [end for end in ends.values() if end is not None]
        roots += [(end, None, end.total) for end in collectors if end.total is not None]
        for collector in (*own, *collectors):
            collector.collecting = True
        task = Task(keep_graph=False, recorded=False)
        if len(collectors) < len(ends):  # not all gradients are wanted
            task.needed = nodes_between(roots, {*own, *collectors})
            roots = [root for root in roots if root[0] in task.needed]
        try:
            run(task, roots)
        except Exception as error:
            error.add_note(f"in the backward of step {step} of checkpoint_loop")
            raise
        totals: list[Any] = [None] * len(grads)
        for collector, j in own.items():
            totals[j] = collector.total
        return totals, new_leaves

    def end_in(
        self, ends: Any, made: list[Any], step: int, step_start: int, start: int,
        own: Collection[Node] = (), dropped_soon: bool = False,
    ) -> list[weakref.ref[Any]]:  # fmt: skip
        """Make the graph of a step end in ``ends`` where it leaves what was recorded after
        ``start``, and check that the step is what it was when it was run first. Returns the leaves
        that may have been made in it. If the graph is ``dropped_soon``, nobody sees their gradients
        but hooks."""
        uses: set[int] = set()
        new_leaves: list[weakref.ref[Any]] = []
        for node in recorded_nodes(made, step_start):
            for i, to in list(edges_outside(node, start, own)):
                if to in ends:
                    uses.add(self.edges[to])
                    lead_to(node, i, ends[to])
                elif (leaf := new_leaf(to, step_start)) is not None:
                    new_leaves.append(weakref.ref(leaf))
                    if dropped_soon and not leaf._meta.hooks:
                        lead_to(node, i, None)
                else:
                    raise unknown_end(to, step)
        if Traits(self.kinds_of(made, start, own), frozenset(uses)) != self.traits_of(step):
            for reference in new_leaves:  # all live still, in the graph
                raise unknown_end(edge(reference()), step)
            raise differs(step, OTHER_TENSORS)
        self.check_again(made, step)
        return new_leaves

    def go_back_recorded(
        self, grads: list[Any], next_nodes: Sequence[Node | None], sums: list[Any]
    ) -> list[Any]:
        """The same with a graph of its own, for which the graph of the whole loop is needed: with
        all its edges, for who knows what is differentiated next."""
        ends = {to: Passage(to) for to in self.edges}
        start = next(orders)
        random = default_generator.saved() if self.preserve_random else None
        parts = self.restored(unpacked(self.kept[0]), 0)
        try:
            for i in range(self.n):
                step_start = next(orders)
                parts = self.step_again(parts, i)
                self.end_in(ends, parts, i, step_start, start)
        finally:
            if random is not None:
                default_generator.restore(random)
        roots = roots_of(parts, grads)
        task = Task(keep_graph=True, recorded=True)
        wanted = zip(ends.values(), next_nodes, sums, strict=True)
        for position, (end, node, total) in enumerate(wanted):
            if node is not None:
                task.wanted[end] = [(0, position)]
                if total is not None:
                    roots.append((end, None, total))
        task.needed = nodes_between(roots, set(task.wanted))
        captured = run(task, [root for root in roots if root[0] in task.needed])
        return [captured.get(position) for position in range(len(ends))]


def roots_of(parts: list[Any], grads: list[Any]) -> list[Root]:
    """Where a backward pass from a state begins."""
    roots: list[Root] = []
    for part, g in zip(parts, grads, strict=True):
        if g is not None:
            node, number = edge(part)
            assert node is not None
            roots.append((node, number, g))
    return roots
