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
exponential          float64 uniforms, whatever the result's dtype
permutation          one word per swap of a Fisher-Yates shuffle
===================  ==============================================================================

The kernels meant here are those PyTorch selects on x86 processors with AVX2, where a product and
the sum after it round once (a fused multiply-add).  float64 results also go through the C
library's log, log1p, sin and cos: Python's ``math`` calls the same ones, NumPy's vectorised log
and log1p may differ in the last bit.

Numbers fill an array in C order.  A generator's lock makes one draw one unit, so threads that
share a generator split its stream between them and never repeat a part of it.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from retrograd.arrays._sampling import (
    by_c_library,
    narrowed,
    normals_in_blocks,
    normals_in_pairs,
    scale_and_shift,
    unit_uniforms,
)

Array = npt.NDArray[Any]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Shape = int | Sequence[int]
Precision = type[np.float32 | np.float64]

_SEED_OF_A_NEW_GENERATOR = 67280421310721

# PyTorch's byte layout of a CPU generator's state, so that saved states pass between the two.
# The twister's words sit in 64-bit slots.  "left" is one more than the words left of the present
# block of 624, "used" counts those gone, and what is called unused keeps its place only.
_STATE = np.dtype("<u8, <i4, <i4, <u8, (624,)<u8, <f8, <f8, <f8, <i4, <f4, ?", align=True)
_STATE.names = (
    *("seed", "left", "seeded", "used", "words", "unused_x", "next_normal", "unused_rho"),
    *("has_next_normal", "unused_float_normal", "unused_has_float_normal"),
)

# How error messages spell a dtype: its C++ type, and PyTorch's name for it.
# fmt: off
_SPELLING = {
    "bool": ("bool", "Bool"), "uint8": ("unsigned char", "Byte"), "int8": ("signed char", "Char"),
    "int16": ("short int", "Short"), "int32": ("int", "Int"), "int64": ("long int", "Long"),
    "uint16": ("short unsigned int", "UInt16"), "uint32": ("unsigned int", "UInt32"),
    "uint64": ("long unsigned int", "UInt64"), "float16": ("c10::Half", "Half"),
    "float32": ("float", "Float"), "float64": ("double", "Double"),
    "complex64": ("c10::complex<float>", "ComplexFloat"),
    "complex128": ("c10::complex<double>", "ComplexDouble"),
}
# fmt: on


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise RuntimeError(message)


