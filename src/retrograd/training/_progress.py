"""Progress of a run: a bar in a terminal, and lines at intervals elsewhere."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
from typing import Any, TextIO

SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """How far a run has come, its rate, the loss, and the time left."""

    def __init__(self, total: int, done: int, quiet: bool, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._quiet = quiet
        self._total, self._first, self._done = total, done, done
        self._began = self._last_line = time.monotonic()
        self._bar: Any = None
        if not quiet and self._stream.isatty():
            self._bar = _bar(total, done, self._stream)

    def step(self, loss: float, scores: dict[str, float]) -> None:
        """One more step is done."""
        self._done += 1
        try:
            self._show(loss, scores)
        except OSError:  # nobody looks any more, which is no reason to stop
            self._quiet, self._bar = True, None

    def _show(self, loss: float, scores: dict[str, float]) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str(_figures(loss, scores), refresh=False)
            self._bar.update()
        elif not self._quiet:
            now = time.monotonic()
            if now - self._last_line >= SECONDS_BETWEEN_LINES or self._done == self._total:
                self._last_line = now
                print(self._line(now, loss, scores), file=self._stream, flush=True)

    def _line(self, now: float, loss: float, scores: dict[str, float]) -> str:
        rate = (self._done - self._first) / max(now - self._began, 1e-9)
        left = f", {duration((self._total - self._done) / rate)} left" if rate else ""
        figures = _figures(loss, scores)
        return f"step {self._done} of {self._total}, {figures}, {rate:.3g} steps/s{left}"

    def close(self) -> None:
        """Leave the terminal ready for other lines."""
        if self._bar is not None:
            with contextlib.suppress(OSError):  # of a terminal that is gone
                self._bar.close()
            self._bar = None


def _bar(total: int, done: int, stream: TextIO) -> Any:
    try:
        tqdm = importlib.import_module("tqdm")
    except ImportError:
        return None
    try:
        known = all(os.get_terminal_size(stream.fileno()))
    except (OSError, ValueError):
        known = False
    # On a terminal that does not say how large it is, tqdm would draw nothing at all.
    size: dict[str, Any] = {"dynamic_ncols": True} if known else {"ncols": 80, "nrows": 24}
    return tqdm.tqdm(total=total, initial=done, file=stream, unit="step", smoothing=0.1, **size)


def _figures(loss: float, scores: dict[str, float]) -> str:
    """The loss, and what matters most of the last evaluation.

    >>> _figures(0.5, {"test_loss": 0.25, "test_accuracy": 0.975})
    'loss 0.500, test accuracy 97.5%'
    """
    shown = f"loss {loss:.3f}"
    if "test_accuracy" in scores:
        return f"{shown}, test accuracy {scores['test_accuracy']:.1%}"
    return f"{shown}, test loss {scores['test_loss']:.3f}" if "test_loss" in scores else shown


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(8.3), duration(83), duration(8300)
    ('8 s', '1 min 23 s', '2 h 18 min')
    """
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
