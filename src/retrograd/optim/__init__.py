"""Optimizers: what changes parameters, given their gradients."""

from retrograd.optim import lr_scheduler, swa_utils
from retrograd.optim.adafactor_muon import Adafactor, Muon
from retrograd.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from retrograd.optim.adaptive import Adadelta, Adagrad, RMSprop, Rprop
from retrograd.optim.lbfgs import LBFGS
from retrograd.optim.optimizer import Optimizer
from retrograd.optim.sgd import ASGD, SGD

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon",
    "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop", "lr_scheduler", "swa_utils",
]  # fmt: skip
