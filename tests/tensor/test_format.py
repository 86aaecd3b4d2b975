"""The text of arrays: literal expectations, and comparisons with PyTorch where it is installed."""

import doctest
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from retrograd.arrays import _format
from retrograd.arrays._format import format_array, get_printoptions, printoptions, set_printoptions

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
COMPLEXES = ["complex64", "complex128"]
DTYPES = ["bool", *INTEGERS, *FLOATS, *COMPLEXES]


def f32(values: Any) -> np.ndarray:
    return np.array(values, dtype=np.float32)


@pytest.fixture(autouse=True)
def options_stay_unchanged() -> Iterator[None]:
    before = get_printoptions()
    yield
    assert get_printoptions() == before


@contextmanager
def both_printoptions(torch: ModuleType, **options: Any) -> Iterator[None]:
    with printoptions(**options), torch._tensor_str.printoptions(**options):
        yield


def assert_same_text(torch: ModuleType, array: np.ndarray | np.generic) -> None:
    array = np.asarray(array)
    assert format_array(array) == repr(torch.from_numpy(array))


# --------------------------------------------------------------------------------------
# Literal texts
# --------------------------------------------------------------------------------------

GOLDEN = {
    "whole floats": (f32([1, 3]), "tensor([1., 3.])"),
    "fractions": (f32([1, -2.5, 0]), "tensor([ 1.0000, -2.5000,  0.0000])"),
    "ties round to even": (f32([0.03125, 0.09375]), "tensor([0.0312, 0.0938])"),
    "scientific": (f32([1e-5, 2]), "tensor([1.0000e-05, 2.0000e+00])"),
    "nonfinite beside wide": (
        f32([np.nan, np.inf, -np.inf, -0.0, 100.5]),
        "tensor([     nan,      inf,     -inf,  -0.0000, 100.5000])",
    ),
    "nonfinite only": (f32([np.nan, np.inf, -0.0]), "tensor([nan, inf, -0.])"),
    "integers": (np.array([[1, -20], [300, 4]]), "tensor([[  1, -20],\n        [300,   4]])"),
    "booleans": (np.array([True, False]), "tensor([ True, False])"),
    "complex": (
        np.array([1 + 2.5j, -10 - 1j], dtype=np.complex64),
        "tensor([  1.+2.5000j, -10.-1.0000j])",
    ),
    "other dtype": (np.array(0.1), "tensor(0.1000, dtype=torch.float64)"),
    "float16": (np.float16(65504), "tensor(65504., dtype=torch.float16)"),
    "scalar": (np.float32(1.5), "tensor(1.5000)"),
    "boolean scalar": (np.True_, "tensor(True)"),
    "empty": (f32([]), "tensor([])"),
    "empty with size": (np.zeros((0, 3), np.float32), "tensor([], size=(0, 3))"),
    "empty integers": (np.zeros(0, np.int64), "tensor([], dtype=torch.int64)"),
    "empty with size and dtype": (
        np.zeros((2, 0), np.bool_),
        "tensor([], size=(2, 0), dtype=torch.bool)",
    ),
    "three dimensions": (
        np.arange(4).reshape(2, 1, 2),
        "tensor([[[0, 1]],\n\n        [[2, 3]]])",
    ),
    "summary": (np.arange(1001), "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    "wrapped row": (
        np.arange(30),
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
        "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])",
    ),
}


@pytest.mark.parametrize(("array", "text"), GOLDEN.values(), ids=GOLDEN.keys())
def test_golden(array: np.ndarray, text: str) -> None:
    assert format_array(array) == text


def test_golden_texts_are_pytorchs(torch: ModuleType) -> None:
    for array, text in GOLDEN.values():
        assert repr(torch.from_numpy(np.asarray(array))) == text


def test_suffixes_follow_size_and_dtype() -> None:
    text = format_array(np.zeros((0, 2)), suffixes=["requires_grad=True"])
    assert text == "tensor([], size=(0, 2), dtype=torch.float64, requires_grad=True)"


def test_suffix_wraps_to_the_indentation_of_the_prefix() -> None:
    text = format_array(f32(np.arange(15)), suffixes=["grad_fn=<PowBackward0>"], prefix="T(")
    assert text == (
        "T([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13., 14.],\n"
        "  grad_fn=<PowBackward0>)"
    )


def test_only_shown_elements_are_visited() -> None:
    # 10**15 elements by broadcasting: visiting them all would take weeks.
    array = np.broadcast_to(np.float32(0.5), (10**6, 10**9))
    row = "[0.5000, 0.5000, 0.5000,  ..., 0.5000, 0.5000, 0.5000]"
    assert (
        format_array(array)
        == "tensor([" + ",\n        ".join([row] * 3 + ["..."] + [row] * 3) + "])"
    )