class Generator:
    """A stream of random numbers with a seed, as ``torch.Generator`` on the CPU.

    >>> generator = Generator().manual_seed(0)
    >>> generator.initial_seed()
    0
    >>> uniform(2, np.float32, generator).tolist()
    [0.49625658988952637, 0.7682217955589294]
    """

    def __init__(self, device: object = "cpu") -> None:
        kind = "cpu" if device is None else str(device).partition(":")[0]
        _require(kind == "cpu", f"Device type {kind} is not supported for torch.Generator() api.")
        self.device = "cpu" if device is None else device
        self.lock = threading.RLock()
        self.next_normal: float | None = None  # the second value of a pair, not yet handed out
        self._twister = np.random.RandomState(0)
        self._seed = 0
        self._untouched = True  # since it was seeded; only the bytes of the state tell
        self.manual_seed(_SEED_OF_A_NEW_GENERATOR)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream that belongs to ``seed``; a negative one counts from ``2**64`` down."""
        is_int = isinstance(seed, int) and not isinstance(seed, bool)
        _require(is_int, f"manual_seed expected a long, but got {type(seed).__name__}")
        if not -(1 << 63) <= seed < 1 << 64:
            raise ValueError("Overflow when unpacking long long")
        with self.lock:
            self._seed = seed % (1 << 64)
            self._twister.seed(seed % (1 << 32))  # the twister itself takes 32 bits only
            self._untouched = True
            self.next_normal = None
        return self

    def seed(self) -> int:
        """Start a stream nobody can predict and return its seed, a number of 53 bits."""
        fresh = int.from_bytes(os.urandom(8), "little") % (1 << 53)
        self.manual_seed(fresh)
        return fresh

    def initial_seed(self) -> int:
        """Return the seed the present stream started from, as an unsigned 64-bit number."""
        return self._seed

    def get_state(self) -> npt.NDArray[np.uint8]:
        """Return where the stream stands: 5056 bytes, PyTorch's own layout."""
        with self.lock:
            _, words, used, *_ = self._twister.get_state(legacy=True)
            state = np.zeros((), _STATE)
            state["seed"], state["seeded"], state["words"] = self._seed, 1, words
            state["left"] = 625 - int(used)
            state["used"] = 0 if self._untouched else used
            if self.next_normal is not None:
                state["next_normal"], state["has_next_normal"] = self.next_normal, 1
        return np.frombuffer(state.tobytes(), np.uint8).copy()

    def set_state(self, new_state: npt.NDArray[np.uint8]) -> Generator:
        """Continue from a state that ``get_state`` returned, here or in PyTorch."""
        if not isinstance(new_state, np.ndarray):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        if new_state.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        _require(
            new_state.size == _STATE.itemsize,
            f"Expected a CPUGeneratorImplState of size {_STATE.itemsize} "
            f"but found the input RNG state size to be {new_state.size}",
        )
        state = np.frombuffer(new_state.tobytes(), _STATE)[0]
        valid = state["seeded"] != 0 and 0 < state["left"] <= 624 and state["used"] <= 624
        _require(valid, "Invalid mt19937 state")
        with self.lock:
            words, used = state["words"].astype(np.uint32), 625 - int(state["left"])
            self._twister.set_state(("MT19937", words, used, 0, 0.0))
            self._seed = int(state["seed"])
            self._untouched = int(state["used"]) != used
            self.next_normal = float(state["next_normal"]) if state["has_next_normal"] else None
        return self

    def clone_state(self) -> Generator:
        """Return a new generator that will go on as this one would."""
        return Generator(self.device).set_state(self.get_state())

    def words(self, count: int) -> npt.NDArray[np.uint32]:
        """Draw the next ``count`` words of the twister."""
        with self.lock:
            self._untouched = self._untouched and count == 0
            return self._twister.randint(0, 1 << 32, count, dtype=np.uint32)

    def double_words(self, count: int) -> npt.NDArray[np.uint64]:
        """Draw ``count`` 64-bit words: of two words in a row the first is the high half."""
        return self.words(2 * count).astype(">u4").view(">u8").astype(np.uint64)

    def __reduce__(self) -> tuple[type[Generator], tuple[object], Array]:
        return Generator, (self.device,), self.get_state()

    def __setstate__(self, state: npt.NDArray[np.uint8]) -> None:
        self.set_state(state)


default_generator = Generator()
default_generator.seed()


