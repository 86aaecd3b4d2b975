"""Defects that are known and not mended yet: entries of ``_known`` that are to go."""

from __future__ import annotations

from typing import Any


def mending(item: str, kinds: str = "", **more: Any) -> dict[str, Any]:
    return {"why": f"mending: {item}", "kinds": tuple(kinds.split()), **more}


MENDING: list[dict[str, Any]] = []
