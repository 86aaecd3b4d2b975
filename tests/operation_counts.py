"""Prints what the table of operations consists of: ``python tests/operation_counts.py``.

A *primitive* is an operation that is not a composite. Every primitive of the general family, and
every operation with a tangent rule or a batching function of its own, is work for each new mode.
With ``--reasons`` it also prints why operations have batching functions of their own.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from pathlib import Path

from retrograd.ops._batching_declarations import Own
from retrograd.ops._index import INDEX
from retrograd.ops._operation import TABLE


def load() -> None:
    """Declare all operations."""
    for module in (*INDEX, "ops._batching_rules"):
        importlib.import_module(f"retrograd.{module}")


def own_batching() -> dict[str, str]:
    """The operations with a batching function of their own, and why they have it."""
    return {
        name: op.batch.reason if isinstance(op.batch, Own) else "no reason is declared"
        for name, op in sorted(TABLE.items())
        if isinstance(op.batch, Own) or callable(op.batch)
    }


def counts() -> dict[str, int]:
    """The figures by name, for all operations of the table."""
    load()
    families = Counter(op.family for op in TABLE.values())
    families["general"] = families.pop("operation")
    source = Path(sys.modules["retrograd"].__file__ or "").parent
    return {
        "operations": len(TABLE),
        "primitives": len(TABLE) - families["composite"],
        **{f"  {name}": count for name, count in sorted(families.items())},
        "with a tangent rule of their own": sum(op.jvp is not None for op in TABLE.values()),
        "with a batching function of their own": len(own_batching()),
        "lines of Python in src": sum(
            len(file.read_text().splitlines()) for file in source.rglob("*.py")
        ),
    }


def reasons() -> dict[str, str | None]:
    """Why operations are of the general family, or have a tangent rule of their own, by name."""
    asked = [op for op in TABLE.values() if op.family == "operation" or op.jvp]
    return {op.name: op.reason for op in sorted(asked, key=lambda op: op.name)}


if __name__ == "__main__":
    for name, count in counts().items():
        print(f"{count:7,}  {name}")
    if "--reasons" in sys.argv:
        print("\nGeneral, or with a tangent rule of their own:")
        for name, reason in reasons().items():
            print(f"  {name}: {reason}")
        print("\nBatching functions of single operations:")
        for name, reason in own_batching().items():
            print(f"  {name}: {reason}")
