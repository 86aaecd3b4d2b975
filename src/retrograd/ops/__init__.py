"""The table of operations, by family: each declared once, with its derivative."""

from typing import Any

# The namespaces of what programs declare by ``library.custom_op``: ``torch.ops.mine.sine``.
NAMESPACES: dict[str, Any] = {}


def __getattr__(name: str) -> Any:
    if name not in NAMESPACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return NAMESPACES[name]
