"""Functions as programs: transforms, what a program depends on, and what cannot be one."""

import math
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd.compiler import CannotCompile
from retrograd.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap


def chain(x: Any, y: Any) -> Any:
    for _ in range(5):
        x = (x * y).tanh()
    return x.sum()


def energy(x: Any) -> Any:
    return (x**2).sum() * x.prod().sin()


def same(a: Any, b: Any) -> bool:
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return a.dtype is b.dtype and np.array_equal(
        a.numpy(force=True), b.numpy(force=True), equal_nan=True
    )


def both(function: Any, *argument_lists: Any, programs: int = 1) -> Any:
    """Run a function eagerly and compiled on each list of arguments; the compiled one."""
    compiled = torch.compile(function, fullgraph=True)
    for args in argument_lists:
        for _ in range(2):
            assert same(function(*args), compiled(*args))
    assert len(compiled.entries) == programs
    return compiled


def randn(*shape: int, seed: int = 0) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


# -- transforms ------------------------------------------------------------------------------


TRANSFORMS = {
    "grad": (grad(chain, argnums=(0, 1)), (randn(4), randn(4, seed=1))),
    "hessian": (hessian(energy), (randn(4),)),
    "vmap of grad": (vmap(grad(energy)), (randn(3, 4),)),
    "grad of grad": (vmap(grad(grad(lambda x: x.exp() * x.sin()))), (randn(4),)),
    "jvp": (lambda x, t: jvp(energy, (x,), (t,)), (randn(4), randn(4, seed=2))),
    "vjp": (lambda x, t: vjp(torch.sin, x)[1](t), (randn(4), randn(4, seed=2))),
    "jacrev": (jacrev(lambda x: x.cumsum(0) * x[1]), (randn(4),)),
    "jacfwd": (jacfwd(lambda x: x.softmax(0)), (randn(4),)),
    "jvp of grad": (lambda x, t: jvp(grad(energy), (x,), (t,)), (randn(4), randn(4, seed=2))),
    "vmap of jvp": (
        vmap(lambda x, t: jvp(energy, (x,), (t,))), (randn(3, 4), randn(3, 4, seed=2))
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_functions_are_programs(name: str) -> None:
    function, args = TRANSFORMS[name]
    others = tuple(x + 0.5 for x in args)
    both(function, args, others)


def test_transforms_of_compiled_functions() -> None:
    compiled = torch.compile(energy)
    x = randn(3, 4)
    assert same(grad(compiled)(x[0]), grad(energy)(x[0]))
    assert same(vmap(compiled)(x), vmap(energy)(x))
    assert same(hessian(compiled)(x[0]), hessian(energy)(x[0]))
    assert not compiled.entries


def test_compile_within_compile_is_part_of_the_program() -> None:
    inner = torch.compile(energy)
    outer = torch.compile(lambda x: inner(x) + 1, fullgraph=True)
    for _ in range(2):
        assert same(outer(randn(4)), energy(randn(4)) + 1)
    assert "sin" in outer.source
    assert not inner.entries


def test_arguments_and_results_may_be_nested() -> None:
    def function(pair: Any, *, options: Any) -> Any:
        return {"sum": pair[0] + pair[1][0], "scaled": [pair[0] * options["scale"], None, "text"]}

    x, y = randn(3), randn(3, seed=1)
    compiled = torch.compile(function, fullgraph=True)
    for _ in range(2):
        found = compiled((x, [y]), options={"scale": 2.0})
        assert same(found["sum"], x + y)
        assert same(found["scaled"][0], x * 2.0)
        assert found["scaled"][1:] == [None, "text"]
    assert len(compiled.entries) == 1


def test_random_numbers_are_drawn_anew() -> None:
    def function(x: Any) -> Any:
        return torch.nn.functional.dropout(x) + torch.rand(4) + torch.randn_like(x)

    x = randn(4)
    compiled = torch.compile(function, fullgraph=True)
    torch.manual_seed(3)
    eager = [function(x) for _ in range(4)]
    state = torch.get_rng_state()
    torch.manual_seed(3)
    assert same(eager, [compiled(x) for _ in range(4)])
    assert torch.equal(state, torch.get_rng_state())
    assert len(compiled.entries) == 1


def test_random_numbers_that_nobody_uses_are_drawn_all_the_same() -> None:
    def function(x: Any) -> Any:
        torch.rand(3)
        return x + torch.rand(1)

    compiled = torch.compile(function, fullgraph=True)
    torch.manual_seed(0)
    eager = [function(torch.zeros(1)) for _ in range(3)]
    torch.manual_seed(0)
    assert same(eager, [compiled(torch.zeros(1)) for _ in range(3)])


# -- writes and views ------------------------------------------------------------------------


def test_writes_and_views_become_what_they_mean() -> None:
    def function(x: Any) -> Any:
        y = x.clone()
        row, column = y[0], y[:, 1]
        row += column.sum()
        column.mul_(2)
        y[1:].zero_()
        row.t_()
        z = torch.zeros(3)
        for i in range(3):
            z[i] = y[0, i] * i
        return y, row * 1, column + 0, z

    both(function, (randn(3, 3),), (randn(3, 3, seed=5),))


def test_arguments_that_are_written() -> None:
    def function(x: Any, y: Any) -> Any:
        x[0] += y.sum()
        x.view(-1)[1:].mul_(2)
        return x

    eager_x, y = randn(2, 2), randn(2)
    compiled_x = eager_x.clone()
    view = compiled_x[1]
    compiled = torch.compile(function, fullgraph=True)
    for _ in range(3):
        function(eager_x, y)
        version = compiled_x._version
        assert compiled(compiled_x, y) is compiled_x
        assert compiled_x._version > version
        assert same(eager_x, compiled_x)
        assert same(view, compiled_x[1])
    assert len(compiled.entries) == 1


def test_results_alias_what_they_did() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        return x, x[0], x.detach(), y, y[1:], y.view(-1)

    compiled = torch.compile(function, fullgraph=True)
    for _ in range(2):
        x = randn(2, 3)
        same_x, row, detached, y, rest, flat = compiled(x)
        assert same_x is x
        x.zero_()
        assert row.tolist() == [0, 0, 0]
        assert detached.tolist() == [[0, 0, 0]] * 2
        y.fill_(7)
        assert rest.tolist() == [[7, 7, 7]]
        assert flat.tolist() == [7] * 6


def test_results_that_are_views_of_one_memory() -> None:
    kept: list[Any] = [None]

    def function(x: Any) -> Any:
        h = torch.stack([x, x * 2])
        kept[0] = h[1].t()
        return h[0], h[1], kept[0]

    compiled = torch.compile(function, fullgraph=True)
    for run in (function, compiled, compiled, compiled):
        first, second, third = run(torch.ones(2, 2))
        assert third is kept[0]
        first.zero_()
        third[0, 1] = 7
        assert first.tolist() == [[0, 0], [0, 0]]
        assert second.tolist() == [[2, 2], [7, 2]]
        assert (first._version, second._version) == (2, 2)


def test_views_beside_results_with_a_history() -> None:
    kept: list[Any] = [None]
    weight = torch.ones(2, 2, requires_grad=True)

    def function(x: Any) -> Any:
        kept[0] = x.t()
        return kept[0], x * weight

    compiled = torch.compile(function, fullgraph=True)
    for run in (function, compiled, compiled, compiled):
        view, product = run(torch.ones(2, 2))
        assert view is kept[0]
        assert product.requires_grad


def test_detached_results_share_the_memory_of_what_has_a_history() -> None:
    weight = torch.ones(2, requires_grad=True)

    def function(x: Any) -> Any:
        product = x * weight
        return product, product.detach()

    compiled = torch.compile(function, fullgraph=True)
    for run in (function, compiled, compiled):
        product, detached = run(torch.ones(2))
        detached.zero_()
        assert product.tolist() == [0, 0]
        assert product.requires_grad
        assert not detached.requires_grad


def test_graphs_whose_values_were_overwritten() -> None:
    weight = torch.ones(3, requires_grad=True)

    def function(x: Any) -> Any:
        result = (x * weight).sin()
        x.add_(1)
        return result

    compiled = torch.compile(function, fullgraph=True)
    for run in (function, compiled, compiled):
        result = run(torch.ones(3))
        assert result.requires_grad
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
            result.sum().backward()


def test_writes_to_a_result_without_dimensions() -> None:
    def f(x: Any) -> Any:
        total = x.sum()
        total.copy_(x[1])
        return total * x

    both(f, (randn(3),), (randn(3, seed=1),))


def test_writes_that_depend_on_the_order_of_elements() -> None:
    compiled = torch.compile(lambda x: x[1:].copy_(x[:2]))
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        compiled(torch.ones(3))


def test_results_are_not_shared_where_they_were_not() -> None:
    def function(x: Any) -> Any:
        a, b = grad(lambda a, b: (a + b).sum(), argnums=(0, 1))(x, x)
        return a, b, torch.ones(3)

    compiled = torch.compile(function, fullgraph=True)
    for _ in range(3):
        a, b, ones = compiled(randn(3))
        a.zero_()
        assert b.tolist() == [1, 1, 1]
        assert ones.tolist() == [1, 1, 1]
        ones.zero_()


def test_arguments_that_share_memory() -> None:
    def function(x: Any, y: Any) -> Any:
        x.add_(1)
        return y * 2

    compiled = torch.compile(function)
    for _ in range(2):
        x, y = torch.zeros(3), torch.zeros(3)
        assert compiled(x, y).tolist() == [0, 0, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            x = torch.zeros(3)
            assert compiled(x, x).tolist() == [2, 2, 2]
            x = torch.zeros(3)
            assert compiled(x, x.view(3)).tolist() == [2, 2, 2]


# -- guards ----------------------------------------------------------------------------------


def traces_anew(function: Any, first: Any, second: Any, **named: Any) -> None:
    """Calls with two lists of arguments must have two programs, and both be right."""
    compiled = torch.compile(function, fullgraph=True)
    for args in (first, second, first, second):
        assert same(function(*args), compiled(*args))
    assert len(compiled.entries) == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda: (torch.ones(2), 2), lambda: (torch.ones(3), 2)),
        (lambda: (torch.ones(2), 2), lambda: (torch.ones(2, dtype=torch.float64), 2)),
        (lambda: (torch.ones(2, 3), 2), lambda: (torch.ones(3, 2).t(), 2)),
        (lambda: (torch.ones(2), 2), lambda: (torch.ones(2), 3)),
        (lambda: (torch.ones(2), 2), lambda: (torch.ones(2), 2.0)),
        (lambda: (torch.ones(2), 1), lambda: (torch.ones(2), True)),
        (lambda: (torch.ones(2), 0.0), lambda: (torch.ones(2), -0.0)),
        (lambda: (torch.ones(2), torch.ones(2)), lambda: (torch.ones(2), 1)),
    ],
    ids=["shape", "dtype", "layout", "number", "type", "bool", "sign of zero", "tensor or number"],
)
def test_programs_are_for_arguments_alike(first: Any, second: Any) -> None:
    traces_anew(lambda x, n: x * n, first(), second())


