"""The figures of a run as JSON lines, each with the mean loss since the one before."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from retrograd.files._atomic import write_whole

NAME = "metrics.jsonl"


class Metrics:
    """The file, open for more lines."""

    def __init__(self, folder: Path, records: list[dict[str, Any]]) -> None:
        """Begin with ``records``, those of an earlier part of the run."""
        self.path = folder / NAME
        self.records = records
        write_whole(self.path, "".join(map(_line, records)).encode())
        self._file = open(self.path, "a", encoding="utf-8")  # fmt: skip

    def add(self, record: dict[str, Any]) -> None:
        """One more line."""
        self.records.append(record)
        self._file.write(_line(record))

    def settle(self) -> None:
        """See that all lines are in the file, before a checkpoint says that they are."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def _line(record: dict[str, Any]) -> str:
    # JSON knows no infinity.
    odd = {k for k, v in record.items() if isinstance(v, float) and not math.isfinite(v)}
    plain = {k: None if k in odd else v for k, v in record.items()}
    return json.dumps(plain) + "\n"


def read(folder: Path, up_to: int) -> list[dict[str, Any]]:
    """The records of a run up to a step. What a killed run wrote beyond its last checkpoint, maybe
    half a line, is written again by the run that goes on."""
    try:
        lines = (folder / NAME).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    records = []
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            break
        if not isinstance(record, dict) or record.get("step", math.inf) > up_to:
            break
        records.append(record)
    return records
