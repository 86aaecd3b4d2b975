"""Hooks of modules that compute a weight before each call."""

from __future__ import annotations

from typing import Any


def check_new(kind: type, what: str, module: Any, name: str) -> None:
    """RuntimeError if a module has such a hook already."""
    if _place(kind, module, name) is not None:
        raise RuntimeError(f"Cannot register two {what} hooks on the same parameter {name}")


def removed_hook(kind: type, what: str, module: Any, name: str) -> Any:
    """The hook that computes a weight, taken from the module; ValueError if it has none."""
    place = _place(kind, module, name)
    if place is None:
        raise ValueError(f"{what} of '{name}' not found in {module}")
    return module._forward_pre_hooks.pop(place).function


def _place(kind: type, module: Any, name: str) -> int | None:
    for place, hook in module._forward_pre_hooks.items():
        if isinstance(hook.function, kind) and getattr(hook.function, "name", None) == name:
            return int(place)
    return None
