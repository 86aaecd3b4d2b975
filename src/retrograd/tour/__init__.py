"""A tour of the library: the programs of five notes on autograd, and some on compiling, each run in
front of the reader.

What a program prints is never stored here. It is run, and what comes out is shown.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import linecache
from collections.abc import Iterator, Sequence
from typing import Any

from retrograd._scripts import styled
from retrograd.tour._programs import CHAPTERS, NOTES, Note, Program

WIDTH = 88


def walk(chapters: Sequence[Note] = CHAPTERS) -> Iterator[tuple[Note, Program, str]]:
    """Run the programs one after the other; with each comes what it printed."""
    for note in chapters:
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


def add_to(commands: Any) -> None:
    """Add the command ``tour`` to a parser's others."""
    about = "run the programs of five notes on autograd and show what each prints"
    chapters = "\n".join(f"  {k}  {note.title}" for k, note in enumerate(CHAPTERS, start=1))
    command = commands.add_parser(
        "tour", help=about, description=f"{about.capitalize()}.", allow_abbrev=False,
        epilog=f"chapters:\n{chapters}", formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    command.add_argument(
        "chapter", nargs="?", type=int, choices=range(1, len(CHAPTERS) + 1), metavar="CHAPTER",
        help="the number of a chapter (default: all)",
    )  # fmt: skip
    command.set_defaults(run=lambda arguments: main(arguments.chapter))


def main(chapter: int | None = None) -> int:
    """Print the whole tour, or one chapter."""
    total, of_notes = (sum(len(x.programs) for x in part) for part in (CHAPTERS, NOTES))
    chapters = CHAPTERS if chapter is None else CHAPTERS[chapter - 1 : chapter]
    first = 1 + sum(len(x.programs) for x in CHAPTERS[: CHAPTERS.index(chapters[0])])
    if chapter is None:
        print(
            f"{of_notes} programs from {len(NOTES)} notes on autograd, and {total - of_notes} on "
            "compiling, each run now, by retrograd."
        )
    shown: Note | None = None
    number = 0
    for number, (note, program, printed) in enumerate(walk(chapters), start=first):
        if note is not shown:
            print(f"\n{'=' * WIDTH}\n{styled(note.title, 'bold')}\n{'=' * WIDTH}")
            shown = note
        print(f"\n{styled(f'{number}. {program.title}', 'bold')}\n\n{program.shows}\n")
        for line in program.source.splitlines():
            print(styled(f"    {line}".rstrip(), "cyan"))
        print(f"\nIt prints:\n\n{printed}" if printed else "\nIt prints nothing.\n", end="")
    print(f"\nThat was all: {number - first + 1} programs.")
    return 0
