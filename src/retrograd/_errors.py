"""Errors that the user can fix, reported by the command line without a traceback."""

from __future__ import annotations


class UserError(Exception):
    """A mistake that the command line reports in one line, without a traceback."""


class InterruptedRunError(Exception):
    """A run was stopped by a signal, after a checkpoint."""

    def __init__(self, signal_number: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


def one_line(error: BaseException) -> str:
    """What an error says, in one line.

    >>> one_line(ValueError("two\\n  lines"))
    'two; lines'
    """
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "; ".join(lines) or type(error).__name__
