"""What modules pass on: the signature of forward, the type of self, containers, state."""

from collections.abc import Callable, Iterable

import retrograd as torch
from retrograd import Tensor, nn
from retrograd.optim import Optimizer
from retrograd.optim.lr_scheduler import LambdaLR, OneCycleLR, ReduceLROnPlateau, SequentialLR
from retrograd.optim.swa_utils import AveragedModel


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(2, 3), nn.Linear(2, 3)

    def forward(self, x: Tensor, y: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return self.left(x), self.right(x if y is None else y)


class Mean(nn.Module):
    def forward(self, tensors: Iterable[Tensor]) -> Tensor:
        return torch.stack(list(tensors)).mean(0)


def apply(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return function(x)


def schedules(optimizer: Optimizer) -> None:
    warm = LambdaLR(optimizer, lr_lambda=lambda epoch: min(1.0, epoch / 3))
    cycle = OneCycleLR(optimizer, max_lr=0.1, total_steps=10)
    both = SequentialLR(optimizer, [warm, cycle], milestones=[2])
    plateau = ReduceLROnPlateau(optimizer, mode="min", patience=1)
    optimizer.step()
    both.step()
    plateau.step(0.5)
    rates: list[float] = both.get_last_lr()
    print(rates)


def main() -> None:
    pair = Pair().double().float().train().requires_grad_(True)
    a, b = pair(torch.ones(1, 2))
    c, d = pair(torch.ones(1, 2), y=torch.zeros(1, 2))
    mean = Mean()((a, b, c, d))
    layer = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    layer.append(nn.Linear(2, 2))
    first = layer[0]
    tail: nn.Sequential = layer[1:]
    total = apply(nn.Linear(2, 2), torch.ones(1, 2)) + apply(torch.tanh, torch.ones(1, 2))
    listed = nn.ParameterList([nn.Parameter(torch.ones(2)) for _ in range(2)])
    named = dict(pair.named_parameters())
    children: list[nn.Module] = [*pair.children(), *pair.modules()]
    averaged = AveragedModel(pair)
    averaged.update_parameters(pair)
    schedules(torch.optim.Adam(pair.parameters()))
    state = pair.state_dict()
    keys = pair.load_state_dict(state, strict=False)
    print(mean.shape, first, len(tail), total.shape, listed[0].sum(), list(named), len(children))
    print(keys.missing_keys, pair.get_parameter("left.weight").grad, pair.training)


if __name__ == "__main__":
    main()
