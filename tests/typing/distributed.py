"""Processes that work together; run alone, a world of one."""

import retrograd as torch
import retrograd.distributed as dist
from retrograd import Tensor, nn, optim
from retrograd.nn.parallel import DistributedDataParallel
from retrograd.utils.data import DataLoader, DistributedSampler, TensorDataset


def average(x: Tensor) -> Tensor:
    dist.all_reduce(x, op=dist.ReduceOp.SUM)
    return x / dist.get_world_size()


def main() -> None:
    dist.init_process_group("mpi")
    rank: int = dist.get_rank()
    torch.manual_seed(rank)
    data = TensorDataset(torch.ones(8, 2), torch.zeros(8, 1))
    sampler = DistributedSampler(data, shuffle=True, seed=1)
    model = DistributedDataParallel(nn.Linear(2, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=4, sampler=sampler):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
    with model.no_sync():
        model(torch.ones(1, 2)).sum().backward()
    work = dist.all_reduce(torch.ones(2), async_op=True)
    if work is not None:
        work.wait()
    gathered = [torch.zeros(2) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, torch.ones(2))
    dist.broadcast(torch.ones(1), src=0)
    dist.barrier()
    print(average(torch.ones(1)), gathered)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
