"""The table of operations, by family: each declared once, with its derivative."""

from collections.abc import Callable
from typing import Any

# The namespaces of what programs declare by ``library.custom_op``: ``torch.ops.mine.sine``; and
# functions that make others when they are first used.
NAMESPACES: dict[str, Any] = {}
LATER: dict[str, Callable[[], Any]] = {}


def __getattr__(name: str) -> Any:
    if name in LATER:
        NAMESPACES[name] = LATER.pop(name)()
    if name not in NAMESPACES:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}: there are the operations that "
            "torch.library.custom_op declares, and torch.ops.aten"
        )
    return NAMESPACES[name]
