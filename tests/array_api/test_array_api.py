"""The array API standard 2024.12: every name with its arguments; values and dtypes against NumPy,
which implements it; special cases from the text of the standard."""

from __future__ import annotations

import array
import inspect
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _versions import NUMPY_2_0, skip_if_numpy_lacks

import retrograd as torch
from retrograd import array_api as xp

SIGNATURES = (Path(__file__).parent / "signatures.txt").read_text(encoding="utf-8").splitlines()
CONSTANTS = {"e": math.e, "inf": math.inf, "nan": math.nan, "newaxis": None, "pi": math.pi}
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOATS, COMPLEX = ("float32", "float64"), ("complex64", "complex128")
DTYPES = ("bool", *SIGNED, *UNSIGNED, *FLOATS, *COMPLEX)


def found(space: Any, name: str) -> Any:
    for part in name.split("."):
        space = getattr(space, part)
    return space


# -- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize("line", SIGNATURES)
def test_signatures_are_those_of_the_standard(line: str) -> None:
    name = line.partition("(")[0]
    signature = inspect.signature(found(xp, name))
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    signature = signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)
    assert f"{name}{signature}" == line
    assert found(xp, name).__doc__


def test_there_are_no_other_names() -> None:
    names = {line.partition("(")[0] for line in SIGNATURES}
    for space, prefix in ((xp, ""), (xp.linalg, "linalg."), (xp.fft, "fft.")):
        functions = {n.removeprefix(prefix) for n in names if n.startswith(prefix)}
        functions = {n for n in functions if "." not in n}
        others = {*CONSTANTS, *DTYPES, "linalg", "fft", "__array_api_version__",
                  "__array_namespace_info__"} if space is xp else set()  # fmt: skip
        assert set(space.__all__) == functions | others
        assert all(hasattr(space, n) for n in space.__all__)
    for name, value in CONSTANTS.items():
        assert getattr(xp, name) is value or getattr(xp, name) == value or name == "nan"
    assert math.isnan(xp.nan)
    assert xp.__array_api_version__ == "2024.12"


def test_a_tensor_knows_the_namespace() -> None:
    x = torch.ones(2, 3)
    assert x.__array_namespace__() is xp
    for version in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        assert x.__array_namespace__(api_version=version) is xp
    with pytest.raises(ValueError, match=r"'2030\.12' is not known"):
        x.__array_namespace__(api_version="2030.12")
    assert x.to_device(x.device) is x
    assert x.mT.shape == (3, 2)
    with pytest.raises(ValueError, match="no streams"):
        x.to_device("cpu", stream=1)


def test_info() -> None:
    info = xp.__array_namespace_info__()
    capabilities = info.capabilities()
    assert capabilities["boolean indexing"] is True
    assert capabilities["data-dependent shapes"] is True
    assert capabilities["max dimensions"] == 64
    assert torch.zeros([1] * 64).ndim == 64
    assert info.default_device() == torch.ones(1).device
    assert info.devices() == [info.default_device()]
    assert info.default_dtypes() == {
        "real floating": xp.float32, "complex floating": xp.complex64, "integral": xp.int64,
        "indexing": xp.int64,
    }  # fmt: skip
    assert xp.zeros(2).dtype is xp.float32
    assert list(info.dtypes()) == list(DTYPES)
    assert info.dtypes(kind="unsigned integer") == {n: getattr(xp, n) for n in UNSIGNED}
    assert list(info.dtypes(kind=("bool", "real floating"))) == ["bool", *FLOATS]
    assert info.dtypes(device=info.default_device(), kind="complex floating").keys() == {*COMPLEX}
    with pytest.raises(ValueError, match="unknown kind"):
        info.dtypes(kind="number")


# -- elements --------------------------------------------------------------------------------

VALUES = {
    "bool": [True, False, True], "signed": [-3, 2, 5], "unsigned": [3, 2, 5],
    "float": [0.3, -0.7, 2.5], "complex": [0.3 + 0.4j, -0.7 - 2j, 2.5j],
}  # fmt: skip


def sample(dtype: str, shift: int = 0) -> np.ndarray:
    kind = np.dtype(dtype).kind
    word = {"b": "bool", "i": "signed", "u": "unsigned", "f": "float", "c": "complex"}[kind]
    return np.roll(np.array(VALUES[word], dtype), shift)


def compare(ours: Any, theirs: Any) -> None:
    assert isinstance(ours, torch.Tensor)
    assert str(ours.dtype).split(".")[1] == str(theirs.dtype)
    assert tuple(ours.shape) == theirs.shape
    tolerance = 1e-5 if theirs.dtype in (np.float32, np.complex64) else 1e-12
    np.testing.assert_allclose(ours.detach().numpy(), theirs, tolerance, tolerance)