def test_byte_order_is_not_shown() -> None:
    assert format_array(np.array([1.0, 2.0], dtype=">f4")) == "tensor([1., 2.])"


def test_layout_in_memory_is_not_shown() -> None:
    array = np.arange(6).reshape(2, 3)
    assert format_array(array.T) == format_array(np.ascontiguousarray(array.T))
    assert format_array(array[::-1]) == format_array(np.ascontiguousarray(array[::-1]))


def test_no_warnings_from_numpy() -> None:
    with np.errstate(all="raise"):
        format_array(np.array([5e-324, 1.7e308, np.nan, np.inf]))
        format_array(np.array([6e-8, 65504], dtype=np.float16))


def test_doctests() -> None:
    result = doctest.testmod(_format)
    assert result.attempted > 0
    assert result.failed == 0


# --------------------------------------------------------------------------------------
# Print options
# --------------------------------------------------------------------------------------


def test_options_are_restored_after_an_error() -> None:
    def fail_with_other_options() -> None:
        with printoptions(profile="full", sci_mode=False):
            assert get_printoptions()["threshold"] == float("inf")
            raise ZeroDivisionError

    before = get_printoptions()
    with pytest.raises(ZeroDivisionError):
        fail_with_other_options()
    assert get_printoptions() == before


def test_options_given_are_copies() -> None:
    get_printoptions()["precision"] = 12
    assert get_printoptions()["precision"] == 4


def test_each_call_sets_sci_mode() -> None:
    with printoptions(sci_mode=True, linewidth=60):
        set_printoptions(precision=7)
        assert get_printoptions() == {
            "precision": 7,
            "threshold": 1000,
            "edgeitems": 3,
            "linewidth": 60,
            "sci_mode": None,
        }


@pytest.mark.parametrize("profile", ["default", "short", "full", "unheard of"])
def test_profiles(torch: ModuleType, profile: str) -> None:
    with (
        both_printoptions(torch, linewidth=50, precision=6),
        both_printoptions(torch, profile=profile, edgeitems=1),
    ):
        assert get_printoptions() == torch._tensor_str.get_printoptions()
        assert_same_text(torch, np.linspace(0, 1, 1200))


# --------------------------------------------------------------------------------------
# Comparison with PyTorch
# --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(), (1,), (0,), (0, 3), (2, 0, 4), (40,), (7, 9), (2, 3, 4), (1, 2, 1, 3)], ids=str
)
def test_dtypes_and_shapes(torch: ModuleType, dtype: str, shape: tuple[int, ...]) -> None:
    whole = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 97
    assert_same_text(torch, whole.astype(dtype))
    assert_same_text(torch, (whole / 7).astype(dtype))


