"""Lazy modules: names are loaded on first use, and missing names raise a helpful error."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any


def nearest(name: str, known: Iterable[str], where: str) -> str:
    """The end of a sentence about a missing name: the names that are nearest to it, if any are.

    >>> nearest("Liner", ["Linear", "ReLU"], "torch.nn")
    '; the nearest name is torch.nn.Linear'
    """
    import difflib

    matches = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if not matches:
        return ""
    *before, last = [f"{where}.{n}" for n in matches]
    listed = f"{', '.join(before)} and {last}" if before else last
    return f"; the nearest name{'s are' if before else ' is'} {listed}"


class MissingNameError(AttributeError):
    """A name that a module does not have. What is nearest is looked for when it is printed:
    programs ask for names that may not be there, by ``hasattr``."""

    def __init__(self, name: str, module: str) -> None:
        super().__init__(f"module {module!r} has no attribute {name!r}", name=name)
        self.module = module

    def __str__(self) -> str:
        known = [n for n in dir(sys.modules[self.module]) if not n.startswith("_")]
        where = self.module.replace("retrograd", "torch", 1)
        return f"{self.args[0]}{nearest(str(self.name), known, where)}"


def later(
    module: str, submodules: Iterable[str] = (), names: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a module: its submodules are imported when first used, and
    so are names, which are given with the modules of this package that define them."""
    submodules, names = tuple(submodules), names or {}

    def __getattr__(name: str) -> Any:  # noqa: N807 - what Python calls it
        if name in submodules:
            return importlib.import_module(f"{module}.{name}")
        if name not in names:
            raise MissingNameError(name, module)
        value = getattr(importlib.import_module(f"retrograd.{names[name]}"), name)
        setattr(sys.modules[module], name, value)
        return value

    def __dir__() -> list[str]:  # noqa: N807 - what Python calls it
        return sorted({*vars(sys.modules[module]), *submodules, *names})

    return __getattr__, __dir__


def virtual(name: str, doc: str, members: Mapping[str, Any]) -> ModuleType:
    """Make a module that has no file of its own, importable by its name."""
    module = ModuleType(name, doc)
    module.__dict__.update(members, __package__=name.rpartition(".")[0])
    sys.modules[name] = module
    return module
