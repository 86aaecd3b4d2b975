"""Processes that take turns at running programs.

Every library runs in a process of its own. In one process they would disturb each other: one
hooks into Python's garbage collector, others bring threads, and all of them leave objects that
the collector has to walk over.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

# One turn. Short enough that a disturbance of the machine hits all libraries alike, long enough
# that the clock's own cost does not count.
TURN = 0.003
WARM_UP_CALLS = 2  # before the first that is timed; compilers that trace need as many
MOST_CALLS = 1_000_000

# Everybody computes in one thread, unless these are set otherwise from outside. On arrays as small
# as ours more threads only wait for each other, at great length when the machine is busy.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}


def several_threads(count: int) -> dict[str, str]:
    return {name: str(count) for name in ONE_THREAD if name.endswith("THREADS")}


Run = Callable[[], object]


class WorkerError(Exception):
    """What went wrong in a worker, in one line; its traceback is a note."""


class Worker:
    """A process that makes a program and then runs it in turns.

    ``make`` and its arguments must be picklable: a fresh interpreter imports them.
    """

    def __init__(
        self, name: str, make: Callable[..., Run], *arguments: Any, threads: int = 1
    ) -> None:
        for variable, value in (ONE_THREAD if threads == 1 else several_threads(threads)).items():
            os.environ.setdefault(variable, value)  # which the new process inherits
        context = multiprocessing.get_context("spawn")
        self.name = name
        started = time.monotonic()
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(theirs, make, arguments), name=name, daemon=True
        )
        self.process.start()
        theirs.close()
        try:
            self.seconds_per_turn: float = self._ask("warm up")
        except BaseException:
            self.stop()
            raise
        self.seconds_to_start = time.monotonic() - started

    def change_to(self, *arguments: Any) -> None:
        """Make another program, by the same maker with other arguments, and go on with that."""
        self.seconds_per_turn = self._ask("warm up", arguments)

    def turn(self) -> float:
        """Seconds for one call, averaged over a turn."""
        return self._ask("turn")

    def stop(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join()

    def _ask(self, request: str, arguments: tuple[Any, ...] | None = None) -> float:
        try:
            self.connection.send((request, arguments))
            answer, details = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(1)
            code = self.process.exitcode
            raise WorkerError(f"{self.name}: the process ended with code {code}") from None
        if isinstance(answer, str):
            error = WorkerError(f"{self.name}: {answer}")
            error.add_note(details)
            raise error
        return float(answer)


def _serve(connection: Connection, make: Callable[..., Run], arguments: tuple[Any, ...]) -> None:
    """What a worker does: answer requests until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    turns: Turns | None = None
    try:
        while True:
            request, other_arguments = connection.recv()
            try:
                if turns is None or other_arguments is not None:
                    turns = None  # whose memory the next may need
                    turns = Turns(make(*(other_arguments or arguments)))
                seconds = turns.warm_up() if request == "warm up" else turns.turn()
                connection.send((seconds, ""))
            except Exception as error:
                connection.send((f"{type(error).__name__}: {error}", traceback.format_exc()))
    except EOFError:
        return


class Turns:
    """Times a program, as many calls at once as fill a turn."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.calls = 1

    def warm_up(self) -> float:
        """Get past compilation and caches; returns how long a turn takes."""
        for _ in range(WARM_UP_CALLS):
            self.run()
        seconds = min(self.turn(), self.turn())  # in the first, PyTorch may compile once more
        while seconds * self.calls < TURN / 2 and self.calls < MOST_CALLS:
            self.calls *= 2
            seconds = self.turn()
        self.calls = max(1, round(TURN / seconds))
        return seconds * self.calls

    def turn(self) -> float:
        """Seconds for one call, averaged over a turn."""
        run, calls = self.run, self.calls
        if calls > 1:
            run()  # brings back to the caches what the others have displaced
        start = time.perf_counter()
        for _ in range(calls):
            run()
        return (time.perf_counter() - start) / calls