NUMERIC, REAL = (*SIGNED, *UNSIGNED, *FLOATS, *COMPLEX), (*SIGNED, *UNSIGNED, *FLOATS)
INEXACT, INTEGRAL = (*FLOATS, *COMPLEX), (*SIGNED, *UNSIGNED)
UNARY = {
    "abs": NUMERIC, "bitwise_invert": ("bool", *INTEGRAL), "ceil": REAL, "conj": NUMERIC,
    "floor": REAL, "imag": COMPLEX, "isfinite": NUMERIC, "isinf": NUMERIC, "isnan": NUMERIC,
    "logical_not": ("bool",), "negative": (*SIGNED, *INEXACT), "positive": NUMERIC,
    "real": (*REAL, *COMPLEX), "round": NUMERIC, "sign": NUMERIC, "signbit": FLOATS,
    "square": NUMERIC, "trunc": REAL,
    **dict.fromkeys(("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp",
                     "expm1", "log", "log10", "log1p", "log2", "reciprocal", "sin", "sinh", "sqrt",
                     "tan", "tanh"), INEXACT),
}  # fmt: skip
BINARY = {
    **dict.fromkeys(("add", "subtract", "multiply", "equal", "not_equal"), NUMERIC),
    **dict.fromkeys(("greater", "greater_equal", "less", "less_equal", "maximum", "minimum"), REAL),
    **dict.fromkeys(("floor_divide", "remainder"), REAL),
    **dict.fromkeys(("atan2", "copysign", "hypot", "logaddexp", "nextafter"), FLOATS),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), ("bool", *INTEGRAL)),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), ("bool",)),
    "bitwise_left_shift": INTEGRAL, "bitwise_right_shift": INTEGRAL, "divide": INEXACT,
    "pow": (*UNSIGNED, *INEXACT),
}  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n, ds in UNARY.items() for d in ds])
def test_functions_of_one_array(name: str, dtype: str) -> None:
    if NUMPY_2_0 and name in ("ceil", "floor", "trunc") and "int" in dtype:
        pytest.skip(f"NumPy {np.__version__} rounds integers to floats, against the standard")
    x = sample(dtype)
    compare(found(xp, name)(torch.tensor(x)), found(np, name)(x))


def of_one_kind(a: str, b: str) -> bool:
    if "uint64" in (a, b) and (a in SIGNED or b in SIGNED):
        return False  # which the standard leaves open
    return a == b or {a, b} <= {*INTEGRAL} or {a, b} <= {*INEXACT}


PAIRS = [
    (name, a, b)
    for name, dtypes in BINARY.items()
    for a, b in itertools.product(dtypes, repeat=2)
    if of_one_kind(a, b)
]


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arrays(name: str) -> None:
    for _, a, b in [p for p in PAIRS if p[0] == name]:
        x, y = sample(a), sample(b, 1)
        if "shift" in name:
            y = np.abs(y)
        if name in ("floor_divide", "remainder"):
            y = np.where(y == 0, 1, y).astype(b)
        compare(found(xp, name)(torch.tensor(x), torch.tensor(y)), found(np, name)(x, y))
        # An array without dimensions counts as any other.
        compare(found(xp, name)(torch.tensor(x), torch.tensor(y[0])),
                found(np, name)(x, y[:1]))  # fmt: skip


def test_python_numbers_take_the_dtype_of_the_array() -> None:
    for dtype in (*SIGNED, *UNSIGNED, *FLOATS, *COMPLEX):
        x = torch.tensor(sample(dtype))
        assert xp.add(x, 1).dtype is x.dtype
        assert xp.multiply(2, x).dtype is x.dtype
    for dtype in FLOATS:
        assert xp.maximum(torch.tensor(sample(dtype)), 0.5).dtype is getattr(xp, dtype)
    exact = xp.add(xp.asarray(0.0, dtype=xp.float64), 0.1)
    assert exact.item() == 0.1
    with pytest.raises(TypeError, match="expected an array"):
        xp.add(1, 2)
    with pytest.raises(TypeError, match="expected an array"):
        xp.sin(1.0)


