"""The command line: ``python -m retrograd`` or, once installed, ``retrograd``."""

from __future__ import annotations

import argparse
import codecs
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from retrograd import __version__, tour
from retrograd._errors import InterruptedRunError, UserError
from retrograd.pipeline import command as pipeline
from retrograd.training import command as training
from retrograd.viz import command as explaining

DESCRIPTION = "PyTorch's autograd as a library of its own, on NumPy arrays."
EPILOG = """\
Without a command, all of it: the tour, and then a model that learns to read handwritten digits.

exit codes: 0 when all went well, 2 for a mistake in what was asked for, 130 for Ctrl-C"""


class _Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong, without the whole usage before it."""

    def error(self, message: str) -> NoReturn:
        message = message.replace("argument command: invalid choice:", "there is no command")
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def parser() -> argparse.ArgumentParser:
    """The options and commands. A command is a subparser whose default ``run`` is called."""
    top = _Parser(
        prog="retrograd",
        usage="retrograd [--help] [--version] [command] ...",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"retrograd {__version__}")
    top.set_defaults(run=main_job)
    commands = top.add_subparsers(title="commands", metavar="command", prog="retrograd")
    about_tour = "run the programs of five notes on autograd and show what each prints"
    command = commands.add_parser(
        "tour", help=about_tour, description=f"{about_tour.capitalize()}.", allow_abbrev=False
    )
    command.set_defaults(run=lambda arguments: tour.main())
    training.add_to(commands)
    explaining.add_to(commands)
    pipeline.add_to(commands)
    return top


def main_job(arguments: argparse.Namespace) -> int:
    """The tour, and then a training run."""
    tour.main()
    print(
        f"\n{'=' * tour.WIDTH}\nTraining: a model learns to read\n{'=' * tour.WIDTH}\n", flush=True
    )
    parsed = parser().parse_args(["train", "digits"])
    return int(parsed.run(parsed))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the return value is the exit code."""
    _prepare_output()
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()  # here, where an error can still be met
    except BrokenPipeError:
        # Whoever was reading, `head` for one, has seen enough. What is still buffered must go
        # somewhere, or Python complains on its way out.
        for stream in (sys.stdout, sys.stderr):
            _let_go(stream)
        return 1


def _run(arguments: Sequence[str] | None) -> int:
    parsed = parser().parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except UserError as error:
        return _complain(str(error), 2)
    except InterruptedRunError as error:
        return _complain(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _complain("interrupted", 130)


def _complain(message: str, code: int) -> int:
    try:
        print(f"retrograd: {message}", file=sys.stderr, flush=True)
    except OSError:  # that nobody reads it does not change how it ended
        _let_go(sys.stderr)
    return code


# -- where output goes ---------------------------------------------------------------------------

# For terminals and files that know nothing but ASCII.
_PLAIN = str.maketrans({
    "·": ".", "×": "x", "–": "-", "—": "-", "…": "...", "≤": "<=", "≥": ">=", "→": "->", "←": "<-",
    "µ": "u", "─": "-", "│": "|", "█": "#", "²": "^2",
})  # fmt: skip


def _in_plain_letters(error: UnicodeError) -> tuple[str | bytes, int]:
    """What to write in the place of a letter that a stream does not have."""
    assert isinstance(error, UnicodeEncodeError)
    letter = error.object[error.start]
    if "\udc80" <= letter <= "\udcff":  # a byte of a file name that is no letter
        return bytes([ord(letter) - 0xDC00]), error.start + 1
    plain = letter.translate(_PLAIN)
    return plain if plain.isascii() else "?", error.start + 1


def _prepare_output() -> None:
    """See to it that what is printed can go somewhere: it is nowhere that a program is started
    with ``>&-``, and a terminal may not have all letters."""
    codecs.register_error("retrograd.plain", _in_plain_letters)
    # In this order: what is opened gets the lowest number that is free, which should be its own.
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
        elif name == "stdout" and getattr(stream, "errors", "") in ("strict", "surrogateescape"):
            stream.reconfigure(errors="retrograd.plain")


def _let_go(stream: Any) -> None:
    """Have a stream whose reader is gone end in nothing."""
    try:
        stream.flush()
    except OSError:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)


if __name__ == "__main__":
    sys.exit(main())
