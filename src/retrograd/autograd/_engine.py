"""The backward pass: reverse-mode differentiation over a graph of nodes.

Each node turns the gradient of its output into gradients of its inputs and hands those on to the
nodes that made them, where they are added up. A node may run once nothing that could still send
it a gradient is left: since a node is always older than whatever used its output, it is enough to
always run the *newest* node that has received something. A heap finds it; the graph is walked
once, without recursion, and only where gradients flow.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd._modes import State, call_in_pass, modes
from retrograd._source import Call, call_of_pass, user_frame
from retrograd.arrays import add_to as add
from retrograd.arrays import ndarray
from retrograd.autograd._hooks import call_post_hooks, call_pre_hooks, call_tensor_hooks
from retrograd.autograd._node import FREED, SECOND_BACKWARD, AccumulateGrad, Node
from retrograd.autograd._operation_node import fit_all, run_rules
from retrograd.autograd._passes import NONE
from retrograd.autograd._passes import begin as begin_pass
from retrograd.autograd._wrap import SPARSE, total
from retrograd.ops._lifted import Lifted
from retrograd.ops._operation import raw

Root = tuple[Node, int | None, Any]

NOTHING_WAITS = 1  # older than every node: orders count down from zero


def heappush(heap: list[Any], item: Any) -> None:
    """Load the functions of heaps, which takes as long as three modules of ours, when the first
    gradient waits for its node."""
    import heapq

    globals().update(heappop=heapq.heappop, heappush=heapq.heappush)
    heapq.heappush(heap, item)


heappop: Any = None  # is loaded with the other


class Task:
    """One backward pass: what was requested, and the gradients that wait for their nodes."""

    __slots__ = (
        "__weakref__",
        "anomaly",
        "begun",
        "call",
        "callbacks",
        "captured",
        "heap",
        "keep_graph",
        "needed",
        "observer",
        "reachable",
        "recorded",
        "recording_for",
        "roots",
        "waiting",
        "wanted",
    )  # fmt: skip

    def __init__(self, keep_graph: bool, recorded: bool) -> None:
        self.keep_graph = keep_graph
        self.recorded = recorded  # gradients are Tensors with a graph of their own
        self.needed: set[Node] | None = None  # the nodes between roots and inputs; None: all
        # node -> (output number, place in captured) of gradients to return
        self.wanted: dict[Node, list[tuple[int, int]]] = {}
        self.captured: dict[int, Any] = {}
        # Gradients that have arrived at nodes that have not run: [sum, whether it is an array of
        # ours to add to in place] for a node with one output, a dict of those for several.
        self.waiting: dict[Node, Any] = {}
        self.heap: list[tuple[int, Node]] = []  # the keys of waiting, newest first
        self.roots: Sequence[Root] = ()
        self.anomaly = False
        self.begun = NONE  # when, and on which line of the user's code
        # The user's call of a pass that is recorded, and the same while a rule runs: what that
        # records belongs to the line of the call, which need not be looked for each time.
        self.call: Call | None = None
        self.recording_for: Call | None = None
        self.reachable: set[Node] | None = None
        # Notified before each node runs, and of its gradients afterwards. None for most passes.
        self.observer: Any = None
        self.callbacks: list[Callable[[], None]] | None = None  # called when the pass is over

    def will_run(self, node: Node) -> bool:
        """Whether this pass comes, or came, to ``node``."""
        if self.needed is not None:
            return node in self.needed
        if self.reachable is None:
            self.reachable = set()
            to_visit = [root for root, _, _ in self.roots]
            while to_visit:
                n = to_visit.pop()
                if n not in self.reachable:
                    self.reachable.add(n)
                    to_visit.extend(x for x in n.next_nodes if x is not None)
        return node in self.reachable


DEPTH = 16  # of passes inside each other in one thread


def current_task() -> Task:
    """The backward pass that is calling a hook."""
    task: Task = modes.tasks[-1]
    return task


def queue_callback(callback: Callable[[], None]) -> None:
    """Have something called once when the pass that is calling a hook is over: the outermost, if
    it was started inside another. It is not called if the pass fails."""
    tasks = modes.tasks
    if not tasks:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    outermost = tasks[0]
    outermost.callbacks = [*(outermost.callbacks or ()), callback]


def run(task: Task, roots: Sequence[Root]) -> dict[int, Any]:
    """Run a backward pass from ``roots``; returns the gradients that were wanted. Whatever modes
    it, or a hook in it, leaves on or off are as before afterwards."""
    task.roots = roots
    task.begun = begin_pass(roots[0][0].order if roots else 0, not task.keep_graph)
    if task.recorded and not modes.saved_tensor_hooks:  # hooks may be anywhere in the user's code
        frame = user_frame(sys._getframe(1))
        task.call = call_of_pass() or (None if frame is None else Call(frame))
    depth = len(modes.frame.tasks)
    captured: dict[int, Any]
    if depth and depth % DEPTH == 0:
        from retrograd.autograd._elsewhere import elsewhere

        captured = elsewhere(call_in_pass, task, _run_observed)
    else:
        captured = call_in_pass(task, _run_observed)
    return captured


def _run_observed(task: Task, now: State) -> dict[int, Any]:
    observer = now.pass_observer
    task.anomaly = now.anomaly
    captured: dict[int, Any] = _loop(task) if observer is None else observer(task, _loop)
    while task.callbacks:
        task.callbacks.pop(0)()
    return captured


def _loop(task: Task) -> dict[int, Any]:
    waiting, heap, needed = task.waiting, task.heap, task.needed
    wanted = task.wanted
    plain = not (task.recorded or task.anomaly or task.observer is not None)
    every = plain and needed is None and not wanted  # most passes: no node is skipped or captured
    free = not task.keep_graph
    following: Node | None = None  # the node to run next, unless a newer one waits in the heap
    next_g: Any = None
    received: Any
    if len(task.roots) == 1:  # most passes
        following, number, next_g = task.roots[0]
        if number is not None:
            next_g = alone(following, number, next_g)
    else:
        for node, number, g in task.roots:
            deliver(task, node, number, g)
    newest = heap[0][0] if heap else NOTHING_WAITS
    while True:
        # Of all nodes that have received a gradient, run the newest: ``following``, or the first of
        # the heap.
        if following is not None and following.order < newest:
            node, g = following, next_g
        else:
            if following is not None:
                waiting[following] = [next_g, False]
                heappush(heap, (following.order, following))
            if not heap:
                return task.captured
            node = heappop(heap)[1]
            newest = heap[0][0] if heap else NOTHING_WAITS
            g = collect(node, waiting.pop(node))
        following = next_g = None

        next_nodes: Sequence[Node | None] = node.next_nodes
        extras = node.extras
        if not every and needed is not None:
            next_nodes = [n if n in needed else None for n in next_nodes]
        if (
            every or (plain and not (wanted and node in wanted))
        ) and (extras is None or not extras.needs_visit):  # fmt: skip
            try:
                received = nothing(node, next_nodes) if g is None else node.backward(g, next_nodes)
            except Exception as error:
                explain(node, error, task)
                raise
            if free and node.saved is not None:
                node.saved = FREED
            if extras is not None and extras.fit is not None:
                received = fit_all(received, extras.fit)
        else:
            received = visit(task, node, g, next_nodes)
        if extras is not None and extras.next_numbers is not None:
            for n, number, g in zip(next_nodes, extras.next_numbers, received, strict=True):
                if n is not None:
                    deliver(task, n, number, g)
            newest = heap[0][0] if heap else NOTHING_WAITS
            g = received = None
            continue

        # Pass the gradients on. The first new one becomes ``following``: usually its node is the
        # newest, and runs next without going through the heap.
        if len(next_nodes) == 1 and next_nodes[0] not in waiting:  # a chain: no need for a loop
            following, next_g = next_nodes[0], received[0]
            g = received = None
            continue
        position = -1
        for n in next_nodes:
            position += 1  # making a zip would take as long as the rest of this loop
            if n is None:
                continue
            g = received[position]
            entry = waiting.get(n)
            if entry is not None:
                if entry[1] and type(g) is ndarray:
                    add(entry[0], g, entry[0])
                else:
                    entry[0] = total = plus(entry[0], g)
                    entry[1] = type(total) is ndarray
            elif following is None:
                following = n
                next_g = g
            elif n is following:
                next_g = plus(next_g, g)
            else:
                waiting[n] = [g, False]
                order = n.order
                heappush(heap, (order, n))
                if order < newest:
                    newest = order
        g = received = None


def plus(a: Any, b: Any) -> Any:
    """The sum of two gradients, as a new array. None means that there is no gradient."""
    if a is None or b is None:
        one = a if b is None else b
        return arrays.copy(one) if arrays.is_raw(one) else one
    if SPARSE and (type(a) in SPARSE or type(b) in SPARSE):
        return total(b, a)
    return a + b


def deliver(task: Task, node: Node, number: int | None, g: Any) -> None:
    """Add a gradient to those that ``node`` has received for its output ``number``."""
    entry = task.waiting.get(node)
    if entry is None:
        entry = [g, False] if number is None else {number: [g, False]}
        task.waiting[node] = entry
        heappush(task.heap, (node.order, node))
        return
    if number is not None:
        slot = entry.get(number)
        if slot is None:
            entry[number] = [g, False]
            return
        entry = slot
    entry[0] = total = plus(entry[0], g)
    entry[1] = type(total) is ndarray


def collect(node: Node, entry: Any) -> Any:
    """The gradient that a node has received, or a list of them if it has several outputs. None if
    nothing but None has arrived."""
    if isinstance(entry, list):
        return entry[0]
    grads = [entry[i][0] if i in entry else None for i in range(len(node.outputs))]  # type: ignore[attr-defined]
    return None if all(g is None for g in grads) else grads


def alone(node: Any, number: int, g: Any) -> list[Any]:
    """The gradients of the outputs of a node of which only output ``number`` has one."""
    gradients = [None] * len(node.outputs)
    gradients[number] = g
    return gradients


def nothing(node: Node, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
    """The gradients that a node passes on if it receives none: None, except for custom Functions
    that ask for zeros."""
    if node.makes_zeros:
        several = getattr(node, "outputs", None)
        return node.backward(None if several is None else [None] * len(several), next_nodes)
    return (None,) * len(next_nodes)


# -- nodes with something special about them -------------------------------------------------


def visit(task: Task, node: Node, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
    """Run a node with all that may be attached to it, in PyTorch's order: tensor hooks, retained
    gradients, captures, pre-hooks, the node itself, post-hooks."""
    extras = node.extras
    if g is None and not node.makes_zeros:
        return (None,) * len(next_nodes)
    outputs = getattr(node, "outputs", None)
    several = outputs is not None
    grads = list(g or [None] * len(outputs)) if outputs is not None else [g]
    observer = task.observer
    if observer is not None:
        observer.arrived(node, list(seen(task, grads)))
    if extras is not None and (extras.tensor_hooks or extras.retained):
        call_tensor_hooks(task, extras, grads)
    if node in task.wanted:
        for number, place in task.wanted[node]:
            task.captured[place] = grads[number]
    if task.needed is not None and not must_run(task, node, next_nodes):
        if observer is not None:
            observer.ends(node, seen(task, grads), None)
        return (None,) * len(next_nodes)
    if extras is not None and extras.pre_hooks:
        grads = call_pre_hooks(task, extras, grads)
        if not several and grads[0] is None and not node.makes_zeros:
            return (None,) * len(next_nodes)
    if observer is not None:
        observer.begins(node, seen(task, grads))
    try:
        if isinstance(node, AccumulateGrad) and extras and extras.post_hooks and not task.recorded:
            received = node.backward_shown(grads)
        else:
            if extras is None or not extras.packed:
                task.recording_for = task.call if node.operation is not None else None
            received = run_rules(node, grads if several else grads[0], next_nodes, task.recorded)
    except Exception as error:
        explain(node, error, task)
        raise
    finally:
        task.recording_for = None
    if modes.anomaly and modes.check_nan:
        check_nan(task, node, received, grads)
    if observer is not None:
        observer.gave(node, seen(task, grads), seen(task, received))
    if not task.keep_graph:
        node.release()
    if extras is not None and extras.post_hooks:
        received = call_post_hooks(task, extras, received, grads)
    if observer is not None:
        observer.ends(node, seen(task, grads), seen(task, received))
    return received


def seen(task: Task, grads: Any) -> Any:
    """Gradients as observers see them: sparse ones in dense form."""
    if not SPARSE or not any([type(g) in SPARSE for g in grads]):
        return grads
    dense = [g.to_dense() if type(g) in SPARSE else g for g in grads]
    return dense if task.recorded else [raw(g) for g in dense]


def must_run(task: Task, node: Node, next_nodes: Sequence[Node | None]) -> bool:
    """Whether a node must run: it is on the way to an input, is a leaf that accumulates, or made a
    result that ``backward`` was asked for by ``inputs``. The last gives nothing then, but its hooks
    are called, and it is freed, as in PyTorch."""
    if isinstance(node, AccumulateGrad):
        return node not in task.wanted
    return any(n is not None for n in next_nodes) or not task.wanted.get(node, True)


def check_nan(
    task: Task, node: Node, received: Sequence[Any], grads: Sequence[Any]
) -> None:
    """In anomaly mode: an error for a gradient that is NaN, with its cause."""
    from retrograd.autograd._explaining._singular import cause_in_pass, note_infinity

    given = [None if g is None else values_of(g) for g in grads]
    for i, g in enumerate(received):
        if g is not None and arrays.any(arrays.isnan(values_of(g))):
            recorded = f"\n  recorded at {node.source}" if node.source else ""
            error = RuntimeError(
                f"Function '{node.name()}' returned nan values in its {i}th output.{recorded}"
            )
            explain(node, error)
            for sentence in cause_in_pass(task, node, values_of(g), given):
                error.add_note(f"  {sentence}")
            raise error
    note_infinity(task, node, [None if g is None else values_of(g) for g in received], given)


def values_of(g: Any) -> Any:
    """The array of a gradient: under transforms, of all entries, and without tangents."""
    if type(g) in SPARSE:
        g = g._values()
    while isinstance(g := raw(g), Lifted):
        g = g.inner
    return g


def explain(node: Node, error: Exception, task: Task | None = None) -> None:
    """Add to an error the line of the forward pass that it goes back to, and a hint if it is that
    of a second pass through a graph. What observes the pass may want neither."""
    if task is not None and not getattr(task.observer, "explains", True):
        return
    if any(note.startswith(NOTES) for note in getattr(error, "__notes__", ())):
        return  # said already, by a pass inside this one
    trace = node.extras.trace if node.extras else None
    if trace is not None:
        error.add_note(f"{NOTES[0]}{node.name()}:\n{trace}")
    elif node.source is not None and node.source not in str(error):
        error.add_note(f"{NOTES[1]}{node.name()}, recorded at {node.source}")
    if task is not None and error.args == (SECOND_BACKWARD,):
        from retrograd.autograd._explaining._hints import second_backward

        second_backward(error, node, [root for root, _, _ in task.roots])


NOTES = ("Traceback of the forward call of ", "in the backward of ")
