"""Checkpointing, which recomputes values in the backward pass, and loading of data."""

from typing import TYPE_CHECKING

from retrograd.utils import checkpoint

if TYPE_CHECKING:
    from retrograd.utils import data
else:

    def __getattr__(name):
        """Load ``data`` when it is first used."""
        import importlib

        if name != "data":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return importlib.import_module("retrograd.utils.data")


def __dir__() -> list[str]:
    return [*globals(), "data"]


__all__ = ["checkpoint", "data"]
