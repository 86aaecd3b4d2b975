"""Calls that a program cannot repeat. Some return other results each time although no object
visible to the function has changed: clocks, and random numbers of other libraries. Others have
effects: they print, or write to a file."""

from __future__ import annotations

import array
import builtins
import contextvars
import os
import random
import sys
import threading
import types
from collections.abc import Collection, Iterable
from typing import Any

from retrograd import arrays

# By module, the names of functions and methods whose results change.
_CHANGING = {
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
    "os": frozenset({
        "urandom", "getrandom", "times", "getloadavg", "environ", "environb", "getenv", "getcwd",
    }),
}  # fmt: skip


def asked_for(value: Any, names: Collection[str]) -> str | None:
    """A call such as ``time.time()`` whose result changes, if code that uses some names can make it
    on a module, class or function; otherwise None."""
    if isinstance(value, types.ModuleType):
        name = value.__name__
        used = _CHANGING.get(name, frozenset()).intersection(names)
        brackets = "()" if used and callable(getattr(value, min(used), len)) else ""
        return f"{name}.{min(used)}{brackets}" if used else None
    home = getattr(value, "__module__", None)
    known = _CHANGING.get(home) if isinstance(home, str) else None
    if known is None:
        return None
    if isinstance(value, type):
        used = known.intersection(names)
        return f"{value.__name__}.{min(used)}()" if used else None
    called = getattr(value, "__name__", None)
    return f"{home}.{called}()" if called in known else None


_HIDDEN: tuple[type, ...] = (
    array.array, bytearray, memoryview, contextvars.ContextVar, random.Random, threading.local,
    type(os.environ), types.MappingProxyType, type({}.keys()), type({}.values()), type({}.items()),
)  # fmt: skip


def is_hidden(x: Any) -> bool:
    """Whether the contents of an object may change, but cannot be compared."""
    return type(x) in _HIDDEN


# Builtins and modules without effects. All others may have effects.
_PURE_BUILTINS = frozenset({
    "Ellipsis", "NotImplemented", "__build_class__", "__debug__", "abs", "all", "any", "bool",
    "bytes", "callable", "classmethod", "complex", "dict", "divmod", "enumerate", "filter", "float",
    "format", "frozenset", "getattr", "hasattr", "hash", "int", "isinstance", "issubclass", "len",
    "list", "map", "max", "min", "object", "pow", "property", "range", "repr", "reversed", "round",
    "set", "slice", "sorted", "staticmethod", "str", "sum", "super", "tuple", "type", "zip",
})  # fmt: skip
_PURE_MODULES = frozenset({
    "__future__", "_functools", "_operator", "abc", "cmath", "collections", "dataclasses", "enum",
    "fractions", "functools", "itertools", "math", "numbers", "operator", "types", "typing",
})  # fmt: skip


def effect_in(names: Any, namespace: dict[str, Any]) -> str | None:
    """The name of a builtin function or a module that some code uses and that may have effects;
    None if there is none."""
    for name in sorted(names.globals):
        if name in namespace or not hasattr(builtins, name) or name in _PURE_BUILTINS:
            continue
        value = getattr(builtins, name)
        if not (isinstance(value, type) and issubclass(value, BaseException)):
            return f"{name}()"
    values = [namespace.get(name) for name in names.globals]
    used = {x.__name__ for x in values if isinstance(x, types.ModuleType)}
    for name in sorted(used.union(names.imported)):
        if not _is_pure(name):
            return name
    return None


def computes_only(x: Any) -> bool:
    """Whether a function or an object of another library cannot have effects. The code of users and
    of this library is searched elsewhere."""
    if isinstance(x, types.ModuleType):
        return _is_pure(x.__name__)
    if isinstance(x, (types.BuiltinFunctionType, types.MethodWrapperType)):
        owner = getattr(x, "__self__", None)
        if isinstance(owner, types.ModuleType):
            return _is_pure(owner.__name__) or (
                owner is builtins and x.__name__ in _PURE_BUILTINS
            )
        return owner is None or isinstance(owner, (type, str, int, float, tuple))
    home = (x if isinstance(x, (type, types.FunctionType)) else type(x)).__module__
    return home == "builtins" or _is_pure(home or "")


def _is_pure(module: str) -> bool:
    """Whether a function of the standard library only computes. Other functions are searched, or
    reject traced values."""
    root = module.split(".")[0]
    return root in _PURE_MODULES or root not in sys.stdlib_module_names


class RandomState:
    """The states of other random generators, to be compared with their states later: of Python's
    ``random`` module, and of NumPy's generators."""

    def __init__(self, generators: Iterable[Any]) -> None:
        self.generators = list(generators)
        self.python = random.getstate()
        self.numpy = arrays.programs.random_states(self.generators)

    def drawn_from(self) -> str | None:
        """The source from which numbers have been drawn since, or None."""
        if random.getstate() != self.python:
            return "Python's random module"
        if arrays.programs.random_states(self.generators) != self.numpy:
            return "NumPy's random numbers"
        return None
