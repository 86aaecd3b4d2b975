"""Programs as text: what they look like, what passes make of them, saving, and cost."""

import gc
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd.compiler import Program
from retrograd.compiler._passes import simplified
from retrograd.compiler._trace import Trace
from retrograd.compiler._traced import Traced
from retrograd.func import grad


def compiled_on(function: Any, *args: Any) -> Any:
    compiled = torch.compile(function, fullgraph=True)
    compiled(*args)
    return compiled


def loss(w: Any, x: Any) -> Any:
    h = torch.tanh(x @ w)
    return (h * h).sum()


def test_programs_read_like_numpy() -> None:
    compiled = compiled_on(grad(loss), torch.ones(3, 2), torch.ones(4, 3))
    assert str(compiled) == compiled.source
    assert compiled.source == (
        "def loss(w, x):\n"
        "    # h = torch.tanh(x @ w)\n"
        "    h = np.tanh(x @ w)\n"
        "    # -- backward --\n"
        "    # return (h * h).sum()\n"
        "    t1 = h + h\n"
        "    # h = torch.tanh(x @ w)\n"
        "    t1 = x.T @ (t1 - t1 * (h * h))\n"
        "    return t1,"
    )


def test_operators_keep_their_order() -> None:
    def function(x: Any, y: Any) -> Any:
        return (x - (y - x)) / (x / y) * -(x + y) @ (x * y - x) == -x - y

    x, y = torch.randn(2, 3, 3).unbind()
    compiled = compiled_on(function, x, y)
    assert [line for line in compiled.source.splitlines() if "#" not in line] == [
        "def function(x, y):", "    t1 = -(x + y)", "    t1 *= (x - (y - x)) / (x / y)",
        "    t2 = -x - y", "    t1 = t1 @ (x * y - x) == t2", "    return t1,",
    ]  # fmt: skip
    assert compiled(x, y).tolist() == function(x, y).tolist()


def test_names_and_memory_are_used_again() -> None:
    def function(x: Any, y: Any) -> Any:
        h = x * y
        h = h.exp()
        k = h + y
        h = h * k * k
        return h * k, k

    x, y = torch.randn(2, 5).unbind()
    compiled = compiled_on(function, x, y)
    assert [line for line in compiled.source.splitlines() if "#" not in line] == [
        "def function(x, y):", "    h = x * y", "    h = np.exp(h)", "    k = h + y",
        "    h = h * k * k", "    h *= k", "    return h, k",
    ]  # fmt: skip
    for a, b in zip(compiled(x, y), function(x, y), strict=True):
        assert a.tolist() == b.tolist()


def test_what_is_split_is_computed_once() -> None:
    def function(x: Any, y: Any) -> Any:
        a, b = (x * y).chunk(2)
        return a + b, (x @ y)[0]

    compiled = compiled_on(function, torch.randn(4, 4), torch.randn(4, 4))
    assert "    t1 = x * y\n    a, b = t1[:2], t1[2:4]\n" in compiled.source


def test_results_before_a_view_have_their_names() -> None:
    def function(x: Any) -> Any:
        gates = x.exp()
        a, b = gates.chunk(2)
        return a * b

    assert "    gates = np.exp(x)\n" in compiled_on(function, torch.ones(4)).source


def test_gradients_are_added_up_in_place_under_their_names() -> None:
    w = torch.randn(2, 2, requires_grad=True)

    def step(x: Any) -> Any:
        w.grad = None
        for _ in range(3):
            x = (x @ w).tanh()
        x.sum().backward()
        return w.grad

    compiled = compiled_on(step, torch.ones(1, 2))
    assert compiled.source.count("w_grad += ") == 2
    assert compiled(torch.ones(1, 2)) is w.grad
    assert compiled(torch.ones(1, 2)).tolist() == step(torch.ones(1, 2)).tolist()


def test_numbers_beside_arrays_are_constants_of_their_dtype() -> None:
    compiled = compiled_on(lambda x: (1 - x) * 0.5 + torch.sigmoid(x * 3), torch.randn(4))
    assert compiled.source.startswith(
        "one = np.array(1.0, np.float32)\nhalf = np.array(0.5, np.float32)\n"
        "c = np.array(3.0, np.float32)\n\n"
    )
    assert "= (one - x) * half + one / (one + np.exp(-(x * c)))" in compiled.source


def lines_of(function: Any, *args: Any) -> list[str]:
    return [line.operation.name for line in compiled_on(function, *args).program.lines]


def test_dead_code_is_left_out() -> None:
    assert lines_of(lambda x: (x.exp(), x.sin())[1], torch.ones(2)) == ["sin"]