def test_what_is_no_number_is_met_again() -> None:
    compiled = torch.compile(lambda x, n: x * n, fullgraph=True)
    for _ in range(3):
        assert compiled(torch.ones(1), float("nan")).isnan().all()
    assert len(compiled.entries) == 1


def test_modes_are_noticed() -> None:
    def function(x: Any) -> Any:
        return torch.is_grad_enabled(), x + torch.ones(1)

    compiled = torch.compile(function, fullgraph=True)
    x = torch.ones(2)
    assert compiled(x)[0] is True
    with torch.no_grad():
        assert compiled(x)[0] is False
    with torch.inference_mode():
        assert compiled(x)[1].is_inference()
    assert compiled(x)[0] is True
    torch.set_default_dtype(torch.float64)
    try:
        assert compiled(x)[1].dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert len(compiled.entries) == 4


SCALE = 2.0


def scaled(x: Any) -> Any:
    return x * SCALE


def test_globals_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = torch.compile(scaled, fullgraph=True)
    assert compiled(torch.ones(1)).item() == 2
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert compiled(torch.ones(1)).item() == 5


def test_captured_values_are_noticed() -> None:
    class Options:
        power = 2

        def __init__(self) -> None:
            self.scale = 1.0
            self.parts = [1, {"shift": 0}]

    options, weight, factor = Options(), torch.ones(2), 1

    def function(x: Any) -> Any:
        return weight * x**options.power * options.scale * factor + options.parts[1]["shift"]

    compiled = torch.compile(function, fullgraph=True)

    def check() -> None:
        for _ in range(2):
            assert same(function(torch.ones(2) * 3), compiled(torch.ones(2) * 3))

    check()
    options.scale = 2.0
    check()
    options.parts[1]["shift"] = 7
    check()
    Options.power = 3
    check()
    factor = 4
    check()
    programs = len(compiled.entries)
    weight.mul_(3)  # a value: no reason for another program
    check()
    weight = weight + 1
    check()
    assert len(compiled.entries) == programs == 5


