"""``torch.utils.benchmark``: timing short pieces of code.

>>> from retrograd.utils import benchmark
>>> measured = benchmark.Timer("x + x", globals={"x": 1}).timeit(100)
>>> measured.number_per_run, measured.mean > 0
(100, True)
"""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


def _unit(seconds: float) -> tuple[str, float]:
    return next((u for u in _UNITS if seconds >= u[1]), _UNITS[-1])


@dataclass
class TaskSpec:
    """What was measured."""

    stmt: str
    setup: str = "pass"
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        return self.stmt.splitlines()[0]


@dataclass
class Measurement:
    """The times of several runs of a statement.

    Args:
        number_per_run: how often the statement ran in each.
        raw_times: the seconds of each.
        task_spec: what was measured.
        metadata: anything else.
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None
    times: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.times = [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self) -> float:
        """The mean time of one execution, in seconds."""
        return statistics.fmean(self.times)

    @property
    def median(self) -> float:
        """The median time of one execution, in seconds."""
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """The distance between the quartiles, in seconds."""
        if len(self.times) < 2:
            return 0.0
        quarters = statistics.quantiles(self.times, n=4, method="inclusive")
        return quarters[2] - quarters[0]

    @property
    def title(self) -> str:
        """What was measured."""
        return self.task_spec.title

    @property
    def stmt(self) -> str:
        """The statement."""
        return self.task_spec.stmt

    @property
    def env(self) -> str:
        """The name of the environment."""
        return self.task_spec.env or "Unspecified env"

    def __repr__(self) -> str:
        name, scale = _unit(self.median)
        runs = len(self.times)
        lines = [f"<{type(self).__module__}.{type(self).__name__} object>", self.title]
        if runs > 1:
            lines += [f"  Median: {self.median / scale:.2f} {name}",
                      f"  IQR:    {self.iqr / scale:.2f} {name}",
                      f"  {runs} measurements, {self.number_per_run} runs per measurement, "
                      f"{self.task_spec.num_threads} thread"]  # fmt: skip
        else:
            lines += [f"  {self.median / scale:.2f} {name}",
                      f"  1 measurement, {self.number_per_run} runs , "
                      f"{self.task_spec.num_threads} thread"]  # fmt: skip
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Put measurements of the same statement together.

        Args:
            measurements: the measurements.

        Returns:
            One for each statement.
        """
        groups: dict[str, list[Measurement]] = {}
        for m in measurements:
            groups.setdefault(repr(m.task_spec), []).append(m)
        return [
            Measurement(1, [t for m in group for t in m.times], group[0].task_spec)
            for group in groups.values()
        ]


class Timer:
    """Measures how long a statement takes.

    Args:
        stmt: the statement, as text.
        setup: what is run once before each measurement.
        global_setup: accepted for compatibility.
        timer: the clock.
        globals: the names that the statement uses.
        label: a heading for results.
        sub_label: a second one.
        description: a third one, for columns of tables.
        env: a name of the environment.
        num_threads: accepted for compatibility.
        language: Python.

    Example:
        >>> from retrograd.utils.benchmark import Timer
        >>> x = torch.ones(10)
        >>> Timer("x + x", globals={"x": x}).timeit(10).number_per_run
        10
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "",
        timer: Any = timeit.default_timer, globals: dict[str, Any] | None = None,
        label: str | None = None, sub_label: str | None = None, description: str | None = None,
        env: str | None = None, num_threads: int = 1, language: Any = "python",
    ) -> None:  # fmt: skip
        if str(language).lower() not in ("python", "language.python", "py"):
            raise ValueError("Timer: only Python can be measured")
        import textwrap

        stmt, setup = (textwrap.dedent(text).strip() for text in (stmt, setup))
        self._spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env,
                              num_threads)  # fmt: skip
        self._timer = timeit.Timer(stmt, setup or "pass", timer, globals or {})

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Run the statement a number of times, after a few to warm up.

        Args:
            number: how often.

        Returns:
            The measurement.
        """
        self._timer.timeit(max(number // 100, 2))
        return Measurement(number, [self._timer.timeit(number)], self._spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Not available, as in PyTorch: see ``blocked_autorange``."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """Run the statement in blocks for some time.

        Args:
            callback: a function of the runs and the seconds of each block.
            min_run_time: how many seconds at least.

        Returns:
            The measurement.
        """
        number = self._block(min_run_time)
        times: list[float] = []
        while sum(times) < min_run_time:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self._spec)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Any = None,
    ) -> Measurement:  # fmt: skip
        """Run the statement in blocks until the times vary little.

        Args:
            threshold: the distance of the quartiles, as a share of the median.
            min_run_time: how many seconds at least.
            max_run_time: how many seconds at most.
            callback: a function of the runs and the seconds of each block.

        Returns:
            The measurement.
        """
        number = self._block(min_run_time)
        times: list[float] = []
        while True:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
            measurement, spent = Measurement(number, times, self._spec), sum(times)
            steady = len(times) > 3 and measurement.iqr / measurement.median < threshold
            if (spent >= min_run_time and steady) or spent >= max_run_time:
                return measurement

    def _block(self, min_run_time: float) -> int:
        """How many runs take long enough to be measured."""
        number = 1
        while True:
            spent = self._timer.timeit(number)
            if spent >= min(min_run_time / 100, 0.01) or spent >= min_run_time:
                return number
            number *= 10


class Compare:
    """A table of measurements: a row for each statement, a column for each description.

    Args:
        results: the measurements.
    """

    def __init__(self, results: Sequence[Measurement]) -> None:
        self._results = list(results)

    def extend_results(self, results: Sequence[Measurement]) -> None:
        """Add measurements.

        Args:
            results: the measurements.
        """
        self._results += results

    def trim_significant_figures(self) -> None:
        """Accepted for compatibility."""

    def colorize(self, rowwise: bool = False) -> None:
        """Accepted for compatibility."""

    def highlight_warnings(self) -> None:
        """Accepted for compatibility."""

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        columns = list(dict.fromkeys(m.task_spec.description or "" for m in merged))
        rows: dict[str, dict[str, float]] = {}
        for m in merged:
            name = m.task_spec.sub_label or m.task_spec.stmt
            rows.setdefault(name, {})[m.task_spec.description or ""] = m.median
        unit, scale = _unit(min((m.median for m in merged), default=1.0))
        width = max([len(name) for name in rows] + [1])
        wide = max([len(c) for c in columns] + [10])
        title = next((m.task_spec.label for m in merged if m.task_spec.label), "")
        lines = [f"[ {title} ]", f"{'':{width}} | " + " | ".join(f"{c:>{wide}}" for c in columns)]
        for name, times in rows.items():
            cells = [f"{times[c] / scale:{wide}.1f}" if c in times else " " * wide for c in columns]
            lines.append(f"{name:{width}} | " + " | ".join(cells))
        names = {"s": "seconds (s)", "ms": "milliseconds (ms)", "us": "microseconds (us)",
                 "ns": "nanoseconds (ns)"}  # fmt: skip
        return "\n".join([*lines, f"\nTimes are in {names[unit]}."])

    def print(self) -> None:
        """Print the table."""
        print(str(self))


__all__ = ["Compare", "Measurement", "TaskSpec", "Timer"]
