"""Linear algebra on matrices that hold NaN or infinity: it returns, with NaN or PyTorch's error,
whatever LAPACK is below. On the first of these OpenBLAS does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd import linalg
from retrograd.func import jvp, vmap

INF, NAN = float("inf"), float("nan")
INFINITE = [[INF, 1.0, 0.0], [2.0, 3.0, 1.0], [0.0, 0.0, 1.0]]
WITH_NAN = [[1.0, NAN, 0.0], [NAN, 3.0, 1.0], [0.0, 1.0, 1.0]]
GOOD = [[2.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 4.0]]
DTYPES = [torch.float32, torch.float64, torch.complex128]

NON_FINITE = "because the input matrix contained non-finite values"
IN_BATCH = rf"^linalg.svd: \(Batch element 2\): .*{NON_FINITE}"
BY_SVD: dict[str, Callable[[Any], Any]] = {
    "svd": lambda x: linalg.svd(x).S,
    "svdvals": linalg.svdvals,
    "pinv": linalg.pinv,
    "nuclear norm": lambda x: linalg.matrix_norm(x, "nuc"),
    "norm 2": lambda x: linalg.matrix_norm(x, 2),
    "norm -2": lambda x: linalg.matrix_norm(x, -2),
    "cond": linalg.cond,
    "cond -2": lambda x: linalg.cond(x, -2),
    "torch.svd": lambda x: torch.svd(x).S,
}


def values(x: Any) -> np.ndarray:
    return x.detach().numpy()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", BY_SVD)
def test_infinities_make_nan_of_what_singular_values_give(name: str, dtype: Any) -> None:
    function = BY_SVD[name]
    x = torch.tensor(INFINITE, dtype=dtype)
    assert np.isnan(values(function(x))).all()
    both = values(function(torch.tensor([GOOD, INFINITE], dtype=dtype)))
    np.testing.assert_allclose(both[0], values(function(torch.tensor(GOOD, dtype=dtype))))
    assert np.isnan(both[1]).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", BY_SVD)
def test_nan_is_refused_by_the_number_of_its_matrix(name: str, dtype: Any) -> None:
    function = BY_SVD[name]
    with pytest.raises(linalg.LinAlgError, match=f"^linalg.svd: The .*{NON_FINITE}"):
        function(torch.tensor(WITH_NAN, dtype=dtype))
    batch = torch.tensor([GOOD, INFINITE, WITH_NAN], dtype=dtype)
    with pytest.raises(linalg.LinAlgError, match=IN_BATCH):
        function(batch)


def test_ranks() -> None:
    batch = torch.tensor([GOOD, INFINITE])
    assert linalg.matrix_rank(batch).tolist() == [3, 0]
    assert linalg.matrix_rank(batch, hermitian=True).tolist() == [3, 0]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_eigenvalues(dtype: Any) -> None:
    batch = torch.tensor([GOOD, INFINITE], dtype=dtype)
    for found in (linalg.eigvals(batch), linalg.eigvalsh(batch), linalg.eigh(batch)[0]):
        np.testing.assert_allclose(np.sort(values(found)[0]), [2, 3, 4])
        assert np.isnan(values(found)[1]).all()
    assert np.isnan(values(linalg.eigvals(torch.tensor(WITH_NAN, dtype=dtype)))).all()
    with pytest.raises(RuntimeError, match=r"torch\.linalg\.eig: input tensor should not contain"):
        linalg.eig(batch)
    words = r"repeated eigenvalues \(error code: {}\)"
    bad = torch.tensor([GOOD, WITH_NAN], dtype=dtype)
    with pytest.raises(linalg.LinAlgError, match=r"\(Batch element 1\).*" + words.format(2)):
        linalg.eigh(bad)
    with pytest.raises(linalg.LinAlgError, match=words.format(1)):
        linalg.eigvalsh(bad)
    small = torch.tensor([[1.0, NAN], [NAN, 1.0]], dtype=dtype)
    assert np.isnan(values(linalg.eigvalsh(small))).all()


def test_only_one_triangle_is_looked_at() -> None:
    x = torch.tensor([[2.0, NAN], [0.0, 3.0]])
    assert linalg.eigvalsh(x).tolist() == [2, 3]
    assert np.isnan(values(linalg.eigvalsh(x, "U"))).all()
    assert linalg.cholesky(torch.tensor([[4.0, NAN], [2.0, 5.0]])).tolist() == [[2, 0], [1, 2]]


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cholesky(dtype: Any, upper: bool) -> None:
    for matrix, order in (
        ([[4.0, 1.0, NAN], [1.0, 5.0, 1.0], [NAN, 1.0, 6.0]], 3),
        ([[NAN] * 3] * 3, 1),
        ([[INF] * 3] * 3, 2),
        ([[4.0, 1.0, 0.5], [1.0, -INF, 1.0], [0.5, 1.0, 6.0]], 2),
    ):
        x = torch.tensor(matrix, dtype=dtype)
        with pytest.raises(linalg.LinAlgError, match=f"the leading minor of order {order} is not"):
            linalg.cholesky(x, upper=upper)
        batch = torch.stack([torch.tensor(GOOD, dtype=dtype), x])
        assert linalg.cholesky_ex(batch, upper=upper).info.tolist() == [0, order]
        with pytest.raises(linalg.LinAlgError, match=rf"\(Batch element 1\).*of order {order}"):
            linalg.cholesky(batch, upper=upper)
    infinite = torch.tensor([[4.0, 2.0], [2.0, INF]], dtype=dtype)
    factor = linalg.cholesky(infinite)  # infinity is positive: PyTorch takes it
    assert values(factor).real.tolist() == [[2, 0], [1, INF]]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_qr_hands_nan_on_to_the_columns_after_it(dtype: Any) -> None:
    x = torch.tensor([[3.0, NAN, 0.0], [4.0, 3.0, 5.0], [0.0, 0.0, 1.0]], dtype=dtype)
    q, r = (values(part) for part in linalg.qr(x))
    nan = NAN
    expected_r = [[-5, nan, -4], [0, nan, nan], [0, 0, nan]]
    np.testing.assert_allclose(r.real, expected_r, atol=1e-6)
    np.testing.assert_allclose(q[:, 0], [-0.6, -0.8, 0], atol=1e-6)
    assert np.isnan(q[:, 1:]).all()
    np.testing.assert_allclose(values(linalg.qr(x, "r").R).real, expected_r, atol=1e-6)
    reflectors, tau = (values(part) for part in torch.geqrf(x))
    np.testing.assert_allclose(tau[0], 1.6, rtol=1e-6)
    np.testing.assert_allclose(reflectors[:, 0], [-5, 0.5, 0], atol=1e-6)
    assert np.isnan(reflectors[1:, 1:]).all()
    tall, wide = torch.tensor([[1.0, 2.0], [INF, 3.0], [0.0, 1.0]]), torch.ones(2, 3) * INF
    assert [tuple(part.shape) for part in linalg.qr(tall, "complete")] == [(3, 3), (3, 2)]
    assert [tuple(part.shape) for part in linalg.qr(wide)] == [(2, 2), (2, 3)]


def test_qr_of_finite_matrices_in_a_batch_with_others() -> None:
    generator = np.random.default_rng(0)
    for shape in ((4, 3), (3, 4), (3, 3)):
        for dtype in ("float64", "complex128"):
            x = generator.standard_normal(shape).astype(dtype)
            x = x + 1j * generator.standard_normal(shape) if dtype == "complex128" else x
            good, bad = torch.from_numpy(x), torch.full(shape, NAN).to(torch.from_numpy(x).dtype)
            for mode in ("reduced", "complete"):
                alone, batch = linalg.qr(good, mode), linalg.qr(torch.stack([good, bad]), mode)
                for one, two in zip(alone, batch, strict=True):
                    np.testing.assert_allclose(values(one), values(two)[0], atol=1e-12)
            for one, two in zip(
                torch.geqrf(good), torch.geqrf(torch.stack([good, bad])), strict=True
            ):
                np.testing.assert_allclose(values(one), values(two)[0], atol=1e-12)


def test_elimination_drops_no_nan() -> None:
    x = torch.tensor([[1.0, NAN, 0.0], [2.0, 3.0, 1.0], [0.0, 0.0, 1.0]])
    lower, upper = linalg.lu(x)[1:]
    np.testing.assert_array_equal(values(upper), [[2, 3, 1], [0, NAN, -0.5], [0, 0, NAN]])
    np.testing.assert_array_equal(values(lower), [[1, 0, 0], [0.5, 1, 0], [0, NAN, 1]])
    for found in (linalg.solve(x, torch.ones(3)), linalg.inv(x), linalg.det(x)):
        assert np.isnan(values(found)).all()
    sign, log = linalg.slogdet(x)
    assert sign.item() == 0
    assert np.isnan(log.item())


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_least_squares(driver: str) -> None:
    batch, right = torch.tensor([GOOD, INFINITE]), torch.ones(2, 3, 1)
    found = linalg.lstsq(batch, right, driver=driver)
    np.testing.assert_allclose(values(found.solution)[0, :, 0], [1 / 2, 1 / 3, 1 / 4], rtol=1e-6)
    assert np.isnan(values(found.solution)[1]).all()
    if driver != "gels":
        assert found.rank.tolist() == [3, 0]
    infinite = linalg.lstsq(torch.tensor([GOOD, GOOD]), torch.stack([right[0], right[0] * INF]))
    assert np.isfinite(values(infinite.solution)[0]).all()
    assert np.isnan(values(infinite.solution)[1]).all()
    assert infinite.rank.tolist() == [3, 3]
    with pytest.raises(linalg.LinAlgError, match=r"torch.linalg.lstsq: \(Batch element 1\): .*NaN"):
        linalg.lstsq(torch.tensor([GOOD, WITH_NAN]), right, driver=driver)


def test_exponential() -> None:
    for bad in (INFINITE, WITH_NAN):
        both = values(torch.linalg.matrix_exp(torch.tensor([GOOD, bad])))
        np.testing.assert_allclose(both[0].diagonal(), np.exp([2, 3, 4]), rtol=1e-5)
        assert np.isnan(both[1]).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", [name for name in BY_SVD if "-2" not in name])
def test_gradients_and_tangents_and_batches(name: str, dtype: Any) -> None:
    function = BY_SVD[name]
    batch = torch.tensor([GOOD, INFINITE], dtype=dtype, requires_grad=True)
    function(batch).abs().sum().backward()
    alone = torch.tensor(GOOD, dtype=dtype, requires_grad=True)
    function(alone).abs().sum().backward()
    np.testing.assert_allclose(values(batch.grad)[0], values(alone.grad), atol=1e-12)
    assert np.isnan(values(batch.grad)[1]).any()
    batch = batch.detach()
    tangent = values(jvp(function, (batch,), (torch.ones_like(batch),))[1])
    expected = values(jvp(function, (batch[0],), (torch.ones_like(batch[0]),))[1])
    np.testing.assert_allclose(tangent[0], expected, atol=1e-12)
    assert np.isnan(tangent[1]).all()
    mapped = values(vmap(function)(batch))
    assert np.isfinite(mapped[0]).all()
    assert np.isnan(mapped[1]).all()
