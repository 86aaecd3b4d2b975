"""What an attack tried and what it found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Finding:
    """A defect: what went wrong, and a program or command that shows it."""

    title: str
    reproduce: str


@dataclass
class Report:
    """The account of one attack: how much was tried, and the defects found."""

    attack: str
    seed: int
    tried: int = 0
    counts: Counter[str] = field(default_factory=Counter)  # of whatever is worth counting
    findings: list[Finding] = field(default_factory=list)
    most: int | None = None  # how much is to be tried, in attacks that count; None: no bound
    # Set by whoever runs the attack in a process of its own, to know what it died or hangs of.
    watcher: Callable[[str], None] | None = field(default=None, repr=False, compare=False)

    @property
    def is_done(self) -> bool:
        """Whether as much was tried as was asked for."""
        return self.most is not None and self.tried >= self.most

    def found(self, title: str, reproduce: str) -> None:
        """Note a defect, unless one with the same title is there already."""
        self.counts["findings"] += 1
        if all(finding.title != title for finding in self.findings):
            self.findings.append(Finding(title, reproduce))

    def trying(self, program: str) -> None:
        """Say what is about to be run, and must end within seconds. An empty string: nothing is.

        An attack need not call this. One that does is ended when it stays too long with one
        program, and that program is reported; so is the last one of an attack that crashed.
        """
        if self.watcher is not None:
            self.watcher(program)
