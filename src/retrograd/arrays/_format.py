"""Formatting arrays as text, exactly as PyTorch prints tensors.

An array is printed in four steps, each a small function below:

1. select  -- a large array is reduced to the few elements that are shown;
2. render  -- each shown element becomes a text, all in one notation per array;
3. lay out -- the texts are joined to nested, aligned and wrapped brackets;
4. suffix  -- size, dtype and the caller's remarks follow, wrapped where the line is full.

Only step 1 sees the whole array, and it merely indexes it, so the cost of printing depends
on what is shown and not on how large the array is.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from typing import Any, Final, NamedTuple, TypeAlias, TypedDict, cast

import numpy as np
import numpy.typing as npt

__all__ = [
    "PrintOptions", "format_array", "get_printoptions", "printoptions", "set_printoptions",
]  # fmt: skip

Array: TypeAlias = npt.NDArray[Any]


# --------------------------------------------------------------------------------------
# Print options
# --------------------------------------------------------------------------------------


class PrintOptions(TypedDict, total=False):
    """The settings that shape the text; a dictionary to pass on to `set_printoptions`."""

    precision: int  # digits after the point
    threshold: float  # arrays with more elements than this are summarised
    edgeitems: int  # elements a summary shows at both ends of a dimension
    linewidth: int  # characters per line
    sci_mode: bool | None  # scientific notation: always, never, or None to let the values decide


_PROFILES: Final[dict[str, PrintOptions]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}

_options: Final[PrintOptions] = {**_PROFILES["default"], "sci_mode": None}


def set_printoptions(
    precision: int | None = None, threshold: float | None = None, edgeitems: int | None = None,
    linewidth: int | None = None, profile: str | None = None, sci_mode: bool | None = None,
) -> None:  # fmt: skip
    """Change how arrays are printed from now on.

    Options left out keep their value, except `sci_mode`, which every call sets: without it,
    the choice of notation goes back to the values printed.

    Args:
        precision: digits after the point of a floating-point number (initially 4).
        threshold: number of elements above which an array is summarised (initially 1000).
        edgeitems: elements shown at both ends of each summarised dimension (initially 3).
        linewidth: characters per line (initially 80).
        profile: `"default"`, `"short"` or `"full"`, the values the other options start from;
            any other name changes nothing, as in PyTorch.
        sci_mode: `True` for scientific notation, `False` for none, `None` to let the values
            decide.

    >>> set_printoptions(precision=2)
    >>> format_array(np.float32(1.12345))
    'tensor(1.12)'
    >>> set_printoptions(profile="default")
    >>> format_array(np.float32(1.12345))
    'tensor(1.1235)'
    """
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    if profile is not None:
        _options.update(_PROFILES.get(profile, {}))
    changed = {name: value for name, value in given.items() if value is not None}
    _options.update(cast(PrintOptions, changed))
    _options["sci_mode"] = sci_mode


def get_printoptions() -> PrintOptions:
    """Return a copy of the current options, to be given to `set_printoptions` later.

    >>> get_printoptions()["linewidth"]
    80
    """
    return _options.copy()


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Change the options, as `set_printoptions` does, for the length of a `with` block.

    >>> with printoptions(precision=1, sci_mode=True):
    ...     format_array(np.float32(1234.0))
    'tensor(1.2e+03)'
    >>> format_array(np.float32(1234.0))
    'tensor(1234.)'
    """
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        _options.update(before)


# --------------------------------------------------------------------------------------
# The whole text
# --------------------------------------------------------------------------------------


def format_array(
    array: Array | np.generic, *, suffixes: Sequence[str] = (), prefix: str = "tensor(",
    default_dtypes: tuple[npt.DTypeLike, npt.DTypeLike] = (np.float32, np.complex64),
) -> str:  # fmt: skip
    """Return the text PyTorch prints for a tensor with the elements of `array`.

    Args:
        array: the elements; a NumPy scalar stands for a zero-dimensional tensor.
        suffixes: remarks placed after the size and the dtype, such as `"requires_grad=True"`.
        prefix: the opening of the text, whose length is also the indentation of further lines.
        default_dtypes: the default floating-point dtype and its complex counterpart, which
            need not be named. PyTorch pairs float64 with complex128, any other with complex64.

    >>> print(format_array(np.array([1, 3], np.float32), suffixes=["requires_grad=True"]))
    tensor([1., 3.], requires_grad=True)
    >>> print(format_array(np.eye(2)))
    tensor([[1., 0.],
            [0., 1.]], dtype=torch.float64)
    """
    array = np.asarray(array)
    contents = _format_elements(array, indent=len(prefix)) if array.size else "[]"
    remarks = [*_describe_shape_and_dtype(array, default_dtypes), *suffixes]
    return _append_suffixes(prefix + contents, remarks, indent=len(prefix)) + ")"


