"""``torch.serialization``: saving and loading, and classes that files may have objects of.

``load`` reads data and runs no code, with one exception: a class that was passed to
``add_safe_globals`` is trusted. Its objects are made as pickle makes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from retrograd.files import load, save
from retrograd.files._globals import TRUSTED
from retrograd.files._unpickling import Trusted

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals",
           "save"]  # fmt: skip


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Trusts classes and functions: files may call them when they are loaded.

    Args:
        safe_globals: The classes and functions. For one that files know by another name, a tuple of
            it and of the full name.

    Example:
        >>> from retrograd import serialization
        >>> class Settings:
        ...     pass
        >>> serialization.add_safe_globals([Settings])
        >>> Settings in serialization.get_safe_globals()
        True
        >>> serialization.clear_safe_globals()
    """
    for given in safe_globals:
        target, name = given if isinstance(given, tuple) else (given, None)
        TRUSTED[name or f"{target.__module__}.{target.__qualname__}"] = Trusted(target, given)


def get_safe_globals() -> list[Any]:
    """Returns the classes and functions passed to ``add_safe_globals``."""
    return [trusted.given for trusted in TRUSTED.values()]


def clear_safe_globals() -> None:
    """Clears the list of trusted classes and functions."""
    TRUSTED.clear()


class safe_globals:  # noqa: N801 - PyTorch's name
    """Trusts classes and functions for the length of a ``with`` block.

    Args:
        safe_globals: As for ``add_safe_globals``.

    Example:
        >>> from retrograd import serialization
        >>> with serialization.safe_globals([dict]):
        ...     serialization.get_safe_globals()
        [<class 'dict'>]
        >>> serialization.get_safe_globals()
        []
    """

    def __init__(self, safe_globals: Iterable[Any]) -> None:
        self._added = list(safe_globals)

    def __enter__(self) -> None:
        self._before = dict(TRUSTED)
        add_safe_globals(self._added)

    def __exit__(self, *error: object) -> None:
        TRUSTED.clear()
        TRUSTED.update(self._before)
