"""``torch.special``: loaded name by name, as the index of operations says. Names of
``scipy.special`` that PyTorch does not have are loaded together, when one of them is first used."""

from typing import Any

from retrograd.tensor._public import namespace as _namespace

_of_pytorch, __all__ = _namespace(__name__, "special")


def __getattr__(name: str) -> Any:
    if name not in __all__ and not name.startswith("_"):
        from retrograd._scipy_special import FUNCTIONS

        if name in FUNCTIONS:
            return FUNCTIONS[name]
    return _of_pytorch(name)


def __dir__() -> list[str]:
    from retrograd._scipy_special import FUNCTIONS

    return sorted({*__all__, *FUNCTIONS})
