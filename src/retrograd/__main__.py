"""The command line: ``python -m retrograd`` or, once installed, ``retrograd``."""

from __future__ import annotations

import argparse
import codecs
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from retrograd import __version__, _scripts, tour
from retrograd._errors import InterruptedRunError, UserError
from retrograd.pipeline import command as pipeline
from retrograd.pipeline import shard_command as sharding
from retrograd.profiler import command as profiling
from retrograd.training import command as training
from retrograd.viz import command as explaining

DESCRIPTION = "PyTorch's autograd as a standalone library on NumPy arrays."
EPILOG = """\
Without a command, the tour runs, and then a model is trained to recognize handwritten digits.
`retrograd program.py` is short for `retrograd run program.py`.

exit codes: 0 on success, 2 for invalid arguments, 130 for Ctrl-C"""


class _Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        message = message.replace("argument command: invalid choice:", "there is no command")
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def parser() -> argparse.ArgumentParser:
    """The options and commands. A command is a subparser with a function as its default ``run``."""
    top = _Parser(
        prog="retrograd", usage="retrograd [--help] [--version] [command] ...",
        description=DESCRIPTION, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    top.add_argument("--version", action="version", version=f"retrograd {__version__}")
    top.set_defaults(run=main_job)
    commands = top.add_subparsers(title="commands", metavar="command", prog="retrograd")
    tour.add_to(commands)
    training.add_to(commands)
    _scripts.add_to(commands)
    explaining.add_to(commands)
    profiling.add_to(commands)
    pipeline.add_to(commands)
    sharding.add_to(commands)
    return top


def main_job(arguments: argparse.Namespace) -> int:
    """Run the tour, then a training run."""
    tour.main()
    print(
        f"\n{'=' * tour.WIDTH}\nTraining: a model learns to recognize digits\n{'=' * tour.WIDTH}\n",
        flush=True,
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
            sys.stdout.flush()  # here, where an error can still be handled
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe. Buffered output must be discarded, or
        # Python reports an error on exit.
        for stream in (sys.stdout, sys.stderr):
            _discard(stream)
        return 1


def _run(arguments: Sequence[str] | None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0].endswith(".py"):
        arguments = ["run", *arguments]
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
    except OSError:  # a closed stream does not change the exit code
        _discard(sys.stderr)
    return code


# -- where output goes ---------------------------------------------------------------------------

# For terminals and files that are limited to ASCII.
_PLAIN = str.maketrans({
    "·": ".", "×": "x", "–": "-", "—": "-", "…": "...", "≤": "<=", "≥": ">=", "→": "->", "←": "<-",
    "µ": "u", "─": "-", "│": "|", "█": "#", "²": "^2",
})  # fmt: skip


def _as_ascii(error: UnicodeError) -> tuple[str | bytes, int]:
    """A replacement for a character that a stream cannot encode."""
    assert isinstance(error, UnicodeEncodeError)
    letter = error.object[error.start]
    if "\udc80" <= letter <= "\udcff":  # a byte of a file name that is not valid text
        return bytes([ord(letter) - 0xDC00]), error.start + 1
    plain = letter.translate(_PLAIN)
    return plain if plain.isascii() else "?", error.start + 1


def _prepare_output() -> None:
    """Make standard streams usable: they are missing if a program is started with ``>&-``, and a
    terminal may not support all characters."""
    codecs.register_error("retrograd.plain", _as_ascii)
    # In this order: an opened file gets the lowest free descriptor, which should be its own.
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
        elif name == "stdout" and getattr(stream, "errors", "") in ("strict", "surrogateescape"):
            stream.reconfigure(errors="retrograd.plain")


def _discard(stream: Any) -> None:
    """Redirect a stream whose reader is gone to nowhere."""
    try:
        stream.flush()
    except OSError:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)


if __name__ == "__main__":
    sys.exit(main())