def test_programs_are_bounded() -> None:
    compiled = torch.compile(lambda x, n: x + n)
    x = torch.zeros(1)
    for n in range(16):
        assert compiled(x, n).item() == n
    with pytest.warns(UserWarning, match="has been traced 16 times"):
        assert compiled(x, 16).item() == 16
    assert len(compiled.entries) == 16
    assert compiled(x, 50).item() == 50


# -- what cannot be compiled ------------------------------------------------------------------


def test_branches_on_values_run_eagerly_and_say_so_once() -> None:
    def function(x: Any) -> Any:
        if x.sum() > 1:
            return x
        return -x

    compiled = torch.compile(function)
    with pytest.warns(UserWarning, match=r"depends on the values of tensors.*bool\(\)") as caught:
        assert compiled(torch.ones(3)).tolist() == [1, 1, 1]
    assert "if x.sum() > 1:" in str(caught[0].message)
    assert "test_compile.py" in str(caught[0].message)
    assert "torch.where()" in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled(-torch.ones(3)).tolist() == [1, 1, 1]
    with pytest.raises(CannotCompile, match=r"if x\.sum"):
        torch.compile(function, fullgraph=True)(torch.ones(3))


@pytest.mark.parametrize(
    ("function", "how"),
    [
        (lambda x: x * x.sum().item(), r"item\(\)"),
        (lambda x: x * float(x.sum()), r"item\(\)"),
        (lambda x: x[: int(x.sum())], r"item\(\)"),
        (lambda x: torch.tensor(x.tolist()), r"tolist\(\)"),
        (lambda x: x + torch.from_numpy(np.sin(x.numpy())), r"numpy\(\)"),
        (lambda x: x + len(str(x)), r"print\(\)"),
    ],
)
def test_ways_to_look_at_values(function: Any, how: str) -> None:
    compiled = torch.compile(function)
    x = torch.ones(3)
    with pytest.warns(UserWarning, match=f"reads with {how}"):
        assert same(compiled(x), function(x))
    assert same(compiled(x * 2), function(x * 2))
    assert not compiled.entries