def _describe_shape_and_dtype(
    array: Array, default_dtypes: tuple[npt.DTypeLike, npt.DTypeLike]
) -> Iterator[str]:
    """Yield the suffixes for properties that the printed elements do not show."""
    default_float, default_complex = (np.dtype(dtype).name for dtype in default_dtypes)
    if array.size:
        size_is_visible = _options["edgeitems"] != 0
        implied_dtypes = {default_float, default_complex, "int64", "bool"}
    else:
        # `[]` has the size (0,) and, having no elements to tell them apart, all other dtypes
        # than the default one are named: int64 and bool as well.
        size_is_visible = array.ndim == 1
        implied_dtypes = {default_float}
    if not size_is_visible:
        yield f"size={array.shape}"
    if array.dtype.name not in implied_dtypes:
        yield f"dtype=torch.{array.dtype.name}"


def format_sparse(
    parts: dict[str, Array], suffixes: Sequence[str], new_line: bool, prefix: str = "tensor("
) -> str:
    """Return the text PyTorch prints for a sparse tensor.

    Args:
        parts: the arrays that it consists of, by their names.
        suffixes: the size and further remarks.
        new_line: whether these start a line of their own.
        prefix: the opening of the text.
    """
    texts = []
    for name, array in parts.items():
        opening = f"{name}=tensor("
        inside = (_format_elements(array, indent=len(prefix) + len(opening)) if array.size
                  else f"[], size={array.shape}")  # fmt: skip
        texts.append(f"{opening}{inside})")
    whole = prefix + (",\n" + " " * len(prefix)).join(texts)
    return _append_suffixes(whole, suffixes, len(prefix), new_line) + ")"


def _append_suffixes(
    text: str, suffixes: Sequence[str], indent: int, new_line: bool = False
) -> str:
    """Append `, suffix` for each, starting a new line where the current one gets too long."""
    # PyTorch reckons with two characters more on the line than the contents have, but not on
    # the lines it starts for a suffix.
    used = len(text) - (text.rfind("\n") + 1) + 2
    parts = [text]
    for suffix in suffixes:
        used += len(", ") + len(suffix)
        if new_line or used > _options["linewidth"]:
            parts.append(",\n" + " " * indent + suffix)
            used, new_line = indent + len(suffix), False
        else:
            parts.append(", " + suffix)
    return "".join(parts)


def _format_elements(array: Array, indent: int) -> str:
    """Return the brackets with all elements of a nonempty array, or with its summary."""
    summarised = array.size > _options["threshold"]
    if summarised and array.ndim and not _options["edgeitems"]:
        return "[...]"
    shortened = [summarised and size > 2 * _options["edgeitems"] for size in array.shape]
    shown = _select_edges(array, shortened) if any(shortened) else array
    return _lay_out(_render(shown), shown.shape, shortened, indent)


def _select_edges(array: Array, shortened: Sequence[bool]) -> Array:
    """Return the elements a summary shows: both ends of the shortened dimensions."""
    edge = _options["edgeitems"]
    # Index all dimensions at once, so that no more than the shown elements is ever copied.
    indices = [
        np.r_[:edge, size - edge : size] if short else np.arange(size)
        for size, short in zip(array.shape, shortened, strict=True)
    ]
    return cast(Array, array[np.ix_(*indices)])


# --------------------------------------------------------------------------------------
# Elements to texts
# --------------------------------------------------------------------------------------


class _Cells(NamedTuple):
    """The texts of the elements in C order, and the width by which lines are filled."""

    texts: list[str]
    width: int

    def right_aligned(self) -> "_Cells":
        return _Cells([text.rjust(self.width) for text in self.texts], self.width)


