"""``profile``: measure what a program does, by PyTorch's names."""

from __future__ import annotations

import enum
import json
import os
import tracemalloc
import warnings
from _thread import get_ident
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

from retrograd._modes import Scope
from retrograd.profiler._events import EventList, function_events
from retrograd.profiler._export import write_trace
from retrograd.profiler._ledger import Ledger
from retrograd.profiler._record_function import RECORDERS, record_function
from retrograd.profiler._recorder import Recorder
from retrograd.profiler._summary import Summary, summary

if TYPE_CHECKING:
    from retrograd.viz._profile_page import ProfilePage


class ProfilerActivity(enum.Enum):
    """What can be profiled. Here everything runs on the CPU; the others are for PyTorch's sake."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What a profiler does in a step; a schedule returns them."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """What can be profiled here.

    Returns:
        A set with ``ProfilerActivity.CPU``.

    Example:
        >>> torch.profiler.supported_activities()
        {<ProfilerActivity.CPU: 0>}
    """
    return {ProfilerActivity.CPU}


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Makes a schedule for :class:`profile`: which steps to record.

    Args:
        wait: steps to leave out at the beginning of a cycle.
        warmup: steps after that which are recorded and dropped.
        active: steps after that which are recorded.
        repeat: how many cycles; 0 for no end.
        skip_first: steps to leave out before the first cycle.
        skip_first_wait: not 0 to begin the first cycle without waiting.

    Returns:
        A function from the number of a step to what is done in it.

    Example:
        >>> plan = torch.profiler.schedule(wait=1, warmup=1, active=2)
        >>> [plan(step).name for step in range(5)]
        ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), "
            f"warmup={warmup} (need >= 0), active={active} (need > 0), repeat={repeat} "
            f"(need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warnings.warn(
            "Profiler won't be using warmup, this can skew profiler results", stacklevel=2
        )
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait != 0:
            step += wait
        if repeat > 0 and step >= repeat * cycle:
            return ProfilerAction.NONE
        within = step % cycle
        if within < wait:
            return ProfilerAction.NONE
        if within < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if within < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(
    dir_name: str,
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[profile], None]:
    """Makes a function for ``on_trace_ready`` that writes each trace to a file in a folder.

    Args:
        dir_name: the folder, which is made if need be.
        worker_name: the beginning of the file's name; the host and the process by default.
        use_gzip: compress the file.
        use_python_export: ignored.

    Returns:
        The function.

    Example:
        >>> import os, tempfile
        >>> from retrograd.profiler import profile, tensorboard_trace_handler
        >>> folder = tempfile.mkdtemp()
        >>> with profile(on_trace_ready=tensorboard_trace_handler(folder, "worker")):
        ...     y = torch.ones(2).exp()
        >>> os.listdir(folder)[0].endswith(".pt.trace.json")
        True
    """

    def write(prof: profile) -> None:
        import socket
        import time

        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {dir_name}") from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' * use_gzip}"
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return write


class profile(Scope):  # noqa: N801 - PyTorch's name
    """Measures the time, and on request the memory, of what a block does: each operation, each node
    of a backward pass, each call of a Module, and each range named by ``record_function``.

    A backward operation belongs to the line and the Module of its forward operation. Self times
    leave out what the profiler takes itself, which is counted apart; so the times of all events,
    the time outside of them and the profiler's own add up to the wall time. Threads that the block
    starts are not seen.

    Args:
        activities: what to profile: ``[ProfilerActivity.CPU]``, the only activity there is here.
        schedule: a function from the number of a step to what to do, see :func:`schedule`; then
            ``step()`` is to be called after each step. Everything is recorded by default.
        on_trace_ready: called with the profiler whenever a recording is complete.
        record_shapes: note the shapes of inputs.
        profile_memory: count the bytes that are allocated and freed, by tracemalloc, which makes
            Python code slower.
        with_stack: note the frames that an operation was called from.
        with_flops: ignored; operations are not counted.
        with_modules: show calls of Modules among the events.
        acc_events: keep the events of all cycles of a schedule, not only of the last.
        use_cuda, experimental_config, execution_trace_observer: ignored.
        custom_trace_id_callback, post_processing_timeout_s: ignored.

    Example:
        >>> from retrograd.profiler import profile
        >>> w = torch.ones(2, 2, requires_grad=True)
        >>> with profile(record_shapes=True) as prof:
        ...     (w @ w).sum().backward()
        >>> [event.name for event in prof.events()][:4]
        ['aten::mm', 'aten::sum', 'backward pass', 'SumBackward0']
        >>> sorted(row.name for row in prof.summary("operation"))[:3]
        ['aten::mm', 'aten::sum', 'backward pass']
    """

    def __init__(
        self, *, activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None, record_shapes: bool = False,
        profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
        with_modules: bool = False, experimental_config: Any = None,
        execution_trace_observer: Any = None, acc_events: bool = False,
        use_cuda: bool | None = None, custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:  # fmt: skip
        self.activities = _activities(activities)
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_modules = with_stack, with_modules
        self.with_flops, self.acc_events = with_flops, acc_events
        self.schedule = schedule or (lambda step: ProfilerAction.RECORD)
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.metadata: dict[str, Any] = {}
        self._steps = schedule is not None  # whether steps are ranges
        self._step: record_function | None = None
        self._recorder = Recorder(record_shapes, profile_memory, with_stack)
        self._ledgers: list[Ledger] = []
        self._begun = self._ended = self._traces_memory = False
        self._shown: EventList | None = None

    # -- begin and end -----------------------------------------------------------------------

    def changes(self) -> dict[str, Any]:
        return self._recorder.modes()

    def __enter__(self) -> Self:
        self._begun, self._ended = True, False
        RECORDERS.setdefault(get_ident(), []).append(self._recorder)
        super().__enter__()
        if self.current_action in RECORDING:
            self._start_trace()
        self._begin_step()
        return self

    def _finish(self, *exc: object) -> None:
        if self._ended:
            return
        self._ended = True
        self._end_step()
        recorders = RECORDERS.get(get_ident(), [])
        if self._recorder in recorders:
            recorders.remove(self._recorder)
        if self._recorder.recording:
            self._stop_trace()
            self._ready()

    def start(self) -> None:
        """Starts the profiler, as entering its ``with`` block does."""
        self.__enter__()

    def stop(self) -> None:
        """Stops the profiler."""
        if not self._begun:
            raise AssertionError("Profiler must be initialized before stopping trace")
        if self._held:
            self.__exit__(None, None, None)
        else:
            self._finish()

    def step(self) -> None:
        """Marks the end of a step and the start of the next."""
        self._end_step()
        before = self.current_action
        following = self.schedule(self.step_num + 1)
        if following is ProfilerAction.DEVICE_STOPPED:
            raise ValueError(
                "ProfilerAction.DEVICE_STOPPED is set internally by the profiler and must not be "
                "returned by a user-provided schedule"
            )
        self.step_num += 1
        self.current_action = following
        if self._recorder.recording and (
            before is ProfilerAction.RECORD_AND_SAVE or following not in RECORDING
        ):
            if before is ProfilerAction.RECORD:
                warnings.warn(
                    f"Incorrect schedule: RECORD followed by {following.name}", stacklevel=2
                )
            self._stop_trace()
            if before is ProfilerAction.RECORD_AND_SAVE:
                self._ready()
        is_open = self._begun and not self._ended
        if is_open and following in RECORDING and not self._recorder.recording:
            self._start_trace()
        self._begin_step()

    def _begin_step(self) -> None:
        if self._steps and self._begun and not self._ended:
            self._step = record_function(f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def _end_step(self) -> None:
        step, self._step = self._step, None
        if step is not None:
            step.__exit__(None, None, None)

    def _start_trace(self) -> None:
        if not self.acc_events:
            self._ledgers.clear()
        if self.profile_memory and not tracemalloc.is_tracing():
            tracemalloc.start()
            self._traces_memory = True
        self._recorder.start()

    def _stop_trace(self) -> None:
        self._ledgers.append(self._recorder.stop())
        self._shown = None
        if self._traces_memory:
            tracemalloc.stop()
            self._traces_memory = False

    def _ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    # -- results -----------------------------------------------------------------------------

    def _results(self, doing: str) -> list[Ledger]:
        if not self._begun:
            raise AssertionError(f"Profiler must be initialized before {doing}")
        return self._ledgers

    def events(self) -> EventList:
        """The events as a list of ``FunctionEvent``, in the order in which they began."""
        ledgers = self._results("accessing events")
        if self._shown is None:
            self._shown = function_events(list(ledgers), self.with_modules)
        return self._shown

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Adds up events of the same name.

        Args:
            group_by_input_shape: keep different shapes of inputs apart; needs ``record_shapes``.
            group_by_stack_n: keep apart what differs in this many frames, the innermost; needs
                ``with_stack``.
            group_by_overload_name: nothing: operations have one name each.

        Returns:
            A list of ``FunctionEventAvg``, whose ``table()`` is text.

        Example:
            >>> with torch.profiler.profile() as prof:
            ...     y = torch.ones(3).exp().exp()
            >>> [(average.key, average.count) for average in prof.key_averages()]
            [('aten::exp', 2)]
        """
        self._results("getting key averages")
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def summary(self, by: str = "line") -> Summary:
        """Sums times and bytes, separately for forward and backward.

        Args:
            by: "operation", "line" or "module".

        Returns:
            A list of rows with ``name``, ``count``, ``forward``, ``backward`` (seconds) and
            ``bytes``, whose ``table()`` is text.

        Example:
            >>> layer, x = torch.nn.Linear(2, 3), torch.ones(4, 2)
            >>> with torch.profiler.profile() as prof:
            ...     y = layer(x)
            >>> [row.name for row in prof.summary("module")]
            ['layer (Linear)']
        """
        return summary(self._results("adding up"), by)

    def page(self, title: str = "Profile") -> ProfilePage:
        """Makes a page with tables, a flame graph, a timeline and memory over time.

        Args:
            title: the title of the page.

        Returns:
            The page: a notebook shows it, ``save(path)`` writes it as one file that works offline,
            and ``show()`` opens it.

        Example:
            >>> with torch.profiler.profile() as prof:
            ...     y = torch.ones(3).exp()
            >>> prof.page("An exponential").title
            'An exponential'
        """
        from retrograd.viz._profile_page import ProfilePage

        return ProfilePage(self._results("making a page"), title)

    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None:
        """Writes the events as a file for chrome://tracing, ui.perfetto.dev or TensorBoard.

        Args:
            path: the file; it is compressed if its name ends with ``.gz``.
            use_python_export: ignored.
        """
        ledgers = self._results("exporting chrome trace")
        options = ("with_stack", "profile_memory", "record_shapes", "with_modules")
        on = {name: 1 for name in options if getattr(self, name)}
        write_trace(ledgers, path, {**on, **self.metadata}, True)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes the frames of each event and its time, for tools that make flame graphs.

        Args:
            path: the file.
            metric: what to count: "self_cpu_time_total".
        """
        self._results("exporting stacks")
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self.events().export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Adds a text to the trace that is exported.

        Args:
            key: its name.
            value: the text.
        """
        self.metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Adds a value to the trace that is exported.

        Args:
            key: its name.
            value: the value as JSON.
        """
        self.metadata[key] = json.loads(value)


def _activities(given: Iterable[Any] | None) -> set[ProfilerActivity]:
    """What to profile, as a set. A dictionary names kinds of activities, which there are not."""
    results: set[ProfilerActivity] = set()
    for item in [ProfilerActivity.CPU] if given is None else given:
        if not isinstance(item, (ProfilerActivity, dict)):
            raise TypeError(f"Expected ProfilerActivity or dict, got {type(item)}")
        for activity in item if isinstance(item, dict) else [item]:
            if activity in results:
                raise ValueError(f"Activity {activity} specified more than once")
            results.add(activity)
    if not results:
        raise AssertionError("No valid profiler activities found")
    return results
