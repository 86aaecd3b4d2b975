"""Placements: how a tensor is split or replicated along a dimension of a mesh."""

from __future__ import annotations

from dataclasses import dataclass


class Placement:
    """How a tensor is placed on the devices along one dimension of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether the tensor is split, along ``dim`` if given.

        Args:
            dim: The dimension.
        """
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each device holds the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self) -> bool:
        """Whether each device holds a partial sum: always False."""
        return isinstance(self, Partial)


@dataclass(frozen=True)
class Shard(Placement):
    """The tensor is split, and each device holds a part of the same size.

    Args:
        dim: The dimension of the tensor that is split.
    """

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Each device holds the whole tensor."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """Each device holds a partial sum. XLA adds these up itself, so no tensor has this placement.

    Args:
        reduce_op: How they are combined.
    """

    reduce_op: str = "sum"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"
