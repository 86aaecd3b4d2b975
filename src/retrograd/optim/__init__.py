"""Optimizers, which update parameters from their gradients."""

from retrograd.ops._sections import complete_all as _complete_all
from retrograd.optim import lr_scheduler, swa_utils
from retrograd.optim.adafactor_muon import Adafactor, Muon
from retrograd.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from retrograd.optim.adaptive import Adadelta, Adagrad, RMSprop, Rprop
from retrograd.optim.lbfgs import LBFGS
from retrograd.optim.optimizer import Optimizer
from retrograd.optim.sgd import ASGD, SGD
from retrograd.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon",
    "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop", "SparseAdam", "lr_scheduler",
    "swa_utils",
]  # fmt: skip

_complete_all(globals(), {
    "params": "the parameters, or groups of them: dictionaries with ``params`` and options.",
    "lr": "learning rate.",
    "betas": "decay rates of the averages of the gradient and of its square.",
    "eps": "added to the denominator.",
    "weight_decay": "this times the parameter is added to the gradient.",
    "decoupled_weight_decay": "shrink parameters separately, as ``AdamW``.",
    "maximize": "ascend, rather than descend.",
    "foreach, fused": "no effect.",
    "capturable, differentiable": "not supported.",
})  # fmt: skip
