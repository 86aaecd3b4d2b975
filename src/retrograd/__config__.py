"""``torch.__config__``: the configuration of this package."""

from __future__ import annotations

import platform

from retrograd import arrays
from retrograd.tensor._limits import get_num_threads
from retrograd.version import __version__

__all__ = ["parallel_info", "show"]


def show() -> str:
    """The versions of what the package computes with.

    Returns:
        A text of several lines.

    Example:
        >>> print(torch.__config__.show())  # doctest: +ELLIPSIS
        retrograd ... with:
        ...
    """
    lines = [f"Python {platform.python_version()}", *arrays.blas.described()]
    return "\n".join([f"retrograd {__version__} with:", *[f"  - {line}" for line in lines], ""])


def parallel_info() -> str:
    """The number of threads that kernels and BLAS use.

    Returns:
        A text of several lines.

    Example:
        >>> print(torch.__config__.parallel_info())  # doctest: +ELLIPSIS
        torch.get_num_threads() : ...
    """
    return f"torch.get_num_threads() : {get_num_threads()}\n"
