"""Learning to learn (MAML): gradients of steps of training, by hand and by torch.func; Reptile."""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1))


def sample_task():
    amplitude, phase = torch.rand(1) * 4.9 + 0.1, torch.rand(1) * math.pi

    def sample(k):
        x = torch.rand(k, 1) * 10 - 5
        return x, amplitude * torch.sin(x + phase)

    return sample


def forward(x, w):
    x = torch.tanh(F.linear(x, w[0], w[1]))
    x = torch.tanh(F.linear(x, w[2], w[3]))
    return F.linear(x, w[4], w[5])


# With lists of weights and create_graph.
weights = list(model.parameters())
optimizer = torch.optim.Adam(weights, lr=1e-3)
criterion = nn.MSELoss()
for step in range(6):
    meta_loss = 0
    for _ in range(3):
        task, fast = sample_task(), [w.clone() for w in weights]
        for _ in range(2):
            x, y = task(10)
            gradients = torch.autograd.grad(criterion(forward(x, fast), y), fast, create_graph=True)
            fast = [w - 0.01 * g for w, g in zip(fast, gradients, strict=True)]
        x, y = task(10)
        meta_loss = meta_loss + criterion(forward(x, fast), y)
    meta_gradients = torch.autograd.grad(meta_loss / 3, weights)
    for w, g in zip(weights, meta_gradients, strict=True):
        w.grad = g
    optimizer.step()
    print(step, f"{meta_loss.item() / 3:.4f}")

# With functions, over all tasks at once.
params = dict(model.named_parameters())
tasks = [sample_task() for _ in range(4)]
support, query = ([torch.stack(t) for t in zip(*[task(5) for task in tasks], strict=True)]
                  for _ in range(2))  # fmt: skip


def loss_of(params, x, y):
    return F.mse_loss(functional_call(model, params, (x,)), y)


def adapted_loss(params, x, y, x_query, y_query):
    gradients = grad(loss_of)(params, x, y)
    adapted = {k: params[k] - 0.01 * g for k, g in gradients.items()}
    return loss_of(adapted, x_query, y_query)


def mean_loss(params):
    return vmap(adapted_loss, in_dims=(None, 0, 0, 0, 0))(params, *support, *query).mean()


print(vmap(adapted_loss, in_dims=(None, 0, 0, 0, 0))(params, *support, *query))
print({k: round(g.norm().item(), 3) for k, g in grad(mean_loss)(params).items()})

# Reptile: steps towards the weights of a copy that was trained.
learner = copy.deepcopy(model)
inner = torch.optim.SGD(learner.parameters(), lr=0.01)
for x, y in zip(*support, strict=True):
    inner.zero_grad()
    criterion(learner(x), y).backward()
    inner.step()
with torch.no_grad():
    for p, q in zip(model.parameters(), learner.parameters(), strict=True):
        p.add_(q - p, alpha=0.1)
print(f"{criterion(model(query[0][0]), query[1][0]).item():.4f}")
