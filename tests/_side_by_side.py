"""Expressions evaluated in PyTorch and here: the same values, types, warnings and refusals."""

from __future__ import annotations

import array
import re
import warnings
from collections import OrderedDict, deque
from typing import Any

import numpy as np


def outcome(library: Any, code: str, **names: Any) -> str:
    """What an expression, or the last line of a program, comes to: its value, or its error, and the
    warnings on the way."""
    space = {
        "torch": library, "nn": library.nn, "F": library.nn.functional, "np": np, "array": array,
        "deque": deque, "OrderedDict": OrderedDict, **names,
    }  # fmt: skip
    *lines, last = code.strip().split("\n")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", RuntimeWarning)  # which the package turns off for itself
        library.manual_seed(0)
        try:
            exec("\n".join(lines), space)
            said = shown(eval(last, space))
        except Exception as error:
            said = f"{type(error).__name__}: {first_line(str(error))}"
    for warning in warned:
        said += f"\n{warning.category.__name__}: {first_line(str(warning.message))}"
    return said


def first_line(text: str) -> str:
    """Without what PyTorch adds about its own source."""
    return plain(text.split("(Triggered internally")[0].strip().split("\n")[0])


def plain(text: str) -> str:
    """With the names of both libraries made one, and without addresses."""
    text = text.replace("retrograd.", "torch.")
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def shown(value: Any) -> str:
    """A value with all of its digits that both libraries have to agree on."""
    if isinstance(value, (tuple, list)) and not hasattr(value, "numel"):
        return f"{type(value).__name__}({', '.join(map(shown, value))})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {shown(v)}" for k, v in value.items()) + "}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return plain(repr(value))
