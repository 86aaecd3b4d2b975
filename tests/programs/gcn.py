"""A graph convolutional network: a normalized adjacency matrix in sparse form, trained on nodes."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parameter import Parameter

torch.manual_seed(42)
NODES, FEATURES, CLASSES = 60, 16, 3


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = Parameter(torch.FloatTensor(in_features, out_features))
        self.bias = Parameter(torch.FloatTensor(out_features))
        stdv = 1.0 / math.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-stdv, stdv)
        self.bias.data.uniform_(-stdv, stdv)

    def forward(self, input, adj):
        return torch.spmm(adj, torch.mm(input, self.weight)) + self.bias


class GCN(nn.Module):
    def __init__(self, nfeat, nhid, nclass, dropout):
        super().__init__()
        self.gc1 = GraphConvolution(nfeat, nhid)
        self.gc2 = GraphConvolution(nhid, nclass)
        self.dropout = dropout

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.dropout, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


labels = torch.arange(NODES) % CLASSES
edges = torch.randint(0, NODES, (2, 400))
kept = edges[:, (labels[edges[0]] == labels[edges[1]]) | (torch.rand(400) < 0.1)]
both = torch.cat([kept, kept.flip(0), torch.arange(NODES).repeat(2, 1)], 1)
graph = torch.sparse_coo_tensor(both, torch.ones(both.size(1)), (NODES, NODES)).coalesce()
degree = torch.sparse.sum(graph, dim=1).to_dense()
indices, values = graph.indices(), graph.values()
adj = torch.sparse_coo_tensor(indices, values / degree[indices[0]], graph.size())
print(adj.shape, adj._nnz(), adj.is_sparse, f"{torch.sparse.sum(adj).item():.3f}")
features = torch.randn(NODES, FEATURES) + F.one_hot(labels, FEATURES)

model = GCN(FEATURES, 16, CLASSES, dropout=0.3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
train, test = torch.arange(0, 30), torch.arange(30, NODES)
for epoch in range(20):
    model.train()
    optimizer.zero_grad()
    loss = F.nll_loss(model(features, adj)[train], labels[train])
    loss.backward()
    optimizer.step()
    if epoch % 5 == 4:
        model.eval()
        right = (model(features, adj).argmax(1) == labels)[test].float().mean()
        print(f"epoch {epoch}: loss {loss.item():.4f}, accuracy {right.item():.3f}")

# Attention over the edges, and the gradient by the weights of the edges.
weight = values.clone().requires_grad_()
attention = torch.sparse.softmax(torch.sparse_coo_tensor(indices, weight, graph.size()), dim=1)
(torch.sparse.mm(attention, features) ** 2).sum().backward()
print(f"{weight.grad.abs().sum().item():.3f}")
