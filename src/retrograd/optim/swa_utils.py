"""Stochastic weight averaging: averages of a model's parameters over its training."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from retrograd.autograd.grad_mode import no_grad
from retrograd.nn.module import Module
from retrograd.nn.normalization import BatchNorm
from retrograd.optim._average import lerp_all
from retrograd.optim.lr_scheduler._base import LRScheduler, per_group
from retrograd.optim.optimizer import Optimizer
from retrograd.tensor._creation import tensor
from retrograd.tensor._tensor import Tensor


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def _is_inexact(x: Any) -> bool:
    return bool(x.is_floating_point() or x.is_complex())


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """A ``multi_avg_fn`` for exponential moving averages.

    Args:
        decay: weight of the average so far.

    Example:
        >>> averages = [torch.tensor([1.0])]
        >>> update = torch.optim.swa_utils.get_ema_multi_avg_fn(0.5)
        >>> update(averages, [torch.tensor([3.0])], 1)
        >>> averages
        [tensor([2.])]
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(averages: Any, current: Any, _: Any) -> None:
        if _is_inexact(averages[0]):
            lerp_all(averages, current, 1 - decay)
        else:
            for average, now in zip(averages, current, strict=True):
                average.copy_(average * decay + now * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """A ``multi_avg_fn`` for averages with equal weights.

    Example:
        >>> averages = [torch.tensor([1.0])]
        >>> torch.optim.swa_utils.get_swa_multi_avg_fn()(averages, [torch.tensor([3.0])], 1)
        >>> averages
        [tensor([2.])]
    """

    @no_grad()
    def swa_update(averages: Any, current: Any, num_averaged: Any) -> None:
        if _is_inexact(averages[0]):
            lerp_all(averages, current, float(1 / (num_averaged + 1)))
        else:
            for average, now in zip(averages, current, strict=True):
                average.copy_(average + (now - average) / (num_averaged + 1))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """An ``avg_fn`` for exponential moving averages.

    Args:
        decay: weight of the average so far.

    Example:
        >>> update = torch.optim.swa_utils.get_ema_avg_fn(0.5)
        >>> update(torch.tensor(1.0), torch.tensor(3.0), 1)
        tensor(2.)
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(average: Any, current: Any, num_averaged: Any) -> Any:
        return decay * average + (1 - decay) * current

    return ema_update


def get_swa_avg_fn() -> Callable[..., Any]:
    """An ``avg_fn`` for averages with equal weights.

    Example:
        >>> torch.optim.swa_utils.get_swa_avg_fn()(torch.tensor(1.0), torch.tensor(3.0), 1)
        tensor(2.)
    """

    @no_grad()
    def swa_update(average: Any, current: Any, num_averaged: Any) -> Any:
        return average + (current - average) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are running averages of the model's.

    Args:
        model: the model.
        device: must be the CPU.
        avg_fn: function of the average, the current value and the count that returns the new
            average.
        multi_avg_fn: function of lists of averages and current values that updates the averages in
            place.
        use_buffers: average buffers, too, rather than copy them.

    Shape:
        As ``model``.

    Example:
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> averaged = torch.optim.swa_utils.AveragedModel(model)
        >>> for value in (1.0, 2.0, 6.0):
        ...     model.load_state_dict({"weight": torch.tensor([[value]])})
        ...     averaged.update_parameters(model)
        <All keys matched successfully>
        <All keys matched successfully>
        <All keys matched successfully>
        >>> averaged.module.weight.item()
        3.0
    """

    n_averaged: Tensor

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Callable[..., Any] | None = None,
        multi_avg_fn: Callable[..., None] | None = None, use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the averaged model."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Add the current parameters of a model to the average.

        Args:
            model: the model.
        """
        pairs = [
            (mean.detach(), now.detach().to(mean.device))
            for mean, now in zip(self._averaged(self.module), self._averaged(model), strict=False)
        ]
        if self.n_averaged.item() == 0:
            for average, now in pairs:
                average.copy_(now)
        elif self.multi_avg_fn is not None:
            for alike in _by_dtype(pairs):
                averages, current = (list(x) for x in zip(*alike, strict=True))
                self.multi_avg_fn(averages, current, self.n_averaged)
        else:
            average_of = self.avg_fn or get_swa_avg_fn()
            for average, now in pairs:
                average.copy_(average_of(average, now, self.n_averaged))
        if not self.use_buffers:
            for buffer, now in zip(self.module.buffers(), model.buffers(), strict=True):
                buffer.detach().copy_(now.detach())
        self.n_averaged.add_(1)

    def _averaged(self, model: Any) -> Iterable[Tensor]:
        buffers = model.buffers() if self.use_buffers else ()
        return itertools.chain(model.parameters(), buffers)


def _by_dtype(pairs: list[tuple[Any, Any]]) -> Iterable[list[tuple[Any, Any]]]:
    groups: dict[Any, list[tuple[Any, Any]]] = {}
    for pair in pairs:
        groups.setdefault(pair[0].dtype, []).append(pair)
    return groups.values()


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recompute the running statistics of a model's batch norms in one pass over the data.

    Args:
        loader: batches, or lists that begin with the inputs.
        model: the model.
        device: must be the CPU.

    Example:
        >>> model = torch.nn.BatchNorm1d(1)
        >>> torch.optim.swa_utils.update_bn([torch.tensor([[1.0], [3.0]])], model)
        >>> model.running_mean
        tensor([2.])
    """
    norms = {m: m.momentum for m in model.modules() if isinstance(m, BatchNorm)}
    if not norms:
        return
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the average of all batches, each with the same weight
    was_training = model.training
    model.train()
    try:
        for batch in loader:
            inputs = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(inputs if device is None else inputs.to(device))
    finally:
        for norm, momentum in norms.items():
            norm.momentum = momentum
        model.train(was_training)


def _linear(part: float) -> float:
    return part


def _cosine(part: float) -> float:
    return (1 - math.cos(math.pi * part)) / 2


_ANNEALING = {"cos": _cosine, "linear": _linear}


class SWALR(LRScheduler):
    """Anneal the learning rate to ``swa_lr``, and then keep it.

    Args:
        optimizer: the optimizer.
        swa_lr: the final rate, or a list with one for each group.
        anneal_epochs: number of epochs until then.
        anneal_strategy: "cos" or "linear".
        last_epoch: index of the last epoch when resuming; -1 to start.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> Scheduler = torch.optim.swa_utils.SWALR
        >>> scheduler = Scheduler(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
        >>> rates = []
        >>> for _ in range(4):
        ...     rates += scheduler.get_last_lr()
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [1.0, 0.75, 0.5, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, swa_lr: Any, anneal_epochs: int = 10,
        anneal_strategy: str = "cos", last_epoch: int = -1,
    ) -> None:  # fmt: skip
        rates = per_group("swa_lr", optimizer, swa_lr)
        if anneal_strategy not in _ANNEALING:
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        for rate, group in zip(rates, optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, part: float) -> float:
        """The annealing function.

        Args:
            part: share of the epochs that have passed.

        Returns:
            The share of the change that has been made.
        """
        return _ANNEALING[self._anneal_strategy](part)

    def _part(self, step: int) -> float:
        return self.anneal_func(max(0, min(1, step / max(1, self.anneal_epochs))))

    def get_lr(self) -> list[Any]:
        self._warn_unless_stepping()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._part(step - 1), self._part(step)
        rates = []
        for group in self.optimizer.param_groups:
            end = group["swa_lr"]
            start = end if before == 1 else (group["lr"] - before * end) / (1 - before)
            rates.append(end * now + start * (1 - now))
        return rates


__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip
