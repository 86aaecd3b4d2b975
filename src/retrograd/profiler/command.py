"""``retrograd profile``: run a script, measure it, and write a page of the results."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from retrograd._errors import UserError, one_line
from retrograd._scripts import INTERRUPTED, compiled, outcome, short
from retrograd.viz.command import options_after, page_for

ABOUT = "run a script and write a page that shows where its time goes"
DESCRIPTION = """\
Run a script, measure every operation, backward pass, Module and optimizer step, print the lines
that took longest, and write a page with tables by operation, line and Module, a flame graph and a
timeline. The page is one file that needs no network: open it in a browser."""
EPILOG = """\
examples:
  retrograd profile train.py
  retrograd profile train.py -o slow.html --memory
  retrograd profile --as-torch train.py --epochs 1

Options come before or right after the script. Everything after that, or after --, is passed to the
script. If the script fails, its traceback is shown, and the page has everything up to that. Only
the main thread is measured."""
USAGE = "retrograd profile [-o PAGE] [--memory] [--trace FILE] [--rows N] [--as-torch] SCRIPT [...]"


def add_to(commands: Any) -> None:
    """Add the command to a parser's others."""
    command = commands.add_parser(
        "profile", help=ABOUT, description=DESCRIPTION, epilog=EPILOG, allow_abbrev=False,
        usage=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    _add_options(command)
    command.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    command.set_defaults(run=run)


# fmt: off
def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-o", "--out", type=Path, metavar="PAGE",
        help="file to write the page to (default: script-profile.html next to the script)")
    add("--memory", action="store_true",
        help="measure memory, too, by tracemalloc, which makes Python code slower")
    add("--trace", type=Path, metavar="FILE",
        help="also write a trace for ui.perfetto.dev or chrome://tracing (.json or .json.gz)")
    add("--rows", type=_count, metavar="N", default=10,
        help="how many lines of the script to print (default: 10)")
    add("--as-torch", action="store_true",
        help="run a script that imports torch, with retrograd in its place")
# fmt: on


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Run a script under a profiler. The exit code is the script's."""
    if not options.words:
        raise UserError("specify a script: retrograd profile program.py")
    arguments = options_after(options, _add_options, "retrograd profile")
    script = Path(options.words[0]).absolute()  # it may go to another folder
    code = compiled(script)
    out = page_for(script, options.out, "profile")
    trace = None if options.trace is None else page_for(script, options.trace, "trace")
    from retrograd.profiler.profiler import profile

    with profile(profile_memory=options.memory) as prof:
        exit_code = outcome(script, code, arguments, options.as_torch)
    sys.stdout.flush()
    if prof.events():
        _write(prof, script.name, out, trace, options.rows)
    elif exit_code == 0:
        raise UserError(
            "the script called no operation, so no page was written; does it import retrograd (or "
            "torch, with --as-torch)?"
        )
    else:
        print("retrograd: no operation came before that, so no page", file=sys.stderr)
    if exit_code == INTERRUPTED:
        raise KeyboardInterrupt
    return exit_code


def _write(prof: Any, title: str, out: Path, trace: Path | None, rows: int) -> None:
    try:
        prof.page(title).save(out)
        if trace is not None:
            prof.export_chrome_trace(str(trace))
    except OSError as error:
        raise UserError(one_line(error)) from None
    print(f"\n{prof.summary('line').table(rows)}")
    if trace is not None:
        print(f"The trace is {short(trace)}")
    print(f"The page is {short(out)}", flush=True)
