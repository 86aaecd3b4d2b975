"""Optimizers as objects: groups, hooks, memory, modes, and what they refuse."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd import arrays, optim
from retrograd.optim import optimizer as base

ELEMENTWISE = ["SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta",
               "Rprop", "ASGD"]  # fmt: skip


@pytest.fixture
def pytorch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is the reference to compare with")


def leaf(*shape: int, dtype: Any = torch.float32, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).standard_normal(shape)
    return torch.tensor(values, dtype=dtype).requires_grad_()


def with_grad(x: Any, seed: int = 1) -> Any:
    values = np.random.default_rng(seed).standard_normal(tuple(x.shape))
    x.grad = torch.tensor(values).to(x.dtype)
    return x


# -- what is refused -----------------------------------------------------------------------------

# Of T, the library, with x and y leaves of it, O its optim and S its schedulers.
REFUSED = [
    "O.SGD(x)",
    "O.SGD([])",
    "O.SGD([1])",
    "O.SGD([None])",
    "O.SGD({x, y}) if 0 else O.SGD([{'params': {x}}])",
    "O.SGD([x * 2])",
    "O.SGD([x, ('y', y)])",
    "O.SGD([('x', x)]).add_param_group({'params': [y]})",
    "O.SGD([x]).add_param_group({'params': [('y', y)]})",
    "O.SGD([x]).add_param_group([y])",
    "O.SGD([x]).add_param_group({'params': x})",
    "O.SGD([{'params': [x]}, {'params': [x, y]}])",
    "O.SGD([x], lr=-1)",
    "O.SGD([x], momentum=-1.0)",
    "O.SGD([x], weight_decay=-0.5)",
    "O.SGD([x], nesterov=True)",
    "O.SGD([x], lr=T.ones(2))",
    "O.SGD([x], fused=True, foreach=True)",
    "O.Adam([x], lr=-1.0)",
    "O.Adam([x], eps=-1.0)",
    "O.Adam([x], betas=(1.0, 0.9))",
    "O.Adam([x], betas=(0.9, 1.5))",
    "O.Adam([x], betas=(0.9, T.tensor(0.9)))",
    "O.Adam([x], betas=(T.tensor([0.9, 0.9]), T.tensor(0.9)))",
    "O.Adam([x], weight_decay=-1)",
    "O.Adam([x], lr=T.tensor(0.1), foreach=True)",
    "O.Adam([x], lr=T.ones(2))",
    "O.Adam([x], fused=True, foreach=True)",
    "O.Adamax([x], betas=(-0.1, 0.9))",
    "O.NAdam([x], momentum_decay=-1)",
    "O.RAdam([x], eps=-1)",
    "O.RMSprop([x], alpha=-1)",
    "O.RMSprop([x], momentum=-1)",
    "O.Adagrad([x], lr_decay=-1)",
    "O.Adagrad([x], initial_accumulator_value=-1)",
    "O.Adadelta([x], rho=1.5)",
    "O.Rprop([x], etas=(1.1, 1.2))",
    "O.ASGD([x], weight_decay=-1)",
    "O.Adafactor([x], lr=-1)",
    "O.Adafactor([x], beta2_decay=1)",
    "O.Adafactor([x], eps=(-1.0, 0.1))",
    "O.Adafactor([x], eps=(None, -0.1))",
    "O.Adafactor([x], d=0.5)",
    "O.Adafactor([x], weight_decay=-0.5)",
    "O.Muon([x])",
    "O.Muon([w], lr=-1.0)",
    "O.Muon([w], momentum=-1.0)",
    "O.Muon([w], weight_decay=-1.0)",
    "O.Muon([w], adjust_lr_fn='other')",
    "O.Muon([w], ns_steps=100).step()",
    "O.Muon([w], ns_coefficients=(1.0, 2.0)).step()",
    "O.LBFGS([{'params': [x]}, {'params': [y]}])",
    "O.LBFGS([x], line_search_fn='other').step(lambda: x.sum().backward() or 1.0)",
    "O.Optimizer([x], {'lr': required})",
    "O.Optimizer([x], {'lr': 0.1}).step()",
    "O.SGD([x]).load_state_dict({'state': {}, 'param_groups': []})",
    "O.SGD([x]).load_state_dict({'state': {}, 'param_groups': [{'params': [0, 1]}]})",
    "O.Adam([w], capturable=True).step()",
    "O.Adadelta([w], capturable=True).step()",
    "O.NAdam([w], capturable=True).step()",
    "O.ASGD([w], capturable=True).step()",
    "O.SGD([c], fused=True).step()",
    "O.Adam([c], fused=True).step()",
]


def module_of_optimizer(library: Any) -> Any:
    """``torch.optim.optimizer``, which can be imported but is no attribute in PyTorch."""
    return importlib.import_module(f"{library.__name__}.optim.optimizer")


def refusal(library: Any, code: str) -> str:
    x, y = library.ones(2, requires_grad=True), library.ones(3, requires_grad=True)
    w = library.ones((2, 2), requires_grad=True)
    c = library.ones(2, dtype=library.complex64, requires_grad=True)
    w.grad, c.grad = library.ones((2, 2)), library.ones(2, dtype=library.complex64)
    names = {"T": library, "O": library.optim, "x": x, "y": y, "w": w, "c": c}
    names["required"] = module_of_optimizer(library).required
    with pytest.raises(Exception) as caught:
        eval(code, names)
    return f"{type(caught.value).__name__}: {caught.value}"


@pytest.mark.parametrize("code", REFUSED)
def test_what_is_refused_is_refused_in_the_same_words(pytorch: Any, code: str) -> None:
    assert refusal(torch, code) == refusal(pytorch, code)


def test_a_parameter_given_twice_is_warned_about(pytorch: Any) -> None:
    words = []
    for library in (torch, pytorch):
        x = library.ones(2, requires_grad=True)
        with pytest.warns(UserWarning, match="duplicate parameters") as caught:
            library.optim.SGD([x, x])
        words.append(str(caught[0].message))
        if library is torch:  # PyTorch names a line of its own
            assert caught[0].filename == __file__
    assert words[0] == words[1]


def test_a_refused_group_leaves_everything_as_it_was() -> None:
    x = leaf(2)
    optimizer = optim.SGD([x], lr=0.1)
    group = {"params": (p for p in [leaf(3), x])}
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group(group)
    assert list(group) == ["params"]
    assert len(optimizer.param_groups) == 1


def test_differentiable_steps_are_refused_with_a_way_out() -> None:
    for name in ELEMENTWISE:
        with pytest.raises(NotImplementedError, match="functional_call"):
            getattr(optim, name)([leaf(2)], differentiable=True)


def test_a_state_of_another_shape_is_refused() -> None:
    small, large = optim.Adam([with_grad(leaf(2))]), optim.Adam([leaf(3)])
    small.step()
    with pytest.raises(ValueError, match=r"'exp_avg' of shape \(2,\) for a parameter of shape"):
        large.load_state_dict(small.state_dict())
    assert not large.state


# -- groups, closures, hooks ---------------------------------------------------------------------


def test_groups_have_options_of_their_own() -> None:
    x, y = leaf(2), leaf(2)
    optimizer = optim.SGD([{"params": [x]}, {"params": y, "lr": 1.0}], lr=0.1)
    x.grad, y.grad = torch.ones(2), torch.ones(2)
    before = x.detach().clone(), y.detach().clone()
    optimizer.step()
    torch_close = np.testing.assert_allclose
    torch_close(x.detach().numpy(), before[0].numpy() - 0.1, rtol=1e-6)
    torch_close(y.detach().numpy(), before[1].numpy() - 1.0, rtol=1e-6)


def test_names_go_along(pytorch: Any) -> None:
    found = []
    for library in (torch, pytorch):
        x, y = library.ones(2, requires_grad=True), library.ones(1, requires_grad=True)
        optimizer = library.optim.SGD([("a", x), ("b", y)], lr=0.1)
        state = optimizer.state_dict()
        other = library.optim.SGD([("c", x), ("d", y)], lr=0.1)
        other.load_state_dict(state)
        plain = {k: v for k, v in state["param_groups"][0].items() if k != "param_names"}
        third = library.optim.SGD([("e", x), ("f", y)], lr=0.1)
        third.load_state_dict({"state": {}, "param_groups": [plain]})
        names = [o.param_groups[0]["param_names"] for o in (optimizer, other, third)]
        found.append((names, repr(optimizer), state))
    assert found[0] == found[1]
    assert found[0][0] == [["a", "b"], ["a", "b"], ["e", "f"]]


def test_a_closure_is_run_with_gradients_and_its_loss_is_given_back() -> None:
    x = leaf(2)
    optimizer = optim.Adam([x], lr=0.1)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        before = float((x * x).sum())
        loss = optimizer.step(closure)
    assert loss.item() == pytest.approx(before)
    assert float((x * x).sum().detach()) < before


def test_parameters_without_a_gradient_are_left_alone() -> None:
    x, y = leaf(2), with_grad(leaf(2))
    kept = x.detach().clone()
    optimizer = optim.Adam([x, y])
    optimizer.step()
    assert torch.equal(x.detach(), kept)
    assert list(optimizer.state_dict()["state"]) == [1]
    assert not optim.SGD([y]).state_dict()["state"]


def test_zero_grad() -> None:
    x = with_grad(leaf(2))
    optimizer = optim.SGD([x])
    grad = x.grad
    optimizer.zero_grad(set_to_none=False)
    assert x.grad is grad
    assert grad.tolist() == [0.0, 0.0]
    (x.grad,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
    optimizer.zero_grad(set_to_none=False)
    assert x.grad.grad_fn is None
    optimizer.zero_grad()
    assert x.grad is None


def log_of_hooks(library: Any) -> list[Any]:
    """What hooks of all kinds see of some steps, and of saving and loading."""
    x = library.ones(1, requires_grad=True)
    x.grad = library.ones(1)
    optimizer, place = library.optim.SGD([x], lr=1.0), module_of_optimizer(library)
    log: list[Any] = []
    handles = [
        optimizer.register_step_pre_hook(lambda o, a, k: log.append(("pre", len(a), k))),
        optimizer.register_step_post_hook(lambda o, a, k: log.append(("post", x.item()))),
        place.register_optimizer_step_pre_hook(lambda o, a, k: log.append("all pre")),
        place.register_optimizer_step_post_hook(lambda o, a, k: log.append("all post")),
    ]
    optimizer.step()
    for handle in handles:
        handle.remove()
    optimizer.step()
    with optimizer.register_step_pre_hook(lambda o, a, k: (a, {"closure": lambda: 5.0})):
        log.append(optimizer.step())
    optimizer.register_state_dict_pre_hook(lambda o: log.append("second"))
    optimizer.register_state_dict_pre_hook(lambda o: log.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda o, s: {**s, "more": 1})
    state = optimizer.state_dict()
    log.append(state["more"])
    optimizer.register_load_state_dict_pre_hook(lambda o, s: log.append(sorted(s)))
    optimizer.register_load_state_dict_post_hook(lambda o: log.append(o is optimizer))
    optimizer.load_state_dict(state)
    return log


def test_hooks_run_in_pytorchs_order(pytorch: Any) -> None:
    log = log_of_hooks(torch)
    assert log[:4] == ["all pre", ("pre", 1, {}), ("post", 0.0), "all post"]
    assert log == log_of_hooks(pytorch)


def test_a_wrong_answer_of_a_hook_is_an_error() -> None:
    optimizer = optim.SGD([leaf(1)])
    optimizer.register_step_pre_hook(lambda o, a, k: 3)
    with pytest.raises(RuntimeError, match=r"must return None or a tuple of \(new_args, new_kw"):
        optimizer.step()
    assert not base._global_pre_hooks


def test_hooks_run_once_where_a_subclass_calls_its_parents_step() -> None:
    class Twice(optim.SGD):
        def step(self, closure: Any = None) -> Any:
            super().step(closure)
            return super().step(closure)

    x = leaf(1)
    x.grad = torch.ones(1)
    log: list[int] = []
    optimizer = Twice([x], lr=1.0)
    optimizer.register_step_post_hook(lambda *given: log.append(1))
    before = x.item()
    optimizer.step()
    assert x.item() == pytest.approx(before - 2.0)
    assert log == [1]


# -- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_steps_write_into_the_parameters_own_memory(name: str) -> None:
    x = with_grad(leaf(3, 2))
    view, address = x.detach().numpy(), x.data_ptr()
    grad = x.grad.clone()
    before = view.copy()
    getattr(optim, name)([x]).step()
    assert x.data_ptr() == address
    assert not np.array_equal(view, before)
    assert torch.equal(x.grad, grad)
    assert x.is_leaf
    assert x.requires_grad


def test_a_value_saved_before_a_step_is_known_to_be_old() -> None:
    x = with_grad(leaf(3))
    optimizer = optim.SGD([x], lr=0.1)
    loss = (x * x).sum()
    version = x._version
    optimizer.step()  # the line that is named
    assert x._version == version + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        loss.backward()
    assert "optimizer.step()  # the line that is named" in str(caught.value)


LAYOUTS = {
    "transposed": lambda x: x.T,
    "every other": lambda x: np.ascontiguousarray(np.repeat(x, 2, 1))[:, ::2],
    "backwards": lambda x: x[::-1].copy()[::-1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(3, 4), (500, 700)])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_any_layout_in_memory_gives_the_same(name: str, shape: Any, layout: str) -> None:
    random = np.random.default_rng(0)
    start, *grads = random.standard_normal((3, *shape)).astype(np.float32)
    found = []
    for arrange in (np.ascontiguousarray, LAYOUTS[layout]):
        x = torch.from_numpy(arrange(start.copy())).requires_grad_()
        optimizer = getattr(optim, name)([x], lr=0.01)
        for grad in grads:
            x.grad = torch.from_numpy(np.ascontiguousarray(arrange(grad)))
            optimizer.step()
        found.append(x.detach().numpy())
    expected = found[0].T if layout == "transposed" else found[0]
    np.testing.assert_allclose(found[1], expected, rtol=1e-6)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_large_parameters_do_not_depend_on_blocks_or_threads(name: str) -> None:
    workers, found = arrays.blocks.workers, []
    count, block = workers.count, arrays.updates.BLOCK_BYTES
    try:
        for threads, size in ((1, 1 << 30), (1, 1 << 14), (3, 1 << 14)):
            workers.set_count(threads)
            arrays.updates.BLOCK_BYTES = size
            x = leaf(300, 100)
            optimizer = getattr(optim, name)([x], lr=0.01)
            for n in range(3):
                with_grad(x, n)
                optimizer.step()
            found.append(x.detach().numpy())
    finally:
        workers.set_count(count)
        arrays.updates.BLOCK_BYTES = block
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_one_element_seen_in_several_places_is_not_written() -> None:
    x = torch.ones(1).expand(3).requires_grad_()
    x.grad = torch.ones(3)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        optim.SGD([x], lr=0.1).step()


def test_steps_are_counted_in_the_default_precision(pytorch: Any) -> None:
    kinds = []
    for library in (torch, pytorch):
        before = library.get_default_dtype()
        try:
            library.set_default_dtype(library.float64)
            x = library.ones(2, requires_grad=True)
            x.grad = library.ones(2)
            optimizer = library.optim.Adam([x])
            optimizer.step()
            kinds.append(str(optimizer.state[x]["step"].dtype))
        finally:
            library.set_default_dtype(before)
    assert kinds == ["torch.float64"] * 2


def test_numbers_that_are_not_finite_spread_as_in_pytorch(pytorch: Any) -> None:
    grad = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0])
    for name in ELEMENTWISE:
        found = []
        for library in (torch, pytorch):
            x = library.ones(5, dtype=library.float64, requires_grad=True)
            optimizer = getattr(library.optim, name)([x], lr=0.1)
            for _ in range(3):
                x.grad = library.tensor(grad)
                optimizer.step()
            found.append(x.detach().numpy())
        np.testing.assert_allclose(*found, rtol=1e-12, err_msg=name)


# -- modes ---------------------------------------------------------------------------------------


def test_steps_inside_a_transform_are_refused() -> None:
    x = with_grad(leaf(2))
    optimizer = optim.SGD([x], lr=0.1)
    kept = x.detach().clone()

    def function(y: Any) -> Any:
        optimizer.step()
        return (x * y).sum()

    with pytest.raises(RuntimeError):
        torch.func.grad(function)(torch.ones(2))
    assert torch.equal(x.detach(), kept)


def test_tensors_of_inference_mode_are_not_written() -> None:
    with torch.inference_mode():
        x = torch.ones(2)
        x.grad = torch.ones(2)
    y = with_grad(leaf(2))
    kept = y.detach().clone()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        optim.SGD([y, x], lr=0.1).step()
    assert torch.equal(y.detach(), kept)


def test_mutation_on_saved_tensors_keeps_the_old_value() -> None:
    x = with_grad(leaf(2))
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        loss = (x * x).sum()
        old = x.detach().clone()
        optim.SGD([x], lr=1.0).step()
        x.grad = None
        loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * old.numpy())


# -- names ---------------------------------------------------------------------------------------


def test_names_are_pytorchs(pytorch: Any) -> None:
    for ours, theirs in ((optim, pytorch.optim),
                         (optim.lr_scheduler, pytorch.optim.lr_scheduler),
                         (optim.swa_utils, pytorch.optim.swa_utils)):  # fmt: skip
        missing = set(theirs.__all__) - set(ours.__all__)
        # There are no sparse tensors here, and nothing distributed that swaps parameters.
        assert missing <= {"SparseAdam", "swap_in_optimizer_params_and_state"}
        assert set(ours.__all__) <= set(theirs.__all__)


def test_signatures_are_pytorchs(pytorch: Any) -> None:
    import inspect

    def said(function: Any) -> list[tuple[str, Any, Any]]:
        parameters = inspect.signature(function).parameters.values()
        return [(p.name, p.kind, p.default) for p in parameters]

    for ours, theirs in ((optim, pytorch.optim),
                         (optim.lr_scheduler, pytorch.optim.lr_scheduler),
                         (optim.swa_utils, pytorch.optim.swa_utils)):  # fmt: skip
        for name in ours.__all__:
            if callable(getattr(ours, name)):
                assert said(getattr(ours, name)) == said(getattr(theirs, name)), name


def test_importing_the_package_does_not_load_this() -> None:
    import subprocess
    import sys

    code = "import retrograd, sys; print([m for m in sys.modules if '.optim' in m or '.nn' in m])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_documents_of_optimizers_have_examples() -> None:
    for name in optim.__all__:
        if isinstance(getattr(optim, name), type):
            assert ">>> " in getattr(optim, name).__doc__, name


def test_a_subclass_that_does_not_call_init() -> None:
    class Plain(optim.Optimizer):
        def __init__(self, params):
            self.param_groups = [{"params": list(params)}]

        def step(self, closure=None):
            for p in self.param_groups[0]["params"]:
                p.data.sub_(p.grad)

    p = torch.nn.Parameter(torch.ones(2))
    optimizer = Plain([p])
    steps = []
    optimizer.register_step_post_hook(lambda *given: steps.append(1))
    optimizer.zero_grad()
    p.sum().backward()
    optimizer.step()
    assert (p.tolist(), steps) == ([0.0, 0.0], [1])
    assert not Plain([p])._optimizer_step_post_hooks


def test_several_groups_are_printed_apart(pytorch: Any) -> None:
    printed = []
    for lib in (torch, pytorch):
        a, b = (lib.ones(1, requires_grad=True) for _ in "ab")
        printed.append(repr(lib.optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.2}], lr=0.1)))
    assert printed[0] == printed[1]
