"""Sample expressions with their dtypes, and a ledger of those that were run, so that a run over all
of them can be stopped and taken up again."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from samples import GROUPS, reason
from samples._pool import FIXED, names_in
from test_compile_samples import DTYPES, EVERY

# On a branch cut, where the sign of a zero decides, which XLA's products of complex numbers lose.
ON_A_CUT = ("torch.asinh(edge * 2j)",)
SECONDS = 120  # that a sample may take
CALLED = re.compile(r"\.(\w+)\(")


class Outcome(NamedTuple):
    """How a sample was computed, why if that needs a reason, and what is wrong, if anything."""

    kind: str
    note: str = ""
    problem: str | None = None


Check = Callable[[str, str], Outcome]


def cases(start: int, step: int, groups: list[str]) -> Iterator[tuple[str, str, str]]:
    """Groups, expressions and dtypes: every ``step``-th sample of each group from ``start`` on."""
    for group in groups or GROUPS:
        for number, expression in list(enumerate(GROUPS[group]))[start::step]:
            if "._version" in expression or expression in ON_A_CUT:
                continue  # a program counts its writes to a tensor once
            fixed = all(name in FIXED for name in names_in(expression))
            turn = -1 if fixed else number // step % EVERY
            also = {0: DTYPES[1:2], 3: DTYPES[2:]}.get(turn, ())
            if turn == 0 and reason("NOT_COMPLEX", expression):
                also = ()
            for dtype in (DTYPES[0], *also):
                yield group, expression, dtype


def run(check: Check, start: int, step: int, groups: list[str]) -> None:
    """Run some samples, and print counts and problems as JSON."""
    counts: Counter[str] = Counter()
    problems = []
    for group, expression, dtype in cases(start, step, groups):
        outcome = check(expression, dtype)
        counts[outcome.kind] += 1
        if outcome.problem is not None:
            problems.append(f"{group}: {expression} in {dtype}: {outcome.problem}")
            print(problems[-1], file=sys.stderr, flush=True)
    print(json.dumps({"counts": counts, "problems": problems}))


def run_all(check: Check, path: str, groups: list[str]) -> None:
    """Run all samples that the ledger at ``path`` does not have yet, and those that it has a
    problem of. Then print the counts of all."""
    ledger = Path(path)
    known = {}
    for line in ledger.read_text().splitlines() if ledger.exists() else ():
        group, expression, dtype, *outcome = json.loads(line)
        known[group, expression, dtype] = Outcome(*outcome)
    wanted = list(cases(0, 1, groups))
    for case in by_operation(wanted):
        if case in known and known[case].problem is None:
            continue
        signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(SECONDS)
        try:
            known[case] = check(*case[1:])
        except TimeoutError as error:
            known[case] = Outcome("not finished", "", str(error))
        signal.alarm(0)
        with ledger.open("a") as file:
            print(json.dumps([*case, *known[case]]), file=file)
    print(summary([known[case] for case in wanted]))


def by_operation(wanted: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Cases in another order: one of each operation, by the names that expressions call, then a
    second of each, and so on."""
    turns: Counter[str] = Counter()
    numbered = []
    for case in wanted:
        names = set(CALLED.findall(case[1])) or {case[0]}
        turns.update(names)
        numbered.append((min(turns[name] for name in names), case))
    return [case for _, case in sorted(numbered, key=lambda pair: pair[0])]


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"it takes more than {SECONDS} seconds")


def summary(outcomes: list[Outcome]) -> str:
    """Counts of all outcomes, and of the reasons of those that have one."""
    lines = [f"{len(outcomes)} cases, {sum(x.problem is not None for x in outcomes)} problems"]
    for kind, count in Counter(x.kind for x in outcomes).most_common():
        lines.append(f"{count:6} {kind}")
        notes = Counter(x.note for x in outcomes if x.kind == kind and x.note)
        lines += [f"{number:10} {note}" for note, number in notes.most_common()]
    return "\n".join(lines)


def main(check: Check, arguments: list[str]) -> None:
    """``--all LEDGER [GROUP...]`` or ``START STEP [GROUP...]``."""
    if arguments[0] == "--all":
        run_all(check, arguments[1], arguments[2:])
    else:
        run(check, int(arguments[0]), int(arguments[1]), arguments[2:])
