"""Base classes of layers that differ only in a function or a number of dimensions."""

from __future__ import annotations

from typing import Any, ClassVar

from retrograd.nn import functional
from retrograd.nn.module import Module
from retrograd.ops._sections import sections
from retrograd.tensor._tensor import Tensor


class Family(Module):
    """Layers that differ in attributes of their classes, which are given as
    ``class ZeroPad2d(_Padding, spatial=2, mode="constant")``.

    ``shared`` are the sections that their docstrings have in common.
    """

    shared: ClassVar[str] = ""
    spatial: ClassVar[int]  # how many dimensions the layer works on, beside batch and channels

    def __init_subclass__(cls, spatial: int = 0, **attributes: Any) -> None:
        super().__init_subclass__()
        for name, value in attributes.items():
            setattr(cls, name, value)
        if spatial:
            cls.spatial = spatial
        if cls.shared and (spatial or attributes):  # not of a user's class
            sections(cls.shared, spatial)(cls)


class WithOptions(Family):
    """A layer without parameters: a function, called with the options of the constructor.

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
