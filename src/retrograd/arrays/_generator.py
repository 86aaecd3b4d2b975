"""The random number generator: PyTorch's Mersenne Twister on the CPU.

NumPy's legacy ``RandomState`` runs the same generator (mt19937) from the same integer seed. A lock
makes each draw atomic, so threads that share a generator split its stream and never repeat a part
of it.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_SEED_OF_A_NEW_GENERATOR = 67280421310721

# PyTorch's byte layout of a CPU generator's state, so that saved states pass between the two.
# The twister's words sit in 64-bit slots.  "left" is one more than the words left of the present
# block of 624, "used" counts those gone, and what is called unused keeps its place only.
_STATE = np.dtype("<u8, <i4, <i4, <u8, (624,)<u8, <f8, <f8, <f8, <i4, <f4, ?", align=True)
_STATE.names = (
    *("seed", "left", "seeded", "used", "words", "unused_x", "next_normal", "unused_rho"),
    *("has_next_normal", "unused_float_normal", "unused_has_float_normal"),
)

# What a generator's stream consists of.
_STREAM = ("_bits", "_twister", "_seed", "_untouched", "next_normal")


def require(condition: bool, message: str) -> None:
    if not condition:
        raise RuntimeError(message)


class Generator:
    """A stream of random numbers with a seed, as ``torch.Generator`` on the CPU.

    >>> generator = Generator().manual_seed(0)
    >>> generator.initial_seed()
    0
    >>> generator.words(2).tolist()
    [2357136044, 2546248239]
    """

    def __init__(self, device: object = "cpu") -> None:
        kind = "cpu" if device is None else str(device).partition(":")[0]
        require(kind == "cpu", f"Device type {kind} is not supported for torch.Generator() api.")
        self.device: Any = "cpu" if device is None else device
        self.lock = threading.RLock()
        self.next_normal: float | None = None  # the second value of a pair, not yet handed out
        self._bits = np.random.MT19937(0)
        self._twister = np.random.RandomState(self._bits)
        self._seed = 0
        self._untouched = True  # since it was seeded; only the bytes of the state tell
        self.manual_seed(_SEED_OF_A_NEW_GENERATOR)

    def manual_seed(self, seed: int) -> Self:
        """Start the stream that belongs to ``seed``; a negative one counts from ``2**64`` down."""
        is_int = isinstance(seed, int) and not isinstance(seed, bool)
        require(is_int, f"manual_seed expected a long, but got {type(seed).__name__}")
        if not -(1 << 63) <= seed < 1 << 64:
            raise ValueError("Overflow when unpacking long long")
        with self.lock:
            self._seed = seed % (1 << 64)
            self._twister.seed(seed % (1 << 32))  # the twister itself takes 32 bits only
            self._untouched = True
            self.next_normal = None
        return self

    def seed(self) -> int:
        """Seed from the operating system's entropy and return the seed, a number of 53 bits."""
        fresh = int.from_bytes(os.urandom(8), "little") % (1 << 53)
        self.manual_seed(fresh)
        return fresh

    def initial_seed(self) -> int:
        """Return the seed the present stream started from, as an unsigned 64-bit number."""
        return self._seed

    def get_state(self) -> Any:
        """Return where the stream stands: 5056 bytes, PyTorch's own layout."""
        return self.saved()

    def saved(self) -> npt.NDArray[np.uint8]:
        """The state as an array, independent of the format of ``get_state``."""
        with self.lock:
            _, words, used, *_ = self._twister.get_state(legacy=True)
            state = np.zeros((), _STATE)
            state["seed"], state["seeded"], state["words"] = self._seed, 1, words
            state["left"] = 625 - int(used)
            state["used"] = 0 if self._untouched else used
            if self.next_normal is not None:
                state["next_normal"], state["has_next_normal"] = self.next_normal, 1
        return np.frombuffer(state.tobytes(), np.uint8).copy()

    def set_state(self, new_state: Any) -> Generator:
        """Continue from a state that ``get_state`` returned, here or in PyTorch."""
        return self.restore(new_state)

    def restore(self, new_state: npt.NDArray[np.uint8]) -> Generator:
        """Continue from a state that ``saved`` returned."""
        if not isinstance(new_state, np.ndarray):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        if new_state.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        require(
            new_state.size == _STATE.itemsize,
            f"Expected a CPUGeneratorImplState of size {_STATE.itemsize} "
            f"but found the input RNG state size to be {new_state.size}",
        )
        state = np.frombuffer(new_state.tobytes(), _STATE)[0]
        valid = state["seeded"] != 0 and 0 < state["left"] <= 624 and state["used"] <= 624
        require(valid, "Invalid mt19937 state")
        with self.lock:
            words, used = state["words"].astype(np.uint32), 625 - int(state["left"])
            self._twister.set_state(("MT19937", words, used, 0, 0.0))
            self._seed = int(state["seed"])
            self._untouched = int(state["used"]) != used
            self.next_normal = float(state["next_normal"]) if state["has_next_normal"] else None
        return self

    def clone_state(self) -> Generator:
        """Return a new generator that will go on as this one would."""
        return type(self)(self.device).restore(self.saved())

    def exchange(self, other: Generator) -> None:
        """Let two generators take over each other's stream, where each stands. Nothing is copied,
        so it is quick enough to be done for every layer of a model.

        >>> a, b = Generator().manual_seed(0), Generator().manual_seed(1)
        >>> a.exchange(b)
        >>> a.initial_seed(), b.words(1).tolist()
        (1, [2357136044])
        """
        with self.lock, other.lock:
            for name in _STREAM:
                own = getattr(self, name)
                setattr(self, name, getattr(other, name))
                setattr(other, name, own)

    def words(self, count: int) -> npt.NDArray[np.uint32]:
        """Draw the next ``count`` words of the twister."""
        with self.lock:
            self._untouched = self._untouched and count == 0
            if count < 4096:  # where it is the faster of two ways
                return self._bits.random_raw(count).astype(np.uint32)
            return self._twister.randint(0, 1 << 32, count, dtype=np.uint32)

    def double_words(self, count: int) -> npt.NDArray[np.uint64]:
        """Draw ``count`` 64-bit words: of two words in a row the first is the high half."""
        return self.words(2 * count).astype(">u4").view(">u8").astype(np.uint64)

    def __reduce__(self) -> tuple[type[Generator], tuple[object], Array]:
        return type(self), (self.device,), self.saved()

    def __setstate__(self, state: npt.NDArray[np.uint8]) -> None:
        self.restore(state)


