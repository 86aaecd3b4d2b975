"""``LRScheduler``: the base class of all schedulers."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable
from typing import Any

from retrograd.autograd.grad_mode import no_grad
from retrograd.optim.optimizer import Optimizer
from retrograd.tensor._tensor import Tensor

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if "
    "epoch is different from None, the closed form is used instead of the new chainable form, "
    "where available. Please open an issue if you are unable to replicate your use case: "
    "https://github.com/pytorch/pytorch/issues/new/choose."
)
_MORE = (
    "See more details at "
    "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
)  # fmt: skip


class LRScheduler:
    """The base class of learning rate schedulers.

    A subclass overrides ``get_lr``, which returns the rates for epoch ``self.last_epoch``:

    Example:
        >>> class Harmonic(torch.optim.lr_scheduler.LRScheduler):
        ...     def get_lr(self):
        ...         return [lr / (1 + self.last_epoch) for lr in self.base_lrs]
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = Harmonic(optimizer)
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

    _get_lr_called_within_step = False
    _is_initial = False
    _step_count: int
    _last_lr: list[Any]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                    "scheduler with last_epoch >= 0.\nThis typically happens when:\n1. You're "
                    "trying to resume training from a checkpoint but haven't properly loaded the "
                    "optimizer state\n2. You're using last_epoch >= 0 for a fresh training run "
                    "(not recommended)"
                )
        self.base_lrs: list[Any] = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        if not optimizer._scheduled:
            optimizer._scheduled, optimizer._opt_called = True, False
            optimizer._step_when_scheduled = optimizer.__dict__.get("step")
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_last_lr(self) -> list[Any]:
        """The learning rates that were set last, one for each group."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """Compute the learning rates for ``self.last_epoch``. Override it; only ``step`` calls it.

        Returns:
            A rate for each group.
        """
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Advance by one epoch (or other unit) and set the learning rates.

        Args:
            epoch: the epoch to go to; deprecated.
        """
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _check_order(self) -> None:
        """Warn if the scheduler's first step comes before the optimizer's."""
        optimizer = self.optimizer
        replaced = optimizer.__dict__.get("step")
        if replaced is not optimizer._step_when_scheduled:
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                "initialization. Please, make sure to call `optimizer.step()` before "
                f"`lr_scheduler.step()`. {_MORE}",
                UserWarning,
                stacklevel=3,
            )
        elif not optimizer._opt_called and replaced is None:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch "
                "1.1.0 and later, you should call them in the opposite order: `optimizer.step()` "
                "before `lr_scheduler.step()`.  Failure to do this will result in PyTorch skipping "
                f"the first value of the learning rate schedule. {_MORE}",
                UserWarning,
                stacklevel=3,
            )

    def _update_lr(self, epoch: int | None = None) -> None:
        self._get_lr_called_within_step = True
        try:
            self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
            closed = getattr(self, "_get_closed_form_lr", None)
            rates = self.get_lr() if epoch is None or closed is None else closed()
        finally:
            self._get_lr_called_within_step = False
        self._set(rates)

    def _set(self, rates: list[Any]) -> None:
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            set_value(group, "lr", lr)
        self._last_lr = values_of(self.optimizer, "lr")

    def _warn_unless_stepping(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def state_dict(self) -> dict[str, Any]:
        """A dictionary of everything except the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state.

        Args:
            state_dict: what ``state_dict`` returned.
        """
        self.__dict__.update(state_dict)


def check_optimizer(optimizer: Any) -> None:
    """Raise a TypeError for anything but an optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def copied(value: Any) -> Any:
    """A copy of an option of a group, since tensors are written in place later."""
    return value.clone() if isinstance(value, Tensor) else value


def values_of(optimizer: Optimizer, key: str) -> list[Any]:
    """The value of an option in all groups."""
    return [copied(group[key]) for group in optimizer.param_groups]


def set_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Set an option of a group. A tensor is written in place."""
    if not isinstance(group[key], Tensor):
        group[key] = value
        return
    with no_grad():
        group[key].fill_(value.squeeze() if isinstance(value, Tensor) else value)


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """A value for each group, from a list or from one value for all."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        value = [value] * count
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} "
            f"values, param_groups has {count}."
        )
    return [copied(x) for x in value]


def state_of(function: Callable[..., Any] | None) -> dict[str, Any] | None:
    """The part of a user's function that is saved: the attributes of a callable object."""
    if function is None or isinstance(function, types.FunctionType):
        return None
    return function.__dict__.copy()
