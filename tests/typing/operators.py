"""Indexing, operators, shapes and reductions of tensors."""

import numpy as np

import retrograd as torch
from retrograd import Tensor


def operators(x: Tensor, y: Tensor) -> Tensor:
    z = x + y - 2 * x / (y + 3.0) ** 2
    z = 1 - z + (2 / (x.abs() + 1)) - 2**y
    z = -z @ x.T + +z @ y.mT
    z += 1
    z *= 0.5
    z -= z.mean()
    z /= z.std() + 1e-6
    mask = (z > 0) & ~(z >= 2.5) | (z == 1) ^ (z != 0)
    z = z.masked_fill(mask, 0.0).where(z < 1, torch.zeros_like(z))
    return z // 1 + z % 2 + (1j * z).real


def indexing(x: Tensor) -> Tensor:
    first: Tensor = x[0]
    part = x[..., 1:, None][:, -1] + x[:, 0:1] + x[[0, 1]][:, torch.tensor([0, 1])].sum()
    chosen = x[x > 0]
    x[0] = 1.0
    x[:, 1] = x[:, 0]
    x[x < 0] = 0
    x[0, 1] += 2
    assert chosen.dim() == 1
    return first.sum() + part.sum() + x[None][0].sum() + x[np.array([0, 1])].sum()


def numbers(x: Tensor) -> float:
    count: int = x.numel() + x.dim() + x.ndim + len(x) + x.size(0) + x.shape[-1] + x.stride(0)
    rows, columns = x.shape
    sizes: torch.Size = x.size()[:1] + x.shape
    number = x.sum().item()
    position = int(x.argmax().item())
    listed: list[list[float]] = x.tolist()
    array = x.numpy()
    return count + rows + columns + number + position + len(listed) + float(array.sum()) + sizes[0]


def results(x: Tensor) -> Tensor:
    values, indices = x.max(dim=1)
    pair = torch.sort(x, descending=True)
    top = x.topk(2, dim=-1)
    low, high = torch.aminmax(x)
    variance, mean = torch.var_mean(x, dim=0)
    pieces: tuple[Tensor, ...] = x.split(1) + x.chunk(2, dim=1) + torch.unbind(x)
    unique, counts = torch.unique(x, return_counts=True)
    where: tuple[Tensor, ...] = torch.nonzero(x, as_tuple=True)
    grid_x, grid_y = torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")
    total = values.sum() + indices.sum() + pair.values.sum() + pair[1].sum() + top.indices.sum()
    total = total + low + high + variance.sum() + mean.sum() + pieces[0].sum() + counts.sum()
    return total + unique.sum() + where[0].sum() + grid_x.sum() + grid_y.sum() + x.max() + x.min()


def shapes(x: Tensor) -> Tensor:
    y = x.reshape(-1).view(2, 3).view((3, 2)).permute(1, 0).transpose(0, 1).unsqueeze(0).squeeze()
    y = y.expand(2, -1, -1).repeat(1, 2, 1).flatten(1).contiguous().flip(0).roll(1, dims=0)
    y = torch.cat([y, y], dim=0) + torch.stack((y, y)).sum(dim=0).repeat(2, 1)
    y = torch.einsum("ij,kj->ik", y, y) + torch.where(y.sum() > 0, y.mean(), 0.0)
    y = y.sum(dim=(0, 1), keepdim=True).mean(-1).clamp(min=0).to(torch.float64).float()
    y = y.softmax(dim=-1).amax(dim=0) + torch.full((1,), 2.0) + torch.eye(1)
    return y + y.var(unbiased=False)


def creation() -> list[Tensor]:
    x = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    made = [torch.ones((2, 3)), torch.empty(0), torch.arange(5), torch.arange(0, 1, 0.1),
            torch.randn(2, generator=torch.Generator().manual_seed(0)), torch.rand_like(x),
            torch.randint(0, 5, (2,)), torch.tensor([[1, 2], [3, 4]], dtype=torch.int32),
            torch.from_numpy(np.ones(3)), torch.linspace(0, 1, steps=3), x.new_zeros(2, 2),
            x.detach().clone(), torch.as_tensor([1.0, 2.0])]  # fmt: skip
    made[0].add_(1).mul_(2).clamp_(0, 3).copy_(torch.ones(2, 3)).zero_().fill_(1.5)
    torch.exp(made[0], out=torch.empty(2, 3))
    return made


def main() -> None:
    x = torch.tensor([[1.0, -2.0, 3.0], [0.5, 1.5, -2.5]])
    print(operators(x, x).shape, indexing(x.clone()), numbers(x), results(x), shapes(x))
    print(len(creation()))


if __name__ == "__main__":
    main()
