"""Runs the lines of a program in PyTorch and in retrograd, and compares after each."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np

from ._comparing import (
    FINE,
    TOLERANCE,
    Difference,
    apart,
    as_array,
    elements,
    is_tensor,
    largest,
    shown,
)
from ._running import IN_PYTORCH

# The name of a dtype is slow to get.
NAME = {np.dtype(kind): np.dtype(kind).name for kind in set(np.sctypeDict.values())}
HEADER = "import torch  # or: import retrograd as torch\nfrom math import inf, nan\n"
ASSIGNED = re.compile(r"^(?:with [^:]+: )?(\w+) = ")
_PLAIN = re.compile(r"^\w+ = (.*)$")
_WRITES = re.compile(r"_\(|\] *[-+*/@&|^]*= |out=|backward|\w [-+*/@&|^]+= |\.data = |\.grad = ")
_DERIVES = re.compile(r"autograd\.grad|func\.|functional\.(jacobian|hvp)|\.grad$")
_HISTORY = re.compile(r"\.(requires_grad|is_leaf)$")  # derivatives may have none here
# Norms whose gradient goes to the numbers that are as large as the result, to the last digit.
_COMPARES = re.compile(r"(vector|matrix)_norm|\bnorm\(|dist\(|cond\(")
_COARSE = re.compile(r"float16|\.half\(|float32|complex64|\.float\(|cfloat")
# Functions that PyTorch computes to fewer digits than a dtype has.
_FEW_DIGITS = re.compile(
    r"gamma|psi|bessel|binary_cross_entropy|hardsigmoid|erf|ndtr|i0|i1|zeta|polynomial|logit|airy"
)
_VARIABLES = re.compile(r"(?<![\w.'\"])[tc]\d+(?:_\d+)?(?![\w'\"])")
_NAMES = re.compile(r"\b[a-z]\w*\b")


@dataclass
class Facts:
    """What is known of a tensor that a program has made."""

    shape: tuple[int, ...]
    dtype: str
    top: float  # the largest magnitude; infinite if not all are finite
    versions: tuple[int, int] | None
    raw: bytes  # the elements
    seen: tuple[int, int] | None = None  # the versions when the elements were last compared


class Libraries:
    """PyTorch and retrograd, loaded once, and brought back to where they began after a program."""

    def __init__(self) -> None:
        import warnings

        import torch

        import retrograd

        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        self.torch, self.retrograd = torch, retrograd

    def machine(self) -> Machine:
        """What runs the lines of a program."""
        return Machine(self)

    def here(self) -> AbstractContextManager[Any]:
        """A block in which ours runs as in a program."""
        return nullcontext()

    def reset(self) -> None:
        for library in (self.torch, self.retrograd):
            library.set_grad_enabled(True)
            library.set_default_dtype(library.float32)


class Machine:
    """The state of a program in both libraries."""

    def __init__(self, libraries: Libraries) -> None:
        libraries.reset()
        self.libraries = libraries
        base = {"inf": math.inf, "nan": math.nan}
        self.theirs: dict[str, Any] = {"torch": libraries.torch, **base}
        self.ours: dict[str, Any] = {"torch": libraries.retrograd, **base}
        self.lines: list[str] = []
        self.live: dict[str, Facts] = {}
        self.tolerance = FINE  # of gradients
        self.failed = False  # whether the last line raised, in both
        self.derived: set[str] = set()  # names of derivatives, and of what was made of them
        self.scales: dict[str, float] = {}  # of results that keep our digits, by name
        self.is_over = False  # whether what follows cannot be compared
        self.watcher: Callable[[str], None] | None = None  # told of each line before it is run

    # -- one line ----------------------------------------------------------------------------

    def step(self, line: str) -> Difference | None:
        """Run a line in both libraries; what they do differently, if they do."""
        code = compiled(line)
        self.lines.append(line)
        program = "\n".join(self.lines)
        if self.watcher is not None:
            self.watcher(f"{program}\n{IN_PYTORCH}")
        theirs = run(code, self.theirs)
        if self.watcher is not None:
            self.watcher(program)
        ours = run(code, self.ours)
        if self.watcher is not None:
            self.watcher(IN_PYTORCH)  # which alone tries out what the next line may be
        self.failed = theirs is not None
        if not alike(theirs, ours):
            return Difference("error", "", told(theirs), told(ours), line=line)
        if _COARSE.search(line):
            self.tolerance = max(self.tolerance, 8e-3 if "16" in line or "half" in line else 3e-5)
        found: Difference | None = None
        if theirs is None:
            assigned = ASSIGNED.match(line)
            if assigned:
                name = assigned[1]
                if line.startswith(name):
                    self.theirs[name], self.ours[name] = self.theirs["_"], self.ours["_"]
                self.live.pop(name, None)
                if _DERIVES.search(line) or self.derived.intersection(_NAMES.findall(line)):
                    self.derived.add(name)
                if self.scales.keys() & set(_NAMES.findall(line)):
                    self.scales[name] = self.scale(line)
                if not (_HISTORY.search(line) and name in self.derived):
                    found = self.compare(name, self.theirs[name], self.ours[name], line)
            elif line.startswith("def f"):
                (self.derived.add if self.derived & set(_NAMES.findall(line)) else (
                    self.derived.discard))("f")  # fmt: skip
        if theirs is not None and ("backward" in line or self.was_written()):
            # PyTorch had written something by the time it failed: an element, or a gradient
            self.is_over = True
        elif found is None and (_WRITES.search(line) or self.failed):
            found = self.compare_all(line)
        if found is not None:
            found.line = line
        return found

    def was_written(self) -> bool:
        """Whether a line that failed has changed a tensor of PyTorch's all the same."""
        for name, facts in self.live.items():
            array = as_array(self.theirs[name])
            if array.shape != facts.shape or array.tobytes() != facts.raw:
                return True
        return False

    def compare_all(self, line: str, gradients: bool = False) -> Difference | None:
        """Compare all tensors: in the end, and after a write those that it may have reached. (A
        write that no version counts is found in the end.)"""
        for name in list(self.live):
            a, b, seen = self.theirs[name], self.ours[name], self.live[name].seen
            reached = gradients or seen is None or ".data" in line
            found = None
            if reached or (*seen, a.requires_grad) != (a._version, b._version, b.requires_grad):
                found = self.compare(name, a, b, line)
            if found is None and (gradients or "backward" in line):
                found = self.compare_gradient(name)
            if found is not None:
                return found
        return None

    # -- comparing ---------------------------------------------------------------------------

    def compare(self, what: str, a: Any, b: Any, line: str) -> Difference | None:
        """Compare two values; a tensor of ours takes PyTorch's digits, so that lines after this
        one start from the same."""
        if is_tensor(a) and b is None and what.partition("[")[0] in self.derived and not (
            as_array(a).any()
        ):
            return None
        if is_tensor(a) and is_tensor(b):
            return self.compare_tensors(what, a, b, line)
        if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
            if len(a) != len(b):
                return Difference("length", what, str(len(a)), str(len(b)))
            for i, (x, y) in enumerate(zip(a, b, strict=True)):
                found = self.compare(f"{what}[{i}]", x, y, line)
                if found is not None:
                    return found
            return None
        return compare_others(what, a, b)

    def compare_tensors(self, what: str, a: Any, b: Any, line: str) -> Difference | None:
        try:
            x, y = as_array(a), elements(b)
        except TypeError:  # a dtype that NumPy lacks
            return Difference("dtype", what, str(a.dtype), str(b.dtype))
        if x.dtype != y.dtype:
            return Difference("dtype", what, x.dtype.name, y.dtype.name)
        raw, before = x.tobytes(), self.live.get(what)
        unchanged = before is not None and raw == before.raw and x.shape == before.shape == y.shape
        if unchanged and raw == y.tobytes() and a.requires_grad == b.requires_grad:
            if before.versions is not None:
                before.seen = (a._version, b._version)
            return compare_versions(what, a, b, before)
        if x.shape != y.shape:
            return Difference("shape", what, str(x.shape), str(y.shape))
        if a.requires_grad != b.requires_grad and (
            b.requires_grad or what.partition("[")[0] not in self.derived
        ):
            return Difference("requires_grad", what, f"{a.requires_grad}, {x.dtype}",
                              f"{b.requires_grad}, {y.dtype}")  # fmt: skip
        if raw != y.tobytes():
            tolerance = TOLERANCE.get(NAME[x.dtype], FINE)
            if x.dtype.kind in "fc":
                tolerance = max(tolerance, self.line_tolerance(line))
            scale = max(self.scale(line), self.scales.get(what.partition("[")[0], 0.0))
            size = apart(x, y, tolerance, scale)
            if size:
                return Difference("values", what, shown(a), shown(b), size)
            if _COMPARES.search(line):
                self.scales[what.partition("[")[0]] = scale
            elif what.partition("[")[0] not in self.scales and x.dtype.kind in "fc":
                take_digits(b, x)
        if "[" not in what:
            return self.note(what, a, b, x, raw)
        return None

    def note(self, name: str, a: Any, b: Any, x: np.ndarray, raw: bytes) -> Difference | None:
        """Keep what is known of a named tensor, and compare how often it was written."""
        if a.is_inference() != b.is_inference():
            return Difference("inference", name, str(a.is_inference()), str(b.is_inference()))
        seen = versions = None if a.is_inference() else (a._version, b._version)
        before = self.live.get(name)
        found = None
        if before is not None:
            found = compare_versions(name, a, b, before)
            versions = before.versions
        dtype = NAME[x.dtype]
        self.live[name] = Facts(x.shape, dtype, largest(x), versions, raw, seen)
        self.tolerance = max(self.tolerance, TOLERANCE.get(dtype, FINE))
        return found

    def compare_gradient(self, name: str) -> Difference | None:
        a, b = self.theirs[name].grad, self.ours[name].grad
        what = f"{name}.grad"
        if a is None or b is None:
            if a is b or (b is None and not as_array(a).any()):
                return None
            return Difference("gradient is None", what, shown(a), shown(b))
        x, y = as_array(a), elements(b)
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            return Difference("gradient", what, f"{x.dtype}{x.shape}", f"{y.dtype}{y.shape}")
        if b.requires_grad and not a.requires_grad and x.size:
            return Difference("requires_grad", what, str(a.requires_grad), str(b.requires_grad))
        size = apart(x, y, max(self.tolerance, self.line_tolerance("\n".join(self.lines))), 1.0)
        return Difference("gradient", what, shown(a), shown(b), size) if size else None

    def line_tolerance(self, line: str) -> float:
        """The tolerance for a result in double precision: coarser where a line uses less."""
        if "autograd.grad" in line or "func" in line or _COARSE.search(line):
            return max(self.tolerance, 1e-5 if _FEW_DIGITS.search("".join(self.lines)) else FINE)
        names = [self.live[n].dtype for n in _NAMES.findall(line) if n in self.live]
        tolerance = max([TOLERANCE.get(d, FINE) for d in names], default=FINE)
        if "out=" in line and any("int" in d or d == "bool" for d in names):
            tolerance = TOLERANCE["float32"]  # in which functions of integers are computed
        return max(tolerance, 1e-5) if _FEW_DIGITS.search(line) else tolerance

    def scale(self, line: str) -> float:
        """The largest magnitude among the operands of a line."""
        if "autograd.grad" in line or "func." in line:
            tops = [f.top for f in self.live.values()]
        else:
            tops = [self.live[n].top for n in _NAMES.findall(line) if n in self.live]
        return max([t for t in tops if t != math.inf], default=1.0)


