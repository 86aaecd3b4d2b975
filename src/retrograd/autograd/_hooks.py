"""Registries of hooks and the handles that take them out again."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

_ids = itertools.count()


class RemovableHandle:
    """Takes a hook out of its registry again, by ``remove()`` or at the end of a ``with``."""

    __slots__ = ("_registry", "id")

    def __init__(self, registry: Any) -> None:
        self.id = next(_ids)
        self._registry = weakref.ref(registry)

    def remove(self) -> None:
        """Remove the hook; removing it twice does nothing."""
        registry = self._registry()
        if registry is not None:
            registry.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def add_hook(
    registry: OrderedDict[int, Callable[..., Any]], fn: Callable[..., Any]
) -> RemovableHandle:
    """Put a hook at the end of a registry."""
    handle = RemovableHandle(registry)
    registry[handle.id] = fn
    return handle
