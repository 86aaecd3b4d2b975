"""A pass that failed: the message, and the lines of the program it refers to."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field

from retrograd._source import Place, is_own
from retrograd.autograd._node import Node
from retrograd.autograd._versions import Version
from retrograd.viz import _facts


@dataclass(slots=True)
class PassError:
    """What ended a pass. The error itself is not kept: it holds the frames that it came through."""

    message: str
    node: Node | None  # that was running
    changed: list[Place] = field(default_factory=list)  # that wrote to values the node had saved
    raised: Place | None = None  # in a hook or a backward of the user
    notes: list[str] = field(default_factory=list)  # those of the error, also later ones

    @classmethod
    def of(cls, error: BaseException, node: Node | None, started: Place) -> PassError:
        """A description of an error. ``started``: the line that started the pass."""
        if not hasattr(error, "__notes__"):
            error.__notes__ = []  # hints are added while the error is on its way to the user
        raised = raised_at(error)
        return cls(
            f"{type(error).__name__}: {error}",
            node,
            [] if node is None else list(dict.fromkeys(writes(node))),
            None if raised is None or raised[0] is started[0] else raised,
            error.__notes__,
        )

    @property
    def text(self) -> str:
        """The message with all notes."""
        return "\n".join([self.message, *self.notes])

    @property
    def first_sentence(self) -> str:
        """The beginning of the message."""
        return self.message.partition("\n")[0].partition(". ")[0].rstrip(".")


def writes(node: Node) -> Iterator[Place]:
    """The lines that wrote to values after a node had saved them."""
    for _, _, version, count in _facts.entries_of(node):
        if isinstance(version, Version) and version.count != count:
            yield version.written_at


def raised_at(error: BaseException) -> Place | None:
    """The innermost line of the user that an error came from."""
    place = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if not is_own(frame.f_code.co_filename):
            place = frame.f_code, frame.f_lasti
    return place


def is_installed(path: str) -> bool:
    """Whether a file belongs to a library, and not to the program."""
    paths = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
    return is_own(path) or any(path.startswith(place + os.sep) for place in paths if place)
