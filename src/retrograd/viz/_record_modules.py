"""The Module call that is running: the path that is recorded with operations."""

from __future__ import annotations

import sys
import threading
import weakref
from types import FrameType
from typing import Any, NamedTuple

from retrograd._source import user_frame
from retrograd.nn.module import Module


class Call(NamedTuple):
    """A Module that is being called, its path in the model, and the classes along the path."""

    module: Any
    path: str
    types: tuple[str, ...]
    frame: int = 0  # the id of the frame that calls it


OUTSIDE = Call(None, "", ())
CALLING = Module._with_hooks.__code__


class _Thread(threading.local):
    """The calls that are running in a thread, the innermost last."""

    def __init__(self) -> None:
        self.calls: list[Call] = []


class Modules:
    """The Module calls of one recording, and the paths of the modules seen.

    A module is known by its path in the outermost one that was called. The first of these that has
    parts is the model, and its own path is empty. Any other is known by the variable that holds it,
    or else by its class.
    """

    def __init__(self, named: Any) -> None:
        self._named = named  # called with each outermost module: name_by_module
        self._thread = _Thread()
        self._known: dict[int, tuple[weakref.ref[Any], str, tuple[str, ...]]] = {}
        self._model: weakref.ref[Any] | None = None
        self.roots: list[weakref.ref[Any]] = []  # the outermost modules that were called

    @property
    def _calls(self) -> list[Call]:
        return self._thread.calls

    @property
    def current(self) -> Call:
        """The innermost call. One that was interrupted (Ctrl-C) did not report its end, but its
        frame is gone."""
        while self._calls:
            call, frame = self._calls[-1], calling(sys._getframe(1))
            while frame is not None and id(frame) != call.frame:
                frame = calling(frame.f_back)
            if frame is not None:
                return call
            self._calls.pop()
        return OUTSIDE

    def enter(self, module: Module) -> None:
        known, frame = self._find(module), calling(sys._getframe(1))
        outer = self.current
        if known is None:
            if outer is OUTSIDE:
                self._add_root(module)
            else:  # not a submodule of its caller: a module created on the fly
                name = type(module).__name__
                path = f"{outer.path}.{name}" if outer.path else name
                self._add(module, path, outer.types)
            known = self._find(module)
            assert known is not None
        self._calls.append(Call(module, *known, id(frame)))

    def leave(self, module: Module) -> None:
        """End a call, and those inside it that did not report their end."""
        for i in range(len(self._calls) - 1, -1, -1):
            if self._calls[i].module is module:
                del self._calls[i:]
                return

    def _find(self, module: Module) -> tuple[str, tuple[str, ...]] | None:
        known = self._known.get(id(module))
        return known[1:] if known is not None and known[0]() is module else None

    def path_of(self, module: Module) -> str:
        """The path of a module that was called."""
        known = self._find(module)
        return "" if known is None else known[0]

    def _add_root(self, module: Module) -> None:
        self.roots.append(weakref.ref(module))
        path = ""
        if self._model is None and module._modules:
            self._model = self.roots[-1]
        else:
            path = variable_of(module, sys._getframe(1)) or type(module).__name__
        self._add(module, path, ())
        self._named(module, f"{path}." if path else "")

    def _add(self, module: Module, path: str, types: tuple[str, ...]) -> None:
        """Register a module and its submodules, each by the first path that leads to it."""
        own = (*types, type(module).__name__) if path else types
        classes = {"": own}
        for name, part in module.named_modules():
            if name:
                outer = name.rpartition(".")[0]
                classes[name] = (*classes.get(outer, own), type(part).__name__)
            if self._find(part) is None:
                full = ".".join(x for x in (path, name) if x)
                self._known[id(part)] = (weakref.ref(part), full, classes[name])


def calling(frame: FrameType | None) -> FrameType | None:
    """The innermost frame, from ``frame`` outwards, that calls a Module with hooks."""
    while frame is not None and frame.f_code is not CALLING:
        frame = frame.f_back
    return frame


def variable_of(value: object, frame: FrameType | None) -> str | None:
    """The variable of the user's code that holds a value: of the innermost frame that has one."""
    frame = user_frame(frame)
    while frame is not None:
        for space in (frame.f_locals, frame.f_globals):
            for name, held in list(space.items()):
                if held is value and not name.startswith("_"):
                    return name
        frame = user_frame(frame.f_back)
    return None
