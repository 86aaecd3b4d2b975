"""Programs that run line by line in retrograd and in PyTorch, and must agree after each line.

A program is text. Every line is run twice, with ``torch`` bound to either library, so whatever a
test finds can be pasted into a session of either.
"""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

import retrograd

torch = pytest.importorskip("torch", reason="programs are compared with PyTorch's run of them")

THOROUGH = os.environ.get("RETROGRAD_HYPOTHESIS") == "thorough"
_IN_CI = os.environ.get("CI") == "true"


def examples(count: int, **more: Any) -> settings:
    """Settings for ``count`` examples, or for many more of them in a thorough run."""
    return settings(
        max_examples=count * (24 if THOROUGH else 1),
        deadline=None,
        derandomize=_IN_CI,
        **({"database": None} if _IN_CI else {}),
        suppress_health_check=list(HealthCheck),
        phases=[p for p in Phase if p is not Phase.explain],  # the program explains itself
        **more,
    )


# How large numbers may get: beyond, rounding makes two right answers differ.
LARGEST = 1e4
# How near to a kink (of abs, max, a comparison) rounding may push a number over it.
NEAR = 1e-6

# Errors that a user meets in autograd: both libraries must say the same first sentence. Of other
# errors only the type is compared.
SAID_THE_SAME = (
    "a leaf Variable", "a view of a leaf", "A view was created", "Output ", "Trying to backward",
    "one of the variables needed", "element 0 of tensors", "grad can be implicitly",
    "One of the differentiated", "The differentiated Tensor", "you can only change",
    "can't retain_grad", "cannot register a hook", "Can't detach views", "unsupported operation",
    "view size is not compatible", "only Tensors of floating point",
)  # fmt: skip


# What PyTorch does and we do not follow. Each says what the tests leave out for it.
#
# - Its matmul brings unequal numbers of dimensions together by transposing, copying or squeezing,
#   whichever it finds fastest, and the node of the result tells. Names of such nodes are not
#   compared.
# - The version counter of a gradient, and of some products of complex numbers, starts above zero
#   where the engine or the kernel happened to add in place. Of a tensor taken from ``.grad`` only
#   what the counter does afterwards is compared, and not in messages; that of pure programs not at
#   all.
# - A hook on one of several outputs (``split``, ``unbind``) is called with None when no gradient
#   comes for it. Ours are called with gradients only, so hooks here do nothing for None.
# - The gradient of a leaf is accumulated as soon as it is complete, so hooks of a leaf may be
#   called before those of results elsewhere in the graph. Ours come last. That order is not
#   compared.
# - A view of a tensor that requires grad requires grad too, even where it has no history (it was
#   taken without recording, or before the base required grad). ``register_hook`` on such a view
#   ends the process. Hooks are set on views with a history only. What is computed from such views
#   alone saves nothing, so a second backward pass is no error. With us it is, as everywhere.
# - The error for a saved value that was written names the node that the tensor has come from
#   *since*; ours names the one it came from when it was saved, which is the one to look for. That
#   part of the message is not compared. Where the tensor is a view that must not be written, to
#   ask for the name fails, and that error is raised instead.
# - A view that was taken before its base had a history cannot be written in place (it is called a
#   leaf), and does not retain its gradient, until somebody asks for its ``grad_fn``. Ours needs no
#   asking. The state machine asks first.
# - An assignment to an index views the value before it looks at the target, so of two errors it
#   may raise the other one first. Then only the type is compared.
# - Arrays and masks used as an index are saved values, so a second backward pass through indexing
#   is an error. With us they belong to the node, as sizes do, and there is nothing to free. A
#   tensor that was saved and then ``detach_``ed is an error in backward. With us the saved value
#   keeps its place in the graph. Where PyTorch raises one of these and we do not, the program ends.
# - A write whose operand shares part of the target's memory, with gaps in either, reads what it has
#   written already. Ours computes first. And where both show the same elements, it is an error if
#   the strides of dimensions of size 1 differ, and none if they do not, even in a tensor that
#   overlaps itself (``expand``). The state machine leaves such writes out.
# - Operands of mixed dtypes are saved as they are, so writing one later is an error. We save the
#   operand as cast, a copy, which nobody can write. The state machine keeps to one dtype.
# - The gradient of an empty view of memory that was written is a constant, even where a graph is
#   asked for. With empty tensors it is not compared whether a gradient requires grad.
# - ``conj`` is a view that is computed when it is used. Ours is a copy. ``_is_view`` is not
#   compared in programs with it.
NAMES_OF_FOLDED_PRODUCTS = ("CloneBackward0", "SqueezeBackward4", "TransposeBackward0")


