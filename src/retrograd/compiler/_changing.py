"""What gives another answer at each call, though no object that a function can see has changed:
clocks, and random numbers that are not ours."""

from __future__ import annotations

import random
import types
from collections.abc import Collection, Iterable
from typing import Any

from retrograd import arrays

# By module, and by class: the names that ask for such an answer.
_ASKED = {
    "time": frozenset({
        "time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns",
        "process_time", "process_time_ns", "thread_time", "thread_time_ns", "localtime", "gmtime",
        "ctime", "strftime",
    }),
    "datetime": frozenset({"now", "utcnow", "today"}),
    "uuid": frozenset({"uuid1", "uuid4"}),
    "secrets": frozenset({
        "choice", "randbelow", "randbits", "token_bytes", "token_hex", "token_urlsafe",
    }),
    "os": frozenset({"urandom", "getrandom", "times", "getloadavg"}),
}  # fmt: skip


def asked_for(value: Any, names: Collection[str]) -> str | None:
    """``time.time()``, if code that uses some names can ask a module, a class or a function for
    something that changes; None if not."""
    if isinstance(value, types.ModuleType):
        name = value.__name__
        found = _ASKED.get(name, frozenset()).intersection(names)
        return f"{name}.{min(found)}()" if found else None
    home = getattr(value, "__module__", None)
    known = _ASKED.get(home) if isinstance(home, str) else None
    if known is None:
        return None
    if isinstance(value, type):
        found = known.intersection(names)
        return f"{value.__name__}.{min(found)}()" if found else None
    called = getattr(value, "__name__", None)
    return f"{home}.{called}()" if called in known else None


class RandomState:
    """The state of random numbers that are not ours, to be compared with that of later on: of
    Python's module, and of NumPy's generators."""

    def __init__(self, generators: Iterable[Any]) -> None:
        self.generators = list(generators)
        self.python = random.getstate()
        self.numpy = arrays.programs.random_states(self.generators)

    def drawn_from(self) -> str | None:
        """Whose numbers have been drawn since."""
        if random.getstate() != self.python:
            return "Python's random module"
        if arrays.programs.random_states(self.generators) != self.numpy:
            return "NumPy's random numbers"
        return None
