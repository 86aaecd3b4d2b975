"""Dropout: sets random elements or channels to zero and scales up the rest.

The mask is drawn as PyTorch draws it, so that the same seed drops the same elements. The graph
shows a product with it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear, sampling
from retrograd.ops._lifted import layout_of
from retrograd.ops._operation import raw
from retrograd.ops._public import public
from retrograd.ops._refusals import refuses
from retrograd.ops._sections import sections
from retrograd.ops.copies import to_dtype
from retrograd.ops.elementwise import add, mul

_ALPHA = 1.7580993408473766  # what a SELU tends to far on the negative side, but for the sign


class Kind(NamedTuple):
    """What is dropped, elements or channels, and to what: to zero, or to where a SELU ends."""

    channels: bool = False
    alpha: bool = False


def _dropped(input: Any, p: float, train: bool, inplace: bool, kind: Kind) -> Any:
    _check_probability(p, RuntimeError)
    if not hasattr(input, "shape"):
        raise TypeError(
            f"dropout(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )
    values = raw(input)
    if p == 0 or not train or not values.size:
        return input
    if p == 1:
        nothing = arrays.zeros((), values.dtype)
        return input.mul_(nothing) if inplace else mul(input, nothing)
    if kind.channels and values.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    kept = _mask(values, p, kind.channels)
    _check_scaling(values)
    if not kind.alpha:
        kept = _in_dtype(kept / (1 - p), values.dtype)
        return input.mul_(kept) if inplace else mul(input, kept)
    scale = 1 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p))
    shift = _in_dtype((kept - 1) * (_ALPHA * scale) + _ALPHA * scale * p, values.dtype)
    kept = _in_dtype(kept * scale, values.dtype)
    if inplace:
        return input.mul_(kept).add_(shift)
    return add(mul(input, kept), shift)


def _in_dtype(x: Any, dtype: Any) -> Any:
    """``x``, which arithmetic with a Python number has made float32 of if it was bfloat16."""
    return x if x.dtype == dtype else to_dtype(x, dtype=dtype)


def _mask(values: Raw, p: float, channels: bool) -> Raw:
    """Ones for what is kept, zeros for what is dropped. One of the shape of the values is filled in
    the order in which they lie in memory, or in which a copy of them would."""
    if channels:
        shape = (*values.shape[:2], *(1 for _ in values.shape[2:]))
        return sampling.keep_mask(shape, 1 - p, values)
    lies = layout_of(values)
    if lies is None or arrays.is_contiguous(lies):
        return sampling.keep_mask(values.shape, 1 - p, values)
    order = arrays.layout_order(lies)
    drawn = sampling.keep_mask([values.shape[d] for d in order], 1 - p, values)
    return linear.permute(drawn, dims=tuple([order.index(d) for d in range(values.ndim)]))


def _check_probability(p: float, error: type[Exception]) -> None:
    if not 0 <= p <= 1 and (error is RuntimeError or p == p):
        raise error(f"dropout probability has to be between 0 and 1, but got {p}")


_check_scaling = refuses(
    "biu", "result type Float can't be cast to the desired output type {}", RuntimeError
)


# -- torch.dropout and its kin -----------------------------------------------------------------


_DOC = """{kind} of {unit}s, with all arguments given. See ``nn.functional.{see}``.

Args:
    input: the input; its channels are in dimension 1.
    p: probability that a {unit} is {done}.
    train: whether to apply dropout. Otherwise the result equals the input.

Returns:
    {result}.

Example:
    >>> torch.{name}(torch.ones(1, 2, 2), 0.5, False).shape
    torch.Size([1, 2, 2])
"""


def _torch_form(name: str, kind: Kind, inplace: bool) -> Callable[..., Any]:
    def function(input: Any, p: float, train: bool) -> Any:
        return _dropped(input, p, train, inplace, kind)

    function.__name__ = function.__qualname__ = f"{name}_" if inplace else name
    function.__doc__ = _DOC.format(
        name=function.__name__,
        kind="Alpha dropout" if kind.alpha else "Dropout",
        unit="channel" if kind.channels else "element",
        done="replaced" if kind.alpha else "zeroed",
        see=name.replace("feature_dropout", "dropout2d"),
        result="The input, overwritten" if inplace else "A tensor of the shape of ``input``",
    )
    return public("torch")(function)


torch_dropout = _torch_form("dropout", Kind(), False)
_torch_form("dropout", Kind(), True)
for _name, _kind in (
    ("feature_dropout", Kind(channels=True)), ("alpha_dropout", Kind(alpha=True)),
    ("feature_alpha_dropout", Kind(channels=True, alpha=True)),
):  # fmt: skip
    for _inplace in (False, True):
        _torch_form(_name, _kind, _inplace)

# -- nn.functional -----------------------------------------------------------------------------


_DROPOUT = """\
Args:
    training: whether to apply dropout. Otherwise the result equals the input.
    inplace: overwrite the input.

Returns:
    A tensor of the shape of ``input``.
