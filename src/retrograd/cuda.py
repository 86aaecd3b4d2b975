"""``torch.cuda``, as far as programs ask it whether there is a GPU: there is none.

>>> import retrograd as torch
>>> torch.device("cuda" if torch.cuda.is_available() else "cpu")
device(type='cpu')
"""

from __future__ import annotations


def is_available() -> bool:
    """Whether tensors can be on a GPU: no."""
    return False


def device_count() -> int:
    """How many GPUs there are to compute on: none."""
    return 0


def manual_seed(seed: int) -> None:
    """Seed the generator of the current GPU. There is none to seed."""


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all GPUs. There are none to seed."""


def empty_cache() -> None:
    """Give back what is kept of a GPU's memory. Nothing is kept."""


__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "manual_seed_all"]
