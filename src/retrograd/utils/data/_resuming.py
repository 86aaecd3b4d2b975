"""The position of a loader in an epoch, so that another can continue there.

The order of samples follows from the states that the random generators had when the epoch began.
So a position is those states and the number of batches taken: to go on, the generators are put
back, the sampler starts over, and what it gives for the batches already taken is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from retrograd.arrays._generator import Generator, default_generator

States = dict[str, Any]
_KEYS = {"batches", "finished", "base_seed", "length", "created", "started"}


def generators_of(loader: Any) -> dict[str, Generator]:
    """The generators that decide on the order, by the place they are held in."""
    batch_sampler = loader.batch_sampler
    holders = {"loader": loader, "sampler": loader.sampler, "batch_sampler": batch_sampler,
               "batched_sampler": getattr(batch_sampler, "sampler", None)}  # fmt: skip
    result: dict[str, Generator] = {"default": default_generator}
    for name, holder in holders.items():
        generator = getattr(holder, "generator", None)
        if isinstance(generator, Generator) and all(generator is not g for g in result.values()):
            result[name] = generator
    return result


def states_of(generators: dict[str, Generator]) -> States:
    return {name: generator.get_state() for name, generator in generators.items()}


def put_back(generators: dict[str, Generator], states: States) -> None:
    for name, state in states.items():
        generators[name].set_state(state)


class Progress:
    """How far one epoch has come."""

    def __init__(self, loader: Any) -> None:
        self.generators = generators_of(loader)
        self.created = states_of(self.generators)
        self.started: States | None = None
        self.base_seed: int | None = None
        self.batches = 0
        self.finished = False

    def noted(self, indices: Iterator[Any]) -> Iterator[Any]:
        """Iterate over the sampler, and note the generator states before it draws."""
        self.started = states_of(self.generators)
        yield from indices

    def state_dict(self, length: int | None, persistent: bool) -> dict[str, Any]:
        """The position of the loader, as numbers and tensors."""
        running = not self.finished
        started = self.started if running else None
        if started is None:
            # Nothing drawn yet, or all: the generators go on from where they are. That of
            # everybody is not this loader's to set.
            started = states_of(self.generators)
            del started["default"]
        return {
            "batches": self.batches if running else 0,
            "finished": self.finished,
            "base_seed": self.base_seed if running or persistent else None,
            "length": length,
            "created": dict(self.created) if running else {},
            "started": started,
        }


def check_state(state: Any, length: int | None, generators: dict[str, Generator]) -> None:
    """Raise an error unless the state is a position of this loader."""
    if not isinstance(state, dict) or set(state) != _KEYS:
        raise ValueError(
            "load_state_dict expects what state_dict() of a DataLoader returned: a dict of "
            f"{', '.join(sorted(_KEYS))}"
        )
    if state["length"] != length:
        raise ValueError(
            f"the state was saved by a DataLoader of {state['length']} batches an epoch, but this "
            f"one has {length}. Make it with the same dataset, batch size and drop_last."
        )
    missing = sorted({*state["created"], *state["started"]} - set(generators))
    if missing:
        raise ValueError(
            f"the state has that of a generator of the {missing[0]}, but this DataLoader has none "
            "there. Make it with a generator in the same place."
        )