def test_equal_lines_are_computed_once() -> None:
    assert lines_of(lambda x: x.exp() * x.exp(), torch.ones(2)) == ["exp", "mul"]
    compiled = compiled_on(lambda x: (x.exp(), x.exp()), torch.ones(2))
    a, b = compiled(torch.ones(2))
    a.zero_()
    assert b.tolist() == pytest.approx([np.e] * 2)


def test_constants_are_computed_ahead() -> None:
    assert lines_of(lambda x: x + torch.arange(3).exp(), torch.ones(3)) == ["add"]


def test_what_changes_nothing_is_left_out() -> None:
    def function(x: Any) -> Any:
        return ((x * 1 / 1.0 - 0) * torch.ones(2)).exp()

    assert lines_of(function, torch.ones(2)) == ["exp"]
    compiled = compiled_on(lambda x: x + 0.0, torch.ones(1))
    assert str(compiled(torch.tensor([-0.0])).item()) == "0.0", "-0.0 + 0.0 is 0.0"
    assert lines_of(lambda x: x * 0, torch.ones(2)) == ["mul"], "which is NaN for infinity"


def test_views_that_show_everything_are_left_out() -> None:
    assert lines_of(lambda x: x.t().t().view(2, 3).exp(), torch.ones(2, 3)) == ["exp"]


def test_copies_are_left_out() -> None:
    assert lines_of(lambda x: x.clone().exp().clone(), torch.ones(2)) == ["exp"]
    assert lines_of(lambda x: x.clone(), torch.ones(2)) == ["clone"]


def test_large_results_are_put_where_operands_were() -> None:
    x = torch.rand(200, 200)
    compiled = compiled_on(lambda x: ((x + 1) * x).tanh().sin(), x)
    assert "out=t1" in compiled.source
    assert np.array_equal(compiled(x).numpy(), ((x + 1) * x).tanh().sin().numpy())
    compiled = compiled_on(lambda x: (y := x + 1, y * 2), x)
    y, _ = compiled(x)
    assert np.array_equal(y.numpy(), (x + 1).numpy())


def test_state_is_updated_in_place_and_last() -> None:
    state = torch.zeros(3)

    def function(x: Any) -> Any:
        state.add_(x)
        return x.exp()

    compiled = compiled_on(function, torch.ones(3))
    memory = state.numpy()
    compiled(torch.ones(3))
    assert memory.tolist() == [2, 2, 2]


def test_programs_run_without_being_compiled() -> None:
    compiled = compiled_on(grad(loss), torch.ones(3, 2), torch.ones(4, 3))
    w, x = (
        np.random.default_rng(0).random((3, 2), "f"),
        np.random.default_rng(1).random((4, 3), "f"),
    )
    (found,) = compiled.program.run(w, x)
    expected = compiled(torch.from_numpy(w), torch.from_numpy(x))
    assert np.array_equal(found, expected.numpy())
    program = compiled.program
    assert isinstance(program, Program)
    assert [(v.name, v.shape) for v in program.inputs] == [("w", (3, 2)), ("x", (4, 3))]
    assert simplified(program) is program


