"""NumPy's products, convolutions, covariances and polynomials."""

from __future__ import annotations

from typing import Any

import retrograd as torch
from retrograd.numpy_protocols._arguments import array, cast, floating, operands, promoted, refuse


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """The sum of products over the last axis of ``a`` and the last but one of ``b``."""
    a, b = promoted(operands((a, b)))
    if not a.ndim or not b.ndim:
        return a * b
    return torch.matmul(a, b) if b.ndim <= 2 else torch.tensordot(a, b, ([-1], [-2]))


def inner(a: Any, b: Any, /) -> Any:
    a, b = promoted(operands((a, b)))
    return torch.tensordot(a, b, ([-1], [-1])) if a.ndim and b.ndim else a * b


def outer(a: Any, b: Any, out: Any = None) -> Any:
    a, b = operands((a, b))
    return a.reshape(-1, 1) * b.reshape(1, -1)


def vdot(a: Any, b: Any, /) -> Any:
    a, b = promoted([array(a).reshape(-1), array(b).reshape(-1)])
    return (torch.conj(a) * b).sum()


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    a, b = promoted([array(a), array(b)])
    if isinstance(axes, (tuple, list)):
        axes = [list(x) if isinstance(x, (tuple, list)) else [x] for x in axes]
    return torch.tensordot(a, b, axes)


def kron(a: Any, b: Any) -> Any:
    return torch.kron(*promoted([array(a), array(b)]))


def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1,
          axis: int | None = None) -> Any:  # fmt: skip
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = promoted([array(a), array(b)])
    a, b = torch.movedim(a, axisa, -1), torch.movedim(b, axisb, -1)
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ValueError("numpy.cross: expected vectors of 3 elements. For vectors of 2, use "
                         "a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0].")  # fmt: skip
    a, b = torch.broadcast_tensors(a, b)
    return torch.movedim(torch.cross(a, b, -1), -1, axisc)


def einsum(*operands: Any, out: Any = None, optimize: Any = False, dtype: Any = None,
           order: str = "K", casting: str = "safe") -> Any:  # fmt: skip
    if isinstance(operands[0], str):
        subscripts, *inputs = operands
        tensors = [cast(x, dtype) for x in promoted([array(x) for x in inputs])]
        return torch.einsum(subscripts.replace(" ", ""), *tensors)
    listed: list[Any] = [list(x) if isinstance(x, (list, tuple)) else array(x) for x in operands]
    return torch.einsum(*listed)


# -- convolutions ----------------------------------------------------------------------------


def _vectors(a: Any, v: Any) -> list[Any]:
    vectors = [array(x) for x in (a, v)]
    if any(x.ndim > 1 for x in vectors):
        raise ValueError("object too deep for desired array")
    return promoted([x.reshape(-1) for x in vectors])


def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    a, v = _vectors(a, v)
    if not a.numel() or not v.numel():
        raise ValueError("numpy.convolve: a and v cannot be empty")
    if v.numel() > a.numel():
        a, v = v, a
    n, m = a.numel(), v.numel()
    padded = torch.cat([a.new_zeros(m - 1), a, a.new_zeros(m - 1)])
    full = (padded.unfold(0, m, 1) * torch.flip(v, (0,))).sum(-1)
    if mode == "full":
        return full
    start, size = ((m - 1) // 2, n) if mode == "same" else (m - 1, n - m + 1)
    return full.narrow(0, start, size)


def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    a, v = _vectors(a, v)
    v = torch.conj(torch.flip(v, (0,)))
    if mode == "same" and v.numel() > a.numel():  # centered on the longer, of which more is left
        full, n, m = convolve(a, v), v.numel(), a.numel()
        return full.narrow(0, m // 2, n)
    return convolve(a, v, mode)


# -- covariances -----------------------------------------------------------------------------


def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
        fweights: Any = None, aweights: Any = None, *, dtype: Any = None) -> Any:  # fmt: skip
    def rows(x: Any) -> Any:
        x = cast(floating(x), dtype)
        x = x[None] if x.ndim < 2 else x
        return x if rowvar or x.shape[0] == 1 else x.mT

    m = rows(m) if y is None else torch.cat(promoted([rows(m), rows(y)]))
    weights = [None if w is None else array(w) for w in (fweights, aweights)]
    correction = ddof if ddof is not None else 0 if bias else 1
    return torch.cov(m, correction=correction, fweights=weights[0], aweights=weights[1]).squeeze()


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    covariance = cov(x, y, rowvar, dtype=dtype)
    if not covariance.ndim:
        return covariance / covariance
    deviation = torch.sqrt(torch.diagonal(covariance))
    return covariance / deviation[:, None] / deviation[None, :]


# -- polynomials, the highest power first ----------------------------------------------------


def polyval(p: Any, x: Any) -> Any:
    p, x = promoted([array(p), array(x)])
    result = torch.zeros_like(x)
    for coefficient in p:
        result = result * x + coefficient
    return result


def _aligned(a: Any, b: Any) -> list[Any]:
    vectors = promoted([array(a).reshape(-1), array(b).reshape(-1)])
    size = max(x.numel() for x in vectors)
    return [torch.cat([x.new_zeros(size - x.numel()), x]) for x in vectors]


def polyadd(a1: Any, a2: Any) -> Any:
    a, b = _aligned(a1, a2)
    return a + b


def polysub(a1: Any, a2: Any) -> Any:
    a, b = _aligned(a1, a2)
    return a - b


def polymul(a1: Any, a2: Any) -> Any:
    return convolve(a1, a2)


def polyder(p: Any, m: int = 1) -> Any:
    p = array(p)
    for _ in range(m):
        p = p[:-1] * torch.arange(p.numel() - 1, 0, -1)
    return p


def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    p = floating(p)
    constants = array(0.0 if k is None else k).to(p.dtype).expand(m)
    for c in constants:
        p = torch.cat([p / torch.arange(p.numel(), 0, -1), c[None]])
    return p


def polyfit(x: Any, y: Any, deg: int, rcond: Any = None, full: bool = False, w: Any = None,
            cov: bool | str = False) -> Any:  # fmt: skip
    if full or cov:
        refuse("numpy.polyfit(full=, cov=)")
    x, y = promoted([floating(x), floating(y)])
    matrix = torch.vander(x, deg + 1)
    if w is not None:
        weights = array(w).to(x.dtype)
        matrix, y = matrix * weights[:, None], (y.mT * weights).mT if y.ndim > 1 else y * weights
    scale = torch.sqrt((matrix * matrix).sum(0)).detach()
    solved = torch.linalg.lstsq(matrix / scale, y[:, None] if y.ndim == 1 else y).solution
    solved = solved / scale[:, None]
    return solved[:, 0] if y.ndim == 1 else solved


def roots(p: Any) -> Any:
    """The eigenvalues of the companion matrix. Leading and trailing zeros are cut off."""
    p = floating(p)
    nonzero = torch.nonzero(p.detach(), as_tuple=True)[0].tolist()
    if not nonzero:
        return p.new_zeros(0)
    zeros = p.numel() - 1 - nonzero[-1]
    p = p[nonzero[0] : nonzero[-1] + 1]
    size = p.numel() - 1
    if not size:
        return p.new_zeros(zeros)
    below = torch.diag(p.new_ones(size - 1), -1)[1:]
    eigenvalues = torch.linalg.eigvals(torch.cat([-(p[1:] / p[0])[None], below]))
    return torch.cat([eigenvalues, eigenvalues.new_zeros(zeros)])
