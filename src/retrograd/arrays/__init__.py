"""Raw arrays: the one place that knows which array library is underneath.

Everything above calls these functions and never NumPy itself, so that another array library can
take its place. Printing and random numbers are loaded when first used: importing the package
should cost little more than importing NumPy.
"""

from typing import TYPE_CHECKING, Any

from retrograd.arrays import _dtypes as dtypes
from retrograd.arrays._numpy import *  # noqa: F403 - the adapter is this module's content
from retrograd.arrays._numpy import RAW_TYPES, Raw, ndarray

if TYPE_CHECKING:
    from retrograd.arrays import _format as formatting
    from retrograd.arrays import _random as random


def __getattr__(name: str) -> Any:
    import importlib

    modules = {"formatting": "retrograd.arrays._format", "random": "retrograd.arrays._random"}
    if name not in modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = globals()[name] = importlib.import_module(modules[name])
    return module


__all__ = ["RAW_TYPES", "Raw", "dtypes", "formatting", "ndarray", "random"]
