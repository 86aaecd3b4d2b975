"""Adam and its kin: steps along an average of gradients, in units of their spread."""

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
    rule_of,
    value_of,
    zeros_like,
)
from retrograd.tensor._tensor import Tensor


class _Averaging(RuleOptimizer):
    """An optimizer whose state is an average of gradients and one of their size."""

    _names: tuple[str, ...] = ("exp_avg", "exp_avg_sq")

    def _begin(self, group: Group, param: Any) -> State:
        return {"step": number(0, group), **{name: zeros_like(param) for name in self._names}}


def _decays(group: Group, lr: Any) -> tuple[float | None, float | None]:
    """The two forms of weight decay: what is added to the gradient, times the parameter, and what
    the parameter is multiplied by."""
    decay = value_of(group["weight_decay"])
    if decay == 0:
        return None, None
    if group.get("decoupled_weight_decay"):
        return None, float(1 - lr * decay)
    return float(decay), None


class Adam(_Averaging):
    """Steps along the average of gradients, divided by the root of the average of their squares.

    >>> import retrograd as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adam([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.9000, 1.9000], requires_grad=True)
    """

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999),
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
        for i, beta in enumerate(betas):
            _check_tensor(f"betas[{i}]", beta, foreach, capturable)
        defaults = {
            "lr": lr, "betas": tuple(b.squeeze() if isinstance(b, Tensor) else b for b in betas),
            "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _begin(self, group: Group, param: Any) -> State:
        state = super()._begin(group, param)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(param)
        return state

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


def _check_tensor(name: str, value: Any, foreach: bool | None, capturable: bool) -> None:
    """ValueError for an option that is a tensor where it must not be, or of several elements."""
    if not isinstance(value, Tensor):
        return
    if foreach and not capturable:
        raise ValueError(
            f"{name} as a Tensor is not supported for capturable=False and foreach=True"
        )
    if value.numel() != 1:
        raise ValueError(f"Tensor {name} must be 1-element")


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters by themselves, apart from the gradient.

    >>> import retrograd as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.AdamW([x], lr=0.1, weight_decay=0.5)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.8500, 1.8000], requires_grad=True)
    """

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999),
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
    """Adam with the largest gradient, which fades, in place of the average of squares.

    >>> import retrograd as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adamax([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> optimizer.state[x]["exp_inf"]
    tensor([2., 4.])
    """

    _names = ("exp_avg", "exp_inf")

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, foreach: bool | None = None, *,
        maximize: bool = False, differentiable: bool = False, capturable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_not_negative(lr=lr, eps=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _rule(self, group: Group) -> Update:
        lr, (beta1, beta2) = value_of(group["lr"]), group["betas"]
        eps, maximize = float(group["eps"]), bool(group["maximize"])
        decay, _ = _decays(group, lr)

        def numbers(count: float) -> tuple[Any, ...]:
            size = float(lr / (1 - beta1**count))
            return (size, float(1 - beta1), float(beta2), eps, decay, maximize)

        return rule_of(arrays.updates.adamax, self._names, numbers)


class NAdam(_Averaging):
    """Adam with Nesterov's momentum.

    >>> import retrograd as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.NAdam([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.8944, 1.8944], requires_grad=True)
    """

    _captured = "params, mu_products and state_steps"

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_not_negative(lr=lr, eps=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay, momentum_decay=momentum_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _begin(self, group: Group, param: Any) -> State:
        step, *averages = super()._begin(group, param).items()
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
    """Adam that does not trust the average of squares before enough of them are known.

    >>> import retrograd as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.RAdam([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.8000, 1.6000], requires_grad=True)
    """

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_not_negative(lr=lr, eps=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

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
