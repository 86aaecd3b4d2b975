"""Learning rate schedulers."""

from retrograd.ops._sections import complete_all as _complete_all
from retrograd.optim.lr_scheduler._base import LRScheduler
from retrograd.optim.lr_scheduler._combined import ChainedScheduler, SequentialLR
from retrograd.optim.lr_scheduler._cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from retrograd.optim.lr_scheduler._cyclic import CyclicLR, OneCycleLR
from retrograd.optim.lr_scheduler._factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from retrograd.optim.lr_scheduler._plateau import ReduceLROnPlateau

_LRScheduler = LRScheduler  # the name it had once

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR",
    "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip

_complete_all(globals(), {
    "optimizer": "the optimizer.",
    "last_epoch": "index of the last epoch when resuming; -1 to start.",
})  # fmt: skip
