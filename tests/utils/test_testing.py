"""``testing``, ``utils.pytree``, ``utils.benchmark`` and ``signal.windows``, beside PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
from _side_by_side import outcome

import retrograd

CLOSE = "torch.testing.assert_close"
X = "torch.tensor([1.0, 2.0])"
EXPRESSIONS = f"""
{CLOSE}({X}, {X})
{CLOSE}({X}, {X} + 1e-7)
{CLOSE}({X}, torch.tensor([1.0, 3.0]))
{CLOSE}({X}, {X}.double())
{CLOSE}({X}, {X}.double(), check_dtype=False)
{CLOSE}({X}, torch.ones(3))
{CLOSE}(torch.tensor([1, 2]), torch.tensor([1, 4]))
{CLOSE}(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[1, 2], [3, 9]]))
{CLOSE}(1.0, 2.0)
{CLOSE}(1, 2)
{CLOSE}(1, 1.0)
{CLOSE}(torch.tensor(1.0), torch.tensor(2.0))
{CLOSE}([{X}, {X}], [{X}, {X} + 1])
{CLOSE}({{'a': 1.0, 'b': {X}}}, {{'a': 1.0, 'b': {X} + 1}})
{CLOSE}([1], [1, 2])
{CLOSE}(torch.tensor([float('nan')]), torch.tensor([float('nan')]))
{CLOSE}(torch.tensor([float('nan')]), torch.tensor([float('nan')]), equal_nan=True)
{CLOSE}({X}, {X} + 0.5, rtol=0, atol=1)
{CLOSE}({X}, {X} + 0.5, rtol=0, atol=0.1)
{CLOSE}({X}, {X}, rtol=1.0)
{CLOSE}({X}, {X} + 1, msg='different')
{CLOSE}({X}, {X} + 1, msg=lambda text: 'so: ' + text)
{CLOSE}({X}, 'text')
{CLOSE}(np.ones(2), np.ones(2))
{CLOSE}(torch.ones(2, 2).T, torch.ones(2, 2), check_stride=True)
torch.testing.make_tensor(3, device='cpu', dtype=torch.float32)
torch.testing.make_tensor((2, 2), device='cpu', dtype=torch.int64, low=0, high=5)
torch.testing.make_tensor(4, device='cpu', dtype=torch.bool)
torch.testing.make_tensor(3, device='cpu', dtype=torch.complex64)
torch.testing.make_tensor(2, 3, device='cpu', dtype=torch.float64, noncontiguous=True).stride()
torch.testing.make_tensor(3, device='cpu', dtype=torch.uint8)
torch.testing.make_tensor(3, device='cpu', dtype=torch.int8)
torch.testing.make_tensor(3, device='cpu', dtype=torch.float32, requires_grad=True).requires_grad
torch.testing.make_tensor(3, device='cpu', dtype=torch.int64, requires_grad=True)
torch.testing.make_tensor(3, device='cpu', dtype=torch.float32, low=2, high=1)
torch.testing.make_tensor(9, device='cpu', dtype=torch.int8, low=0, high=2, exclude_zero=True)
""".strip().split("\n")  # fmt: skip
WINDOWS = """
hann(5); hann(5, sym=False); hamming(6); blackman(4); bartlett(5); bartlett(6, sym=False)
cosine(5); cosine(5, sym=False); exponential(5); exponential(4, sym=False, center=0, tau=2.0)
gaussian(5); gaussian(6, std=0.5, sym=False); kaiser(5); kaiser(6, beta=3.0, sym=False); nuttall(7)
general_hamming(5, alpha=0.3); general_cosine(5, a=[0.5, 0.3, 0.2]); hann(0); hann(1); hann(-1)
kaiser(1); hann(3, dtype=torch.float64); hann(3, dtype=torch.int64); gaussian(3, std=-1.0)
exponential(3, tau=0); exponential(4, center=1); general_cosine(4, a=[])
hann(3, requires_grad=True).requires_grad
""".replace("\n", "; ").split("; ")[1:-1]
TREES = """
tree_map(lambda x: x + 1, {'a': 1, 'b': (2, [3])}); tree_leaves([1, (2, {'k': 3}), None])
tree_flatten({'b': 1, 'a': 2})[0]; tree_unflatten([1, 2], tree_flatten(('x', ['y']))[1])
tree_map(lambda a, b: a + b, [1, (2,)], [10, (20,)]); tree_all(lambda x: x > 0, [1, [2]])
tree_map_only(int, lambda x: -x, [1, 'a', (2.0, 3)]); tree_any(lambda x: x > 1, [1, [2]])
tree_leaves([(1, 2), [3]], is_leaf=lambda x: isinstance(x, tuple))
""".replace("\n", "; ").split("; ")[1:-1]


@pytest.mark.parametrize(
    "code", [*EXPRESSIONS, *(f"torch.signal.windows.{call}" for call in WINDOWS)]
)
def test_as_in_pytorch(torch: Any, code: str) -> None:
    import torch.signal  # not a part of torch until it is imported
    import torch.testing

    assert outcome(retrograd, code) == outcome(torch, code)


@pytest.mark.parametrize("code", TREES)
def test_trees(torch: Any, code: str) -> None:
    from torch.utils import _pytree

    import retrograd.utils._pytree as ours

    assert eval(code, vars(ours)) == eval(code, vars(_pytree))


def test_whole_messages(torch: Any) -> None:
    import torch.testing

    def said(library: Any, a: Any, b: Any, **options: Any) -> str:
        with pytest.raises(AssertionError) as error:
            library.testing.assert_close(library.tensor(a), library.tensor(b), **options)
        return str(error.value)

    pairs = [([1.0, 2.0], [1.0, 3.0]), ([1, 2], [1, 4]), (1.0, 2.0), ([[0.0]], [[5.0]])]
    for a, b in pairs:
        assert said(retrograd, a, b) == said(torch, a, b)


def test_timers() -> None:
    from retrograd.utils.benchmark import Compare, Timer

    seen: list[int] = []
    timer = Timer("seen.append(1)", globals={"seen": seen}, label="appending", sub_label="once",
                  description="here")  # fmt: skip
    measured = timer.timeit(100)
    assert len(seen) == 102  # two to warm up
    assert 0 < measured.median == measured.mean
    assert "appending: once" in repr(measured)
    assert "100 runs" in repr(measured)
    blocks = timer.blocked_autorange(min_run_time=0.01)
    assert sum(blocks.raw_times) >= 0.01
    assert blocks.median <= max(blocks.times)
    table = str(Compare([measured, blocks]))
    assert "appending" in table
    assert "here" in table
    assert "once" in table
