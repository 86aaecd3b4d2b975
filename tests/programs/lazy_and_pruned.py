"""Lazy modules that find out their sizes, trained, pruned, and trained further."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.nn.utils.prune as prune


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn = nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d()
        self.conv2 = nn.LazyConv2d(6, 3)
        self.fc1, self.fc2 = nn.LazyLinear(12), nn.LazyLinear(3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn(self.conv1(x))), 2)
        x = F.relu(self.conv2(x))
        x = x.view(-1, int(x.nelement() / x.shape[0]))
        return self.fc2(F.relu(self.fc1(x)))


torch.manual_seed(0)
x, y = torch.randn(12, 1, 12, 12), torch.arange(3).repeat(4)
model = LeNet()
model(x[:1])
print(model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)


def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


train(4)
dense = copy.deepcopy(model.state_dict())
prune.random_unstructured(model.conv1, name="weight", amount=0.3)
prune.l1_unstructured(model.conv1, name="bias", amount=3)
prune.ln_structured(model.conv1, name="weight", amount=0.5, n=2, dim=0)
print(sorted(dict(model.named_buffers())), sorted(dict(model.named_parameters()))[:4])
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
train(3)
prune.remove(model.conv1, "weight")
parameters_to_prune = ((model.conv2, "weight"), (model.fc1, "weight"), (model.fc2, "weight"))
prune.global_unstructured(parameters_to_prune, pruning_method=prune.L1Unstructured, amount=0.2)
for module, name in parameters_to_prune:
    weight = getattr(module, name)
    print(f"{100.0 * float(torch.sum(weight == 0)) / float(weight.nelement()):.2f}% zeros")
print(prune.is_pruned(model), len(dense), len(model.state_dict()))
with torch.no_grad():
    print(f"{F.cross_entropy(model(x), y).item():.4f}")
