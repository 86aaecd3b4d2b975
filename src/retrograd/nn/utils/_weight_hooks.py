"""Hooks of modules that compute a weight before each call."""

from __future__ import annotations

from typing import Any


def check_new(kind: type, what: str, module: Any, name: str) -> None:
    """Raise a RuntimeError if a module has such a hook already."""
    if _hook_id(kind, module, name) is not None:
        raise RuntimeError(f"Cannot register two {what} hooks on the same parameter {name}")


def removed_hook(kind: type, what: str, module: Any, name: str) -> Any:
    """Remove the hook that computes a weight and return it; a ValueError if there is none."""
    hook_id = _hook_id(kind, module, name)
    if hook_id is None:
        raise ValueError(f"{what} of '{name}' not found in {module}")
    return module._forward_pre_hooks.pop(hook_id).function


def _hook_id(kind: type, module: Any, name: str) -> int | None:
    for hook_id, hook in module._forward_pre_hooks.items():
        if isinstance(hook.function, kind) and getattr(hook.function, "name", None) == name:
            return int(hook_id)
    return None
