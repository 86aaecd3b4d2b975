"""Checks tangents of forward mode against finite differences.

An input is moved along one real direction at a time. Slow mode takes the direction of each of its
elements, and so gets the Jacobian a row at a time; fast mode takes one at random.
"""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.autograd import forward_ad
from retrograd.autograd._jacobians import (
    GradcheckError,
    Problem,
    Settings,
    beside,
    close,
    mismatch,
    numerical_jacobians,
    values_of,
    worst_element,
)
from retrograd.autograd._levels import as_tensor, opened
from retrograd.autograd._wrap import wrap
from retrograd.ops._batching import Batched, BatchLevel

Tensor = Any
MODE = "computed with forward mode "


def variable(x: Tensor) -> Tensor:
    """A tensor with the memory of an input, that requires grad as that does."""
    return x.detach().requires_grad_()


def tangents_along(
    problem: Problem, j: int, x: Tensor, direction: Tensor
) -> list[Tensor | None]:
    """How the outputs move if input ``j``, for which ``x`` stands, does; None for those that do
    not."""
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, direction)
        outputs = problem.at(problem.inputs[j], dual)
        return [forward_ad.unpack_dual(y).tangent for y in outputs]


def rows_along(problem: Problem, j: int, direction: Raw) -> list[Raw]:
    x = problem.inputs[j]
    moved = tangents_along(problem, j, variable(x), beside(x, direction))
    return [
        arrays.zeros(y.shape, y.dtype.to_real().numpy) if t is None else values_of(t)
        for t, y in zip(moved, problem.outputs, strict=True)
    ]


def units(x: Tensor) -> list[complex]:
    """The directions that one element can move in."""
    return [1, 1j] if x.is_complex() else [1]


def check_all(problem: Problem, settings: Settings) -> None:
    """Compare whole Jacobians."""
    for j, x in enumerate(problem.inputs):
        numerical = numerical_jacobians(problem.evaluate, x, problem.outputs, settings.eps)
        analytical = [arrays.zeros(n.shape, n.dtype) for n in numerical]
        for k in range(x.numel()):
            for unit in units(x):
                direction = arrays.zeros((x.numel(),), x.dtype.numpy)
                direction[k] = unit
                for a, row in zip(
                    analytical, rows_along(problem, j, direction.reshape(x.shape)), strict=True
                ):
                    a[k] += row.reshape(-1) * unit
        for i, (a, n) in enumerate(zip(analytical, numerical, strict=True)):
            if not close(a, n, settings.rtol, settings.atol).all():
                raise GradcheckError(
                    mismatch(problem, i, j, wrap(n), wrap(a), MODE)
                    + worst_element(problem, i, j, n, a, settings)
                )


def check_projection(
    problem: Problem, settings: Settings, all_u: list[list[Raw]], all_v: list[Raw],
    numerical: list[Any],
) -> None:  # fmt: skip
    """Compare the projections ``uᵀ J v`` only."""
    for j, (x, u) in enumerate(zip(problem.inputs, all_u, strict=True)):
        total: list[Any] = [0] * len(problem.outputs)
        for s, unit in zip(u, units(x), strict=True):
            direction = arrays.cast(s * unit, x.dtype.numpy).reshape(x.shape)
            for i, row in enumerate(rows_along(problem, j, direction)):
                total[i] = total[i] + row.reshape(-1) * unit
        for i, v in enumerate(all_v):
            n, a = arrays.sum(v * numerical[j][i]), arrays.sum(v * total[i])
            atol = settings.atol * float(sum(arrays.sum(s) for s in u)) * float(arrays.sum(v))
            if not close(a, n, settings.rtol, atol):
                raise GradcheckError(mismatch(problem, i, j, n.item(), a.item(), MODE))


def check_batched(problem: Problem) -> None:
    """That two tangents in a batch give what each of them gives alone."""
    generator = arrays.random.Generator()
    for j, x in enumerate(problem.inputs):
        batch = arrays.random.normal((2, *x.shape), x.dtype.numpy, generator)
        alone = [rows_along(problem, j, t) for t in batch]
        leaf = variable(x)  # made outside of vmap, where leaves are not to be made
        try:
            with opened(BatchLevel(2)) as level:
                moved = tangents_along(problem, j, leaf, wrap(Batched(level, beside(x, batch))))
                results = [t if t is None else as_tensor(level.stacked(t._data)) for t in moved]
        except RuntimeError as error:
            raise GradcheckError(
                f"While computing batched gradients, got: {error}\n\n{_FAILED}"
            ) from error
        for i, t in enumerate(results):
            wanted = arrays.stack([rows[i] for rows in alone])
            got = arrays.zeros(wanted.shape, wanted.dtype) if t is None else values_of(t)
            if got.shape != wanted.shape or not close(got, wanted, 1e-5, 1e-8).all():
                raise GradcheckError(
                    f"For output {i} and input {j}:\n\n{_FAILED}\n\nGot:\n{wrap(got)}\n\n"
                    f"Expected:\n{wrap(wanted)}"
                )


_FAILED = (
    "gradcheck failed while testing batched computation of tangents, that is forward mode under\n"
    "vmap. To leave this check out, call gradcheck with `check_batched_forward_grad=False`."
)
