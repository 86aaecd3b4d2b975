"""Dropout: layers that zero a random part of their input in training."""

from __future__ import annotations

from retrograd.nn._options import WithOptions
from retrograd.ops._sections import sections
from retrograd.tensor._tensor import Tensor

_CHANNELS = """\
In training, each channel of each sample is zeroed as a whole with probability ``p``, and the others
are multiplied by ``1 / (1 - p)``. In evaluation mode the layer is the identity.

Args:
    p: probability that a channel is zeroed.
    inplace: overwrite the input.

Shape:
    Input and output: ``(N, C, {input})`` or ``(C, {input})``.
"""


class _Dropout(WithOptions):
    shown = ("p", "inplace")

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__(p=p, inplace=inplace)
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")

    def forward(self, input: Tensor) -> Tensor:
        result: Tensor = self._function(input, self.p, self.training, self.inplace)
        return result


class Dropout(_Dropout, function="dropout"):
    """Dropout of single elements.

    In training, each element is zeroed with probability ``p``, and the others are multiplied by
    ``1 / (1 - p)``, which preserves the mean. In evaluation mode the layer is the identity.

    Args:
        p: probability that an element is zeroed.

    Shape:
        Input and output: any shape.

    Example:
        >>> sorted(set(torch.nn.Dropout(0.5)(torch.ones(100)).tolist()))
        [0.0, 2.0]
        >>> torch.nn.Dropout(0.5).eval()(torch.ones(3))
        tensor([1., 1., 1.])
    """


@sections(_CHANNELS, 1)
class Dropout1d(_Dropout, function="dropout1d"):
    """Dropout of whole channels of sequences.

    Example:
        >>> torch.nn.Dropout1d(0.5).eval()(torch.ones(2, 3, 4)).shape
        torch.Size([2, 3, 4])
    """


@sections(_CHANNELS, 2)
class Dropout2d(_Dropout, function="dropout2d"):
    """Dropout of whole channels of images.

    Example:
        >>> torch.nn.Dropout2d(1.0)(torch.ones(1, 1, 2, 2))
        tensor([[[[0., 0.],
                  [0., 0.]]]])
    """


@sections(_CHANNELS, 3)
class Dropout3d(_Dropout, function="dropout3d"):
    """Dropout of whole channels of volumes.

    Example:
        >>> torch.nn.Dropout3d(0.5)(torch.ones(2, 3, 4, 4, 4)).shape
        torch.Size([2, 3, 4, 4, 4])
    """


class AlphaDropout(_Dropout, function="alpha_dropout"):
    """Dropout for networks with ``SELU``: preserves a mean of zero and a variance of one.

    In training, each element is replaced with probability ``p`` by the limit of ``SELU`` at minus
    infinity, and the result is scaled and shifted. In evaluation mode the layer is the identity.

    Args:
        p: probability that an element is replaced.

    Shape:
        Input and output: any shape.

    Example:
        >>> torch.nn.AlphaDropout(0.2).eval()(torch.ones(3))
        tensor([1., 1., 1.])
    """


class FeatureAlphaDropout(_Dropout, function="feature_alpha_dropout"):
    """``AlphaDropout`` of whole channels.

    Args:
        p: probability that a channel is replaced.

    Shape:
        Input and output: ``(N, C, ...)``.

    Example:
        >>> torch.nn.FeatureAlphaDropout(0.2).eval()(torch.ones(1, 3))
        tensor([[1., 1., 1.]])
    """


__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]
