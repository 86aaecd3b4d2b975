"""Tensors in memory that several processes write."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import retrograd as torch
from retrograd import multiprocessing


def _train(rank: int, model: Any, x: Any, y: Any, done: Any) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(20):
        optimizer.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()
    done[rank] += rank + 1


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_processes_train_one_model(how: str) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 1, bias=False)).share_memory()
    x, done = torch.randn(20, 3), torch.zeros(2, 3).share_memory_()
    y = x.sum(1, keepdim=True)
    before = ((model(x) - y) ** 2).mean().item()
    context = multiprocessing.get_context(how)
    workers = [context.Process(target=_train, args=(i, model, x, y, done)) for i in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert done.tolist() == [[1.0] * 3, [2.0] * 3]
    assert ((model(x) - y) ** 2).mean().item() < before / 2


def test_what_is_shared() -> None:
    x = torch.arange(6.0).reshape(2, 3).clone()
    assert not x.is_shared()
    assert x.share_memory_() is x
    assert x.is_shared()
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x[1:].is_shared()
    assert x.storage().is_shared()
    assert x.untyped_storage().is_shared()
    for other in (x + 1, x.clone(), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert not other.is_shared()
    image = torch.zeros(1, 2, 3, 4).to(memory_format=torch.channels_last)
    assert image.share_memory_().stride() == (24, 1, 8, 2)
    for small in (torch.tensor(3.0), torch.zeros(0, 2), torch.ones(2, dtype=torch.bfloat16)):
        before = small.tolist()
        assert small.share_memory_().is_shared()
        assert small.tolist() == before
    with pytest.raises(RuntimeError, match="share the tensor that it is a view of"):
        torch.ones(3)[1:].share_memory_()


def test_gradients_of_what_is_shared() -> None:
    w = torch.tensor([1.0, 2.0], requires_grad=True).share_memory_()
    (w**2).sum().backward()
    assert w.grad.tolist() == [2.0, 4.0]
    with torch.no_grad():
        w -= 0.5 * w.grad
    assert w.is_shared()
    assert w.tolist() == [0.0, 0.0]