def manual_seed(seed: int) -> Generator:
    """Seed the default generator and return it.

    >>> manual_seed(0) is default_generator
    True
    """
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seed the default generator unpredictably and return the seed.

    >>> seed() == initial_seed()
    True
    """
    return default_generator.seed()


def initial_seed() -> int:
    """Return the seed of the default generator.

    >>> manual_seed(-1).initial_seed() == initial_seed() == 2**64 - 1
    True
    """
    return default_generator.initial_seed()


def get_rng_state() -> npt.NDArray[np.uint8]:
    """Return the state of the default generator as bytes.

    >>> get_rng_state().shape
    (5056,)
    """
    return default_generator.get_state()


def set_rng_state(new_state: npt.NDArray[np.uint8]) -> None:
    """Put the default generator back into a state that ``get_rng_state`` returned.

    >>> state = get_rng_state()
    >>> first = uniform(3, np.float64)
    >>> set_rng_state(state)
    >>> bool((uniform(3, np.float64) == first).all())
    True
    """
    default_generator.set_state(new_state)


def uniform(
    shape: Shape,
    dtype: npt.DTypeLike,
    generator: Generator | None = None,
    low: float = 0.0,
    high: float = 1.0,
) -> Array:
    """Draw uniform numbers from ``[low, high)``, as ``torch.rand`` and ``Tensor.uniform_``.

    >>> uniform((1, 3), np.float32, manual_seed(0)).tolist()
    [[0.49625658988952637, 0.7682217955589294, 0.08847743272781372]]
    """
    shape, dtype = _dims(shape), np.dtype(dtype)
    if dtype.kind == "c":
        parts = uniform((*shape, 2), _part_of(dtype), generator, low, high)
        return parts.view(dtype).reshape(shape)
    _check_uniform_bounds(low, high, dtype)
    precision = np.float64 if dtype == np.float64 else np.float32
    fractions = unit_uniforms(generator or default_generator, math.prod(shape), precision)
    width = float(precision(high) - precision(low))
    values = scale_and_shift(fractions, width, low).astype(dtype)
    values[values == np.asarray(high, dtype)] = low  # rounding may reach the excluded bound
    return values.reshape(shape)


def normal(
    shape: Shape,
    dtype: npt.DTypeLike,
    generator: Generator | None = None,
    mean: float = 0.0,
    std: float = 1.0,
) -> Array:
    """Draw normal numbers, as ``torch.randn`` and ``Tensor.normal_``.

    Of a complex dtype, ``std`` is the deviation of the whole number, shared by its two parts.

    >>> normal(3, np.float32, manual_seed(0)).tolist()
    [1.5409960746765137, -0.293428897857666, -2.1787893772125244]
    """
    shape, dtype = _dims(shape), np.dtype(dtype)
    _require(std >= 0.0, f"normal expects std >= 0.0, but found std {std:g}")
    if dtype.kind == "c":
        parts = normal((*shape, 2), _part_of(dtype), generator, mean, std / math.sqrt(2.0))
        return parts.view(dtype).reshape(shape)
    count = math.prod(shape)
    if count == 0:
        return np.empty(shape, dtype)
    _require_kernel("normal_kernel_cpu", dtype, but_not="biu")
    generator = generator or default_generator
    if count >= 16:
        values = normals_in_blocks(generator, count, dtype, mean, std)
    else:
        values = narrowed(scale_and_shift(normals_in_pairs(generator, count), std, mean), dtype)
    return values.reshape(shape)


def integers(
    low: int | None,
    high: int | None,
    shape: Shape,
    dtype: npt.DTypeLike,
    generator: Generator | None = None,
) -> Array:
    """Draw whole numbers from ``[low, high)``, as ``torch.randint`` and ``Tensor.random_``.

    Without bounds, as ``Tensor.random_()``: from 0 to the largest number of the dtype, or the
    largest up to which a floating-point dtype holds every one.

    >>> integers(0, 10, 5, np.int64, manual_seed(0)).tolist()
    [4, 9, 3, 0, 3]
    """
    shape, dtype = _dims(shape), np.dtype(dtype)
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
    _require(dtype.kind != "f" or n <= most, f"n cannot be greater than {most} for {name} type.")
    _require_kernel("randperm", dtype, but_not="b")
    _require(n <= most, f"value cannot be converted to type {dtype.name}_t without overflow")
    if n >= ((1 << 32) - 1) // 20:
        raise NotImplementedError(f"permutation of {n} numbers: PyTorch shuffles as many otherwise")
    # Place i swaps with one of the places from i on.  Each swap needs the outcome of those before
    # it, hence the loop; only the words come in bulk.
    places = max(n - 1, 0)
    drawn = (generator or default_generator).words(places)
    partners = np.arange(places) + drawn % np.arange(n, n - places, -1, dtype=np.uint32)
    order = list(range(n))
    for place, partner in enumerate(partners.tolist()):
        order[place], order[partner] = order[partner], order[place]
    return np.array(order, dtype)


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
        _require(0.0 <= p <= 1.0, f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    count = math.prod(shape)
    if count == 0:
        return np.empty(shape, dtype)
    kernel = "tensor_cpu_self_" if isinstance(p, np.ndarray) else "scalar_cpu_"
    _require_kernel(f"bernoulli_{kernel}", dtype)
    chances = p if isinstance(p, np.ndarray) else np.float64(p)
    _require_kernel("bernoulli_tensor_cpu_p_", chances.dtype, but_not="biu")
    _require(
        bool(((chances >= 0) & (chances <= 1)).all()),
        "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error "
        "message be improved?  If so, please report an enhancement request to PyTorch.)",
    )
    precision = np.float64 if chances.dtype == np.float64 else np.float32
    drawn = unit_uniforms(generator or default_generator, count, precision).reshape(shape)
    return (drawn < np.broadcast_to(chances, shape)).astype(dtype)


def exponential(
    shape: Shape, dtype: npt.DTypeLike, generator: Generator | None = None, rate: float = 1.0
) -> Array:
    """Draw waiting times of mean ``1 / rate``, as ``Tensor.exponential_``.

    >>> exponential(2, np.float64, manual_seed(0)).tolist()
    [3.508326186707642, 1.2303847641796768]
    """
    shape, dtype = _dims(shape), np.dtype(dtype)
    _require(rate > 0.0, f"exponential_ expects lambda > 0.0, but found lambda={rate:g}")
    count = math.prod(shape)
    _require(
        count == 0 or dtype.kind == "f",
        "Exponential distribution is a continuous probability distribution. dtype must be "
        f"a floating point but you specified {_SPELLING[dtype.name][1]}",
    )
    fractions = unit_uniforms(generator or default_generator, count, np.float64)
    return narrowed(-1.0 / rate * by_c_library(math.log1p, -fractions), dtype).reshape(shape)


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
    _require(least >= 0, f"Trying to create tensor with negative dimension {least}: {list(dims)}")
    return dims


def _part_of(complex_dtype: np.dtype[Any]) -> Precision:
    return np.float32 if complex_dtype == np.complex64 else np.float64


def _top(dtype: np.dtype[Any]) -> int:
    """The largest whole number up to which the dtype holds every one."""
    if dtype.kind in "fc":
        return 1 << (np.finfo(dtype).nmant + 1)
    return 1 if dtype.kind == "b" else int(np.iinfo(dtype).max)


def _check_uniform_bounds(low: float, high: float, dtype: np.dtype[Any]) -> None:
    _require_kernel("check_uniform_bounds", dtype, but_not="biu")
    (c_name, name), largest = _SPELLING[dtype.name], float(np.finfo(dtype).max)
    _require(abs(low) <= largest, f"from is out of bounds for {c_name}")
    _require(abs(high) <= largest, f"to is out of bounds for {c_name}")
    _require(
        low <= high,
        f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}",
    )
    _require(
        high - low <= largest,
        f"uniform_ expects to-from <= std::numeric_limits<{name}>::max(), but found "
        f"to={high:g} and from={low:g} which result in to-from to exceed the limit",
    )


def _checked_integer_bounds(low: int, high: int, dtype: np.dtype[Any]) -> tuple[int, int]:
    """The bounds to draw between: a floating-point dtype may have to move them inwards."""
    _require(
        low < high, f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
    )
    _require(
        dtype.kind != "c",
        "check_random_bounds handles only integral, floating-point and boolean types",
    )
    if dtype.kind == "f":
        low, high = _moved_inwards(low, 1, dtype), _moved_inwards(high, -1, dtype)
        _require(
            low < high,
            "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, "
            f"but got from={low} >= to={high}",
        )
        largest = int(np.finfo(dtype).max)
    else:
        largest = min(_top(dtype), (1 << 63) - 1)
    smallest = {"f": -largest, "i": -largest - 1}.get(dtype.kind, 0)
    c_name = _SPELLING[dtype.name][0]
    for bound, label in ((low, "from"), (high - 1, "to - 1")):
        _require(smallest <= bound <= largest, f"{label} is out of bounds for {c_name}")
    return low, high


def _moved_inwards(bound: int, direction: int, dtype: np.dtype[Any]) -> int:
    """The bound, or the next number of the dtype where rounding would carry others past it."""
    inside = bound + direction
    with np.errstate(over="ignore"):
        rounded = float(dtype.type(inside))
    if not -(2.0**63) <= rounded < 2.0**63:
        return bound
    past = rounded < bound if direction > 0 else rounded >= bound
    spacing_bits = abs(inside).bit_length() - np.finfo(dtype).nmant - 1
    return int(rounded) + direction * (1 << spacing_bits) if past else bound
