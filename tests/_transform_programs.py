"""Programs of nested transforms: text that runs with any library that has PyTorch's names.

A program defines functions that use the names ``torch`` and ``func`` and leaves its answer in
``result``. With ``func`` bound to ``retrograd.func`` or to ``torch.func`` it is what a user writes.
Bound to ``Differences`` the same text says what a derivative *is*: transforms are replaced by
quotients of differences and by loops, and no line of the library's differentiation runs.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings

import retrograd
import retrograd.autograd.forward_ad
import retrograd.func

THOROUGH = os.environ.get("RETROGRAD_HYPOTHESIS") == "thorough"
_IN_CI = os.environ.get("CI") == "true"

HAS_PYTORCH = importlib.util.find_spec("torch") is not None
NEEDS_PYTORCH = pytest.mark.skipif(not HAS_PYTORCH, reason="PyTorch is not installed")

# The libraries a test of values runs with. That it holds in PyTorch shows that the test is right.
LIBRARIES = ["retrograd", pytest.param("torch", marks=NEEDS_PYTORCH)]


def library_named(name: str) -> Any:
    return importlib.import_module(name)


def examples(count: int) -> settings:
    """Settings for ``count`` examples, or for many more of them in a thorough run."""
    return settings(
        max_examples=count * (20 if THOROUGH else 1),
        deadline=None,
        derandomize=_IN_CI,
        **({"database": None} if _IN_CI else {}),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=[p for p in Phase if p is not Phase.explain],  # the program explains itself
    )


# -- running ---------------------------------------------------------------------------------

PRELUDE = """
f64 = torch.float64

def const(*shape):  # fixed numbers between -1 and 1
    size = 1
    for n in shape:
        size *= n
    return torch.sin(1.7 * torch.arange(1, size + 1, dtype=f64)).reshape(shape)

def weighted(t):  # a sum that tells the elements apart
    return (t * (torch.arange(1, t.numel() + 1, dtype=f64).reshape(t.shape) / t.numel())).sum()

def apart(x):  # elements far from each other and from -0.75, whatever x is
    return x.tanh() + (2.5 * torch.arange(x.numel(), dtype=f64) - 2).reshape(x.shape)

def regular(x):  # a matrix far from a singular one
    n = x.shape[-1]
    return x.tanh() + (n + 1) * torch.eye(n, dtype=f64)

class Sine(torch.autograd.Function):
    generate_vmap_rule = True
    @staticmethod
    def forward(x):
        return torch.sin(x)
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * torch.cos(x)
    @staticmethod
    def jvp(ctx, t):
        x, = ctx.saved_tensors
        return t * torch.cos(x)

class Product(torch.autograd.Function):
    @staticmethod
    def forward(x, y):
        return x * y
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)
    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x
    @staticmethod
    def jvp(ctx, s, t):
        x, y = ctx.saved_tensors
        return s * y + x * t
    @staticmethod
    def vmap(info, in_dims, x, y):
        rank = max(z.ndim - (d is not None) for z, d in zip((x, y), in_dims))
        def in_front(z, d):  # the batch, before dimensions that only the other may have
            if d is None:
                return z
            z = z.movedim(d, 0)
            return z.reshape(z.shape[:1] + (1,) * (rank + 1 - z.ndim) + z.shape[1:])
        return Product.apply(in_front(x, in_dims[0]), in_front(y, in_dims[1])), 0
"""


def run(source: str, torch: Any, func: Any) -> np.ndarray:
    """The ``result`` of a program."""
    space = names(torch, func)
    with warnings_of(torch):
        exec(compile(source, "<program>", "exec"), space)
    return as_numpy(space["result"])


@contextlib.contextmanager
def warnings_of(torch: Any) -> Iterator[None]:
    """PyTorch's forward mode warns of parts of PyTorch, and vmap of loops. Ours must not."""
    with warnings.catch_warnings():
        if torch is not retrograd:
            warnings.simplefilter("ignore")
        yield


def names(torch: Any, func: Any) -> dict[str, Any]:
    """What a program may use."""
    space = {"torch": torch, "func": func, "F": torch.nn.functional}
    exec(compile(PRELUDE, "<prelude>", "exec"), space)
    return space


def as_numpy(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.detach().clone().tolist(), dtype=np.float64)


def assert_same(a: Any, b: Any, tolerance: float) -> None:
    """Two tensors, or lists, have the same shape and, relative to the larger, the same values."""
    first, second = (as_numpy(t) if hasattr(t, "detach") else np.asarray(t) for t in (a, b))
    assert first.shape == second.shape
    difference = closeness(first, second)
    assert difference <= tolerance, f"off by {difference}:\n{first}\n{second}"


