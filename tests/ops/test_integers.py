"""Wherever an operation takes a dimension, a size or a count, it may be one of NumPy's integers,
or a tensor of one.

Each integer in a sample, by function and place in the call, is replaced by one: nothing changes.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from samples import SAMPLES
from samples._pool import evaluate
from test_ops import attempt, compare_tensors, words

import retrograd

# Functions whose integers are dimensions, sizes and counts, not numbers to compute with.
FUNCTIONS = {
    "sum", "mean", "prod", "amax", "amin", "max", "min", "all", "any", "argmax", "argmin", "std",
    "var", "cumsum", "cumprod", "cummax", "cummin", "logsumexp", "logcumsumexp", "softmax",
    "log_softmax", "count_nonzero", "norm", "unsqueeze", "squeeze", "transpose", "movedim",
    "permute", "flip", "roll", "chunk", "unbind", "select", "narrow", "unfold", "flatten",
    "unflatten", "reshape", "view", "expand", "repeat", "tile", "split_with_sizes",
    "unsafe_chunk", "diagonal", "diag", "diag_embed", "tril", "triu", "topk", "kthvalue", "median",
    "nanmedian", "mode", "sort", "argsort", "gather", "scatter_add", "index_select",
    "zeros", "ones", "empty", "eye", "randint", "randperm", "conv1d", "conv2d", "conv3d",
    "conv_transpose1d", "conv_transpose2d", "max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d",
    "adaptive_avg_pool1d", "fft", "ifft", "rfft", "fftn", "ifftn", "rfftn", "irfftn", "fftshift",
    "one_hot", "embedding", "pad", "cat", "stack", "logspace", "swapaxes", "rot90", "diff",
    "renorm", "vander", "bincount", "embedding_bag", "pixel_shuffle", "channel_shuffle", "glu",
    "group_norm", "as_strided", "gradient", "trapezoid", "cosine_similarity", "vector_norm",
    "cross", "vecdot",
}  # fmt: skip

# These take tensors too, for other things than dimensions.
OF_TENSORS = {"max", "min", "gradient", "cosine_similarity", "norm"}


def is_integer(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) is int


def places(tree: ast.AST) -> Iterator[tuple[tuple[str, Any], list[Any], int, Any]]:
    """Where integers are among the arguments: what the place is called, and how to write there."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        name = ast.unparse(call.func).split(".")[-1]
        arguments = [*enumerate(call.args), *((k.arg, k.value) for k in call.keywords)]
        for where, value in arguments:
            if is_integer(value):
                yield (name, where), call, where, value
            elif isinstance(value, (ast.Tuple, ast.List)):
                for i, item in enumerate(value.elts):
                    if is_integer(item):
                        yield (name, f"{where}[{i}]"), value, i, item


def replaced(expression: str, number: int, kind: str) -> str:
    """The sample with one of its integers written as a call of ``kind``."""
    tree = ast.parse(expression, mode="eval")
    _, holder, where, value = list(places(tree))[number]
    new = ast.Call(ast.Name(kind, ast.Load()), [copy.deepcopy(value)], [])
    if isinstance(holder, (ast.Tuple, ast.List)):
        holder.elts[where] = new
    elif isinstance(where, int):
        holder.args[where] = new
    else:
        next(k for k in holder.keywords if k.arg == where).value = new
    return ast.unparse(tree)


def cases() -> dict[str, list[tuple[str, int]]]:
    """For each function, samples and the numbers of integers in them; each place once."""
    found: dict[str, list[tuple[str, int]]] = {}
    seen = set()
    for expression in SAMPLES:
        for number, (place, *_) in enumerate(places(ast.parse(expression, mode="eval"))):
            if place[0] in FUNCTIONS and place not in seen and "out=" not in expression:
                seen.add(place)
                found.setdefault(place[0], []).append((expression, number))
    return found


CASES = cases()


@pytest.mark.parametrize("function", CASES)
def test_any_integer_will_do(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {"NumpyInt": np.int64, "NumpyInt32": np.int32}
    if function not in OF_TENSORS:
        kinds["TensorInt"] = retrograd.tensor
    for kind, make in kinds.items():
        monkeypatch.setattr(builtins, kind, make, raising=False)
    for expression, number in CASES[function]:
        expected = attempt(evaluate, retrograd, expression, "float64")
        if isinstance(expected, Exception):
            continue  # a sample of words
        for kind in kinds:
            changed = replaced(expression, number, kind)
            found = attempt(evaluate, retrograd, changed, "float64")
            assert not isinstance(found, Exception), f"{changed}: {words(found)}"
            for a, b in zip(expected[1], found[1], strict=True):
                assert not list(compare_tensors(a, b, changed, False))
