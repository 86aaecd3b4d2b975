"""Tiles: runs of elementwise operations, done block by block."""

from typing import Any

import numpy as np
import pytest

import retrograd as torch
import retrograd.nn.functional as F
from retrograd.arrays import _blocks
from retrograd.compiler import _tiles
from retrograd.func import grad
from retrograd.ops._operation import TABLE


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have arrays of a few thousand elements cut into blocks, on two threads."""
    monkeypatch.setattr(_tiles, "LARGE", 5000)
    monkeypatch.setattr(_tiles, "FEWEST_ROWS", 2)
    monkeypatch.setattr(_blocks, "TILE_BYTES", 4000)
    monkeypatch.setattr(_blocks.workers, "count", 2)
    monkeypatch.setattr(_blocks.workers, "_pool", None)


def numbers(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.randn(shape, dtype=dtype)


def check(function: Any, *args: Any, tiles: int = 1) -> Any:
    """The source, after a check that the program gives what the function does, to the bit."""
    compiled = torch.compile(function, fullgraph=True)
    for _ in range(3):
        expected = function(*args)
        found = compiled(*args)
        expected, found = ([x] if isinstance(x, torch.Tensor) else x for x in (expected, found))
        for a, b in zip(expected, found, strict=True):
            assert a.dtype == b.dtype
            assert a.stride() == b.stride()
            assert np.array_equal(a.detach().numpy(), b.detach().numpy(), equal_nan=True)
    assert compiled.source.count("by_blocks(") == tiles
    return compiled


def test_what_a_tile_looks_like() -> None:
    def function(x: Any, y: Any) -> Any:
        h = x * y + 1
        return torch.tanh(h) * x

    compiled = check(function, numbers(60, 200), numbers(60, 200))
    assert compiled.source == (
        "one = np.array(1.0, np.float32)\n"
        "\n"
        "def function(x, y):\n"
        "    t1 = np.empty((60, 200), np.float32)\n"
        "    def tile(x, y, t1):\n"
        "        # h = x * y + 1\n"
        "        t2 = x * y\n"
        "        h = np.add(t2, one, out=t2)\n"
        "        # return torch.tanh(h) * x\n"
        "        t2 = np.tanh(h, out=h)\n"
        "        np.multiply(t2, x, out=t1)\n"
        "    by_blocks(tile, (12000,), x, y, t1)\n"
        "    return t1,"
    )
    assert compiled.cost.bytes_moved == 3 * 48000, "x, y and the result"
    assert compiled.cost.eager.bytes_moved == 10 * 48000
    assert compiled.cost.operations == 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_operands_that_are_expanded(dtype: Any) -> None:
    def function(x: Any, row: Any, line: Any, column: Any, number: Any) -> Any:
        return ((x * row - line) / column + number).exp() > 1, (x - column) * 2

    operands = [numbers(*s, dtype=dtype) for s in ((60, 200), (200,), (1, 200), (60, 1), ())]
    check(function, *operands)


def test_more_than_two_dimensions() -> None:
    def function(x: Any, row: Any, column: Any) -> Any:
        return (x * row + column).sigmoid() * x

    check(function, numbers(20, 3, 200), numbers(200), numbers(20, 3, 1))
    check(function, numbers(20, 3, 200), numbers(20, 3, 200), numbers(20, 3, 200))
    check(function, numbers(20, 3, 200), numbers(3, 200), numbers(20, 1, 1))
    check(function, numbers(12000), numbers(12000), numbers())


def test_arrays_that_lie_otherwise_are_left_alone() -> None:
    def function(x: Any) -> Any:
        return (x * 2 + 1).exp()

    check(function, numbers(200, 60).t(), tiles=0)
    check(function, numbers(60, 400)[:, ::2], tiles=1)  # after the first operation


def test_gradients_are_part_of_the_tile() -> None:
    def loss(x: Any, y: Any) -> Any:
        return (F.silu(x * y) - torch.where(x > 0, x, y.abs()).relu()).pow(2).sum()

    check(grad(loss, argnums=(0, 1)), numbers(60, 200), numbers(60, 200), tiles=1)


def test_what_depends_on_a_tile_comes_after_it() -> None:
    def function(x: Any, y: Any) -> Any:
        h = x * y + 1
        total = h.sum()
        k = x - y * 2
        m = (k * total).exp()  # which has to wait for the sum
        return h, m - h, (y @ y.t()).sum() * x

    check(function, numbers(60, 200) / 100, numbers(60, 200) / 100, tiles=2)


def test_constants_of_several_tiles_have_names_of_their_own() -> None:
    def function(x: Any, y: Any) -> Any:
        h = x * 3 + 5
        k = (h.sum() + y) * 7 - 9
        return h * 11 + k * 13

    compiled = check(function, numbers(60, 200), numbers(60, 200), tiles=2)
    assert compiled.source.count(" = np.array(") == 6


def test_random_numbers_are_drawn_in_their_order() -> None:
    def function(x: Any) -> Any:
        h = x * 2 + 1
        a = torch.rand(60, 200)
        h = h * a + x
        b = torch.rand(60, 200)
        return h - b * x

    compiled = torch.compile(function, fullgraph=True)
    x = numbers(60, 200)
    for seed in range(3):
        torch.manual_seed(seed)
        expected = function(x)
        torch.manual_seed(seed)
        assert compiled(x).tolist() == expected.tolist()
    assert "by_blocks" in compiled.source


def test_state_is_written_after_tiles() -> None:
    state = torch.zeros(60, 200)

    def step(x: Any) -> Any:
        h = (x + state) * 2
        state.mul_(0.5).add_(h)
        return h - state

    compiled = torch.compile(step, fullgraph=True)
    x = numbers(60, 200)
    results = []
    for run in (step, compiled):
        state.zero_()
        results.append([run(x).tolist() for _ in range(4)] + [state.tolist()])
    assert results[0] == results[1]
    assert "by_blocks" in compiled.source


def test_warnings_and_errors_in_threads_reach_the_caller() -> None:
    compiled = torch.compile(lambda x: (x * 2).exp() / x, fullgraph=True)
    compiled(torch.ones(60, 200))
    with pytest.warns(RuntimeWarning, match="overflow"):
        compiled(torch.full((60, 200), 100.0))


def test_tiles_can_be_saved(tmp_path: Any) -> None:
    compiled = check(lambda x: (x * 2).sigmoid() + x, numbers(60, 200))
    compiled.save(tmp_path / "program.py")
    names: dict[str, Any] = {"__name__": "program"}
    exec((tmp_path / "program.py").read_text(), names)
    x = numbers(60, 200)
    (found,) = names["_lambda_"](x.numpy())
    assert np.array_equal(found, compiled(x).numpy())


def test_kernels_by_name_are_operations() -> None:
    assert torch.nn.functional.gelu(torch.ones(1)).shape == (1,), "which loads its module"
    assert TABLE.keys() >= _tiles.BY_ELEMENT


@pytest.mark.parametrize("name", ["gelu", "silu"])
def test_an_activation_and_its_gradient_share_an_exponential(name: str) -> None:
    activation = getattr(F, name)

    def function(x: Any) -> Any:
        result = activation(x)
        return result.detach(), torch.autograd.grad((result * result).sum(), x)[0]

    x = numbers(60, 200)
    x[0, :8] = torch.tensor([0.0, -0.0, 7.0, -7.0, 100.0, -100.0, 1e30, -1e30])
    compiled = check(function, x.requires_grad_())
    assert compiled.source.count(f"{name}_divisor(") == 1
    assert compiled.source.count("_backward_of(") == 1
    wide = check(function, numbers(60, 200, dtype=torch.float64).requires_grad_())
    assert "_divisor" not in wide.source, "in double precision there is another kernel"


def test_activations_of_other_operands_share_nothing() -> None:
    def function(x: Any, g: Any) -> Any:
        other = F.gelu(g) * F.gelu(x, approximate="tanh")
        return other, torch.autograd.grad(F.silu(x), x, g)[0]

    compiled = check(function, numbers(60, 200).requires_grad_(), numbers(60, 200))
    assert "_divisor" not in compiled.source


@pytest.mark.parametrize(
    ("options", "sign"),
    [({}, 1), ({"reduction": "sum"}, -1), ({"ignore_index": 3}, 1), ({"ignore_index": 3}, -1),
     ({"weight": True}, 1), ({"label_smoothing": 0.1}, 1)],
)  # fmt: skip
def test_the_gradient_of_cross_entropy_is_one_line(options: dict[str, Any], sign: int) -> None:
    if "weight" in options:
        options = {"weight": torch.rand(120)}
    x = numbers(60, 120) * 40  # some probabilities are zero
    classes = torch.randint(0, 120, (60,))
    classes[5] = 3

    def function(x: Any, classes: Any) -> Any:
        loss = F.cross_entropy(x, classes, **options)
        return loss.detach(), *torch.autograd.grad(loss * sign, x)

    compiled = check(function, x.requires_grad_(), classes, tiles=0)
    assert ("cross_entropy_backward" in compiled.source) is ("label_smoothing" not in options)
    expected, found = (f(x, classes)[1].numpy() for f in (function, compiled))
    assert np.array_equal(np.signbit(expected), np.signbit(found)), "zeros too"


def test_programs_with_shared_steps_are_saved(tmp_path: Any) -> None:
    def both(x: Any, classes: Any) -> Any:
        (first,) = torch.autograd.grad(F.cross_entropy(x, classes), x)
        result = F.silu(x)
        return first, *torch.autograd.grad((result * result).sum(), x)

    x, classes = numbers(60, 120), torch.randint(0, 120, (60,))
    compiled = check(both, x.requires_grad_(), classes, tiles=1)
    compiled.save(tmp_path / "program.py")
    names: dict[str, Any] = {"__name__": "program"}
    exec((tmp_path / "program.py").read_text(), names)
    results = names["both"](*[v.detach().numpy() for v in (x, classes)])
    for found, expected in zip(results, compiled(x, classes), strict=True):
        assert np.array_equal(found, expected.numpy())