def compare_versions(name: str, a: Any, b: Any, before: Facts) -> Difference | None:
    """How often a tensor was written since it got its name. (What the counter starts from is an
    accident where a kernel or the engine wrote into a new tensor.)"""
    if before.versions is None:
        return None
    theirs, ours = a._version - before.versions[0], b._version - before.versions[1]
    return None if theirs == ours else Difference("version", name, str(theirs), str(ours))


@lru_cache(maxsize=60_000)
def compiled_statement(statement: str) -> CodeType:
    return compile(statement, "<program>", "exec")


def compiled(line: str) -> CodeType:
    """The code of a line. A line ``name = expression`` leaves its value in ``_``.

    The same lines come in many programs, under other names. So they are compiled with the names
    numbered as they come, and the code is given the right ones.
    """
    plain = _PLAIN.match(line)
    statement = f"_ = {plain[1]}" if plain else line
    if "lambda" in statement or " for " in statement or statement.startswith("def "):
        return compiled_statement(statement)  # names in code within the code
    names: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        return names.setdefault(found[0], f"v{len(names)}_")

    code = compiled_statement(_VARIABLES.sub(numbered, statement))
    given = {numbered: name for name, numbered in names.items()}
    return code.replace(co_names=tuple(given.get(n, n) for n in code.co_names))