class Divergence(AssertionError):  # noqa: N818 - what happened, not an error of the program
    """The two libraries disagree. The message ends with the program."""


class Program:
    """Lines that have been run on both sides, and the tensors they left by name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: list[str] = []  # of the tensors, oldest first
        self.source: dict[str, str] = {}  # the line that made each
        self.first_versions: dict[str, tuple[int, int]] = {}
        self.made = 0
        self.theirs: dict[str, Any] = {"torch": torch}
        self.ours: dict[str, Any] = {"torch": retrograd}

    def __repr__(self) -> str:
        return "\n" + "\n".join(f"    {line}" for line in self.lines) + "\n"

    def __getitem__(self, name: str) -> Any:
        """PyTorch's tensor of a name: what a step is chosen by."""
        return self.theirs[name]

    def new_names(self, count: int) -> list[str]:
        names = [f"t{self.made + i}" for i in range(count)]
        self.made += count
        return names

    def run(self, line: str, makes: list[str] | None = None) -> Exception | None:
        """Run a line on both sides; the error that both raised, if they did."""
        self.lines.append(line)
        theirs = run_line(line, self.theirs)
        ours = run_line(line, self.ours)
        if ours is None and self.is_more_than_pytorch_does(theirs):
            return theirs
        if theirs is None and self.is_computed_from_nothing(ours):
            return ours
        if type(theirs) is not type(ours):
            raise self.divergence("the error", theirs, ours)
        if theirs is None:
            for name in makes or ():
                self.names.append(name)
                self.source[name] = line
            return None
        sentences = [first_sentence(theirs), first_sentence(ours)]
        if any(made.endswith(".grad") for made in self.lines):
            sentences = [re.sub(r"version \d+", "version", s) for s in sentences]
        # Where both operands of an operation are views at fault, either may be the one named.
        sentences = [re.sub(r"Output \d+ of", "Output of", s) for s in sentences]
        said_differently = sentences[0] != sentences[1]
        if said_differently and self.must_be_said(line, theirs, ours):
            raise self.divergence("the message", theirs, ours)
        self.lines[-1] += f"  # {type(theirs).__name__}"
        return theirs

    def is_more_than_pytorch_does(self, theirs: Exception | None) -> bool:
        """Whether an error of PyTorch's is one that we have no reason for."""
        if str(theirs).startswith("Trying to backward through the graph a second time"):
            return any(re.search(r"\[\[|, \[|\[torch\.tensor|, torch\.tensor|\[t\d+ >", x)
                       for x in self.lines)  # fmt: skip
        return str(theirs).startswith("Trying to use a saved tensor that has been detached")

    def is_computed_from_nothing(self, ours: Exception | None) -> bool:
        """Whether a second backward pass is an error only because of views without a history."""
        second = str(ours).startswith("Trying to backward through the graph a second time")
        return second and any("no_grad" in x or "requires_grad_()" in x for x in self.lines)

    def must_be_said(self, line: str, theirs: Exception, ours: Exception) -> bool:
        """Whether an error is one whose message counts."""
        if re.search(r"\] .?= t", line) and str(ours).startswith(SAID_THE_SAME):
            return False  # wrong for two reasons
        if str(ours).startswith("one of the variables needed") and " is a view" in str(theirs):
            return False
        return str(theirs).startswith(SAID_THE_SAME)

    def make(self, expression: str, results: int = 1) -> Exception | None:
        """Run ``name = expression`` for new names."""
        names = self.new_names(results)
        targets = ", ".join(names) + ("," if results != 1 else "")
        return self.run(f"{targets} = {expression}", names)

    def divergence(self, what: str, theirs: Any, ours: Any) -> Divergence:
        error = Divergence(
            f"{what} differs.\nPyTorch:   {shown(theirs)}\nretrograd: {shown(ours)}\n"
            f"after:\n{self!r}"
        )
        if isinstance(ours, Exception):
            error.__cause__ = ours
        return error

    # -- comparing ---------------------------------------------------------------------------

    def same(self, what: str, theirs: Any, ours: Any) -> None:
        if theirs != ours:
            raise self.divergence(what, theirs, ours)

    def close(self, what: str, theirs: Any, ours: Any) -> None:
        """Two tensors with the same values, or neither."""
        if theirs is None or ours is None:
            if theirs is not ours:
                raise self.divergence(what, theirs, ours)
            return
        a, b = as_numpy(theirs), as_numpy(ours)
        self.same(f"the shape of {what}", a.shape, b.shape)
        self.same(f"the dtype of {what}", a.dtype, b.dtype)
        tolerance = 1e-3 if a.dtype in (np.float32, np.complex64) else 1e-7
        scale = max(1.0, float(np.abs(a[np.isfinite(a)]).max(initial=0)))
        if not np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            raise self.divergence(what, theirs, ours)

    def compare(self, expression: str, how: Callable[[str, Any, Any], None] | None = None) -> None:
        """Compare what an expression gives on both sides, errors included."""
        results = []
        for space in (self.theirs, self.ours):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # reading .grad of a result warns
                    results.append(eval(expression, space))
            except RuntimeError as error:
                results.append(error)
        theirs, ours = results
        if isinstance(theirs, Exception) or isinstance(ours, Exception):
            same = type(theirs) is type(ours) and first_sentence(theirs) == first_sentence(ours)
            if not same:
                raise self.divergence(expression, theirs, ours)
            return
        (how or self.same)(expression, theirs, ours)

    def compare_tensor(self, name: str) -> None:
        """Everything about a tensor that can be seen without bringing its history up to date."""
        self.compare(name, self.close)
        for flag in ("requires_grad", "retains_grad"):
            self.compare(f"{name}.{flag}")
        if not any(".conj()" in line for line in self.lines):
            self.compare(f"{name}._is_view()")
        self.compare(f"{name}.grad", self.close)
        if all(self[n].numel() for n in self.names):
            self.compare(f"None if {name}.grad is None else {name}.grad.requires_grad")

    def compare_version(self, name: str) -> None:
        """How often a tensor was written; since it got its name, if it goes back to a gradient."""
        versions = self.theirs[name]._version, self.ours[name]._version
        if name not in self.first_versions:
            self.first_versions[name] = versions if self.shows_gradient(name) else (0, 0)
        theirs, ours = (
            now - first for now, first in zip(versions, self.first_versions[name], strict=True)
        )
        self.same(f"{name}._version", theirs, ours)

    def shows_gradient(self, name: str) -> bool:
        """Whether a tensor is a ``.grad`` or was made from one, and may share its memory."""
        made = self.source[name]
        return made.endswith(".grad") or any(
            self.shows_gradient(n) for n in re.findall(r"\bt\d+\b", made.split(" = ", 1)[1])
        )

    def compare_history(self, name: str) -> None:
        """The node a tensor came from. To ask is itself a step: it brings a view up to date."""
        if not self.is_folded_product(name):
            self.compare(f"type({name}.grad_fn).__name__")
        self.compare(f"{name}.is_leaf")
        self.compare(f"{name}.output_nr")

    def is_folded_product(self, name: str) -> bool:
        """Whether a tensor came from matmul, and PyTorch shows how it laid the factors out."""
        made = self.source[name]
        if "@" not in made and "matmul" not in made:
            return False
        return type(self.theirs[name].grad_fn).__name__ in NAMES_OF_FOLDED_PRODUCTS

    # -- what a step may be applied to -------------------------------------------------------

    def largest(self, name: str) -> float:
        """The largest magnitude in a tensor; infinite if something in it is not a number."""
        values = np.abs(as_numpy(self[name]))
        top = float(values.max(initial=0))
        return top if math.isfinite(top) else math.inf

    def tangled(self, target: Any, name: str) -> bool:
        """Whether writing a tensor into ``target`` gives something else element by element than
        all at once, and PyTorch does not notice."""
        value = self[name]
        if not np.shares_memory(as_numpy(target), as_numpy(value)):
            return False
        places = [
            (t.data_ptr(), [(n, k) for n, k in zip(t.shape, t.stride(), strict=True) if n > 1])
            for t in (target, value)
        ]
        if is_dense(target) and is_dense(value) and places[0] != places[1]:
            return False  # it notices
        # How far to go along a dimension of size 1 is nobody's business, but PyTorch compares it.
        same = target.shape == value.shape and target.stride() == value.stride()
        return places[0] != places[1] or not same or 0 in target.stride()

    def firm(self, *names: str) -> bool:
        """Whether comparing elements of these tensors gives the same on both sides.

        Where rounding made two numbers that are nearly equal differ between the libraries, each
        is right about which is larger. Numbers that are the same to the last bit may be equal.
        """
        values = np.concatenate([as_numpy(self.theirs[n]).ravel() for n in names])
        own = np.concatenate([as_numpy(self.ours[n]).ravel() for n in names])
        if np.array_equal(values, own):
            return True
        points = np.sort(np.concatenate([values.real, *(np.asarray(KINKS),)]))
        return bool((np.diff(points) > NEAR).all())


