"""``torch.functional``: functions that are in ``torch``, where older programs look for them.

>>> from retrograd.functional import einsum
>>> import retrograd as torch
>>> einsum("i,i->", torch.ones(3), torch.ones(3))
tensor(3.)
"""

from __future__ import annotations

from typing import Any

from retrograd.tensor._public import namespace

_get, _names = namespace("retrograd", "torch")
__all__ = ["broadcast_shapes"]


def __getattr__(name: str) -> Any:
    return _get(name)


def __dir__() -> list[str]:
    return [*_names, *__all__]


def broadcast_shapes(*shapes: Any) -> Any:
    """The shape that shapes broadcast to."""
    from retrograd.tensor._indices import broadcast_shapes

    return broadcast_shapes(*shapes)
