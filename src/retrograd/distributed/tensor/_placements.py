"""Placements: what the devices along one dimension of a mesh hold of a tensor."""

from __future__ import annotations

from dataclasses import dataclass


class Placement:
    """What the devices along one dimension of a mesh hold of a tensor."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether they hold parts, of a certain dimension if one is given.

        Args:
            dim: The dimension.
        """
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each holds all of it."""
        return isinstance(self, Replicate)

    def is_partial(self) -> bool:
        """Whether each holds a summand: False, as XLA adds up what it computes in parts."""
        return isinstance(self, Partial)


@dataclass(frozen=True)
class Shard(Placement):
    """Each device holds a part, of the same size.

    Args:
        dim: The dimension of the tensor that is split.
    """

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Each device holds all of it."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """Each device holds a summand. No tensor here is placed so: XLA adds them up by itself.

    Args:
        reduce_op: How they are combined.
    """

    reduce_op: str = "sum"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"