SPECIAL = [  # from the sections "Special cases" of the standard
    ("floor_divide", 1.0, 0.0, math.inf), ("floor_divide", -1.0, 0.0, -math.inf),
    ("floor_divide", 0.0, 0.0, math.nan), ("floor_divide", 0.0, 2.0, 0.0),
    ("floor_divide", -0.0, 2.0, -0.0), ("floor_divide", 3.0, math.inf, 0.0),
    ("floor_divide", -3.0, math.inf, -1.0), ("floor_divide", math.nan, 1.0, math.nan),
    ("remainder", 3.0, math.inf, 3.0), ("remainder", -3.0, math.inf, math.inf),
    ("remainder", 0.0, -2.0, -0.0), ("remainder", -0.0, 2.0, 0.0),
    ("remainder", 1.0, 0.0, math.nan),
    ("remainder", math.inf, 2.0, math.nan), ("remainder", 3.0, -math.inf, -math.inf),
    ("pow", math.nan, 0.0, 1.0), ("pow", 1.0, math.nan, 1.0), ("pow", 2.0, math.inf, math.inf),
    ("pow", 0.5, math.inf, 0.0), ("pow", -0.0, -3.0, -math.inf), ("pow", -0.0, -2.0, math.inf),
    ("pow", -math.inf, 3.0, -math.inf), ("pow", -math.inf, -3.0, -0.0),
    ("pow", -1.0, math.inf, 1.0), ("pow", -math.inf, 0.5, math.inf), ("pow", -0.0, 0.5, 0.0),
    ("pow", -8.0, 1 / 3, math.nan), ("atan2", 0.0, -0.0, math.pi), ("atan2", -0.0, -0.0, -math.pi),
    ("atan2", 0.0, 0.0, 0.0), ("atan2", 1.0, 0.0, math.pi / 2),
    ("atan2", math.inf, -math.inf, 3 * math.pi / 4),
    ("hypot", math.inf, math.nan, math.inf), ("hypot", math.nan, 1.0, math.nan),
    ("hypot", 0.0, -3.0, 3.0),
    ("logaddexp", math.inf, math.nan, math.nan), ("logaddexp", math.inf, 1.0, math.inf),
    ("maximum", 1.0, math.nan, math.nan), ("minimum", math.nan, 1.0, math.nan),
    ("copysign", 2.0, -0.0, -2.0), ("copysign", 0.0, -1.0, -0.0), ("divide", 1.0, -0.0, -math.inf),
    ("divide", 0.0, 0.0, math.nan), ("add", math.inf, -math.inf, math.nan),
    ("add", -0.0, -0.0, -0.0),
    ("multiply", math.inf, 0.0, math.nan), ("nextafter", 1.0, math.nan, math.nan),
    ("nextafter", 2.0, 2.0, 2.0),
    ("sqrt", -1.0, None, math.nan), ("sqrt", -0.0, None, -0.0), ("log", 0.0, None, -math.inf),
    ("log", -1.0, None, math.nan), ("log1p", -1.0, None, -math.inf), ("log1p", -0.0, None, -0.0),
    ("expm1", -0.0, None, -0.0), ("expm1", -math.inf, None, -1.0), ("exp", -math.inf, None, 0.0),
    ("round", 0.5, None, 0.0), ("round", 1.5, None, 2.0), ("round", -0.3, None, -0.0),
    ("ceil", -0.5, None, -0.0), ("floor", -0.0, None, -0.0), ("trunc", -0.5, None, -0.0),
    ("sign", -0.0, None, 0.0), ("sign", math.nan, None, math.nan), ("acos", 2.0, None, math.nan),
    ("atan", -math.inf, None, -math.pi / 2), ("atanh", -1.0, None, -math.inf),
    ("tanh", -0.0, None, -0.0),
    ("cosh", -math.inf, None, math.inf), ("reciprocal", -0.0, None, -math.inf),
    ("asinh", -0.0, None, -0.0),
    ("abs", -0.0, None, 0.0), ("sin", math.inf, None, math.nan), ("tan", -0.0, None, -0.0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "x1", "x2", "expected"), SPECIAL)
def test_special_cases(name: str, x1: float, x2: float | None, expected: float) -> None:
    for dtype in (xp.float32, xp.float64):
        given = [xp.asarray(x, dtype=dtype) for x in (x1, x2) if x is not None]
        result = found(xp, name)(*given).item()
        if math.isnan(expected):
            assert math.isnan(result)
        else:
            assert result == pytest.approx(expected, rel=1e-6)
            if not expected and name != "sign":
                assert math.copysign(1, result) == math.copysign(1, expected)
    wide = [xp.asarray([x] * 20, dtype=xp.float64) for x in (x1, x2) if x is not None]
    np.testing.assert_allclose(found(xp, name)(*wide).numpy(), [expected] * 20)


