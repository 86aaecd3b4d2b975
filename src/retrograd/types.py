"""``torch.types``: names for annotations."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, TypeAlias

from retrograd.arrays._dtypes import dtype as _dtype  # noqa: F401 - a name that others import
from retrograd.tensor._device import device
from retrograd.tensor._tensor import Size, Tensor

_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_size: TypeAlias = Size | list[builtins.int] | tuple[builtins.int, ...]
Number: TypeAlias = builtins.int | builtins.float | builtins.bool
Device: TypeAlias = device | str | builtins.int | None
Storage: TypeAlias = Any
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex

__all__ = ["Device", "Number", "Storage"]