def run_module(path: Path, code: str) -> str:
    """What some code prints that imports a saved program, where there is no retrograd."""
    command = [
        sys.executable,
        "-S",
        "-c",
        f"import sys; sys.path[:0] = {[str(path.parent), *NUMPY]}\n{code}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout


NUMPY = [str(Path(np.__file__).parent.parent)]


def test_saved_programs_need_numpy_only(tmp_path: Path) -> None:
    compiled = compiled_on(
        grad(lambda w, x: loss(w, x) * torch.tensor([0.1, 0.2, float("inf")])[1]),
        torch.ones(3, 2), torch.ones(4, 3),
    )  # fmt: skip
    compiled.save(tmp_path / "slope.py")
    assert "retrograd" not in (tmp_path / "slope.py").read_text().split('"""')[2]
    x = (np.arange(12.0, dtype="f") / 10).reshape(4, 3)
    expected = compiled(torch.full((3, 2), 0.5), torch.from_numpy(x)).tolist()
    printed = run_module(
        tmp_path / "slope.py",
        "import numpy as np, slope\n"
        "f = next(f for n, f in vars(slope).items() if n in ('_lambda_', 'program_lambda_'))\n"
        "x = (np.arange(12., dtype='f') / 10).reshape(4, 3)\n"
        "print(f(np.full((3, 2), 0.5, 'f'), x)[0].tolist())",
    )
    assert printed.strip() == str(expected)


def test_saved_programs_import_kernels(tmp_path: Path) -> None:
    compiled = compiled_on(lambda x: torch.softmax(x, 0).relu(), torch.ones(700))
    compiled.save(tmp_path / "softened.py")
    names: dict[str, Any] = {}
    exec((tmp_path / "softened.py").read_text(), names)
    function = next(f for n, f in names.items() if n.endswith("lambda_"))
    x = np.linspace(0, 1, 700, dtype="f")
    assert np.array_equal(function(x)[0], compiled(torch.from_numpy(x)).numpy())


def test_what_cannot_be_saved_says_so(tmp_path: Path) -> None:
    compiled = compiled_on(lambda x: x + torch.rand(2), torch.ones(2))
    with pytest.raises(NotImplementedError, match="cannot be saved"):
        compiled.save(tmp_path / "drawn.py")


@pytest.mark.parametrize("what", ["adam_update", "keep_mask", "native_batch_norm"])
def test_steps_with_state_of_the_process_cannot_be_saved(what: str, tmp_path: Path) -> None:
    model = {
        "adam_update": torch.nn.Linear(3, 3), "keep_mask": torch.nn.Dropout(0.5),
        "native_batch_norm": torch.nn.BatchNorm1d(3),
    }[what]  # fmt: skip
    optimizer = torch.optim.Adam(torch.nn.Linear(3, 3).parameters())
    if what == "adam_update":
        optimizer = torch.optim.Adam(model.parameters())

    def step(x: Any) -> Any:
        loss = (model(x) ** 2).sum()
        if what == "adam_update":
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.detach()

    compiled = compiled_on(step, torch.randn(4, 3))
    with pytest.raises(NotImplementedError, match=rf"calls {what}\(\).* cannot be saved"):
        compiled.save(tmp_path / "step.py")
    assert not (tmp_path / "step.py").exists()


def test_cost() -> None:
    compiled = compiled_on(lambda x: (x + 1) * (x + 1), torch.ones(10, 10))
    cost = compiled.cost
    assert (cost.operations, cost.eager.operations) == (2, 3)
    assert (cost.bytes_moved, cost.eager.bytes_moved) == (1600, 2800)
    assert cost.peak_bytes == 800
    assert cost.eager.peak_bytes == 1200
    assert str(cost).splitlines()[1].split() == ["operations", "2", "3"]


def traces() -> set[int]:
    return {id(x) for x in gc.get_objects() if type(x) in (Trace, Traced)}


def test_a_program_keeps_nothing_of_the_run_that_it_was_traced_in() -> None:
    before = traces()
    compiled = torch.compile(lambda x: x.exp() * x.exp().detach() + 1)
    x = torch.ones(4, requires_grad=True)
    result = compiled(x)
    first = weakref.ref(x._data), weakref.ref(result)
    compiled(torch.ones(4, requires_grad=True)).sum().backward()
    del x, result
    gc.collect()
    assert len(compiled.entries) == 1
    assert [y() for y in first] == [None, None]
    assert traces() <= before


def test_running_statistics_keep_nothing_of_it_either() -> None:
    before = traces()
    norm = torch.nn.BatchNorm1d(3)
    compiled = torch.compile(lambda x: norm(x).sum())
    for _ in range(2):
        compiled(torch.randn(4, 3))
    gc.collect()
    assert len(compiled.entries) == 1
    assert norm.num_batches_tracked.item() == 2
    assert traces() <= before


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_forms_of_squares_padding_and_stacks_are_those_of_the_kernels(dtype: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        padded = torch.nn.functional.pad(x, (2, 1))
        rows, columns = torch.stack([x, y]), torch.stack([x, y], -1)
        cubes = torch.stack([rows, rows + 1], -1)
        return padded**2, rows, columns, cubes, torch.nn.functional.pad(x, (1, 1), value=-0.0)

    compiled = torch.compile(f)
    x, y = torch.tensor([-0.0, 1e-20, 3.0], dtype=dtype), torch.tensor([1.5, -2, 7], dtype=dtype)
    for _ in range(2):
        for a, b in zip(compiled(x, y), f(x, y), strict=True):
            assert a.dtype == b.dtype
            assert a.stride() == b.stride()
            assert a.numpy().tobytes() == b.numpy().tobytes()
    assert "np.square(" in compiled.source
    assert "pow_scalar" not in compiled.source
    assert "np.zeros(2, " in compiled.source
    assert "constant_pad_nd(" in compiled.source
    assert ".transpose(1, 0).copy()" in compiled.source
