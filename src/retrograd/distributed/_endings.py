"""How a rank's program ends: normally, by an error, because another rank ended, or by a signal."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
import traceback
from types import FrameType, TracebackType
from typing import Any, NoReturn

from retrograd._errors import one_line
from retrograd._source import describe, is_own
from retrograd.distributed import _groups
from retrograd.distributed._errors import PeerError
from retrograd.distributed._liveness import Monitor, at_start, leave, running
from retrograd.distributed._work import Patience, pending, progress

_LINGER = 2.0  # seconds that a failing rank waits for the others to receive the news
_FLUSHING = 3.0
_LONGEST = 2000


def fail(error: BaseException) -> NoReturn:
    """End all ranks because of an error on this one.

    An error that nobody catches does the same by itself. This function does not return.

    Args:
        error: the error, which is printed with its traceback.

    Example:
        >>> import retrograd.distributed as dist
        >>> def guarded(train):  # what a program does that must not let errors pass
        ...     try:
        ...         return train()
        ...     except Exception as error:
        ...         dist.fail(error)
        >>> guarded(lambda: "trained")
        'trained'
    """
    _end(type(error), error, error.__traceback__)


def _end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> NoReturn:
    """Print what happened, tell the others, and exit without waiting: finalizing MPI would wait for
    all ranks."""
    monitor = running.monitor
    _state.ending = True
    if monitor is None:
        _state.previous_hook(kind, error, trace)
    elif isinstance(error, PeerError):
        monitor.say_once(_place(trace), one_line(error))
        text = one_line(error)[:_LONGEST]
        monitor.announce("stopped", text=text, about=error.rank)
    else:
        _state.previous_hook(kind, error, trace)
        text = "".join(traceback.format_exception_only(kind, error)).strip()[:_LONGEST]
        monitor.announce("failed", text=text)
    if monitor is not None:
        monitor.told = True
        _linger(monitor)
    _out(1)


def _place(trace: TracebackType | None) -> str:
    """The line of the user's program that was running."""
    result = None
    while trace is not None:
        if not is_own(trace.tb_frame.f_code.co_filename):
            result = trace
        trace = trace.tb_next
    text = None if result is None else describe((result.tb_frame.f_code, result.tb_lasti))
    return f" at {text}" if text else ""


def _linger(monitor: Monitor) -> None:
    """Give the others time to print their messages before the launcher kills them."""
    end = time.monotonic() + _LINGER
    others = set(range(monitor.size)) - {monitor.rank}
    while time.monotonic() < end and not others <= set(monitor.news) | set(monitor.where.silent):
        time.sleep(0.01)


def _out(code: int) -> NoReturn:
    """Exit now. Exit handlers of others run, if that does not take long."""
    _state.ending = True
    if _limited(_FLUSHING, code):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)


def _limited(seconds: float, code: int) -> bool:
    """Make the program end in at most ``seconds``. Whether that is ensured."""
    try:
        threading.Timer(seconds, os._exit, (code,)).start()
    except RuntimeError:  # Python 3.12 starts no threads while it shuts down
        return False
    return True


class _State:
    previous_hook: Any = staticmethod(sys.__excepthook__)
    previous_signal: Any = signal.SIG_DFL
    ending = False  # the exit has begun, whatever happens now


_state = _State()


def _hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if running.monitor is None or running.monitor.process != os.getpid():
        _state.previous_hook(kind, error, trace)
    else:
        _end(kind, error, trace)


def _terminated(number: int, frame: FrameType | None) -> None:
    """Handle SIGTERM: sent by the launcher or by this process because a rank died, or by somebody
    who wants this process to end."""
    monitor = running.monitor
    if monitor is None or monitor.process != os.getpid():
        return _as_before(number, frame)
    if _state.ending:
        return None
    end = time.monotonic() + 0.5
    while (result := monitor.first_end()) is None and time.monotonic() < end:
        time.sleep(0.01)
    if result is None or result["kind"] == "ended":
        monitor.announce("ended", text="SIGTERM")
        return _as_before(number, frame)
    if not monitor.told:
        raise monitor.error(result)
    return None


def _as_before(number: int, frame: FrameType | None) -> None:
    previous = _state.previous_signal
    if callable(previous):
        previous(number, frame)
    elif previous == signal.SIG_DFL:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _at_exit() -> None:
    """The program has ended. Wait until the others have ended, as finalizing MPI does, but only for
    a limited time."""
    monitor = running.monitor
    if _state.ending or monitor is None or monitor.process != os.getpid():
        return
    leave(_groups.world.joined, _groups.world.created, over=True)
    others = set(range(monitor.size)) - {monitor.rank}
    patience = Patience(time.monotonic())
    try:
        while pending() or not all(_is_over(monitor.news.get(rank)) for rank in others):
            progress()  # lets pending messages be sent
            for work in pending():
                monitor.check(work)
            monitor.check_all(f". The program of rank {monitor.rank} had ended")
            if patience.is_over(time.monotonic()):
                monitor.notice_end([r for r in others if not _is_over(monitor.news.get(r))])
            _groups.world.comm.Iprobe()
            time.sleep(0.001)
    except Exception as error:
        fail(error)
    monitor.told = True


def _is_over(item: dict[str, Any] | None) -> bool:
    return item is not None and item.get("over", False)


def run_first() -> None:
    """Let the exit handler of this module run before those that were registered after it. That of
    JAX waits for all processes of a mesh, which must first be told that this program has ended."""
    atexit.unregister(_at_exit)
    atexit.register(_at_exit)


def install(monitor: Monitor) -> None:
    """Handle the end of this program from now on."""
    atexit.register(_at_exit)
    _state.previous_hook = sys.excepthook
    sys.excepthook = _hook
    if threading.current_thread() is threading.main_thread():
        _state.previous_signal = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, _terminated)
        monitor.on_signal = _terminated


at_start(install)
