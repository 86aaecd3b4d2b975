"""Calls of every operation, as expressions in the arrays of ``_pool``: one module for each family.

What each does is compared with PyTorch by ``test_ops.py``: values, dtypes, memory, graph, first and
second derivatives. ``test_table.py`` asks that no operation of the table, and no public name, is
left out. A module of samples may define

- ``GROUPS``: lists of expressions, by name; ``ERRORS``: calls that must fail, with the same type of
  exception and the same words;
- ``SMOOTH``, ``SPECIAL``, ``FIXED``: arrays of its own, by names that no other module uses;
- and, each with a pattern and a reason, exceptions that hold for its samples:
  ``OTHER_GRAPH``: the graph differs on purpose (values and gradients are compared all the same);
  ``ONLY_OURS``: PyTorch cannot differentiate it, or takes it for a constant, and we can (values are
  compared);
  ``NOT_TWICE``: PyTorch refuses a second derivative, which we have (all else is compared);
  ``OTHER_SAVED``: nodes (by name) that save other tensors, or under other names;
  ``NOT_COMPLEX``: no comparison of complex numbers, where NumPy and C disagree, or PyTorch refuses;
  ``COARSE``: compared to fewer digits;
  ``ROUGH``: not compared with finite differences, which show something else there;
  ``NO_RULE``: inputs, by operation and name, that have no derivative, in operations that have one;
  ``NO_SLOPE``: operations whose rules differences do not show;
  ``SYMMETRIC`` (a set): operations that read one triangle of a matrix, and whose gradient is that
  of a symmetric one: differences are taken along symmetric directions;
  ``NOT_BATCHED``: not run under ``vmap``, by itself and of its gradient: shapes that depend on
  values, random numbers;
  ``NO_TANGENT``: its tangent is not compared with its gradient, nor second derivatives by forward
  mode with those by reverse mode;
  ``OTHER_TRANSFORM``: PyTorch's ``jvp`` or ``vmap`` of it gives something else, which is wrong or
  another convention (and ``OTHER_COMPLEX``: of complex numbers only);
  ``OTHER_WORDS``: bad calls (whole, a set) that Python or we refuse in other words than PyTorch.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
from types import ModuleType
from typing import Any

import pytest

from samples import _pool

# For quick turns while writing an operation: SAMPLES=special,linalg runs the samples of those.
_WANTED = os.environ.get("SAMPLES", "").split(",") if os.environ.get("SAMPLES") else None
MODULES: dict[str, ModuleType] = {
    info.name: importlib.import_module(f"samples.{info.name}")
    for info in pkgutil.iter_modules(__path__)
    if (info.name in _WANTED if _WANTED else not info.name.startswith("_"))
}
GROUPS: dict[str, list[str]] = {}
SOURCE: dict[str, ModuleType] = {}  # the module that a sample or a bad call comes from
ERRORS: list[str] = []
OTHER_SAVED: dict[str, str] = {}
NO_RULE: dict[tuple[str, str], str] = {}
NO_SLOPE: dict[str, str] = {}
SYMMETRIC: set[str] = set()
for _name, _module in MODULES.items():
    _pool.add_arrays(_module)
    for _group, _expressions in _module.GROUPS.items():
        GROUPS[f"{_name}.{_group}"] = list(dict.fromkeys(_expressions))
        for _expression in _expressions:
            SOURCE.setdefault(_expression, _module)
    for _expression in _module.ERRORS:
        SOURCE.setdefault(_expression, _module)
        ERRORS.append(_expression)
    OTHER_SAVED.update(getattr(_module, "OTHER_SAVED", {}))
    NO_RULE.update(getattr(_module, "NO_RULE", {}))
    NO_SLOPE.update(getattr(_module, "NO_SLOPE", {}))
    SYMMETRIC |= getattr(_module, "SYMMETRIC", set())
ERRORS = list(dict.fromkeys(ERRORS))
SAMPLES = list(dict.fromkeys(e for expressions in GROUPS.values() for e in expressions))


def reason(table: str, expression: str) -> str | None:
    """Why a sample is an exception of some kind; None if it is none."""
    patterns: dict[str, Any] = getattr(SOURCE[expression], table, {})
    if isinstance(patterns, set):
        return "said otherwise" if expression in patterns else None
    return next((why for p, why in patterns.items() if re.search(p, expression)), None)


def every_group(default: int) -> list[Any]:
    """The groups as parameters of a test: one in ``default`` of them is in the default suite, and
    the slow tests have them all."""
    return [
        pytest.param(group, marks=[pytest.mark.long] if number % default else [])
        for number, group in enumerate(GROUPS)
    ]


def of_module(name: str) -> list[str]:
    """The samples of one module."""
    return [e for e in SAMPLES if SOURCE[e] is MODULES[name]]
