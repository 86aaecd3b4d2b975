"""``torch.export``: there are no exported programs; this says what to use instead."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["export", "load", "save"]

_PROGRAMS = (
    "retrograd has no torch.export: torch.compile(f) makes a program of f for its arguments "
    "that can be printed and saved, and torch.save(model.state_dict(), 'state.pt') writes "
    "weights that PyTorch loads."
)


def export(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError: there are no exported programs.

    Args:
        *args: What PyTorch takes.
        **kwargs: What PyTorch takes.

    Returns:
        Nothing.
    """
    raise NotImplementedError(_PROGRAMS)


load = save = export


def __getattr__(name: str) -> NoReturn:
    error = AttributeError(f"module {__name__!r} has no attribute {name!r}: {_PROGRAMS}")
    error.name = name
    raise error
