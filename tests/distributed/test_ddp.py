"""DistributedDataParallel, in real runs of mpiexec, against one process on the whole batch."""

from __future__ import annotations

import pytest
from _distributed_programs import PRELUDE
from _mpi import run

import retrograd as rg
from retrograd.autograd._engine import queue_callback
from retrograd.nn.parallel import DistributedDataParallel
from retrograd.nn.parallel._reducer import make_buckets

MODELS = (
    PRELUDE
    + '''
from retrograd import nn, optim
from retrograd.autograd._engine import queue_callback
from retrograd.nn.parallel import DistributedDataParallel as DDP

def model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 16), nn.GELU(),
                         nn.LayerNorm(16), nn.Linear(16, 2)).double()

def batches(count=24):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(count, 5, generator=generator, dtype=torch.float64)
    return x, torch.sin(x[:, :2] * 3)

def loss_of(module, x, y):
    return ((module(x) - y) ** 2).mean()

def part(t):
    rows = t.shape[0] // size
    return t[rank * rows:(rank + 1) * rows]

def far(a, b):
    """The largest difference between the gradients, and the values, of two models."""
    pairs = list(zip(a.parameters(), b.parameters(), strict=True))
    assert all((p.grad is None) == (q.grad is None) for p, q in pairs)
    grads = [(p.grad - q.grad).abs().max().item() for p, q in pairs if p.grad is not None]
    return max([0.0, *grads, *((p - q).abs().max().item() for p, q in pairs)])

def same_everywhere(module):
    for p in module.parameters():
        rows = [torch.zeros_like(p) for _ in range(size)]
        dist.all_gather(rows, p.detach())
        assert all(row.tolist() == rows[0].tolist() for row in rows)
'''
)


def good(program, ranks, **named):
    result = run(MODELS + program, ranks, **named)
    assert all("good" in out for out in result.out), result.report()
    assert not any(result.err), result.report()


@pytest.mark.parametrize(
    "ranks", [pytest.param(n, marks=[pytest.mark.exhaustive] * (n > 2)) for n in (2, 3, 4)]
)
def test_ten_steps_equal_one_process(ranks):
    # Each rank starts from a seed of its own: rank 0's parameters are everybody's.
    good("""
views = {"gradient_as_bucket_view": True, "bucket_cap_mb": 1e-3}
for set_to_none, options in [
    (True, {}), (False, {"bucket_cap_mb": 1e-4}), (True, {"bucket_cap_mb": 1e-3}), (True, views),
    (False, views), (True, {"find_unused_parameters": True}),
]:
    whole, shared = model(), DDP(model(seed=rank), **options)
    optimizers = [optim.Adam(m.parameters(), lr=0.01) for m in (whole, shared)]
    x, y = batches()
    for step in range(10):
        for optimizer in optimizers: optimizer.zero_grad(set_to_none)
        loss = loss_of(whole, x, y)
        loss.backward()
        mine = loss_of(shared, part(x), part(y))
        mine.backward()
        assert far(whole, shared) < 1e-12, (options, step, far(whole, shared))
        mean = mine.detach()
        dist.all_reduce(mean, ReduceOp.AVG)
        assert abs(mean.item() - loss.item()) < 1e-12
        for optimizer in optimizers: optimizer.step()
    same_everywhere(shared)
print("good")
""", ranks)  # fmt: skip


BRANCHES = '''
class Branches(nn.Module):
    """Uses one of two layers, as it is told, and never a third."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.never = (nn.Linear(3, 2).double() for _ in range(3))

    def forward(self, x, which):
        return {"out": [self.a(x) if which == "a" else self.b(x), None]}

x = torch.arange(6.0, dtype=torch.float64).reshape(2, 3) + rank
'''

