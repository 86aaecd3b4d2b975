"""What is made of the calls of ``distributed``."""

from retrograd.distributed.algorithms.join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
