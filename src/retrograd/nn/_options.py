"""Layers that apply a function of ``nn.functional`` and have no parameters."""

from __future__ import annotations

from typing import Any, ClassVar

from retrograd.nn import functional
from retrograd.nn.module import Module
from retrograd.tensor._tensor import Tensor


class WithOptions(Module):
    """A layer that calls a function with the options that it was constructed with.

    A subclass names the function, of ``nn.functional``, and the options that it prints. Options are
    attributes.
    """

    function: ClassVar[str]
    shown: ClassVar[tuple[str, ...]] = ()  # options that are always printed
    unless_default: ClassVar[dict[str, Any]] = {}  # printed if not the default

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.__dict__["_options"] = tuple(options)
        self.__dict__["_function"] = getattr(functional, self.function)
        for name, value in options.items():
            setattr(self, name, value)

    def forward(self, input: Tensor) -> Tensor:
        own = self.__dict__
        result: Tensor = own["_function"](input, **{name: own[name] for name in own["_options"]})
        return result

    def extra_repr(self) -> str:
        names = [*self.shown]
        names += [n for n, default in self.unless_default.items() if getattr(self, n) != default]
        return ", ".join(f"{n}={getattr(self, n)!r}" for n in names)
