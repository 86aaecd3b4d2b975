"""SyncBatchNorm, in real runs of mpiexec, against a batch norm of all batches joined."""

from __future__ import annotations

from typing import Any

import pytest
from _distributed_programs import PRELUDE
from _mpi import run
from _side_by_side import outcome

import retrograd

PROGRAM = (
    PRELUDE
    + """
from retrograd import nn

for shape in ((3,), (3, 4), (3, 2, 2)):
    generator = torch.Generator().manual_seed(1)
    # Batches of different sizes: rank r has r + 2 samples.
    sizes = [r + 2 for r in range(size)]
    x = torch.randn(sum(sizes), *shape, generator=generator, dtype=torch.float64) * 3 + 1
    c = torch.randn(x.shape, generator=generator, dtype=torch.float64)
    start = sum(sizes[:rank])
    mine = slice(start, start + sizes[rank])

    kinds = {1: nn.BatchNorm1d, 2: nn.BatchNorm1d, 3: nn.BatchNorm2d}
    whole = kinds[len(shape)](3, momentum=None if len(shape) == 2 else 0.2).double()
    with torch.no_grad():
        whole.weight.copy_(torch.tensor([1.0, 2.0, -1.0]))
        whole.bias.copy_(torch.tensor([0.5, 0.0, 1.0]))
    import copy
    part = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(whole))
    assert type(part) is nn.SyncBatchNorm
    for _ in range(2):
        a = x.clone().requires_grad_()
        b = x[mine].clone().requires_grad_()
        y, z = whole(a), part(b)
        assert torch.allclose(y[mine], z, atol=1e-12)
        (y.sin() * c).sum().backward()
        (z.sin() * c[mine]).sum().backward()
        assert torch.allclose(a.grad[mine], b.grad, atol=1e-12)
        for p in (part.weight, part.bias):
            dist.all_reduce(p.grad)
        assert torch.allclose(whole.weight.grad, part.weight.grad, atol=1e-12)
        assert torch.allclose(whole.bias.grad, part.bias.grad, atol=1e-12)
        whole.zero_grad(), part.zero_grad()
        assert torch.allclose(whole.running_mean, part.running_mean, atol=1e-12)
        assert torch.allclose(whole.running_var, part.running_var, atol=1e-12)
        assert whole.num_batches_tracked.item() == part.num_batches_tracked.item()
    whole.eval(), part.eval()
    assert torch.allclose(whole(x)[mine], part(x[mine]), atol=1e-12)

from retrograd.distributed.nn.functional import all_gather, all_reduce
x = torch.tensor([1.0 + rank, 2.0], requires_grad=True)
gathered = all_gather(x)
assert [y.tolist() for y in gathered] == [[1.0 + r, 2.0] for r in range(size)]
# What all ranks compute together is the sum over ranks q and r of (q + 1) * x_r ** 2.
sum((rank + 1) * (y**2).sum() for y in gathered).backward()
share = size * (size + 1) / 2
assert x.grad.tolist() == [2 * share * (1.0 + rank), 4 * share]
total = all_reduce(x.detach().requires_grad_())
assert total.tolist() == [share, 2.0 * size]
y = x.detach().requires_grad_()
g, = torch.autograd.grad((all_reduce(y) ** 2).sum() * (rank + 1), y, create_graph=True)
assert g.tolist() == [2 * share * share, 4.0 * size * share]
assert torch.autograd.grad(g.sum(), y)[0].tolist() == [2 * share * size] * 2
print("good")
"""
)
EXPRESSIONS = [
    "nn.SyncBatchNorm(3), nn.SyncBatchNorm(3, affine=False, momentum=None)",
    "list(nn.SyncBatchNorm(3).state_dict())",
    "nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(),"
    " nn.Sequential(nn.BatchNorm1d(2, eps=0.1))))",
    "nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm3d(3).eval()).training",
    "nn.SyncBatchNorm(2)(torch.ones(3))",
]


@pytest.mark.parametrize("ranks", [2, 3])
def test_the_same_as_one_process_with_all_batches(ranks: int) -> None:
    result = run(PROGRAM, ranks)
    assert all("good" in out for out in result.out), result.report()
    assert not any(result.err), result.report()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_like_pytorch(torch: Any, expression: str) -> None:
    assert outcome(retrograd, expression) == outcome(torch, expression)


def test_a_batch_norm_without_other_processes() -> None:
    x = retrograd.tensor([[1.0, 5.0], [3.0, 6.0]])
    assert retrograd.equal(retrograd.nn.SyncBatchNorm(2)(x), retrograd.nn.BatchNorm1d(2)(x))
