"""Batch normalization with the statistics of the batches of all processes."""

from __future__ import annotations

from typing import Any

from retrograd import distributed as dist
from retrograd.autograd.grad_mode import no_grad
from retrograd.distributed.nn.functional import all_reduce
from retrograd.nn.normalization import BatchNorm
from retrograd.tensor._creation import tensor
from retrograd.tensor._tensor import Tensor

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(BatchNorm):
    """Batch normalization over the batches of all processes of a group.

    It computes what a ``BatchNorm`` layer computes of all batches joined. In evaluation mode, and
    if no process group has been initialized, it is such a layer. Every process must call it.

    Args:
        num_features: number of channels ``C``.
        eps: added to the variance.
        momentum: weight of the current batch in the running averages; None for the mean of all
            batches.
        affine: whether there is a learned weight and bias for each channel.
        track_running_stats: whether to keep running averages.
        process_group: the processes; all of them by default.
        device: must be the CPU.
        dtype: dtype of the parameters and averages.

    Shape:
        Input and output: ``(N, C, ...)``.

    Example:
        >>> layer = torch.nn.SyncBatchNorm(1)
        >>> layer(torch.tensor([[1.0], [3.0]])).detach()
        tensor([[-1.0000],
                [ 1.0000]])
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, process_group: Any = None,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)
        self.process_group = process_group

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.shape[1] == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        alone = not dist.is_initialized() or dist.get_world_size(self.process_group) == 1
        if not self.training or alone:
            return super().forward(input)
        dims = [d for d in range(input.dim()) if d != 1]
        column = (1, -1, *[1] * (input.dim() - 2))
        total = tensor(float(input.numel() // input.shape[1]), dtype=input.dtype)
        dist.all_reduce(total, group=self.process_group)
        count = total.item()
        mean = all_reduce(input.sum(dims), group=self.process_group) / count
        centred = input - mean.reshape(column)
        squares = (centred * centred).sum(dims)
        variance = all_reduce(squares, group=self.process_group) / count
        if self.track_running_stats:
            self._update(mean.detach(), variance.detach() * (count / max(count - 1.0, 1.0)))
        result: Tensor = centred * (variance + self.eps).rsqrt().reshape(column)
        if self.weight is not None:
            result = result * self.weight.reshape(column)
        return result if self.bias is None else result + self.bias.reshape(column)

    def _update(self, mean: Tensor, variance: Tensor) -> None:
        self.num_batches_tracked.add_(1)
        share = self.momentum
        if share is None:  # the mean of all batches
            share = 1.0 / self.num_batches_tracked.item()
        with no_grad():
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
            self.running_var.lerp_(variance.to(self.running_var.dtype), share)

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """Replaces the batch norms of a module with ``SyncBatchNorm``.

        Args:
            module: the module, which is changed.
            process_group: the processes; all of them by default.

        Returns:
            The module; or the new one, if it is a batch norm itself.

        Example:
            >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
            >>> torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)[1]
            SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, \
track_running_stats=True)
        """
        converted = module
        if isinstance(module, BatchNorm):
            converted = cls(module.num_features, module.eps, module.momentum, module.affine,
                            module.track_running_stats, process_group)  # fmt: skip
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(converted, name, getattr(module, name))
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted
