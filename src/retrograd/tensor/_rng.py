"""The random generator, with states as tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from retrograd.arrays import _generator
from retrograd.arrays._generator import initial_seed, manual_seed, seed
from retrograd.autograd._wrap import Plug, wrap
from retrograd.tensor import _device
from retrograd.tensor._tensor import Tensor


class Generator(_generator.Generator):
    """A generator of random numbers, with the same sequence as PyTorch's CPU generator.

    Args:
        device: The device of the tensors that it is for. The CPU draws the numbers for all
            devices, so a seed gives the same numbers on each.

    Example:
        >>> torch.rand(2, generator=torch.Generator().manual_seed(0))
        tensor([0.4963, 0.7682])
    """

    __module__ = "retrograd"

    def __init__(self, device: Any = "cpu") -> None:
        target = _CPU if device is None else _device.device(device)
        if target.type not in _device.COMPUTES:
            super().__init__(target)
            self.device = _CPU
            return
        super().__init__()
        devices = Plug.devices()
        devices.device_of(target.type, target.index)  # RuntimeError if it is not there
        index = devices.current(target.type) if target.index is None else target.index
        self.device = _device.device(target.type, index)

    def get_state(self) -> Tensor:
        """Returns the state of the generator, which ``set_state`` accepts, here and in PyTorch.

        Returns:
            The state as a tensor of bytes.
        """
        state: Tensor = wrap(self.saved())
        return state

    def set_state(self, new_state: Any) -> Generator:
        """Sets the state of the generator.

        Args:
            new_state: A state that ``get_state`` returned.

        Returns:
            The generator itself.
        """
        self.restore(new_state._data if isinstance(new_state, Tensor) else new_state)
        return self

    def __repr__(self) -> str:
        return f"<torch._C.Generator object at {id(self):#x}>"


_CPU = _device.CPU
# There is one default generator, made before there were tensors to hold its states.
default_generator: Generator = _generator.default_generator  # type: ignore[assignment]
default_generator.__class__ = Generator
default_generator.device = _CPU


def get_rng_state() -> Tensor:
    """The state of the default generator.

    Returns:
        The state, a tensor of bytes that ``set_rng_state`` takes.

    Example:
        >>> state = torch.get_rng_state()
        >>> x = torch.rand(1)
        >>> torch.set_rng_state(state)
        >>> bool(torch.rand(1) == x)
        True
    """
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Continue the default generator from an earlier state.

    Args:
        new_state: a state from ``get_rng_state``, here or in PyTorch.

    Example:
        >>> torch.set_rng_state(torch.Generator().manual_seed(0).get_state())
        >>> torch.rand(2)
        tensor([0.4963, 0.7682])
    """
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices: Any = None, enabled: bool = True, _caller: str = "fork_rng",
    _devices_kw: str = "devices", device_type: str = "cpu",
) -> Iterator[None]:  # fmt: skip
    """A context manager that restores the state of the default generator at its end.

    Args:
        devices: ignored; there is one device.
        enabled: False to do nothing.
        device_type: ignored.

    Example:
        >>> generator = torch.manual_seed(0)
        >>> with torch.random.fork_rng():
        ...     inside = torch.rand(1)
        >>> bool(torch.rand(1) == inside)
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