GATHERED = """
whole, shared = model(), DDP(model(seed=rank), bucket_cap_mb=1e-3)
x, y = batches()
for repeat in range(2):
    whole.zero_grad(), shared.zero_grad()
    for start in (0, 8, 16):
        loss_of(whole, x[start:start + 8], y[start:start + 8]).backward()
    with shared.no_sync():
        for start in (0, 8):
            loss_of(shared, part(x[start:start + 8]), part(y[start:start + 8])).backward()
        assert far(whole, shared) > 1e-3  # still each rank's own
    loss_of(shared, part(x[16:]), part(y[16:])).backward()
    assert far(whole, shared) < 1e-12
# A second pass over one forward call, and over two at once.
whole.zero_grad(), shared.zero_grad()
for module, cut in ((whole, lambda t: t), (shared, part)):
    loss = loss_of(module, cut(x), cut(y))
    loss.backward(retain_graph=True)
    loss.backward()
assert far(whole, shared) < 1e-12
whole.zero_grad(), shared.zero_grad()
for module, cut in ((whole, lambda t: t), (shared, part)):
    (loss_of(module, cut(x), cut(y)) + loss_of(module, cut(x) * 2, cut(y))).backward()
assert far(whole, shared) < 1e-12
# Evaluation in between changes nothing.
with torch.no_grad(): shared(x)
shared.zero_grad(); whole.zero_grad()
loss_of(whole, x, y).backward(); loss_of(shared, part(x), part(y)).backward()
assert far(whole, shared) < 1e-12
print("gathered done")
"""

UNUSED = (
    BRANCHES
    + """
shared = DDP(Branches(), find_unused_parameters=True, bucket_cap_mb=1e-5)
for step, choice in enumerate(["aa", "ab", "bb", "ba"]):
    shared.zero_grad()
    shared(x, choice[rank])["out"][0].sum().backward()
    # the same in one process
    alone = Branches()
    for r in range(size):
        rows = torch.arange(6.0, dtype=torch.float64).reshape(2, 3) + r
        (alone(rows, choice[r])["out"][0].sum() / size).backward()
    assert far(shared, alone) < 1e-12, (choice, step)
    assert shared.module.never.weight.grad is None
print("unused done")
"""
)

BUFFERS = """
torch.manual_seed(rank)
shared = DDP(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)))
norm = shared.module[1]
for step in range(3):
    seen = norm.running_mean.clone()
    shared(torch.randn(5, 3) * (rank + 1)).sum().backward()
    rows = [torch.zeros(4) for _ in range(size)]
    dist.all_gather(rows, seen)
    counts = [torch.zeros_like(norm.num_batches_tracked) for _ in range(size)]
    dist.all_gather(counts, norm.num_batches_tracked)
    assert all(c.item() == step + 1 for c in counts)
before = norm.running_mean.clone()
dist.broadcast(before, 0)
shared.eval()(torch.randn(5, 3))  # takes rank 0's first
assert norm.running_mean.tolist() == before.tolist()
print("buffers done")
"""

STATE = """
shared = DDP(model())
assert list(shared.state_dict()) == [f"module.{name}" for name in model().state_dict()]
other = DDP(model(seed=9))
other.load_state_dict(shared.state_dict())
assert far(other, shared) == 0
plain = model(seed=8)
plain.load_state_dict(shared.module.state_dict())
assert far(plain, shared) == 0
assert shared.module[0].weight is next(shared.parameters())
group = dist.new_group([rank for rank in range(size)])
assert DDP(model(), process_group=group).process_group is group
raises(RuntimeError, "doesn't have any parameters that require a gradient", DDP, nn.Tanh())
raises(ValueError, "device_ids", DDP, model(), device_ids=[0])
print("state done")
"""

CHECKPOINTS = """
from retrograd.utils.checkpoint import checkpoint

class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(5, 4).double(), nn.Linear(4, 2)
        self.scale = nn.Parameter(torch.tensor(1.5))  # no dimensions
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)

    def forward(self, x):
        h = checkpoint(lambda t: torch.tanh(self.first(t)), x, use_reentrant=False)
        return self.second(h.float()).double() * self.scale * self.frozen

x, y = batches()
whole, shared = Mixed(), DDP(Mixed(), bucket_cap_mb=1e-4)
assert len({b.tensor.dtype for b in shared._reducer.buckets}) == 2
loss_of(whole, x, y).backward(); loss_of(shared, part(x), part(y)).backward()
assert far(whole, shared) < 1e-6  # some are of single precision
assert (whole.first.weight.grad - shared.module.first.weight.grad).abs().max() < 1e-7
print("checkpoints done")
"""

SAMPLER = """
from retrograd.utils.data import DataLoader, DistributedSampler, TensorDataset
x, y = batches(22)
sampler = DistributedSampler(range(22))
assert (sampler.rank, sampler.num_replicas) == (rank, size)
loader = DataLoader(TensorDataset(x, y), 4, sampler=sampler)
for epoch in range(2):
    sampler.set_epoch(epoch)
    seen = torch.cat([batch for batch, _ in loader])
    rows = [torch.zeros_like(seen) for _ in range(size)]
    dist.all_gather(rows, seen)
    assert {tuple(row.tolist()) for row in torch.cat(rows)} == {tuple(r.tolist()) for r in x}
print("sampler done")
"""

