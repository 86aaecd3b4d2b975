"""Layers that are a function with some options, and no parameters."""

from __future__ import annotations

from typing import Any, ClassVar

from retrograd.nn import functional
from retrograd.nn.module import Module


class WithOptions(Module):
    """A layer that calls a function with the options that it was made with, kept as attributes.

    A subclass names the function, of ``nn.functional``, and the options that it prints.
    """

    function: ClassVar[str]
    shown: ClassVar[tuple[str, ...]] = ()  # options that are printed
    unless_default: ClassVar[dict[str, Any]] = {}  # options that are printed where they are others

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.__dict__["_options"] = tuple(options)
        self.__dict__["_function"] = getattr(functional, self.function)
        for name, value in options.items():
            setattr(self, name, value)

    def forward(self, input: Any) -> Any:
        own = self.__dict__
        return own["_function"](input, **{name: own[name] for name in own["_options"]})

    def extra_repr(self) -> str:
        names = [*self.shown]
        names += [n for n, usual in self.unless_default.items() if getattr(self, n) != usual]
        return ", ".join(f"{n}={getattr(self, n)!r}" for n in names)