EXPM1 = [  # of complex numbers: real and imaginary part, and those of the result
    (-0.0, 0.0, 0.0, 0.0), (math.inf, 0.0, math.inf, 0.0), (-math.inf, 2.0, -1.0, 0.0),
    (-math.inf, math.inf, -1.0, 0.0), (math.inf, math.inf, math.inf, math.nan),
    (-math.inf, math.nan, -1.0, 0.0), (math.inf, math.nan, math.inf, math.nan),
    (math.nan, 0.0, math.nan, 0.0), (math.nan, math.nan, math.nan, math.nan),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize(("real", "imaginary", *"ab"), EXPM1)
def test_complex_expm1(real: float, imaginary: float, a: float, b: float) -> None:
    for dtype in (xp.complex64, xp.complex128):
        result = xp.expm1(xp.asarray([complex(real, imaginary), 1e-9 + 2e-9j], dtype=dtype))
        np.testing.assert_equal([abs(result[0].real.item()), result[0].imag.item()], [abs(a), b])
        assert result[0].real.item() < 0 if a == -1 else True
        np.testing.assert_allclose(result[1].item(), 1e-9 + 2e-9j, 1e-6)


def test_integers_beyond_the_dtype_raise() -> None:
    x = xp.asarray([1, 200], dtype=xp.uint8)
    for call in (xp.maximum, xp.add, xp.less):
        for number in (-1, 256):
            with pytest.raises(OverflowError, match=f"{number} is not a number of torch.uint8"):
                call(x, number)
    assert xp.add(x, 255).tolist() == [0, 199]


def test_the_end_left_out_of_a_range_moves_no_other_number() -> None:
    for start, stop, num in ((339, 1000, 12), (-61, 59510095, 13), (0.1, 0.7, 29), (1, 2, 0)):
        for dtype in (xp.float32, xp.float64):
            whole = xp.linspace(start, stop, num + 1, dtype=dtype)
            part = xp.linspace(start, stop, num, dtype=dtype, endpoint=False)
            assert part.tolist() == whole.tolist()[:-1]


def test_buffers_have_a_dtype() -> None:
    for code, dtype in (("d", xp.float64), ("i", xp.int32), ("B", xp.uint8), ("q", xp.int64)):
        numbers = array.array(code, [1, 2, 3])
        for x in (numbers, memoryview(numbers)):
            assert xp.asarray(x).tolist() == [1, 2, 3]
            assert xp.asarray(x).dtype is dtype
        shared = xp.asarray(numbers, copy=False)
        numbers[0] = 7
        assert shared.tolist() == [7, 2, 3]
    assert xp.asarray(bytearray(b"ab")).tolist() == [97, 98]


# -- the others ------------------------------------------------------------------------------

ARRAYS = {
    "f": np.array([[0.3, -0.7, 2.5], [1.1, 0.4, -2.0]]),
    "g": np.array([[1.0, 2.0, 0.5], [-1.0, 3.0, 0.1]]),
    "s": np.array([[0.3, -0.7, 2.5], [1.1, 0.4, -2.0]], np.float32),
    "i": np.array([[3, -1, 2], [0, 5, -4]], np.int16), "u": np.array([1, 200, 100], np.uint8),
    "b": np.array([[True, False, True], [False, False, False]]),
    "c": np.array([[1 + 2j, 0.5, -1j], [2, 1 - 1j, 0]]), "v": np.array([3.0, -1.0, 2.0]),
    "w": np.array([0.5, 1.5, -2.0]), "k": np.array([2, 0, 1]), "z": np.array(2.5),
    "M": np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 5.0]]), "n": np.zeros((0, 3)),
    "d": np.array([1, 2, 2, 1, 3]),
}  # fmt: skip
CALLS = [
    *[f"xp.{r}({x}{o})" for r in ("sum", "prod", "max", "min") for x in "fisu" for o in
      ("", ", axis=0", ", axis=-1, keepdims=True") if not (x == "u" and o)],
    *[f"xp.{r}({x}{o})" for r in ("mean", "var", "std") for x in "fs" for o in
      ("", ", axis=0", ", axis=(0, 1), keepdims=True")],
    *[f"xp.{r}({x}{o})" for r in ("all", "any") for x in "fib" for o in
      ("", ", axis=0", ", axis=(0, 1)", ", axis=-1, keepdims=True")],
    "xp.sum(b)", "xp.sum(f, axis=())", "xp.sum(n)", "xp.sum(n, axis=0)", "xp.prod(n, axis=0)",
    "xp.sum(i, dtype=xp.float64)", "xp.sum(s, dtype=xp.float64)", "xp.prod(u, dtype=xp.int32)",
    "xp.sum(c)", "xp.mean(c)", "xp.var(f, correction=1)", "xp.std(f, axis=1, correction=0.5)",
    "xp.all(n)", "xp.any(n)", "xp.all(n, axis=0)", "xp.cumulative_sum(v)", "xp.cumulative_sum(u)",
    "xp.cumulative_sum(i, axis=1, include_initial=True)", "xp.cumulative_prod(f, axis=0)",
    "xp.cumulative_sum(n, axis=0, dtype=xp.int8, include_initial=True)",
    "xp.cumulative_prod(n, axis=0, dtype=xp.uint64, include_initial=True)",
    "xp.repeat(f, xp.astype(k, xp.int8), axis=1)", "xp.repeat(v, xp.astype(k, xp.uint32))",
    "xp.linalg.vector_norm(f, axis=())", "xp.clip(u, -1, 150)", "xp.clip(u, 2, 1000)",
    "xp.arange(2**64 - 5, 2**64 - 1, 2, dtype=xp.uint64)",
    "xp.arange(4e-277, 0, -1e-277, dtype=xp.float64)",
    "xp.linspace(-1.7e308, 1e-5, 17, dtype=xp.float64)",
    "xp.linspace(2e38, -2e38, 5, dtype=xp.float32)",
    "xp.cumulative_sum(i, axis=0, dtype=xp.float32)", "xp.cumulative_prod(u, include_initial=True)",
    "xp.count_nonzero(i)", "xp.count_nonzero(b, axis=0, keepdims=True)", "xp.diff(f)",
    "xp.diff(f, axis=0, n=1)", "xp.diff(v, n=2, prepend=w[:1], append=w)", "xp.argmax(f)",
    "xp.argmax(f, axis=1)", "xp.argmin(f, axis=0, keepdims=True)", "xp.argmin(i, keepdims=True)",
    "xp.sort(f)", "xp.sort(f, axis=0)", "xp.argsort(f)", "xp.sort(d)", "xp.argsort(d)",
    "xp.searchsorted(xp.sort(v), w)", "xp.searchsorted(xp.sort(v), f, side='right')",
    "xp.searchsorted(v, w, sorter=xp.argsort(v))", "xp.nonzero(f)", "xp.nonzero(b)",
    "xp.take(v, k)", "xp.take(f, k, axis=1)", "xp.take_along_axis(f, xp.argsort(f), axis=1)",
    "xp.unique_all(d)", "xp.unique_counts(d)", "xp.unique_inverse(f)",
    "xp.sort(xp.unique_values(d))",
    "xp.unique_values(b)", "xp.unique_values(n)", "xp.unique_all(c)", "xp.where(b, f, g)",
    "xp.where(b, f, 2.0)",
    "xp.where(b, 1, i)", "xp.clip(f, -0.5, 1.0)", "xp.clip(i, 0, 3)", "xp.clip(f, g, 2.0)",
    "xp.clip(f, min=0.0)", "xp.clip(f, max=g)", "xp.clip(s, 0, 1)", "xp.broadcast_arrays(f, v)",
    "xp.broadcast_to(v, (2, 3))", "xp.concat((f, g))", "xp.concat([f, g], axis=None)",
    "xp.concat([f, s], axis=1)", "xp.concat([u, d])", "xp.stack([v, w], axis=1)", "xp.unstack(f)",
    "xp.unstack(f, axis=1)", "xp.expand_dims(v, axis=0)", "xp.expand_dims(v, axis=(0, 2))",
    "xp.squeeze(f[:1, :], 0)", "xp.reshape(f, (3, 2))", "xp.reshape(f, (-1,), copy=True)",
    "xp.permute_dims(f, (1, 0))", "xp.moveaxis(f, 0, 1)", "xp.flip(f)", "xp.flip(f, axis=1)",
    "xp.roll(f, 1)", "xp.roll(f, (1, 2), axis=(0, 1))", "xp.repeat(v, 2)",
    "xp.repeat(f, k, axis=1)",
    "xp.tile(v, (2, 2))", "xp.tril(M)", "xp.triu(M, k=1)", "xp.matmul(f, M)", "xp.matmul(v, w)",
    "xp.matmul(i, xp.matrix_transpose(i))", "xp.matmul(s, M)", "xp.matrix_transpose(f)",
    "xp.tensordot(f, g)", "xp.tensordot(f, M, axes=1)", "xp.tensordot(f, g, axes=((0,), (0,)))",
    "xp.vecdot(f, g)", "xp.vecdot(c, c)", "xp.vecdot(f, g, axis=0)", "xp.vecdot(f, v)",
    "xp.meshgrid(v, w)", "xp.meshgrid(v, w[:2], indexing='ij')", "xp.astype(f, xp.int64)",
    "xp.astype(f, xp.bool)", "xp.astype(i, xp.complex64)", "xp.full_like(f, 3)", "xp.ones_like(i)",
    "xp.zeros_like(f, dtype=xp.int8)", "xp.eye(3, dtype=xp.float64)",
    "xp.eye(2, 4, k=1, dtype=xp.int8)",
    "xp.eye(3, 2, k=-1, dtype=xp.bool)", "xp.arange(5)", "xp.arange(5, 1, -2)", "xp.arange(2, 2)",
    "xp.arange(0, 1, 0.25, dtype=xp.float64)", "xp.arange(5, 1)", "xp.zeros(3, dtype=xp.float64)",
    "xp.ones((2, 1), dtype=xp.int8)", "xp.full((2,), 2 + 1j, dtype=xp.complex128)",
    "xp.full((), 3)",
    "xp.full(2, True)", "xp.linspace(0, 1, 5, dtype=xp.float64)",
    "xp.linspace(0, 1, 4, dtype=xp.float64, endpoint=False)",
    "xp.linspace(2, 2, 1, dtype=xp.float64)",
    "xp.linspace(1j, 2, 3, dtype=xp.complex128)", "xp.asarray(f, copy=True)", "xp.asarray(3)",
    "xp.asarray([True, False])", "xp.asarray([[1, 2]], dtype=xp.float64)", "xp.from_dlpack(f)",
    "xp.linalg.cholesky(M)", "xp.linalg.cholesky(M, upper=True)", "xp.linalg.cross(v, w)",
    "xp.linalg.det(M)", "xp.linalg.diagonal(M, offset=1)", "xp.linalg.eigh(M)[0]",
    "xp.linalg.eigvalsh(M)", "xp.linalg.inv(M)", "xp.linalg.matmul(f, M)",
    "xp.linalg.matrix_norm(f)", "xp.linalg.matrix_norm(f, ord=2, keepdims=True)",
    "xp.linalg.matrix_norm(f, ord='nuc')", "xp.linalg.matrix_power(M, 3)",
    "xp.linalg.matrix_power(M, -1)", "xp.linalg.matrix_power(M, 0)", "xp.linalg.matrix_rank(M)",
    "xp.linalg.matrix_transpose(f)", "xp.linalg.outer(v, w)", "xp.linalg.pinv(f)",
    "xp.abs(xp.linalg.qr(M)[1])", "xp.linalg.slogdet(M)", "xp.linalg.solve(M, v)",
    "xp.linalg.solve(M, M)", "xp.linalg.solve(xp.stack([M, M]), v)", "xp.linalg.svd(f)[1]",
    "xp.linalg.svdvals(f)", "xp.linalg.tensordot(f, g, axes=2)", "xp.linalg.trace(M)",
    "xp.linalg.trace(i, offset=1)", "xp.linalg.trace(i, dtype=xp.float32)",
    "xp.linalg.vecdot(f, g)",
    "xp.linalg.vector_norm(f)", "xp.linalg.vector_norm(f, axis=1, ord=1)",
    "xp.linalg.vector_norm(f, axis=(0, 1), ord=xp.inf, keepdims=True)",
    "xp.linalg.vector_norm(c, axis=0)", "xp.fft.fft(v)", "xp.fft.fft(s, n=2, axis=0, norm='ortho')",
    "xp.fft.ifft(c)", "xp.fft.rfft(v)", "xp.fft.irfft(c, n=5)", "xp.fft.hfft(c)", "xp.fft.ihfft(v)",
    "xp.fft.fftn(c)", "xp.fft.ifftn(c, axes=(0,))", "xp.fft.rfftn(f)", "xp.fft.irfftn(c)",
    "xp.fft.fftshift(v)", "xp.fft.ifftshift(f, axes=(1,))",
    "xp.fft.rfftn(f, s=(2, 2), axes=(0, 1))",
]  # fmt: skip


def parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize("call", CALLS)
def test_results_are_those_of_numpy(call: str) -> None:
    skip_if_numpy_lacks(call)
    theirs = eval(call, {"xp": np, **ARRAYS})
    tensors = {k: torch.tensor(v) for k, v in ARRAYS.items()}
    ours = eval(call, {"xp": xp, **tensors})
    if isinstance(theirs, tuple) and hasattr(theirs, "_fields"):
        assert ours._fields == theirs._fields if "unique" in call else True
    for a, b in zip(parts(ours), parts(theirs), strict=True):
        compare(a, np.asarray(b))


def test_every_function_is_called() -> None:
    text = "\n".join(CALLS)
    tested = {*UNARY, *BINARY, "finfo", "iinfo", "isdtype", "can_cast", "result_type", "empty",
              "empty_like", "fft.fftfreq", "fft.rfftfreq"}  # fmt: skip
    names = {line.partition("(")[0] for line in SIGNATURES}
    assert {n for n in names if f"xp.{n}(" not in text} - tested == set()


def test_frequencies_and_empty_arrays() -> None:
    compare(xp.fft.fftfreq(5, d=0.5, dtype=xp.float64), np.fft.fftfreq(5, d=0.5))
    compare(xp.fft.rfftfreq(4, dtype=xp.float64), np.fft.rfftfreq(4))
    assert xp.fft.fftfreq(5).dtype is xp.float32
    assert xp.empty((2, 3), dtype=xp.int8).shape == (2, 3)
    assert xp.empty_like(xp.zeros((2,), dtype=xp.int8)).dtype is xp.int8


