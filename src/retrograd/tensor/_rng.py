"""The random generator, with states as tensors."""

from __future__ import annotations

from retrograd.arrays._random import Generator, default_generator, initial_seed, manual_seed, seed
from retrograd.autograd._wrap import wrap
from retrograd.tensor._tensor import Tensor


def get_rng_state() -> Tensor:
    """The state of the default generator, to be given back to ``set_rng_state``."""
    state: Tensor = wrap(default_generator.get_state())
    return state


def set_rng_state(new_state: Tensor) -> None:
    """Continue the default generator from a state taken earlier."""
    default_generator.set_state(new_state._data)


__all__ = ["Generator", "default_generator", "get_rng_state", "initial_seed", "manual_seed", "seed",
           "set_rng_state"]  # fmt: skip
