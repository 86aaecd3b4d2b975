"""``torch.nn.functional``: loaded name by name, as the index of operations says."""

from retrograd.tensor._public import namespace as _namespace

__getattr__, __all__ = _namespace(__name__, "functional")


def __dir__() -> list[str]:
    return list(__all__)
