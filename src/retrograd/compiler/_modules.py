"""Compiled modules: modules whose calls run as programs."""

from __future__ import annotations

from typing import Any

from retrograd.compiler._compiled import Compiled
from retrograd.nn.module import Module


class OptimizedModule(Module):
    """A module that is another one, ``_orig_mod``, with its calls compiled.

    Its parameters are those of the other module, which it has as its one child, so that optimizers
    and modules around it find them. Attributes are the other module's, too; of the compiled call it
    has what a compiled function has: ``source``, ``cost``, ``save``.
    """

    _orig_mod: Module

    def __init__(self, compiled: Compiled) -> None:
        super().__init__()
        own = self.__dict__
        own.pop("training")  # the module's own counts
        own["_compiled"] = compiled
        own["_modules"]["_orig_mod"] = compiled.function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if name in own.get("_modules", ()):
            return own["_modules"][name]
        if "_compiled" not in own:  # while it is being made
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
