"""Seeded random numbers on NumPy arrays, number for number those of PyTorch's CPU generator.

PyTorch's CPU generator is a Mersenne twister (mt19937) whose 32-bit words the kernels turn into
numbers.  NumPy's legacy ``RandomState`` runs the same twister from the same integer seed, so this
module draws its words in bulk and repeats the kernels' arithmetic, rounding for rounding:

===================  ==============================================================================
uniform              float32, float16: the low 24 bits of one word; float64: the low 53 bits of two
normal, 1-15 values  Box-Muller in float64, two values at a time; the odd one waits in the generator
normal, 16 or more   Box-Muller on blocks of 16 uniforms of the result's precision
integers             one word modulo the range, or two words once the range reaches 2**28
bernoulli            a uniform compared with p: float64 for one p for all, else as precise as p
exponential          float64 uniforms, whatever the result's dtype; so for cauchy and geometric
log_normal           the exponential function of normal numbers, two at a time as above
permutation          one word per swap of a Fisher-Yates shuffle
===================  ==============================================================================

The kernels meant here are those PyTorch selects on x86 processors with AVX2, where a product and
the sum after it round once (a fused multiply-add).  float64 results also go through the C
library's log, log1p, sin and cos: Python's ``math`` calls the same ones, NumPy's vectorised log
and log1p may differ in the last bit.

Numbers fill an array in C order; ``in_memory_order`` is for arrays laid out otherwise.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from retrograd.arrays._discrete import binomial, multinomial, poisson
from retrograd.arrays._dtypes import FLOATS, INEXACT
from retrograd.arrays._fused import scale_and_shift
from retrograd.arrays._gamma import dirichlet, dirichlet_grad, standard_gamma, standard_gamma_grad
from retrograd.arrays._generator import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    require,
    seed,
    set_rng_state,
)
from retrograd.arrays._memory import float_limits
from retrograd.arrays._sampling import (
    as_c_library,
    below,
    narrowed,
    normals_in_blocks,
    normals_in_pairs,
    unit_uniforms,
)

Array = npt.NDArray[Any]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Shape = int | Sequence[int]
Precision = type[np.float32 | np.float64]

__all__ = [
    "Generator", "bernoulli", "binomial", "cauchy", "default_generator", "dirichlet",
    "dirichlet_grad", "exponential", "geometric",
    "get_rng_state", "in_memory_order", "initial_seed", "integers", "log_normal", "manual_seed",
    "memory_order", "multinomial", "normal", "permutation", "poisson", "seed", "set_rng_state",
    "standard_gamma", "standard_gamma_grad", "uniform",
]  # fmt: skip

# How error messages spell a dtype: its C++ type, and PyTorch's name for it.
# fmt: off
_SPELLING = {
    "bool": ("bool", "Bool"), "uint8": ("unsigned char", "Byte"), "int8": ("signed char", "Char"),
    "int16": ("short int", "Short"), "int32": ("int", "Int"), "int64": ("long int", "Long"),
    "uint16": ("short unsigned int", "UInt16"), "uint32": ("unsigned int", "UInt32"),
    "uint64": ("long unsigned int", "UInt64"), "float16": ("c10::Half", "Half"),
    "bfloat16": ("c10::BFloat16", "BFloat16"),
    "float32": ("float", "Float"), "float64": ("double", "Double"),
    "complex64": ("c10::complex<float>", "ComplexFloat"),
    "complex128": ("c10::complex<double>", "ComplexDouble"),
}
# fmt: on


def uniform(
    shape: Shape, dtype: npt.DTypeLike, generator: Generator | None = None, low: float = 0.0,
    high: float = 1.0,
) -> Array:  # fmt: skip
    """Draw uniform numbers from ``[low, high)``, as ``torch.rand`` and ``Tensor.uniform_``.

    >>> uniform((1, 3), np.float32, manual_seed(0)).tolist()
    [[0.49625658988952637, 0.7682217955589294, 0.08847743272781372]]
    """
    shape, dtype = _dims(shape), np.dtype(dtype)
    if dtype.kind == "c":
        parts = uniform((*shape, 2), _part_of(dtype), generator, low, high)
        return parts.view(dtype).reshape(shape)
    if (low, high) == (0.0, 1.0):
        _require_kernel("check_uniform_bounds", dtype, but_not="biu")
    else:
        _check_uniform_bounds(low, high, dtype)
    precision = np.float64 if dtype == np.float64 else np.float32
    fractions = unit_uniforms(generator or default_generator, math.prod(shape), precision)
    if low == 0.0 and high == 1.0 and dtype == precision:
        return fractions.reshape(shape)  # nothing to scale, and 1 is never reached
    width = float(precision(high) - precision(low))
    values = scale_and_shift(fractions, width, low).astype(dtype)
    values[values == np.asarray(high, dtype)] = low  # rounding may reach the excluded bound
    return values.reshape(shape)


def normal(
    shape: Shape, dtype: npt.DTypeLike, generator: Generator | None = None, mean: float = 0.0,
    std: float = 1.0, contiguous: bool = True,
) -> Array:  # fmt: skip
    """Draw normal numbers, as ``torch.randn`` and ``Tensor.normal_``.

    Of a complex dtype, ``std`` is the deviation of the whole number, shared by its two parts.  What
    is not ``contiguous`` is always filled two values at a time.

    >>> normal(3, np.float32, manual_seed(0)).tolist()
    [1.5409960746765137, -0.293428897857666, -2.1787893772125244]
    """
    shape, dtype = _dims(shape), np.dtype(dtype)
    require(std >= 0.0, f"normal expects std >= 0.0, but found std {std:g}")
    if dtype.kind == "c":
        each = std / math.sqrt(2.0)
        parts = normal((*shape, 2), _part_of(dtype), generator, mean, each, contiguous)
        return parts.view(dtype).reshape(shape)
    count = math.prod(shape)
    if count == 0:
        return np.empty(shape, dtype)
    _require_kernel("normal_kernel_cpu", dtype, but_not="biu")
    generator = generator or default_generator
    if count >= 16 and contiguous:
        values = normals_in_blocks(generator, count, dtype, mean, std)
    else:
        values = narrowed(scale_and_shift(normals_in_pairs(generator, count), std, mean), dtype)
    return values.reshape(shape)


def integers(
    low: int | None, high: int | None, shape: Shape, dtype: npt.DTypeLike,
    generator: Generator | None = None,
) -> Array:  # fmt: skip
    """Draw whole numbers from ``[low, high)``, as ``torch.randint`` and ``Tensor.random_``.

    Without bounds, as ``Tensor.random_()``: from 0 to the largest number of the dtype, or the
    largest up to which a floating-point dtype holds every one.

    >>> integers(0, 10, 5, np.int64, manual_seed(0)).tolist()
    [4, 9, 3, 0, 3]
    """
    shape, dtype = _dims(shape), np.dtype(dtype)
    if not math.prod(shape) and low is None:
        return np.empty(shape, dtype)
    if low is None or high is None:
        _require_kernel("random_kernel_cpu", dtype)
        low, high, two_words = 0, _top(dtype) + 1, dtype in (np.int64, np.float64)
    else:
        low, high = _checked_integer_bounds(low, high, dtype)
        two_words = high - low >= 1 << 28  # keeps the bias of the modulo small
    generator, count = generator or default_generator, math.prod(shape)
    drawn = generator.double_words(count) if two_words else generator.words(count)
    if high - low < 1 << 64:
        drawn = drawn % drawn.dtype.type(high - low)
    else:
        low = 0  # all of int64: its 64 bits are the number
    values = drawn.astype(np.uint64) + np.uint64(low % (1 << 64))  # wraps around as int64 would
    return values.view(np.int64).astype(dtype).reshape(shape)


def permutation(n: int, dtype: npt.DTypeLike, generator: Generator | None = None) -> Array:
    """Draw an order of the numbers below ``n``, as ``torch.randperm``.

    >>> permutation(5, np.int64, manual_seed(0)).tolist()
    [4, 0, 1, 3, 2]
    """
    (n,), dtype = _dims(n), np.dtype(dtype)
    most, name = _top(dtype) + 1, _SPELLING[dtype.name][1]
    fits = dtype.kind not in FLOATS or n <= most
    require(fits, f"n cannot be greater than {most} for {name} type.")
    _require_kernel("randperm", dtype, but_not="b")
    require(n <= most, f"value cannot be converted to type {dtype.name}_t without overflow")
    if n >= ((1 << 32) - 1) // 20:
        raise NotImplementedError(f"permutation of {n} numbers: PyTorch shuffles as many otherwise")
    # Element i is swapped with one of the elements from i on. Each swap needs the outcome of those
    # before it; only the words come in bulk.
    count = max(n - 1, 0)
    drawn = (generator or default_generator).words(count)
    partners = np.arange(count) + drawn % np.arange(n, n - count, -1, dtype=np.uint32)
    return _swapped(partners, n).astype(dtype)


def _swapped(partners: Array, n: int) -> Array:
    """The numbers below ``n`` after each place in turn was swapped with its partner."""
    if n >= 5000:  # LAPACK swaps rows 20 times faster than a loop, but takes a while to load
        from scipy.linalg import lapack  # type: ignore[import-untyped]

        rows: Array = lapack.dlaswp(np.arange(float(n))[:, None], partners.astype(np.int32))
        return rows[:, 0]
    order = list(range(n))
    for place, partner in enumerate(partners.tolist()):
        order[place], order[partner] = order[partner], order[place]
    return np.array(order, np.int64)


def bernoulli(
    p: float | Array, shape: Shape, dtype: npt.DTypeLike, generator: Generator | None = None
) -> Array:
    """Draw 1 with probability ``p`` and 0 otherwise, as ``torch.bernoulli`` and ``bernoulli_``.

    An array ``p`` (broadcast to ``shape``) holds one probability per number.  It draws other
    numbers than a Python float of the same value, from which PyTorch always makes float64.

    >>> bernoulli(0.5, 6, np.float32, manual_seed(0)).tolist()
    [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    """
    shape, dtype = _dims(shape), np.dtype(dtype)
    if not isinstance(p, np.ndarray):
        require(0.0 <= p <= 1.0, f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    count = math.prod(shape)
    if count == 0:
        return np.empty(shape, dtype)
    generator = generator or default_generator
    if not isinstance(p, np.ndarray):
        _require_kernel("bernoulli_scalar_cpu_", dtype)
        return below(generator, count, p).astype(dtype).reshape(shape)
    _require_kernel("bernoulli_tensor_cpu_self_", dtype)
    _require_kernel("bernoulli_tensor_cpu_p_", p.dtype, but_not="biu")
    require(
        bool(((p >= 0) & (p <= 1)).all()),
        "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error "
        "message be improved?  If so, please report an enhancement request to PyTorch.)",
    )
    precision = np.float64 if p.dtype == np.float64 else np.float32
    drawn = unit_uniforms(generator, count, precision).reshape(shape)
    return (drawn < np.broadcast_to(p, shape)).astype(dtype)


def exponential(
    shape: Shape, dtype: npt.DTypeLike, generator: Generator | None = None, rate: float = 1.0
) -> Array:
    """Draw waiting times of mean ``1 / rate``, as ``Tensor.exponential_``.

    >>> exponential(2, np.float64, manual_seed(0)).tolist()
    [3.508326186707642, 1.2303847641796768]
    """
    shape, dtype = _dims(shape), np.dtype(dtype)
    require(rate > 0.0, f"exponential_ expects lambda > 0.0, but found lambda={rate:g}")
    count = math.prod(shape)
    require(
        count == 0 or dtype.kind in FLOATS,
        "Exponential distribution is a continuous probability distribution. dtype must be "
        f"a floating point but you specified {_SPELLING[dtype.name][1]}",
    )
    fractions = unit_uniforms(generator or default_generator, count, np.float64)

    def finish(logs: Array) -> Array:
        return narrowed(-1.0 / rate * logs, dtype)

    return as_c_library(np.log1p, math.log1p, -fractions, finish).reshape(shape)


def cauchy(
    shape: Shape, dtype: npt.DTypeLike, generator: Generator | None = None,
    median: float = 0.0, sigma: float = 1.0,
) -> Array:  # fmt: skip
    """Draw numbers of Cauchy's distribution, as ``Tensor.cauchy_``."""
    shape, dtype = _dims(shape), np.dtype(dtype)
    require(sigma > 0.0, f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    require(
        dtype.kind in FLOATS,
        "Cauchy distribution is a continuous probability distribution. dtype must be a floating "
        f"point but you specified {_SPELLING[dtype.name][0]}",
    )
    fractions = unit_uniforms(generator or default_generator, math.prod(shape), np.float64)

    def finish(tangents: Array) -> Array:
        return narrowed(scale_and_shift(tangents, sigma, median), dtype)

    return as_c_library(np.tan, math.tan, math.pi * (fractions - 0.5), finish).reshape(shape)


def log_normal(
    shape: Shape, dtype: npt.DTypeLike, generator: Generator | None = None,
    mean: float = 1.0, std: float = 2.0,
) -> Array:  # fmt: skip
    """Draw numbers whose logarithms are normal, as ``Tensor.log_normal_``."""
    shape, dtype = _dims(shape), np.dtype(dtype)
    require(std > 0.0, f"log_normal_ expects std > 0.0, but found std={std:g}")
    count = math.prod(shape)
    if count:
        _require_kernel("log_normal_cpu", dtype, but_not="biu")
    normals = normals_in_pairs(generator or default_generator, count)
    logs = scale_and_shift(normals, std, mean)
    return as_c_library(np.exp, _exp, logs, lambda x: narrowed(x, dtype)).reshape(shape)


def _exp(x: float) -> float:
    return math.exp(x) if x < 709.0 else float(np.exp(x))  # infinite, not an OverflowError


def geometric(
    shape: Shape, dtype: npt.DTypeLike, generator: Generator | None = None, p: float = 0.5
) -> Array:
    """Draw how many trials it takes to the first success, as ``Tensor.geometric_``."""
    shape, dtype = _dims(shape), np.dtype(dtype)
    require(0.0 < p < 1.0, f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    count = math.prod(shape)
    if count:
        _require_kernel("geometric_cpu", dtype, but_not="b")
    fractions = unit_uniforms(generator or default_generator, count, np.float64)
    fractions[fractions == 0.0] = np.finfo(np.float64).tiny  # no number of trials is infinite

    def finish(logs: Array) -> Array:
        return narrowed(np.ceil(logs / math.log1p(-p)), dtype)

    return as_c_library(np.log, math.log, fractions, finish).reshape(shape)


def in_memory_order(like: Array, draw: Callable[[tuple[int, ...]], Array]) -> Array:
    """What ``draw`` gives for the shape of ``like``, drawn in the order of its memory."""
    if not isinstance(like, np.ndarray) or like.flags.c_contiguous:
        return draw(like.shape)
    order = memory_order(like)
    return draw(tuple(like.shape[d] for d in order)).transpose(np.argsort(order))


def memory_order(like: Array) -> list[int]:
    """The dimensions of an array, the one with the longest stride first."""
    return sorted(range(like.ndim), key=lambda d: -abs(like.strides[d]))


# ---- checks -------------------------------------------------------------------------------------


def _require_kernel(kernel: str, dtype: np.dtype[Any], but_not: str = "") -> None:
    """The kernels take bool, uint8 and the signed and floating dtypes, less the kinds named."""
    wide_unsigned = dtype.kind == "u" and dtype != np.uint8
    if dtype.kind in "c" + but_not or wide_unsigned:
        name = _SPELLING[dtype.name][1]
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{name}'")


def _dims(shape: Shape) -> tuple[int, ...]:
    dims = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    least = min(dims, default=0)
    require(least >= 0, f"Trying to create tensor with negative dimension {least}: {list(dims)}")
    return dims


def _part_of(complex_dtype: np.dtype[Any]) -> Precision:
    return np.float32 if complex_dtype == np.complex64 else np.float64


def _top(dtype: np.dtype[Any]) -> int:
    """The largest whole number up to which the dtype holds every one."""
    if dtype.kind in INEXACT:
        return 1 << int(float_limits(dtype).nmant + 1)
    return 1 if dtype.kind == "b" else int(np.iinfo(dtype).max)


def _check_uniform_bounds(low: float, high: float, dtype: np.dtype[Any]) -> None:
    _require_kernel("check_uniform_bounds", dtype, but_not="biu")
    (c_name, name), largest = _SPELLING[dtype.name], float(float_limits(dtype).max)
    require(abs(low) <= largest, f"from is out of bounds for {c_name}")
    require(abs(high) <= largest, f"to is out of bounds for {c_name}")
    require(
        low <= high,
        f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}",
    )
    require(
        high - low <= largest,
        f"uniform_ expects to-from <= std::numeric_limits<{name}>::max(), but found "
        f"to={high:g} and from={low:g} which result in to-from to exceed the limit",
    )


def _checked_integer_bounds(low: int, high: int, dtype: np.dtype[Any]) -> tuple[int, int]:
    """The bounds to draw between: a floating-point dtype may have to move them inwards."""
    low, high = operator.index(low), operator.index(high)  # NumPy's would overflow
    require(
        low < high, f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
    )
    require(
        dtype.kind != "c",
        "check_random_bounds handles only integral, floating-point and boolean types",
    )
    if dtype.kind in FLOATS:
        low, high = _moved_inwards(low, 1, dtype), _moved_inwards(high, -1, dtype)
        require(
            low < high,
            "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, "
            f"but got from={low} >= to={high}",
        )
        largest = int(float(float_limits(dtype).max))
    else:
        largest = min(_top(dtype), (1 << 63) - 1)
    smallest = {"f": -largest, "V": -largest, "i": -largest - 1}.get(dtype.kind, 0)
    c_name = _SPELLING[dtype.name][0]
    for bound, label in ((low, "from"), (high - 1, "to - 1")):
        require(smallest <= bound <= largest, f"{label} is out of bounds for {c_name}")
    return low, high


def _moved_inwards(bound: int, direction: int, dtype: np.dtype[Any]) -> int:
    """The bound, or the next number of the dtype where rounding would carry others past it."""
    inside = bound + direction
    with np.errstate(over="ignore"):
        rounded = float(dtype.type(inside))
    if not -(2.0**63) <= rounded < 2.0**63:
        return bound
    past = rounded < bound if direction > 0 else rounded >= bound
    spacing_bits = abs(inside).bit_length() - float_limits(dtype).nmant - 1
    return int(rounded) + direction * (1 << spacing_bits) if past else bound
