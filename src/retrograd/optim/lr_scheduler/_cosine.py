"""Schedulers that follow a cosine."""

from __future__ import annotations

import math
from typing import Any

from retrograd.optim.lr_scheduler._base import LRScheduler, values_of
from retrograd.optim.optimizer import Optimizer


class CosineAnnealingLR(LRScheduler):
    """Decrease the learning rate to ``eta_min`` along a cosine.

    ``eta_min + (lr - eta_min) * (1 + cos(pi * epoch / T_max)) / 2``.

    Args:
        T_max: number of epochs until the minimum.
        eta_min: the minimum.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
        >>> rates = []
        >>> for _ in range(3):
        ...     rates.append(round(scheduler.get_last_lr()[0], 6))
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [1.0, 0.5, 0.0]
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1  # noqa: N803
    ) -> None:  # fmt: skip
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _height(self, epoch: int) -> float:
        return 1 + math.cos(math.pi * epoch / self.T_max)

    def get_lr(self) -> list[Any]:
        self._warn_unless_stepping()
        if self._is_initial:
            return values_of(self.optimizer, "lr")
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        low, groups = self.eta_min, self.optimizer.param_groups
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # the rate before was lowest
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            pairs = zip(self.base_lrs, groups, strict=True)
            return [group["lr"] + (base_lr - low) * rise for base_lr, group in pairs]
        ratio = self._height(self.last_epoch) / self._height(self.last_epoch - 1)
        return [ratio * (group["lr"] - low) + low for group in groups]

    def _get_closed_form_lr(self) -> list[Any]:
        height, low = self._height(self.last_epoch), self.eta_min
        return [low + (base_lr - low) * height / 2 for base_lr in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Decrease the learning rate along a cosine, and restart.

    Args:
        T_0: number of epochs until the first restart.
        T_mult: factor by which the period grows after each restart.
        eta_min: the minimum.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> Scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts
        >>> scheduler = Scheduler(optimizer, T_0=2, T_mult=2)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [1.0, 0.5, 1.0, 0.8536]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0,  # noqa: N803
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_unless_stepping()
        height, low = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2, self.eta_min
        return [low + (base_lr - low) * height for base_lr in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Advance by one epoch, or to a given epoch.

        Args:
            epoch: the epoch, which may be a fraction.
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        else:
            self._go_to(epoch)
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            rates = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        self._set(rates)

    def _go_to(self, epoch: float) -> None:
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            times = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            before = self.T_0 * (self.T_mult**times - 1) / (self.T_mult - 1)
            self.T_cur, self.T_i = epoch - before, self.T_0 * self.T_mult**times
