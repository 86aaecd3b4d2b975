"""Writes the table of common mistakes into docs/explaining.md: what PyTorch says, and what is said
here. Run it where PyTorch is installed."""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path
from typing import Any

from _confusions import FOLDER, Confusion, Outcome, confusions, explained, run

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explaining.md"
BLOCK = re.compile(r"(<!-- common mistakes -->\n).*?(<!-- end -->\n)", re.S)
LONGEST = 150  # of what PyTorch says


def table(torch: Any) -> str:
    """The table, with a row for each program."""
    rows = ["| Mistake | PyTorch | retrograd |", "|---|---|---|"]
    for program in confusions():
        link = f"[{program.title}](../tests/confusions/{program.path.name})"
        rows.append(f"| {link} | {_theirs(run(program, torch))} | {_ours(program)} |")
    return "\n".join(rows) + "\n"


def _theirs(outcome: Outcome) -> str:
    """What PyTorch prints, warns of or raises, shortened."""
    text = " ".join(outcome.text.split())
    text = text if len(text) <= LONGEST else text[:LONGEST].rsplit(" ", 1)[0] + " ..."
    return _cell([f"`{text}`"])


def _ours(program: Confusion) -> str:
    """What is said here, without the words of PyTorch."""
    outcome, story = explained(program)
    if story is not None and hasattr(story, "rows"):  # a table of parameters
        return _cell([f"`explain(...)`: {story.todo[0]}"])
    if story is not None:
        todo = " ".join(story.todo[:2])
        return _cell([f"`{program.ask}`: {story.headline}", *story.known, f"What to do: {todo}"])
    notes = getattr(outcome.error, "__notes__", None) or [outcome.text.partition("same size.")[2]]
    notes = [n for n in notes if not n.startswith(("Traceback", "in the backward"))]
    message = str(outcome.error).splitlines()[1:]
    return _cell([*message, *(line for note in notes for line in note.splitlines())])


def _cell(lines: list[str]) -> str:
    lines = [line.strip().replace("|", "\\|").replace(f"{FOLDER}{os.sep}", "") for line in lines]
    return "<br>".join(line for line in lines if line and not line.startswith("torch.Size"))


def page(text: str, torch: Any) -> str:
    """The document with the table of today."""
    return BLOCK.sub(lambda found: found[1] + table(torch) + found[2], text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), importlib.import_module("torch")),
                    encoding="utf-8")  # fmt: skip
