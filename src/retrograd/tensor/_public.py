"""Functions as users call them: ``out=``, ``input=`` and NumPy's spelling of arguments, and names
whose modules are loaded when they are first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from retrograd.ops._index import Place, names_of
from retrograd.ops._operation import Operation
from retrograd.tensor._inplace import in_place, in_place_of
from retrograd.tensor._out import written
from retrograd.tensor._tensor import Tensor

_SPELLINGS = {"axis": "dim", "keepdims": "keepdim"}


def public(
    function: Callable[..., Any], name: str | None = None, module: str = "retrograd"
) -> Callable[..., Any]:
    """``function`` with the arguments that PyTorch takes everywhere: ``out``, a tensor to write the
    result into; ``input`` by name; ``axis`` and ``keepdims`` for ``dim`` and ``keepdim``."""
    code = getattr(function, "__code__", None)
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code else ()
    label = name or function.__name__
    takes_input = "input" in parameters  # by that name; if not, it is the first

    def called(*args: Any, **named: Any) -> Any:
        if not named:
            return function(*args)
        out = named.pop("out", None)
        if "input" in named and not takes_input:
            args = (named.pop("input"), *args)
        for theirs, ours in _SPELLINGS.items():
            if theirs in named:
                named[ours] = named.pop(theirs)
        if out is None:
            return function(*args, **named)
        return written(label, function, out, args, named)

    called.__module__ = module  # where pickle looks for it by its name
    called.__name__ = called.__qualname__ = label
    called.__doc__ = function.__doc__
    called.__wrapped__ = function  # type: ignore[attr-defined]
    return called


def load(place: Place) -> Callable[..., Any]:
    """What a place of the index names, as a function on Tensors."""
    found = getattr(importlib.import_module(f"retrograd.ops.{place.module}"), place.attribute)
    if isinstance(found, Operation):
        assert found.function is not None, "the tensor layer is not loaded"
        return found.function
    function: Callable[..., Any] = found
    return function


def load_in_place(place: Place) -> Callable[..., Any]:
    """The in-place method made from what a place of the index names."""
    found = getattr(importlib.import_module(f"retrograd.ops.{place.module}"), place.attribute)
    return in_place(found) if isinstance(found, Operation) else in_place_of(found)


def _later(name: str, place: Place, loader: Callable[[Place], Any]) -> Callable[..., Any]:
    """A method that puts the real one in its place when it is first called."""

    def method(self: Any, *args: Any, **named: Any) -> Any:
        real = loader(place)
        if loader is load:
            real = public(real)
        setattr(Tensor, name, real)
        return real(self, *args, **named)

    method.__name__ = method.__qualname__ = name
    return method


def bind_methods() -> None:
    """Give the Tensor class the methods of the index."""
    for name, place in names_of("both", "method").items():
        setattr(Tensor, name, _later(name, place, load))
    for name, place in names_of("in_place").items():
        setattr(Tensor, f"{name}_", _later(f"{name}_", place, load_in_place))


def namespace(module: str, *spaces: str) -> tuple[Callable[[str], Any], list[str]]:
    """``__getattr__`` and ``__all__`` for a module whose names are those of the index."""
    places = names_of(*spaces)

    def __getattr__(name: str) -> Any:  # noqa: N807 - what Python calls it
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = public(load(places[name]), name, module)
        setattr(importlib.import_module(module), name, value)
        return value

    return __getattr__, list(places)
