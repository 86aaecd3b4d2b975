"""What a compiled function can see and what changes between its calls: hooks, options, gradients,
Python values."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import retrograd as torch
from retrograd import nn
from retrograd.nn.modules.module import register_module_forward_hook
from retrograd.optim.optimizer import register_optimizer_step_pre_hook
from retrograd.utils.checkpoint import checkpoint

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


# -- tensors that are one tensor in some calls ---------------------------------------------------


@pytest.mark.parametrize("first", [False, True])
def test_one_tensor_as_two_arguments(first: bool) -> None:
    @torch.compile(fullgraph=True)
    def accumulate(x: Any, y: Any) -> Any:
        (x * y * y).sum().backward()
        return x is y

    for i in range(5):
        x = torch.ones(2, requires_grad=True)
        y = x if i in (2, 4) or (i == 0 and first) else torch.ones(2, requires_grad=True)
        assert accumulate(x, y) is (x is y)
        assert x.grad.tolist() == [3.0 if x is y else 1.0] * 2
        assert y.grad.tolist() == [3.0 if x is y else 2.0] * 2


def test_weights_that_are_tied_after_the_trace() -> None:
    gradients = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 3)})

        def accumulate(x: Any, model: Any = model) -> None:
            model["b"](model["a"](x).tanh()).square().sum().backward()

        run = torch.compile(accumulate, fullgraph=True) if compiled else accumulate
        found = []
        for i in range(4):
            if i == 2:
                model["b"].weight = model["a"].weight
            model.zero_grad()
            run(torch.ones(2, 3))
            found.append([p.grad.tolist() for p in model.parameters()])
        gradients.append(found)
    assert gradients[1] == gradients[0]


# -- histories of arguments ----------------------------------------------------------------------


def test_hooks_of_a_leaf_run_once() -> None:
    function = torch.compile(lambda x: x * 2, fullgraph=True)
    for i in range(5):
        x = torch.ones(2, requires_grad=True)
        if i in (0, 3, 4):
            x.register_hook(lambda g: g * 3)
        function(x).sum().backward()
        assert x.grad.tolist() == [6.0 if i in (0, 3, 4) else 2.0] * 2


def test_backward_through_an_argument_that_was_computed_outside() -> None:
    w = torch.ones(2, requires_grad=True)

    @torch.compile
    def accumulate(x: Any) -> None:
        (x * x).sum().backward()

    with pytest.warns(UserWarning, match="an argument was computed outside"):
        accumulate(w * 3)
    accumulate(w * 3)
    assert w.grad.tolist() == [36.0, 36.0]


def test_backward_through_a_captured_tensor_that_was_computed_outside() -> None:
    w = torch.ones(2, requires_grad=True)
    y = w * 3

    @torch.compile
    def accumulate(x: Any) -> None:
        (x * y).sum().backward()

    with pytest.raises(RuntimeError, match="reaches a tensor that was computed outside"):
        accumulate(torch.ones(2))


def test_results_that_are_stored_with_their_history() -> None:
    """Those of the previous call are no part of the graph of the next."""

    class Storing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            self.last = self.linear(x)
            return self.last * 2

    module = Storing()
    compiled = torch.compile(module, fullgraph=True)
    for i in range(4):
        module.zero_grad()
        compiled(torch.full((2, 3), float(i)))
        module.last.sum().backward()
        assert module.linear.weight.grad.tolist() == [[2.0 * i] * 3] * 3


def test_the_first_gradient_of_a_checkpoint_with_dropout() -> None:
    """It draws the same numbers as the forward pass."""
    module = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Tanh())
    gradients = []

    def function(x: Any) -> Any:
        return checkpoint(module, x, use_reentrant=False)

    compiled = torch.compile(function)
    for run in (function, compiled, compiled):
        torch.manual_seed(0)
        module.zero_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(torch.ones(8, 3)).sum().backward()
        gradients.append(module[0].weight.grad.tolist())
    assert gradients[1] == gradients[0]
    assert gradients[2] == gradients[0]


def viewed_leaf() -> Any:
    return torch.linspace(0, 1, 4).view(2, 2).requires_grad_()


@pytest.mark.parametrize("kind", ["none", "of the tensor", "after accumulation"])
def test_gradients_and_hooks_of_leaves_that_are_views(kind: str) -> None:
    found = []
    for compiled in (False, True):
        x = viewed_leaf()
        if kind == "of the tensor":
            x.register_hook(lambda g: g * 2)
        elif kind == "after accumulation":
            x.register_post_accumulate_grad_hook(halved)

        def accumulate(x: Any) -> None:
            (x * x).sum().backward()

        run = torch.compile(accumulate, fullgraph=True) if compiled else accumulate
        gradients = []
        for _ in range(3):
            run(x)
            gradients.append(x.grad.tolist())
        found.append(gradients)
    assert found[1] == found[0]


# -- attributes and classes of tensors -----------------------------------------------------------


def test_attributes_of_tensors() -> None:
    weight = torch.ones(2)
    weight.scale = 2.0
    compiled = torch.compile(lambda x: x * weight.scale, fullgraph=True)
    for scale in (2.0, 2.0, 5.0):
        weight.scale = scale
        assert compiled(torch.ones(2)).tolist() == [scale] * 2


def test_attributes_of_arguments() -> None:
    compiled = torch.compile(lambda x: x * getattr(x, "scale", 1.0), fullgraph=True)
    for scale in (None, None, 3.0, 5.0, None):
        x = torch.ones(2)
        if scale is not None:
            x.scale = scale
        assert compiled(x).tolist() == [scale or 1.0] * 2


def test_attributes_of_tensors_that_the_function_sets() -> None:
    weight = torch.ones(2)

    @torch.compile
    def function(x: Any) -> Any:
        weight.last = x * 2
        return x + 1

    with pytest.warns(UserWarning, match="setting an attribute"):
        function(torch.ones(2))
    function(torch.full((2,), 4.0))
    assert weight.last.tolist() == [8.0, 8.0]


def test_results_of_a_class_of_their_own() -> None:
    class Marked(torch.Tensor):
        pass

    compiled = torch.compile(lambda x: x * 2)
    with pytest.warns(UserWarning, match="a new Marked with a class"):
        compiled(torch.ones(2).as_subclass(Marked))
    assert type(compiled(torch.ones(2).as_subclass(Marked))) is Marked


# -- exceptions ----------------------------------------------------------------------------------


def test_exceptions_that_the_function_handles() -> None:
    @torch.compile
    def factor(x: Any) -> Any:
        try:
            return torch.linalg.cholesky(x)
        except RuntimeError:
            return x * 0

    with pytest.warns(UserWarning, match="an operation that raises an exception"):
        assert factor(-torch.eye(2)).tolist() == [[0, 0], [0, 0]]
    assert factor(torch.eye(2)).tolist() == [[1, 0], [0, 1]]
