"""Checkpointing, which recomputes values in the backward pass, and loading of data."""

from typing import TYPE_CHECKING

from retrograd._later import later
from retrograd.utils import checkpoint

if TYPE_CHECKING:
    from retrograd.utils import data
else:
    __getattr__, __dir__ = later(
        __name__,
        ("benchmark", "data", "dlpack", "hooks", "model_zoo", "pytree", "tensorboard", "_pytree"),
        {"swap_tensors": "tensor._legacy"},
    )  # fmt: skip

__all__ = ["checkpoint", "data"]
