"""Reductions of elements across ranks."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from retrograd import arrays


class ReduceOp(enum.Enum):
    """The operation of a reduction: SUM, AVG, PRODUCT and so on.

    >>> ReduceOp.SUM
    <RedOpType.SUM: 0>
    """

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"

    def __repr__(self) -> str:
        return f"<RedOpType.{self.name}: {self.value}>"


_BITS = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
_OF_COMPLEX = (ReduceOp.SUM, ReduceOp.AVG)
_IN_MPI = {"AVG": "SUM", "PRODUCT": "PROD"}
# For bools, stored as 0 and 1: True + True is True, as in PyTorch.
_OF_BOOLS = {"SUM": "MAX", "PRODUCT": "MIN"}


def check(name: str, op: Any, kind: str) -> None:
    """Raise an error unless ``op`` is a reduction that supports the dtype."""
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{name}: op must be one of ReduceOp, not {op!r}")
    if kind == "c" and op not in _OF_COMPLEX:
        raise ValueError(f"{name} does not support {op} on complex tensors")
    if op in _BITS and kind not in "biu":
        raise RuntimeError(f"Cannot use ReduceOp.{op.name} with non-integral dtype")
    if op is ReduceOp.AVG and kind == "b":
        raise RuntimeError("result type Float can't be cast to the desired output type Bool")
    if op is ReduceOp.AVG and kind in "iu":
        raise RuntimeError(
            "Cannot use ReduceOp.AVG with integral dtype: the average of integers is not one. "
            "Use SUM, and divide as you need"
        )


def in_mpi(mpi: Any, op: ReduceOp, kind: str) -> Any:
    """MPI's name of an operation."""
    if mpi is None:
        return None
    name = _OF_BOOLS.get(op.name, op.name) if kind == "b" else op.name
    return getattr(mpi, _IN_MPI.get(name, name))


def workable(array: Any) -> tuple[Any, Callable[[Any], Any]]:
    """A flat array in a form that MPI can compute on, and a function that converts a result back.
    Complex numbers become pairs and bools become bytes; floats of two bytes, which MPI lacks, are
    computed in float32."""
    dtype = array.dtype
    if dtype.kind == "b":
        return array.view("u1"), lambda result: result.view(dtype)
    if dtype.kind == "c":
        return array.view(f"f{dtype.itemsize // 2}"), lambda result: result.view(dtype)
    if dtype.itemsize == 2 and dtype.kind in arrays.dtypes.FLOATS:
        return array.astype("f4"), lambda result: result.astype(dtype)
    return array, lambda result: result


def averaged(array: Any, op: ReduceOp, count: int) -> None:
    """Divide sums by the number of ranks for an average."""
    if op is ReduceOp.AVG:
        arrays.write(array, array / count)
