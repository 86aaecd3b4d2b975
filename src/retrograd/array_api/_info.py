"""``__array_namespace_info__``: what the namespace can do."""

from __future__ import annotations

from typing import Any

import retrograd as torch
from retrograd.array_api._dtypes import KINDS


class Info:
    """What ``__array_namespace_info__()`` returns."""

    def capabilities(self) -> dict[str, Any]:
        """The optional features of the standard that are supported."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Any:
        """The device that arrays are created on."""
        return torch.device("cpu")

    def devices(self) -> list[Any]:
        """All devices."""
        return [torch.device("cpu")]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes of arrays that are created without one."""
        real = torch.get_default_dtype()
        return {
            "real floating": real, "complex floating": real.to_complex(), "integral": torch.int64,
            "indexing": torch.int64,
        }  # fmt: skip

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The dtypes of a kind, by name; all by default."""
        kinds = ("bool", "numeric") if kind is None else kind
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        if unknown := [k for k in kinds if k not in KINDS]:
            raise ValueError(f"dtypes: unknown kind {unknown[0]!r}")
        return {d.name: d for k in kinds for d in KINDS[k]}


def __array_namespace_info__() -> Info:  # noqa: N807 - the name of the standard
    """What the namespace can do: devices, dtypes and optional parts of the standard."""
    return Info()
