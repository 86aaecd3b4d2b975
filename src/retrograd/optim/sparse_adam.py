"""``SparseAdam``: Adam for sparse gradients, such as those of embeddings."""

from __future__ import annotations

import math
from typing import Any

from retrograd.autograd.grad_mode import enable_grad, no_grad
from retrograd.optim._rules import value_of
from retrograd.optim.optimizer import Optimizer, ParamsT
from retrograd.tensor._like import zeros_like
from retrograd.tensor._memory_formats import strided
from retrograd.tensor._tensor import Tensor


class SparseAdam(Optimizer):
    """Adam for sparse gradients: updates only the entries that have a gradient, and their moments.

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
        sparse = [
            [i, j]
            for i, group in enumerate(self.param_groups)
            for j, param in enumerate(group["params"])
            if param.layout != strided
        ]
        if sparse:
            raise ValueError(
                f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors"
            )

    def step(self, closure: Any = None) -> Any:
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        each = [(p, g) for g in self.param_groups for p in g["params"] if p.grad is not None]
        if any([not param.grad.is_sparse for param, _ in each]):
            raise RuntimeError(
                "SparseAdam does not support dense gradients, please consider Adam instead"
            )
        with no_grad():
            for param, group in each:
                self._update(param, group)
        return loss

    def _update(self, param: Any, group: dict[str, Any]) -> None:
        state, (beta1, beta2) = self.state[param], group["betas"]
        if not state:
            state["step"] = 0
            state["exp_avg"], state["exp_avg_sq"] = zeros_like(param), zeros_like(param)
        state["step"] += 1
        grad = param.grad.coalesce()
        if not grad._nnz():
            return
        values = -grad.values() if group["maximize"] else grad.values()
        first, second = (state[n].sparse_mask(grad).values() for n in ("exp_avg", "exp_avg_sq"))
        steps = [(values - first) * (1 - beta1), (values * values - second) * (1 - beta2)]
        for name, step in zip(("exp_avg", "exp_avg_sq"), steps, strict=True):
            state[name].add_(grad._with(step))
        first, second = first + steps[0], second + steps[1]
        corrections = 1 - beta1 ** state["step"], 1 - beta2 ** state["step"]
        size = value_of(group["lr"]) * math.sqrt(corrections[1]) / corrections[0]
        param.add_(grad._with(first / second.sqrt_().add_(group["eps"])), alpha=-size)