def _render(array: Array) -> _Cells:
    """Return the texts of all elements, padded so that they align in columns."""
    if array.dtype.kind == "c":
        return _render_complex(array)
    if array.dtype.kind == "V":
        array = array.astype(np.float32)  # all whose digits are shown
    if array.dtype.kind == "f":
        return _render_float(array).right_aligned()
    texts = list(map(str, array.ravel().tolist()))
    return _Cells(texts, max(map(len, texts))).right_aligned()


def _render_complex(array: Array) -> _Cells:
    """Join real and imaginary parts, whose notations are chosen independently."""
    real = _render_float(array.real).right_aligned()
    imag = _render_float(array.imag)
    texts = [
        f"{real_text}{imag_text}j" if imag_text.startswith("-") else f"{real_text}+{imag_text}j"
        for real_text, imag_text in zip(real.texts, imag.texts, strict=True)
    ]
    return _Cells(texts, real.width + imag.width + len("j"))


def _render_float(array: Array) -> _Cells:
    """Write floating-point numbers in the one notation that suits them all, unaligned."""
    values = array.ravel()
    # Zeros, infinities and nans count neither for the notation nor for the width. Therefore
    # they may stick out of their column, and a line of many zeros becomes longer than linewidth.
    decisive = np.isfinite(values) & (values != 0)
    texts = list(map(_float_notation(values[decisive]), values.tolist()))
    return _Cells(texts, max(map(len, compress(texts, decisive.tolist())), default=1))


def _float_notation(decisive: Array) -> Callable[[float], str]:
    """Choose how to write numbers, given the finite and nonzero ones among them."""
    precision = _options["precision"]
    # `#` keeps the point after a whole number (`2.`) but adds none to `inf` and `nan`.
    whole, fixed, scientific = "{:#.0f}", f"{{:.{precision}f}}", f"{{:.{precision}e}}"
    if not decisive.size:
        return whole.format  # even if sci_mode is set
    sci_mode = _options["sci_mode"]
    if _spans_wide_range(decisive) if sci_mode is None else sci_mode:
        return scientific.format
    return whole.format if np.array_equal(decisive, np.ceil(decisive)) else fixed.format


def _spans_wide_range(decisive: Array) -> bool:
    """Tell whether the magnitudes are too large, too small or too far apart for fixed point."""
    # Python floats: float16 cannot hold 1e8, and a quotient that overflows shall be inf, without
    # the warning that NumPy gives.
    magnitudes = np.abs(decisive)
    smallest, largest = float(magnitudes.min()), float(magnitudes.max())
    return largest / smallest > 1000.0 or largest > 1.0e8 or smallest < 1.0e-4


# --------------------------------------------------------------------------------------
# Texts to brackets
# --------------------------------------------------------------------------------------


def _lay_out(cells: _Cells, shape: Sequence[int], shortened: Sequence[bool], indent: int) -> str:
    """Join the texts of an array of the given shape to nested brackets.

    The joining goes from the innermost dimension, whose items are the elements, outwards. A
    dimension that is `shortened` gets an ellipsis in its middle.
    """
    items = cells.texts
    innermost = len(shape) - 1
    for axis in range(innermost, -1, -1):
        length = shape[axis]
        groups = [items[start : start + length] for start in range(0, len(items), length)]
        if shortened[axis]:
            # PyTorch sets the ellipsis of a row, but not that of a column, apart by a blank.
            ellipsis = " ..." if axis == innermost else "..."
            for group in groups:
                group.insert(length // 2, ellipsis)
        margin = " " * (indent + axis + 1)
        if axis == innermost:
            # The margin includes the opening bracket, which PyTorch does not reckon with.
            room = _options["linewidth"] - (len(margin) - 1)
            items = [_fill_lines(group, cells.width, room, margin) for group in groups]
        else:
            # Matrices are one blank line apart, stacks of matrices two, and so on.
            separator = "," + "\n" * (innermost - axis) + margin
            items = [f"[{separator.join(group)}]" for group in groups]
    return items[0]


def _fill_lines(texts: Sequence[str], width: int, room: int, margin: str) -> str:
    """Join the elements of one row in brackets, with as many per line as there is room for."""
    per_line = max(1, math.floor(room / (width + len(", "))))
    lines = [", ".join(texts[start : start + per_line]) for start in range(0, len(texts), per_line)]
    line_break = ",\n" + margin
    return f"[{line_break.join(lines)}]"
