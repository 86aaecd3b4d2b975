"""A program in several processes, each with devices of its own, which form one mesh: run by
tests/devices/test_on_meshes.py under mpiexec."""

import json

import retrograd as torch
import retrograd.distributed as dist
from retrograd import nn
from retrograd.distributed.device_mesh import init_device_mesh
from retrograd.distributed.fsdp import fully_shard
from retrograd.distributed.tensor import Shard, distribute_tensor


def main():
    dist.init_process_group("mpi")
    mesh = init_device_mesh("cpu", (4,))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x, y = torch.randn(8, 8), torch.randint(0, 4, (8,))

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    x, y = (distribute_tensor(t, mesh, [Shard(0)]) for t in (x, y))
    run = torch.compile(step, fullgraph=True)
    losses = [run(x, y).item() for _ in range(20)]
    weight = model[0].weight
    print(json.dumps({
        "losses": losses, "weight": weight.cpu().sum().item(),
        "rows": [list(s.data.shape) for s in weight._data.memory.array.addressable_shards],
        "placements": str(weight.placements), "grad": str(weight.grad.placements),
        "local": list(weight.detach().to_local().shape), "where": list(mesh.get_coordinate()),
    }))  # fmt: skip
    dist.destroy_process_group()


if __name__ == "__main__":  # and not when doctests are looked for in it
    main()
