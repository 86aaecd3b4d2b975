"""Adam and related optimizers."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.optim._rules import (
    Group,
    RuleOptimizer,
    State,
    Update,
    advance,
    check_betas,
    check_lr,
    check_not_negative,
    memory,
    number,
    options,
    rule_of,
    value_of,
    zeros_like,
)
from retrograd.optim.optimizer import ParamsT
from retrograd.tensor._tensor import Tensor


class _Averaging(RuleOptimizer):
    """An optimizer with averages of the gradient and of its magnitude as state."""

    _names: tuple[str, ...] = ("exp_avg", "exp_avg_sq")

    def _initial_state(self, group: Group, param: Any) -> State:
        return {"step": number(0, group), **{name: zeros_like(param) for name in self._names}}


def _decays(group: Group, lr: Any) -> tuple[float | None, float | None]:
    """The two forms of weight decay: a term of the gradient, and a factor of the parameter."""
    decay = value_of(group["weight_decay"])
    if decay == 0:
        return None, None
    if group.get("decoupled_weight_decay"):
        return None, float(1 - lr * decay)
    return float(decay), None


class Adam(_Averaging):
    """Adam: adaptive estimates of the first and second moments of the gradient.

    With ``m`` and ``v`` the exponential averages of the gradient and of its square, both corrected
    for their start at zero, a step is ``lr * m / (sqrt(v) + eps)``.

    Args:
        betas: decay rates of the two averages.
        amsgrad: use the largest ``v`` so far.

    Example:
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = torch.optim.Adam([x], lr=0.1)
        >>> (x * x).sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([0.9000, 1.9000], requires_grad=True)
    """

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, amsgrad: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        _check_tensor("lr", lr, foreach, capturable)
        check_not_negative(lr=lr, eps=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        if not any(all(isinstance(b, kind) for b in betas) for kind in (float, Tensor)):
            raise ValueError("betas must be either both floats or both Tensors")
        _check_tensor("betas[0]", betas[0], foreach, capturable)
        _check_tensor("betas[1]", betas[1], foreach, capturable)
        betas = (_as_scalar(betas[0]), _as_scalar(betas[1]))
        super().__init__(params, options(locals()))

    def _initial_state(self, group: Group, param: Any) -> State:
        state = super()._initial_state(group, param)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(param)
        return state

    def _check_sparse(self, group: Group) -> None:
        raise RuntimeError(
            "Adam does not support sparse gradients, please consider SparseAdam instead"
        )

    def _rule(self, group: Group) -> Update:
        lr, beta1, beta2 = (value_of(x) for x in (group["lr"], *group["betas"]))
        eps, maximize = group["eps"], bool(group["maximize"])
        decays = _decays(group, lr)

        def numbers(count: float) -> tuple[Any, ...]:
            # sqrt(v / c) + eps is (sqrt(v) + eps * sqrt(c)) / sqrt(c): one pass less.
            size, root = lr / (1 - beta1**count), (1 - beta2**count) ** 0.5
            return (float(size * root), float(1 - beta1), float(beta2), float(1 - beta2),
                    float(eps * root), *decays, maximize)  # fmt: skip

        largest = "max_exp_avg_sq" if group["amsgrad"] else None
        return rule_of(arrays.updates.adam, ("exp_avg", "exp_avg_sq", largest), numbers)


def _as_scalar(beta: Any) -> Any:
    return beta.squeeze() if isinstance(beta, Tensor) else beta


def _check_tensor(name: str, value: Any, foreach: bool | None, capturable: bool) -> None:
    """Raise a ValueError for an option that must not be a tensor, or not one with several elements.
    """
    if not isinstance(value, Tensor):
        return
    if foreach and not capturable:
        raise ValueError(
            f"{name} as a Tensor is not supported for capturable=False and foreach=True"
        )
    if value.numel() != 1:
        raise ValueError(f"Tensor {name} must be 1-element")


class AdamW(Adam):
    """Adam with decoupled weight decay: parameters are multiplied by ``1 - lr * weight_decay``.

    Args:
        weight_decay: strength of the decay.
        amsgrad: use the largest average of squares so far.

    Example:
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = torch.optim.AdamW([x], lr=0.1, weight_decay=0.5)
        >>> (x * x).sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([0.8500, 1.8000], requires_grad=True)
    """

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *,
        maximize: bool = False, foreach: bool | None = None, capturable: bool = False,
        differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
            capturable=capturable, differentiable=differentiable, fused=fused,
            decoupled_weight_decay=True,
        )  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


class Adamax(_Averaging):
    """Adamax: Adam with the infinity norm, a decaying maximum instead of the average of squares.

    Args:
        betas: decay rates of the average and of the maximum.

    Example:
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = torch.optim.Adamax([x], lr=0.1)
        >>> (x * x).sum().backward()
        >>> optimizer.step()
        >>> optimizer.state[x]["exp_inf"]
        tensor([2., 4.])
    """

    _names = ("exp_avg", "exp_inf")

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, foreach: bool | None = None, *,
        maximize: bool = False, differentiable: bool = False, capturable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_not_negative(lr=lr, eps=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        super().__init__(params, options(locals()))

    def _rule(self, group: Group) -> Update:
        lr, (beta1, beta2) = value_of(group["lr"]), group["betas"]
        eps, maximize = float(group["eps"]), bool(group["maximize"])
        decay, _ = _decays(group, lr)

        def numbers(count: float) -> tuple[Any, ...]:
            size = float(lr / (1 - beta1**count))
            return (size, float(1 - beta1), float(beta2), eps, decay, maximize)

        return rule_of(arrays.updates.adamax, self._names, numbers)


class NAdam(_Averaging):
    """Adam with Nesterov momentum.

    Args:
        momentum_decay: how fast the momentum approaches ``betas[0]``.

    Example:
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = torch.optim.NAdam([x], lr=0.1)
        >>> (x * x).sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([0.8944, 1.8944], requires_grad=True)
    """

    _captured = "params, mu_products and state_steps"

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_not_negative(lr=lr, eps=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay, momentum_decay=momentum_decay)
        super().__init__(params, options(locals()))

    def _initial_state(self, group: Group, param: Any) -> State:
        step, *averages = super()._initial_state(group, param).items()
        return dict([step, ("mu_product", number(1, group)), *averages])

    def _rule(self, group: Group) -> Update:
        updates = arrays.updates
        lr, (beta1, beta2), fading = value_of(group["lr"]), group["betas"], group["momentum_decay"]
        rests, eps = (float(1 - beta1), float(beta2), float(1 - beta2)), float(group["eps"])
        decays, maximize = _decays(group, lr), bool(group["maximize"])

        def rule(param: Raw, grad: Raw, state: State) -> None:
            count = advance(state)
            mu, mu_next = (beta1 * (1.0 - 0.5 * 0.96 ** (n * fading)) for n in (count, count + 1))
            # A tensor's arithmetic, in its precision.
            product = memory(state["mu_product"])
            product *= mu
            product_now = float(product)
            numbers = (
                float(lr * (1.0 - mu) / (1.0 - product_now)),
                float(lr * mu_next / (1.0 - product_now * mu_next)),
                *rests, (1 - beta2**count) ** -0.5, eps, *decays, maximize,
            )  # fmt: skip
            operands = (param, grad, memory(state["exp_avg"]), memory(state["exp_avg_sq"]))
            updates.update(updates.nadam, operands, numbers)

        return rule


class RAdam(_Averaging):
    """Rectified Adam: plain momentum until the variance of the average of squares is small enough.

    Example:
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = torch.optim.RAdam([x], lr=0.1)
        >>> (x * x).sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([0.8000, 1.6000], requires_grad=True)
    """

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_not_negative(lr=lr, eps=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        super().__init__(params, options(locals()))

    def _rule(self, group: Group) -> Update:
        lr, (beta1, beta2) = value_of(group["lr"]), group["betas"]
        eps, decays, maximize = float(group["eps"]), _decays(group, lr), bool(group["maximize"])
        longest = 2 / (1 - beta2) - 1

        def numbers(count: float) -> tuple[Any, ...]:
            known = 1 - beta2**count
            length = longest - 2 * count * beta2**count / known
            size, trusted = lr / (1 - beta1**count), length > 5.0
            if trusted:
                rectified = (length - 4) * (length - 2) * longest
                rectified /= (longest - 4) * (longest - 2) * length
                size = size * (rectified * known) ** 0.5
            return (float(size), float(1 - beta1), float(beta2), float(1 - beta2),
                    eps if trusted else None, *decays, maximize)  # fmt: skip

        return rule_of(arrays.updates.radam, self._names, numbers)


__all__ = ["Adam", "AdamW", "Adamax", "NAdam", "RAdam"]
