"""What gives another answer at each call, though no object that a function can see has changed:
clocks, and random numbers that are not ours. And what does more than give an answer: prints it, or
writes it to a file."""

from __future__ import annotations

import builtins
import random
import sys
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


# What user code may use if all it does is to compute. All else may have effects.
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
    """A builtin function or a module that some code uses, and that may do more than compute."""
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
    """Whether a function, or an object, of another library than ours cannot have effects; what is
    neither of another library nor built in is looked into elsewhere."""
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
