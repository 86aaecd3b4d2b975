"""Sobol sequences: low-discrepancy points, with SciPy's direction numbers."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
BITS = 30
MOST_DIMENSIONS = 21201


@cache
def _table() -> tuple[Any, Any]:
    """The polynomials and first numbers of all dimensions (of Joe and Kuo)."""
    import importlib.util

    spec = importlib.util.find_spec("scipy")
    assert spec is not None
    assert spec.origin is not None
    path = os.path.join(os.path.dirname(spec.origin), "stats", "_sobol_direction_numbers.npz")
    with np.load(path) as file:
        return file["poly"].astype(np.int64), file["vinit"].astype(np.int64)


def direction_numbers(dimensions: int) -> Integers:
    """What each bit of the number of a point adds to its coordinates: an integer for each dimension
    and bit."""
    poly, first = _table()
    numbers = np.zeros((dimensions, BITS), np.int64)
    numbers[0] = 1
    for d in range(1, dimensions):
        degree = int(poly[d]).bit_length() - 1
        row = [int(x) for x in first[d, :degree]]
        terms = [i for i in range(degree) if int(poly[d]) >> (degree - 1 - i) & 1]
        for k in range(degree, BITS):
            new = row[k - degree]
            for i in terms:
                new ^= row[k - i - 1] << (i + 1)
            row.append(new)
        numbers[d] = row[:BITS]
    return numbers << np.arange(BITS - 1, -1, -1)


def scrambled(numbers: Integers, matrices: Integers) -> Integers:
    """Direction numbers whose bits are multiplied by matrices, lower triangles with ones on the
    diagonal, modulo 2."""
    bit_numbers = np.arange(BITS - 1, -1, -1)
    matrices = np.tril(matrices, -1) + np.eye(BITS, dtype=np.int64)
    bits = numbers[:, :, None] >> bit_numbers & 1
    products = np.einsum("dpi,dji->djp", matrices, bits) & 1
    return np.asarray((products << bit_numbers).sum(-1), np.int64)


def following(quasi: Integers, numbers: Integers, start: int, count: int) -> Integers:
    """The points after one point, in order, by Gray codes: ``start`` is how many there were."""
    index = np.arange(start, start + count, dtype=np.int64)
    last = (~index & -(~index)).astype(np.float64)  # the lowest bit that is not set
    changes = numbers[:, np.log2(last).astype(np.int64)].T
    joined = np.concatenate([quasi[None], changes])
    return np.asarray(np.bitwise_xor.accumulate(joined, 0)[1:], np.int64)
