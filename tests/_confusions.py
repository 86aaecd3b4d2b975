"""Programs with a common mistake, in ``tests/confusions/``, and what is said about each.

A program begins with comments: its title; ``ask``, what to ask when it has run (an expression, or
``anomaly`` to run it in anomaly mode) unless it fails by itself; and the ``cause``, the ``cure``
and the number of the ``line`` that the answer must name.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import sys
import types
import warnings
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "confusions"


class Confusion(NamedTuple):
    """A program, and the answer that must be given."""

    path: Path
    title: str
    ask: str
    cause: str
    cure: str
    line: int | None

    @property
    def source(self) -> str:
        return self.path.read_text(encoding="utf-8")


def confusions() -> list[Confusion]:
    """All programs, by name."""
    return [_read(path) for path in sorted(FOLDER.glob("*.py"))]


def _read(path: Path) -> Confusion:
    source = path.read_text(encoding="utf-8")
    said = dict(re.findall(r"^# (\w+): (.*)$", source, re.M))
    title = source.splitlines()[0].removeprefix("# ").removesuffix(".")
    line = int(said["line"]) if "line" in said else None
    return Confusion(path, title, said.get("ask", ""), said["cause"], said["cure"], line)


class Outcome(NamedTuple):
    """What a program printed, warned of and raised."""

    printed: str
    error: BaseException | None
    names: dict[str, Any]

    @property
    def text(self) -> str:
        """What a user sees: without the lines of the traceback."""
        if self.error is None:
            return self.printed
        notes = [n for n in getattr(self.error, "__notes__", ()) if not n.startswith("Traceback")]
        return "\n".join([self.printed, f"{type(self.error).__name__}: {self.error}", *notes])


def run(program: Confusion, torch: types.ModuleType, anomaly: bool = False) -> Outcome:
    """Run a program with a module for ``import torch``."""
    before = sys.modules.get("torch")
    sys.modules["torch"] = torch
    printed, error = io.StringIO(), None
    names: dict[str, Any] = {"__name__": "__main__"}
    linecache.checkcache(str(program.path))
    code = compile(program.source, str(program.path), "exec")
    try:
        with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
            warnings.simplefilter("always")
            torch.manual_seed(0)
            with torch.autograd.set_detect_anomaly(anomaly):
                try:
                    exec(code, names)
                except Exception as raised:
                    error = raised
    finally:
        del sys.modules["torch"]
        if before is not None:
            sys.modules["torch"] = before
    warned = [f"{w.category.__name__}: {w.message}" for w in caught]
    return Outcome("\n".join([*warned, printed.getvalue().strip()]).strip(), error, names)


def answer(program: Confusion) -> str:
    """What is said about a program: the error that it raises, or the answer to what is asked."""
    outcome, story = explained(program)
    return outcome.text if story is None else str(story)


def explained(program: Confusion) -> tuple[Outcome, Any]:
    """A program's outcome, and the explanation that was asked for, unless it failed by itself."""
    import retrograd

    outcome = run(program, retrograd, anomaly=program.ask == "anomaly")
    if outcome.error is not None or not program.ask:
        return outcome, None
    names = {**outcome.names, "explain": retrograd.autograd.explain}
    return outcome, eval(compile(program.ask, str(program.path), "eval"), names)