@pytest.mark.parametrize("dtype", ["bool", "uint16", "int64", "float16", "float32", "complex64"])
@pytest.mark.parametrize(
    "shape",
    [(1000,), (1001,), (7, 200), (6, 200), (200, 6), (20, 8, 9), (7, 7, 7, 7), (5, 6, 6, 6)],
    ids=str,
)
def test_summaries(torch: ModuleType, dtype: str, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape)).reshape(shape)
    assert_same_text(torch, values.astype(dtype))
    assert_same_text(torch, np.sqrt(values).astype(dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_extreme_integers(torch: ModuleType, dtype: str) -> None:
    limits = np.iinfo(dtype)
    assert_same_text(torch, np.array([limits.min, 0, limits.max], dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_thresholds_of_scientific_notation(torch: ModuleType, dtype: str) -> None:
    for pivot in [1e-4, 1e8, 1000.0, 999.5]:
        with np.errstate(over="ignore"):
            middle = np.array(pivot, dtype=dtype)
        for value in [np.nextafter(middle, -np.inf), middle, np.nextafter(middle, np.inf)]:
            assert_same_text(torch, value.reshape(1).astype(dtype))
            assert_same_text(torch, np.array([value, 1, 0], dtype=dtype))


@pytest.mark.parametrize("length", range(8, 30))
def test_suffixes_wrap_where_pytorch_wraps_them(torch: ModuleType, length: int) -> None:
    for dtype in FLOATS:
        array = np.arange(length, dtype=dtype)
        leaf = torch.from_numpy(array).requires_grad_()
        result = leaf.clone()
        assert format_array(array, suffixes=["requires_grad=True"]) == repr(leaf)
        assert format_array(array, suffixes=["grad_fn=<CloneBackward0>"]) == repr(result)


def test_every_line_width(torch: ModuleType) -> None:
    array = np.linspace(-1, 30, 24).reshape(2, 12)
    tensor = torch.from_numpy(array).requires_grad_()
    for linewidth in range(120):
        with both_printoptions(torch, linewidth=linewidth):
            assert format_array(array, suffixes=["requires_grad=True"]) == repr(tensor)


@pytest.mark.parametrize("default", FLOATS)
def test_default_dtypes(torch: ModuleType, default: str) -> None:
    complex_default = "complex128" if default == "float64" else "complex64"
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, default))
    try:
        for dtype in DTYPES:
            for shape in [(), (2,), (0,), (0, 2)]:
                array = np.ones(shape, dtype)
                text = format_array(array, default_dtypes=(default, complex_default))
                assert text == repr(torch.from_numpy(array))
    finally:
        torch.set_default_dtype(before)


def test_prefix_of_a_subclass(torch: ModuleType) -> None:
    subclass = type("LongNamedTensor", (torch.Tensor,), {})
    array = np.linspace(0, 1, 40, dtype=np.float32).reshape(2, 20)
    tensor = torch.from_numpy(array).as_subclass(subclass)
    assert format_array(array, prefix="LongNamedTensor(") == repr(tensor)


WHOLE = st.integers(-120, 120).map(float)
FRACTIONS = st.floats(-100, 100, width=16)
SPECIAL = st.sampled_from(
    [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 0.5, 1e-4, 1e-5, 1e8, 2e8, 1e30, 5e-324, 1e308]
)
ANY_FLOAT = st.floats()
POOLS = st.one_of(
    *(st.lists(kind, min_size=1, max_size=6) for kind in [WHOLE, FRACTIONS, SPECIAL, ANY_FLOAT]),
    st.lists(st.one_of(WHOLE, FRACTIONS, SPECIAL, ANY_FLOAT), min_size=1, max_size=6),
)
SHAPES = st.one_of(
    st.lists(st.integers(0, 6), max_size=4),
    st.lists(st.integers(1, 9), max_size=3),
    st.lists(st.integers(1, 60), min_size=1, max_size=1),
).map(tuple)


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    """Arrays of few distinct values, each of which thus decides about the notation."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(SHAPES)
    choose = np.random.default_rng(draw(st.integers(0, 2**16))).choice
    if dtype.kind in "iu":
        limits = np.iinfo(dtype.name)
        pool = draw(st.lists(st.integers(int(limits.min), int(limits.max)), min_size=1, max_size=6))
        return np.asarray(choose(np.array(pool, dtype=dtype), size=shape))
    with np.errstate(over="ignore"):
        if dtype.kind == "c":
            array = np.empty(shape, dtype)
            array.real = choose(draw(POOLS), size=shape)
            array.imag = choose(draw(POOLS), size=shape)
            return array
        return np.asarray(choose(draw(POOLS), size=shape)).astype(dtype)


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "precision": st.integers(0, 12),
        "threshold": st.one_of(st.integers(0, 60), st.just(float("inf"))),
        "edgeitems": st.integers(0, 4),
        "linewidth": st.integers(0, 140),
        "sci_mode": st.sampled_from([None, True, False]),
        "profile": st.sampled_from(["default", "short", "full"]),
    },
)


@settings(max_examples=500, deadline=None)
@given(array=arrays(), options=OPTIONS)
@example(array=np.zeros(60, np.float32), options={"sci_mode": True})
@example(array=np.array(2.5), options={"threshold": 0, "edgeitems": 0})
@example(array=np.ones(3), options={"threshold": 5, "edgeitems": 0})
@example(array=np.ones((3, 4)), options={"threshold": 5, "edgeitems": 0})
@example(array=np.ones((2, 9), np.complex64), options={"threshold": 5, "edgeitems": 1})
def test_same_text_as_pytorch(
    torch: ModuleType, array: np.ndarray, options: dict[str, Any]
) -> None:
    with both_printoptions(torch, **options):
        assert_same_text(torch, array)


@settings(max_examples=100, deadline=None)
@given(array=arrays(), options=OPTIONS)
def test_suffixes_as_in_pytorch(
    torch: ModuleType, array: np.ndarray, options: dict[str, Any]
) -> None:
    array = array.astype(np.float64 if array.dtype.kind != "c" else np.complex128)
    result = torch.from_numpy(array).requires_grad_().clone()
    with both_printoptions(torch, **options):
        assert format_array(array, suffixes=["grad_fn=<CloneBackward0>"]) == repr(result)
