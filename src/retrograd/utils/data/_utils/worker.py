"""The loop of a worker process."""

from __future__ import annotations

import os
import pickle
import queue
import random
import signal
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from retrograd._tracebacks import shortened
from retrograd.arrays import _batches
from retrograd.autograd import _history, _node
from retrograd.utils.data._utils import transport
from retrograd.utils.data._utils.fetch import fetcher

PARENT_CHECK_SECONDS = 5.0
STOP = b""


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What a worker knows of itself."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Information about the worker of a ``DataLoader`` in which this is called.

    Returns:
        An object with the attributes ``id``, ``num_workers``, ``seed`` and ``dataset`` (the
        worker's copy); None in the main process.

    Example:
        >>> torch.utils.data.get_worker_info() is None
        True
    """
    return _worker_info


@dataclass(frozen=True)
class Job:
    """The configuration of all workers of an iterator."""

    dataset: Any
    iterable: bool
    batched: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    base_seed: int
    worker_init_fn: Callable[[int], Any] | None
    num_workers: int

    def fetcher(self) -> Callable[[Any], Any]:
        """The way to the batches, from the beginning."""
        return fetcher(  # type: ignore[no-any-return]
            self.dataset, self.iterable, self.batched, self.collate_fn, self.drop_last
        )


# -- an exception on its way to the main process ---------------------------------------------


class _Words(str):
    """KeyError shows the repr of its argument; a traceback in that would be on one line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Caught:
    """An exception in a worker, with the traceback it had there."""

    kind: bytes  # its class, pickled; empty if it cannot be
    name: str
    worker_id: int
    text: str

    def reraise(self) -> NoReturn:
        """Raise it here: an exception of the same type, with the worker's traceback to read."""
        where = f"in DataLoader worker process {self.worker_id}"
        error = _rebuilt(self.kind, f"Caught {self.name} {where}.\nOriginal {self.text}")
        try:
            raise error
        finally:
            del error  # its traceback has this frame, which would keep it, and all frames, alive


def _rebuilt(kind: bytes, words: str) -> BaseException:
    """An exception of a class that says some words; a RuntimeError if there can be none."""
    try:
        made = pickle.loads(kind)
        error: BaseException = made(_Words(words) if made is KeyError else words)
        shown = str(error)
    except (Exception, SystemExit, GeneratorExit):
        # A class that this process does not know, or that takes other arguments, or cannot show.
        return RuntimeError(words)
    if words not in shown:  # it says something of its own
        error.add_note(words)
    return error


def _caught(error: Exception, worker_id: int) -> Caught:
    with shortened(error):
        text = "".join(traceback.format_exception(error))
    try:
        kind = pickle.dumps(type(error))
    except Exception:  # a class that only this process knows
        kind = b""
    return Caught(kind, type(error).__name__, worker_id, text)


# -- the loop --------------------------------------------------------------------------------


def work(job: Job, worker_id: int, connection: Connection) -> None:
    """Answer requests until the other end of the connection is closed."""
    try:
        # Blocked by who started this process, lest an interrupt meets it half made.
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        _begin(job, worker_id)
        inbox = _Inbox(connection)
        worker = _Worker(job, worker_id, connection)
        while (request := inbox.next()) != STOP:
            worker.answer(*pickle.loads(request))
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        pass  # the main process was interrupted too, or wants nothing more, or has ended
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # there is nothing left to interrupt


def _begin(job: Job, worker_id: int) -> None:
    global _worker_info
    _batches.open_after_fork(_node._accumulating, _history._making_accumulators)
    seed = job.base_seed + worker_id
    random.seed(seed)
    _batches.begin_worker(job.base_seed, worker_id)
    _worker_info = WorkerInfo(worker_id, job.num_workers, seed, job.dataset)


class _Inbox:
    """Takes requests out of the pipe at once: who sends them must not wait for a worker that in
    turn waits for its results to be taken. And what is asked to stop does not finish the list."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._requests: queue.Queue[bytes] = queue.Queue()
        self._stopped = False
        self._parent = os.getppid()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while not self._stopped:
            try:
                request = self._connection.recv_bytes()
            except (EOFError, OSError):
                request = STOP
            self._stopped = request == STOP
            self._requests.put(request)

    def next(self) -> bytes:
        """The next request; ``STOP`` when there will be no more."""
        while True:
            try:
                request = self._requests.get(timeout=PARENT_CHECK_SECONDS)
                return STOP if self._stopped else request
            except queue.Empty:
                if os.getppid() != self._parent:  # killed, but somebody holds the pipe open
                    return STOP


class _Worker:
    def __init__(self, job: Job, worker_id: int, connection: Connection) -> None:
        self._job, self._id, self._connection = job, worker_id, connection
        self._fetch: Callable[[Any], Any] | None = None
        self._failure: Caught | None = None
        try:
            if job.worker_init_fn is not None:
                job.worker_init_fn(worker_id)
        except Exception as error:
            self._failure = _caught(error, worker_id)
        self._restart()

    def _restart(self) -> None:
        if self._failure is None:
            try:
                self._fetch = self._job.fetcher()
            except Exception as error:
                self._failure = _caught(error, self._id)

    def answer(self, task: int | None, index: Any, wanted: bool) -> None:
        """Load for a task, and send it if it is wanted. No task: an epoch begins."""
        if task is None:
            self._restart()
            return
        kind, content = self._load(index)
        if not wanted and kind == "data":
            kind, content = "skipped", None
        try:
            packed = transport.Packed(task, kind, content)
        except Exception as error:  # it cannot be pickled
            packed = transport.Packed(task, "error", _caught(error, self._id))
        packed.send(self._connection)

    def _load(self, index: Any) -> tuple[str, Any]:
        if self._failure is not None:
            return "error", self._failure
        if self._fetch is None:
            return "end", None
        try:
            return "data", self._fetch(index)
        except StopIteration as error:
            if not self._job.iterable:
                return "error", _caught(error, self._id)
            self._fetch = None  # until the next epoch
            return "end", None
        except Exception as error:
            return "error", _caught(error, self._id)