def run(code: CodeType, space: dict[str, Any]) -> Exception | None:
    try:
        exec(code, space)
    except Exception as error:
        return error.with_traceback(None)
    return None


def alike(a: Exception | None, b: Exception | None) -> bool:
    """Whether two errors are of one type. Something that is not implemented is a RuntimeError to
    Python, too; where a line is wrong for two reasons, either may be told."""
    one, other = (
        "RuntimeError" if isinstance(e, NotImplementedError) else type(e).__name__ for e in (a, b)
    )
    return one == other


def told(error: Exception | None) -> str:
    if error is None:
        return "no error"
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


def take_digits(tensor: Any, values: np.ndarray) -> None:
    """Put other digits into a tensor of retrograd's, unnoticed by autograd."""
    data = tensor._data
    if isinstance(data, np.ndarray):
        if data.flags.writeable:
            data[...] = values
    elif isinstance(data, np.generic):
        tensor._data = values[()]


def compare_others(what: str, a: Any, b: Any) -> Difference | None:
    """Compare what is no tensor. Objects of either library are compared by what they print."""
    if isinstance(a, float) and isinstance(b, float):
        same = math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-7) or (a != a and b != b)
        return None if same else Difference("values", what, repr(a), repr(b), abs(a - b))
    if isinstance(a, (bool, int, str, complex, type(None))) or is_tensor(a) or is_tensor(b):
        if type(a).__name__ != type(b).__name__:
            return Difference("type", what, type(a).__name__, type(b).__name__)
        if isinstance(a, complex):
            return None if abs(a - b) <= 1e-5 * max(1, abs(a)) else Difference(
                "values", what, repr(a), repr(b), abs(a - b))  # fmt: skip
        return None if a == b else Difference("values", what, repr(a), repr(b), math.inf)
    return None


