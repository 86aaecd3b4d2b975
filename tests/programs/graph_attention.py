"""Graph attention with scatter and gather, mean, maximum and sum of each graph, and Adagrad."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

torch.manual_seed(0)
NODES, EDGES, WIDTH = 12, 40, 8


class Attention(nn.Module):
    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.project = nn.Linear(inputs, WIDTH, bias=False)
        self.score = nn.Parameter(torch.randn(2 * WIDTH) * 0.1)

    def forward(self, x, edges):
        source, target = edges
        h = self.project(x)
        scores = F.leaky_relu(torch.cat([h[source], h[target]], 1) @ self.score, 0.2)
        largest = torch.full((NODES,), -torch.inf).scatter_reduce(
            0, target, scores, "amax", include_self=False
        )
        weights = (scores - largest[target]).exp()
        total = torch.zeros(NODES).scatter_add(0, target, weights)
        weights = weights / total[target]
        return torch.zeros(NODES, WIDTH).index_add(0, target, weights[:, None] * h[source])


class Isomorphism(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.mix = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, h, edges):
        neighbours = torch.zeros_like(h).index_add_(0, edges[1], h[edges[0]])
        return self.mix((1 + self.eps) * h + neighbours)


def pooled(h, graph):
    index = graph[:, None].expand_as(h)
    empty = torch.zeros(3, WIDTH)
    return torch.cat(
        [empty.scatter_reduce(0, index, h, how, include_self=False)
         for how in ("mean", "amax", "sum")], 1,
    )  # fmt: skip


edges = torch.randint(NODES, (2, EDGES))
features = torch.randn(NODES, 6)
graph = torch.tensor([0] * 5 + [1] * 4 + [2] * 3)
labels = torch.tensor([0, 1, 1])
attention, isomorphism, head = Attention(6), Isomorphism(), nn.Linear(3 * WIDTH, 2)
parameters = [*attention.parameters(), *isomorphism.parameters(), *head.parameters()]
optimizer = torch.optim.Adagrad(parameters, lr=0.05)
for epoch in range(12):
    h = isomorphism(F.elu(attention(features, edges)), edges)
    loss = F.cross_entropy(head(pooled(h, graph)), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.5f}")
print("gradients", " ".join(f"{p.grad.norm().item():.4f}" for p in parameters))

# The gradient by a dense adjacency matrix of what is computed with its sparse form: @ leads to all
# elements, torch.sparse.mm to those that are stored.
dense = torch.zeros(NODES, NODES).index_put_((edges[0], edges[1]), torch.ones(EDGES))
for product in (lambda a, x: a @ x, torch.sparse.mm):
    adjacency = dense.clone().requires_grad_()
    product(adjacency.to_sparse(), features).tanh().sum().backward()
    print(f"{adjacency.grad.count_nonzero().item()} elements, {adjacency.grad.norm().item():.4f}")
