"""The errors for matrices that an algorithm of linear algebra cannot handle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from retrograd.arrays._numpy import Raw


class _LinAlgError(RuntimeError):
    """A matrix that an algorithm cannot work on: singular, or not positive definite."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _linalg_error, self.args


LinAlgError = _LinAlgError  # what users call it; its name in messages is PyTorch's
LinAlgError.__module__ = "torch._C"


def _linalg_error(*words: str) -> LinAlgError:
    return LinAlgError(*words)


def failed(function: str, number: int, shape: Sequence[int], words: str) -> LinAlgError:
    """The error for a matrix of a batch; ``number`` counts matrices."""
    batch = f"(Batch element {number}): " if len(shape) > 2 else ""
    return LinAlgError(f"{function}: {batch}{words}")


def _first_failure(infos: Raw) -> tuple[int, int] | None:
    """Which matrix failed first, and LAPACK's word for why."""
    failed = np.flatnonzero(np.asarray(infos))
    return (int(failed[0]), int(np.reshape(infos, -1)[failed[0]])) if failed.size else None


# -- refusals, one for each reason that LAPACK gives -----------------------------------------


def refuse_singular_inverse(function: str, infos: Raw, shape: Sequence[int]) -> None:
    if failure := _first_failure(infos):
        raise failed(
            function, failure[0], shape,
            f"The diagonal element {failure[1]} is zero, the inversion could not be completed "
            "because the input matrix is singular.",
        )  # fmt: skip


def refuse_singular_solve(function: str, infos: Raw, shape: Sequence[int]) -> None:
    if failure := _first_failure(infos):
        words = "The solver failed because the input matrix is singular."
        raise failed(function, failure[0], shape, words)


def refuse_not_positive(function: str, infos: Raw, shape: Sequence[int]) -> None:
    if failure := _first_failure(infos):
        raise failed(
            function, failure[0], shape,
            "The factorization could not be completed because the input is not positive-definite "
            f"(the leading minor of order {failure[1]} is not positive-definite).",
        )  # fmt: skip


def refuse_zero_pivot(function: str, infos: Raw, shape: Sequence[int]) -> None:
    if failure := _first_failure(infos):
        batch = f"(Batch element {failure[0]}): " if len(shape) > 2 else ""
        raise RuntimeError(
            f"{function}: {batch}U[{failure[1]},{failure[1]}] is zero and using it on lu_solve "
            "would result in a division by zero. If you still want to perform the factorization, "
            "consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
        )


def refuse_zero_block(function: str, infos: Raw, shape: Sequence[int]) -> None:
    if failure := _first_failure(infos):
        batch = f"(Batch element {failure[0]}): " if len(shape) > 2 else ""
        raise RuntimeError(
            f"{function}: {batch}D[{failure[1]},{failure[1]}] is zero: the matrix is singular. Use "
            "linalg.ldl_factor_ex to factor it all the same."
        )


def refuse_wrong_pivots(what: str, pivots: Raw, rows: int) -> None:
    """LAPACK writes wherever pivots point to, so they must be in range."""
    if ((pivots < 1) | (pivots > rows)).any():
        raise RuntimeError(
            f"{what} must be between 1 and LU.size(-2) inclusive."
            "Did you properly pass the result of lu_factor?"
        )


def refuse_wrong_blocks(pivots: Raw, rows: int) -> None:
    """As ``refuse_wrong_pivots``, for ``sytrs``: two negative numbers in a row are a block of D."""
    first = np.zeros(pivots.shape[:-1], bool)  # whether the second of a block must follow
    wrong = (pivots == 0) | (np.abs(pivots.astype(np.int64)) > rows)
    for i in range(pivots.shape[-1]):
        negative = pivots[..., i] < 0
        wrong[..., i] |= first & ~negative
        first = negative & ~first
    if wrong.any() or first.any():
        raise RuntimeError(
            "torch.linalg.ldl_solve: these pivots are not a result of torch.linalg.ldl_factor for "
            f"matrices of {rows} rows: expected numbers from 1 to {rows}, and negative ones in "
            "pairs"
        )
