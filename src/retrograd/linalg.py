"""``torch.linalg``: names are loaded on first use, through the index of operations."""

from retrograd.arrays._linalg import LinAlgError as LinAlgError
from retrograd.tensor._public import namespace as _namespace

__getattr__, __all__ = _namespace(__name__, "linalg")
__all__ += ["LinAlgError"]


def __dir__() -> list[str]:
    return list(__all__)
