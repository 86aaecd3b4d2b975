"""A tour of the library: the programs of five notes on autograd, and some on compiling, each run in
front of the reader.

What a program prints is never stored here. It is run, and what comes out is shown.
"""

from __future__ import annotations

import contextlib
import io
import linecache
from collections.abc import Iterator
from typing import Any

from retrograd.tour._compiling import COMPILING
from retrograd.tour._programs import NOTES, Note, Program

WIDTH = 88
CHAPTERS = (*NOTES, COMPILING)


def walk() -> Iterator[tuple[Note, Program, str]]:
    """Run the programs one after the other; with each comes what it printed."""
    for note in CHAPTERS:
        namespace: dict[str, Any] = {}
        for program in note.programs:
            if not program.continues:
                namespace = {"__name__": "__main__"}
            yield note, program, run(program, namespace)


def run(program: Program, namespace: dict[str, Any]) -> str:
    """Run a program in a namespace and return what it printed.

    >>> run(Program("A sum", "", "print(1 + 1)"), {})
    '2\\n'
    """
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(_compiled(program), namespace)
        except Exception as error:
            if program.fails is None or not isinstance(error, program.fails):
                raise
            printed.write(f"{type(error).__name__}: {error}\n")
        else:
            if program.fails is not None:
                raise RuntimeError(f"'{program.title}' should have raised {program.fails.__name__}")
    return printed.getvalue()


def _compiled(program: Program) -> Any:
    name = f"<tour: {program.title}>"
    # Error messages quote lines of the program; this is where they look for the text.
    lines = program.source.splitlines(keepends=True)
    linecache.cache[name] = (len(program.source), None, lines, name)
    return compile(program.source, name, "exec")


def main() -> int:
    """Print the whole tour."""
    total, of_notes = (sum(len(x.programs) for x in part) for part in (CHAPTERS, NOTES))
    print(
        f"{of_notes} programs from {len(NOTES)} notes on autograd, and {total - of_notes} on "
        "compiling, each run now, by retrograd."
    )
    shown: Note | None = None
    for number, (note, program, printed) in enumerate(walk(), start=1):
        if note is not shown:
            print(f"\n{'=' * WIDTH}\n{note.title}\n{'=' * WIDTH}")
            shown = note
        print(f"\n{number}. {program.title}\n\n{program.shows}\n")
        for line in program.source.splitlines():
            print(f"    {line}".rstrip())
        print(f"\nIt prints:\n\n{printed}" if printed else "\nIt prints nothing.\n", end="")
    print(f"\nThat was all: {total} programs.")
    return 0
