"""Layers that leave out a random part of their input in training."""

from __future__ import annotations

from typing import Any

from retrograd.nn._options import WithOptions


class _Dropout(WithOptions):
    shown = ("p", "inplace")

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__(p=p, inplace=inplace)
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")

    def forward(self, input: Any) -> Any:
        return self._function(input, self.p, self.training, self.inplace)


class Dropout(_Dropout):
    """Zero for each number with probability ``p``; what is left is scaled up.

    >>> import retrograd as torch
    >>> torch.nn.Dropout(0.5).eval()(torch.ones(3))
    tensor([1., 1., 1.])
    """

    function = "dropout"


class Dropout1d(_Dropout):
    """Whole channels of sequences at once."""

    function = "dropout1d"


class Dropout2d(_Dropout):
    """Whole channels of images at once."""

    function = "dropout2d"


class Dropout3d(_Dropout):
    """Whole channels of volumes at once."""

    function = "dropout3d"


class AlphaDropout(_Dropout):
    """Dropout that keeps mean and variance, for networks of SELU."""

    function = "alpha_dropout"


class FeatureAlphaDropout(_Dropout):
    """``AlphaDropout`` of whole channels."""

    function = "feature_alpha_dropout"


__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]
