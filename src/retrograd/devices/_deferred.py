"""Calls of compiled functions that wait until a value is needed, and then run as one function.

A call of an XLA function through JAX takes tens of microseconds on a GPU, however little it
computes. So a call does not run at once. It is appended to the queue of its thread, and returns a
``Later`` in place of each array. When an array is read, the whole queue runs. XLA's arrays are
immutable, and so is the value that a ``Later`` represents. In-place writes therefore need no
special treatment: they replace the array, or the ``Later``, that a memory holds.

The key of a queue consists of its functions, the sources of their arguments, and the results that
are still referred to. When a key occurs for the eighth time, the queue is compiled as one function.
Until then its functions run one after the other, so a program without repetition compiles nothing
more. Optimization barriers separate the functions: XLA's simplifications, such as ``log(exp(x))``
to ``x``, must not be visible in eager mode.

**A queue may be interrupted, or fail, at any point without losing values.** Its functions have no
effects, and its calls are deleted only after the results are stored. Until then the values are
pending, and the next read runs the queue again.

**Threads.** A thread appends to its own queue only, and any thread may run any queue. The lock of a
queue is held while a call is appended, and while the queue runs. Arguments from the queue of
another thread are computed before the lock is acquired, so no thread waits for two locks.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from retrograd._modes import modes, switch
from retrograd.devices import _pending, _platforms
from retrograd.devices._caches import Cache, count_function

MOST = 128  # calls in one queue; XLA takes long to compile more
ENOUGH = MOST // 2  # calls after which a queue ends where the program seems to repeat itself
# Bytes that the calls of one queue read and write. This bounds the memory that a queue keeps alive.
# And a device that needs longer for this than the host needs for a call should not be idle.
MOST_BYTES = 1 << 28
REPEATS = 8  # a queue is compiled when it occurs for this time
# The number of a result in a queue: the number of the call in the low bits, then the index of the
# result among those of the call.
_BITS = 12
_CALL = (1 << _BITS) - 1


class Later:
    """A pending result of a call in a queue, and after the queue has run, its array."""

    __slots__ = ("__weakref__", "array", "like", "number", "queue")

    def __init__(self, queue: Queue, number: int, like: Any) -> None:
        self.array: Any = None
        self.queue: Queue | None = queue  # None once there is an array
        self.number = number
        self.like = like  # the shape, dtype and sharding: JAX's ShapeDtypeStruct

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.like.shape
        return shape

    @property
    def dtype(self) -> Any:
        return self.like.dtype

    def read(self) -> Any:
        """The XLA array, computed now if it is pending."""
        queue = self.queue
        if queue is not None:
            queue.run()
        return self.array


_devices_seen: dict[Any, Any] = {}  # one object for all equal devices, compared by identity


class Function:
    """A function of arrays, compiled by XLA, whose calls may be queued."""

    __slots__ = ("device", "expects", "function", "jitted", "later", "likes", "name", "traffic")

    def __init__(self, name: str, device: Any) -> None:
        self.name = name
        self.device = _devices_seen.setdefault(device, device)
        self.expects = False  # whether the last result says if all indices are in range
        self.later = False  # whether calls may be queued
        self.function: Callable[..., Any]
        self.jitted: Any = None
        self.likes: list[Any] = []
        self.traffic = 0  # bytes that it reads and writes

    def compile(self, function: Callable[..., Any], flat: list[Any]) -> None:
        """Compile a function of arrays and numbers for arguments like ``flat``.

        By default, JAX converts float64 to float32. Enabling float64 for each call would take a
        tenth of the time of a call. It is needed only if some arguments are not JAX's arrays, or
        on a mesh, where their sharding may change.
        """
        count_function()
        jax = _platforms.jax()
        # A function runs on the device of its arguments, even one that uses none, such as isreal().
        jitted = self.jitted = jax.jit(function, keep_unused=True)
        examples = [x.like if type(x) is Later else x for x in flat]
        if self.device._mesh is None and all([isinstance(x, (jax.Array, Later)) for x in flat]):
            there = jax.sharding.SingleDeviceSharding(_platforms.target(self.device))
            with jax.enable_x64(True):
                lowered = jitted.lower(*examples)
                self.function = lowered.compile()
            self.likes = [jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=there)
                          for x in lowered.out_info]  # fmt: skip
            self.traffic = sum([x.size * x.dtype.itemsize for x in (*examples, *self.likes)])
            self.later = True
            return
        with jax.enable_x64(True):
            jitted.trace(*examples)  # raises an error if there is no lowering

        def call(*flat: Any) -> Any:
            with jax.enable_x64(True):
                return _platforms.settled(jitted(*flat))

        self.function = call

    def contents(self, flat: list[Any]) -> Sequence[Any]:
        """Its results for some arguments: arrays, or a ``Later`` for each. In anomaly mode calls
        are not queued, so that an error is raised at the line that calls the operation."""
        if self.later and _pending.tracing.expected is None and not (
            switch.active and modes.anomaly
        ):  # fmt: skip
            return deferred(self, flat)
        try:
            results = self.function(*[x.read() if type(x) is Later else x for x in flat])
        except _platforms.jax().errors.JaxRuntimeError as error:
            raise _platforms.explained(error, self.device) from None
        if self.expects:
            *results, holds = results
            _pending.note(self.name, holds)
        return results  # type: ignore[no-any-return]


class Queue:
    """Calls that wait. The key of a call is its function and the sources of its arguments: the
    number of a result, or the complement of a position in ``inputs``."""

    __slots__ = ("__weakref__", "calls", "device", "inputs", "known", "lock", "sealed", "traffic")

    def __init__(self, device: Any) -> None:
        self.device = device
        self.lock = threading.RLock()  # a finalizer may read a value while the queue runs
        self.sealed = False  # whether it is running, or has run
        # For each call, its key and weak references to its results.
        self.calls: list[tuple[tuple[Any, ...], list[Any]]] | None = []
        self.inputs: list[Any] = []
        self.known: dict[int, int] = {}  # the positions of inputs, by id
        self.traffic = 0
        _queues.add(weakref.ref(self, _queues.discard))

    def run(self) -> None:
        """Compute all results that are still referred to."""
        if _pending.tracing.queue is self:
            _pending.tracing.queue = None
        with self.lock:
            self.sealed = True
            calls, inputs = self.calls, self.inputs
            if calls is None:
                return
            pending: list[Later] = []
            checks: list[int] = []  # the numbers of results that say if indices are in range
            names: list[str] = []
            for i, ((function, *_), references) in enumerate(calls):
                for reference in references:
                    later = reference()
                    if later is not None and later.queue is not None:
                        pending.append(later)
                if function.expects:
                    checks.append(i | len(references) << _BITS)
                    names.append(function.name)
            wanted = [*[x.number for x in pending], *checks]
            results = _computed([key for key, _ in calls], inputs, wanted, self.device)
            for later, array in zip(pending, results):  # noqa: B905 - the rest are checks
                later.array = array
                later.queue = None
            if names:
                _pending.expect(zip(names, results[len(pending) :], strict=True))
            self.calls = None
            self.inputs = []
            self.known = {}
        if names:
            _pending.check_some()


def _computed(keys: Any, inputs: list[Any], wanted: list[int], device: Any) -> Sequence[Any]:
    """The results of a queue that have the given numbers."""
    local = _pending.tracing
    if len(keys) == 1 or not wanted or local.separate or local.expected is not None:
        return _one_by_one(keys, inputs, wanted, device)
    signature = (len(inputs), *keys)
    plan = _plans.get(signature)
    if plan is None:
        plan = _plans[signature] = _Plan()
    whole = plan.compiled_for(keys, inputs, wanted)
    results = None if whole is None else whole.results(inputs, wanted)
    return _one_by_one(keys, inputs, wanted, device) if results is None else results


class _Whole:
    """A queue compiled as one function."""

    __slots__ = ("function", "outputs", "positions")

    def __init__(self, function: Any, outputs: list[int]) -> None:
        self.function = function
        self.outputs = outputs  # the numbers of the results that it returns
        self.positions = {n: i for i, n in enumerate(outputs)}

    def results(self, inputs: list[Any], wanted: list[int]) -> Sequence[Any] | None:
        """Some results. None if XLA raises an error, such as one about memory: calls that run one
        by one may need less, and if not, their error names the operation."""
        try:
            results: Sequence[Any] = self.function(*inputs)
        except _platforms.jax().errors.JaxRuntimeError:
            return None
        return results if self.outputs == wanted else [results[self.positions[n]] for n in wanted]


class _Plan:
    """The state of all queues with the same calls."""

    __slots__ = ("count", "refused", "whole")

    def __init__(self) -> None:
        self.count = 0  # how often they occurred since the last compilation
        self.whole: _Whole | None = None
        self.refused = False  # whether compilation failed

    def compiled_for(self, keys: Any, inputs: list[Any], wanted: list[int]) -> _Whole | None:
        """The compiled queue, if it returns all wanted results. If such queues have occurred often
        enough, it is compiled now, for these results and those of the previous compilation."""
        whole = self.whole
        if whole is not None and (
            whole.outputs == wanted or all([n in whole.positions for n in wanted])
        ):
            return whole
        self.count += 1
        if self.count < REPEATS or self.refused:
            return None
        others = [] if whole is None else [n for n in whole.outputs if n not in set(wanted)]
        try:
            joined = _joined(keys, inputs, [*wanted, *others])
        except Exception:  # of any kind: the functions run one by one instead
            self.refused = True
            return None
        self.whole, self.count = _Whole(joined, [*wanted, *others]), 0
        return self.whole


_plans = Cache(1000)  # by signature
# Passes of XLA that are disabled on the CPU: its algebraic simplifier, which also runs after the
# barriers are removed; and the one that fuses operations for the library YNNPACK. Without the
# simplifier, XLA 0.10 crashes in such a fusion for ``x - x.max(0, keepdim=True)`` of 4096 elements.
_DISABLED_ON_CPU = ("algsimp", "dot-library-rewriter")


def _joined(keys: Any, inputs: list[Any], outputs: list[int]) -> Any:
    """The calls of a queue as one function, compiled by XLA."""
    count_function()
    jax = _platforms.jax()
    on_cpu = all([x.platform == "cpu" for x in inputs[0].devices()])

    def function(*inputs: Any) -> Any:
        results: list[Any] = []
        for call, *sources in keys:
            args = [inputs[~n] if n < 0 else results[n & _CALL][n >> _BITS] for n in sources]
            outcome = [jax.lax.convert_element_type(y, y.dtype) for y in call.jitted(*args)]
            if on_cpu:  # fused kernels do not round values that they do not store to bfloat16
                outcome = [jax.lax.reduce_precision(y, 8, 7) if y.dtype == "bfloat16" else y
                           for y in outcome]  # fmt: skip
            results.append(jax.lax.optimization_barrier(outcome))
        return tuple([results[n & _CALL][n >> _BITS] for n in outputs])

    with jax.enable_x64(True):
        lowered = jax.jit(function, keep_unused=True).lower(*inputs)
    return lowered.compile(
        compiler_options={"xla_disable_hlo_passes": ",".join(_DISABLED_ON_CPU)} if on_cpu else None
    )


def _one_by_one(keys: Any, inputs: list[Any], wanted: list[int], device: Any) -> list[Any]:
    """Some results of a queue, by calling its functions one after the other. Functions whose
    results are not needed are not called."""
    needed = {n & _CALL for n in wanted}
    for i in range(len(keys) - 1, -1, -1):
        if i in needed:
            needed.update([n & _CALL for n in keys[i][1:] if n >= 0])
    results: list[Any] = [None] * len(keys)
    for i, (call, *sources) in enumerate(keys):
        if i not in needed:
            continue
        args = [inputs[~n] if n < 0 else results[n & _CALL][n >> _BITS] for n in sources]
        try:
            results[i] = call.function(*args)
        except _platforms.jax().errors.JaxRuntimeError as error:
            raise _platforms.explained(error, device, call.name) from None
    return [results[n & _CALL][n >> _BITS] for n in wanted]


def deferred(function: Function, flat: list[Any]) -> list[Later]:
    """Append a call to the queue of this thread. Its arguments are arrays or ``Later``."""
    local = _pending.tracing
    queue: Queue | None = local.queue
    # A finalizer may run at any time and call operations, which then need another queue.
    local.queue = None
    if queue is not None and (queue.device is not function.device or _ends(queue, function)):
        if queue.device is function.device:
            queue.run()
        queue = None
    while True:
        if queue is None or queue.sealed:
            queue = Queue(function.device)
        for i, x in enumerate(flat):
            if type(x) is Later and x.queue is not queue:
                flat[i] = x.read()  # it belongs to another queue
        with queue.lock:
            if queue.sealed:
                continue  # by another thread
            results = _appended(queue, function, flat)
            if not queue.sealed:  # a finalizer may have read a value of this queue meanwhile
                break
    if len(queue.calls or ()) >= MOST or queue.traffic >= MOST_BYTES:
        queue.run()
    else:
        local.queue = queue
    return results


def _ends(queue: Queue, function: Function) -> bool:
    """Whether a long queue should end before a call: if it began with the same function. Then the
    queues of a loop that reads no values begin at the same operation, and have equal keys."""
    calls = queue.calls
    return calls is not None and len(calls) >= ENOUGH and calls[0][0][0] is function


def _appended(queue: Queue, function: Function, flat: list[Any]) -> list[Later]:
    inputs, known, calls = queue.inputs, queue.known, queue.calls
    if calls is None:  # a finalizer has run the queue
        return []
    key: list[Any] = [function]
    for x in flat:
        if type(x) is Later:
            key.append(x.number)
            continue
        position = known.get(id(x))
        if position is None:
            inputs.append(x)
            position = known[id(x)] = -len(inputs)
        key.append(position)
    number = len(calls)
    results = [Later(queue, number | i << _BITS, like) for i, like in enumerate(function.likes)]
    if function.expects:
        results.pop()
    queue.traffic += function.traffic
    calls.append((tuple(key), [weakref.ref(x) for x in results]))
    return results


_queues: set[weakref.ref[Queue]] = set()


def all_queues() -> list[Queue]:
    """The queues of all threads."""
    return [queue for reference in list(_queues) if (queue := reference()) is not None]


def run_all() -> None:
    """Run the queues of all threads."""
    for queue in all_queues():
        queue.run()


def begin_pass() -> None:
    """Run the queue of this thread if it is long, because a backward pass begins. The queues of
    training steps then begin at the same operations, whether or not values are read in between."""
    queue = _pending.tracing.queue
    if queue is not None and len(queue.calls or ()) >= ENOUGH:
        queue.run()


@contextmanager
def separately() -> Iterator[None]:
    """A block in which the calls of a queue run one by one, however often it occurs. Compiled as
    one function, they may give results that differ in the last bit."""
    local = _pending.tracing
    before, local.separate = local.separate, True
    try:
        yield
    finally:
        local.separate = before


def synchronize() -> None:
    """Compute all pending values, and wait for the devices."""
    run_all()
    _platforms.synchronize()


if hasattr(os, "register_at_fork"):
    # A forked process has none of XLA's threads. It can read arrays, but not compute them.
    os.register_at_fork(before=run_all)
