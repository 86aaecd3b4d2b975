"""Optimizers for matrices: Adafactor and Muon."""

from __future__ import annotations

import math
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.optim._rules import (
    Group,
    RuleOptimizer,
    State,
    Update,
    advance,
    check_lr,
    memory,
    number,
    options,
    value_of,
    zeros_beside,
    zeros_like,
)
from retrograd.optim.optimizer import ParamsT
from retrograd.tensor._tensor import Tensor


def _check_at_least(least: int, name: str, value: Any) -> None:
    if not value >= least:
        raise ValueError(f"{name} should be >= {least} but is: {value}")


def _check_real(self: Any, param: Any) -> None:
    if param.is_complex():
        raise RuntimeError(f"{type(self).__name__} does not support complex parameters")


class Adafactor(RuleOptimizer):
    """Adafactor: adaptive steps with little memory.

    Of the squared gradients of a matrix, only the averages over rows and columns are stored.

    Args:
        lr: largest learning rate.
        beta2_decay: exponent of the step count in the decay rate of the averages.
        eps: lower bounds of the squared gradient and of the root mean square of a parameter.
        d: bound of the root mean square of an update.
        weight_decay: strength of decoupled weight decay.

    Example:
        >>> x = torch.ones(2, 3, requires_grad=True)
        >>> optimizer = torch.optim.Adafactor([x], lr=0.1)
        >>> (x * x).sum().backward()
        >>> optimizer.step()
        >>> [tuple(optimizer.state[x][name].shape) for name in ("row_var", "col_var")]
        [(2, 1), (1, 3)]
    """

    _elementwise = False

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0,
        *, foreach: bool | None = None, maximize: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        _check_at_least(0, "Learning rate", lr)
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None:
            _check_at_least(0, "epsilon1", eps[0])
        _check_at_least(0, "epsilon2", eps[1])
        _check_at_least(1, "Clipping threshold d", d)
        _check_at_least(0, "weight_decay", weight_decay)
        super().__init__(params, options(locals()))

    def _check_groups(self) -> None:
        super()._check_groups()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    _check_real(self, param)

    def _initial_state(self, group: Group, param: Any) -> State:
        shape = tuple(param.shape)
        state = {"step": number(0, group)}
        if len(shape) < 2:
            return {**state, "variance": zeros_like(param)}
        rows, columns = (*shape[:-1], 1), (*shape[:-2], 1, shape[-1])
        state["row_var"] = zeros_beside(param, rows)
        state["col_var"] = zeros_beside(param, columns)
        return state

    def _rule(self, group: Group) -> Update:
        kernel = arrays.updates.adafactor
        lr, decay = value_of(group["lr"]), group["weight_decay"]
        shrink = float(1 - lr * decay) if decay != 0 else None
        eps, least = group["eps"]

        def rule(param: Raw, grad: Raw, state: State) -> None:
            count = advance(state)
            row, column, variance = (
                memory(state[n]) if n in state else None for n in ("row_var", "col_var", "variance")
            )
            numbers = (
                float(min(lr, 1 / count**0.5)), count ** group["beta2_decay"], eps, least,
                group["d"], shrink, bool(group["maximize"]),
            )  # fmt: skip
            arrays.updates.update_whole(kernel, (param, grad, row, column, variance), numbers)

        return rule


class Muon(RuleOptimizer):
    """Muon: momentum for matrices, orthogonalized before each step.

    Meant for the weights of hidden layers. Use another optimizer for biases, embeddings and output
    layers.

    Args:
        params: the parameters, or groups of them: dictionaries with ``params`` and options. All are
            matrices.
        weight_decay: strength of decoupled weight decay.
        momentum: decay rate of the accumulated gradient.
        nesterov: use Nesterov momentum.
        ns_coefficients: coefficients of the Newton-Schulz iteration.
        eps: lower bound of the norm that divides the matrix.
        ns_steps: number of Newton-Schulz iterations.
        adjust_lr_fn: "original" or "match_rms_adamw": how the step depends on the shape.

    Example:
        >>> x = torch.eye(2).requires_grad_()
        >>> optimizer = torch.optim.Muon([x], lr=0.1, weight_decay=0)
        >>> (x * x).sum().backward()
        >>> optimizer.step()
        >>> x.diagonal() < 1
        tensor([True, True])
    """

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-3, weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None,
    ) -> None:  # fmt: skip
        check_lr(lr)
        _check_at_least(0, "Learning rate", lr)
        _check_at_least(0, "momentum", momentum)
        _check_at_least(0, "weight decay", weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, options(locals()))
        for group in self.param_groups:
            for param in group["params"]:
                if param.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{param.size()}"
                    )

    def _check_groups(self) -> None:
        super()._check_groups()
        for group in self.param_groups:
            with_grad = [p for p in group["params"] if p.grad is not None]
            for param in with_grad:
                _check_real(self, param)
                if param.grad.ndim != 2:
                    raise ValueError("Param gradient must be a 2D matrix")
            if with_grad and group["ns_steps"] >= 100:
                raise ValueError(
                    "Number of steps must be less than 100 for computational efficiency"
                )
            if with_grad and len(group["ns_coefficients"]) != 3:
                raise ValueError("Coefficients must be a tuple of exactly 3 values")

    _numbers_by_shape = True

    def _initial_state(self, group: Group, param: Any) -> State:
        return {"momentum_buffer": zeros_like(param)}

    def _rule(self, group: Group) -> Update:
        kernel = arrays.updates.muon
        lr = value_of(group["lr"])
        by_size = group["adjust_lr_fn"] == "match_rms_adamw"
        shrink = float(1 - lr * group["weight_decay"])

        def rule(param: Raw, grad: Raw, state: State) -> None:
            rows, columns = param.shape
            ratio = 0.2 * math.sqrt(max(param.shape)) if by_size else max(1, rows / columns) ** 0.5
            numbers = (
                float(lr * ratio), shrink, group["momentum"], group["nesterov"],
                tuple(group["ns_coefficients"]), group["ns_steps"], group["eps"],
            )  # fmt: skip
            operands = (param, grad, memory(state["momentum_buffer"]))
            arrays.updates.update_whole(kernel, operands, numbers)

        return rule


__all__ = ["Adafactor", "Muon"]
