"""Utilities for modules: gradient clipping, parameters as a vector, parametrizations, sequences."""

from typing import TYPE_CHECKING

from retrograd._later import later as _later
from retrograd.nn.utils import (
    clip_grad,
    convert_parameters,
    fusion,
    parametrizations,
    parametrize,
    rnn,
)
from retrograd.nn.utils.clip_grad import *
from retrograd.nn.utils.convert_parameters import *
from retrograd.nn.utils.fusion import *
from retrograd.nn.utils.init import skip_init
from retrograd.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from retrograd.nn.utils.weight_norm import remove_weight_norm, weight_norm
from retrograd.ops._sections import complete_all as _complete_all

if not TYPE_CHECKING:
    __getattr__, __dir__ = _later(__name__, ("prune", "stateless"))

__all__ = [
    "parametrizations", "parametrize", "remove_spectral_norm", "remove_weight_norm", "rnn",
    "skip_init", "spectral_norm", "weight_norm",
]  # fmt: skip
__all__ += clip_grad.__all__
__all__ += convert_parameters.__all__
__all__ += fusion.__all__

for _scope in (globals(), vars(parametrizations)):
    _complete_all(_scope, {
        "module": "the module, which is modified.",
        "name": "name of the weight.",
        "norm_type": "order of the norm; may be infinity.",
        "error_if_nonfinite": "raise an error if the norm is infinite or NaN.",
        "foreach": "no effect.",
    }, results={"module": "The module."})  # fmt: skip
