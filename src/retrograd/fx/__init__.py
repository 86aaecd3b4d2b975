"""``torch.fx``: functions that rewrite programs as graphs. There are none here; this says what to
use instead."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["symbolic_trace", "wrap"]

_GRAPHS = (
    "retrograd has no torch.fx graphs: torch.compile(f) makes a program of f for its arguments "
    "that can be printed and saved, and viz.draw(f(x)) draws the graph of a result."
)


def symbolic_trace(root: Any, concrete_args: Any = None) -> NoReturn:
    """Raises NotImplementedError: there are no graphs of ``fx``.

    Args:
        root: The module or function.
        concrete_args: Arguments that are not to become placeholders.

    Returns:
        Nothing.
    """
    raise NotImplementedError(_GRAPHS)


def wrap(fn_or_name: Any) -> Any:
    """Returns its argument, as PyTorch does with functions that are not traced into.

    Args:
        fn_or_name: A function or its name.

    Example:
        >>> torch.fx.wrap("len")
        'len'
    """
    return fn_or_name


def __getattr__(name: str) -> NoReturn:
    error = AttributeError(f"module {__name__!r} has no attribute {name!r}: {_GRAPHS}")
    error.name = name
    raise error
