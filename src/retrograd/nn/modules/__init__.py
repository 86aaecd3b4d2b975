"""``torch.nn.modules``: PyTorch's location of modules, for compatibility.

Its files are here by name: ``nn.modules.conv`` gives all names of ``nn``, and the base classes that
PyTorch has there.
"""

import copy
from typing import Any

from retrograd import nn
from retrograd._later import MissingNameError, virtual
from retrograd.nn import *
from retrograd.nn import __all__ as __all__
from retrograd.nn import (
    _loss,
    _state,
    convolution,
    dropout,
    normalization,
    padding,
    pooling,
    transformer,
)
from retrograd.nn.modules import module as module


class NonDynamicallyQuantizableLinear(nn.Linear):
    """``Linear`` by the name that PyTorch's attention gives its last layer."""


def _get_clones(module: Any, N: int) -> Any:  # noqa: N803
    """A list of copies of a module.

    Args:
        module: The module.
        N: The number of copies.
    """
    return nn.ModuleList(copy.deepcopy(module) for _ in range(N))


# The base classes and helpers of PyTorch's files, which are called otherwise here.
_OTHERWISE: dict[str, dict[str, Any]] = {
    "loss": {"_Loss": _loss.Loss, "_WeightedLoss": _loss.WeightedLoss},
    "conv": {"_ConvNd": convolution._Convolution, "_ConvTransposeNd": convolution._Transposed},
    "batchnorm": {"_BatchNorm": normalization.BatchNorm,
                  "_NormBase": normalization._WithStatistics},
    "instancenorm": {"_InstanceNorm": normalization._InstanceNorm},
    "dropout": {"_DropoutNd": dropout._Dropout},
    "pooling": {"_MaxPoolNd": pooling._MaxPool, "_MaxUnpoolNd": pooling._MaxUnpool,
                "_AvgPoolNd": pooling._AvgPool, "_LPPoolNd": pooling._LPPool,
                "_AdaptiveMaxPoolNd": pooling._AdaptiveMaxPool,
                "_AdaptiveAvgPoolNd": pooling._AdaptiveAvgPool},
    "padding": {"_ConstantPadNd": padding._Constant},
    "activation": {}, "adaptive": {}, "channelshuffle": {}, "container": {}, "distance": {},
    "flatten": {}, "fold": {}, "lazy": {},
    "linear": {"NonDynamicallyQuantizableLinear": NonDynamicallyQuantizableLinear},
    "normalization": {}, "pixelshuffle": {}, "rnn": {}, "sparse": {},
    "transformer": {**vars(transformer), "_get_clones": _get_clones}, "upsampling": {}, "utils": {},
}  # fmt: skip
module._IncompatibleKeys = _state.IncompatibleKeys  # type: ignore[attr-defined]


def _ntuple(n: int) -> Any:
    """A function that makes ``n`` numbers of one, or takes a sequence as it is."""
    return lambda x: convolution.sizes(x, n)


_OTHERWISE["utils"] = {
    "_ntuple": _ntuple, "_single": _ntuple(1), "_pair": _ntuple(2), "_triple": _ntuple(3),
    "_quadruple": _ntuple(4),
    "_reverse_repeat_tuple": lambda t, n: tuple(x for x in reversed(t) for _ in range(n)),
    "consume_prefix_in_state_dict_if_present": _state.consume_prefix,
}  # fmt: skip


def _file(name: str, own: dict[str, Any]) -> Any:
    """A module with the names of one of PyTorch's files, and all of ``nn`` besides."""

    def __getattr__(wanted: str) -> Any:  # noqa: N807 - what Python calls it
        if wanted.startswith("__") or not hasattr(nn, wanted):
            raise MissingNameError(wanted, f"{__name__}.{name}")
        return getattr(nn, wanted)

    members = {n: x for n, x in own.items() if not n.startswith("__")}
    return virtual(
        f"{__name__}.{name}", f"Where PyTorch keeps a part of ``torch.nn``: {name}.",
        {**members, "__getattr__": __getattr__, "F": nn.functional},
    )  # fmt: skip


for _name, _own in _OTHERWISE.items():
    globals()[_name] = _file(_name, _own)
_BatchNorm = _OTHERWISE["batchnorm"]["_BatchNorm"]
