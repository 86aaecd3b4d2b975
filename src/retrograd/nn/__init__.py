"""Neural networks: modules, layers, losses, parameters and their initialization."""

from typing import TYPE_CHECKING

from retrograd._later import later as _later
from retrograd.nn import (
    activations,
    attention,
    classification_losses,
    containers,
    convolution,
    dropout,
    embedding,
    functional,
    init,
    linear,
    losses,
    normalization,
    padding,
    parameter,
    pooling,
    recurrent,
    recurrent_cells,
    shapes,
    softmax,
    transformer,
)
from retrograd.nn.activations import *
from retrograd.nn.attention import *
from retrograd.nn.classification_losses import *
from retrograd.nn.containers import *
from retrograd.nn.convolution import *
from retrograd.nn.dropout import *
from retrograd.nn.embedding import *
from retrograd.nn.linear import *
from retrograd.nn.losses import *
from retrograd.nn.module import Module
from retrograd.nn.normalization import *
from retrograd.nn.padding import *
from retrograd.nn.parameter import *
from retrograd.nn.pooling import *
from retrograd.nn.recurrent import *
from retrograd.nn.recurrent_cells import *
from retrograd.nn.shapes import *
from retrograd.nn.softmax import *
from retrograd.nn.transformer import *
from retrograd.ops._sections import complete_all as _complete_all

# The form that type checkers understand.
__all__ = ["Module", "functional", "init"]
__all__ += activations.__all__
__all__ += attention.__all__
__all__ += classification_losses.__all__
__all__ += containers.__all__
__all__ += convolution.__all__
__all__ += dropout.__all__
__all__ += embedding.__all__
__all__ += linear.__all__
__all__ += losses.__all__
__all__ += normalization.__all__
__all__ += padding.__all__
__all__ += parameter.__all__
__all__ += pooling.__all__
__all__ += recurrent.__all__
__all__ += recurrent_cells.__all__
__all__ += shapes.__all__
__all__ += softmax.__all__
__all__ += transformer.__all__

_complete_all(globals(), {
    "size_average, reduce": "deprecated; use ``reduction``.",
    "reduction": '"mean", "sum", or "none" for a loss per element.',
    "inplace": "overwrite the input.",
    "bias": "whether there are biases.",
    "device": "must be the CPU.",
    "dtype": "dtype of the parameters.",
})  # fmt: skip

_ELSEWHERE = {
    "lazy": [
        "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d",
        "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d",
        "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d",
        "LazyLinear", "LazyModuleMixin", "UninitializedBuffer", "UninitializedParameter",
    ],
    "adaptive": ["AdaptiveLogSoftmaxWithLoss"],
    "fractional": ["FractionalMaxPool2d", "FractionalMaxPool3d"],
    "parallel.data_parallel": ["DataParallel"],
    "sync_batch_norm": ["SyncBatchNorm"],
}  # fmt: skip

if TYPE_CHECKING:
    from retrograd.nn import common_types as common_types
    from retrograd.nn import grad as grad
    from retrograd.nn import modules as modules
    from retrograd.nn import parallel as parallel
    from retrograd.nn import utils as utils
    from retrograd.nn.adaptive import AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss
    from retrograd.nn.fractional import FractionalMaxPool2d as FractionalMaxPool2d
    from retrograd.nn.fractional import FractionalMaxPool3d as FractionalMaxPool3d
    from retrograd.nn.lazy import *
    from retrograd.nn.parallel.data_parallel import DataParallel as DataParallel
    from retrograd.nn.sync_batch_norm import SyncBatchNorm as SyncBatchNorm
else:
    __getattr__, __dir__ = _later(
        __name__, ("common_types", "grad", "modules", "parallel", "utils"),
        {name: f"nn.{place}" for place, names in _ELSEWHERE.items() for name in names},
    )  # fmt: skip
