"""``torch.utils``: memory for time, by computing again what was not kept; and loading data."""

from typing import Any

from retrograd.utils import checkpoint


def __getattr__(name: str) -> Any:
    import importlib

    if name != "data":  # loaded when first used
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("retrograd.utils.data")


def __dir__() -> list[str]:
    return [*globals(), "data"]


__all__ = ["checkpoint", "data"]
