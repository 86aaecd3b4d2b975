"""Elementwise kernels of several steps on large arrays, block by block and on several threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.arrays._numpy import Raw

WORTH_SHARING = 1 << 13  # elements


def in_blocks(kernel: Callable[..., Raw], *operands: Any, work: int = 10) -> Raw:
    """``kernel(*operands)``, whose results depend on the elements at the same place only. Operands
    that are not large arrays in reading order and of the shape of the first are no reason to share.

    ``work`` is roughly how many steps the kernel takes.
    """
    first = operands[0]
    if not isinstance(first, np.ndarray) or first.size < WORTH_SHARING:
        return kernel(*operands)
    whole = [x if np.ndim(x) else None for x in operands]
    if any(x is not None and not _alike(x, first) for x in whole):
        return kernel(*operands)
    from retrograd.arrays import _blocks as blocks

    result = np.empty(first.shape, np.result_type(*operands))

    def run(out: Raw, *parts: Raw | None) -> None:
        out[...] = kernel(*[o if p is None else p for o, p in zip(operands, parts, strict=True)])

    flat = [None if x is None else x.reshape(-1) for x in whole]
    blocks.run(run, result.reshape(-1), *flat, work=work)
    return result


def _alike(x: Raw, first: Raw) -> bool:
    return bool(x.shape == first.shape and x.flags.c_contiguous)
