"""Matrices with NaN or infinity, which must not reach LAPACK.

What LAPACK makes of them differs from one build to the next: some routines never return, some drop
a NaN that is multiplied by zero, some raise. So they are looked for first. A decomposition that
goes on until it converges is not tried on such a matrix; one that takes a known number of steps is
done here, step by step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.arrays._numpy import Raw


def where(x: Raw) -> Raw | None:
    """Which matrices of a batch hold NaN or infinity; None if none does."""
    finite = np.isfinite(x)
    return None if finite.all() else ~finite.all((-2, -1))


def first_with_nan(x: Raw) -> int | None:
    """The number of the first matrix of a batch that holds NaN."""
    result = np.flatnonzero(np.isnan(x).any((-2, -1)))
    return int(result[0]) if result.size else None


def replaced(x: Raw, bad: Raw) -> Raw:
    """``x`` with zeros for the matrices that are not finite, which any routine can work on."""
    return np.where(bad[..., None, None], 0, x).astype(x.dtype)


def marked(bad: Raw, *results: Raw) -> tuple[Raw, ...]:
    """Results, which are NaN for the matrices that are not finite."""
    for x in results:
        x[bad] = complex(np.nan, np.nan) if x.dtype.kind == "c" else np.nan
    return results


# -- one matrix, step by step ----------------------------------------------------------------


def cholesky(x: Raw, upper: bool) -> tuple[Raw, int]:
    """The factor of one matrix as far as it goes, and the order of the minor that ends it."""
    a = np.tril(x.T.conj() if upper else x)
    info = 0
    with np.errstate(all="ignore"):
        for j in range(len(a)):
            row = a[j, :j]
            pivot = a[j, j].real - np.sum((row * row.conj()).real)
            if not pivot > 0:
                a[j, j], info = pivot, j + 1
                break
            a[j, j] = np.sqrt(pivot)
            a[j + 1 :, j] = (a[j + 1 :, j] - a[j + 1 :, :j] @ row.conj()) / a[j, j]
    return a.T.conj() if upper else a, info


def geqrf(x: Raw) -> tuple[Raw, Raw]:
    """R of one matrix, below it the vectors of the reflections that make Q, and their scales."""
    a = x.copy()
    tau = np.zeros(min(a.shape), a.dtype)
    with np.errstate(all="ignore"):
        for j in range(len(tau)):
            first, rest = a[j, j], a[j + 1 :, j]
            size = np.sqrt(np.sum((rest * rest.conj()).real))
            if size == 0 and first.imag == 0:
                continue  # nothing to reflect
            beta = -np.copysign(np.hypot(np.abs(first), size), first.real)
            tau[j] = (beta - first) / beta
            a[j + 1 :, j] = rest / (first - beta)
            a[j, j] = beta
            _reflect(a[j:, j + 1 :], a[j + 1 :, j], tau[j].conj())
    return a, tau


def qr(x: Raw, mode: str) -> tuple[Raw, Raw]:
    """Q and R of one matrix."""
    a, tau = geqrf(x)
    rows, k = a.shape[0], len(tau)
    columns = rows if mode == "complete" else k
    q = np.eye(rows, columns, dtype=x.dtype)
    with np.errstate(all="ignore"):
        for j in reversed(range(k)):
            _reflect(q[j:, j:], a[j + 1 :, j], tau[j])
    return q, np.triu(a[:columns])


def _reflect(x: Raw, below: Raw, scale: Any) -> None:
    """Apply a reflection in place; its vector is a one, and then what is ``below``."""
    vector = np.concatenate([np.ones(1, x.dtype), below])
    x -= scale * np.outer(vector, vector.conj() @ x)
