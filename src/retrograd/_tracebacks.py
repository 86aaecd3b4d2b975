"""Tracebacks without the frames of this package: the last line before the message is the user's.

They are left out where a traceback is shown: in scripts, at the prompt, in threads and in
notebooks. The exception keeps all of its frames, so that a debugger shows them. With
``RETROGRAD_TRACEBACKS=full`` in the environment all are shown, and so are those of an error that is
a defect of this package.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from retrograd._source import is_own

VARIABLE = "RETROGRAD_TRACEBACKS"
COMPILED = ("<program ", "<guards>")  # code that the compiler has written


def frames(trace: TracebackType | None) -> Iterator[TracebackType]:
    """The frames of a traceback, the outermost first."""
    while trace is not None:
        yield trace
        trace = trace.tb_next


def is_hidden(trace: TracebackType) -> bool:
    """Whether a frame is one of this package."""
    file = trace.tb_frame.f_code.co_filename
    return is_own(file) or file.startswith(COMPILED)


def without_own(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this package; as it is, if it has no others."""
    result = None
    for one in reversed([one for one in frames(trace) if not is_hidden(one)]):
        result = TracebackType(result, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return result or trace


def is_defect(error: BaseException) -> bool:
    """Whether an error says that this package is wrong, or all frames are asked for."""
    if os.environ.get(VARIABLE) == "full":
        return True
    last = list(frames(error.__traceback__))[-1:]
    return isinstance(error, AssertionError) and bool(last) and is_hidden(last[0])


def chain(error: BaseException) -> list[BaseException]:
    """An error, those that it was raised from, and those of a group."""
    chain: list[BaseException] = [error]
    for one in chain:  # grows during the iteration
        group = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        for other in (one.__cause__, one.__context__, *group):
            if other is not None and all(other is not known for known in chain):
                chain.append(other)
    return chain


@contextmanager
def shortened(error: BaseException) -> Iterator[None]:
    """While it is open, an error and those that led to it have no frames of this package."""
    kept: list[tuple[BaseException, TracebackType | None]] = []
    try:
        if not is_defect(error):
            for one in chain(error):
                kept.append((one, one.__traceback__))
                one.__traceback__ = without_own(one.__traceback__)
        yield
    finally:
        for one, trace in kept:
            one.__traceback__ = trace


# -- where tracebacks are shown ------------------------------------------------------------------


def _for_scripts(show: Callable[..., Any]) -> Callable[..., Any]:
    """``sys.excepthook``, which scripts and the prompt call."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        with shortened(error):
            show(kind, error, trace if is_defect(error) else without_own(trace))

    return hook


def _for_threads(show: Callable[..., Any]) -> Callable[..., Any]:
    def hook(args: Any) -> None:
        error = args.exc_value
        if error is None:
            show(args)
            return
        with shortened(error):
            given = (args.exc_type, error, error.__traceback__, args.thread)
            show(threading.ExceptHookArgs(given))

    return hook


def _show_in_notebook(
    shell: Any, kind: type[BaseException], error: BaseException, trace: TracebackType | None,
    tb_offset: int | None = None,
) -> None:  # fmt: skip
    """What IPython calls in place of its own way to show a traceback."""
    with shortened(error):
        shown = trace if is_defect(error) else without_own(trace)
        shell.showtraceback((kind, error, shown), tb_offset=tb_offset, running_compiled_code=True)


def install() -> None:
    """Show tracebacks so from now on; whatever shows them now still does."""
    sys.excepthook = _for_scripts(sys.excepthook)
    threading.excepthook = _for_threads(threading.excepthook)
    notebook = sys.modules.get("IPython")
    shell = None if notebook is None else notebook.get_ipython()
    if shell is not None and not shell.custom_exceptions:
        shell.set_custom_exc((Exception,), _show_in_notebook)
