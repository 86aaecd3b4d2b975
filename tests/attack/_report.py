"""What an attack tried and what it found."""

from __future__ import annotations

from collections import Counter
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

    def found(self, title: str, reproduce: str) -> None:
        """Note a defect, unless one with the same title is there already."""
        self.counts["findings"] += 1
        if all(finding.title != title for finding in self.findings):
            self.findings.append(Finding(title, reproduce))
