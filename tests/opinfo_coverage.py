"""PyTorch's own sample inputs, given to PyTorch and to this package.

PyTorch ships the inputs that it tests its operations with: `op_db`, in
`torch.testing._internal.common_methods_invocations`. ``python tests/opinfo_coverage.py [NAME ...]``
runs each public operation on dense tensors on them, in float64 on the CPU, and compares the value,
the gradient, the tangent, the second gradient, and the value under `vmap`. It prints how many
operations agree in all of that, and for each of the others what differs first.

Options: ``--samples N`` takes at most N samples of an operation, ``--json FILE`` writes the results
to a file.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import types
import unittest
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils import _pytree as pytree

import retrograd

SEED = 7
MODES = ("value", "gradient", "tangent", "second gradient", "vmap")

# What is in the list but is no public operation on dense tensors.
LEFT_OUT = {
    "jiterator": "compiles CUDA kernels",
    "torch.ops.": "internal",
    "torch._scaled": "internal",
    "sparse.": "a sparse tensor",
    "to_sparse": "a sparse tensor",
    "bfloat16": "a dtype that NumPy does not have",
    "chalf": "a dtype that NumPy does not have",
    "native_dropout_backward": "internal",
    "max_pool2d_with_indices_backward": "internal",
    "slice": "internal",
}
NOT_COMPARED = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided",
                "empty_permuted", "resize_", "resize_as_"}  # fmt: skip


# What differs on purpose, and why.
ON_PURPOSE = {
    "as_strided_scatter": "PyTorch keeps the gradient of what a scalar was written over",
    "cholesky_inverse": "the tangent of a triangle that is not read counts in PyTorch",
    "logcumsumexp": "PyTorch's tangent is exact to 6 digits",
    "nn.functional.linear_cross_entropy (chunked)": "PyTorch's second gradient is zero",
    "nn.functional.linear_cross_entropy (chunked_none)": "PyTorch's second gradient is zero",
    "special.bessel_j0": "PyTorch's values have 5 digits above 5",
    "special.bessel_y1": "PyTorch's values have 5 digits above 5",
}


class DifferenceError(Exception):
    """The two libraries do not agree; the message says in what."""


class Sample(NamedTuple):
    """A call: its arguments, and what makes the result unique, for one of the libraries."""

    library: Any
    function: Callable[..., Any]
    arguments: Any
    processed: Callable[[Any], Any]

    def tensors(self) -> list[Any]:
        """The tensors of floating-point numbers among the arguments that require grad."""
        leaves = pytree.tree_leaves(self.arguments)
        return [x for x in leaves if isinstance(x, self.library.Tensor) and x.requires_grad]

    def call(self, *tensors: Any) -> list[Any]:
        """The tensors and numbers in the result, with other tensors for those that require grad."""
        leaves, tree = pytree.tree_flatten(self.arguments)
        rest = iter(tensors)
        leaves = [
            next(rest) if isinstance(x, self.library.Tensor) and x.requires_grad else x
            for x in leaves
        ]
        args, kwargs = pytree.tree_unflatten(leaves, tree)
        self.library.manual_seed(SEED)
        result = self.processed(self.function(*args, **kwargs))
        return _flat(result)

    def moving(self, *tensors: Any) -> list[Any]:
        """The results that have derivatives."""
        results = self.call(*tensors)
        return [x for x in results if isinstance(x, self.library.Tensor) and _continuous(x)]


def _flat(result: Any) -> list[Any]:
    """What a result consists of; results with names are tuples."""
    if isinstance(result, (tuple, list)):
        return [x for part in result for x in _flat(part)]
    if isinstance(result, dict):
        return [x for part in result.values() for x in _flat(part)]
    return [result]


def _continuous(x: Any) -> bool:
    return bool(x.is_floating_point() or x.is_complex())


def operations() -> list[Any]:
    """The entries of PyTorch's list that are public operations on dense tensors."""
    if "expecttest" not in sys.modules:  # which the list's module imports, for PyTorch's own tests
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in
    from torch.testing._internal.common_methods_invocations import op_db

    return [op for op in op_db if not _left_out(op)]


