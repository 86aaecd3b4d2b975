"""Version counters, which detect in-place writes to saved values.

A counter is shared by a tensor, its views and its ``detach()``ed copies, because they share
memory. It is made when somebody first needs it: when the value is saved for backward, when a view
is taken, or when it is written.
"""

from __future__ import annotations

from typing import Any

from retrograd._source import Place, user_place


class Version:
    """How often some memory has been written in place, and where in the user's code last.

    There is no ``__init__``, for the time it takes: whoever makes one sets ``count`` to zero, and
    ``written_at`` is there after the first write.
    """

    __slots__ = ("count", "written_at")

    count: int
    written_at: Place

    def bump(self) -> None:
        """Note a write."""
        self.count += 1
        self.written_at = user_place(2)


# Stands for the counter of values that nobody can write, such as Python numbers.
UNCHANGING = Version()
UNCHANGING.count = 0


def version_of(tensor: Any) -> Version:
    """The counter of a tensor, created now if it has none. Tensors created in inference mode do not
    store one: code that saves values takes a stored counter as a sign that it may save a tensor."""
    version: Version | None = tensor._version_counter
    if version is None:
        version = Version()
        version.count = 0
        if tensor._meta is None or not tensor._meta.inference:
            tensor._version_counter = version
    return version
