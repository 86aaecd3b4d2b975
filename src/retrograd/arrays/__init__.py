"""Raw arrays: the only layer that depends on the array library.

Everything above calls these functions and never NumPy itself, so that another array library can
take its place. Printing, random numbers and whatever needs SciPy are loaded when first used:
importing the package should cost little more than importing NumPy.
"""

from typing import TYPE_CHECKING, Any

from retrograd.arrays import _dtypes as dtypes
from retrograd.arrays._memory import *  # noqa: F403 - the adapter is this module's content
from retrograd.arrays._numpy import *  # noqa: F403
from retrograd.arrays._numpy import RAW_TYPES, Raw, ndarray
from retrograd.arrays._reducing import *  # noqa: F403

if TYPE_CHECKING:
    from retrograd.arrays import _allocator as allocator
    from retrograd.arrays import _bidirectional as bidirectional
    from retrograd.arrays import _blas as blas
    from retrograd.arrays import _blocks as blocks
    from retrograd.arrays import _coloring as coloring
    from retrograd.arrays import _dependencies as dependencies
    from retrograd.arrays import _format as formatting
    from retrograd.arrays import _fourier as fourier
    from retrograd.arrays import _images as images
    from retrograd.arrays import _integration as integration
    from retrograd.arrays import _layout as layout
    from retrograd.arrays import _linalg as linalg
    from retrograd.arrays import _narrow as narrow
    from retrograd.arrays import _networks as networks
    from retrograd.arrays import _normalizing as normalizing
    from retrograd.arrays import _patterns as patterns
    from retrograd.arrays import _programs as programs
    from retrograd.arrays import _protocols as protocols
    from retrograd.arrays import _random as random
    from retrograd.arrays import _recurrent as recurrent
    from retrograd.arrays import _row_blocks as row_blocks
    from retrograd.arrays import _rows as rows
    from retrograd.arrays import _sequences as sequences
    from retrograd.arrays import _sharing as sharing
    from retrograd.arrays import _sobol as sobol
    from retrograd.arrays import _solvers as solvers
    from retrograd.arrays import _sorting as sorting
    from retrograd.arrays import _sparse as sparse
    from retrograd.arrays import _special as special
    from retrograd.arrays import _statistics as statistics
    from retrograd.arrays import _switching as switching
    from retrograd.arrays import _symmetric as symmetric
    from retrograd.arrays import _updates as updates
    from retrograd.arrays import _windows as windows


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = globals()[name] = importlib.import_module(f"retrograd.arrays.{_LATER[name]}")
    return module


_LATER = {
    "allocator": "_allocator", "formatting": "_format", "random": "_random",
    "special": "_special", "linalg": "_linalg",
    "fourier": "_fourier", "windows": "_windows", "images": "_images", "sorting": "_sorting",
    "statistics": "_statistics", "blocks": "_blocks", "networks": "_networks",
    "rows": "_rows", "sequences": "_sequences", "layout": "_layout", "normalizing": "_normalizing",
    "updates": "_updates", "recurrent": "_recurrent", "blas": "_blas", "programs": "_programs",
    "coloring": "_coloring", "patterns": "_patterns", "symmetric": "_symmetric",
    "bidirectional": "_bidirectional", "dependencies": "_dependencies", "sharing": "_sharing",
    "sparse": "_sparse", "protocols": "_protocols", "solvers": "_solvers",
    "integration": "_integration", "sobol": "_sobol", "narrow": "_narrow",
    "row_blocks": "_row_blocks", "switching": "_switching",
}  # fmt: skip
__all__ = ["RAW_TYPES", "Raw", "allocator", "bidirectional", "blas", "blocks", "coloring",
           "dependencies", "dtypes", "formatting", "fourier", "images", "integration", "layout",
           "linalg", "narrow", "ndarray", "networks", "normalizing", "patterns", "programs",
           "protocols", "random", "recurrent", "row_blocks", "rows", "sequences", "sharing",
           "sobol", "solvers", "sorting", "sparse", "special", "statistics", "switching",
           "symmetric", "updates", "windows"]  # fmt: skip