@pytest.mark.parametrize(
    ("function", "how"),
    [
        (lambda x, mask: x[mask].mean(), "indexing with a mask"),
        (lambda x, mask: torch.masked_select(x, mask).mean(), r"masked_select\(\)"),
        (lambda x, mask: x * len(torch.nonzero(mask)), r"nonzero\(\)"),
        (lambda x, mask: x * torch.unique(x * mask).numel(), r"unique\(\)"),
        (lambda x, mask: x * torch.unique_consecutive(x * mask).numel(), "unique_consecutive"),
    ],
)
def test_sizes_that_depend_on_values_are_not_programs(function: Any, how: str) -> None:
    compiled = torch.compile(function)
    x = torch.arange(4.0)
    with pytest.warns(UserWarning, match=f"reads with {how}.* result size depends on them"):
        compiled(x, torch.tensor([True, False, True, False]))
    for mask in ([True] * 4, [False, False, True, False]):
        assert same(compiled(x, torch.tensor(mask)), function(x, torch.tensor(mask)))


def test_masks_that_are_constants() -> None:
    both(lambda x: x[torch.tensor([True, False, True])].mean(), (torch.arange(3.0),))


def test_tensors_filled_at_random_are_filled_anew() -> None:
    def function(x: Any) -> Any:
        first, second = torch.empty(3).uniform_(), torch.empty(3).uniform_()
        return x + first, second.normal_(), x.clone().uniform_(), x.clone().uniform_()

    compiled = torch.compile(function, fullgraph=True)
    torch.manual_seed(1)
    expected = [function(torch.ones(3)) for _ in range(3)]
    torch.manual_seed(1)
    for one in expected:
        assert same(compiled(torch.ones(3)), one)
    assert len(compiled.entries) == 1


def test_python_random_numbers_are_not_programs() -> None:
    import random

    compiled = torch.compile(lambda x: x + random.random())
    with pytest.warns(UserWarning, match="Python's random module"):
        first = compiled(torch.zeros(1))
    assert compiled(torch.zeros(1)).item() != first.item()


def test_seeding_inside_is_not_a_program() -> None:
    def function(x: Any) -> Any:
        torch.manual_seed(0)
        return x + torch.rand(1)

    compiled = torch.compile(function)
    torch.manual_seed(0)
    with pytest.warns(UserWarning, match=r"setting a random generator, by manual_seed\(\)"):
        first = compiled(torch.zeros(1))
    assert compiled(torch.zeros(1)).item() == first.item()


def test_iterators_are_not_programs() -> None:
    numbers = iter(range(10))
    compiled = torch.compile(lambda x: x + next(numbers))
    with pytest.warns(UserWarning, match="iterator"):
        found = [compiled(torch.zeros(1)).item() for _ in range(3)]
    assert found == [0, 1, 2]


