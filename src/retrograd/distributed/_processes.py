"""Information about processes of this host from ``/proc``, where the system has it (Linux)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_STATE, _USER_TIME, _SYSTEM_TIME, _START = 0, 11, 12, 19  # fields of stat, after the name


@dataclass
class Standing:
    """The state of a process."""

    state: str  # the letter in /proc: R runs, S sleeps, D waits for a disk, T is stopped
    ticks: int  # processor time that all its threads have used
    start: int  # its start: distinguishes it from a later process with the same number

    @property
    def is_stopped(self) -> bool:
        """Whether a signal or a debugger has stopped it."""
        return self.state in "Tt"


def standing(pid: int) -> Standing | None:
    """The state of a process of this host; None if unknown."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:  # it is gone, or this system has no such files
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may contain anything
    ticks = int(fields[_USER_TIME]) + int(fields[_SYSTEM_TIME])
    return Standing(fields[_STATE], ticks, int(fields[_START]))


def beginning(pid: int) -> int:
    """When a process started, in units of the system; 0 if unknown."""
    result = standing(pid)
    return 0 if result is None else result.start


def with_variable(name: str, value: str, wanted: str) -> dict[str, int]:
    """The processes of this host that have a variable in their environment, by the value of
    another variable. Of several, the last that was started."""
    result: dict[str, int] = {}
    mark, key = f"{name}={value}".encode(), f"{wanted}=".encode()
    for pid in sorted(int(p) for p in os.listdir(_PROC) if p.isdigit()) if _PROC.exists() else ():
        try:
            variables = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:  # it has ended, or is somebody else's
            continue
        if mark in variables:
            for variable in variables:
                if variable.startswith(key):
                    result[variable[len(key) :].decode(errors="replace")] = pid
    return result


def has_loaded(pid: int, library: str) -> bool:
    """Whether a process of this host has a shared library in memory."""
    try:
        return library.encode() in (_PROC / str(pid) / "maps").read_bytes()
    except OSError:  # it has ended, or is somebody else's
        return False


def network(pid: int) -> int:
    """A number for the network namespace of a process of this host; 0 if unknown."""
    try:
        return (_PROC / str(pid) / "ns" / "net").stat().st_ino
    except OSError:  # it has ended, or is somebody else's
        return 0
