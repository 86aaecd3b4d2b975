"""Schedulers that raise and lower the learning rate in cycles, and the momentum inversely."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from retrograd.optim.lr_scheduler._base import (
    LRScheduler,
    check_optimizer,
    per_group,
    set_value,
    state_of,
)
from retrograd.optim.optimizer import Optimizer


class _Cycling(LRScheduler):
    """A scheduler that may change momentum too: ``momentum``, or the first of ``betas``."""

    use_beta1: bool

    def _begin_momentum(self, base: Any, largest: Any, last_epoch: int) -> tuple[Any, Any]:
        """Start the groups with the largest momentum; the two bounds for each group."""
        optimizer = self.optimizer
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
            )
        self.use_beta1 = "betas" in optimizer.defaults
        bases = per_group("base_momentum", optimizer, base)
        maxima = per_group("max_momentum", optimizer, largest)
        if last_epoch == -1:
            for low, high, group in zip(bases, maxima, optimizer.param_groups, strict=True):
                self._set_momentum(group, high)
                group["max_momentum"], group["base_momentum"] = high, low
        return bases, maxima

    def _set_momentum(self, group: dict[str, Any], momentum: Any) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class CyclicLR(_Cycling):
    """Cycle the learning rate between ``base_lr`` and ``max_lr``.

    Args:
        base_lr: lower bound, or a list with one for each group.
        max_lr: upper bound, likewise.
        step_size_up: number of steps from the lower to the upper bound.
        step_size_down: number of steps back; ``step_size_up`` by default.
        mode: "triangular", "triangular2" (the amplitude is halved after each cycle) or "exp_range"
            (it is multiplied by ``gamma`` after each step).
        gamma: factor for "exp_range".
        scale_fn: function for the amplitude, in place of ``mode``.
        scale_mode: whether ``scale_fn`` takes the "cycle" or the number of "iterations".
        cycle_momentum: cycle the momentum in the opposite direction.
        base_momentum: lower bound of the momentum.
        max_momentum: upper bound of the momentum.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
        >>> Scheduler = torch.optim.lr_scheduler.CyclicLR
        >>> scheduler = Scheduler(optimizer, base_lr=0.0, max_lr=1.0, step_size_up=2)
        >>> rates = []
        >>> for _ in range(5):
        ...     rates += scheduler.get_last_lr()
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """

    def __init__(
        self, optimizer: Optimizer, base_lr: Any, max_lr: Any, step_size_up: int = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle",
        cycle_momentum: bool = True, base_momentum: Any = 0.8, max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_value(group, "lr", lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._begin_momentum(
                base_momentum, max_momentum, last_epoch
            )
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The factor of the amplitude.

        Args:
            x: number of the cycle or of the step, as ``scale_mode`` says.
        """
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return float(1 / 2.0 ** (x - 1) if self.mode == "triangular2" else self.gamma**x)

    def get_lr(self) -> list[Any]:
        self._warn_unless_stepping()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        rising = x <= self.step_ratio
        height = x / self.step_ratio if rising else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.base_momentums, self.max_momentums, strict=True)
            momentums = [high - (high - low) * height * scale for low, high in bounds]
            for group, momentum in zip(self.optimizer.param_groups, momentums, strict=True):
                self._set_momentum(group, momentum)
        pairs = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * height * scale for low, high in pairs]

    def state_dict(self) -> dict[str, Any]:
        """A dictionary of everything except the optimizer and functions."""
        return {**super().state_dict(), "_scale_fn_custom": state_of(self._scale_fn_custom)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state = dict(state_dict)
        of_function = state.pop("_scale_fn_custom", None)
        super().load_state_dict(state)
        if of_function is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(of_function)


def _cosine(start: Any, end: Any, part: float) -> Any:
    return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)


def _linear(start: Any, end: Any, part: float) -> Any:
    return (end - start) * part + start


_ANNEALING = {"cos": _cosine, "linear": _linear}


class OneCycleLR(_Cycling):
    """One cycle: increase the learning rate to ``max_lr``, then decrease it to nearly zero.

    Step it after each batch.

    Args:
        max_lr: the maximum, or a list with one for each group.
        total_steps: number of steps of the cycle.
        epochs: number of epochs, if ``total_steps`` is absent.
        steps_per_epoch: number of steps per epoch, likewise.
        pct_start: share of the steps in which the rate increases.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: cycle the momentum in the opposite direction.
        base_momentum: lower bound of the momentum.
        max_momentum: upper bound of the momentum.
        div_factor: the initial rate is ``max_lr / div_factor``.
        final_div_factor: the final rate is the initial one divided by this.
        three_phase: decrease to the initial rate first, then to the final one.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
        >>> Scheduler = torch.optim.lr_scheduler.OneCycleLR
        >>> scheduler = Scheduler(optimizer, max_lr=1.0, total_steps=10)
        >>> rates = []
        >>> for _ in range(9):
        ...     rates.append(round(scheduler.get_last_lr()[0], 2))
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [0.04, 0.52, 1.0, 0.95, 0.81, 0.61, 0.39, 0.19, 0.05]
    """

    def __init__(
        self, optimizer: Optimizer, max_lr: Any, total_steps: int | None = None,
        epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
        anneal_strategy: str = "cos", cycle_momentum: bool = True, base_momentum: Any = 0.85,
        max_momentum: Any = 0.95, div_factor: float = 25.0, final_div_factor: float = 1e4,
        three_phase: bool = False, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _count_steps(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        if anneal_strategy not in _ANNEALING:
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        max_lrs = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for high, group in zip(max_lrs, optimizer.param_groups, strict=True):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._begin_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_unless_stepping()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        begin, phase = 0.0, self._schedule_phases[0]
        for following in self._schedule_phases[1:]:
            if step <= phase["end_step"]:
                break
            begin, phase = phase["end_step"], following
        part = (step - begin) / (phase["end_step"] - begin)
        between = _ANNEALING[self._anneal_func_type]
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(between(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, between(*ends, part))
        return rates


def _count_steps(total: Any, epochs: Any, per_epoch: Any) -> int:
    if total is None and (epochs is None or per_epoch is None):
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    named = (
        {"total_steps": total}
        if total is not None
        else {"epochs": epochs, "steps_per_epoch": per_epoch}
    )
    count = 1
    for name, value in named.items():
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
        count *= value
    return count


def _phases(steps: int, part: float, three: bool) -> list[dict[str, Any]]:
    """Where each phase ends, and what it leads from and to."""
    up = (float(part * steps) - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum")
    if three:
        down = (float(2 * part * steps) - 2, "max_lr", "initial_lr", "base_momentum",
                "max_momentum")  # fmt: skip
        out = (steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum")
        phases: list[tuple[Any, ...]] = [up, down, out]
    else:
        phases = [up, (steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
    names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
    return [dict(zip(names, phase, strict=True)) for phase in phases]
