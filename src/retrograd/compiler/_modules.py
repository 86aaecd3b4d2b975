"""Compiled modules: modules whose calls run as programs."""

from __future__ import annotations

from typing import Any

from retrograd.compiler._compiled import Compiled
from retrograd.nn.module import Module


class OptimizedModule(Module):
    """A module whose calls are those of another one, ``_orig_mod``, compiled.

    The other module is its only child, so optimizers and enclosing modules see its parameters.
    Attributes are also those of the other module, and those of the compiled function: ``source``,
    ``cost``, ``save``.
    """

    _orig_mod: Module

    def __init__(self, compiled: Compiled) -> None:
        super().__init__()
        own = self.__dict__
        own.pop("training")  # that of the other module is used
        own["_compiled"] = compiled
        own["_modules"]["_orig_mod"] = compiled.function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if name in own.get("_modules", ()):
            return own["_modules"][name]
        if "_compiled" not in own:  # during construction
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        module, compiled = self._orig_mod, own["_compiled"]
        of_call = hasattr(compiled, name) and not hasattr(module, name)
        return getattr(compiled if of_call else module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__ or "_compiled" not in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __str__(self) -> str:
        return str(self._compiled)

    def __reduce__(self) -> Any:
        return OptimizedModule, (self._compiled,)