KINKS = (-0.5, 0.0, 0.5, 1.0)  # where the steps compare with numbers


def run_line(line: str, space: dict[str, Any]) -> Exception | None:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Using backward\\(\\) with create_graph")
            warnings.filterwarnings("ignore", "Use of \\w+ on expanded tensors")
            warnings.filterwarnings("ignore", "grad and param do not obey the gradient layout")
            exec(compile(line, "<program>", "exec"), space)
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        return error.with_traceback(None) if space["torch"] is torch else error
    return None


def is_dense(tensor: Any) -> bool:
    """Whether a tensor of PyTorch's fills a stretch of memory without gaps."""
    step = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride != step:
            return False
        step *= size
    return True


def shown(value: Any) -> str:
    """A value for a message: to print a tensor itself asks for its history, which may fail."""
    if isinstance(value, (torch.Tensor, retrograd.Tensor)):
        return f"{as_numpy(value)!r}"
    return repr(value)


def first_sentence(error: Any) -> str:
    sentence = re.split(r"\.\s", str(error), maxsplit=1)[0].rstrip(".")
    return re.sub(r", which is output \d+ of [\w:]+,", "", sentence)


def as_numpy(tensor: Any) -> np.ndarray[Any, Any]:
    if isinstance(tensor, torch.Tensor):
        return np.asarray(tensor.numpy(force=True))
    return np.asarray(tensor.detach().numpy())


