"""The command line: ``python -m retrograd`` or, once installed, ``retrograd``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

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
    parsed = parser().parse_args(arguments)
    try:
        code = int(parsed.run(parsed))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever was reading, `head` for one, has seen enough. What is still buffered must go
        # somewhere, or Python complains on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except UserError as error:
        return _complain(str(error), 2)
    except InterruptedRunError as error:
        return _complain(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _complain("interrupted", 130)
    return code


def _complain(message: str, code: int) -> int:
    print(f"retrograd: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
