"""Raw arrays: the one place that knows which array library is underneath.

Everything above calls these functions and never NumPy itself, so that another array library can
take its place.
"""

from retrograd.arrays import _dtypes as dtypes
from retrograd.arrays import _random as random
from retrograd.arrays._format import format_array, printoptions, set_printoptions
from retrograd.arrays._numpy import *  # noqa: F403 - the adapter is this module's content
from retrograd.arrays._numpy import RAW_TYPES, Raw, ndarray

__all__ = ["RAW_TYPES", "Raw", "dtypes", "ndarray", "format_array", "printoptions", "random",
           "set_printoptions"]  # fmt: skip
