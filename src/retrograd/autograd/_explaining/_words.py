"""``Explanation``: the findings, and their text for a terminal."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import Any

from retrograd._source import short
from retrograd.autograd._explaining._amounts import Amount

WIDTH = 80
ENDS = 6  # steps that are shown of each end of a long path


@dataclass(frozen=True)
class Step:
    """One operation on a path from a loss to a tensor, and the gradient that it passes on."""

    operation: str
    source: str | None  # the line of user code that made it
    factor: float | None  # by how much the norm grows in it
    sent: tuple[Amount | None, ...]  # more than one where the next is an input twice; None: unknown
    arrivals: int  # how many gradients meet at the next
    total: Amount | None  # what they are together
    added: bool  # whether they are added up; otherwise they are for several outputs


@dataclass(frozen=True)
class Part:
    """One of the gradients that are added up at a tensor, and the operation that it comes from."""

    operation: str | None  # None: the gradient that the pass starts from
    source: str | None
    amount: Amount | None  # None: no gradient arrived along this path


@dataclass(frozen=True)
class Path:
    """A path from a loss to a tensor. Of a long one, only some steps are kept."""

    start: Amount | None
    steps: tuple[Step, ...]
    shared: int  # steps before those, which are the same as in the first path
    hidden: int  # steps that are left out in the middle of ``steps``
    share: float | None  # about how much of the gradient came along it


@dataclass(frozen=True, repr=False)
class Explanation:
    """The explanation of a gradient. ``str`` gives the text; the attributes hold the same
    information.

    - ``reason``: in a word, why ``.grad`` is what it is (see ``explain``).
    - ``known``, ``likely``, ``todo``: sentences.
    - ``gradient``: the gradient of the loss by a pass of the engine; None if none could be run.
    - ``times``: how many times that ``.grad`` is, if a whole number of times.
    - ``parts``: what is added up at the tensor; the sum is ``gradient``.
    - ``number_of_paths``, ``paths``: paths from the loss; all are counted, the strongest listed.
    - ``notes``: what is remarkable along them: NaN, zeros, parts that cancel out.
    """

    reason: str
    headline: str
    known: tuple[str, ...] = ()
    likely: tuple[str, ...] = ()
    todo: tuple[str, ...] = ()
    gradient: Any = None
    times: float | None = None
    parts: tuple[Part, ...] = ()
    number_of_paths: float = 0
    paths: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    name: str = "tensor"
    loss: str = "loss"

    def __str__(self) -> str:
        lines = _wrapped(self.headline, "")
        for sentence in self.known:
            lines += _wrapped(sentence, "  ")
        for title, sentences in (("Likely:", self.likely), ("What to do:", self.todo)):
            for i, sentence in enumerate(sentences):
                first = f"  {title} " if i == 0 else " " * (len(title) + 3)
                lines += _wrapped(sentence, first, " " * (len(title) + 3))
        if self.paths:
            lines += ["", *_paths_text(self)]
        for note in self.notes:
            lines += _wrapped(note, "  ! ", "    ")
        return "\n".join(lines)

    __repr__ = __str__


def _wrapped(sentence: str, first: str, rest: str | None = None) -> list[str]:
    rest = first + "  " if rest is None else rest
    return textwrap.wrap(sentence, WIDTH, initial_indent=first, subsequent_indent=rest,
                         break_long_words=False, break_on_hyphens=False)  # fmt: skip


def _number(count: float) -> str:
    if math.isinf(count):
        return "More than 1e308"
    return f"{count:,}" if isinstance(count, int) else f"About {count:.2g}"


def _paths_text(story: Explanation) -> list[str]:
    count, listed = story.number_of_paths, story.paths
    lead = "path leads" if count == 1 else "paths lead"
    lines = [f"{_number(count)} {lead} from {story.loss} to {story.name}:"]
    for i, path in enumerate(listed):
        if len(listed) > 1:
            about = "" if path.share is None else f", about {100 * path.share:.3g}% of the gradient"
            lines.append(f"{i + 1}.{about[1:] or ' path'}")
        lines += _path_text(story, path)
    return lines


def _path_text(story: Explanation, path: Path) -> list[str]:
    rows: list[tuple[str, str, str]] = [(story.loss, _amounts((path.start,)), "")]
    if path.shared:
        rows = [(f"... {path.shared:,} steps as in 1. ...", "", "")]
    line = None
    for i, step in enumerate(path.steps):
        if path.hidden and i == ENDS:
            rows.append((f"... {path.hidden:,} more ...", "", ""))
            line = None
        source = short(step.source)
        rows.append((step.operation, _amounts(step.sent), "" if source in (line, None) else source))
        line = source or line
        if step.arrivals > 1:
            together = "sum of" if step.added else "together"
            rows.append((f"  {together} {step.arrivals}", _amounts((step.total,)), ""))
    rows.append((story.name, _amounts((path.steps[-1].total,)) if path.steps else rows[0][1], ""))
    first = min(24, max(len(row[0]) for row in rows if row[1] or row[2] or row[0][:1] != "."))
    second = min(24, max(len(row[1]) for row in rows))
    texts = [f"  {a:<{first}}  {b:<{second}}  {c}".rstrip() for a, b, c in rows]
    return [text if len(text) <= WIDTH else text[: WIDTH - 3] + "..." for text in texts]


def _amounts(sent: tuple[Amount | None, ...]) -> str:
    """``norm 4.5 + 4.5``: the gradients sent along one or more edges."""
    texts = [str(amount) for amount in sent if amount is not None]
    return " + ".join([*texts[:1], *(text.removeprefix("norm ") for text in texts[1:])])


def bytes_text(count: int) -> str:
    """A number of bytes in a few characters.

    >>> bytes_text(1), bytes_text(48), bytes_text(3_500_000)
    ('1 byte', '48 bytes', '3.5 MB')
    """
    if count < 1000:
        return "1 byte" if count == 1 else f"{count} bytes"
    size, units = count / 1000, ["kB", "MB", "GB", "TB"]
    while size >= 999.5 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:.3g} {units[0]}"
