"""Schedulers that multiply the learning rate by a factor.

Each defines the factor from one epoch to the next, so that several can act on one optimizer, and
the factor from the initial rate, for ``step(epoch)``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from retrograd.optim.lr_scheduler._base import LRScheduler, state_of, values_of
from retrograd.optim.optimizer import Optimizer


class _Factors(LRScheduler):
    def _change(self) -> float | None:
        """The factor from the previous epoch to this one; None for no change."""
        raise NotImplementedError

    def _whole_change(self) -> float:
        """The factor from the initial learning rate to that of this epoch."""
        raise NotImplementedError

    def get_lr(self) -> list[Any]:
        self._warn_unless_stepping()
        change = self._change()
        if change is None:
            return values_of(self.optimizer, "lr")
        return [group["lr"] * change for group in self.optimizer.param_groups]

    def _get_closed_form_lr(self) -> list[Any]:
        whole = self._whole_change()
        return [base_lr * whole for base_lr in self.base_lrs]


class StepLR(_Factors):
    """Multiply the learning rate by ``gamma`` every ``step_size`` epochs.

    Args:
        step_size: number of epochs between changes.
        gamma: the factor.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        >>> rates = []
        >>> for _ in range(5):
        ...     rates += scheduler.get_last_lr()
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _change(self) -> float | None:
        return self.gamma if self.last_epoch and self.last_epoch % self.step_size == 0 else None

    def _whole_change(self) -> float:
        return float(self.gamma ** (self.last_epoch // self.step_size))


class MultiStepLR(_Factors):
    """Multiply the learning rate by ``gamma`` at each of several epochs.

    Args:
        milestones: the epochs.
        gamma: the factor.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 3], gamma=0.5)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates += scheduler.get_last_lr()
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [1.0, 0.5, 0.5, 0.25]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _change(self) -> float | None:
        times = self.milestones.get(self.last_epoch, 0)
        return self.gamma**times if times else None

    def _whole_change(self) -> float:
        milestones = sorted(self.milestones.elements())
        return float(self.gamma ** bisect_right(milestones, self.last_epoch))


class ConstantLR(_Factors):
    """Multiply the learning rate by ``factor`` until epoch ``total_iters``.

    Args:
        factor: the factor.
        total_iters: epoch from which on the initial rate is used.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
        >>> rates = []
        >>> for _ in range(3):
        ...     rates += scheduler.get_last_lr()
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [0.5, 0.5, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _change(self) -> float | None:
        if self.last_epoch == 0:
            return self.factor
        return 1.0 / self.factor if self.last_epoch == self.total_iters else None

    def _whole_change(self) -> float:
        return self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)


class LinearLR(_Factors):
    """Multiply the learning rate by a factor that changes linearly over ``total_iters`` epochs.

    Args:
        start_factor: factor at the start.
        end_factor: factor from ``total_iters`` on.
        total_iters: number of epochs until the end factor.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.5, total_iters=2)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates += scheduler.get_last_lr()
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [0.5, 0.75, 1.0, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0,
        total_iters: int = 5, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal to "
                "1."
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _change(self) -> float | None:
        if self.last_epoch == 0:
            return self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return None
        rise = self.end_factor - self.start_factor
        return 1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)

    def _whole_change(self) -> float:
        rise = self.end_factor - self.start_factor
        return self.start_factor + rise * min(self.total_iters, self.last_epoch) / self.total_iters


class ExponentialLR(_Factors):
    """Multiply the learning rate by ``gamma`` every epoch.

    Args:
        gamma: the factor.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _change(self) -> float | None:
        return None if self._is_initial else self.gamma

    def _whole_change(self) -> float:
        return float(self.gamma**self.last_epoch)


class PolynomialLR(_Factors):
    """Decrease the learning rate to zero: ``lr * (1 - epoch / total_iters) ** power``.

    Args:
        total_iters: number of epochs until zero.
        power: the exponent.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=2)
        >>> rates = []
        >>> for _ in range(3):
        ...     rates += scheduler.get_last_lr()
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [1.0, 0.5, 0.0]
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _change(self) -> float | None:
        if self._is_initial or self.last_epoch > self.total_iters:
            return None
        left = 1.0 - self.last_epoch / self.total_iters
        return float((left / (1.0 - (self.last_epoch - 1) / self.total_iters)) ** self.power)

    def _whole_change(self) -> float:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return float(left**self.power)


class _OfUsersFunctions(LRScheduler):
    """A scheduler whose factors come from functions of the epoch, one for each group.

    Functions are not saved; attributes of callable objects are.
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        functions = lr_lambda if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        if len(functions) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(functions)}")
        self.lr_lambdas: list[Callable[[int], float]] = list(functions)
        self._check_functions()
        super().__init__(optimizer, last_epoch)

    def _check_functions(self) -> None:
        pass

    def _times(self, rates: list[Any]) -> list[Any]:
        pairs = zip(self.lr_lambdas, rates, strict=True)
        return [lr * function(self.last_epoch) for function, lr in pairs]

    def state_dict(self) -> dict[str, Any]:
        """Everything except the optimizer and the functions."""
        return {**super().state_dict(), "lr_lambdas": [state_of(f) for f in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, state in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=False):
            if state is not None:
                function.__dict__.update(state)


class LambdaLR(_OfUsersFunctions):
    """Multiply the initial learning rate by a function of the epoch.

    Args:
        lr_lambda: the function, or a list with one for each group.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def get_lr(self) -> list[Any]:
        self._warn_unless_stepping()
        return self._times(self.base_lrs)


class MultiplicativeLR(_OfUsersFunctions):
    """Multiply the current learning rate by a function of the epoch.

    Args:
        lr_lambda: the function, or a list with one for each group.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def _check_functions(self) -> None:
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(
                    f"lr_lambda should be a function, but got {type(function).__name__}"
                )

    def get_lr(self) -> list[Any]:
        self._warn_unless_stepping()
        rates = values_of(self.optimizer, "lr")
        return rates if self._is_initial else self._times(rates)
