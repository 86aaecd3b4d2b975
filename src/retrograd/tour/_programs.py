"""The programs of the tour, read from ``programs.md``.

The first five chapters are notes on autograd: where a note prints a program, it stands there as in
the note, and where it only describes one, or shows it in a picture, the program is written out. The
last chapter is about compiling.
"""

from __future__ import annotations

import builtins
import re
from dataclasses import dataclass
from importlib import resources

_PROGRAM = re.compile(r"^## (.+)\n\n((?s:.+?))\n\n```python(.*)\n((?s:.+?))```$", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """A program to run: what it shows, and its text."""

    title: str
    shows: str
    source: str
    continues: bool = False  # with the variables of the program before
    fails: type[Exception] | None = None  # the error that it is there to show


@dataclass(frozen=True)
class Note:
    """One of the notes, and its programs."""

    title: str
    programs: tuple[Program, ...]


def read(text: str) -> tuple[Note, ...]:
    """The chapters of a document: a heading for each chapter and each program, and the program in a
    block, marked as ``continues`` or ``fails=RuntimeError``.

    >>> text = "# One\\n\\n## A sum\\n\\nIt adds.\\n\\n```python continues\\n1 + 1\\n```\\n"
    >>> read(text)[0].programs
    (Program(title='A sum', shows='It adds.', source='1 + 1\\n', continues=True, fails=None),)
    """
    notes = []
    for chapter in re.split(r"^# ", text, flags=re.MULTILINE)[1:]:
        programs = []
        for title, shows, flags, source in _PROGRAM.findall(chapter):
            fails = re.search(r"fails=(\w+)", flags)
            error = getattr(builtins, fails[1]) if fails else None
            programs.append(Program(title, shows, source, "continues" in flags, error))
        notes.append(Note(chapter.partition("\n")[0], tuple(programs)))
    return tuple(notes)


CHAPTERS = read(resources.files("retrograd.tour").joinpath("programs.md").read_text("utf-8"))
NOTES = CHAPTERS[:-1]
