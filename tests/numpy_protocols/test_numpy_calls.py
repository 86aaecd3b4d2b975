"""NumPy's functions of tensors: values, shapes and dtypes against NumPy itself, derivatives in all
modes against differences of NumPy's own values."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.special as sp
from _numpy_calls import CALLS
from _versions import skip_if_numpy_lacks

import retrograd as torch
from retrograd import func
from retrograd.numpy_protocols import _functions, _ufuncs

VALUES: dict[str, Any] = {
    "x": np.array([[0.31, 0.82, 0.57], [0.24, 0.66, 0.91]]),
    "y": np.array([[0.45, 0.28, 0.73], [0.88, 0.37, 0.52]]),
    "v": np.array([0.35, 0.81, 0.56]),
    "w": np.array([0.72, 0.27, 0.43]),
    "A": np.array([[2.1, 0.3, -0.4], [0.5, 1.7, 0.2], [-0.3, 0.6, 2.6]]),
    "S": np.array([[2.1, 0.3, -0.4], [0.3, 1.7, 0.2], [-0.4, 0.2, 2.6]]),
    "z": np.array([0.4 + 0.3j, 0.7 - 0.5j, -0.2 + 0.8j]),
    "n": np.array([0.4, 0.9, np.nan, 0.2]),
}
CONSTANTS: dict[str, Any] = {
    "np": np, "sp": sp, "a": np.array([[0.5, 0.9, 0.6], [0.3, 0.4, 0.75]]),
    "i": np.array([[1, 2, 0], [3, 1, 2]]),
    "m": np.array([[True, False, True], [True, True, False]]),
}  # fmt: skip
INTEGERS = np.array([[4, 6, 9], [3, 12, 5]])
# What NumPy makes float64 of integers is of the default dtype here.
OTHER_DTYPE = ("mean(t)", "hypot(t", "ldexp(t", "norm(t)", "np.float32(2) * x")
# Strings, types and shapes, which are compared as they are, or not at all.
TEXT = ("array_repr", "array_str", "array2string", "einsum_path")
# Where values decide about shapes or branches, or which vmap does not batch.
NOT_BATCHED = re.compile(
    r"nonzero|argwhere|unique|where\(x > 0.5\)|extract|compress|piecewise|allclose|array_equal|"
    r"array_equiv|share|array_repr|array_str|array2string|result_type|min_scalar|common_type|"
    r"einsum_path|lstsq|roots|real_if_close|isin|indices_from|bincount|digitize|can_cast"
)


def run(call: str, given: dict[str, Any]) -> list[Any]:
    """The results of a call, as a list."""
    skip_if_numpy_lacks(call)
    result = eval(call, {**CONSTANTS, **given})
    return list(result) if isinstance(result, (tuple, list)) else [result]


def names_of(call: str) -> list[str]:
    return [name for name in VALUES if re.search(rf"(?<![\w.']){name}\b(?!')", call)]


def scalar(results: list[Any]) -> Any:
    """One real number that all results that have derivatives take part in."""
    total: Any = 0.0
    for k, y in enumerate(results):
        if getattr(y, "dtype", None) is None:
            continue
        inexact = str(y.dtype).split(".")[-1][0] in "fc"
        if not inexact:
            continue
        weights = np.cos(1.0 + k + np.arange(int(np.prod(np.shape(y)))).reshape(np.shape(y)))
        if "complex" in str(y.dtype):
            total = total + (weights * np.real(y)).sum() + (np.sin(weights) * np.imag(y)).sum()
        else:
            total = total + (weights * y).sum()
    return total


def as_tensors(values: dict[str, Any]) -> dict[str, Any]:
    return {k: torch.tensor(v, requires_grad=True) for k, v in values.items()}


def test_every_counterpart_is_called() -> None:
    text = "\n".join(CALLS)
    _functions.counterpart("numpy", "sum")  # loads them
    written = {"copyto", "fill_diagonal", "put", "place", "putmask", "put_along_axis"}
    without = {"sort_complex", "argpartition"}
    missing = [
        f"{module}.{name}"
        for module, name in _functions.FUNCTIONS
        if f"{module.replace('numpy', 'np')}.{name}(" not in text
        and f"{module.replace('numpy', 'np')}.{name}," not in text
    ]
    assert {name.split(".")[-1] for name in missing} == written | without
    called = {f.__name__ for name in re.findall(r"np\.(\w+)[.(]", text)
              if isinstance(f := getattr(np, name, None), np.ufunc)}  # fmt: skip
    operators = {f.__name__ for f in _ufuncs.REFLECTED}
    ufuncs = {f.__name__ for f in vars(np).values() if isinstance(f, np.ufunc)}
    assert ufuncs - called - operators == {"isnat"}  # of dates, which tensors cannot hold


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated:DeprecationWarning")
@pytest.mark.parametrize("call", CALLS)
def test_values_are_those_of_numpy(call: str) -> None:
    given = {k: VALUES[k] for k in names_of(call)}
    with np.errstate(all="ignore"):
        expected = run(call, {**given, "t": INTEGERS})
    found = run(call, {**as_tensors(given), "t": torch.tensor(INTEGERS)})
    assert len(found) == len(expected)
    if any(word in call for word in TEXT):
        return
    for ours, theirs in zip(found, expected, strict=True):
        if not isinstance(theirs, (np.ndarray, np.generic)):
            assert ours == theirs
            continue
        assert isinstance(ours, (torch.Tensor, np.ndarray, bool, np.bool_)) or ours == theirs
        if isinstance(ours, torch.Tensor):
            assert tuple(ours.shape) == theirs.shape
            if not any(word in call for word in OTHER_DTYPE):
                kind = torch.tensor(theirs).dtype
                assert ours.dtype is kind, f"{ours.dtype}, and {kind} in NumPy"
        ours = ours.detach().numpy() if isinstance(ours, torch.Tensor) else ours
        tolerance = 1e-6 if "float32" in str(getattr(ours, "dtype", "")) else 1e-9
        np.testing.assert_allclose(ours, theirs, tolerance, tolerance)


def differences(call: str, given: dict[str, Any]) -> dict[str, Any]:
    """Derivatives of the scalar by central differences of NumPy's values. Of a complex number: by
    the real part, and by the imaginary part times the imaginary unit."""
    found = {}
    for name, value in given.items():
        slope = np.zeros_like(value)
        for index in np.ndindex(value.shape):
            for unit in (1, 1j) if np.iscomplexobj(value) else (1,):
                ends = []
                for step in (1e-6, -1e-6):
                    moved = value.copy()
                    moved[index] += step * unit
                    if name == "S" and index[0] != index[1]:
                        moved[index[::-1]] += step * unit
                    with np.errstate(all="ignore"):
                        ends.append(scalar(run(call, {**given, name: moved, "t": INTEGERS})))
                slope[index] += (ends[0] - ends[1]) / 2e-6 * unit
        found[name] = slope
    return found


DIFFERENTIABLE = [
    c for c in CALLS
    if names_of(c) and "float32" not in c and "'f4'" not in c and "spacing" not in c
    and "nextafter" not in c and "frexp" not in c and "floor_divide" not in c and "divmod" not in c
    and "//" not in c
]  # fmt: skip


def slopes(call: str) -> tuple[dict[str, Any], dict[str, Any], Any]:
    given = {k: VALUES[k] for k in names_of(call)}
    tensors = as_tensors(given)
    return given, tensors, scalar(run(call, {**tensors, "t": torch.tensor(INTEGERS)}))


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated:DeprecationWarning")
@pytest.mark.parametrize("call", DIFFERENTIABLE)
def test_gradients_are_those_of_differences(call: str) -> None:
    given, tensors, total = slopes(call)
    expected = differences(call, given)
    if not isinstance(total, torch.Tensor) or not total.requires_grad:
        assert all(not np.nan_to_num(e).any() for e in expected.values()), "a gradient is lost"
        return
    total.backward()
    for name, tensor in tensors.items():
        slope = torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
        slope = slope.numpy()
        if name == "S":  # the differences move both triangles
            slope = slope + slope.T - np.diag(np.diag(slope))
        known = np.isfinite(expected[name])
        np.testing.assert_allclose(slope[known], expected[name][known], 2e-5, 2e-7)


@pytest.mark.parametrize("call", DIFFERENTIABLE)
def test_tangents_agree_with_gradients(call: str) -> None:
    given, tensors, total = slopes(call)
    if not isinstance(total, torch.Tensor) or not total.requires_grad:
        return
    gradients = torch.autograd.grad(total, list(tensors.values()), allow_unused=True)
    names = list(tensors)
    primals = tuple(torch.tensor(given[k]) for k in names)
    tangents = tuple(torch.cos(torch.arange(p.numel()) + 1.0).reshape(p.shape).to(p.dtype)
                     for p in primals)  # fmt: skip
    _, moved = func.jvp(
        lambda *args: scalar(run(call, dict(zip(names, args, strict=True)))), primals, tangents
    )
    expected = sum(
        torch.real(torch.conj(g) * t).sum()
        for g, t in zip(gradients, tangents, strict=True) if g is not None
    )  # fmt: skip
    assert torch.allclose(moved, expected, rtol=1e-7, atol=1e-9, equal_nan=True)


@pytest.mark.parametrize("call", [c for c in DIFFERENTIABLE if not NOT_BATCHED.search(c)])
def test_batches_agree_with_their_entries(call: str) -> None:
    names = names_of(call)
    values = [torch.tensor(VALUES[k]) for k in names]
    stacked = [torch.stack([x, x * 1.01]) for x in values]

    def called(*args: Any) -> Any:
        found = run(call, dict(zip(names, args, strict=True)))
        return tuple(y for y in found if isinstance(y, torch.Tensor))

    single = [called(*[x[k] for x in stacked]) for k in (0, 1)]
    if not single[0]:
        return
    for ours, first, second in zip(func.vmap(called)(*stacked), *single, strict=True):
        expected = torch.stack([first, second])
        assert torch.allclose(ours, expected, rtol=1e-6, atol=1e-8, equal_nan=True)


def test_edges_of_shapes_and_dtypes_are_those_of_numpy() -> None:
    """Arrays of no dimensions, without elements, of truth values and of complex numbers."""
    given = {
        "o": np.array(2.5), "e": np.zeros((0, 3)), "b": np.array([[True, False], [True, True]]),
        "c": np.array([2 + 1j, 1 - 1j, 2 + 1j, 1.5j]), "t": np.array([3, 1, 2]),
    }  # fmt: skip
    for call in (
        "np.sum(o, axis=0)", "np.max(o, axis=-1, keepdims=True)", "np.cumsum(o, axis=0)",
        "np.argmax(o, axis=0)", "np.take(o, [0, 0], axis=0)", "np.repeat(o, 2, axis=0)",
        "np.add.reduce(o)", "np.sum(e)", "np.mean(e, axis=1)", "np.median(e, axis=0)",
        "np.median(e)", "np.resize(e, (2, 2))", "np.unwrap(e[:, :0])", "np.sort(e)",
        "np.concatenate([e, e])", "np.argmax(b)", "np.argmax(b, axis=1)", "np.argmin(b, axis=0)",
        "np.isin(b, [True])", "np.abs(b)", "np.sum(b)", "np.cumsum(b)", "np.any(b, axis=0)",
        "np.isin(c, [2 + 1j])", "np.isin(c, [1.0], invert=True)", "np.unique(c)",
        "np.unique(c, return_index=True, return_inverse=True, return_counts=True)",
        "np.linspace(c, 1.0, 3)", "np.round(c)", "np.round(t)", "np.round(t, 1)", "np.tril(t)",
        "np.triu(t, 1)", "np.where(b, c[:2], 0)", "np.polyval(t, 2)", "np.nonzero(t)",
    ):  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy's, about means of nothing
            theirs = run(call, given)
        ours = run(call, {k: torch.tensor(v) for k, v in given.items()})
        for found, expected in zip(ours, theirs, strict=True):
            assert tuple(found.shape) == np.shape(expected), call
            np.testing.assert_allclose(found.numpy(), expected, err_msg=call)
    with pytest.raises(ValueError, match="nonzero on 0d arrays"):
        np.nonzero(torch.tensor(1.0))
    with pytest.raises(ValueError, match="too deep"):
        np.convolve(torch.ones(2, 2), [1.0])