def test_sorting() -> None:
    x = xp.asarray([2, 1, 2, 1, 3])
    assert xp.sort(x, descending=True).tolist() == [3, 2, 2, 1, 1]
    assert xp.argsort(x, descending=True).tolist() == [4, 0, 2, 1, 3]
    assert xp.argsort(x, stable=True).tolist() == [1, 3, 0, 2, 4]


def test_every_nan_is_a_value_of_its_own() -> None:
    x = xp.asarray([xp.nan, 1.0, xp.nan, 1.0, -0.0, 0.0])
    found = xp.unique_all(x)
    assert found.counts.tolist() == [2, 2, 1, 1]
    assert found.indices.tolist() == [4, 1, 0, 2]
    assert [x.item() for x in found.values[:2]] == [0.0, 1.0]
    again = found.values[found.inverse_indices]
    assert xp.all((again == x) | (xp.isnan(again) & xp.isnan(x)))
    assert xp.unique_all(xp.ones((2, 2))).inverse_indices.shape == (2, 2)


# -- dtypes ----------------------------------------------------------------------------------


def test_promotion_is_the_table_of_the_standard() -> None:
    for a, b in itertools.product(DTYPES, repeat=2):
        ours = [getattr(xp, n) for n in (a, b)]
        if of_one_kind(a, b):
            expected = getattr(xp, str(np.promote_types(a, b)))
            assert xp.result_type(*ours) is expected
            assert xp.result_type(xp.ones((), dtype=ours[0]), xp.ones(2, dtype=ours[1])) is expected
            assert xp.can_cast(*ours) is (expected is ours[1])
        else:
            assert xp.can_cast(*ours) is False
    with pytest.raises(TypeError, match="cannot be promoted"):
        xp.result_type(xp.uint64, xp.int8)
    assert xp.result_type(xp.int8, 1) is xp.int8
    assert xp.result_type(xp.float32, 1.0, xp.float64) is xp.float64
    assert xp.result_type(xp.float32, 1j) is xp.complex64
    assert xp.can_cast(xp.ones(2, dtype=xp.int8), xp.int16) is True


