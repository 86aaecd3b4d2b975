"""Errors between processes: ``PeerError`` and ``MismatchError``."""

from __future__ import annotations


class PeerError(RuntimeError):
    """Another rank died, failed or left while this one needed it. ``rank`` says which."""

    def __init__(self, message: str, rank: int = -1) -> None:
        super().__init__(message)
        self.rank = rank


class MismatchError(RuntimeError):
    """The ranks of a group made different calls where all must make the same."""


for _kind in (PeerError, MismatchError):  # as users know them, in tracebacks
    _kind.__module__ = "retrograd.distributed"
