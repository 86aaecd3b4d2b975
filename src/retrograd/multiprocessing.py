"""``torch.multiprocessing``: Python's own. Tensors are copied to other processes, unless they are
in shared memory (``Tensor.share_memory_``).

>>> from retrograd import multiprocessing
>>> multiprocessing.get_sharing_strategy()
'file_descriptor'
"""

from __future__ import annotations

import multiprocessing as _python
from multiprocessing import *  # noqa: F403 - all of it
from typing import Any

__all__ = [*_python.__all__, "get_all_sharing_strategies", "get_sharing_strategy",
           "set_sharing_strategy", "spawn"]  # fmt: skip


def get_sharing_strategy() -> str:
    """How memory is shared after ``share_memory_``: by file descriptors."""
    return "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """The strategies that ``set_sharing_strategy`` accepts."""
    return {"file_descriptor", "file_system"}


def set_sharing_strategy(new_strategy: str) -> None:
    """Accepted for compatibility: tensors are always shared by file descriptor."""
    assert new_strategy in get_all_sharing_strategies()


def spawn(fn: Any, args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
          daemon: bool = False, start_method: str = "spawn") -> Any:  # fmt: skip
    """Start processes that call a function with their number and some arguments.

    Args:
        fn: a function of a number and of ``args``.
        args: more arguments.
        nprocs: how many processes.
        join: whether to wait for them; RuntimeError if one fails.
        daemon: whether they end with this process.
        start_method: how they are started.

    Returns:
        The processes, unless they were waited for.
    """
    context: Any = _python.get_context(start_method)
    processes = [context.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)]
    for process in processes:
        process.start()
    if not join:
        return processes
    for i, process in enumerate(processes):
        process.join()
        if process.exitcode:
            raise RuntimeError(f"process {i} terminated with exit code {process.exitcode}")
    return None
