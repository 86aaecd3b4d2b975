"""The profiler by its older names, those of ``torch.autograd.profiler``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from retrograd.profiler import profiler
from retrograd.profiler._events import EventList, FunctionEventAvg


class profile(profiler.profile):  # noqa: N801 - PyTorch's name
    """The older form of :class:`retrograd.profiler.profile`: without steps, and printed as a table.

    Args:
        enabled: False to do nothing.
        record_shapes: note the shapes of inputs.
        profile_memory: count the bytes that are allocated and freed.
        with_stack: note the frames that an operation was called from.
        with_modules: show calls of Modules among the events.
        acc_events: keep the events of earlier uses.
        use_cuda, use_device, use_cpu, use_kineto, with_flops, experimental_config: ignored.
        custom_trace_id_callback, post_processing_timeout_s, activity_filters: ignored.

    Example:
        >>> with torch.autograd.profiler.profile() as prof:
        ...     y = torch.ones(2).exp()
        >>> [event.name for event in prof.function_events]
        ['aten::exp']
    """

    def __init__(
        self, enabled: bool = True, *, use_cuda: bool = False, use_device: str | None = None,
        record_shapes: bool = False, with_flops: bool = False, profile_memory: bool = False,
        with_stack: bool = False, with_modules: bool = False, use_kineto: bool = False,
        use_cpu: bool = True, experimental_config: Any = None, acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None, activity_filters: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            record_shapes=record_shapes, with_flops=with_flops, profile_memory=profile_memory,
            with_stack=with_stack, with_modules=with_modules, acc_events=acc_events,
        )  # fmt: skip
        self.enabled = enabled
        if not enabled:
            self.current_action = profiler.ProfilerAction.NONE

    def changes(self) -> dict[str, Any]:
        return super().changes() if self.enabled else {}

    @property
    def function_events(self) -> EventList | None:
        """The events; None if there are none yet."""
        return self.events() if self._ledgers else None

    def _expected(self) -> EventList:
        events = self.function_events
        if events is None:
            raise AssertionError("Expected profiling results")
        return events

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """All events as a table.

        Args:
            sort_by: an attribute to sort by.
            row_limit: the largest number of rows.
            options: those of ``EventList.table``.

        Returns:
            The text.
        """
        return self._expected().table(sort_by, row_limit, **options)

    def total_average(self) -> FunctionEventAvg:
        """The sums over all events."""
        return self._expected().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, in microseconds."""
        return self._expected().self_cpu_time_total

    def __str__(self) -> str:
        events = self.function_events
        return "<unfinished torch.autograd.profile>" if events is None else str(events)

    def __repr__(self) -> str:
        events = self.function_events
        return "<unfinished torch.autograd.profile>" if events is None else list.__repr__(events)


def _refused(name: str) -> NoReturn:
    raise NotImplementedError(
        f"{name} passes events on to a vendor's tool, of which there is none here: "
        "torch.profiler.profile() measures the same, and its export_chrome_trace(path) writes a "
        "file for ui.perfetto.dev."
    )


class emit_nvtx:  # noqa: N801 - PyTorch's name
    """Not supported: raises NotImplementedError when it is entered.

    Args:
        enabled: False to do nothing.
        record_shapes: ignored.
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes

    def __enter__(self) -> None:
        if self.enabled:
            _refused(f"torch.autograd.profiler.{type(self).__name__}")

    def __exit__(self, *exc: object) -> None:
        return None


class emit_itt(emit_nvtx):  # noqa: N801 - PyTorch's name
    """Not supported: raises NotImplementedError when it is entered.

    Args:
        enabled: False to do nothing.
        record_shapes: ignored.
    """


def load_nvprof(path: str) -> NoReturn:
    """Not supported: raises NotImplementedError.

    Args:
        path: the trace.

    Returns:
        Nothing.
    """
    _refused("torch.autograd.profiler.load_nvprof")
