"""The random generator, with states as tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from retrograd.arrays import _generator
from retrograd.arrays._generator import initial_seed, manual_seed, seed
from retrograd.autograd._wrap import wrap
from retrograd.tensor._tensor import Tensor, device


class Generator(_generator.Generator):
    """A stream of random numbers with a seed: number for number that of PyTorch's CPU generator.

    >>> import retrograd as torch
    >>> torch.rand(2, generator=torch.Generator().manual_seed(0))
    tensor([0.4963, 0.7682])
    """

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__(device)
        self.device = _CPU

    def get_state(self) -> Tensor:
        """Where the stream stands, to be given back to ``set_state``, here or in PyTorch."""
        state: Tensor = wrap(self.saved())
        return state

    def set_state(self, new_state: Any) -> Generator:
        """Continue from a state taken earlier."""
        self.restore(new_state._data if isinstance(new_state, Tensor) else new_state)
        return self

    def __repr__(self) -> str:
        return f"<torch._C.Generator object at {id(self):#x}>"


_CPU = device("cpu")
# There is one default generator, made before there were tensors to hold its states.
default_generator = _generator.default_generator
default_generator.__class__ = Generator
default_generator.device = _CPU


def get_rng_state() -> Tensor:
    """The state of the default generator, to be given back to ``set_rng_state``."""
    return default_generator.get_state()  # type: ignore[no-any-return]


def set_rng_state(new_state: Any) -> None:
    """Continue the default generator from a state taken earlier."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices: Any = None, enabled: bool = True, _caller: str = "fork_rng",
    _devices_kw: str = "devices", device_type: str = "cpu",
) -> Iterator[None]:  # fmt: skip
    """Random numbers drawn inside leave the default generator, outside, as it was.

    >>> import retrograd as torch
    >>> before = torch.get_rng_state()
    >>> with torch.random.fork_rng():
    ...     x = torch.rand(3)
    >>> torch.equal(before, torch.get_rng_state())
    True
    """
    if not enabled:
        yield
        return
    state = default_generator.saved()
    try:
        yield
    finally:
        default_generator.restore(state)


__all__ = ["Generator", "default_generator", "fork_rng", "get_rng_state", "initial_seed",
           "manual_seed", "seed", "set_rng_state"]  # fmt: skip