default_generator = Generator()
default_generator.seed()


def manual_seed(seed: int) -> Generator:
    """Seeds the default generator, which all random functions use by default.

    The numbers are those of PyTorch's generator on the CPU.

    Args:
        seed: an integer.

    Returns:
        The default generator.

    Example:
        >>> generator = torch.manual_seed(0)
        >>> torch.rand(2)
        tensor([0.4963, 0.7682])
    """
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seed the default generator with a random number.

    Returns:
        The seed.

    Example:
        >>> torch.seed() == torch.initial_seed()
        True
    """
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator.

    Returns:
        The seed last given to ``manual_seed``, or a random one.

    Example:
        >>> generator = torch.manual_seed(7)
        >>> torch.initial_seed()
        7
    """
    return default_generator.initial_seed()


def get_rng_state() -> npt.NDArray[np.uint8]:
    """Return the state of the default generator as bytes.

    >>> get_rng_state().shape
    (5056,)
    """
    return default_generator.saved()


def set_rng_state(new_state: npt.NDArray[np.uint8]) -> None:
    """Put the default generator back into a state that ``get_rng_state`` returned.

    >>> state = get_rng_state()
    >>> first = default_generator.words(3)
    >>> set_rng_state(state)
    >>> bool((default_generator.words(3) == first).all())
    True
    """
    default_generator.restore(new_state)
