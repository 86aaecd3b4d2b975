"""What users call their tensors: looked up among the variables of the code that asks."""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType
from typing import Any

from retrograd.autograd._backward import is_tensor

MODULE = "retrograd.nn.module"  # where modules come from; that layer lies above this one


class Names:
    """The tensors that variables of a frame hold, and parameters of modules that they hold."""

    def __init__(self, frame: FrameType | None) -> None:
        self.tensors: list[tuple[str, Any]] = []
        self._by_identity: dict[int, str] = {}
        for name, tensor in _tensors_of(frame):
            self.tensors.append((name, tensor))
            self._by_identity.setdefault(id(tensor), name)

    def of(self, tensor: Any) -> str | None:
        """The name of a tensor, or None if no variable holds it."""
        return self._by_identity.get(id(tensor))


def _tensors_of(frame: FrameType | None) -> Iterator[tuple[str, Any]]:
    if frame is None:
        return
    scopes = [frame.f_locals]
    if frame.f_globals is not frame.f_locals:
        scopes.append(frame.f_globals)
    variables = [pair for scope in scopes for pair in list(scope.items())]
    variables.sort(key=lambda pair: pair[0].startswith("_"))  # ``_`` is what a shell saw last
    for name, value in variables:
        if is_tensor(value):
            yield name, value
    for name, value in variables:
        is_module = any(cls.__module__ == MODULE for cls in type(value).__mro__)
        if is_module and "_parameters" in vars(value):  # not one that is being made
            yield from ((f"{name}.{path}", p) for path, p in value.named_parameters())
