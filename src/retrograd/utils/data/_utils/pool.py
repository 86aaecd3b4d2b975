"""The worker processes of one iterator: starting them, receiving from them, stopping them.

Each worker has a pipe of its own, both ways. There is no queue that they share and so no lock that
a worker could take with it when it is killed. When a worker ends, its end of the pipe is closed and
the main process knows at once; when the main process closes its ends, or ends, the workers do.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import time
import warnings
import weakref
from collections.abc import Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from retrograd.utils.data._utils import transport
from retrograd.utils.data._utils.transport import Parcel
from retrograd.utils.data._utils.worker import STOP, Job, work

CHECK_SECONDS = 5.0  # for workers that ended unheard
GRACE_SECONDS = 5.0  # to finish what they are loading; then they are terminated

# The main process's ends of all pipes. A forked worker inherits those of others and closes them:
# a pipe counts as closed only when nobody holds it.
_our_ends: weakref.WeakSet[Connection] = weakref.WeakSet()


def _run_worker(job: Job, worker_id: int, connection: Connection) -> None:
    for end in list(_our_ends):
        end.close()
    work(job, worker_id, connection)


class WorkerPool:
    """Workers that load data."""

    def __init__(self, job: Job, context: Any) -> None:
        self._owner = os.getpid()
        self.stopped = False
        self.processes: list[Any] = []
        self.connections: list[Connection] = []
        try:
            with _interrupts_held_back(context):
                for worker_id in range(job.num_workers):
                    self._start(job, worker_id, context)
        except BaseException:
            self.stop()
            raise

    def _start(self, job: Job, worker_id: int, context: Any) -> None:
        ours, theirs = context.Pipe()
        self.connections.append(ours)
        _our_ends.add(ours)
        process = context.Process(target=_run_worker, args=(job, worker_id, theirs), daemon=True)
        try:
            process.start()
        except (TypeError, AttributeError, pickle.PicklingError):
            warnings.warn(
                "Got pickle error when attempting to start a worker Process. "
                "This might be because the worker Process arguments are not picklable. "
                "Python 3.14+ changed the multiprocessing start method in non-Mac POSIX platforms "
                "to 'forkserver', which requires the worker Process arguments to be picklable. "
                "You can also try multiprocessing.set_start_method('fork').",
                stacklevel=2,
            )
            raise
        finally:
            theirs.close()
        self.processes.append(process)

    def send(self, worker: int, task: int | None, index: Any = None, wanted: bool = True) -> None:
        """Ask a worker to load for a task; without a task, to begin an epoch."""
        request = pickle.dumps((task, index, wanted), 5)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            # Of a worker that has ended: told when its answer is waited for.
            self.connections[worker].send_bytes(request)

    def receive(self, timeout: float | None) -> tuple[int, Parcel] | None:
        """The next answer of any worker; None if none came in time."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = CHECK_SECONDS if until is None else until - time.monotonic()
            try:
                ready = wait(self.connections, max(0.0, min(left, CHECK_SECONDS)))
                if ready:
                    return transport.receive(ready[0])  # type: ignore[arg-type]
            except (EOFError, OSError) as error:
                raise self._loss(repr(error)) from error
            except BaseException:  # an interrupt, perhaps amid a message
                self.stop()
                raise
            if not all(process.is_alive() for process in self.processes):
                if wait(self.connections, 0):
                    continue  # the last words of one that has ended
                raise self._loss("it has ended")
            if until is not None and time.monotonic() >= until:
                return None

    def _loss(self, reason: str) -> RuntimeError:
        """What to say of workers that have ended. The others are stopped."""
        deadline = time.monotonic() + 1
        while all(p.is_alive() for p in self.processes) and time.monotonic() < deadline:
            time.sleep(0.005)  # its pipe is closed, but it is not quite gone yet
        lost = [(n, p) for n, p in enumerate(self.processes) if not p.is_alive()]
        pids = ", ".join(str(process.pid) for _, process in lost)
        fates = "; ".join(f"worker {n} {_fate(process.exitcode)}" for n, process in lost)
        self.stop()
        if not lost:
            return RuntimeError(f"a DataLoader worker does not answer any more: {reason}")
        return RuntimeError(
            f"DataLoader worker (pid(s) {pids}) exited unexpectedly: {fates}. A worker that is "
            "killed may have used more memory than there is; num_workers=0 loads in this process, "
            "where an error of the dataset is easier to see."
        )

    def stop(self) -> None:
        """Stop all workers, after their current task or a short timeout."""
        if self.stopped or os.getpid() != self._owner:  # a forked copy has no say
            return
        self.stopped = True
        try:
            for connection in self.connections:
                with contextlib.suppress(OSError):  # of a worker that has ended
                    connection.send_bytes(STOP)  # other forks may still hold what we close
                connection.close()
            until = time.monotonic() + GRACE_SECONDS
            for process in self.processes:
                process.join(max(0.0, until - time.monotonic()))
        finally:
            for process in self.processes:
                if process.is_alive():
                    process.terminate()
            for process in self.processes:
                process.join(1.0)
                if process.is_alive():  # it handles the signal in its own way
                    process.kill()
                    process.join()
                process.close()


def _fate(code: int | None) -> str:
    if code is not None and code < 0:
        try:
            return f"was killed by signal {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"ended with exit code {code}"


@contextlib.contextmanager
def _interrupts_held_back(context: Any) -> Iterator[None]:
    """No Ctrl-C in here. Processes started in here have it held back until they allow it: one that
    comes while Python is still starting up would only print a traceback."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    if context.get_start_method() != "fork":
        # Python starts its resource tracker with the first such process, and unblocks interrupts
        # when it has: let it do so before they are blocked here.
        resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
