"""Differences that are known: what PyTorch gets wrong, and what is meant to be different.

Each entry says which differences it covers, and why. Differences of one line are looked up by that
line; those of gradients by the whole program, once it has been reduced to a few lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ._comparing import Difference


@dataclass
class Known:
    """A difference with a reason."""

    why: str
    kinds: tuple[str, ...] = ()  # of the difference; any if empty
    line: str = ""  # patterns: the line where it shows,
    program: str = ""  # the whole program, reduced,
    theirs: str = ""  # what PyTorch gives or says,
    ours: str = ""  # and what we do
    patterns: dict[str, re.Pattern[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("line", "program", "theirs", "ours"):
            if getattr(self, name):
                self.patterns[name] = re.compile(getattr(self, name))

    def covers(self, found: Difference, program: str, is_whole: bool) -> bool:
        if self.kinds and found.kind not in self.kinds:
            return False
        if "program" in self.patterns and not is_whole:
            return False
        texts = {"line": found.line, "program": program, "theirs": found.theirs, "ours": found.ours}
        return all(pattern.search(texts[name]) for name, pattern in self.patterns.items())


KNOWN: list[Known] = []


def known(found: Difference, lines: list[str], is_whole: bool) -> str | None:
    """Why a difference is none to report; None if there is no reason."""
    program = "\n".join(lines)
    return next((k.why for k in KNOWN if k.covers(found, program, is_whole)), None)
