"""Prints what the table of operations consists of: ``python tests/operation_counts.py``.

A *primitive* is an operation that is not a composite. Every primitive of the general family, and
every operation with a tangent rule or a batching function of its own, is work for each new mode.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from pathlib import Path

from retrograd.ops._index import INDEX
from retrograd.ops._operation import TABLE


def counts() -> dict[str, int]:
    """The figures by name, for all operations of the table."""
    for module in (*INDEX, "_batching_core"):
        importlib.import_module(f"retrograd.ops.{module}")
    families = Counter(op.family for op in TABLE.values())
    families["general"] = families.pop("operation")
    source = Path(sys.modules["retrograd"].__file__ or "").parent
    return {
        "operations": len(TABLE),
        "primitives": len(TABLE) - families["composite"],
        **{f"  {name}": count for name, count in sorted(families.items())},
        "with a tangent rule of their own": sum(op.jvp is not None for op in TABLE.values()),
        "with a batching function of their own": sum(callable(op.batch) for op in TABLE.values()),
        "lines of Python in src": sum(
            len(file.read_text().splitlines()) for file in source.rglob("*.py")
        ),
    }


if __name__ == "__main__":
    for name, count in counts().items():
        print(f"{count:7,}  {name}")
