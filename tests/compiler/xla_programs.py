"""Programs on XLA. This file is run by tests/test_compile_xla.py in a process of its own."""

from __future__ import annotations

import copy
import threading
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_compile_training import MODELS, OPTIMIZERS, Training, array, cnn, labels

import retrograd as torch
from retrograd import nn
from retrograd.func import grad, hessian, jvp, vmap
from retrograd.nn import functional as F


def compiled(function: Any) -> Any:
    return torch.compile(function, backend="xla", fullgraph=True)


def close(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-6) -> bool:
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(close(x, y, rtol, atol) for x, y in zip(a, b, strict=True))
    assert a.dtype is b.dtype
    return np.allclose(a.numpy(force=True), b.numpy(force=True), rtol, atol, equal_nan=True)


def both(function: Any, *args: Any) -> Any:
    """The compiled function, after it has given what the eager one does."""
    found = compiled(function)
    for _ in range(3):
        assert close(function(*args), found(*args))
    assert len(found.entries) == 1
    return found


def energy(x: Any) -> Any:
    return (x**2).sum() * x.prod().sin()


@pytest.mark.parametrize(
    "function",
    [
        energy, grad(energy), hessian(energy), vmap(grad(lambda x: x.tanh() * x.exp())),
        lambda x: jvp(energy, (x,), (x,)), grad(lambda x: grad(energy)(x).pow(2).sum()),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_transforms(function: Any, dtype: Any) -> None:
    both(function, torch.tensor([0.3, -0.7, 1.1], dtype=dtype))


def test_double_precision_is_double_and_the_users_jax_stays_as_it_was() -> None:
    function = compiled(lambda x: x.exp().sum())
    x = torch.linspace(0, 1, 1000, dtype=torch.float64)
    function(x)
    assert abs(function(x).item() - np.exp(x.numpy()).sum()) < 1e-10
    assert not jax.config.jax_enable_x64
    assert jnp.ones(3).dtype == jnp.float32


def test_composites_are_their_definitions() -> None:
    function = both(lambda x: F.softmax(x, 0) + F.gelu(x), torch.randn(5))
    names = {line.operation.name for line in function.program.lines}
    assert "softmax" not in names
    assert "exp" in names


def test_results_are_new_arrays_that_may_be_written() -> None:
    function = compiled(lambda x: (x * 1, x + 1, x.clone()))
    x = torch.arange(4.0)
    for _ in range(3):
        results = function(x)
        for y in results:
            y += 5
        assert x.tolist() == [0, 1, 2, 3]
        assert [y.tolist() for y in results] == [[5, 6, 7, 8], [6, 7, 8, 9], [5, 6, 7, 8]]


def test_what_was_a_view_of_an_argument_stays_one() -> None:
    @compiled
    def function(x: Any, v: Any, w: Any) -> Any:
        return x[1:], v.T, w * x[0]

    v, w = torch.ones(2, 3), torch.ones(2, 3, requires_grad=True)
    for _ in range(3):
        x = torch.arange(3.0)
        part, transposed, product = function(x, v, w)
        assert part.tolist() == [1, 2]
        x[1] = 7
        assert part.tolist() == [7, 2]
        v.add_(1)
        assert transposed.sum().item() == v.sum().item()
        assert product.sum().item() == 0


def test_layouts_are_those_of_eager_mode() -> None:
    function = compiled(lambda x: (x.T + 1, (x + 1).T.exp(), x.T.contiguous()))
    x = torch.randn(3, 4)
    eager = [y.stride() for y in function(x)]
    assert [y.stride() for y in function(x)] == eager == [(1, 4), (1, 4), (3, 1)]
    assert close(function(x), function.function(x))
    turned = torch.randn(4, 3).T
    assert close(function(turned), function.function(turned))
    assert close(function(turned), function.function(turned))


def test_arguments_in_any_layout() -> None:
    function = compiled(lambda x, y: x * 2 + y.sum(0))
    for x in (torch.randn(4, 6)[::2, ::3], torch.randn(3).expand(2, 3)[:, :2], torch.randn(2, 2).T):
        y = torch.randn(3, 2).flip(0)
        assert close(function(x, y), x * 2 + y.sum(0))
        assert close(function(x, y), x * 2 + y.sum(0))


def test_arguments_are_those_of_the_call_also_in_threads() -> None:
    compiled = torch.compile(lambda x, k: (x * k + 1, x.sum(), -x.t()), backend="xla")
    first = torch.arange(6.0).reshape(2, 3)
    factor = torch.tensor(2.0)
    compiled(first, factor)
    results = compiled(first, factor)
    kept = [y.tolist() for y in results]
    second = compiled(first + 10, torch.tensor(3.0))
    assert [y.tolist() for y in results] == kept  # nothing shows the memory of an argument
    assert second[0].tolist() == [[31.0, 34.0, 37.0], [40.0, 43.0, 46.0]]
    first.mul_(2)  # in place, where the program has read it before
    assert compiled(first, factor)[0].tolist() == [[1.0, 5.0, 9.0], [13.0, 17.0, 21.0]]
    large = torch.ones(600, 600)  # which is not copied
    for _ in range(2):
        assert compiled(large, factor)[1].item() == 360_000
        large.mul_(1)
    wrong = []

    def call(k: int) -> None:
        for i in range(100):
            x = torch.full((2, 3), float(100 * k + i))
            if compiled(x, factor)[0][1, 2].item() != 2.0 * (100 * k + i) + 1:
                wrong.append((k, i))

    threads = [threading.Thread(target=call, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_random_numbers_are_those_of_eager_mode() -> None:
    def function(x: Any) -> Any:
        noise = torch.randn(4) * torch.rand(4)
        return F.dropout(x, 0.5) + noise, torch.bernoulli(torch.sigmoid(x)), torch.randperm(5)

    found = compiled(function)
    torch.manual_seed(3)
    expected = [function(torch.ones(4)) for _ in range(4)]
    torch.manual_seed(3)
    for one in expected:
        assert close(found(torch.ones(4)), one)
    assert len(found.entries) == 1


def test_errors_are_those_of_eager_mode_and_nothing_is_half_written() -> None:
    seen = torch.zeros(())

    @compiled
    def function(p: Any, index: Any) -> Any:
        seen.add_(1)
        return F.binary_cross_entropy(p, p.detach().round()) + p[index].sum()

    good, index = torch.tensor([0.2, 0.7]), torch.tensor([1, 0])
    for _ in range(2):
        function(good, index)
    with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
        function(good * 2, index)
    with pytest.raises(IndexError, match="index 2 is out of bounds"):
        function(good, index + 1)
    assert seen.item() == 2
    divided = compiled(lambda x, y: x // y)
    x = torch.tensor([4, 6])
    for _ in range(2):
        assert divided(x, torch.tensor([2, 4])).tolist() == [2, 1]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        divided(x, torch.tensor([0, 4]))


def test_matrices_without_factors() -> None:
    function = compiled(lambda x: torch.linalg.cholesky_ex(x)[1])
    good = torch.eye(3)
    assert function(good).item() == function(good).item() == 0
    bad = torch.diag(torch.tensor([1.0, -1.0, 1.0]))
    assert function(bad).item() == 2
    inverse = compiled(torch.linalg.inv)
    assert close(inverse(good), inverse(good))
    with pytest.raises(RuntimeError, match="singular"):
        inverse(torch.zeros(3, 3))


def test_operations_that_xla_has_nothing_for_run_on_numpy() -> None:
    function = torch.compile(
        lambda x: torch.special.bessel_j0(x.exp()).tanh() + x, backend="xla", fullgraph=True
    )
    x = torch.tensor([0.1, 0.2])
    with pytest.warns(UserWarning, match=r"special_bessel_j0\(\) is computed by NumPy.*Bessel"):
        first = function(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert close(function(x), first)
        assert close(function(x + 1), function.function(x + 1))


def test_gradients_from_outside() -> None:
    torch.manual_seed(0)
    model = cnn()
    twin = copy.deepcopy(model)
    program = compiled(model)
    x, y = array(8, 1, 8, 8), labels(8, 5)
    for _ in range(3):
        for f in (program, twin):
            F.cross_entropy(f(x), y).backward()
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            assert close(p.grad, q.grad, 1e-3, 1e-5)
            p.grad = q.grad = None
    assert close(list(model.buffers()), list(twin.buffers()))
    assert len(program.entries) == 1


# -- training --------------------------------------------------------------------------------


def trained(name: str, optimizer: Any, steps: int) -> tuple[list[float], list[float], Training]:
    """The losses of eager and of compiled steps, and what was trained by the latter."""
    model, x, y = MODELS[name]
    losses = []
    for on_xla in (False, True):
        training = Training(model, optimizer, False)
        if on_xla:
            training.step = compiled(training.step)
        torch.manual_seed(1)
        losses.append([training.step(x, y).item() for _ in range(steps)])
    return losses[0], losses[1], training


def check_training(name: str, steps: int) -> None:
    eager, found, training = trained(name, lambda p: torch.optim.Adam(p, lr=0.01), steps)
    np.testing.assert_allclose(found, eager, rtol=0, atol=1e-4)
    assert len(training.step.entries) == 2, "the first step makes the state of the optimizer"
    if steps > 100:
        assert found[-1] < found[0] / 2


@pytest.mark.parametrize("name", MODELS)
def test_training(name: str) -> None:
    check_training(name, 6)


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_training_for_200_steps(name: str) -> None:
    check_training(name, 200)


QUICK = ("SGD", "Adafactor", "RAdam")


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.long) for n in OPTIMIZERS]
)
def test_optimizers(name: str) -> None:
    kind, options = getattr(torch.optim, name), OPTIMIZERS[name]
    eager, found, training = trained("mlp", lambda p: kind(p, lr=0.01, **options), 8)
    np.testing.assert_allclose(found, eager, rtol=0, atol=1e-5)
    steps = {float(s["step"]) for s in training.optimizer.state.values() if "step" in s}
    assert steps <= {8.0}


def losses_of_uneven_steps(compile_it: Any) -> list[float]:
    a, b = (nn.Parameter(torch.tensor([1.0, -2.0])) for _ in range(2))
    optimizer = torch.optim.Adam([a, b], lr=0.1)
    a.grad = torch.tensor([0.5, 1.0])
    optimizer.step()  # of ``a`` alone, so that its sizes of steps are others than those of b

    def step() -> Any:
        optimizer.zero_grad()
        loss = ((a - 3) ** 2 + (b - 3) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = compile_it(step)
    losses = [float(run()) for _ in range(4)]
    for state in optimizer.state.values():  # from now on both have the same
        state["step"].fill_(7)
    losses += [float(run()) for _ in range(4)]
    return [*losses, *[float(optimizer.state[x]["step"]) for x in (a, b)]]


def test_parameters_that_have_taken_other_numbers_of_steps() -> None:
    found = losses_of_uneven_steps(compiled)
    np.testing.assert_allclose(found, losses_of_uneven_steps(lambda f: f), rtol=1e-6)
    assert found[-2:] == [11.0, 11.0]


def test_muon_is_updated_by_numpy() -> None:
    losses = []
    for on_xla in (False, True):
        torch.manual_seed(0)
        weight = nn.Parameter(torch.randn(3, 2))
        optimizer = torch.optim.Muon([weight], lr=0.1)

        def step(weight: Any = weight, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = (weight**2).sum()
            loss.backward()
            optimizer.step()
            return loss

        run = compiled(step) if on_xla else step
        losses.append([run().item() for _ in range(5)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def test_learning_rates_and_complex_parameters() -> None:
    found = []
    for on_xla in (False, True):
        weight = torch.tensor([1 + 2j, -1j], requires_grad=True)
        optimizer = torch.optim.AdamW([weight], lr=0.1)

        def step(weight: Any = weight, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = (weight * weight.conj()).real.sum()
            loss.backward()
            optimizer.step()
            return loss

        run = compiled(step) if on_xla else step
        losses = []
        for k in range(6):
            optimizer.param_groups[0]["lr"] = 0.1 / (k + 1)
            losses.append(run().item())
        found.append(losses)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


def test_state_is_written_where_it_was_and_steps_may_take_turns() -> None:
    eager, found, training = trained("mlp", lambda p: torch.optim.Adam(p, lr=0.01), 3)
    weight = training.model[0].weight
    shown, before = weight.detach()[0], weight.detach().clone()
    _, x, y = MODELS["mlp"]
    training.step(x, y)
    assert not torch.equal(weight, before)
    assert torch.equal(shown, weight.detach()[0])
    training.step.function(x, y)
    training.step(x, y)
    assert torch.equal(shown, weight.detach()[0])
    assert eager == pytest.approx(found, abs=1e-5)


# -- attention and bfloat16 --------------------------------------------------------------------


def attend(q: Any, k: Any, v: Any, mask: Any, causal: bool) -> list[Any]:
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    y = F.scaled_dot_product_attention(
        q, k, v, mask, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
    )
    return [y.detach(), *torch.autograd.grad(y.sin().sum(), (q, k, v))]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("case", ["causal", "masked", "plain", "shared heads", "no key allowed"])
def test_attention(case: str, dtype: Any) -> None:
    torch.manual_seed(0)
    heads = 2 if case == "shared heads" else 4
    q = torch.randn(2, 4, 6, 8).to(dtype)
    k, v = (torch.randn(2, heads, 6, 8).to(dtype) for _ in range(2))
    mask = None
    if case == "masked":
        mask = torch.randn(6, 6).to(dtype)
    elif case == "no key allowed":
        mask = torch.arange(6)[:, None].expand(6, 6) > 1
    function = lambda q, k, v: attend(q, k, v, mask, case == "causal")
    compiled = torch.compile(function, backend="xla", fullgraph=True)
    compiled(q, k, v)
    assert "scaled_dot_product_attention_backward" in compiled.source
    rounding = 2.0**-6 if dtype == torch.bfloat16 else 1e-12
    for ours, eager in zip(compiled(q, k, v), function(q, k, v), strict=True):
        assert torch.allclose(ours, eager, rounding, rounding)


def test_a_step_in_bfloat16() -> None:
    def losses(compiled: bool) -> list[float]:
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)
        head = torch.nn.Linear(16, 5)
        optimizer = torch.optim.AdamW([*layer.parameters(), *head.parameters()], 0.01)
        x, y = torch.randn(3, 7, 16), torch.arange(21) % 5

        def step() -> Any:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(head(layer(x)).view(21, 5), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = torch.compile(step, backend="xla", fullgraph=True) if compiled else step
        return [float(run()) for _ in range(6)]

    assert np.allclose(losses(True), losses(False), atol=0.02)


def test_results_lie_in_memory_that_the_next_program_reads_as_it_is() -> None:
    from retrograd.compiler.xla._memory import Memory

    transposed, doubled = compiled(lambda x: x.t() + 0), compiled(lambda x: x * 2)
    x = torch.arange(6000.0).reshape(2000, 3)
    first = transposed(x)
    first = transposed(x)
    first[0, 0] = 5
    for _ in range(2):
        second = doubled(first)
    assert isinstance(first._data.base, Memory)
    assert isinstance(second._data.base, Memory)
    assert first[:, :2].tolist() == [[5, 3], [1, 4], [2, 5]]
    assert second[:, :2].tolist() == [[10, 6], [2, 8], [4, 10]]
    assert second.sum() == 2 * (x.sum() + 5)


def test_small_arguments_and_results_of_all_dtypes_and_layouts() -> None:
    def function(a: Any, b: Any, c: Any, d: Any, flag: Any, large: Any) -> Any:
        return (a + 1, (a * b).T, b, c * 2, ~flag, d.sum(), large * a[0, 0], a.sum(), (c + 1)[0],
                (a.T + b.T)[:, :1].contiguous(), d.float().T + 1, large.sum(1))  # fmt: skip

    run = compiled(function)
    torch.manual_seed(0)
    for _ in range(4):
        args = [torch.randn(3, 4), torch.randn(4, 3).T, torch.randn(2, 2, dtype=torch.complex128),
                torch.randint(9, (1, 5)), torch.tensor(True), torch.randn(100, 70)]  # fmt: skip
        expected, found = function(*args), run(*args)
        assert close(found, expected)
        assert [y.stride() for y in found] == [y.stride() for y in expected]
        shared = [np.shares_memory(x._data, y._data) for i, x in enumerate(found)
                  for y in (*found[i + 1 :], *(args[:1] + args[2:]))]  # fmt: skip
        assert not any(shared)
    assert len(run.entries) == 1


def test_results_are_right_if_xla_does_not_keep_to_the_memory_that_it_is_given() -> None:
    run = compiled(lambda x: (x + 1, x.sum()))
    run(torch.ones(3))
    run(torch.ones(3))
    (room,) = run.last.function.__globals__["f0"].call.__globals__["rooms"]
    kept, room[0] = room[0], jnp.zeros_like(room[0])
    for _ in range(2):
        y, total = run(torch.arange(3.0))
        assert y.tolist() == [1, 2, 3]
        assert total.item() == 3
    assert kept.tolist() == [2, 2, 2, 3]


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_polygamma_at_its_ends(n: int) -> None:
    x = torch.tensor([0.0, -0.0, -1.0, 1.0, torch.inf, -torch.inf, torch.nan])
    both(lambda x: torch.polygamma(n, x), x)


def test_isin_with_a_number() -> None:
    for invert in (False, True):
        f = both(lambda x, y, i=invert: (torch.isin(x, 2, invert=i), torch.isin(2, y, invert=i)),
                 torch.tensor([[1, 2], [3, 2]]), torch.tensor([4, 2]))  # fmt: skip
    found = f(torch.tensor([[1, 2], [3, 2]]), torch.tensor([4, 2]))
    assert [x.tolist() for x in found] == [[[True, False], [True, False]], False]


def test_gradients_with_one_element_in_each_row() -> None:
    """They are comparisons on XLA, unless the index leaves out rows."""
    torch.manual_seed(0)
    x = torch.randn(3, 5, 4, dtype=torch.float64)
    target = torch.tensor([[0, 4, 2, -100], [1, 1, 3, 0], [-100, 2, 4, 4]])
    entropy = torch.func.grad(lambda x: torch.nn.functional.cross_entropy(x, target))
    assert close(compiled(entropy)(x), entropy(x))
    for rows in (3, 2):
        index = torch.tensor([[[4, 0, 1, 2]], [[3, 3, 0, 1]], [[2, 4, 4, 0]]])[:rows]
        picked = torch.func.grad(lambda x: (x.gather(1, index) ** 3).sum())  # noqa: B023
        run = compiled(picked)
        run(x)
        assert close(run(x), picked(x))
        assert int((run(x) != 0).sum()) == 4 * rows


def test_a_long_chain_of_small_operations_is_not_fused() -> None:
    def chain(x: Any) -> Any:
        for k in range(500):  # with other numbers each time, so that it is no loop
            x = (x * (1.5 + k / 500)).tanh()
        return x

    x = torch.tensor([0.5, -0.25])
    run = compiled(chain)
    run(x)
    assert close(run(x), chain(x))
    step = run.last.function.__globals__["f0"]
    assert step.options() == {"xla_disable_hlo_passes": "fusion"}
    step.program.lines = step.program.lines[:-1]
    del step.rolled
    assert step.options() is None  # a shorter one is


def test_long_loops_are_compiled_as_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = nn.LSTM(3, 4, num_layers=2)
    x = array(60, 2, 3)
    lengths = []

    def scan(body: Any, start: Any, rows: Any, **options: Any) -> Any:
        lengths.append(len(rows[0]))
        return jax_scan(body, start, rows, **options)

    jax_scan = jax.lax.scan
    monkeypatch.setattr(jax.lax, "scan", scan)

    def step(x: Any) -> Any:
        layer.zero_grad()
        value = layer(x)[0].pow(2).sum()
        value.backward()
        return value, *[p.grad for p in layer.parameters()]

    both(step, x)
    assert lengths == [59, 59, 59, 59]  # the first step of each layer, and the last, differ