SAVED_BUFFERS = """
# A buffer that is given again does not spoil the graph of an earlier call.
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("scale", torch.tensor([2.0, 3.0]) + rank)
    def forward(self, x): return x * self.weight * self.scale
shared = DDP(Scaled())
(shared(torch.ones(2)) + shared(torch.full((2,), 2.0))).sum().backward()
assert shared.module.weight.grad.tolist() == [6.0, 9.0]
out = shared(torch.ones(2))
with torch.no_grad(): shared.module.scale += 1  # that does
raises(RuntimeError, "modified by an inplace operation", out.sum().backward)
print("saved_buffers done")
"""


def test_in_two_processes():
    parts = ("GATHERED", "UNUSED", "BUFFERS", "STATE", "CHECKPOINTS", "SAMPLER", "SAVED_BUFFERS")
    result = run(MODELS + "".join(globals()[part] for part in parts), 2)
    for out in result.out:
        for part in parts:
            assert f"{part.lower()} done\n" in out, result.report()
    assert not any(result.err), result.report()


def test_parameters_that_are_not_used_are_named():
    result = run(MODELS + BRANCHES + """
shared = DDP(Branches())
shared(x, "a")["out"][0].sum().backward()
shared(x, "a")
""", 2, expect=None)  # fmt: skip
    told = "".join(result.err)
    assert "Expected to have finished reduction in the prior iteration" in told, result.report()
    for words in ("b.weight, b.bias, never.weight, never.bias", "2 3 4 5"):
        assert words in told, result.report()


def test_modules_that_differ():
    result = run(MODELS + """
DDP(nn.Linear(3, 2 + rank))
""", 2, expect=None)  # fmt: skip
    told = "".join(result.err)
    for words in ("rank 0: DistributedDataParallel(weight float32[2, 3]",
                  "rank 1: DistributedDataParallel(weight float32[3, 3]"):  # fmt: skip
        assert words in told, result.report()


def test_a_rank_with_fewer_batches_is_named():
    result = run(MODELS + """
shared = DDP(model())
x, y = batches()
for step in range(3 if rank == 0 else 2):
    loss_of(shared, part(x), part(y)).backward()
""", 2, expect=None)  # fmt: skip
    assert "rank 1 (pid " in result.err[0], result.report()
    assert "has left (its program ended), but rank 0 needs it" in result.err[0], result.report()


@pytest.mark.parametrize("cap", [1, 40, 100, 10**9])
def test_buckets(cap):
    shapes = [(2, 3), (), (5,), (0,), (4, 4), (1,)]
    parameters = [rg.zeros(s, dtype=rg.float64 if len(s) == 2 else rg.float32) for s in shapes]
    buckets = make_buckets(parameters, cap)
    numbers = [n for bucket in buckets for n in bucket.numbers]
    assert sorted(numbers) == list(range(len(parameters)))
    for bucket in buckets:
        assert bucket.numbers == sorted(bucket.numbers, reverse=True)
        assert {parameters[n].dtype for n in bucket.numbers} == {bucket.tensor.dtype}
        assert len(bucket.numbers) == 1 or bucket.tensor._data.nbytes <= cap
        assert all(bucket.slots[n].shape == tuple(parameters[n].shape) for n in bucket.numbers)


def test_what_is_done_at_the_end_of_a_pass():
    done = []
    x, y = (rg.ones(2, requires_grad=True) for _ in range(2))

    @rg.enable_grad()
    def inner(_):
        z = rg.ones(1, requires_grad=True)
        z.register_post_accumulate_grad_hook(
            lambda _: queue_callback(lambda: done.append((x.grad is None, y.grad is None)))
        )
        (z * 2).sum().backward()
        assert done == []  # that pass is over, but not the one it was started in

    y.register_post_accumulate_grad_hook(inner)
    (x.exp() * y).sum().backward()
    assert done == [(False, False)]
    with pytest.raises(RuntimeError, match="during backward pass"):
        queue_callback(done.clear)

    def fails(_):
        queue_callback(done.clear)
        raise KeyError

    x.register_hook(fails)
    with pytest.raises(KeyError):
        (x * 2).sum().backward()
    assert done


def test_it_needs_a_process_group():
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        DistributedDataParallel(rg.nn.Linear(1, 1))
