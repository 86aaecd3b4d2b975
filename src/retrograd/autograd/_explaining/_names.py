"""Names of tensors, looked up among the caller's variables."""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

from retrograd.autograd._roots import is_tensor

MODULE = "retrograd.nn.module"  # where modules come from; that layer lies above this one


class Unregistered(NamedTuple):
    """A plain list or dictionary of Modules or parameters, which ``parameters()`` does not
    search."""

    path: str  # ``model.layers``
    kind: str  # "list", "tuple" or "dict"
    what: str  # "Linear", "Parameter"
    parameters: list[Any]

    @property
    def sentence(self) -> str:
        return (
            f"{self.path} is a plain {self.kind} of {self.what}s: parameters() does not look "
            "into it."
        )

    @property
    def cure(self) -> str:
        many = "Parameter" if self.what == "Parameter" else "Module"
        cls = f"nn.{many}{'Dict' if self.kind == 'dict' else 'List'}"
        return f"use {cls} in place of the {self.kind} {self.path}"


class Names:
    """The tensors that variables of a frame hold, and parameters of modules that they hold."""

    def __init__(self, frame: FrameType | None) -> None:
        self.frame = frame
        self.tensors: list[tuple[str, Any]] = []
        self._by_identity: dict[int, str] = {}
        for name, tensor in _tensors_of(frame):
            self.tensors.append((name, tensor))
            self._by_identity.setdefault(id(tensor), name)

    def of(self, tensor: Any) -> str | None:
        """The name of a tensor, or None if no variable holds it."""
        return self._by_identity.get(id(tensor))

    def variables(self) -> list[tuple[str, Any]]:
        """All variables and their values."""
        return variables_of(self.frame)

    def unregistered(self) -> Iterator[Unregistered]:
        """Plain lists in which the modules that variables hold keep modules or parameters."""
        for name, value in variables_of(self.frame):
            if is_module(value):
                yield from unregistered(value, name)


def variables_of(frame: FrameType | None) -> list[tuple[str, Any]]:
    """The variables of a frame and their values, local variables first."""
    if frame is None:
        return []
    scopes = [frame.f_locals]
    if frame.f_globals is not frame.f_locals:
        scopes.append(frame.f_globals)
    variables = [pair for scope in scopes for pair in list(scope.items())]
    variables.sort(key=lambda pair: pair[0].startswith("_"))  # ``_`` is what a shell saw last
    return variables


def is_module(value: Any) -> bool:
    """Whether something is a Module, and not one that is being made."""
    return any(cls.__module__ == MODULE for cls in type(value).__mro__) and "_parameters" in vars(
        value
    )


def is_leaf(value: Any) -> bool:
    """Whether something is a leaf that requires grad, as a Parameter is."""
    return is_tensor(value) and value.is_leaf and value.requires_grad


def _tensors_of(frame: FrameType | None) -> Iterator[tuple[str, Any]]:
    variables = variables_of(frame)
    for name, value in variables:
        if is_tensor(value):
            yield name, value
    for name, value in variables:
        if is_module(value):
            yield from ((f"{name}.{path}", p) for path, p in value.named_parameters())
            for plain in unregistered(value, name):
                yield from ((f"{plain.path}[...]", p) for p in plain.parameters)


def unregistered(module: Any, name: str) -> list[Unregistered]:
    """What a module holds in plain lists and dictionaries, where its parameters are not found."""
    result = []
    known = {id(p) for p in module.parameters()}
    for path, part in module.named_modules():
        for attribute, value in vars(part).items():
            if attribute.startswith("_") or not isinstance(value, (list, tuple, dict)):
                continue
            values = value.values() if isinstance(value, dict) else value
            held = [x for x in values if is_module(x) or is_leaf(x)]
            every = [p for x in held for p in (x.parameters() if is_module(x) else [x])]
            parameters = [p for p in every if id(p) not in known]
            if parameters:
                whole = ".".join(filter(None, (name, path, attribute)))
                what = type(held[0]).__name__
                result.append(Unregistered(whole, type(value).__name__, what, parameters))
    return result
