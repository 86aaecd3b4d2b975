"""The latest backward passes: where in the user's code they were called.

A pass leaves its line here, so that what it did can be told later: which call freed a graph, which
calls added to a gradient.
"""

from __future__ import annotations

import itertools
import sys
from collections import deque
from types import CodeType

from retrograd import _source
from retrograd._modes import modes
from retrograd._records import Record
from retrograd._source import known, user_frame

KEPT = 64

# The number of the pass, the order of the node that it begins at, whether it frees the graph, and
# the line of the call.
Entry = tuple[int, int, bool, CodeType | None, int]

orders = itertools.count(0, -1)  # of nodes, and of passes among them
NONE: Entry = (1, 1, False, None, 0)  # what is older than everything
_log: deque[Entry] = deque([NONE], maxlen=KEPT)  # of all threads: one may free what others made


class Pass(Record):
    """A backward pass that has begun."""

    began: int  # a number as nodes have: what was made later has a smaller one
    root: int  # the order of the node that it began at
    frees: bool  # whether it freed the graph
    code: CodeType | None
    lasti: int

    @property
    def line(self) -> str:
        """``train.py:12: loss.backward()``."""
        line = _source.short(_source.describe((self.code, self.lasti)))
        return line or "an unknown line"


def begin(root: int, frees: bool) -> Entry:
    """Note a pass that begins. The usual call of it is five functions below the user's code."""
    try:
        frame = sys._getframe(5)
        if frame.f_code is not known.user_code:
            frame = user_frame(sys._getframe(2)) or frame
    except ValueError:  # there are not that many
        frame = sys._getframe(2)
        frame = user_frame(frame) or frame
    entry = next(orders), root, frees, frame.f_code, frame.f_lasti
    _log.append(entry)
    return entry


def current() -> Entry:
    """The pass that this thread is in."""
    tasks = modes.frame.tasks
    return tasks[-1].begun if tasks else NONE


def recent() -> list[Pass]:
    """The latest passes, the oldest first, without the one that runs."""
    return [Pass(*entry) for entry in list(_log)[:-1]]
