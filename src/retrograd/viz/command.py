"""``retrograd explain``: run a script, record it, and write the page that explains it."""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from retrograd._errors import UserError, one_line
from retrograd._scripts import INTERRUPTED, compiled, outcome, short, styled

ABOUT = "run a script and write a page that steps through its backward passes"
DESCRIPTION = """\
Run a script, record what it computes and every backward pass that it makes, and write a page that
shows its source beside its graph and steps through the passes, gradient by gradient. The page is
one file that needs no network: open it in a browser."""
EPILOG = """\
examples:
  retrograd explain program.py
  retrograd explain program.py --open
  retrograd explain program.py --out why.html --pass 3
  retrograd explain --as-torch train.py --epochs 1

Options come before or right after the script. Everything after that, or after --, is passed to the
script. If the script fails, its traceback is shown, and the page has everything up to that."""
LISTED = 6  # marks that are printed
SERIOUS = ("error", "nan", "inf", "not_stepped", "warning", "exploding")  # kinds of marks


# fmt: off
def add_to(commands: Any) -> None:
    """Add the command to a parser's others."""
    command = commands.add_parser(
        "explain", help=ABOUT, description=DESCRIPTION, epilog=EPILOG, allow_abbrev=False,
        usage="retrograd explain [--out PAGE] [--pass N] [--open] [--as-torch] SCRIPT [arguments]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_options(command)
    command.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    command.set_defaults(run=run)


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", type=Path, metavar="PAGE",
        help="file to write the page to (default: script-explained.html next to the script)")
    add("--pass", type=_positive, metavar="N", dest="first_pass",
        help="the backward pass to open the page at (default: the first)")
    add("--open", action="store_true", help="open the page in the browser")
    add("--as-torch", action="store_true",
        help="run a script that imports torch, with retrograd in its place")
# fmt: on


