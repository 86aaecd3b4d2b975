"""``numpy.linalg``. Integers are converted to the default dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import retrograd as torch
from retrograd.numpy_protocols import _products, _shapes, _ufuncs
from retrograd.numpy_protocols._arguments import array, count_of, floating, promoted, refuse


def _same(name: str) -> Callable[..., Any]:
    """A function of one matrix that has the same name and options with us."""

    def function(a: Any, *args: Any, **named: Any) -> Any:
        return getattr(torch.linalg, name)(floating(a), *args, **named)

    return function


for _name in ("det", "slogdet", "inv", "eigvals", "eigvalsh", "svdvals", "matrix_power", "cond",
              "eig", "eigh"):  # fmt: skip
    globals()[_name] = _same(_name)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    x = floating(x)
    if axis is None and ord is None:
        return torch.linalg.vector_norm(x, 2, None, keepdims)
    axis = tuple(axis) if isinstance(axis, (tuple, list)) else axis
    return torch.linalg.norm(x, ord, axis, keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return torch.linalg.matrix_norm(floating(x), ord, (-2, -1), keepdims)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    axis = list(axis) if isinstance(axis, tuple) else axis
    return torch.linalg.vector_norm(floating(x), ord, axis, keepdims)


def solve(a: Any, b: Any) -> Any:
    """``b`` is a vector if it has one dimension, and otherwise matrices."""
    a, b = promoted([floating(a), floating(b)])
    if b.ndim == 1:
        return torch.linalg.solve(a, b[:, None])[..., 0]
    return torch.linalg.solve(a, b.expand(torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
                                          + b.shape[-2:]))  # fmt: skip


def lstsq(a: Any, b: Any, rcond: float | None = None) -> Any:
    a, b = promoted([floating(a), floating(b)])
    s = torch.linalg.svdvals(a)
    smallest = torch.finfo(a.dtype).eps * max(a.shape) if rcond is None else rcond
    rank = int((s.detach() > smallest * s.detach()[0]).sum())
    full = rank == a.shape[1] <= a.shape[0]
    right = b[:, None] if b.ndim == 1 else b
    if full:
        x = torch.linalg.lstsq(a, right).solution
    else:
        x = torch.linalg.pinv(a, rtol=smallest) @ right
    x = x[:, 0] if b.ndim == 1 else x
    tall = full and a.shape[0] > a.shape[1]
    errors = torch.abs(b - a @ x) ** 2
    residuals = errors.sum(0).reshape(-1) if tall else a.new_zeros(0)
    return x, residuals, rank, s


def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    tolerance = rcond if rcond is not None else 1e-15 if rtol is None else rtol
    return torch.linalg.pinv(floating(a), rtol=tolerance, hermitian=hermitian)


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:  # noqa: N803
    a = floating(A)
    if a.ndim < 2:
        return torch.any(a != 0).to(torch.int64)
    return torch.linalg.matrix_rank(a, atol=tol, rtol=rtol, hermitian=hermitian)


def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    a = floating(a)
    return torch.linalg.svd(a, full_matrices) if compute_uv else torch.linalg.svdvals(a)


def qr(a: Any, mode: str = "reduced") -> Any:
    a = floating(a)
    if mode == "raw":
        refuse("numpy.linalg.qr(mode='raw')")
    factors = torch.linalg.qr(a, "reduced" if mode == "r" else mode)  # whose R has a derivative
    return factors.R if mode == "r" else factors


def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    return torch.linalg.cholesky(floating(a), upper=upper)


def tensorinv(a: Any, ind: int = 2) -> Any:
    return torch.linalg.tensorinv(floating(a), ind)


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    a, b = promoted([floating(a), floating(b)])
    if axes is not None:
        axes = [d % a.ndim for d in axes]
        a = a.permute(*[d for d in range(a.ndim) if d not in axes], *axes)
    sizes = a.shape[b.ndim :]
    return torch.linalg.solve(a.reshape(b.numel(), count_of(sizes)), b.reshape(-1)).reshape(sizes)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return _products.cross(x1, x2, axis=axis)


def outer(x1: Any, x2: Any, /) -> Any:
    return _products.outer(x1, x2)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    return _products.tensordot(x1, x2, axes)


def matmul(x1: Any, x2: Any, /) -> Any:
    return torch.matmul(*promoted([array(x1), array(x2)]))


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return _ufuncs.vecdot(*[torch.movedim(array(x), axis, -1) for x in (x1, x2)])


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    return _shapes.diagonal(x, offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return _shapes.trace(x, offset, -2, -1, dtype)


def matrix_transpose(x: Any, /) -> Any:
    return array(x).mT


def multi_dot(arrays: Sequence[Any], *, out: Any = None) -> Any:
    return torch.linalg.multi_dot(promoted([array(a) for a in arrays]))
