"""Hooks, options of optimizers and gradients that change between the calls of a compiled step."""

from collections.abc import Callable
from typing import Any

import pytest

import retrograd as torch
from retrograd import nn
from retrograd.nn.modules.module import register_module_forward_hook
from retrograd.optim.optimizer import register_optimizer_step_pre_hook

Step = Callable[..., Any]


def check_steps(
    make: Callable[[Any, Any], Step], between: Callable[[int, Any, Any], None], *args: Any,
    fullgraph: bool = True,
) -> None:  # fmt: skip
    """Compare losses and parameters of 9 eager and compiled steps. ``between`` is called before
    each of them."""
    results = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        optimizer = torch.optim.Adam(model.parameters(), 0.1)
        step = make(model, optimizer)
        run = torch.compile(step, fullgraph=fullgraph) if compiled else step
        values = []
        for i in range(9):
            between(i, model, optimizer)
            others = [x[i % len(x)] for x in args]
            values.append(run(torch.linspace(-1, 1, 6).view(2, 3), *others).item())
            values += [p.tolist() for p in model.parameters()]
        results.append(values)
    assert results[1] == results[0]


def plain_step(model: Any, optimizer: Any) -> Step:
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def halved(parameter: Any) -> None:
    parameter.grad.mul_(0.5)


def doubled(optimizer: Any, args: Any, kwargs: Any) -> None:
    optimizer.param_groups[0]["params"][0].grad.mul_(2)


HOOKS = {
    "of a tensor": lambda model: model[0].weight.register_hook(lambda g: g * 0.5),
    "after accumulation": lambda m: m[0].weight.register_post_accumulate_grad_hook(halved),
    "of all modules": lambda model: register_module_forward_hook(lambda m, a, y: y * 0.5),
    "of all optimizers": lambda model: register_optimizer_step_pre_hook(doubled),
}


@pytest.mark.parametrize("kind", HOOKS)
def test_hooks_that_are_registered_after_the_trace(kind: str) -> None:
    handles: list[Any] = []

    def between(i: int, model: Any, optimizer: Any) -> None:
        if i == 3:
            handles.append(HOOKS[kind](model))
        elif i == 6:
            handles.pop().remove()

    check_steps(plain_step, between)


def test_hooks_of_the_node_that_accumulates_a_gradient() -> None:
    nodes: list[Any] = []

    def between(i: int, model: Any, optimizer: Any) -> None:
        if i == 3:
            weight = model[0].weight
            nodes.append(weight.view_as(weight).grad_fn.next_functions[0][0])
            nodes[-1].register_prehook(lambda grads: (grads[0] * 0.5,))

    with pytest.warns(UserWarning, match="hooks of the node that accumulates the gradient of"):
        check_steps(plain_step, between, fullgraph=False)


def setting_rates(model: Any, optimizer: Any) -> Step:
    step = plain_step(model, optimizer)

    def run(x: Any, rate: float) -> Any:
        for group in optimizer.param_groups:
            group["lr"] = rate
        return step(x)

    return run


def setting_one_rate(model: Any, optimizer: Any) -> Step:
    (group,), step = optimizer.param_groups, plain_step(model, optimizer)

    def run(x: Any) -> Any:
        group["lr"] = 0.05
        return step(x)

    return run


def several_rates(model: Any, optimizer: Any) -> Step:
    step = plain_step(model, optimizer)

    def run(x: Any) -> Any:
        for rate in (0.01, 0.03):
            optimizer.param_groups[0]["lr"] = rate
            loss = step(x)
        optimizer.param_groups[0]["lr"] = 0.1
        return loss

    return run


def nothing(i: int, model: Any, optimizer: Any) -> None:
    pass


def test_options_that_the_function_sets_before_a_step() -> None:
    check_steps(setting_rates, nothing, [0.1, 0.1, 0.02])
    check_steps(several_rates, nothing)


def test_an_option_that_is_set_inside_and_outside() -> None:
    def between(i: int, model: Any, optimizer: Any) -> None:
        optimizer.param_groups[0]["lr"] = 0.05 if i < 4 else 0.3

    check_steps(setting_one_rate, between)


def test_gradients_of_parameters_that_do_not_require_them() -> None:
    def between(i: int, model: Any, optimizer: Any) -> None:
        weight = model[2].weight
        if i == 2:
            weight.requires_grad_(False)
            weight.grad = None
        elif i == 5:
            weight.grad = torch.ones(2, 4)

    def make(model: Any, optimizer: Any) -> Step:
        def step(x: Any) -> Any:
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    check_steps(make, between)