def test_python_state_that_a_function_writes() -> None:
    seen: list[Any] = []
    counter = {"calls": 0}

    def function(x: Any) -> Any:
        counter["calls"] += 1
        seen.append(x * 2)
        return x + 1

    compiled = torch.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(30):
            assert compiled(torch.tensor([float(i)])).item() == i + 1
    assert counter["calls"] == 30
    assert [x.item() for x in seen] == [2 * i for i in range(30)]


_calls = 0


def counting(x: Any) -> Any:
    global _calls
    _calls = (_calls + 1) % 3
    return x + _calls


def test_globals_that_a_function_writes() -> None:
    compiled = torch.compile(counting, fullgraph=True)
    found = [compiled(torch.zeros(1)).item() for _ in range(9)]
    assert found == [1, 2, 0] * 3
    assert len(compiled.entries) == 3


def test_functions_that_return_no_tensor() -> None:
    compiled = torch.compile(lambda x: (x.shape, x.dtype, None, 3), fullgraph=True)
    for _ in range(2):
        assert compiled(torch.ones(2)) == (torch.Size([2]), torch.float32, None, 3)


def test_recursion() -> None:
    def power(x: Any, n: int) -> Any:
        return x if n == 1 else x * power(x, n - 1)

    both(power, (torch.tensor([2.0]), 5))


def test_exceptions_leave_everything_as_it_was() -> None:
    state = torch.zeros(3)

    def function(x: Any, index: Any) -> Any:
        state.add_(1)
        return x[index]

    compiled = torch.compile(function, fullgraph=True)
    x = torch.arange(3.0)
    assert compiled(x, torch.tensor([2])).tolist() == [2]
    assert state.tolist() == [1, 1, 1]
    with pytest.raises((IndexError, RuntimeError), match="out of bounds"):
        compiled(x, torch.tensor([7]))
    assert state.tolist() == [1, 1, 1], "nothing is half-written"
    assert compiled(x, torch.tensor([1])).tolist() == [1]
    assert state.tolist() == [2, 2, 2]


def test_exceptions_while_tracing() -> None:
    state = torch.zeros(1)

    def function(x: Any) -> Any:
        state.add_(1)
        raise ValueError("no")

    compiled = torch.compile(function)
    for i in range(2):
        with pytest.raises(ValueError, match="no"):
            compiled(torch.ones(1))
        assert state.item() == i + 1
        assert (state + 1).item() == i + 2


def test_another_thread_uses_tensors_during_a_trace() -> None:
    w = torch.tensor([0.5, 2.0], requires_grad=True)
    u = torch.tensor([1.0, 3.0], requires_grad=True)
    h = u * 2  # its history is hidden during a trace
    traced, done = threading.Event(), threading.Event()
    results: dict[str, Any] = {}

    def work() -> None:
        traced.wait(60)
        try:
            y = (3 - w * w + w.sin() * 2 + w.reshape(2, 1).mT[0] / w).sum() + w @ w + w.tolist()[0]
            results["grad"] = torch.autograd.grad(y, w)[0].tolist()
            results["y"] = y.item()
            results["later"] = (w * w).sum()
            with torch.no_grad():
                results["constant"] = (w + 1).tolist()
            for use in (lambda: h * 2, lambda: h.sin(), lambda: h[0], lambda: torch.cat([h, h])):
                with pytest.raises(RuntimeError, match="is being traced in another thread"):
                    use()
        except BaseException as error:
            results["error"] = error
        done.set()

    def function(x: Any) -> Any:
        y = x * w + h
        if not done.is_set():
            traced.set()
            done.wait(60)
        return (y * w).sum()

    thread = threading.Thread(target=work)
    thread.start()
    compiled = torch.compile(function)
    x = torch.tensor([1.0, 2.0])
    first = compiled(x)
    thread.join()
    assert "error" not in results, results["error"]
    a, b = 0.5, 2.0
    assert results["y"] == pytest.approx(
        6 - a * a - b * b + 2 * (math.sin(a) + math.sin(b)) + 2 + a * a + b * b + a
    )
    assert results["grad"] == pytest.approx([2 * math.cos(a), 2 * math.cos(b)], abs=1e-6)
    assert results["constant"] == [1.5, 3.0]
    results["later"].backward()
    assert w.grad.tolist() == [1.0, 4.0]
    assert compiled.eager_because is None
    for result in (first, compiled(x)):
        slopes = torch.autograd.grad(result, [w, u], retain_graph=True)
        assert result.item() == 0.25 + 8 + 1 + 12
        assert [s.tolist() for s in slopes] == [[3.0, 14.0], [1.0, 4.0]]