# -- drawing: the parts of a line ------------------------------------------------------------

Draw = Callable[..., Any]


def pick(draw: Draw, choices: Any) -> Any:
    return draw(st.sampled_from(list(choices)))


SHAPES = st.lists(st.integers(1, 3), max_size=3).map(tuple)
VALUES = st.integers(-8, 8).map(lambda quarters: quarters / 4)


def a_tensor(draw: Draw, shape: tuple[int, ...], dtype: str, requires_grad: bool = False) -> str:
    """The text of a tensor of a shape, of quarters: sums and products of few are exact."""
    count = math.prod(shape)
    grad = ", requires_grad=True" if requires_grad else ""
    if not count:
        return f"torch.zeros({shape}, dtype=torch.{dtype}{grad})"
    values = draw(st.lists(VALUES, min_size=count, max_size=count))
    if dtype.startswith("complex"):
        imaginary = draw(st.lists(VALUES, min_size=count, max_size=count))
        values = [complex(a, b) for a, b in zip(values, imaginary, strict=True)]
    content = np.asarray(values).reshape(shape).tolist()
    return f"torch.tensor({content}, dtype=torch.{dtype}{grad})"


def a_leaf(draw: Draw, dtype: str, shapes: Any = SHAPES, grads: Any = None) -> str:
    requires_grad = draw(grads if grads is not None else st.booleans())
    return a_tensor(draw, draw(shapes), dtype, requires_grad)


def a_dim(draw: Draw, ndim: int) -> int:
    """A dimension, counted from either end."""
    return draw(st.integers(-ndim, ndim - 1)) if ndim else 0


def broadcastable(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1], strict=False))


