"""``retrograd pipeline plan``: options and implementation."""

from __future__ import annotations

import argparse
import math
import os
import sys
import textwrap
import time
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TextIO

from retrograd._errors import UserError, one_line

if TYPE_CHECKING:
    from retrograd.pipeline._plan import Plan, Row

NAMES = ("gpipe", "1f1b", "interleaved", "zb-h1")
ENDINGS = (".svg", ".png", ".json", ".txt")
MOST_PASSES = 2_000_000
ABOUT = "plan how to train a model across processes"
DESCRIPTION = """\
Compute how long each schedule would take for a batch, how long its stages would wait, and how many
activations they would store, before anything is run.

Times are in any unit: give what you measured for one micro-batch on one stage."""
EPILOG = """\
examples:
  retrograd pipeline plan --stages 4 --microbatches 16 --show
  retrograd pipeline plan --stages 64 --microbatches 1024 --communication 0.05
  retrograd pipeline plan --stages 8 --microbatches 64 --activation-mb 300 --memory-mb 4000
  retrograd pipeline plan --stages 4 --microbatches 32 --forward 10,12,12,9 --backward 21,25,25,20
  retrograd pipeline plan --stages 8 --microbatches 32 --schedule zb-h1 --draw plan.svg

A list separated by commas has a number for each stage. The schedules are explained in
docs/pipeline.md."""


