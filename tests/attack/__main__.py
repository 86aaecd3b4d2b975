"""Attack the library: ``python -m tests.attack``."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
from pathlib import Path

# One thread each for matrices and for PyTorch, before they are loaded: the arrays are small.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from ._report import Report  # noqa: E402
from ._running import attacks, run  # noqa: E402


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    known = attacks()
    width = max(map(len, known), default=0) + 2
    listed = "\n".join(f"  {name:{width}}{line}" for name, line in known.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.attack",
        description="Look for defects of the library for as long as you like.",
        epilog=f"attacks:\n{listed}\n\n"
        "The exit code is 1 if anything was found. Ctrl-C ends the run, with the report so far.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="attack", help="which to run; all if none")
    parser.add_argument("--seed", type=int, help="tries the same things again; else a new one")
    time = parser.add_mutually_exclusive_group()
    time.add_argument("--seconds", type=float, default=60.0, help="for each attack (60)")
    time.add_argument("--hours", type=float, help="for all attacks together")
    parser.add_argument("--most", type=int, metavar="N",
                        help="stop after N programs in each process (only programs and devices)")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with its own seed (1)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the report as JSON")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in known:
            parser.error(f"there is no attack {name!r}; there are {', '.join(known)}")
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    options.names = options.names or list(known)
    if options.hours is not None:
        options.seconds = options.hours * 3600 / len(options.names)
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 31)
    return options


def show_progress(report: Report, left: float) -> None:
    """One line on a terminal, written over and over."""
    if not sys.stderr.isatty():
        return
    minutes, seconds = divmod(max(0, round(left)), 60)
    hours, minutes = divmod(minutes, 60)
    line = (f"{report.attack}: {report.tried:,} tried, {len(report.findings)} findings, "
            f"{hours}:{minutes:02}:{seconds:02} left")  # fmt: skip
    width = shutil.get_terminal_size().columns - 1
    print(f"\r{line[:width]:{width}}", end="", file=sys.stderr, flush=True)


def clear_progress() -> None:
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 1
        print(f"\r{'':{width}}\r", end="", file=sys.stderr, flush=True)


def written(report: Report) -> str:
    """A report as text."""
    lines = [f"{report.attack}: seed {report.seed}, {report.tried:,} tried, "
             f"{len(report.findings)} findings"]  # fmt: skip
    lines += [f"  {count:>9,}  {what}" for what, count in report.counts.most_common()]
    for number, finding in enumerate(report.findings, 1):
        lines += ["", f"  {number}. {finding.title}"]
        lines += [f"     {line}" for line in finding.reproduce.splitlines()]
    return "\n".join(lines)


def as_json(reports: list[Report]) -> str:
    return json.dumps(
        [
            {
                "attack": report.attack,
                "seed": report.seed,
                "tried": report.tried,
                "counts": dict(report.counts.most_common()),
                "findings": [vars(finding) for finding in report.findings],
            }
            for report in reports
        ],
        indent=1,
    )


def main(arguments: list[str] | None = None) -> int:
    options = parsed(arguments)
    reports: list[Report] = []
    interrupted = False
    for name in options.names:
        report, interrupted = run(
            name, options.seed, options.seconds, options.jobs, show_progress, options.most
        )
        reports.append(report)
        clear_progress()
        print(written(report), flush=True)
        if options.report is not None:
            options.report.write_text(as_json(reports) + "\n")
        if interrupted:
            break
    if any(report.findings for report in reports):
        return 1
    return 130 if interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
