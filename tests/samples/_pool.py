"""Arrays with short names, and expressions in them evaluated in PyTorch or in retrograd.

``torch`` in an expression is bound to one library and each name of the pool to a tensor of it, so
that a line of text (``mat.sum(-1, keepdim=True)``) is a whole experiment, the same in both.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np

INF, NAN = float("inf"), float("nan")
FLOATS = ("float64", "float32", "complex128", "complex64")


def draw(shape: tuple[int, ...], low: float, high: float, seed: int) -> np.ndarray:
    """Numbers in a range, with an imaginary part in the same range; real dtypes leave it away."""
    parts = np.random.default_rng(seed).uniform(low, high, (2, *shape))
    return np.asarray(parts[0] + 1j * parts[1])


# Everyday values: any sign, nothing equal to anything else. Arrays of the dtype under test.
SMOOTH = {
    "sc": draw((), -2, 2, 1), "sc2": draw((), -2, 2, 2), "vec": draw((3,), -2, 2, 3),
    "vec2": draw((2,), -2, 2, 4), "one": draw((1, 1), -2, 2, 5), "row": draw((1, 3), -2, 2, 6),
    "col": draw((2, 1), -2, 2, 7), "mat": draw((2, 3), -2, 2, 8), "mat2": draw((2, 3), -2, 2, 9),
    "mat3": draw((3, 2), -2, 2, 10), "sq": draw((3, 3), -2, 2, 11),
    "cube": draw((2, 3, 2), -2, 2, 12), "cube2": draw((2, 2, 3), -2, 2, 13),
    "cube1": draw((1, 2, 3), -2, 2, 14), "four": draw((2, 1, 3, 2), -2, 2, 15),
    "pos": draw((2, 3), 0.3, 2, 16), "spos": draw((), 0.3, 2, 17),
    "vpos": draw((3,), 0.3, 2, 18), "unit": draw((2, 3), -0.9, 0.9, 19),
    "big": draw((2, 3), 1.2, 3, 20),
    "tran": draw((3, 2), -2, 2, 21).T, "step": draw((4, 3), -2, 2, 22)[::2],
    "ptran": draw((3, 2), 0.3, 2, 23).T, "btran": draw((2, 2, 3), -2, 2, 24).transpose(0, 2, 1),
}  # fmt: skip
# Values at which something special happens; derivatives there are conventions, not limits.
SPECIAL = {
    "zero": np.array(0.0), "edge": np.array([-1.0, -0.0, 0.0, 1.0, 2.0]),
    "half": np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]),
    "tied": np.array([[1.0, 2.0, 2.0], [2.0, 2.0, 1.0]]),
    "tied2": np.array([[1.0, 2.0, 3.0], [2.0, 1.0, 1.0]]),
    "onez": np.array([[0.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
    "twoz": np.array([[0.0, 2.0, 0.0], [4.0, 0.0, 6.0]]),
    "inf": np.array([[-INF, 1.0, INF], [2.0, -3.0, INF]]),
    "nan": np.array([[NAN, 1.0, -INF], [INF, -2.0, 3.0]]),
    "empty": np.zeros((0,)), "none": np.zeros((0, 3)), "gap": np.zeros((2, 0)),
    "gap3": np.zeros((2, 0, 3)),
}  # fmt: skip
# Arrays that no gradient goes to, in a dtype of their own.
FIXED = {
    "i": np.array([[3, -2, 0], [5, 7, -4]]), "iv": np.array([2, 3, 1]), "isc": np.array(3),
    "i32": np.array([4, -5, 6], np.int32), "u8": np.array([250, 3, 0], np.uint8),
    "i8": np.array([-7, 100, 3], np.int8), "ipos": np.array([[3, 2, 0], [1, 4, 2]]),
    "k": np.array([[True, False, True], [False, False, True]]), "kv": np.array([True, False, True]),
    "ksc": np.array(True), "knot": np.zeros((2, 3), bool), "kempty": np.zeros((0,), bool),
    "f16": np.array([1.5, -2.0, 0.5], np.float16), "f32": np.array([1.5, -2.0, 0.25], np.float32),
    "f64": np.array([0.5, 2.0, -4.0]), "fsc": np.array(0.1), "csc": np.array(0.5 - 1.5j),
    "c64": np.array([1 + 2j, -1j, 3], np.complex64), "at": np.array([0, 2, 1, 0]),
    "at32": np.array([1, 0], np.int32), "rows": np.array([[1], [0]]), "cols": np.array([[2, 0]]),
    "back": np.array([-1, 0]), "iempty": np.zeros((0,), np.int64),
}  # fmt: skip
POOL = {**SMOOTH, **SPECIAL, **FIXED}


def add_arrays(module: Any) -> None:
    """Take in the arrays that a module of samples defines."""
    for kind, pool in (("SMOOTH", SMOOTH), ("SPECIAL", SPECIAL), ("FIXED", FIXED)):
        for name, array in getattr(module, kind, {}).items():
            assert name not in POOL, f"two arrays called {name}"
            pool[name] = POOL[name] = array


_WORD = re.compile(r"(?<![\w.'])[a-z]\w*")


@cache
def names_in(expression: str) -> tuple[str, ...]:
    """The arrays of the pool that an expression uses, in the order of the pool."""
    used = set(_WORD.findall(expression))
    return tuple(name for name in POOL if name in used)


def in_dtype(name: str, dtype: str) -> np.ndarray:
    """An array of the pool in the dtype under test, with its own memory layout."""
    value = POOL[name]
    if name in FIXED:
        return value.copy()
    if value.dtype.kind == "c" and not dtype.startswith("complex"):
        value = value.real
    strided = np.empty_like(value, dtype=dtype)  # keeps the order of the strides
    if name == "step":
        strided = np.empty((4, 3), dtype)[::2]
    strided[...] = value
    return strided


def put(target: Any, index: Any, value: Any) -> Any:
    """``target[index] = value``, as an expression."""
    target[index] = value
    return target


def written(target: Any, view: Any, method: str, *args: Any) -> Any:
    """``view(target).method_(...)``, and the target it wrote into."""
    getattr(view(target), method)(*args)
    return target


def evaluate(library: Any, expression: str, dtype: str) -> tuple[dict[str, Any], list[Any]]:
    """The tensors that an expression uses, by name, and what it gives, as a list.

    All that have the dtype under test require grad.
    """
    tensors = {}
    for name in names_in(expression):
        tensors[name] = library.from_numpy(in_dtype(name, dtype))
        if name not in FIXED:
            tensors[name].requires_grad_(True)
    result = _run(library, expression, tensors)
    return tensors, list(result) if isinstance(result, (tuple, list)) else [result]


def _run(library: Any, expression: str, tensors: dict[str, Any]) -> Any:
    names = {"torch": library, "put": put, "written": written, "INF": INF, "NAN": NAN}
    return eval(expression, {**names, **tensors})


def raw_result(library: Any, expression: str) -> Any:
    """What an expression gives, as it is, for tensors of double precision without gradients."""
    names = names_in(expression)
    tensors = {name: library.from_numpy(in_dtype(name, "float64")) for name in names}
    return _run(library, expression, tensors)


def as_array(tensor: Any) -> np.ndarray:
    """The elements of a tensor of either library."""
    return np.asarray(tensor.numpy(force=True))


def weights_for(tensors: list[Any], seed: int) -> list[np.ndarray]:
    """Random numbers of the shape and dtype of each tensor."""
    random = np.random.default_rng(seed)
    found = []
    for tensor in tensors:
        like = as_array(tensor)
        parts = random.uniform(-1, 1, (2, *like.shape))
        mixed = parts[0] + 1j * parts[1] if like.dtype.kind == "c" else parts[0]
        found.append(np.asarray(mixed, like.dtype))
    return found