def _left_out(op: Any) -> bool:
    internal = op.name.startswith("_") and not op.name.startswith("__")
    return (internal and op.name != "_segment_reduce") or op.name.startswith(tuple(LEFT_OUT))


def counterpart(op: Any) -> Callable[..., Any] | None:
    """The function here that an entry's function is in PyTorch; None if there is none."""
    function = op.op
    if getattr(function, "__module__", None) and "torch.testing" in function.__module__:
        return _rebound(function)
    for name in (op.name, getattr(function, "__name__", "")):
        for space in (retrograd, retrograd.Tensor):
            try:
                found = functools.reduce(getattr, name.split("."), space)
            except AttributeError:
                continue
            if callable(found):
                return found  # type: ignore[no-any-return]
    return None


def _rebound(function: Any) -> Any:
    """A function of PyTorch's test code with this package for `torch`."""
    if not isinstance(function, types.FunctionType):
        return function
    names = {**function.__globals__, "torch": retrograd, "wrapper_set_seed": _seeded}
    cells = None
    if function.__closure__:
        cells = tuple(types.CellType(_translated(c.cell_contents)) for c in function.__closure__)
    copy = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, cells
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _seeded(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A call with the seed that PyTorch's test code sets for functions that draw numbers."""
    retrograd.manual_seed(42)
    return function(*args, **kwargs)


def _translated(x: Any) -> Any:
    """A value of PyTorch's as one of this package's."""
    if isinstance(x, torch.Tensor):
        if x.layout is not torch.strided or x.is_quantized:
            raise NotImplementedError("a sparse tensor")
        x, recorded = x.detach().resolve_conj().resolve_neg(), x.requires_grad
        whole = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())  # type: ignore[call-overload]
        ours = retrograd.from_numpy(whole.numpy().copy())  # neither writes to the other's memory
        ours = ours.as_strided(x.shape, x.stride(), x.storage_offset())
        return ours.requires_grad_(recorded)
    if isinstance(x, (torch.dtype, torch.memory_format, torch.layout)):
        return getattr(retrograd, str(x).removeprefix("torch."))
    if isinstance(x, torch.device):
        return retrograd.device(str(x))
    if isinstance(x, torch.Size):
        return retrograd.Size(x)
    if isinstance(x, torch.Generator):
        return retrograd.Generator().manual_seed(x.initial_seed())
    if isinstance(x, torch.nn.Module):
        return getattr(retrograd.nn, type(x).__name__)()
    if isinstance(x, types.FunctionType):
        return _rebound(x)
    if getattr(x, "__module__", None) == "torch" and hasattr(retrograd, getattr(x, "__name__", "")):
        return getattr(retrograd, x.__name__)
    return x


def samples(op: Any, limit: int | None) -> Iterator[tuple[Sample, Sample]]:
    """PyTorch's samples of an operation: for PyTorch, and for this package."""
    ours = counterpart(op)
    if ours is None:
        raise DifferenceError("value: missing")
    dtype = next((d for d in (torch.float64, torch.complex128, torch.int64, torch.bool)
                  if d in op.dtypes), None)  # fmt: skip
    if dtype is None:
        return
    recorded = op.supports_autograd and dtype.is_floating_point | dtype.is_complex
    torch.manual_seed(SEED)
    for sample in islice(op.sample_inputs("cpu", dtype, requires_grad=recorded), limit):
        theirs = ((sample.input, *sample.args), sample.kwargs)
        if op.name in NOT_COMPARED:
            sample.output_process_fn_grad = _only_shape
        if any(isinstance(x, torch.Tensor) and x.layout is not torch.strided
               for x in pytree.tree_leaves(theirs)):  # fmt: skip
            continue
        theirs = pytree.tree_map(_leaf, theirs)
        translated = pytree.tree_map(_translated, theirs)
        # The wrapper makes an input what the operation takes it for: symmetric, triangular.
        wrapper = _plain if "masked" in op.gradcheck_wrapper.__name__ else op.gradcheck_wrapper
        yield (
            Sample(torch, functools.partial(wrapper, op.op), theirs, sample.output_process_fn_grad),
            Sample(retrograd, functools.partial(_rebound(wrapper), ours), translated,
                   _translated(sample.output_process_fn_grad)),
        )  # fmt: skip


