"""What NumPy's protocols promise besides values: writing, errors, transforms, and what stays."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import scipy.sparse

import retrograd as torch
from retrograd import func


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def energy(x: Any, springs: Any) -> Any:
    """A function for NumPy, with nothing of ours in it."""
    stretch = np.diff(x, prepend=0.0) - 1.0
    matrix = np.outer(x, x) + 2 * np.eye(len(x))
    return np.sum(springs * stretch**2) + np.linalg.slogdet(matrix)[1] + np.log1p(np.exp(x)).mean()


X, SPRINGS = np.array([0.3, 1.4, 2.2]), np.array([1.0, 2.0, 0.5])


def slope(point: np.ndarray) -> np.ndarray:
    steps = 1e-6 * np.eye(3)
    return np.array([(energy(point + e, SPRINGS) - energy(point - e, SPRINGS)) / 2e-6
                     for e in steps])  # fmt: skip


def test_a_function_for_numpy_alone_is_differentiated_in_all_modes() -> None:
    x = torch.tensor(X, requires_grad=True)
    value = energy(x, SPRINGS)
    value.backward()
    assert value.item() == pytest.approx(energy(X, SPRINGS))
    np.testing.assert_allclose(x.grad.numpy(), slope(X), 1e-7)
    plain = torch.tensor(X)
    gradient = func.grad(energy)(plain, SPRINGS)
    np.testing.assert_allclose(gradient.numpy(), slope(X), 1e-7)
    _, moved = func.jvp(lambda t: energy(t, SPRINGS), (plain,), (torch.ones_like(plain),))
    assert moved.item() == pytest.approx(slope(X).sum())
    curvature = func.hessian(energy)(plain, SPRINGS).numpy()
    columns = [(slope(X + e) - slope(X - e)) / 2e-4 for e in 1e-4 * np.eye(3)]
    np.testing.assert_allclose(curvature, np.stack(columns), 1e-4, 1e-6)
    points = np.stack([X, 2 * X])
    batched = func.vmap(func.grad(lambda t: energy(t, SPRINGS)))(torch.tensor(points))
    np.testing.assert_allclose(batched.numpy(), [slope(p) for p in points], 1e-6)
    compiled = torch.compile(lambda t: energy(t, SPRINGS))
    for _ in range(3):
        again = torch.tensor(X, requires_grad=True)
        compiled(again).backward()
        np.testing.assert_allclose(again.grad.numpy(), slope(X), 1e-7)


# -- out=, where= and writing ----------------------------------------------------------------


def test_a_tensor_given_as_out_records() -> None:
    x, out = leaf(1.0, 2.0), torch.zeros(2, dtype=torch.float64)
    assert np.exp(x, out=out) is out
    assert np.sum(x, axis=0, out=out[0]) is not None
    assert out.tolist() == [3.0, pytest.approx(np.exp(2.0))]
    out.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [1.0, 1.0 + np.exp(2.0)])


def test_an_array_given_as_out_takes_values_without_a_history_only() -> None:
    x, out = leaf(1.0, 2.0), np.zeros(2)
    assert np.multiply(x.detach(), 3.0, out=out) is out
    assert out.tolist() == [3.0, 6.0]
    assert np.cumsum(x.detach(), out=out) is out
    assert out.tolist() == [1.0, 3.0]
    with pytest.raises(RuntimeError, match=r"numpy\.multiply: the result has a history, which"):
        np.multiply(x, 3.0, out=out)
    with pytest.raises(RuntimeError, match=r"numpy\.cumsum: the result has a history, which"):
        np.cumsum(x, out=out)
    with pytest.raises(RuntimeError, match="cannot write a tensor with a history into an array"):
        np.copyto(out, x)
    with pytest.raises(ValueError, match="does not fit into out"):
        np.exp(x.detach(), out=np.zeros(1))


def test_an_augmented_assignment_to_an_array_makes_a_tensor() -> None:
    total, x = np.zeros(2), leaf(1.0, 2.0)
    total += x
    total *= x
    assert isinstance(total, torch.Tensor)
    total.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    kept = np.zeros(2)
    with pytest.raises(RuntimeError, match="has a history"):
        np.add(kept, x, out=kept)


def test_where_gives_no_gradient_elsewhere() -> None:
    x = leaf(0.0, 4.0)
    out = torch.full((2,), 7.0, dtype=torch.float64)
    np.log(x, where=np.array([False, True]), out=out)
    assert out.tolist() == [7.0, pytest.approx(np.log(4.0))]
    out.sum().backward()
    assert x.grad.tolist() == [0.0, 0.25]


def test_functions_that_write() -> None:
    def written(function: Any) -> Any:
        """What it makes of zeros, for arrays, and for tensors with the gradient by the values."""
        plain, values = np.zeros((2, 2)), leaf(5.0, 6.0)
        function(plain, np.array([5.0, 6.0]))
        ours = torch.zeros(2, 2, dtype=torch.float64)
        function(ours, values)
        assert ours.tolist() == plain.tolist()
        (ours * torch.arange(1.0, 5.0).reshape(2, 2)).sum().backward()
        return values.grad.tolist()

    mask = np.array([[True, False], [True, True]])
    assert written(np.copyto) == [4.0, 6.0]
    assert written(lambda a, v: np.copyto(a, v, where=mask)) == [4.0, 4.0]
    assert written(np.fill_diagonal) == [1.0, 4.0]
    assert written(lambda a, v: np.put(a, [3, 0], v)) == [4.0, 1.0]
    assert written(lambda a, v: np.put(a, [5, 0], v, mode="wrap")) == [2.0, 1.0]
    assert written(lambda a, v: np.place(a, mask, v)) == [5.0, 3.0]
    assert written(lambda a, v: np.putmask(a, mask, v)) == [4.0, 4.0]
    index = np.array([[1], [0]])
    assert written(lambda a, v: np.put_along_axis(a, index, v[:, None], 1)) == [2.0, 3.0]
    assert written(lambda a, v: np.add.at(a, ([0, 0], [1, 1]), v)) == [2.0, 2.0]
    assert written(lambda a, v: np.subtract.at(a, 1, v)) == [-3.0, -4.0]


# -- what has no counterpart -----------------------------------------------------------------


def test_without_a_counterpart_the_error_names_the_function_and_what_to_do() -> None:
    import scipy.special

    x = leaf(0.5, 1.5)
    for call, name in (
        (lambda: np.histogram(x), r"numpy\.histogram has no counterpart"),
        (lambda: scipy.special.zetac(x), r"scipy\.special\.zetac has no counterpart"),
        (lambda: np.frompyfunc(abs, 1, 1)(x), r"The ufunc 'abs \(vectorized\)' has no"),
        (lambda: np.pad(x, 1, mode="mean"), r"numpy\.pad\(mode='mean'\) has no counterpart"),
        (lambda: np.quantile(x, 0.5, method="hazen"), r"quantile\(method='hazen'\) has no"),
        (lambda: np.multiply.at(x, 0, 2.0), r"numpy\.multiply\.at is supported for add and sub"),
        (lambda: np.sort_complex(x), r"numpy\.sort_complex has no counterpart"),
    ):
        with pytest.raises(RuntimeError, match=name + r".*tensor\.detach\(\)\.numpy\(\)"):
            call()
    with pytest.raises(RuntimeError, match=r"numpy\.histogram has no counterpart"):
        func.jvp(lambda t: np.histogram(t)[1], (x.detach(),), (x.detach(),))


def test_without_a_counterpart_plain_tensors_are_taken_for_arrays() -> None:
    import scipy.special

    x = torch.tensor([0.5, 1.5], dtype=torch.float64)
    counts, _ = np.histogram(x, bins=2)
    assert counts.tolist() == [1, 1]
    found = scipy.special.jv(1, x)
    assert isinstance(found, torch.Tensor)
    assert found.tolist() == scipy.special.jv(1, x.numpy()).tolist()
    assert np.union1d(x, [9.0]).tolist() == [0.5, 1.5, 9.0]
    with torch.no_grad():
        assert np.histogram(leaf(0.5, 1.5), bins=2)[0].tolist() == [1, 1]


def test_other_array_libraries_get_their_turn() -> None:
    class Other:
        def __array_ufunc__(self, *args: Any, **options: Any) -> str:
            return "other"

        def __array_function__(self, *args: Any, **options: Any) -> str:
            return "other"

    x = leaf(1.0)
    assert np.add(x, Other()) == "other"
    assert np.concatenate([x, Other()]) == "other"


# -- what worked stays -----------------------------------------------------------------------


def test_conversions_are_as_they_were() -> None:
    x = torch.tensor([1.0, 2.0])
    assert type(np.asarray(x)) is np.ndarray
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert np.array([x, x]).shape == (2, 2)
    advice = r"Can't call numpy[^\n]*\n  What to do: .*np\.stack"
    for call in (lambda: np.asarray(leaf(1.0)), lambda: np.array([leaf(1.0), leaf(2.0)])):
        with pytest.raises(RuntimeError, match=advice):
            call()
    of_scipy = r"function of SciPy.* torch\.linalg, .*SCIPY_ARRAY_API=1"
    with pytest.raises(RuntimeError, match=of_scipy):
        scipy.linalg.inv(leaf(1.0, 2.0)[:, None] * torch.eye(2))
    # A function of the program that SciPy calls is not SciPy.
    with pytest.raises(RuntimeError, match=advice):
        scipy.optimize.brentq(lambda t: float(np.asarray(leaf(t))), -1.0, 2.0)
    product = scipy.sparse.csr_array(2 * np.eye(2)) @ x
    assert product.tolist() == [2.0, 4.0]
    assert np.zeros(2, dtype=x.dtype).dtype == np.float32
    assert np.ones(2).astype(torch.int8).dtype == np.int8


def test_operators_with_arrays_on_the_left_keep_the_dtypes_of_tensors() -> None:
    x = torch.ones(2)
    assert (np.float64(2) * x).dtype is torch.float32
    assert (np.ones(2) * x).dtype is torch.float64
    assert (np.ones(2, np.float32) - x).dtype is torch.float32
    assert (np.int64(3) // x).tolist() == [3.0, 3.0]
    assert type(np.ones(2) == x) is torch.Tensor


def test_the_table_is_loaded_when_it_is_first_needed() -> None:
    program = (
        "import sys, numpy as np, retrograd as torch; x = torch.ones(2); x + 1; "
        "assert 'retrograd.numpy_protocols' not in sys.modules; np.ones(2) * x; "
        "assert 'retrograd.numpy_protocols._shapes' not in sys.modules; np.sum(x); "
        "assert 'retrograd.numpy_protocols._shapes' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_table_is_whole_whatever_was_imported_before() -> None:
    program = (
        "import numpy as np, retrograd as torch, retrograd.array_api; "
        "np.copyto(torch.zeros(2), torch.ones(2, requires_grad=True)); np.linalg.inv(torch.eye(2))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
