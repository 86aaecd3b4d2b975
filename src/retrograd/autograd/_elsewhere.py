"""Calling a function in another thread, which has a stack of its own.

A hook may start a backward pass, a hook in that another, and so on. Each takes a dozen calls inside
each other, and Python allows a thread a thousand. So, as in PyTorch, passes go on in a new thread
from time to time, and the one that they come from waits.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

from retrograd._modes import PLAIN, modes, sealed


def elsewhere(function: Callable[..., Any], *args: Any) -> Any:
    """``function(*args)``, with all modes as they are here.

    Who waits is not interrupted: what runs over there could go on without being waited for, and
    write to gradients. An interrupt takes effect when the function is over.
    """
    now, tasks = modes.now, modes.tasks
    carried = {name: getattr(now, name) for name in PLAIN}
    outcome: list[tuple[Any, BaseException | None]] = []
    done = threading.Lock()
    done.acquire()

    def work() -> None:
        try:
            with sealed(**carried):
                modes.frame.tasks = tasks
                result = function(*args)
            outcome.append((result, None))
        except BaseException as error:
            outcome.append((None, error))
        finally:
            done.release()

    interrupt: BaseException | None = None
    context = contextvars.copy_context()  # which has, for one, what NumPy does about overflows
    threading.Thread(target=context.run, args=(work,), daemon=True).start()
    while not outcome:
        try:
            done.acquire()
        except BaseException as error:
            interrupt = error
    result, failure = outcome[0]
    try:
        if interrupt is not None:
            raise interrupt
        if failure is not None:
            raise failure
        return result
    finally:
        outcome.clear()  # an error would keep this frame, and the frame the error
        del failure, interrupt
