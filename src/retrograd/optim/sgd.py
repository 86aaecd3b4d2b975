"""Stochastic gradient descent, plain and averaged."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.autograd._wrap import wrap
from retrograd.optim._rules import (
    Group,
    RuleOptimizer,
    State,
    Update,
    advance,
    check_lr,
    check_not_negative,
    memory,
    number,
    options,
    set_number,
    value_of,
    zeros_like,
)
from retrograd.optim.optimizer import ParamsT
from retrograd.tensor._tensor import Tensor


class SGD(RuleOptimizer):
    """Stochastic gradient descent, optionally with momentum.

    With momentum, ``b = momentum * b + (1 - dampening) * grad`` replaces the gradient; with
    ``nesterov``, ``grad + momentum * b`` does.

    Args:
        momentum: decay rate of the accumulated gradient ``b``.
        dampening: reduces the weight of the current gradient in ``b``.
        nesterov: use Nesterov momentum.
        differentiable: not supported.

    Example:
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = torch.optim.SGD([x], lr=0.1, momentum=0.9)
        >>> for _ in range(2):
        ...     optimizer.zero_grad()
        ...     (x * x).sum().backward()
        ...     optimizer.step()
        >>> x
        tensor([0.4600, 0.9200], requires_grad=True)
    """

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-3, momentum: float = 0, dampening: float = 0,
        weight_decay: float | Tensor = 0, nesterov: bool = False, *, maximize: bool = False,
        foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_not_negative(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, options(locals()))

    def _keeps_state(self, group: Group) -> bool:
        return bool(group["momentum"] != 0)

    def _initial_state(self, group: Group, param: Any) -> State:
        return {"momentum_buffer": None}

    def _check_sparse(self, group: Group) -> None:
        if group["fused"]:
            raise RuntimeError("`_fused_sgd` does not support sparse gradients")
        if group["weight_decay"]:
            raise RuntimeError(
                "add(sparse, dense) is not supported. Use add(dense, sparse) instead. Weight decay "
                "needs a dense gradient: set weight_decay=0 for parameters with sparse gradients."
            )

    def _sparse_update(self, group: Group, param: Any, grad: Any, state: State) -> None:
        lr, momentum = (value_of(group[name]) for name in ("lr", "momentum"))
        if momentum:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = grad.clone()
            else:
                buffer = (buffer * momentum).add(grad, alpha=1 - group["dampening"])
            # Or it would grow by the rows of every step.
            buffer = state["momentum_buffer"] = buffer.coalesce()
            grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        param.add_(grad, alpha=-lr)

    def _rule(self, group: Group) -> Update:
        updates = arrays.updates
        lr, momentum, decay = (value_of(group[n]) for n in ("lr", "momentum", "weight_decay"))
        numbers = (float(lr), float(momentum), float(1 - group["dampening"]),
                   float(decay) if decay else None)  # fmt: skip
        flags = (bool(group["nesterov"]), bool(group["maximize"]))
        has_momentum = momentum != 0

        def rule(param: Raw, grad: Raw, state: State) -> None:
            buffer, first = None, False
            if has_momentum:
                kept = state.get("momentum_buffer")
                first = kept is None
                if kept is None:
                    kept = state["momentum_buffer"] = wrap(updates.zeros_like(param))
                buffer = memory(kept)
            updates.update(updates.sgd, (param, grad, buffer), (*numbers, first, *flags))

        return rule


class ASGD(RuleOptimizer):
    """Averaged stochastic gradient descent.

    ``state[param]["ax"]`` is the average of the parameter's values since step ``t0``.

    Args:
        lr: initial learning rate.
        lambd: rate at which parameters decay and the learning rate falls.
        alpha: exponent of the learning rate's decay.
        t0: step at which averaging begins.

    Example:
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = torch.optim.ASGD([x], lr=0.1)
        >>> (x * x).sum().backward()
        >>> optimizer.step()
        >>> optimizer.state[x]["ax"]
        tensor([0.8000, 1.6000])
    """

    _captured = "params, mus, etas, and state_steps"

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-2, lambd: float = 1e-4, alpha: float = 0.75,
        t0: float = 1e6, weight_decay: float = 0, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False, capturable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_not_negative(lr=lr, weight_decay=weight_decay)
        super().__init__(params, options(locals()))

    def _initial_state(self, group: Group, param: Any) -> State:
        lr = value_of(group["lr"])
        return {
            "step": number(0, group), "eta": number(lr, group), "mu": number(1, group),
            "ax": zeros_like(param),
        }  # fmt: skip

    def _rule(self, group: Group) -> Update:
        updates = arrays.updates
        lr, lambd, alpha, t0 = value_of(group["lr"]), group["lambd"], group["alpha"], group["t0"]
        decay = float(group["weight_decay"]) or None
        maximize = bool(group["maximize"])

        def rule(param: Raw, grad: Raw, state: State) -> None:
            count = advance(state)
            eta, mu = float(state["eta"]._data), float(state["mu"]._data)
            numbers = (eta, 1 - lambd * eta, mu if mu != 1 else None, decay, maximize)
            updates.update(updates.asgd, (param, grad, memory(state["ax"])), numbers)
            # Both are kept in the default precision, also by a state that was loaded into another.
            eta, mu = lr / ((1 + lambd * lr * count) ** alpha), 1 / max(1, count - t0)
            set_number(state["eta"], number(eta, group).item() if type(eta) is float else eta)
            set_number(state["mu"], number(mu, group).item())

        return rule


__all__ = ["ASGD", "SGD"]
