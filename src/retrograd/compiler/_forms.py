"""Operations as people write them in NumPy: ``a @ b``, ``x.T``, ``np.add.reduce(x, axis=0)``.

A form is what the kernel of an operation does for the shapes, dtypes and layouts at hand, so the
results are the same to the bit. Where the kernel does something else there, the line calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.compiler._program import Line, Var

programs = arrays.programs

Form = Callable[[Line, list[str]], str | None]


def _mm(line: Line, args: list[str]) -> str | None:
    a, b = line.args
    if not isinstance(a, Var) or not isinstance(b, Var):
        return None
    return f"{args[0]} * {args[1]}" if a.shape[1] == 1 else f"{args[0]} @ {args[1]}"


def _sum_dim(line: Line, args: list[str]) -> str | None:
    x, dim, keepdim = line.args[0], line.options["dim"], line.options["keepdim"]
    if not isinstance(x, Var) or type(dim) is not tuple or not programs.adds_plainly(x, dim):
        return None
    if sum(size != 1 for size in line.outputs[0].shape) > 1:  # which is laid out row by row
        return None
    axis = dim[0] if len(dim) == 1 else dim
    return f"np.add.reduce({args[0]}, axis={axis}{', keepdims=True' if keepdim else ''})"


def _sum(line: Line, args: list[str]) -> str | None:
    x = line.args[0]
    if not isinstance(x, Var) or not programs.adds_plainly(x, None):
        return None
    return f"np.add.reduce({args[0]}, axis=None)"


def _mean(line: Line, args: list[str]) -> str | None:
    total = _sum(line, args)
    x = line.args[0]
    return None if total is None or x.dtype.itemsize == 2 else f"{total} / {_count(x)}"


def _count(x: Var) -> int:
    return x.nbytes // int(x.dtype.itemsize)


def _t(line: Line, args: list[str]) -> str | None:
    return f"{args[0]}.T" if _is_array(line.args[0]) else None


def _transpose(line: Line, args: list[str]) -> str | None:
    if not _is_array(line.args[0]):
        return None
    return f"{args[0]}.swapaxes({line.options['dim0']}, {line.options['dim1']})"


def _permute(line: Line, args: list[str]) -> str | None:
    return f"{args[0]}.transpose({line.options['dims']})" if _is_array(line.args[0]) else None


def _view(line: Line, args: list[str]) -> str | None:
    if not _is_array(line.args[0]) or type(line.options["size"]) is not tuple:
        return None
    return f"{args[0]}.reshape({', '.join(map(str, line.options['size'])) or '()'})"


def _select(line: Line, args: list[str]) -> str | None:
    x, dim, index = line.args[0], line.options["dim"], line.options["index"]
    if not _is_array(x) or type(index) is not int or type(dim) is not int:
        return None
    if len(x.shape) == 1:
        return None  # a view of one element, and not a number
    return f"{args[0]}[{':, ' * (dim % len(x.shape))}{index}]"


def _relu(line: Line, args: list[str]) -> str | None:
    x = line.args[0]
    if not isinstance(x, Var) or x.dtype.kind != "f" or x.dtype.itemsize < 4 or _count(x) > 512:
        return None
    return f"np.maximum(np.{x.dtype.name}(0), {args[0]})"


def _amax(line: Line, args: list[str]) -> str | None:
    dim, keepdim = line.options.get("dim"), line.options.get("keepdim")
    if not _is_array(line.args[0]) or type(dim) is not tuple or len(dim) != 1:
        return None
    if sum(size != 1 for size in line.outputs[0].shape) > 1:
        return None
    keep = ", keepdims=True" if keepdim else ""
    return f"np.maximum.reduce({args[0]}, axis={dim[0]}{keep})"


def _split(line: Line, args: list[str]) -> str | None:
    x, sizes, dim = line.args[0], line.options["sizes"], line.options["dim"]
    if not _is_array(x) or type(dim) is not int or not all(type(n) is int for n in sizes):
        return None
    before, start, parts = ":, " * (dim % len(x.shape)), 0, []
    for size in sizes:
        parts.append(f"{args[0]}[{before}{start or ''}:{start + size}]")
        start += size
    return ", ".join(parts) + ("," if len(parts) == 1 else "")


def _is_array(x: Any) -> bool:
    """Whether a variable stands for an array that has dimensions, and not for a scalar."""
    return isinstance(x, Var) and bool(x.shape)


FORMS: dict[str, Form] = {
    "mm": _mm, "sum_dim": _sum_dim, "sum": _sum, "mean": _mean, "t": _t, "transpose": _transpose,
    "permute": _permute, "view": _view, "select": _select, "relu": _relu,
    "amax": _amax, "split": _split,
}  # fmt: skip