# fmt: off
def add_to(commands: Any) -> None:
    """Add the command to a parser's others."""
    pipeline = commands.add_parser(
        "pipeline", help=ABOUT, allow_abbrev=False, usage="retrograd pipeline plan [options]",
        description=f"{ABOUT.capitalize()}.",
    )
    pipeline.set_defaults(run=_incomplete)
    parts = pipeline.add_subparsers(title="commands", metavar="plan", prog="retrograd pipeline")
    plan = parts.add_parser(
        "plan", help="compare schedules: time, waiting and memory", description=DESCRIPTION,
        epilog=EPILOG, allow_abbrev=False,
        usage="retrograd pipeline plan --stages P --microbatches M [options]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = plan.add_argument
    add("--stages", type=_positive, metavar="P", required=True,
        help="number of processes that the model is split across")
    add("--microbatches", type=_positive, metavar="M", required=True,
        help="number of parts that a batch is split into")
    add("--schedule", type=str.lower, choices=("all", *NAMES), default="all", metavar="NAME",
        help=f"all, {', '.join(NAMES)} (default: all)")
    add("--chunks", type=_positive, metavar="V",
        help="parts of the model on each stage, for interleaved (default: 2)")
    costs = plan.add_argument_group("costs")
    add = costs.add_argument
    add("--forward", type=_costs, default=Fraction(1), metavar="T",
        help="time of a stage's forward pass for a micro-batch, all its chunks (default: 1)")
    add("--backward", type=_costs, metavar="T",
        help="time of its backward pass (default: twice the forward pass)")
    add("--backward-weight", type=_costs, metavar="T",
        help="time of the part of the backward pass for weights (default: half of it)")
    add("--communication", type=_cost, default=Fraction(0), metavar="T",
        help="time of a message between neighbours, during which stages continue (default: 0)")
    add("--latency", type=_cost, default=Fraction(0), metavar="T",
        help="additional time of each message (default: 0)")
    add("--contention", action="store_true",
        help="send messages between two stages one at a time, each for --communication")
    add("--activation-mb", type=_costs, metavar="MB",
        help="memory that a micro-batch takes on a stage until its backward pass is done")
    add("--memory-mb", type=_cost, metavar="MB",
        help="memory of a stage for activations: schedules that need more are excluded")
    shown = plan.add_argument_group("output")
    add = shown.add_argument
    add("--bubble", type=_cost, default=Fraction(5), metavar="PERCENT",
        help="find the number of micro-batches for this bubble (default: 5)")
    add("--show", action="store_true", help="draw the timelines in the terminal")
    add("--draw", metavar="FILE",
        help="write the timeline as .svg, .png, .txt, or .json for Perfetto; of several "
        "schedules, a file each: plan-1f1b.svg and so on")
    plan.set_defaults(run=run)
# fmt: on


def _incomplete(options: argparse.Namespace) -> int:
    raise UserError("specify a command: retrograd pipeline plan --help")


def _positive(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _cost(text: str) -> Fraction:
    """Exactly what is written: 0.1 is a tenth."""
    try:
        value = Fraction(text)
        sensible = value == 0 or Fraction(1, 10**9) <= value <= 10**12
    except (ValueError, ZeroDivisionError):
        sensible = False
    if not sensible:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 0")
    return value


def _costs(text: str) -> Fraction | list[Fraction]:
    """A number, or one for each stage."""
    return [_cost(part) for part in text.split(",")] if "," in text else _cost(text)


def run(options: argparse.Namespace) -> int:
    """Run the command. What the user can correct is a ``UserError``."""
    try:
        return _run(options)
    except BrokenPipeError:
        raise
    except (OSError, ValueError, ImportError) as error:
        raise UserError(one_line(error)) from None


def _run(options: argparse.Namespace) -> int:
    from retrograd.pipeline import _plan

    plan = _asked(options)
    with _Progress(sys.stderr) as progress:
        rows = _plan.compare(plan, progress.show)
    print(_heading(plan, options) + "\n")
    print(_plan.table(plan, rows) + "\n")
    width = _columns()
    for line in [*_plan.legend(plan, rows), "", *_plan.advice(plan, rows)]:
        print(textwrap.fill(line, min(width, 100)))
    if options.show:
        for row in rows:
            print(f"\n{row.timeline.text(width)}")
    if options.draw is not None:
        print("\nDrawn: " + ", ".join(_draw(options.draw, rows)))
    return 0


def _asked(options: argparse.Namespace) -> Plan:
    """What the options say, if they agree with each other."""
    from retrograd.pipeline._plan import Plan

    names: tuple[str, ...] = NAMES if options.schedule == "all" else (options.schedule,)
    if options.chunks is not None and "interleaved" not in names:
        raise UserError(f"--chunks is for the interleaved schedule, not for {options.schedule}")
    chunks = 2 if options.chunks is None else options.chunks
    if chunks == 1 and len(names) > 1:
        names = tuple(name for name in names if name != "interleaved")  # it would be 1F1B
    if "interleaved" not in names:
        chunks = 1
    if options.draw is not None:
        _check_drawable(options.draw)
    if options.memory_mb is not None and options.activation_mb is None:
        raise UserError("--memory-mb needs --activation-mb, what a micro-batch keeps on a stage")
    passes = 2 * options.stages * options.microbatches * chunks
    if passes > MOST_PASSES:
        raise UserError(
            f"that is {passes:,} passes, and simulating more than {MOST_PASSES:,} takes too long; "
            "a bubble shrinks as 1 / micro-batches, so plan with fewer"
        )
    costs = {
        "forward": options.forward,
        "backward": options.backward,
        "backward_weight": options.backward_weight,
        "communication": options.communication,
        "latency": options.latency,
        "contention": options.contention,
        "activation_bytes": _bytes(options.activation_mb),
    }
    memory = _bytes(options.memory_mb)
    return Plan(
        names, options.stages, options.microbatches, chunks, costs, options.bubble / 100, memory
    )


def _check_drawable(path: str) -> None:
    """Check the output file before the simulation, which may take a while."""
    if os.path.splitext(path)[1].lower() not in ENDINGS:
        raise UserError(f"{path}: a timeline is drawn as {', '.join(ENDINGS)}")
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise UserError(f"{path}: there is no folder {folder}")


def _bytes(megabytes: Any) -> Any:
    if isinstance(megabytes, list):
        return [size * 2**20 for size in megabytes]
    return None if megabytes is None else megabytes * 2**20


def _heading(plan: Plan, options: argparse.Namespace) -> str:
    """What is planned, in a line."""
    parts = [f"forward {_said(options.forward)}"]
    backward = options.backward
    parts.append(f"backward {'twice that' if backward is None else _said(backward)}")
    if options.communication or options.latency:
        parts.append(f"a message {_said(options.communication + options.latency)}")
    stages = "stage" if plan.stages == 1 else "stages"
    return f"{plan.stages} {stages}, {plan.microbatches:,} micro-batches: {', '.join(parts)}"


def _said(costs: Fraction | list[Fraction]) -> str:
    from retrograd.pipeline._drawing import short

    if isinstance(costs, list):
        return f"{short(min(costs))} to {short(max(costs))}"
    return short(costs)


def _draw(path: str, rows: list[Row]) -> list[str]:
    stem, ending = os.path.splitext(path)
    written = []
    for row in rows:
        name = path if len(rows) == 1 else f"{stem}-{row.timeline.schedule.name}{ending}"
        row.timeline.save(name)
        written.append(name)
    return written


def _columns() -> int:
    """Of the terminal; enough for most timelines where there is none."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return 120


class _Progress:
    """Prints the progress of a simulation on a terminal, once it has taken two seconds."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.shown = False
        self.next = time.monotonic() + 2 if stream.isatty() else math.inf

    def show(self, name: str, done: float) -> None:
        now = time.monotonic()
        if now >= self.next:
            self.next = now + 0.2
            self.shown = True
            self.stream.write(f"\r\x1b[Ksimulating {name}: {done:.0%}")
            self.stream.flush()

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self.shown:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
