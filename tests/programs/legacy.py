"""Idioms of older programs: typed tensors, storages, flags, scripted functions, hooks, swapping."""

import random

import numpy as np
import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.utils.data as data
from torch.autograd import Variable
from torch.nn.modules.loss import _Loss
from torch.nn.modules.utils import _pair
from torch.nn.parameter import Parameter


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    cudnn.deterministic, cudnn.benchmark = True, False
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("high")


@torch.jit.ignore
def unused(x):
    return x


class DiceLoss(_Loss):
    def __init__(self, smooth=1.0, reduction="mean"):
        super().__init__(reduction=reduction)
        self.smooth = smooth

    def forward(self, input, target):
        overlap = (input * target).sum()
        return 1 - (2 * overlap + self.smooth) / (input.sum() + target.sum() + self.smooth)


class SpatialScale(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = _pair(size)
        self.weight = Parameter(torch.Tensor(*self.size))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.uniform_(self.weight)

    def forward(self, x):
        return x * self.weight.expand_as(x)


seed_everything(7)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), SpatialScale(4), nn.Sigmoid()).to(device)
if torch.cuda.device_count() > 1:
    model = nn.DataParallel(model)
x = Variable(torch.FloatTensor(np.random.rand(6, 1, 4, 4)), requires_grad=True)
target = torch.LongTensor([0, 1, 1, 0, 1, 0]).view(6, 1, 1, 1).expand(6, 2, 4, 4).float()
features = {}
handle = model[0].register_forward_hook(lambda m, i, o: features.update(conv=o.detach()))
criterion, optimizer = DiceLoss(), torch.optim.RMSprop(model.parameters(), lr=0.05)
loader = data.DataLoader(data.TensorDataset(x.data, target), batch_size=3, shuffle=True)
for epoch in range(3):
    for inputs, labels in loader:
        loss = criterion(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.data.item():.5f}")
handle.remove()
print(features["conv"].shape, features["conv"].type(), model[0].weight.data.type())
mask = (x.data > 0.5).type(torch.ByteTensor)
print(mask.sum().item(), x.data.storage().size(), x.size()[1:].numel(), x.data.new(2, 2).shape)
ema = {k: v.clone() for k, v in model.state_dict().items()}
torch._foreach_mul_(list(ema.values()), 0.9)
torch._foreach_add_(list(ema.values()), [v.detach() for v in model.state_dict().values()], alpha=0.1)
print(f"{sum(v.sum().item() for v in ema.values()):.4f}")
momentum = torch.zeros(3).add_(2, torch.ones(3)).addcmul_(0.5, torch.ones(3), torch.ones(3))
print(momentum.tolist(), torch.ones(2, 3, 4, 5).contiguous(memory_format=torch.channels_last).stride())
