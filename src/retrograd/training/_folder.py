"""The folder of a run, locked so that only one process writes to it.

``config.json`` makes a folder that of a run. Beside it are ``metrics.jsonl``, the folder
``checkpoints``, and at the end the weights and the pictures.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from retrograd._errors import UserError
from retrograd.files._atomic import write_whole

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

RUNS = Path("runs")
CONFIG = "config.json"


def new(out: Path | None, name: str) -> Path:
    """A folder for a new run: that which the user wants, or the next free one of this name."""
    if out is not None:
        if (out / CONFIG).exists():
            raise UserError(
                f"{out} already contains a run: continue it with --resume {out}, or choose another "
                "--out"
            )
        out.mkdir(parents=True, exist_ok=True)
        return out
    number = 1
    while True:
        folder = RUNS / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if not folder.is_dir():
                raise
            number += 1
        else:
            return folder


def latest(name: str) -> Path | None:
    """The last run of this name among those that were given no ``--out``."""
    numbered = re.compile(rf"{re.escape(name)}(?:-(\d+))?")
    result = {}
    if RUNS.is_dir():
        for folder in RUNS.iterdir():
            match = numbered.fullmatch(folder.name)
            if match and (folder / CONFIG).exists():
                result[int(match[1] or 1)] = folder
    return result[max(result)] if result else None


def write_config(folder: Path, settings: dict[str, Any]) -> None:
    write_text(folder / CONFIG, json.dumps(settings, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    write_whole(path, text.encode())


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Be the only process that trains in a folder, where folders can be locked."""
    if fcntl is None or not folder.is_dir():
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"another process is training in {folder}") from None
        yield
    finally:
        os.close(descriptor)
