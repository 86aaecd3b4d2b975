"""Products of Householder reflections: geqrf, householder_product, ormqr."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.ops import linear, products
from retrograd.ops._operation import raw, undifferentiable
from retrograd.ops._public import public
from retrograd.ops._results import named_result
from retrograd.ops.algebra._matrix import adjoint, check_kernel, check_tensors, columns_of, lower
from retrograd.ops.copies import zeros_like

_word = arrays.dtypes.type_word


@public("torch.orgqr method.orgqr linalg", out="same")
def householder_product(input: Any, tau: Any) -> Any:
    """The first columns of a product of Householder reflections ``I - tau[i] * v[i] @ v[i].mH``.

    This is how ``torch.geqrf`` represents the matrix Q.

    Args:
        input: matrices ``(..., m, n)`` with ``m >= n``. Column i holds ``v[i]`` below the diagonal;
            its element on the diagonal is taken as 1, those above as 0.
        tau: the factors, ``(..., k)`` with ``k <= n``.

    Returns:
        The first n columns of the product, ``(..., m, n)``.

    Example:
        >>> A = torch.tensor([[3.0, 1.0], [4.0, 2.0]])
        >>> Q = torch.linalg.householder_product(*torch.geqrf(A))
        >>> torch.allclose(Q, torch.linalg.qr(A).Q)
        True
    """
    _check(input, tau)
    rows, columns = input.shape[-2:]
    one = arrays.cast(arrays.eye(rows, columns), raw(input).dtype)
    vectors = lower(input, -1) + one
    return _reflected(vectors, tau, zeros_like(vectors) + one, False)


def _reflected(vectors: Any, tau: Any, x: Any, transpose: bool) -> Any:
    """``Q @ x``, or ``Q.mH @ x``, where Q is the product of the reflections."""
    count = range(tau.shape[-1])
    for i in count if transpose else reversed(count):
        vector = columns_of(vectors, i, i + 1)
        scale = linear.unsqueeze(columns_of(tau, i, i + 1), dim=len(tau.shape))
        along = products.matmul(adjoint(vector), x)
        x = x - (adjoint(scale) if transpose else scale) * products.matmul(vector, along)
    return x


@public("torch method", out="same")
def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """Multiplies matrices by the Q that ``torch.geqrf`` represents, without computing Q.

    Args:
        input: the reflections, matrices ``(..., m, n)``, as for ``linalg.householder_product``.
        tau: the factors, ``(..., min(m, n))``.
        other: the matrices to multiply, with m rows, or m columns if ``left`` is False.
        left: whether Q, which is ``m`` x ``m``, is the left factor.
        transpose: whether to multiply by the conjugate transpose of Q.

    Returns:
        ``Q @ other`` or ``other @ Q``, of the shape of ``other``.

    Example:
        >>> A = torch.tensor([[3.0, 1.0], [4.0, 2.0]])
        >>> a, tau = torch.geqrf(A)
        >>> torch.allclose(torch.ormqr(a, tau, A, transpose=True), a.triu(), atol=1e-6)
        True
    """
    _check_factors(input, tau, other, left)
    rows, columns = input.shape[-2:]
    one = arrays.cast(arrays.eye(rows, columns), raw(input).dtype)
    vectors = lower(input, -1) + one
    if left:
        return _reflected(vectors, tau, other, transpose)
    return adjoint(_reflected(vectors, tau, adjoint(other), not transpose))


def _check_factors(input: Any, tau: Any, other: Any, left: bool) -> None:
    check_tensors("ormqr", input=input, input2=tau, input3=other)
    x, t, y, name = raw(input), raw(tau), raw(other), "torch.ormqr"
    for word, value in (("input", x), ("other", y)):
        if value.ndim < 2:
            raise RuntimeError(f"{name}: {word} must have at least 2 dimensions.")
    side = -2 if left else -1
    if not t.ndim:
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    if y.shape[side] != x.shape[-2]:
        raise RuntimeError(f"{name}: other.shape[{side}] must be equal to input.shape[-2]")
    if t.shape[-1] != min(x.shape[-2:]):
        raise RuntimeError(
            f"{name}: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])"
        )
    if x.ndim - t.ndim != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal "
            f"to {t.ndim} and input.ndim is equal to {x.ndim}"
        )
    if x.ndim != y.ndim:
        raise RuntimeError(
            f"{name}: Expected other to have the same number of dimensions as input, but got "
            f"other.ndim equal to {y.ndim} and input.ndim is equal to {x.ndim}"
        )
    for word, front in (("tau", t.shape[:-1]), ("other", y.shape[:-2])):
        if front != x.shape[:-2]:
            raise RuntimeError(
                f"{name}: Expected batch dimensions of {word} to be equal to input.shape[:-2], but "
                f"got {list(front)}"
            )
    for word, value in (("tau", t), ("other", y)):
        if value.dtype != x.dtype:
            raise RuntimeError(
                f"{name}: Expected input and {word} to have the same dtype, but input has dtype"
                f"{_word(x.dtype)} and {word} has dtype {_word(value.dtype)}"
            )
    check_kernel("ormqr_cpu", input)


def _check(input: Any, tau: Any) -> None:
    if not hasattr(tau, "shape"):
        raise TypeError(
            "linalg_householder_product(): argument 'tau' (position 2) must be Tensor, not "
            f"{type(tau).__name__}"
        )
    x, t, name = raw(input), raw(tau), "torch.linalg.householder_product"
    if x.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if x.shape[-2] < x.shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    if t.ndim and x.shape[-1] < t.shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    if x.ndim - t.ndim != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal "
            f"to {t.ndim} and input.ndim is equal to {x.ndim}"
        )
    if t.shape[:-1] != x.shape[:-2]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got "
            f"{list(t.shape[:-1])}"
        )
    if x.dtype != t.dtype:
        raise RuntimeError(
            f"{name}: tau dtype {_word(t.dtype)} does not match input dtype {_word(x.dtype)}"
        )
    if x.dtype.kind not in "fc":
        raise NotImplementedError(f"\"orgqr_cpu\" not implemented for '{_word(x.dtype)}'")


geqrf_op = undifferentiable(
    "geqrf", arrays.linalg.geqrf, RuntimeError("derivative for aten::geqrf is not implemented"),
    outputs=("a", "tau"), node="GeqrfBackward0", batch="leading",
)  # fmt: skip


@public("torch method", out="same")
def geqrf(input: Any) -> Any:
    """Computes the QR decomposition in the form that LAPACK stores.

    Args:
        input: A matrix, or a batch of matrices.

    Returns:
        A named tuple ``(a, tau)``: ``a`` holds R on and above the diagonal and the Householder
        vectors below it, and ``tau`` holds the scales of the reflections.

    Example:
        >>> a, tau = torch.geqrf(torch.tensor([[3.0, 1.0], [4.0, 2.0]]))
        >>> a.shape, tau.shape
        (torch.Size([2, 2]), torch.Size([2]))
    """
    x = raw(input)
    if x.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    check_kernel("geqrf_cpu", input)
    return named_result("geqrf", "a", "tau")(geqrf_op(input))