"""


@public("functional")
@sections(_DROPOUT)
def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Dropout of elements.

    In training, each element is zeroed with probability ``p``, and the others are multiplied by
    ``1 / (1 - p)``.

    Args:
        p: probability that an element is zeroed.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> torch.nn.functional.dropout(torch.ones(5), p=0.5)
        tensor([0., 0., 2., 0., 0.])
    """
    _check_probability(p, ValueError)
    return _dropped(input, p, training, inplace, Kind())


@public("functional")
@sections(_DROPOUT)
def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """Dropout for networks with ``selu``: preserves a mean of zero and a variance of one.

    In training, each element is replaced with probability ``p`` by the limit of ``selu`` at minus
    infinity, and the result is scaled and shifted.

    Args:
        p: probability that an element is replaced.

    Example:
        >>> torch.nn.functional.alpha_dropout(torch.tensor([1., 2.]), training=False)
        tensor([1., 2.])
    """
    _check_probability(p, ValueError)
    return _dropped(input, p, training, inplace, Kind(alpha=True))


@public("functional")
@sections(_DROPOUT)
def feature_alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Any:
    """Alpha dropout of whole channels, see ``alpha_dropout``.

    Args:
        input: the input, of shape ``(N, C, ...)``.
        p: probability that a channel is replaced.

    Example:
        >>> torch.nn.functional.feature_alpha_dropout(torch.tensor([[1., 2.]]), training=False)
        tensor([[1., 2.]])
    """
    _check_probability(p, ValueError)
    return _dropped(input, p, training, inplace, Kind(channels=True, alpha=True))


@public("functional")
@sections(_DROPOUT, 1)
def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Dropout of whole channels of sequences.

    In training, each channel of each sample is zeroed as a whole with probability ``p``, and the
    others are multiplied by ``1 / (1 - p)``.

    Args:
        input: the input, of shape ``(N, C, L)`` or ``(C, L)``.
        p: probability that a channel is zeroed.

    Example:
        >>> _ = torch.manual_seed(1)
        >>> torch.nn.functional.dropout1d(torch.ones(2, 3), p=0.5)
        tensor([[2., 2., 2.],
                [2., 2., 2.]])
    """
    _check_probability(p, ValueError)
    ndim = len(input.shape)
    if ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {ndim}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, "
            "a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    return _of_channels(input, p, training, inplace, batched=ndim == 3)


@public("functional")
@sections(_DROPOUT, 2)
def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Dropout of whole channels of images.

    In training, each channel of each sample is zeroed as a whole with probability ``p``, and the
    others are multiplied by ``1 / (1 - p)``.

    Args:
        input: the input, of shape ``(N, C, H, W)``.
        p: probability that a channel is zeroed.

    Example:
        >>> torch.nn.functional.dropout2d(torch.ones(1, 1, 2, 2), training=False)
        tensor([[[[1., 1.],
                  [1., 1.]]]])
    """
    _check_probability(p, ValueError)
    ndim = len(input.shape)
    _warn_of_dimensions("dropout2d", ndim, "2 spatial", (3, 4))
    if ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel "
            "dim. This behavior will change in a future release to interpret the input as one "
            "without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise "
            "dropout behavior, please switch to using dropout1d instead.",
            stacklevel=3,
        )
    return _dropped(input, p, training, inplace, Kind(channels=True))


@public("functional")
@sections(_DROPOUT, 3)
def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Dropout of whole channels of volumes.

    In training, each channel of each sample is zeroed as a whole with probability ``p``, and the
    others are multiplied by ``1 / (1 - p)``.

    Args:
        input: the input, of shape ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
        p: probability that a channel is zeroed.

    Example:
        >>> torch.nn.functional.dropout3d(torch.ones(1, 1, 1, 1, 2), training=False)
        tensor([[[[[1., 1.]]]]])
    """
    _check_probability(p, ValueError)
    ndim = len(input.shape)
    _warn_of_dimensions("dropout3d", ndim, "3 spatial", (4, 5))
    return _of_channels(input, p, training, inplace, batched=ndim == 5)


def _of_channels(input: Any, p: float, training: bool, inplace: bool, batched: bool) -> Any:
    if batched:
        return _dropped(input, p, training, inplace, Kind(channels=True))
    result = _dropped(input.unsqueeze(0), p, training, inplace, Kind(channels=True))
    return input if inplace else result.squeeze(0)


def _warn_of_dimensions(name: str, ndim: int, what: str, known: tuple[int, int]) -> None:
    if ndim in known:
        return
    warnings.warn(
        f"{name}: Received a {ndim}-D input to {name}, which is deprecated and will result in an "
        "error in a future release. To retain the behavior and silence this warning, please use "
        f"dropout instead. Note that {name} exists to provide channel-wise dropout on inputs with "
        f"{what} dimensions, a channel dimension, and an optional batch dimension "
        f"(i.e. {known[0]}D or {known[1]}D inputs).",
        stacklevel=4,
    )
