"""Long graphs, memory, threads: what must hold at scale."""

import copy
import gc
import pickle
import sys
import threading
import weakref

import numpy as np
import psutil
import pytest

import retrograd as torch
from retrograd._modes import switch


def resident_bytes() -> int:
    return psutil.Process().memory_info().rss


@pytest.fixture
def no_collector():
    """The garbage collector off: what is freed is freed by reference counts alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def chain(x, operations: int):
    """Alternate a node that saves its result, one that saves its input, and one that saves none."""
    z = x
    for i in range(operations):
        z = z.tanh() if i % 3 == 0 else z * 1.001 if i % 3 == 1 else z + 0.01
    return z


def chain_gradient(value: float, operations: int) -> float:
    """The same by hand, in double precision."""
    z, slope = value, 1.0
    for i in range(operations):
        if i % 3 == 0:
            z = np.tanh(z)
            slope *= 1 - z * z
        elif i % 3 == 1:
            z, slope = z * 1.001, slope * 1.001
        else:
            z += 0.01
    return slope


@pytest.mark.long
def test_a_chain_of_a_million_operations(no_collector):
    limit = sys.getrecursionlimit()
    operations = 1_000_000
    x = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    before = resident_bytes()
    z = chain(x, 399_999)  # in memory that other tests have left, in part
    start = resident_bytes()
    z = chain(z, 300_000)
    half = resident_bytes() - start
    z = chain(z, 300_001)
    assert resident_bytes() - start < 2.3 * half  # linear: the second takes what the first did
    whole = resident_bytes() - before
    assert whole / operations < 600

    node, walked = z.grad_fn, 0
    while node is not None:
        walked += 1
        node = node.next_functions[0][0] if node.next_functions else None
    assert walked == operations + 1

    z.backward()
    assert x.grad.item() == pytest.approx(chain_gradient(0.5, operations), rel=1e-6, abs=1e-300)
    del z, node
    assert resident_bytes() - before < 0.3 * whole
    assert sys.getrecursionlimit() == limit


def test_deep_graphs_can_be_printed_pickled_and_refused_by_deepcopy():
    x = torch.ones(1, requires_grad=True)
    z = chain(x, 20_000)
    assert "grad_fn=<" in repr(z)
    assert pickle.loads(pickle.dumps(z)).is_leaf
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(z)


def test_second_derivatives_of_a_deep_chain():
    x = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    z = x
    for _ in range(3000):
        z = z.sin()
    (slope,) = torch.autograd.grad(z, x, create_graph=True)
    (curvature,) = torch.autograd.grad(slope, x)
    h = 1e-6

    def slope_at(value: float) -> float:
        slope = 1.0
        for _ in range(3000):
            slope *= np.cos(value)
            value = np.sin(value)
        return slope

    expected = (slope_at(0.3 + h) - slope_at(0.3 - h)) / (2 * h)
    assert curvature.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("backward", [False, True], ids=["dropped", "after backward"])
def test_dropping_the_loss_frees_the_graph(no_collector, backward):
    x = torch.ones(3, requires_grad=True)
    hidden = (x * 2).exp()
    parts = [hidden.sin(), hidden[1:].cumsum(0), torch.cat([hidden, hidden]).max(0)[0]]
    loss = sum(p.sum() for p in parts)
    nodes = [weakref.ref(loss.grad_fn), weakref.ref(hidden.grad_fn)]
    array = weakref.ref(hidden._data)
    if backward:
        loss.backward()
    del hidden, parts, loss
    assert [n() for n in nodes] == [None, None]
    assert array() is None


def test_a_function_that_saves_its_output_makes_no_cycle(no_collector):
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    y = Exp.apply(torch.ones(3, requires_grad=True))
    node = weakref.ref(y.grad_fn)
    del y
    assert node() is None


def test_leaves_are_freed_too(no_collector):
    x = torch.ones(3, requires_grad=True)
    x.register_hook(lambda g: g)
    (x * 2).sum().backward()
    leaf = weakref.ref(x)
    del x
    assert leaf() is None


@pytest.mark.long
def test_training_leaves_memory_flat():
    torch.manual_seed(0)
    weights = [torch.randn(16, 16, requires_grad=True) for _ in range(2)]
    x = torch.randn(8, 16)

    def step() -> float:
        hidden = (x @ weights[0]).tanh()
        loss = ((hidden @ weights[1] - 1) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            for w in weights:
                w -= 0.01 * w.grad
                w.grad = None
        return loss.item()

    warming_up = [step() for _ in range(500)]
    before = resident_bytes()
    losses = [step() for _ in range(10_000)]
    assert losses[-1] < warming_up[0]
    assert resident_bytes() - before < 2_000_000


def in_threads(count: int, work) -> None:
    errors = []

    def guarded(i: int) -> None:
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []


def test_threads_accumulate_exact_sums_into_shared_leaves():
    shared = torch.ones(1000, dtype=torch.float64, requires_grad=True)
    other = torch.full((1000,), 2.0, dtype=torch.float64, requires_grad=True)
    repeats = 200
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # change threads as often as can be
    try:
        in_threads(
            8,
            lambda i: [(shared * other * (i + 1)).sum().backward() for _ in range(repeats)],
        )
    finally:
        sys.setswitchinterval(switch)
    total = repeats * sum(range(1, 9))
    assert (shared.grad == 2.0 * total).all()
    assert (other.grad == 1.0 * total).all()


def test_grad_mode_belongs_to_its_thread():
    barrier = threading.Barrier(8)
    x = torch.ones(3, requires_grad=True)

    def work(i: int) -> None:
        for _ in range(50):
            if i % 2:
                with torch.no_grad():
                    barrier.wait()
                    assert not (x * 2).requires_grad
                    barrier.wait()
            else:
                barrier.wait()
                assert (x * 2).requires_grad
                assert torch.is_grad_enabled()
                barrier.wait()

    in_threads(8, work)
    assert torch.is_grad_enabled()


def test_a_thread_that_ends_in_a_mode_leaves_no_trace():
    in_threads(3, lambda i: torch.set_grad_enabled(False))
    assert torch.is_grad_enabled()
    assert not switch.active


def test_threads_on_one_graph_get_one_result_and_clear_errors():
    x = torch.ones(100, requires_grad=True)
    y = (x * x).sum()
    outcomes = []

    def work(i: int) -> None:
        try:
            y.backward()
            outcomes.append("ran")
        except RuntimeError as error:
            outcomes.append(str(error))

    in_threads(4, work)
    assert len(outcomes) == 4
    assert all(o == "ran" or "through the graph a second time" in o for o in outcomes)
    assert (x.grad == 2.0 * outcomes.count("ran")).all()
