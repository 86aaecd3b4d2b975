"""Modules without initial values."""

from __future__ import annotations

import inspect
from typing import Any

from retrograd.nn.module import Module
from retrograd.tensor._rng import fork_rng


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """A module whose values will be replaced: what they are is not promised, and making it does
    not advance the generator of random numbers.

    >>> import retrograd as torch
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