def _positive(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Run a script under recording. The exit code is the script's."""
    if not options.words:
        raise UserError("specify a script: retrograd explain program.py")
    arguments = options_after(options, _add_options, "retrograd explain")
    script = Path(options.words[0]).absolute()  # it may go to another folder
    code = compiled(script)
    out = page_for(script, options.out, "explained")
    from retrograd.viz._recording import recording

    limits = {} if options.first_pass is None else {"max_passes": max(options.first_pass, 10)}
    with recording(title=script.name, threads=True, **limits) as story, _warnings_of(story):
        failed = partial(story.answers.failed, story)
        exit_code = outcome(
            script, code, arguments, options.as_torch, failed=failed, ended=story.keep_results
        )
    sys.stdout.flush()
    if story.passes or story.answers.has_cure or story.results:
        _write(story.to_json(), out, options.first_pass or 1, options.open)
    elif exit_code == 0:
        raise UserError(
            "the script made no backward pass, and no variable of it holds a result with a graph, "
            "so there is no page; does it import retrograd (or torch, with --as-torch)?"
        )
    else:
        print("retrograd: no backward pass came before that, so no page", file=sys.stderr)
    if exit_code == INTERRUPTED:
        raise KeyboardInterrupt
    return exit_code


@contextmanager
def _warnings_of(story: Any) -> Iterator[None]:
    """Collect warnings that contain advice; all warnings are still shown."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def noted(message: Any, *more: Any, **named: Any) -> None:
            if "What to do: " in str(message):
                story.answers.warned(str(message))
            show(message, *more, **named)

        warnings.showwarning = noted
        yield


def page_for(script: Path, given: Path | None, ending: str) -> Path:
    """The path of the page. Not script.html, which may exist and be something else."""
    out = (script.with_name(f"{script.stem}-{ending}.html") if given is None else given).absolute()
    if not out.parent.is_dir():
        raise UserError(f"the folder {short(out.parent)} does not exist")
    if out.is_dir():
        raise UserError(f"{short(out)} is a folder; give the name of a file")
    return out


def options_after(
    options: argparse.Namespace, add_options: Callable[[argparse.ArgumentParser], None], prog: str
) -> list[str]:
    """Take options of a command right after the script; the rest belongs to the script."""
    parser = argparse.ArgumentParser(
        prog=prog, add_help=False, allow_abbrev=False, exit_on_error=False
    )
    add_options(parser)
    known = parser._option_string_actions
    rest: list[str] = options.words[1:]
    own = 0
    while own < len(rest) and (action := known.get(rest[own].split("=")[0])) is not None:
        own += 1 if "=" in rest[own] or action.nargs == 0 else 2
    try:
        parser.parse_args(rest[:own], options)
    except argparse.ArgumentError as error:
        raise UserError(f"{error}; see {prog} --help") from None
    return rest[own + 1 :] if rest[own : own + 1] == ["--"] else rest[own:]


# -- what is written and said --------------------------------------------------------------------


def _write(story: dict[str, Any], out: Path, wanted: int, opens: bool) -> None:
    from retrograd.viz._page import Page

    passes = story["passes"]
    first = max(min(wanted, len(passes)), 1)
    try:
        Page(story, first_pass=first - 1).save(out)
    except OSError as error:
        raise UserError(one_line(error)) from None
    print(summary(story))
    print(f"\nThe page is {styled(short(out), 'bold')}", flush=True)
    if opens and not webbrowser.open(out.as_uri()):
        print("retrograd: no browser was found to open it", file=sys.stderr)
    if wanted > first:
        count = f"{len(passes) or 'no'} backward {'pass was' if first == 1 else 'passes were'}"
        raise UserError(
            f"there is no pass {wanted}: {count} recorded; the page opens at pass {first}"
        )


def summary(told: dict[str, Any]) -> str:
    """A story in a few lines: its passes, the size of its graph, and what is notable."""
    from retrograd.autograd._explaining._words import bytes_text

    lines = [_pass_line(*alike) for alike in _alike(told)]
    if not lines and told["graph"]["items"]:
        lines.append("no backward pass was run: the page shows what the program computed")
    if len(lines) > 2 * LISTED:
        lines[LISTED:-1] = [f"... {len(lines) - LISTED - 1} more"]
    if told["limits"]["passes_left_out"]:
        left_out = told["limits"]["passes_left_out"]
        were = "pass was" if left_out == 1 else "passes were"
        lines.append(f"... {left_out:,} later {were} not recorded")
    total = told["memory"]["total"]
    if total:
        lines.append(f"the graph keeps {bytes_text(total)} for the backward pass")
    marks = told["marks"]
    for mark in marks[:LISTED]:
        kind = mark["kind"].replace("_", " ")
        colour = "red" if mark["kind"] in SERIOUS else "yellow"
        said = f"{styled(kind, colour)}: {mark['text']}{_place(told, mark.get('place'))}"
        lines.append(said)
        if mark["kind"] != "error":  # whose hints stand below the traceback
            lines += [f"  {sentence}" for sentence in mark["why"]]
    if len(marks) > LISTED:
        lines.append(f"... {counted(len(marks) - LISTED, 'more mark')} in the page")
    return "\n".join(lines)


def counted(count: int, what: str) -> str:
    """A number of things: ``1 step``, ``2,000 steps``."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def _alike(story: dict[str, Any]) -> Iterator[tuple[int, int, str]]:
    """Consecutive passes with the same description: numbers of the first and the last."""
    said = []
    for one in story["passes"]:
        ended = ", ended in an error" if one["error"] else ""
        steps = counted(one["count"], "step")
        said.append(f"{one['how']}{_place(story, one.get('place'))}, {steps}{ended}")
    for text, numbers in itertools.groupby(range(len(said)), said.__getitem__):
        first, *_, last = [*numbers] * 2
        yield first + 1, last + 1, text


def _pass_line(first: int, last: int, text: str) -> str:
    if first == last:
        return f"{styled(f'pass {first}', 'cyan')}: {text}"
    return f"{styled(f'passes {first} to {last}', 'cyan')}: {text} each"


def _place(story: dict[str, Any], place: Any) -> str:
    return styled(f" ({story['files'][place[0]]['name']}:{place[1]})", "dim") if place else ""
