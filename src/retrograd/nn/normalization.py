"""Normalization layers: batch, instance, layer, RMS and group norms."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from retrograd.arrays import dtypes
from retrograd.nn import functional as F
from retrograd.nn import init
from retrograd.nn._options import Family, WithOptions
from retrograd.nn.parameter import Parameter
from retrograd.ops._sections import sections
from retrograd.tensor._creation import empty, ones, tensor, zeros
from retrograd.tensor._tensor import Tensor


class _Affine(Family):
    """A layer with a weight and a bias of the same shape, either of which may be absent."""

    weight: Any
    bias: Any

    def _make_parameters(self, shape: Any, weight: bool, bias: bool, **factory: Any) -> None:
        for name, wanted in (("weight", weight), ("bias", bias)):
            if wanted:
                setattr(self, name, Parameter(empty(shape, **factory)))
            else:
                self.register_parameter(name, None)

    def reset_parameters(self) -> None:
        """Set the weight to ones and the bias to zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


# -- over the batch, or each sample, channel by channel ------------------------------------------


class _WithStatistics(_Affine):
    """A norm of channels, which may keep running averages for evaluation mode."""

    _version = 2
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any
    ranks: ClassVar[tuple[int, ...]]  # how many dimensions the input may have

    def __init__(
        self, num_features: int, eps: float, momentum: float | None, affine: bool,
        track_running_stats: bool, device: Any, dtype: Any, bias: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        factory = {"device": device, "dtype": dtype}
        self._make_parameters(num_features, affine, affine and bias, **factory)
        statistics: dict[str, Any] = dict.fromkeys(
            ("running_mean", "running_var", "num_batches_tracked")
        )
        if track_running_stats:
            statistics["running_mean"] = zeros(num_features, **factory)
            statistics["running_var"] = ones(num_features, **factory)
            statistics["num_batches_tracked"] = tensor(0, dtype=dtypes.int64, device=device)
        for name, value in statistics.items():
            self.register_buffer(name, value)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Reset the running averages to mean zero and variance one."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Reset the running averages, the weight (to ones) and the bias (to zeros)."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() not in self.ranks:
            wanted = " or ".join(f"{n}D" for n in self.ranks)
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        key = f"{prefix}num_batches_tracked"
        if (local_metadata.get("version") or 1) < 2 and self.track_running_stats:
            state_dict.setdefault(key, tensor(0, dtype=dtypes.int64))  # version 1 did not save it
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


_BATCH = """\
``(x - mean) / sqrt(var + eps) * weight + bias``, with mean and (biased) variance of each channel
over the batch and all positions. In training, running averages of both are updated by
``(1 - momentum) * average + momentum * value`` (with the unbiased variance); in evaluation mode
they take the place of the statistics of the batch.

Args:
    num_features: number of channels ``C``.
    eps: added to the variance.
    momentum: weight of the current batch in the running averages; None for the mean of all
        batches.
    affine: whether there is a learned weight and bias for each channel.
    track_running_stats: whether to keep running averages. Without them, the statistics of the
        batch are used in evaluation mode, too.
    device: must be the CPU.
    dtype: dtype of the parameters and averages.
    bias: whether there is a bias, if ``affine``.

Shape:
    Input and output: {shapes}.
"""
_VECTORS = _BATCH.replace("{shapes}", "``(N, C)`` or ``(N, C, {input})``")
_BATCH = _BATCH.replace("{shapes}", "``(N, C, {input})``")


class BatchNorm(_WithStatistics):
    """The base of batch norms for any number of dimensions."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype,
                         bias)  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        share = self.momentum or 0.0
        training = self.training
        if training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the mean of all batches
                share = 1.0 / self.num_batches_tracked.item()
        keeps = not training or self.track_running_stats
        return F.batch_norm(
            input, self.running_mean if keeps else None, self.running_var if keeps else None,
            self.weight, self.bias, training or self.running_mean is None, share, self.eps,
        )  # fmt: skip


@sections(_VECTORS, 1)
class BatchNorm1d(BatchNorm, ranks=(2, 3)):
    """Batch normalization of vectors and sequences.

    Example:
        >>> layer = torch.nn.BatchNorm1d(1)
        >>> layer(torch.tensor([[1.0], [3.0]]))
        tensor([[-1.0000],
                [ 1.0000]], grad_fn=<NativeBatchNormBackward0>)
        >>> layer.running_mean
        tensor([0.2000])
    """


@sections(_BATCH, 2)
class BatchNorm2d(BatchNorm, ranks=(4,)):
    """Batch normalization of images.

    Example:
        >>> torch.nn.BatchNorm2d(3)(torch.randn(2, 3, 4, 4)).shape
        torch.Size([2, 3, 4, 4])
    """


@sections(_BATCH, 3)
class BatchNorm3d(BatchNorm, ranks=(5,)):
    """Batch normalization of volumes.

    Example:
        >>> torch.nn.BatchNorm3d(3)(torch.randn(2, 3, 4, 4, 4)).shape
        torch.Size([2, 3, 4, 4, 4])
    """


_INSTANCE = """\
``(x - mean) / sqrt(var + eps) * weight + bias``, with mean and (biased) variance over the positions
of each channel of each sample.

Args:
    num_features: number of channels ``C``.
    eps: added to the variance.
    momentum: weight of the current batch in the running averages.
    affine: whether there is a learned weight and bias for each channel.
    track_running_stats: whether to keep running averages, and to use them in evaluation mode.
    device: must be the CPU.
    dtype: dtype of the parameters and averages.
    bias: whether there is a bias, if ``affine``.

Shape:
    Input and output: ``(N, C, {input})`` or ``(C, {input})``.
"""


class _InstanceNorm(_WithStatistics):
    shared = _INSTANCE

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype,
                         bias)  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        unbatched = self.ranks[0]  # the number of dimensions of a single sample
        dim = input.dim() - unbatched
        if input.shape[dim] != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={dim} to match num_features "
                    f"({self.num_features}), but got: {input.shape[dim]}."
                )
            warnings.warn(
                f"input's size at dim={dim} does not match num_features. You can silence this "
                "warning by not passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        x = input.unsqueeze(0) if input.dim() == unbatched else input
        result = F.instance_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats, self.momentum or 0.0, self.eps,
        )  # fmt: skip
        return result.squeeze(0) if input.dim() == unbatched else result


class InstanceNorm1d(_InstanceNorm, spatial=1, ranks=(2, 3)):
    """Instance normalization of sequences.

    Example:
        >>> torch.nn.InstanceNorm1d(1)(torch.tensor([[1.0, 3.0]]))
        tensor([[-1.0000,  1.0000]])
    """


class InstanceNorm2d(_InstanceNorm, spatial=2, ranks=(3, 4)):
    """Instance normalization of images.

    Example:
        >>> torch.nn.InstanceNorm2d(3)(torch.randn(2, 3, 4, 4)).shape
        torch.Size([2, 3, 4, 4])
    """


class InstanceNorm3d(_InstanceNorm, spatial=3, ranks=(4, 5)):
    """Instance normalization of volumes.

    Example:
        >>> torch.nn.InstanceNorm3d(3)(torch.randn(2, 3, 4, 4, 4)).shape
        torch.Size([2, 3, 4, 4, 4])
    """


# -- over the last dimensions, or groups of channels ---------------------------------------------


def _as_shape(normalized_shape: Any) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(_Affine):
    """Layer normalization, over the last dimensions of each sample.

    ``(x - mean) / sqrt(var + eps) * weight + bias``, with mean and (biased) variance over the
    dimensions of ``normalized_shape``.

    Args:
        normalized_shape: sizes of the last dimensions, an int for one dimension.
        eps: added to the variance.
        elementwise_affine: whether there is a learned weight and bias.
        bias: whether there is a bias, if ``elementwise_affine``.

    Shape:
        Input and output: ``(*, *normalized_shape)``. weight and bias: ``normalized_shape``.

    Example:
        >>> torch.nn.LayerNorm(2)(torch.tensor([[1.0, 3.0]]))
        tensor([[-1.0000,  1.0000]], grad_fn=<NativeLayerNormBackward0>)
    """

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True,
        bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        affine = elementwise_affine
        self._make_parameters(
            self.normalized_shape, affine, affine and bias, device=device, dtype=dtype
        )
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(_Affine):
    """Root mean square normalization: ``x / sqrt(mean(x**2) + eps) * weight``.

    Args:
        normalized_shape: sizes of the last dimensions, which the mean is over.
        eps: added to the mean square; the machine epsilon of the input's dtype by default.
        elementwise_affine: whether there is a learned weight.
        dtype: dtype of the weight.

    Shape:
        Input and output: ``(*, *normalized_shape)``. weight: ``normalized_shape``.

    Example:
        >>> torch.nn.RMSNorm(2, elementwise_affine=False)(torch.tensor([1.0, 7.0]))
        tensor([0.2000, 1.4000])
    """

    def __init__(
        self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ones."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(_Affine):
    """Normalization over groups of channels of each sample.

    ``(x - mean) / sqrt(var + eps) * weight + bias``, with mean and (biased) variance over all
    positions of the channels of a group.

    Args:
        num_groups: number of groups; divides ``num_channels``.
        num_channels: number of channels ``C``.
        eps: added to the variance.
        affine: whether there is a learned weight and bias for each channel.
        bias: whether there is a bias, if ``affine``.

    Shape:
        Input and output: ``(N, C, *)``.

    Example:
        >>> torch.nn.GroupNorm(1, 2, affine=False)(torch.tensor([[1.0, 3.0]]))
        tensor([[-1.0000,  1.0000]])
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make_parameters(num_channels, affine, affine and bias, device=device, dtype=dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(WithOptions, function="local_response_norm"):
    """Division of each channel by the mean square of its neighbours.

    ``x / (k + alpha * mean of x**2 over size channels around it)**beta``.

    Args:
        size: number of neighbouring channels.
        alpha: factor of the mean square.
        beta: exponent.
        k: additive constant.

    Shape:
        Input and output: ``(N, C, *)``.

    Example:
        >>> torch.nn.LocalResponseNorm(2)(torch.ones(1, 3, 4)).shape
        torch.Size([1, 3, 4])
    """

    def __init__(
        self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
    ) -> None:
        super().__init__(size=size, alpha=alpha, beta=beta, k=k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LayerNorm", "LocalResponseNorm", "RMSNorm",
]  # fmt: skip