def test_kinds() -> None:
    kinds = {
        "bool": ("bool",), "signed integer": SIGNED, "unsigned integer": UNSIGNED,
        "integral": INTEGRAL, "real floating": FLOATS, "complex floating": COMPLEX,
        "numeric": NUMERIC,
    }  # fmt: skip
    for kind, members in kinds.items():
        assert [n for n in DTYPES if xp.isdtype(getattr(xp, n), kind)] == list(members)
    assert xp.isdtype(xp.int8, xp.int8)
    assert not xp.isdtype(xp.int8, xp.int16)
    assert xp.isdtype(xp.int8, ("bool", xp.int8))
    with pytest.raises(ValueError, match="unknown kind 'float'"):
        xp.isdtype(xp.int8, "float")
    with pytest.raises(TypeError, match="expected a dtype"):
        xp.isdtype(xp.int8, 3)


def test_limits() -> None:
    for name in FLOATS:
        ours, theirs = xp.finfo(getattr(xp, name)), np.finfo(name)
        for field in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(ours, field) == float(getattr(theirs, field))
        assert ours.dtype is getattr(xp, name)
        assert type(ours.eps) is float
    assert xp.finfo(xp.ones(2, dtype=xp.complex64)).dtype is xp.float32
    for name in INTEGRAL:
        ours, theirs = xp.iinfo(getattr(xp, name)), np.iinfo(name)
        assert (ours.bits, ours.max, ours.min) == (theirs.bits, theirs.max, theirs.min)
        assert ours.dtype is getattr(xp, name)
    assert xp.iinfo(xp.ones(2, dtype=xp.int8)).max == 127


# -- copies, DLPack, errors and gradients ----------------------------------------------------