# -- whole programs ------------------------------------------------------------------------------


def differs(
    lines: list[str], libraries: Libraries, watcher: Callable[[str], None] | None = None
) -> tuple[Difference | None, list[str]]:
    """What a program does otherwise than in PyTorch, and its lines up to there."""
    machine = libraries.machine()
    machine.watcher = watcher
    try:
        for line in lines:
            found = machine.step(line)
            if found is not None or machine.is_over:
                return found, machine.lines
        found = machine.compare_all("", gradients=True)
        if found is not None and machine.lines:
            found.line = machine.lines[-1]
        return found, machine.lines
    except SyntaxError:
        return None, lines
    finally:
        libraries.reset()


# -- rounding ------------------------------------------------------------------------------------


_ALGEBRA = re.compile(
    r"linalg|qr|svd|lstsq|solve|inv\(|inverse|cholesky|lu_|\.lu\(|det\(|eig|lowrank|matrix_"
)
_LEAF = re.compile(r"^(\w+) = torch\.tensor\(")
_NOISE = {"float16": 1e-3, "float32": 1e-7}  # of double precision: 1e-15


def is_rounding(lines: list[str], found: Difference, libraries: Libraries, dtype: str) -> bool:
    """Whether a difference of values is no larger than rounding makes it.

    The measure is how far PyTorch's own result in single precision is from that in double: values
    that move much by it are as uncertain in any precision, in proportion. Results of linear algebra
    may jump where a matrix is singular, say, and be the same in both precisions. For them, and for
    results that agree in double precision, the measure is also how far they move when the leaves
    do, by the last digits they have.
    """
    if found.kind not in ("values", "gradient"):
        return False
    double = value_in("float64", lines, found.what, libraries)
    single = value_in("float32", lines, found.what, libraries)
    if double is None or single is None:
        return False
    if dtype == "float16" and found.size == math.inf:
        # Beyond 65504 halves are infinite, in other intermediate results here and there.
        return bool(np.isfinite(double).all())
    if double.shape != single.shape or double.dtype.kind not in "fc":
        return False
    finite = np.isfinite(double)
    if (finite != np.isfinite(single)).any():
        return True  # infinite in one precision only: an overflow
    if found.size == math.inf:
        return False
    agreed = dtype != "float64" and agreed_in_double(lines, found, libraries, double)
    if agreed and found.size <= agreed:
        return True
    double, single = double[finite], single[finite]
    finer = {"float16": 1e4, "float32": 1.0}.get(dtype, 2e-9)
    if found.size <= 100 * distance(double, single) * finer:
        return True
    if not agreed and not any(_ALGEBRA.search(line) for line in lines):
        return False
    moved = value_in("float64", lines, found.what, libraries, _NOISE.get(dtype, 1e-15))
    if moved is None or moved.shape != finite.shape:
        return False
    return bool((np.isfinite(moved) != finite).any()) or (
        found.size <= 100 * distance(double, moved[finite]))  # fmt: skip