def _plain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _only_shape(x: Any) -> Any:
    """What can be compared of memory that has not been written."""
    return x.new_zeros(x.shape)


def _leaf(x: Any) -> Any:
    """A leaf with the values of a tensor; samples may be results of operations."""
    if isinstance(x, torch.Tensor) and x.requires_grad:
        return x.detach().requires_grad_()
    return x


def compare(theirs: Sample, ours: Sample, *, op: Any) -> None:
    """Raise DifferenceError where the two libraries do not agree on a sample."""
    expected = _try(theirs, lambda s: s.call(*s.tensors()))
    if isinstance(expected, Exception):
        return  # e.g. a sample that needs another device
    _equal("value", expected, _try(ours, lambda s: s.call(*s.tensors())))
    modes: list[tuple[str, Callable[[Sample], Any]]] = []
    if theirs.tensors():
        modes += [("gradient", gradient)]
        if op.supports_forward_ad:
            modes += [("tangent", tangent)]
        if op.supports_gradgrad:
            modes += [("second gradient", second_gradient)]
    if op.name not in {"item"}:
        modes += [("vmap", batched)]
    for name, mode in modes:
        expected = _try(theirs, mode)
        if not isinstance(expected, Exception):
            _equal(name, expected, _try(ours, mode))


def _try(sample: Sample, mode: Callable[[Sample], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return mode(sample)
        except Exception as error:
            return error


def _weights(sample: Sample, like: Any, seed: int) -> Any:
    """Numbers of the shape and the dtype of a tensor, the same for both libraries."""
    generator = np.random.default_rng(seed)
    shape = tuple(like.shape)
    numbers = np.asarray(generator.uniform(0.5, 1.5, shape))
    if like.is_complex():
        numbers = numbers + 1j * generator.uniform(0.5, 1.5, shape)
    return sample.library.from_numpy(np.asarray(numbers)).to(like.dtype)


def _loss(sample: Sample, results: list[Any]) -> Any:
    """One number that depends on all results."""
    total: Any = 0
    for i, x in enumerate(results):
        if x.requires_grad:
            product = x * _weights(sample, x, i)
            total = total + (product.real + product.imag if x.is_complex() else product).sum()
    return total


def gradient(sample: Sample) -> list[Any]:
    """The gradients of all tensors, None where there is none."""
    tensors = sample.tensors()
    loss = _loss(sample, sample.moving(*tensors))
    if not isinstance(loss, sample.library.Tensor):
        return [None] * len(tensors)
    return list(sample.library.autograd.grad(loss, tensors, allow_unused=True))


def second_gradient(sample: Sample) -> list[Any]:
    """The gradients of a sum of the gradients."""
    tensors = sample.tensors()
    loss = _loss(sample, sample.moving(*tensors))
    if not isinstance(loss, sample.library.Tensor):
        return [sample.library.zeros_like(x) for x in tensors]
    grads = sample.library.autograd.grad(loss, tensors, create_graph=True, allow_unused=True)
    loss = _loss(sample, [g for g in grads if g is not None])
    if not isinstance(loss, sample.library.Tensor):
        return [sample.library.zeros_like(x) for x in tensors]
    return list(
        sample.library.autograd.grad(loss, tensors, allow_unused=True, materialize_grads=True)
    )


def tangent(sample: Sample) -> list[Any]:
    """The tangents of the results."""
    forward_ad = sample.library.autograd.forward_ad
    tensors = [x.detach() for x in sample.tensors()]
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(x, _weights(sample, x, i)) for i, x in enumerate(tensors)]
        parts = [forward_ad.unpack_dual(x) for x in sample.moving(*duals)]
    return [p.primal * 0 if p.tangent is None else p.tangent for p in parts]


def batched(sample: Sample) -> list[Any]:
    """The results of two calls at once: with the tensors, and with these a little larger."""
    tensors = [x.detach() for x in sample.tensors()]
    if not tensors:
        return []
    both = tuple(sample.library.stack([x, x * 1.01]) for x in tensors)

    def function(*entries: Any) -> tuple[Any, ...]:
        return tuple(x for x in sample.call(*entries) if isinstance(x, sample.library.Tensor))

    # Random numbers: the same for all entries, as without vmap.
    return list(sample.library.func.vmap(function, randomness="same")(*both))


def _equal(mode: str, expected: Any, actual: Any) -> None:
    if isinstance(actual, Exception):
        first = str(actual).split("\n")[0]
        raise DifferenceError(f"{mode}: {type(actual).__name__}: {first[:160]}")
    if len(expected) != len(actual):
        raise DifferenceError(f"{mode}: {len(actual)} results in place of {len(expected)}")
    for x, y in zip(expected, actual, strict=True):
        reason = _difference(x, y)
        if reason:
            raise DifferenceError(f"{mode}: {reason}")


def _difference(expected: Any, actual: Any) -> str:
    """In what two values differ; an empty string if they do not."""
    if isinstance(expected, torch.Tensor):
        if actual is None:
            return "" if not expected.any() else "None in place of a gradient"
        if not isinstance(actual, retrograd.Tensor):
            return f"{type(actual).__name__} in place of a tensor"
        if str(expected.dtype) != str(actual.dtype).replace("retrograd", "torch"):
            return f"{actual.dtype} in place of {expected.dtype}"
        if tuple(expected.shape) != tuple(actual.shape):
            return f"shape {tuple(actual.shape)} in place of {tuple(expected.shape)}"
        expected = expected.detach().resolve_conj().resolve_neg().numpy(force=True)
        actual = actual.detach().numpy()
    elif isinstance(actual, retrograd.Tensor):
        if expected is None:
            return "" if not actual.any() else "a gradient in place of None"
        return "a tensor in place of a number"
    if expected is None or isinstance(expected, (str, torch.dtype)):
        return "" if str(expected) == str(actual).replace("retrograd", "torch") else f"{actual}"
    expected, actual = np.asarray(expected), np.asarray(actual)
    exact = expected.dtype.kind in "biu"
    tolerance = 1e-4 if expected.dtype in (np.float32, np.complex64) else 1e-7
    if np.allclose(actual, expected, rtol=0 if exact else tolerance,
                   atol=0 if exact else tolerance, equal_nan=True):  # fmt: skip
        return ""
    if exact or not expected.size:
        return f"{actual.ravel()[:4]} in place of {expected.ravel()[:4]}"
    agrees = np.isclose(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    worst = np.argmax(np.where(agrees, 0, np.nan_to_num(np.abs(actual - expected), nan=np.inf)))
    return f"{actual.ravel()[worst]:.8g} in place of {expected.ravel()[worst]:.8g}"


def check(op: Any, limit: int | None = None) -> str:
    """What differs first for an operation, an empty string if nothing does."""
    try:
        for number, (theirs, ours) in enumerate(samples(op, limit)):
            try:
                compare(theirs, ours, op=op)
            except DifferenceError as difference:
                return f"{difference} (sample {number})"
    except DifferenceError as difference:
        return str(difference)
    return ""


def title(op: Any) -> str:
    """The name of an entry, with its variant."""
    return f"{op.name} ({op.variant_test_name})" if op.variant_test_name else str(op.name)


def main() -> None:
    """Compare, and print what differs and the percentage that agrees."""
    parser = argparse.ArgumentParser(description="PyTorch's own samples, run in both libraries.")
    parser.add_argument("names", nargs="*", help="only operations of these names")
    parser.add_argument("--samples", type=int, help="at most so many samples of each operation")
    parser.add_argument("--json", type=Path, help="a file to write the results to")
    options = parser.parse_args()
    results = {}
    for op in operations():
        if not options.names or op.name in options.names:
            results[title(op)] = check(op, options.samples)
            if results[title(op)]:
                why = ON_PURPOSE.get(title(op))
                print(f"{title(op)}: {results[title(op)]}", *([f"- {why}"] if why else []),
                      flush=True)  # fmt: skip
    agree = sum(not reason for reason in results.values())
    on_purpose = sum(bool(reason) and name in ON_PURPOSE for name, reason in results.items())
    print(f"{agree} of {len(results)} agree ({100 * agree / max(1, len(results)):.1f} %), "
          f"{on_purpose} more differ on purpose")  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