def listing(source: str) -> str:
    """A program as a file that runs."""
    used: list[str] = []
    text = source
    for block in reversed(PRELUDE.strip().split("\n\n")):  # a block uses those before it
        (name,) = re.findall(r"^(?:def |class |)(\w+)", block)[:1]
        if re.search(rf"\b{name}\b", text):
            used.insert(0, block)
            text += block
    imports = (
        "import retrograd as torch\nimport retrograd.nn.functional as F\nfrom retrograd import func"
    )
    return "\n\n".join([imports, *used, source]) + "\nprint(result)"


def closeness(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference of two results, relative to how large they are."""
    if a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return np.inf
    scale = max(1.0, float(np.abs(b).max(initial=0)))
    return float(np.abs(a - b).max(initial=0)) / scale


# -- what derivatives are --------------------------------------------------------------------

# Weights of a central difference of eighth order: f(x + kh) - f(x - kh) for k = 1, 2, 3, 4.
_STENCIL = (4 / 5, -1 / 5, 4 / 105, -1 / 280)


class Differences:
    """The names of ``torch.func``, by differences of the function and by loops.

    Works on plain tensors without history. Nested derivatives are nested differences.
    """

    def __init__(self, torch: Any, step: float = 0.03) -> None:
        self.torch = torch
        self.step = step

    def _along(self, f: Callable[[Any], Any], x: Any, direction: Any) -> Any:
        total: Any = 0
        for k, weight in enumerate(_STENCIL, 1):
            move = k * self.step * direction
            total = total + weight * (f(x + move) - f(x - move))
        return total / self.step

    def jvp(self, f: Any, primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return f(x), self._along(f, x, t)

    def linearize(self, f: Any, x: Any) -> Any:
        return f(x), lambda t: self._along(f, x, t)

    def jacfwd(self, f: Any, chunk_size: int | None = None) -> Any:
        def jacobian(x: Any) -> Any:
            basis = self.torch.eye(x.numel(), dtype=x.dtype)
            columns = [self._along(f, x, e.reshape(x.shape)) for e in basis]
            stacked = self.torch.stack(columns, -1)
            return stacked.reshape((*stacked.shape[:-1], *x.shape))

        return jacobian

    jacrev = jacfwd
    grad = jacfwd

    def hessian(self, f: Any) -> Any:
        return self.jacfwd(self.jacfwd(f))

    def vjp(self, f: Any, x: Any) -> Any:
        y = f(x)

        def pull_back(cotangent: Any) -> Any:
            return (self.grad(lambda x: (f(x) * cotangent).sum())(x),)

        return y, pull_back

    def vmap(self, f: Any, in_dims: Any = 0, out_dims: Any = 0, **options: Any) -> Any:
        return looped(self.torch, f, in_dims, out_dims)


def looped(torch: Any, f: Any, in_dims: Any = 0, out_dims: Any = 0) -> Any:
    """``vmap`` as a loop, for tensors as arguments and a tensor as result."""

    def loop(*args: Any) -> Any:
        dims = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args)
        sizes = {x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None}
        (size,) = sizes
        rows = [
            f(*(x if d is None else x.select(d, i) for x, d in zip(args, dims, strict=True)))
            for i in range(size)
        ]
        return torch.stack(rows, out_dims)

    return loop


class OutermostByDifferences(Differences):
    """Differences for the outermost transform, the library's own for those inside it.

    Inside the function that is differenced all values are plain, so what is compared with is one
    order of differentiation lower: right by the tests of that order.
    """

    def __init__(self, torch: Any, step: float = 0.03) -> None:
        super().__init__(torch, step)
        self.inside = False

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in ("jvp", "vjp", "grad", "jacrev", "jacfwd", "hessian", "linearize", "vmap"):
            return found
        if self.inside:
            return getattr(self.torch.func, name)
        return found

    def _along(self, f: Callable[[Any], Any], x: Any, direction: Any) -> Any:
        self.inside = True
        try:
            return super()._along(f, x, direction)
        finally:
            self.inside = False


class PyTorch:
    """``torch.func``, less what it cannot do.

    PyTorch 2.13 reads memory that is not its own where a result that is the same for all entries
    shall get its batch dimension anywhere but in front. Its ``linearize`` does not nest.
    """

    def __init__(self) -> None:
        self.func = importlib.import_module("torch.func")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.func, name)

    def vmap(self, f: Any, in_dims: Any = 0, out_dims: Any = 0, **options: Any) -> Any:
        mapped = self.func.vmap(f, in_dims, **options)
        return lambda *args: mapped(*args).movedim(0, out_dims)

    def linearize(self, f: Any, x: Any) -> Any:
        return f(x), lambda t: self.func.jvp(f, (x,), (t,))[1]


class LoopsForVmap:
    """The library's transforms, with a loop in place of ``vmap``."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def __getattr__(self, name: str) -> Any:
        return getattr(self.torch.func, name)

    def vmap(self, f: Any, in_dims: Any = 0, out_dims: Any = 0, **options: Any) -> Any:
        return looped(self.torch, f, in_dims, out_dims)
