"""Source locations in the user's code, recorded cheaply.

A place is a code object and an instruction offset: taking them off a frame costs a few dozen
nanoseconds, and a file and line are worked out only when somebody asks.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
from types import CodeType, FrameType
from typing import Any, TypeVar

from retrograd._modes import modes

Place = tuple[CodeType | None, int]
Error = TypeVar("Error", bound=Exception)

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
GENERATED = "<backward of "  # the code that nodes compile from their rules


def is_own(file: str) -> bool:
    """Whether a file of code is this package's."""
    own = _own.get(file)
    if own is None:
        own = _own[file] = file.startswith((PACKAGE, GENERATED))
    return own


_own: dict[str, bool] = {}  # the answers so far: walks over frames ask again and again


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame, from ``frame`` outwards, that is not this package's."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not (_own[file] if file in _own else is_own(file)):
            break
        frame = frame.f_back
    return frame


def depth_of_user() -> int:
    """The ``stacklevel`` of a warning that points at the user's code."""
    depth = 1
    while is_own(sys._getframe(depth).f_code.co_filename):
        depth += 1
    return depth


class Call:
    """A call in the user's code, as a frame shows it, without what a frame keeps alive."""

    __slots__ = ("f_code", "f_lasti")

    def __init__(self, frame: FrameType) -> None:
        self.f_code = frame.f_code
        self.f_lasti = frame.f_lasti


def call_of_pass() -> Call | None:
    """The call of the backward pass that is recording what a rule does. None if none is: what runs
    then may be called from a hook."""
    tasks = modes.frame.tasks
    call: Call | None = tasks[-1].recording_for if tasks else None
    return call


class Known:
    """The piece of user code seen last. Most operations are called from the same one as the one
    before, and comparing code objects is faster than looking up a file name."""

    __slots__ = ("user_code",)

    def __init__(self) -> None:
        self.user_code: CodeType | None = None

    def user_frame(self, frame: FrameType) -> Any:
        """The user's frame that ``frame`` was called from, or ``frame`` itself; or a ``Call``."""
        call = call_of_pass()
        if call is not None:
            return call
        frame = user_frame(frame) or frame
        self.user_code = frame.f_code
        return frame


known = Known()


def user_place(depth: int = 1) -> Place:
    """The place in the user's code that is being run, as seen from ``depth`` callers up."""
    frame = call_of_pass() or user_frame(sys._getframe(depth))
    return (None, 0) if frame is None else (frame.f_code, frame.f_lasti)


def line_number(code: CodeType, offset: int) -> int:
    """The line that an instruction belongs to."""
    positions = list(code.co_positions())
    line = positions[offset // 2][0] if offset // 2 < len(positions) else None
    return line or code.co_firstlineno


def hinted(error: Error, *sentences: str, to_do: str = "") -> Error:
    """An error with a note below its message, which stays PyTorch's: the user's line, what is the
    matter, and what to do."""
    line = describe(user_place(2))
    lines = [f"  at {short(line)}"] if line else []
    lines += [f"  {sentence}" for sentence in sentences if sentence]
    if to_do:
        lines.append(f"  What to do: {to_do}")
    error.add_note("\n".join(lines))
    return error


def short(source: str | None) -> str | None:
    """A source line without the folders of its file."""
    result = None if source is None else re.match(r"(.*?)(:\d+(?:: .*)?)$", source, re.S)
    return source if result is None else os.path.basename(result[1]) + result[2]


def describe(place: Place) -> str | None:
    """``file.py:12: y = x.exp()``, or None if the place is not known."""
    code, offset = place
    if code is None:
        return None
    line = line_number(code, offset)
    text = linecache.getline(code.co_filename, line).strip()
    return f"{code.co_filename}:{line}" + (f": {text}" if text else "")
