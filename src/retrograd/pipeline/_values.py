"""What passes between layers: tensors, or tuples, lists and dictionaries of tensors and of plain
values. ``taken_apart`` splits a value into its tensors and a text that describes how to reassemble
it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import retrograd as torch

_PLAIN = (type(None), bool, int, float, str)


def tensors_of(value: Any) -> list[Any]:
    """The tensors in a value, in order.

    >>> [x.shape for x in tensors_of((torch.ones(2), {"mask": torch.ones(3), "length": 3}))]
    [torch.Size([2]), torch.Size([3])]
    """
    result: list[Any] = []
    mapped(result.append, value)
    return result


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """The value with each tensor replaced by ``function`` of it."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if type(value) in (tuple, list):
        return type(value)(mapped(function, part) for part in value)
    if type(value) is dict:
        return {key: mapped(function, part) for key, part in value.items()}
    return value


def taken_apart(value: Any) -> tuple[str, list[Any]]:
    """A text that describes the form of a value, and its tensors. Values of the same form have
    the same text: structure, plain values, and each tensor's shape, dtype and whether it requires
    grad.

    >>> text, tensors = taken_apart((torch.ones(2), 3))
    >>> put_together(text, tensors)
    (tensor([1., 1.]), 3)
    """
    result: list[Any] = []
    tree = _skeleton(value, result)
    about = [[list(x.shape), x.dtype.name, x.requires_grad] for x in result]
    return json.dumps([tree, about], separators=(",", ":")), result


def _skeleton(value: Any, tensors: list[Any]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return {"tensor": len(tensors) - 1}
    kind = type(value)
    if kind in (tuple, list):
        return {kind.__name__: [_skeleton(part, tensors) for part in value]}
    if kind is dict and all(type(key) in (str, int) for key in value):
        return {"dict": [[key, _skeleton(part, tensors)] for key, part in value.items()]}
    if kind in _PLAIN:
        return {"is": value}
    raise TypeError(
        f"a {kind.__name__} cannot be sent from one stage to another. Layers at the border of two "
        "stages may give tensors, numbers, strings, None, and tuples, lists and dicts of those"
    )


class Form:
    """A form as it was sent: what to expect, and how to put it together."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree, about = json.loads(text)
        self.tensors = [(tuple(shape), getattr(torch, dtype)) for shape, dtype, _ in about]
        self.needs_grad = [bool(needs) for *_, needs in about]

    def put_together(self, tensors: Sequence[Any]) -> Any:
        return _filled(self.tree, tensors)


def put_together(text: str, tensors: Sequence[Any]) -> Any:
    """The value that ``taken_apart`` split, with ``tensors`` in place of its own."""
    return Form(text).put_together(tensors)


def _filled(tree: dict[str, Any], tensors: Sequence[Any]) -> Any:
    ((kind, content),) = tree.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "is":
        return content
    if kind == "dict":
        return {key: _filled(part, tensors) for key, part in content}
    parts = [_filled(part, tensors) for part in content]
    return tuple(parts) if kind == "tuple" else parts