def expands_to(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return len(a) <= len(b) and all(m in (1, n) for m, n in zip(a[::-1], b[::-1], strict=False))


def factorings(count: int) -> list[tuple[int, ...]]:
    """The shapes of at most three dimensions that have ``count`` elements."""
    two = [(m, count // m) for m in range(1, count + 1) if count % m == 0]
    three = [(m, a, n // a) for m, n in two for a in range(1, n + 1) if n % a == 0]
    return [(count,), *two, *three] if count else [(0,), (0, 2), (2, 0)]


def an_index(draw: Draw, shape: tuple[int, ...], arrays: bool) -> str:
    """The text between brackets; with arrays or masks in it only if ``arrays``."""
    parts: list[str] = []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        kind = pick(draw, ["int", "slice", "all", "none", *(["list", "tensor"] if arrays else [])])
        if kind == "none":
            parts.append("None")
        if kind == "int" and size:
            parts.append(str(draw(st.integers(-size, size - 1))))
        elif kind == "slice":
            start, stop = (draw(st.one_of(st.just(""), st.integers(-size, size))) for _ in "ab")
            parts.append(f"{start}:{stop}{pick(draw, ['', ':2'])}")
        elif kind in ("list", "tensor") and size:
            items = draw(st.lists(st.integers(-size, size - 1), min_size=2, max_size=2))
            parts.append(str(items) if kind == "list" else f"torch.tensor({items})")
        else:
            parts.append(":")
    if not parts or draw(st.integers(0, 5)) == 0:
        parts.append("...")
    return ", ".join(parts)


def several(expression: str, count: int) -> tuple[str, int]:
    """An expression that gives a tuple of ``count``: a tuple of one is taken apart here."""
    return (expression, count) if count > 1 else (f"{expression}[0]", 1)


def a_view(draw: Draw, program: Program, name: str) -> tuple[str, int]:
    """An expression that shows a tensor's memory in another way, and how many results it has."""
    shape = tuple(program[name].shape)
    ndim = len(shape)
    kinds = ["index", "view", "reshape", "unsqueeze", "squeeze", "expand"]
    if ndim:
        kinds += ["select", "slice", "narrow", "squeeze_dim", "transpose", "permute", "flatten",
                  "split", "split_sizes", "chunk", "unbind"]  # fmt: skip
    kind = pick(draw, kinds)
    dim = a_dim(draw, ndim)
    size = shape[dim] if ndim else 1
    if kind == "index":
        return f"{name}[{an_index(draw, shape, arrays=False)}]", 1
    if kind in ("view", "reshape"):
        return f"{name}.{kind}{pick(draw, factorings(math.prod(shape)))}", 1
    if kind == "unsqueeze":
        return f"{name}.unsqueeze({draw(st.integers(-ndim - 1, ndim))})", 1
    if kind == "expand":
        sizes = [draw(st.integers(1, 3)) if s == 1 else pick(draw, [s, -1]) for s in shape]
        return f"{name}.expand({[draw(st.integers(1, 2)), *sizes] if ndim < 3 else sizes})", 1
    if kind == "select" and size:
        return f"{name}.select({dim}, {draw(st.integers(-size, size - 1))})", 1
    if kind == "slice":
        start = draw(st.integers(0, size))
        return f"{name}[{start}:]" if dim in (0, -ndim) else f"{name}[..., {start % 2}::2]", 1
    if kind == "narrow":
        start = draw(st.integers(0, size))
        return f"{name}.narrow({dim}, {start}, {draw(st.integers(0, size - start))})", 1
    if kind == "squeeze_dim":
        return f"{name}.squeeze({dim})", 1
    if kind == "transpose":
        return pick(draw, [f"{name}.transpose({dim}, {a_dim(draw, ndim)})",
                           f"{name}.t()" if ndim <= 2 else f"{name}.mT"]), 1  # fmt: skip
    if kind == "permute":
        return f"{name}.permute({draw(st.permutations(range(ndim)))})", 1
    if kind == "flatten":
        return f"{name}.flatten({dim % ndim}, {draw(st.integers(dim % ndim, ndim - 1))})", 1
    if kind == "split" and size:
        step = draw(st.integers(1, size))
        return several(f"{name}.split({step}, {dim})", -(-size // step))
    if kind == "split_sizes":
        first = draw(st.integers(0, size))
        return f"{name}.split([{first}, {size - first}], {dim})", 2
    if kind == "chunk" and size:
        chunks = draw(st.integers(1, 2))
        return several(f"{name}.chunk({chunks}, {dim})", -(-size // -(-size // chunks)))
    if kind == "unbind" and size:
        return several(f"{name}.unbind({dim})", size)
    return f"{name}.squeeze()", 1
