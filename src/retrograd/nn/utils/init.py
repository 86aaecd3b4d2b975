"""Modules with uninitialized parameters."""

from __future__ import annotations

import inspect
from typing import Any

from retrograd.nn.module import Module
from retrograd.tensor._rng import fork_rng


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Construct a module without initializing its parameters.

    The values of the parameters are unspecified, and the state of the random number generator does
    not change.

    Args:
        module_cls: the class.
        args, kwargs: arguments of its constructor.

    Returns:
        The module.

    Example:
        >>> layer = torch.nn.utils.skip_init(torch.nn.Linear, 5, 1)
        >>> layer.weight.shape
        torch.Size([1, 5])
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    with fork_rng():
        return module_cls(*args, **kwargs)


__all__ = ["skip_init"]
