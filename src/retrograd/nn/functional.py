"""``torch.nn.functional``: loaded name by name, as the index of operations says."""

from retrograd.ops.networks.activations import InPlace as _InPlace
from retrograd.tensor._inplace import write_in_place as _write_in_place
from retrograd.tensor._public import namespace as _namespace

_InPlace.write = staticmethod(_write_in_place)
__getattr__, __all__ = _namespace(__name__, "nn.functional")


def __dir__() -> list[str]:
    return list(__all__)
