"""Optimizers with a step size per element that depends on past gradients."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.autograd._wrap import wrap
from retrograd.optim._rules import (
    Group,
    RuleOptimizer,
    State,
    Update,
    advance,
    check_lr,
    check_not_negative,
    number,
    options,
    rule_of,
    value_of,
    zeros_like,
)
from retrograd.optim.optimizer import ParamsT
from retrograd.tensor._tensor import Tensor


class RMSprop(RuleOptimizer):
    """RMSprop: the gradient, divided by the root of a moving average of its square.

    Args:
        alpha: decay rate of the average.
        momentum: momentum.
        centered: subtract the square of the average gradient, which estimates the variance.

    Example:
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = torch.optim.RMSprop([x], lr=0.01)
        >>> (x * x).sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([0.9000, 1.9000], requires_grad=True)
    """

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
        weight_decay: float = 0, momentum: float = 0, centered: bool = False,
        capturable: bool = False, foreach: bool | None = None, maximize: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_not_negative(
            lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha
        )
        super().__init__(params, options(locals()))

    def _initial_state(self, group: Group, param: Any) -> State:
        state = {"step": number(0, group), "square_avg": zeros_like(param)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(param)
        if group["centered"]:
            state["grad_avg"] = zeros_like(param)
        return state

    def _rule(self, group: Group) -> Update:
        lr, alpha, momentum = float(value_of(group["lr"])), group["alpha"], group["momentum"]
        numbers = (
            lr, float(alpha), float(1 - alpha), float(group["eps"]), float(momentum),
            float(group["weight_decay"]) or None, bool(group["maximize"]),
        )  # fmt: skip
        average = "grad_avg" if group["centered"] else None
        buffer = "momentum_buffer" if momentum > 0 else None
        names = ("square_avg", average, buffer)
        return rule_of(arrays.updates.rmsprop, names, lambda count: numbers)


class Adagrad(RuleOptimizer):
    """Adagrad: the gradient, divided by the root of the sum of its past squares.

    Args:
        lr_decay: decay of the learning rate, ``lr / (1 + (step - 1) * lr_decay)``.
        initial_accumulator_value: initial value of the sum.
        differentiable: not supported.

    Example:
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = torch.optim.Adagrad([x], lr=0.1)
        >>> (x * x).sum().backward()
        >>> optimizer.step()
        >>> optimizer.state[x]["sum"]
        tensor([ 4., 16.])
    """

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-2, lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
        maximize: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_not_negative(
            lr=lr, lr_decay=lr_decay, weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value, eps=eps,
        )  # fmt: skip
        super().__init__(params, options(locals()))
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param] = self._initial_state(group, param)

    def _initial_state(self, group: Group, param: Any) -> State:
        begin = self.defaults["initial_accumulator_value"]
        total = arrays.updates.filled_like(arrays.writable(param._data), begin)
        return {"step": number(0, group), "sum": wrap(total)}

    def _check_sparse(self, group: Group) -> None:
        if group["fused"]:
            raise RuntimeError("`fused` does not support sparse grad or complex param")
        if group["weight_decay"]:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")

    def _sparse_update(self, group: Group, param: Any, grad: Any, state: State) -> None:
        count = advance(state)
        rows, total = grad.coalesce(), state["sum"]
        total.add_(rows * rows)
        steps = rows.values() / total.sparse_mask(rows).values().sqrt().add_(group["eps"])
        lr = value_of(group["lr"]) / (1 + (count - 1) * group["lr_decay"])
        param.add_(rows._with(steps), alpha=-lr)

    def _rule(self, group: Group) -> Update:
        lr, lr_decay, eps = value_of(group["lr"]), group["lr_decay"], float(group["eps"])
        decay, maximize = float(group["weight_decay"]) or None, bool(group["maximize"])

        def numbers(count: float) -> tuple[Any, ...]:
            return (float(lr / (1 + (count - 1) * lr_decay)), eps, decay, maximize)

        return rule_of(arrays.updates.adagrad, ("sum",), numbers)


class Adadelta(RuleOptimizer):
    """Adadelta: the gradient, scaled by the ratio of the RMS of past updates and of past gradients.

    Args:
        lr: factor of the step.
        rho: decay rate of the averages.
        eps: added to the averages.

    Example:
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = torch.optim.Adadelta([x])
        >>> (x * x).sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([0.9968, 1.9968], requires_grad=True)
    """

    _supports_xla = False

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1.0, rho: float = 0.9, eps: float = 1e-6,
        weight_decay: float = 0, foreach: bool | None = None, *, capturable: bool = False,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_not_negative(lr=lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_not_negative(eps=eps, weight_decay=weight_decay)
        super().__init__(params, options(locals()))

    def _initial_state(self, group: Group, param: Any) -> State:
        return {
            "step": number(0, group), "square_avg": zeros_like(param),
            "acc_delta": zeros_like(param),
        }  # fmt: skip

    def _rule(self, group: Group) -> Update:
        rho = group["rho"]
        numbers = (
            float(value_of(group["lr"])), float(rho), float(1 - rho), float(group["eps"]),
            float(group["weight_decay"]) or None, bool(group["maximize"]),
        )  # fmt: skip
        names = ("square_avg", "acc_delta")
        return rule_of(arrays.updates.adadelta, names, lambda count: numbers)


class Rprop(RuleOptimizer):
    """Resilient backpropagation: steps by the sign of the gradient, with a step size per element.

    The step size grows while the sign stays the same and shrinks when it changes.

    Args:
        lr: initial step size.
        etas: factors by which the step size shrinks and grows.
        step_sizes: smallest and largest step size.

    Example:
        >>> x = torch.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = torch.optim.Rprop([x], lr=0.1)
        >>> (x * x).sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False,
        foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_not_negative(lr=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, options(locals()))

    def _initial_state(self, group: Group, param: Any) -> State:
        data, lr = arrays.writable(param._data), float(value_of(group["lr"]))
        sizes = wrap(arrays.updates.filled_like(data, lr))
        return {"step": number(0, group), "prev": zeros_like(param), "step_size": sizes}

    def _rule(self, group: Group) -> Update:
        numbers = (*(float(x) for x in (*group["etas"], *group["step_sizes"])),
                   bool(group["maximize"]))  # fmt: skip
        return rule_of(arrays.updates.rprop, ("prev", "step_size"), lambda count: numbers)


__all__ = ["Adadelta", "Adagrad", "RMSprop", "Rprop"]