def test_threads() -> None:
    weight = torch.ones(4)
    compiled = torch.compile(lambda x: (x * weight).exp().sum(), fullgraph=True)
    found: dict[int, Any] = {}

    def work(n: int) -> None:
        for _ in range(5):
            found[n] = compiled(torch.full((4,), float(n))).item()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: pytest.approx(4 * np.exp(n), rel=1e-6) for n in range(4)}
    assert len(compiled.entries) == 1


def test_bad_arguments() -> None:
    with pytest.raises(RuntimeError, match="Invalid backend"):
        torch.compile(energy, backend="nonsense")
    with pytest.raises(RuntimeError, match="takes a function"):
        torch.compile(3)
    with pytest.raises(RuntimeError, match="call the function first"):
        torch.compile(energy).source
    assert torch.compile(energy, disable=True) is energy


def test_as_decorator_and_method() -> None:
    class Model:
        def __init__(self) -> None:
            self.weight = torch.tensor([3.0])

        @torch.compile
        def call(self, x: Any) -> Any:
            return x * self.weight

    @torch.compile(fullgraph=True)
    def double(x: Any) -> Any:
        return x * 2

    model, other = Model(), Model()
    other.weight = torch.tensor([5.0])
    for _ in range(2):
        assert model.call(torch.ones(1)).item() == 3
        assert other.call(torch.ones(1)).item() == 5
        assert double(torch.ones(1)).item() == 2
    assert double.__name__ == "double"


def test_the_default_device_is_guarded() -> None:
    filled = torch.compile(lambda x: x + torch.zeros(3))
    x = torch.ones(3)
    assert filled(x).device.type == "cpu"
    with torch.device("meta"), pytest.warns(UserWarning, match="runs eagerly"):
        assert filled(torch.ones(3)).device.type == "meta"
    assert filled(x).tolist() == [1, 1, 1]


def test_writes_under_jvp_are_traced() -> None:
    def f(x: Any) -> Any:
        a = x * 2
        a[::2] *= x[::2]
        return a.mul_(x)

    x = torch.arange(1.0, 5.0)
    moved = torch.compile(lambda x: torch.func.jvp(f, (x,), (torch.ones(4),))[1])
    assert moved(x).tolist() == [6.0, 8.0, 54.0, 16.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
def test_single_elements_are_taken_and_put_together_by_numpy(dtype: Any) -> None:
    def f(x: Any) -> Any:
        return torch.stack([x[1] * x[-1], x[0] - 1])

    x = torch.arange(3).to(dtype)
    compiled = torch.compile(f)
    for _ in range(2):
        found = compiled(x)
    assert found.dtype == dtype
    assert found.tolist() == f(x).tolist() == [2, -1]
    assert "np.array([" in compiled.source
    assert "x[0]" in compiled.source


def test_containers_that_are_given_are_returned_themselves() -> None:
    @torch.compile
    def collect(batch: Any, log: Any, seen: Any) -> Any:
        batch["y"] = batch["x"] * 2
        log.append(batch["y"].sum())
        seen.add(len(log))
        return batch, [log, (seen,)], batch["y"] + 1

    for i in range(3):
        batch, log, seen = {"x": torch.ones(2) * i}, [7], {0}
        first, (second, (third,)), last = collect(batch, log, seen)
        assert first is batch
        assert second is log
        assert third is seen
        assert last.tolist() == [2 * i + 1] * 2
        assert batch["y"].tolist() == [2 * i] * 2
        assert [log[0], log[1].item()] == [7, 4 * i]
        assert seen == {0, 2}
    assert len(collect.entries) == 1


def test_attributes_in_slots_are_set_by_each_call() -> None:
    class State:
        __slots__ = ("count", "last")

    state = State()
    state.count = 0

    @torch.compile
    def step(x: Any) -> Any:
        if hasattr(state, "last"):
            del state.last
        else:
            state.last = x * 2
        return x + state.count

    for i in range(4):
        state.count = i // 2
        assert step(torch.full((2,), float(i))).tolist() == [i + i // 2] * 2
        assert (state.last.tolist() if i % 2 == 0 else hasattr(state, "last")) == (
            [2 * i] * 2 if i % 2 == 0 else False
        )
    assert len(step.entries) == 4
