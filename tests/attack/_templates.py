"""Calls of every operation, taken from the samples: expressions whose operands can be exchanged."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from ._drawing import literal

# Samples that say nothing in a program, or nothing that can be compared.
_LEFT_OUT = re.compile(
    r"\b(put|written)\(|\bempty(_like|_strided)?\(|new_empty|empty_permuted|\.empty\("
    r"|set_default|set_printoptions|set_num|multiprocess|__|\bid\(|data_ptr|storage|memory"
    r"|grad_fn|next_functions|\.numpy\(|str\(|repr\(|type\("
)
CRASHES = re.compile(r"\beig|linalg\.eig|grid_sample")  # in PyTorch, if not all is finite
# In PyTorch, if shapes do not fit.
CRASHES_UNLESS_FIT = re.compile(r"\b(gru|lstm|rnn_tanh|rnn_relu|lu_solve)\(")
# In PyTorch, with pivots that are none: it exchanges rows beyond the matrix, and dies later.
CRASHES_UNLESS_PIVOTS = re.compile(r"\blu_(solve|unpack)\(")
_RANDOM = re.compile(r"manual_seed|rand|dropout|normal|uniform|bernoulli|multinomial|poisson")


@dataclass
class Operand:
    """An array that a sample is written in."""

    name: str
    array: np.ndarray
    dtype: str | None  # None: that of the program

    def fits(self, shape: tuple[int, ...], dtype: str, main: str) -> bool:
        return shape == self.array.shape and dtype == (self.dtype or main)

    def text(self, main: str, more: str) -> str:
        return literal(self.array, self.dtype or main, more if self.dtype is None else "")


@dataclass
class Template:
    """A sample, and what is known of it."""

    text: str
    operands: list[Operand]
    is_bad: bool  # it must fail
    complex: bool  # complex numbers can be compared
    differentiable: bool  # PyTorch differentiates it, twice too
    transforms: bool  # PyTorch's forward mode and vmap of it are right
    few_digits: bool
    is_random: bool
    main: int  # how many operands have the dtype of the program

    def __post_init__(self) -> None:
        names = "|".join(sorted((o.name for o in self.operands), key=len, reverse=True))
        self._names = re.compile(rf"(?<![\w.'])(?:{names})(?!\w|=[^=])") if names else None

    def filled(self, names: dict[str, str]) -> str:
        """The expression, in other operands."""
        if self._names is None:
            return self.text
        return self._names.sub(lambda found: names[found[0]], self.text)


@cache
def templates() -> list[Template]:
    """All samples that can be a line of a program."""
    tests = str(Path(__file__).resolve().parents[1])
    if tests not in sys.path:
        sys.path.insert(0, tests)
    from samples import ERRORS, SAMPLES

    bad = set(ERRORS)
    found = [made(text, text in bad) for text in dict.fromkeys([*SAMPLES, *ERRORS])]
    return [template for template in found if template is not None]


def made(text: str, is_bad: bool) -> Template | None:
    from samples import _pool, reason

    if _LEFT_OUT.search(text):
        return None
    operands = []
    for name in _pool.names_in(text):
        array = _pool.POOL[name]
        if array.size > 60:
            return None
        if CRASHES.search(text) and not np.isfinite(array).all():
            return None
        dtype = array.dtype.name if name in _pool.FIXED else None
        operands.append(Operand(name, array, dtype))

    def said(*tables: str) -> bool:
        return any(reason(table, text) is not None for table in tables)

    plain = re.sub(r"\bINF\b", "inf", re.sub(r"\bNAN\b", "nan", text))
    clashes = {"inf", "nan"} & {o.name for o in operands}
    if clashes and plain != text:
        return None
    return Template(
        plain, operands, is_bad,
        complex=not said("NOT_COMPLEX"),
        differentiable=not said("ONLY_OURS"),
        transforms=not said("OTHER_TRANSFORM", "OTHER_COMPLEX", "NOT_BATCHED", "NO_TANGENT",
                            "ONLY_OURS"),
        few_digits=said("COARSE"),
        is_random=_RANDOM.search(text) is not None,
        main=sum(o.dtype is None for o in operands),
    )  # fmt: skip


@cache
def by_shape() -> dict[tuple[int, ...], list[tuple[Template, Operand]]]:
    """Samples that are functions of one tensor of the program's dtype, by its shape."""
    found: dict[tuple[int, ...], list[Any]] = {}
    for template in templates():
        if template.is_bad or not template.transforms or template.is_random:
            continue
        for operand in template.operands:
            if operand.dtype is None:
                found.setdefault(operand.array.shape, []).append((template, operand))
    return found


def chosen(random: Random, main: str) -> Template:
    """A sample that can be run in a dtype."""
    everything = templates()
    while True:
        template = everything[int(random.random() * len(everything))]
        if main.startswith("complex") and not template.complex:
            continue
        return template
