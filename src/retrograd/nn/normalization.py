"""Layers that bring their input to mean zero and variance one, along some of its dimensions."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from retrograd.arrays import dtypes
from retrograd.nn import functional as F
from retrograd.nn import init
from retrograd.nn._options import WithOptions
from retrograd.nn.module import Module
from retrograd.nn.parameter import Parameter
from retrograd.tensor._creation import empty, ones, tensor, zeros


class _Affine(Module):
    """A layer with a weight and a bias of one shape, or with only one or none of them."""

    weight: Any
    bias: Any

    def _make_parameters(self, shape: Any, weight: bool, bias: bool, **made: Any) -> None:
        for name, wanted in (("weight", weight), ("bias", bias)):
            if wanted:
                setattr(self, name, Parameter(empty(shape, **made)))
            else:
                self.register_parameter(name, None)

    def reset_parameters(self) -> None:
        """A weight of ones and a bias of zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


# -- over the batch, or each sample, channel by channel ------------------------------------------


class _WithStatistics(_Affine):
    """Norms of channels, which may keep running averages for use after training."""

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
        made = {"device": device, "dtype": dtype}
        self._make_parameters(num_features, affine, affine and bias, **made)
        statistics: dict[str, Any] = dict.fromkeys(
            ("running_mean", "running_var", "num_batches_tracked")
        )
        if track_running_stats:
            statistics["running_mean"] = zeros(num_features, **made)
            statistics["running_var"] = ones(num_features, **made)
            statistics["num_batches_tracked"] = tensor(0, dtype=dtypes.int64)
        for name, value in statistics.items():
            self.register_buffer(name, value)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget what was averaged so far."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """A weight of ones, a bias of zeros, and no averages."""
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
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *more: Any
    ) -> None:
        key = f"{prefix}num_batches_tracked"
        if (local_metadata.get("version") or 1) < 2 and self.track_running_stats:
            state_dict.setdefault(key, tensor(0, dtype=dtypes.int64))  # as it was not saved once
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *more)


class BatchNorm(_WithStatistics):
    """What norms over batches share, however many dimensions the samples have."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype,
                         bias)  # fmt: skip

    def forward(self, input: Any) -> Any:
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


class BatchNorm1d(BatchNorm):
    """Each channel of a batch of vectors or sequences, ``(N, C)`` or ``(N, C, L)``.

    >>> import retrograd as torch
    >>> layer = torch.nn.BatchNorm1d(1)
    >>> layer(torch.tensor([[1.0], [3.0]]))
    tensor([[-1.0000],
            [ 1.0000]], grad_fn=<NativeBatchNormBackward0>)
    >>> layer.running_mean
    tensor([0.2000])
    """

    ranks = (2, 3)


class BatchNorm2d(BatchNorm):
    """Each channel of a batch of images, ``(N, C, H, W)``."""

    ranks = (4,)


class BatchNorm3d(BatchNorm):
    """Each channel of a batch of volumes, ``(N, C, D, H, W)``."""

    ranks = (5,)


class _InstanceNorm(_WithStatistics):
    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype,
                         bias)  # fmt: skip

    def forward(self, input: Any) -> Any:
        self._check_input_dim(input)
        alone = self.ranks[0]  # the number of dimensions of a single sample
        dim = input.dim() - alone
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
        x = input.unsqueeze(0) if input.dim() == alone else input
        result = F.instance_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats, self.momentum or 0.0, self.eps,
        )  # fmt: skip
        return result.squeeze(0) if input.dim() == alone else result


class InstanceNorm1d(_InstanceNorm):
    """Each channel of each sequence on its own."""

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Each channel of each image on its own."""

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Each channel of each volume on its own."""

    ranks = (4, 5)


# -- over the last dimensions, or groups of channels ---------------------------------------------


def _as_shape(normalized_shape: Any) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(_Affine):
    """The last dimensions of every sample.

    >>> import retrograd as torch
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

    def forward(self, input: Any) -> Any:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(_Affine):
    """The last dimensions of every sample, divided by the root of their mean square."""

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
        """A weight of ones."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Any) -> Any:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(_Affine):
    """Groups of channels of every sample."""

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

    def forward(self, input: Any) -> Any:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(WithOptions):
    """Each channel divided by how strong its neighbours are."""

    function = "local_response_norm"

    def __init__(
        self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
    ) -> None:
        super().__init__(size=size, alpha=alpha, beta=beta, k=k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
