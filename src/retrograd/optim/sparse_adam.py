"""Adam for tables of which each step uses a few rows."""

from __future__ import annotations

import math
from typing import Any

from retrograd.autograd.grad_mode import enable_grad, no_grad
from retrograd.optim.optimizer import Optimizer, ParamsT
from retrograd.tensor._like import zeros_like
from retrograd.tensor._tensor import Tensor


class SparseAdam(Optimizer):
    """Adam that changes only the rows of a parameter that have a gradient, and their averages.

    Gradients of embeddings are dense here: the rows are those whose gradient is not zero.

    Example:
        >>> table = torch.nn.Embedding(3, 2, sparse=True)
        >>> optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)
        >>> before = table.weight.detach().clone()
        >>> table(torch.tensor([1])).sum().backward()
        >>> optimizer.step()
        >>> (table.weight != before).any(1)
        tensor([False,  True, False])
    """

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, maximize: bool = False,
    ) -> None:  # fmt: skip
        if not lr > 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            if not 0 <= beta < 1:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        options = {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize}
        super().__init__(params, options)

    def step(self, closure: Any = None) -> Any:
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                for param in group["params"]:
                    if param.grad is not None:
                        self._update(param, group)
        return loss

    def _update(self, param: Any, group: dict[str, Any]) -> None:
        state, (beta1, beta2) = self.state[param], group["betas"]
        if not state:
            state["step"] = 0
            state["exp_avg"], state["exp_avg_sq"] = zeros_like(param), zeros_like(param)
        state["step"] += 1
        rows = (param.grad != 0).reshape(len(param), -1).any(1).nonzero()[:, 0]
        values = -param.grad[rows] if group["maximize"] else param.grad[rows]
        first = state["exp_avg"][rows].mul_(beta1).add_(values, alpha=1 - beta1)
        second = state["exp_avg_sq"][rows].mul_(beta2).add_(values * values, alpha=1 - beta2)
        state["exp_avg"][rows], state["exp_avg_sq"][rows] = first, second
        corrections = 1 - beta1 ** state["step"], 1 - beta2 ** state["step"]
        size = group["lr"] * math.sqrt(corrections[1]) / corrections[0]
        param.index_add_(0, rows, first.div_(second.sqrt_().add_(group["eps"])), alpha=-size)