def test_copies() -> None:
    x = xp.zeros(4)
    for made, shared in (
        (xp.asarray(x, copy=False), True), (xp.asarray(x), True), (xp.asarray(x, copy=True), False),
        (xp.reshape(x, (2, 2), copy=False), True), (xp.reshape(x, (2, 2), copy=True), False),
        (xp.astype(x, xp.float32, copy=False), True), (xp.astype(x, xp.float32), False),
        (xp.from_dlpack(x), True), (xp.from_dlpack(x, copy=True), False),
        (xp.asarray(x.numpy(), copy=False), True), (xp.clip(x), False),
    ):  # fmt: skip
        x[:] = 0.0
        x[0] = 5.0
        assert (made.reshape(-1)[0].item() == 5.0) is shared
        x[:] = 0.0
    with pytest.raises(ValueError, match="alias"):
        xp.asarray(x, dtype=xp.float64, copy=False)
    with pytest.raises(ValueError, match="number has no memory"):
        xp.asarray(3.0, copy=False)
    with pytest.raises(ValueError, match="not without a copy"):
        xp.reshape(xp.permute_dims(xp.zeros((2, 3)), (1, 0)), (6,), copy=False)
    assert xp.asarray([x[0], x[1]]).shape == (2,)


@pytest.mark.skipif(NUMPY_2_0, reason="NumPy 2.0 makes read-only arrays of DLPack's")
def test_dlpack_with_numpy() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    there = np.from_dlpack(x)
    there[0, 0] = 9.0
    assert x[0, 0].item() == 9.0
    assert np.from_dlpack(x, copy=True)[0, 0] == 9.0
    back = torch.from_dlpack(np.from_dlpack(x), device="cpu", copy=False)
    back[0, 0] = 7.0
    assert x[0, 0].item() == 7.0


def test_dlpack() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert x.__dlpack_device__() == (1, 0)
    for options in ({}, {"max_version": (1, 0)}, {"dl_device": (1, 0)}, {"copy": True}):
        assert "dltensor" in repr(x.__dlpack__(**options))
    with pytest.raises(BufferError, match="require gradient"):
        torch.ones(1, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match="stream"):
        x.__dlpack__(stream=1)


def test_what_the_standard_refuses() -> None:
    x = xp.ones((2, 3))
    for call, error in (
        (lambda: xp.astype(xp.ones(2, dtype=xp.complex64), xp.float32), TypeError),
        (lambda: xp.squeeze(x, 0), ValueError), (lambda: xp.concat([x, x[0, :]]), ValueError),
        (lambda: xp.nonzero(xp.asarray(1.0)), ValueError),
        (lambda: xp.take(x, xp.asarray([0])), ValueError),
        (lambda: xp.cumulative_sum(x), ValueError), (lambda: xp.linalg.outer(x, x), ValueError),
        (lambda: xp.linalg.cross(x[:, :2], x[:, :2]), ValueError),
        (lambda: xp.sum(x, axis=2), IndexError),
        (lambda: xp.vecdot(x[:, :1], x), ValueError),
        (lambda: xp.matrix_transpose(x[0, :]), ValueError),
        (lambda: xp.linalg.matrix_rank(x[0, :]), ValueError),
        (lambda: xp.arange(0, 1, 0), ValueError),
        (lambda: xp.searchsorted(x[0, :], x[0, :], side="up"), ValueError),
        (lambda: xp.meshgrid(x[0, :], indexing="up"), ValueError),
        (lambda: xp.diff(x, n=-1), ValueError),
    ):  # fmt: skip
        with pytest.raises(error):
            call()


def test_functions_are_recorded() -> None:
    def norm(x: Any) -> Any:
        """For any library that has the standard."""
        space = x.__array_namespace__()
        _, s, _ = space.linalg.svd(x, full_matrices=False)
        waves = space.abs(space.fft.rfft(x))
        return space.sum(space.log1p(s)) + space.max(waves) + space.mean(space.clip(x, 0.0, 1.0))

    x = ARRAYS["f"]
    tensor = torch.tensor(x, requires_grad=True)
    value = norm(tensor)
    value.backward()
    assert value.item() == pytest.approx(float(norm(x)))
    slopes = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        ends = []
        for step in (1e-6, -1e-6):
            moved = x.copy()
            moved[index] += step
            ends.append(float(norm(moved)))
        slopes[index] = (ends[0] - ends[1]) / 2e-6
    np.testing.assert_allclose(tensor.grad.numpy(), slopes, 1e-6, 1e-8)


def test_results_may_be_written_to() -> None:
    x = torch.tensor([0.5, 2.0, 1.0], requires_grad=True)
    total: Any = 0.0
    for function in (xp.exp, xp.sqrt, xp.max, xp.prod, xp.tanh, xp.reciprocal, xp.std):
        y = function(x)
        y[...] = y * 2.0
        total = total + y.sum()
    total.backward()
    expected = torch.func.grad(
        lambda t: 2 * (t.exp() + t.sqrt() + t.tanh() + 1 / t).sum()
        + 2 * (t.max() + t.prod() + t.std(correction=0))
    )(x.detach())
    assert torch.allclose(x.grad, expected)