def agreed_in_double(
    lines: list[str], found: Difference, libraries: Libraries, theirs: np.ndarray
) -> float:
    """How large a difference may be that is none in double precision, beside the numbers of the
    program: in a sum of large numbers that cancel, say. 0 if there is one in double precision."""
    space: dict[str, Any] = {"torch": libraries.retrograd, "inf": math.inf, "nan": math.nan}
    top = 1.0
    libraries.retrograd.set_default_dtype(libraries.retrograd.float64)
    try:
        with libraries.here():
            for line in lines:
                if run(compile(in_dtype("float64", line), "<program>", "exec"), space) is not None:
                    return 0.0
            ours = elements(eval(found.what, space))
        for value in space.values():
            if is_tensor(value):
                size = largest(elements(value))
                top = max(top, size if size != math.inf else 0.0)
    except Exception:
        return 0.0
    finally:
        libraries.reset()
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return 0.0
    coarse = 0.02 if "float16" in "".join(lines) or ".half" in "".join(lines) else 1e-4
    return 0.0 if apart(theirs, ours, FINE, top) else coarse * top


def distance(a: np.ndarray, b: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        return float(np.abs(a - b).max()) if a.size else 0.0


def in_dtype(dtype: str, line: str) -> str:
    """A line with all floats of a dtype."""
    text = re.sub(r"torch\.float(16|32|64)\b|torch\.half", f"torch.{dtype}", line)
    text = re.sub(r"\.(half|float|double)\(\)", f".to(torch.{dtype})", text)
    complex_ = "complex128" if dtype == "float64" else "complex64"
    return re.sub(r"torch\.complex(64|128)\b", f"torch.{complex_}", text)


def value_in(
    dtype: str, lines: list[str], what: str, libraries: Libraries, noise: float = 0.0
) -> np.ndarray | None:
    """What PyTorch computes for an expression with all floats of a dtype, if it does. ``noise``: by
    how much of their size the leaves are moved."""
    torch = libraries.torch
    space: dict[str, Any] = {"torch": torch, "inf": math.inf, "nan": math.nan}
    torch.set_default_dtype(getattr(torch, dtype))
    random = np.random.default_rng(1)
    try:
        for line in lines:
            text = in_dtype(dtype, line)
            if run(compile(text, "<program>", "exec"), space) is not None:
                return None
            leaf = _LEAF.match(text)
            if noise and leaf and largest(as_array(space[leaf[1]])) and (
                space[leaf[1]].is_floating_point() or space[leaf[1]].is_complex()
            ):
                x = space[leaf[1]].data
                top = largest(as_array(x))
                by = random.standard_normal(tuple(x.shape)) * noise * (top if top < 1e9 else 1.0)
                x.add_(torch.tensor(by, dtype=x.dtype))
        value = eval(what, space)
    except Exception:
        return None
    finally:
        libraries.reset()
    return as_array(value) if is_tensor(value) else None
