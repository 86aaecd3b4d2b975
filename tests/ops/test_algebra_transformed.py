# ruff: noqa: N803 - matrices are called as in PyTorch, in capitals
"""Linear algebra under the transforms: every mixture of what is batched and what is shared, nested
transforms, and what must not be computed more often than needed."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd import arrays
from retrograd.func import grad, jvp, vjp, vmap
from retrograd.ops._operation import TABLE

N = 3  # the size of batches and of matrices, so that one could be taken for the other


def numbers(*shape: int, seed: int = 0) -> Any:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def as_arrays(found: Any) -> list[np.ndarray]:
    if isinstance(found, (tuple, list)):
        return [a for part in found for a in as_arrays(part)]
    return [np.asarray(found.detach())]


def assert_close(found: Any, expected: Any, rtol: float = 1e-9) -> None:
    for a, b in zip(as_arrays(found), as_arrays(expected), strict=True):
        scale = 1 + np.abs(b).max(initial=0)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * scale)


# -- batches ---------------------------------------------------------------------------------

LEADING = [((), ()), ((N,), ()), ((), (N,)), ((2, 1), (N,)), ((1,), (2, N))]
SYSTEMS: dict[str, Callable[[Any, Any], Any]] = {
    "solve": lambda A, B: torch.linalg.solve(A, B),
    "solve_ex": lambda A, B: tuple(torch.linalg.solve_ex(A, B)),
    "solve from the right": lambda A, B: torch.linalg.solve(A, B.mT, left=False),
    "triangular": lambda A, B: torch.linalg.solve_triangular(A, B, upper=True),
    "triangular from the right": lambda A, B: torch.linalg.solve_triangular(
        A, B.mT, upper=False, left=False, unitriangular=True
    ),
    "older triangular": lambda A, B: tuple(torch.triangular_solve(B, A)),
    "cholesky": lambda A, B: torch.cholesky_solve(B, A),
    "product": lambda A, B: A @ B,
    "product on the left": lambda A, B: B.mT @ A,
    "distances": lambda A, B: torch.cdist(A, B.mT),
}


def mapped_and_looped(function: Callable[..., Any], args: tuple[Any, ...], dims: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing goes entry by entry
        mapped = vmap(function, in_dims=dims)(*args)
    entries = [
        function(*[x if d is None else x[i] for x, d in zip(args, dims, strict=True)])
        for i in range(N)
    ]
    columns = zip(*map(as_arrays, entries), strict=True)
    return as_arrays(mapped), [np.stack(column) for column in columns]


def assert_mapped(function: Callable[..., Any], *batches: Any) -> None:
    """``vmap`` against a loop, with each of the arguments batched or the same for all."""
    for chosen in itertools.product((True, False), repeat=len(batches)):
        if any(chosen):
            args = tuple(x if c else x[0] for x, c in zip(batches, chosen, strict=True))
            dims = tuple(0 if c else None for c in chosen)
            found, expected = mapped_and_looped(function, args, dims)
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("columns", [1, 2, N])
@pytest.mark.parametrize("leading", LEADING, ids=str)
@pytest.mark.parametrize("name", SYSTEMS)
def test_systems(name: str, leading: Any, columns: int) -> None:
    front, other = leading
    if name.startswith("solve") and len(front) == len(other) + 1:
        other = front  # a matrix would be taken for a batch of vectors, with or without vmap
    A, B = numbers(N, *front, N, N), numbers(N, *other, N, columns, seed=1)
    assert_mapped(SYSTEMS[name], A + 3 * torch.eye(N, dtype=torch.float64), B)


@pytest.mark.parametrize("front", [(), (N,), (2, N)], ids=str)
def test_vectors(front: tuple[int, ...]) -> None:
    A = numbers(N, *front, N, N) + 3 * torch.eye(N, dtype=torch.float64)
    assert_mapped(torch.linalg.solve, A, numbers(N, *front, N, seed=1))
    assert_mapped(torch.linalg.solve, A, numbers(N, N, seed=1))
    assert_mapped(torch.matmul, A, numbers(N, N, seed=1))
    assert_mapped(torch.matmul, numbers(N, N, seed=1), A)


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_factors(left: bool, adjoint: bool) -> None:
    LU, pivots = torch.linalg.lu_factor(numbers(N, N, N))
    B = numbers(N, N, N, seed=1)
    assert_mapped(
        lambda *args: torch.linalg.lu_solve(*args, left=left, adjoint=adjoint), LU, pivots, B
    )


@pytest.mark.parametrize("driver", ["gels", "gelsd", "gelsy"])
@pytest.mark.parametrize("front", [(), (N,)], ids=str)
def test_least_squares(front: tuple[int, ...], driver: str) -> None:
    A, B = numbers(N, *front, N + 1, N), numbers(N, *front, N + 1, 2, seed=1)
    function = lambda A, B: tuple(torch.linalg.lstsq(A, B, driver=driver))
    assert_mapped(function, A, B)
    assert_mapped(function, A, B[..., 0])


def test_tolerances_for_each_entry() -> None:
    A, limits = numbers(N, 2, N, N), torch.tensor([0.1, 0.7, 2.0], dtype=torch.float64)
    assert_mapped(lambda A, x: torch.linalg.pinv(A, atol=x), A, limits)
    assert_mapped(lambda A, x: torch.linalg.matrix_rank(A, atol=x), A, limits)


def test_sums_and_products() -> None:
    A, B, v = numbers(N, 4, N), numbers(N, N, 2, seed=1), numbers(N, 2, seed=2)
    assert_mapped(lambda v, A, B: torch.addmm(v, A, B, beta=0.5, alpha=2), v, A, B)
    assert_mapped(lambda v, A, B: torch.addmm(v, A, B, beta=0), v * torch.nan, A, B)
    assert_mapped(lambda v, A, B: torch.addmv(v[0], A, B[:, 0]), v, A, B)
    assert_mapped(lambda v, A, B: torch.addr(B, A[0], v), v, A, B)
    assert_mapped(lambda v, A, B: torch.baddbmm(v, A[None], B[None]), v, A, B)
    assert_mapped(lambda v, A, B: torch.addbmm(v, *map(torch.stack, ([A, -A], [B, B]))), v, A, B)
    assert_mapped(lambda v, A, B: torch.einsum("ij,jk,k->i", A, B, v), v, A, B)
    assert_mapped(lambda A, B: torch.tensordot(A, B, ([1], [0])), A, B)
    assert_mapped(torch.kron, A, B)
    places = torch.arange(6).reshape(N, 2)
    assert_mapped(lambda i: torch.addr(i[:, None], i, i, beta=2, alpha=3), places)
    assert_mapped(lambda k: torch.addr(k, k, k), places > 2)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (torch.linalg.inv, "linalg.inv: (Batch element 1): The diagonal element 1 is zero"),
        (lambda A: torch.linalg.solve(A, torch.ones(2)), "torch.linalg.solve: (Batch element 1)"),
        (torch.linalg.cholesky, "linalg.cholesky: (Batch element 1): The factorization"),
        (torch.linalg.lu_factor, "torch.linalg.lu_factor: (Batch element 1): U[1,1] is zero"),
    ],
)
def test_an_entry_without_a_result_is_named(function: Any, words: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        vmap(function)(torch.stack([torch.eye(2), torch.zeros(2, 2)]))
    assert str(caught.value).startswith(words)


# -- what is not done more often than needed ----------------------------------------------------


def calls_of(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[Any]:
    """The shapes that a function of arrays is called with from now on."""
    shapes, function = [], getattr(module, name)

    def watched(*args: Any, **named: Any) -> Any:
        shapes.append(args[0].shape)
        return function(*args, **named)

    monkeypatch.setattr(module, name, watched)
    return shapes


def test_one_matrix_for_all_is_factored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    A, B = numbers(N, N), numbers(5, N, 2, seed=1)
    factored = calls_of(monkeypatch, arrays.linalg, "lu_factor")
    solved = calls_of(monkeypatch, arrays.linalg, "lu_solve")
    vmap(torch.linalg.solve, in_dims=(None, 0))(A, B)
    assert factored == [(N, N)]
    assert solved == [(N, N)]
    _, pull = vjp(lambda B: torch.linalg.solve(A, B), B[0])
    vmap(pull)(B)  # with the factors that are there
    assert factored == [(N, N)] * 2
    assert solved == [(N, N)] * 3


def test_a_jacobian_takes_one_product_for_each_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    weights, x = [numbers(4, 4, seed=k) for k in range(3)], numbers(4)

    def network(x: Any) -> Any:
        for weight in weights:
            x = torch.tanh(torch.nn.functional.linear(x, weight))
        return x

    _, pull = vjp(network, x)
    shapes: list[Any] = []
    forward = TABLE["mm"].forward
    monkeypatch.setattr(
        TABLE["mm"], "forward", lambda a, b: shapes.append((a.shape, b.shape)) or forward(a, b)
    )
    eye = torch.eye(4, dtype=torch.float64)
    (found,) = vmap(pull)(eye)
    assert shapes == [((4, 4), (4, 4))] * 3
    assert_close(found, torch.stack([pull(row)[0] for row in eye]))


def test_tangents_of_factors_are_computed_when_asked_for(monkeypatch: Any) -> None:
    A, t = numbers(N, N), numbers(N, N, seed=1)
    solved = calls_of(monkeypatch, arrays.linalg, "solve_triangular")
    B = numbers(N, 1, seed=2)
    jvp(lambda A: torch.linalg.solve(A, B), (A,), (t,))
    assert not solved

    def factors(A: Any) -> Any:
        return TABLE["linalg_solve_ex"](A, B, left=True)[1]

    _, found = jvp(factors, (A,), (t,))
    assert solved
    step = 1e-6
    slope = (factors(A + step * t) - factors(A - step * t)) / (2 * step)
    assert_close(found, slope, rtol=1e-7)


# -- derivatives -----------------------------------------------------------------------------

EYE = np.eye(4)
SMOOTH: dict[str, Callable[[Any, Any], Any]] = {
    "solve": lambda A, v: torch.linalg.solve(A, v),
    "solve from the right": lambda A, v: torch.linalg.solve(A, A[:2].sin(), left=False),
    "inv": lambda A, v: torch.linalg.inv(A),
    "det": lambda A, v: torch.linalg.det(A),
    "slogdet": lambda A, v: torch.linalg.slogdet(A).logabsdet,
    "cholesky": lambda A, v: torch.linalg.cholesky(A @ A.mT + torch.eye(4, dtype=A.dtype)),
    "eigh": lambda A, v: _rebuilt(*torch.linalg.eigh(A + A.mT)),
    "eigvalsh": lambda A, v: torch.linalg.eigvalsh(A + A.mT),
    "eig": lambda A, v: torch.linalg.eig(A).eigenvectors.abs() @ v,
    "eigvals": lambda A, v: torch.linalg.eigvals(A).abs(),
    "svd": lambda A, v: _turned(*torch.linalg.svd(A, full_matrices=False)),
    "svd of tall matrices": lambda A, v: _turned(*torch.linalg.svd(A[:, :3], full_matrices=False)),
    "svd of wide matrices": lambda A, v: _turned(*torch.linalg.svd(A[:3], full_matrices=False)),
    "svdvals": lambda A, v: torch.linalg.svdvals(A),
    "qr": lambda A, v: [x.sin() for x in torch.linalg.qr(A)],
    "qr of tall matrices": lambda A, v: [x.sin() for x in torch.linalg.qr(A[:, :2])],
    "qr of wide matrices": lambda A, v: [x.sin() for x in torch.linalg.qr(A[:2])],
    "lu": lambda A, v: [x.sin() for x in torch.linalg.lu(A)[1:]],
    "lu of tall matrices": lambda A, v: [x.sin() for x in torch.linalg.lu(A[:, :2])[1:]],
    "lu_factor of wide matrices": lambda A, v: torch.linalg.lu_factor(A[:3]).LU.sin(),
    "lu_solve": lambda A, v: torch.linalg.lu_solve(*torch.linalg.lu_factor(A), v[:, None]),
    "cholesky_inverse": lambda A, v: torch.cholesky_inverse(A.tril() + torch.eye(4)),
    "pinv": lambda A, v: torch.linalg.pinv(A[:3]),
    "lstsq": lambda A, v: torch.linalg.lstsq(A[:, :2], v[:, None], driver="gelsd")[:2],
    "householder_product": lambda A, v: torch.linalg.householder_product(A, v),
    "matrix_exp": lambda A, v: torch.linalg.matrix_exp(A),
    "addmm": lambda A, v: torch.addmm(v, A, A.sin(), beta=0.5, alpha=2),
    "einsum": lambda A, v: torch.einsum("ij,jk,k->i", A, A.sin(), v),
    "cdist": lambda A, v: torch.cdist(A, A.sin() + 1),
    "stft": lambda A, v: torch.stft(A.reshape(16), 4, window=v, return_complex=True).abs(),
}


def _rebuilt(values: Any, vectors: Any) -> Any:
    return (vectors * values.sin()) @ vectors.mT


def _turned(U: Any, S: Any, Vh: Any) -> Any:
    return (U * S.sin()) @ Vh


def loss_of(name: str) -> Callable[[Any, Any], Any]:
    def loss(A: Any, v: Any) -> Any:
        found = SMOOTH[name](A, v)
        parts = list(found) if isinstance(found, (tuple, list)) else [found]
        total = torch.zeros((), dtype=torch.float64)
        for y in parts:
            weights = torch.from_numpy(np.cos(1.0 + np.arange(y.numel())).reshape(tuple(y.shape)))
            total = total + (y * weights).sum()
        return total

    return loss


@pytest.mark.parametrize("name", SMOOTH)
def test_nested_transforms(name: str) -> None:
    """Second derivatives by every way, against differences of the first by reverse mode."""
    loss = loss_of(name)
    A, v = numbers(4, 4, seed=5), numbers(4, seed=6)
    t, u = numbers(3, 4, 4, seed=7), numbers(4, seed=8)
    gradient = grad(loss, (0, 1))

    def slope(t: Any) -> Any:
        step = 1e-6
        pairs = zip(
            gradient(A + step * t, v + step * u), gradient(A - step * t, v - step * u), strict=True
        )
        return tuple((a - b) / (2 * step) for a, b in pairs)

    expected = tuple(torch.stack(parts) for parts in zip(*map(slope, t), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        forward_over_reverse = vmap(lambda t: jvp(gradient, (A, v), (t, u))[1])(t)
        reverse_over_forward = vmap(
            lambda t: grad(lambda A, v: jvp(loss, (A, v), (t, u))[1], (0, 1))(A, v)
        )(t)
        reverse_over_reverse = vmap(lambda t: vjp(gradient, A, v)[1]((t, u)))(t)
        second = vmap(lambda t: jvp(lambda A, v: jvp(loss, (A, v), (t, u))[1], (A, v), (t, u))[1])(
            t
        )
    assert_close(forward_over_reverse, expected, rtol=3e-6)
    assert_close(reverse_over_forward, forward_over_reverse)
    assert_close(reverse_over_reverse, forward_over_reverse)
    by_a, by_v = forward_over_reverse
    assert_close(second, (by_a * t).sum((1, 2)) + by_v @ u)


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_through_a_batch(name: str) -> None:
    """The gradient of what ``vmap`` computes, against the sum over a loop."""
    loss, A, v = loss_of(name), numbers(3, 4, 4, seed=5), numbers(3, 4, seed=6)
    found = grad(lambda A, v: vmap(loss)(A, v).sin().sum(), (0, 1))(A, v)
    each = [grad(lambda A, v: loss(A, v).sin(), (0, 1))(A[i], v[i]) for i in range(3)]
    assert_close(found, tuple(torch.stack(parts) for parts in zip(*each, strict=True)))
    found = grad(lambda A, v: vmap(loss, in_dims=(None, 0))(A, v).sin().sum(), (0, 1))(A[0], v)
    each = [grad(lambda A, v: loss(A, v).sin(), (0, 1))(A[0], v[i]) for i in range(3)]
    by_a, by_v = zip(*each, strict=True)
    assert_close(found, (by_a[0] + by_a[1] + by_a[2], torch.stack(by_v)))


def test_a_singular_determinant_moves() -> None:
    """By its cofactors, with or without a graph of the gradient."""
    A = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64)
    cofactors = [[4.0, -2.0], [-2.0, 1.0]]
    assert grad(torch.linalg.det)(A).tolist() == pytest.approx(np.array(cofactors))
    x = A.clone().requires_grad_()
    torch.linalg.det(x).backward()
    assert x.grad.tolist() == pytest.approx(np.array(cofactors))
    t = torch.tensor([[1.0, 0.5], [-1.0, 2.0]], dtype=torch.float64)
    assert jvp(torch.linalg.det, (A,), (t,))[1].item() == pytest.approx(4 - 1 + 2 + 2)
    both = torch.stack([A, A + torch.eye(2, dtype=torch.float64)])
    found = vmap(grad(torch.linalg.det))(both)
    np.testing.assert_allclose(found.numpy(), [cofactors, [[5, -2], [-2, 2]]], atol=1e-12)


@pytest.mark.parametrize("triangle", ["L", "U"])
@pytest.mark.parametrize("part", [0, 1])
def test_tangents_of_eigh_take_the_symmetric_part_of_a_direction(part: int, triangle: str) -> None:
    """As its gradients do: eigh reads one triangle, and its derivatives are those of a function of
    symmetric matrices. PyTorch's second tangents take a direction as it is."""
    A, u, v = (numbers(N, N, seed=k) for k in range(3))

    def f(A: Any) -> Any:
        result = torch.linalg.eigh(A, UPLO=triangle)[part]
        return (result.square() * torch.tensor([1.0, 2.0, 4.0])).sum(-1).reshape(-1)[0]

    lower = A if triangle == "L" else A.mT
    start, du, dv = lower.tril() + lower.tril(-1).mT, (u + u.mT) / 2, (v + v.mT) / 2
    h = 1e-3
    ahead, behind = (f(start + s * h * du) for s in (1, -1))
    first = jvp(f, (A,), (u,))[1]
    assert first.item() == pytest.approx(((ahead - behind) / (2 * h)).item(), rel=1e-4)
    assert (grad(f)(A) * u).sum().item() == pytest.approx(first.item(), rel=1e-10)
    corners = [s * t * f(start + h * (s * du + t * dv)) for s in (1, -1) for t in (1, -1)]
    difference = pytest.approx((sum(corners) / (4 * h * h)).item(), rel=1e-4)
    assert jvp(lambda x: jvp(f, (x,), (u,))[1], (A,), (v,))[1].item() == difference
    assert (jvp(grad(f), (A,), (v,))[1] * u).sum().item() == difference
    assert (grad(lambda x: (grad(f)(x) * u).sum())(A) * v).sum().item() == difference


def test_a_loss_that_depends_on_a_phase_is_refused_under_transforms() -> None:
    A = numbers(2, N, N) + 1j * numbers(2, N, N, seed=1)

    def loss(A: Any) -> Any:
        return torch.linalg.eigh(A + A.mH).eigenvectors.imag.sum()

    for function in (vmap(grad(loss)), lambda A: jvp(grad(loss), (A[0],), (A[1],))):
        with pytest.raises(RuntimeError, match="linalg_eigh_backward: The eigenvectors"):
            function(A)
