"""Makes ``import torch`` import this package, to run unmodified scripts."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import spawn
from types import ModuleType
from typing import Any

from retrograd._later import nearest

PYTORCH = "2.13.0"  # the version whose names and behaviour this package follows


class Torch(ModuleType):
    """The module ``torch``: every name is that of this package, but for the version, by which
    programs choose what to call."""

    def __init__(self) -> None:
        super().__init__("torch")
        own = importlib.import_module("retrograd")
        self.__dict__.update(
            __doc__=own.__doc__, __file__=own.__file__, __path__=own.__path__, __all__=own.__all__,
            __version__=f"{PYTORCH}+retrograd.{own.__version__}",
        )  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        value = getattr(sys.modules["retrograd"], name)
        if not isinstance(value, ModuleType):  # those are put here when they are imported
            self.__dict__[name] = value
        return value

    def __dir__(self) -> list[str]:
        return dir(sys.modules["retrograd"])


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers ``import torch.nn`` with the module of this package, the very same one: a second
    copy would have tensors of its own."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "torch" and not name.startswith("torch."):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        if spec.name == "torch":
            return Torch()
        name = f"retrograd{spec.name.removeprefix('torch')}"
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if not error.name or not name.startswith(error.name):
                raise
            parent, _, last = name.rpartition(".")
            module = getattr(importlib.import_module(parent), last, None)  # type: ignore[assignment]
            if not isinstance(module, ModuleType):
                raise no_module(spec.name) from None
        self._own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        if not isinstance(module, Torch):
            module.__spec__ = self._own  # the import system has put that of `torch` there


def no_module(name: str) -> ModuleNotFoundError:
    """The error for a module that PyTorch may have, and this package has not."""
    parent, _, last = name.rpartition(".")
    known = dir(importlib.import_module(f"retrograd{parent.removeprefix('torch')}"))
    modules = [n for n in known if not n.startswith("_")]
    return ModuleNotFoundError(
        f"No module named {name!r}: retrograd does not have it{nearest(last, modules, parent)}",
        name=name,
    )


def _command_line(**options: Any) -> list[Any]:
    """How Python starts a process that does not inherit what this one has in memory, with ``torch``
    answered there, too."""
    command = _of_python(**options)
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    setup = f"import sys; sys.path.insert(0, {own!r}); import retrograd.as_torch; del sys.path[0]"
    return [f"{setup}; {part}" if "spawn_main" in str(part) else part for part in command]


_of_python: Any = spawn.get_command_line


def install() -> None:
    """Answer ``import torch`` with this package from now on."""
    present = sys.modules.get("torch")
    if isinstance(present, Torch):
        return
    if present is not None:
        raise ImportError(
            "PyTorch has been imported already: import retrograd.as_torch before everything that "
            "imports torch"
        )
    sys.meta_path.insert(0, Finder())
    importlib.import_module("torch")
    spawn.get_command_line = _command_line


@contextmanager
def installed() -> Iterator[None]:
    """Answer ``import torch`` with this package for the length of a ``with`` block."""
    hidden = {n: m for n, m in sys.modules.items() if n == "torch" or n.startswith("torch.")}
    for name in hidden:
        del sys.modules[name]
    finder = Finder()
    sys.meta_path.insert(0, finder)
    command_line, spawn.get_command_line = spawn.get_command_line, _command_line
    try:
        yield
    finally:
        spawn.get_command_line = command_line
        sys.meta_path.remove(finder)
        for name in [n for n in sys.modules if n == "torch" or n.startswith("torch.")]:
            del sys.modules[name]
        sys.modules.update(hidden)
