"""A training loop: a model, a data loader, an optimizer, a scheduler, checkpoints of the state."""

from pathlib import Path

import retrograd as torch
from retrograd import Tensor, nn, optim
from retrograd.nn import functional as F
from retrograd.optim.lr_scheduler import CosineAnnealingLR, LRScheduler
from retrograd.utils.data import DataLoader, Dataset, TensorDataset, random_split


class Squares(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, count: int) -> None:
        self.x = torch.linspace(-1, 1, count).unsqueeze(1)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.x[index] ** 2

    def __len__(self) -> int:
        return len(self.x)


class Block(nn.Module):
    def __init__(self, width: int, drop: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)
        self.dropout = nn.Dropout(drop)

    def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
        return x + scale * self.dropout(F.gelu(self.linear(self.norm(x))))


class Model(nn.Module):
    offset: Tensor

    def __init__(self, width: int = 8, depth: int = 2) -> None:
        super().__init__()
        self.first = nn.Linear(1, width)
        self.blocks = nn.ModuleList([Block(width, drop=0.1) for _ in range(depth)])
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("offset", torch.zeros(1))
        self.last = nn.Sequential(nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for block in self.blocks:
            h = block(h)
        result: Tensor = self.last(h) * self.scale + self.offset
        return result


def train(model: nn.Module, batches: DataLoader[tuple[Tensor, Tensor]], epochs: int) -> float:
    optimizer = optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.99), weight_decay=0.01)
    scheduler: LRScheduler = CosineAnnealingLR(optimizer, T_max=epochs)
    criterion = nn.MSELoss()
    total = 0.0
    for _ in range(epochs):
        model.train()
        total = 0.0
        for x, y in batches:
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(model(x), y)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            assert float(norm) >= 0
            optimizer.step()
            total += loss.item() * len(x)
        scheduler.step()
    return total


@torch.no_grad()
def evaluate(model: Model, batches: DataLoader[tuple[Tensor, Tensor]]) -> float:
    model.eval()
    errors = [F.mse_loss(model(x), y, reduction="sum").item() for x, y in batches]
    return sum(errors) / len(errors)


def main() -> None:
    torch.manual_seed(0)
    data = Squares(32)
    train_part, test_part = random_split(data, [24, 8])
    loader = DataLoader(train_part, batch_size=8, shuffle=True)
    model = Model().to(torch.float32)
    print(f"{train(model, loader, 2):.3f} {evaluate(model, DataLoader(test_part)):.3f}")
    torch.save(model.state_dict(), "model.safetensors")
    restored = Model()
    restored.load_state_dict(torch.load(Path("model.safetensors")))
    counts = {name: p.numel() for name, p in restored.named_parameters() if p.requires_grad}
    assert sum(counts.values()) == sum(p.numel() for p in model.parameters())
    sgd = optim.SGD(
        [{"params": model.first.parameters(), "lr": 0.1}, {"params": [model.scale]}],
        lr=0.01, momentum=0.9, nesterov=True,
    )  # fmt: skip
    for group in sgd.param_groups:
        group["lr"] *= 0.5
    plain = TensorDataset(torch.ones(4, 2), torch.arange(4))
    for features, label in DataLoader(plain, batch_size=2):
        assert features.shape == (2, 2), label

    def closure() -> Tensor:
        sgd.zero_grad()
        loss = model(torch.ones(2, 1)).sum()
        loss.backward()
        return loss

    sgd.step(closure)


if __name__ == "__main__":
    main()
