"""Operations as people write them in NumPy: ``a @ b``, ``x.T``, ``np.add.reduce(x, axis=0)``.

A form computes what the kernel of an operation computes for given shapes, dtypes and layouts, and
its results are bitwise equal. Where there is no such form, the line calls the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.compiler._code import atom, binary, dtype_text, unary
from retrograd.compiler._program import Line, Var, in_rows
from retrograd.compiler._statements import WORTHWHILE

programs = arrays.programs

Number = Callable[[Any, Any], str]  # the name of a number as an array of some dtype
Form = Callable[[Line, list[str], Number], str | None]


def _mm(line: Line, args: list[str], number: Number) -> str | None:
    a, b = line.args
    if not isinstance(a, Var) or not isinstance(b, Var):
        return None
    return binary("*" if a.shape[1] == 1 else "@", *args)


def _sum_dim(line: Line, args: list[str], number: Number) -> str | None:
    x, dim, keepdim = line.args[0], line.options["dim"], line.options["keepdim"]
    if not isinstance(x, Var) or type(dim) is not tuple or not programs.adds_plainly(x, dim):
        return None
    if sum(size != 1 for size in line.outputs[0].shape) > 1:  # the kernel's result is contiguous
        return None
    if not keepdim and dim == (0,) and x.shape[0] == 1 and len(x.shape) > 1:
        return binary("+", f"{atom(args[0])}[0]", number(0, x.dtype))  # -0 becomes 0
    axis = dim[0] if len(dim) == 1 else dim
    return f"np.add.reduce({args[0]}, axis={axis}{', keepdims=True' if keepdim else ''})"


def _sum(line: Line, args: list[str], number: Number) -> str | None:
    x = line.args[0]
    if not isinstance(x, Var) or not programs.adds_plainly(x, None):
        return None
    return f"np.add.reduce({args[0]}, axis=None)"


def _mean(line: Line, args: list[str], number: Number) -> str | None:
    total = _sum(line, args, number)
    x = line.args[0]
    if total is None or x.dtype.itemsize == 2:
        return None
    return binary("/", total, str(_count(x)))


def _to_dtype(line: Line, args: list[str], number: Number) -> str | None:
    x, dtype = line.args[0], line.options["dtype"]
    if not isinstance(x, Var) or x.dtype == dtype or x.dtype.kind == "c" or 0 in x.strides:
        return None
    return f"{atom(args[0])}.astype({dtype_text(dtype)})"


def _count(x: Var) -> int:
    return x.nbytes // int(x.dtype.itemsize)


def _t(line: Line, args: list[str], number: Number) -> str | None:
    return f"{atom(args[0])}.T" if _is_array(line.args[0]) else None


def _transpose(line: Line, args: list[str], number: Number) -> str | None:
    if not _is_array(line.args[0]):
        return None
    return f"{atom(args[0])}.swapaxes({line.options['dim0']}, {line.options['dim1']})"


def _permute(line: Line, args: list[str], number: Number) -> str | None:
    if not _is_array(line.args[0]):
        return None
    return f"{atom(args[0])}.transpose({line.options['dims']})"


def _view(line: Line, args: list[str], number: Number) -> str | None:
    if not _is_array(line.args[0]) or type(line.options["size"]) is not tuple:
        return None
    return f"{atom(args[0])}.reshape({', '.join(map(str, line.options['size'])) or '()'})"


def _select(line: Line, args: list[str], number: Number) -> str | None:
    x, dim, index = line.args[0], line.options["dim"], line.options["index"]
    if not _is_array(x) or type(index) is not int or type(dim) is not int:
        return None
    if len(x.shape) == 1:
        # A number is several times as fast as a view of one element. Integers would warn if they
        # overflow, which arrays of them do not.
        return f"{atom(args[0])}[{index}{'' if x.dtype.kind in 'fc' else ', ...'}]"
    return f"{atom(args[0])}[{':, ' * (dim % len(x.shape))}{index}]"


def _slice(line: Line, args: list[str], number: Number) -> str | None:
    where = line.options["where"]
    if not _is_array(line.args[0]) or type(where) is not tuple or not where:
        return None
    parts = [_part(w) for w in where]
    return None if None in parts else f"{atom(args[0])}[{', '.join(map(str, parts))}]"


def _part(where: Any) -> str | None:
    """The text of a slice or of ``...`` in brackets."""
    if where is Ellipsis:
        return "..."
    if type(where) is not slice:
        return None
    ends = (where.start, where.stop, where.step)
    if not all(x is None or type(x) is int for x in ends):
        return None
    start, stop, step = ("" if x is None else str(x) for x in ends)
    return f"{start}:{stop}" + (f":{step}" if step else "")


def _rsub(line: Line, args: list[str], number: Number) -> str | None:
    x, other = line.args[0], line.options["other"]
    if type(other) not in (int, float) or not _is_array(x):
        return None
    if x.dtype.kind != "f" or programs.as_number(other, x.dtype) is None:
        return None
    return binary("-", number(other, x.dtype), args[0])


def _pow_scalar(line: Line, args: list[str], number: Number) -> str | None:
    x, exponent = line.args[0], line.options["exponent"]
    if type(exponent) not in (int, float) or exponent != 2 or not _is_array(x):
        return None
    if x.dtype.kind != "f" or x.nbytes >= WORTHWHILE:
        return None
    return f"np.square({args[0]})"  # like NumPy


def _sigmoid(line: Line, args: list[str], number: Number) -> str | None:
    x = line.args[0]
    if not _is_array(x) or x.dtype.kind != "f" or x.nbytes >= WORTHWHILE:
        return None
    one = number(1, x.dtype)
    return binary("/", one, binary("+", one, f"np.exp({unary('-', args[0])})"))


def _relu(line: Line, args: list[str], number: Number) -> str | None:
    x = line.args[0]
    if not _is_array(x) or x.dtype.kind != "f" or x.dtype.itemsize < 4:
        return None
    zero = number(0, x.dtype)
    if _count(x) > programs.MANY:
        return f"{atom(args[0])}.clip({zero}, {number(float('inf'), x.dtype)})"
    return f"np.maximum({zero}, {args[0]})"


def _where_positive(line: Line, args: list[str], number: Number) -> str | None:
    x, y = line.args
    if not _is_array(x) or not isinstance(y, Var) or x.dtype != y.dtype or x.dtype.kind != "f":
        return None
    if _count(x) >= programs.MANY:
        return None
    zero = number(0, x.dtype)
    return f"np.where({binary('<=', args[1], zero)}, {zero}, {args[0]})"


def _amax(line: Line, args: list[str], number: Number) -> str | None:
    dim, keepdim = line.options.get("dim"), line.options.get("keepdim")
    if not _is_array(line.args[0]) or type(dim) is not tuple or len(dim) != 1:
        return None
    if sum(size != 1 for size in line.outputs[0].shape) > 1:
        return None
    keep = ", keepdims=True" if keepdim else ""
    return f"np.maximum.reduce({args[0]}, axis={dim[0]}{keep})"


def _split(line: Line, args: list[str], number: Number) -> str | None:
    x, sizes, dim = line.args[0], line.options["sizes"], line.options["dim"]
    if not _is_array(x) or type(dim) is not int or not all(type(n) is int for n in sizes):
        return None
    before, start, parts = ":, " * (dim % len(x.shape)), 0, []
    for size in sizes:
        parts.append(f"{atom(args[0])}[{before}{start or ''}:{start + size}]")
        start += size
    return ", ".join(parts) + ("," if len(parts) == 1 else "")


def _cat(line: Line, args: list[str], number: Number) -> str | None:
    (parts,) = line.args
    if type(parts) not in (list, tuple) or not all(map(_in_rows, parts)):
        return None
    return f"np.concatenate({args[0]}, axis={line.options['dim']})"


def _constant_pad(line: Line, args: list[str], number: Number) -> str | None:
    x, pad, value = line.args[0], line.options["pad"], line.options["value"]
    if not _in_rows(x) or len(x.shape) != 1 or x.dtype.kind != "f" or x.nbytes >= WORTHWHILE:
        return None
    zero = type(value) in (int, float) and str(value) in ("0", "0.0")
    if not zero or type(pad) is not tuple or len(pad) != 2 or min(pad) < 0:
        return None
    before, after = (f"np.zeros({n}, {dtype_text(x.dtype)})" for n in pad)
    return f"np.concatenate(({before}, {args[0]}, {after}))"


def _stack(line: Line, args: list[str], number: Number) -> str | None:
    (parts,) = line.args
    if type(parts) not in (list, tuple) or not parts:
        return None
    if not all(isinstance(x, Var) and x.dtype.kind in "fc" for x in parts):
        return None
    if len({(x.dtype, x.shape) for x in parts}) != 1:
        return None
    if not parts[0].shape:
        return f"np.array({args[0]})"
    rank, dim = len(parts[0].shape), line.options["dim"]
    if not all(map(_in_rows, parts)) or parts[0].nbytes >= WORTHWHILE or dim not in (0, rank):
        return None
    last = ", ".join(map(str, [*range(1, rank + 1), 0]))
    return f"np.array({args[0]})" + (f".transpose({last}).copy()" if dim else "")


def _in_rows(x: Any) -> bool:
    """Whether a variable is a contiguous array that has elements."""
    return _is_array(x) and x.nbytes > 0 and in_rows(x)


def _is_array(x: Any) -> bool:
    """Whether a variable represents an array with dimensions, not a scalar."""
    return isinstance(x, Var) and bool(x.shape)


FORMS: dict[str, Form] = {
    "mm": _mm, "sum_dim": _sum_dim, "sum": _sum, "mean": _mean, "t": _t, "transpose": _transpose,
    "permute": _permute, "to_dtype": _to_dtype, "view": _view, "select": _select, "slice": _slice,
    "rsub": _rsub, "sigmoid": _sigmoid, "relu": _relu, "stack": _stack,
    "threshold_backward": _where_positive, "amax": _amax, "split": _split, "cat": _cat,
    "split_with_sizes": _split, "constant_pad_nd": _constant_pad, "pow_scalar": _pow_scalar,
}  # fmt: skip
