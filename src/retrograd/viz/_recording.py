"""``viz.recording`` records a program as it runs; ``record_pass`` records one backward pass."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from retrograd import arrays
from retrograd._modes import Scope, drop_interceptor, modes, set_modes, within
from retrograd._source import user_place
from retrograd.autograd._backward import differentiate
from retrograd.autograd._engine import Root, Task
from retrograd.autograd._node import FREED, AccumulateGrad, Node
from retrograd.autograd._roots import as_gradients, as_tuple, make_roots
from retrograd.autograd._wrap import array_of, wrap
from retrograd.nn._calling import register_module_forward_hook, register_module_forward_pre_hook
from retrograd.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from retrograd.viz import _facts, _record_updates
from retrograd.viz._answers import forward_causes
from retrograd.viz._model import walk
from retrograd.viz._pass_values import leaf_values
from retrograd.viz._record_modules import Modules
from retrograd.viz._record_passes import PassRecord, observed
from retrograd.viz._record_tensors import Tensors
from retrograd.viz._recorder import Recorder
from retrograd.viz._story import Story
from retrograd.viz._values import MAX_ELEMENTS

MAX_STEPS = 2000  # operations of a pass that are kept with all values
MAX_PASSES = 10


class recording(Scope):  # noqa: N801 - a context manager, called like a function
    """Record the operations, Modules and backward passes of a block. Returns a ``Story``, which
    ``viz.explore`` displays and ``to_json`` exports.

    The story says what was left out.

    Args:
        params: a Module or named tensors, which give names, and say which parameters should have
            been used.
        title: the title of the story.
        max_elements: arrays with at most this many elements are copied; others are summarised.
        max_steps: how many operations of a pass are kept with all values.
        max_passes: how many passes are kept whole.
        threads: record threads that are started in the block, too, not only this one.

    Example:
        >>> import retrograd as torch
        >>> from retrograd import viz
        >>> x = torch.tensor(2.0, requires_grad=True)
        >>> with viz.recording() as story:
        ...     y = x * x
        ...     y.backward()
        >>> [step.node.name() for step in story.passes[0].steps]
        ['MulBackward0', 'torch::autograd::AccumulateGrad']
        >>> story.passes[0].steps[-1].after.to_json()["data"]
        [4.0]
    """

    def __init__(
        self,
        params: Any = None,
        *,
        title: str = "",
        max_elements: int = MAX_ELEMENTS,
        max_steps: int = MAX_STEPS,
        max_passes: int = MAX_PASSES,
        threads: bool = False,
    ) -> None:
        self.tensors = Tensors(max_elements)
        self.modules = Modules(self.tensors.name_by_module)
        self.story = Story(self.tensors, self.modules, params, title=title)
        self._recorders = [self._recorder()]  # the first: of this thread
        self._adding = threading.Lock()
        self._with_threads = threads
        self._max_steps = max_steps
        self._max_passes = max_passes
        self._state: Any = None  # a weak reference to the key of the block, if it is open
        self._hooks: list[Any] = []  # of Modules
        self._step_hooks: list[Any] = []  # of optimizers
        self._updates: dict[int, _record_updates.Update] = {}  # that have begun, by optimizer
        self._threads: set[int] = set()
        self._profile: Any = None

    def __enter__(self) -> Story:
        if self._is_open():
            raise RuntimeError(
                "this recording is open already; make another one with viz.recording()"
            )
        if self._with_threads:
            # A profile function is the first thing that is called in a new thread.
            self._profile = threading.getprofile()
            threading.setprofile(self._begin_thread)
        self._threads.add(threading.get_ident())
        self._hooks = [
            register_module_forward_pre_hook(self._enter_module),
            register_module_forward_hook(self._leave_module, always_call=True),
        ]
        self._step_hooks = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        self._state = self._enter(self._modes_with(self._recorders[0]))
        return self.story

    def _recorder(self) -> Recorder:
        return Recorder(self.tensors, self.modules, self.story.answers)

    def _modes_with(self, recorder: Recorder) -> dict[str, Any]:
        """The modes of a thread that is recorded."""
        return {
            "interceptors": (*modes.interceptors, recorder),
            "observer": recorder,
            "pass_observer": self._run_pass,
        }

    def _begin_thread(self, *event: Any) -> None:
        """Record a thread that has just been started; its modes end with it."""
        sys.setprofile(self._profile)
        if self._is_open():
            recorder = self._recorder()
            recorder.paused = self._recorders[0].paused
            self._recorders.append(recorder)
            self._threads.add(threading.get_ident())
            set_modes(**self._modes_with(recorder))

    def _is_open(self) -> bool:
        return self._state is not None and self._state() is not None

    def _enter_module(self, module: Any, args: Any) -> None:
        if not self._is_open():  # an interrupt came when it ended
            self._remove_hooks()
            self._remove_step_hooks()
        elif threading.get_ident() in self._threads:
            self.modules.enter(module)

    def _leave_module(self, module: Any, args: Any, result: Any) -> None:
        if self._is_open() and threading.get_ident() in self._threads:
            self.modules.leave(module)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not (self._is_open() and threading.get_ident() in self._threads):
            return
        if not self._recorders[0].paused:
            self.story.answers.before_step(self.story, optimizer)
        if self.story.passes:
            update = _record_updates.begun(optimizer, self.tensors, user_place(2))
            self._updates[id(optimizer)] = update

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        update = self._updates.pop(id(optimizer), None)
        if update is not None and self._is_open():
            _record_updates.ended(update, optimizer, self.tensors)
            self.story.passes[-1].updates.append(update)

    def _remove_hooks(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def _remove_step_hooks(self) -> None:
        self._updates.clear()
        for hook in self._step_hooks:
            hook.remove()

    def _finish(self, *exc: object) -> None:
        self._remove_hooks()
        self._remove_step_hooks()
        if len(exc) > 1 and isinstance(exc[1], Exception):
            self.story.answers.failed(self.story, exc[1])
        if self._with_threads:
            threading.setprofile(self._profile)
        self._pause()  # threads that outlive the block
        self._threads.clear()
        self._recorders = [self._recorder()]
        self.tensors.name_by_frames(sys._getframe(1))
        self.story.ends()

    def _pause(self) -> None:
        for recorder in self._recorders:
            recorder.paused = True

    def _run_pass(self, task: Task, loop: Callable[[Task], Any]) -> Any:
        """Replaces the loop of a pass: the same, observed by the story."""
        if not self._is_open():  # in a thread that outlives the block
            return loop(task)
        with self._adding:
            if len(self.story.passes) >= self._max_passes:
                self.story.passes_left_out += 1
                self._remove_step_hooks()
                record = None
            else:
                self.tensors.name_by_frames(sys._getframe(1))
                nodes, leaves = walk([node for node, _, _ in task.roots])
                limits = self.tensors.max_elements, self._max_steps
                record = new_record(task, nodes, leaves, *limits)
                self.story.add(record)
        if record is None:
            return loop(task)
        with observed(task, record):
            captured = loop(task)
        self.story.answers.after_pass(self.story, [node for node, _ in record.roots], leaves)
        if len(self.story.passes) >= self._max_passes:
            # Later computations are not part of a pass that is kept, and run as fast as ever.
            self._pause()
            self._remove_hooks()
            for recorder in self._recorders:
                drop_interceptor(recorder)
        return captured


def new_record(
    task: Task, nodes: list[Node], leaves: list[Node], max_elements: int, max_steps: int
) -> PassRecord:
    """A new record of a pass over ``nodes``, with the bytes that these keep now, and with the
    values of ``leaves``, which later passes may find changed."""
    record = PassRecord(task.roots, user_place(2), max_elements, max_steps)
    record.leaf_values = leaf_values(nodes, leaves, max_elements)
    record.causes = forward_causes(nodes)
    sizes = zip(nodes, _facts.memory(nodes), strict=True)
    record.memory = [(node, size) for node, size in sizes if size]
    return record


def record_pass(
    tensors: Any,
    grad_tensors: Any = None,
    *,
    params: Any = None,
    title: str = "",
    max_elements: int = MAX_ELEMENTS,
    max_steps: int = MAX_STEPS,
) -> Story:
    """Run a backward pass from ``tensors`` and record it, leaving everything unchanged.

    The engine runs over the existing graph, with the hooks of tensors and nodes: their changes are
    part of the gradients. Afterwards each ``.grad`` is the same object with the same elements as
    before, the graph is not freed, and hooks that wait for a gradient to be accumulated, which may
    step an optimizer, have not been called.

    >>> import retrograd as torch
    >>> from retrograd.viz._recording import record_pass
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> story = record_pass(x * x)
    >>> story.passes[0].steps[-1].after.to_json()["data"], x.grad
    ([6.0], None)
    """
    outputs = as_tuple(tensors)
    roots = make_roots(outputs, as_gradients(grad_tensors, len(outputs)), recorded=False)
    check_not_freed(walk([node for node, _, _ in roots])[0])
    return record_roots(roots, params, title, max_elements, max_steps)


def record_roots(
    roots: list[Root], params: Any = None, title: str = "", max_elements: int = MAX_ELEMENTS,
    max_steps: int = MAX_STEPS,
) -> Story:  # fmt: skip
    """Run a backward pass from the roots of one and record it, leaving everything unchanged."""
    seen = Tensors(max_elements)
    story = Story(seen, Modules(seen.name_by_module), params, title=title)
    seen.name_by_frames(sys._getframe(1))

    def observe(task: Task, loop: Callable[[Task], Any]) -> Any:
        # There may be nested passes: a checkpoint that starts one reaches leaves of its own.
        nodes, leaves = walk([node for node, _, _ in task.roots])
        record = new_record(task, nodes, leaves, max_elements, max_steps)
        story.add(record)
        with untouched([*nodes, *leaves]), observed(task, record):
            captured = loop(task)
        story.answers.after_pass(story, [node for node, _ in record.roots], leaves)
        return captured

    with within(pass_observer=observe):
        differentiate(roots, keep_graph=True, recorded=False)
    story.ends()
    return story


def check_not_freed(nodes: Sequence[Node]) -> None:
    """Raise a RuntimeError if a pass has freed the values of a graph."""
    for node in nodes:
        if node.saved is FREED:
            made = f" (made at {node.source})" if node.source else ""
            raise RuntimeError(
                f"there is nothing left to look at: a backward pass has freed the values that "
                f"{node.name()}{made} had saved. Look before calling backward(), call "
                "backward(retain_graph=True), or record the pass itself with viz.recording()."
            )


@contextmanager
def untouched(nodes: Sequence[Node]) -> Iterator[None]:
    """Restore every ``.grad`` that a pass may write, without calling hooks on accumulation.
    Callbacks that hooks queue for the end of the pass are not called."""
    kept: list[tuple[Any, Any, Any]] = []  # meta of a tensor, its .grad, its post-hooks
    outermost = modes.tasks[0]
    callbacks = outermost.callbacks
    try:
        for meta in with_gradients(nodes):
            kept.append((meta, meta.grad, meta.post_hooks))
            grad = meta.grad
            if grad is not None:
                data = array_of(grad)
                meta.grad = wrap(arrays.copy(data) if arrays.is_raw(data) else data)
            meta.post_hooks = None
        yield
    finally:
        for meta, grad, hooks in kept:
            meta.grad, meta.post_hooks = grad, hooks
        outermost.callbacks = callbacks


def with_gradients(nodes: Sequence[Node]) -> Iterator[Any]:
    """The metas of the tensors to whose ``.grad`` a pass over ``nodes`` adds."""
    for node in nodes:
        if isinstance(node, AccumulateGrad):
            yield node.variable._meta
        for reference in ((node.extras.retained if node.extras else None) or {}).values():
            tensor = reference()
            if tensor is not None:
                yield tensor._meta
