"""Skip-gram word vectors with negative samples, sparse embeddings and SparseAdam."""

from collections import Counter

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.manual_seed(2)
TEXT = (
    "the quick brown fox jumps over the lazy dog while the sly cat sleeps near the old brown log "
    "and the dog barks at the fox"
).split()


class SkipGram(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.u_embeddings = nn.Embedding(words, dim, sparse=True)
        self.v_embeddings = nn.Embedding(words, dim, sparse=True)
        initrange = 1.0 / dim
        nn.init.uniform_(self.u_embeddings.weight.data, -initrange, initrange)
        nn.init.constant_(self.v_embeddings.weight.data, 0)

    def forward(self, pos_u, pos_v, neg_v):
        emb_u, emb_v = self.u_embeddings(pos_u), self.v_embeddings(pos_v)
        score = torch.clamp(torch.sum(torch.mul(emb_u, emb_v), dim=1), max=10, min=-10)
        neg = torch.bmm(self.v_embeddings(neg_v), emb_u.unsqueeze(2)).squeeze(2)
        neg = torch.sum(F.logsigmoid(-torch.clamp(neg, max=10, min=-10)), dim=1)
        return torch.mean(-F.logsigmoid(score) - neg)


counts = Counter(TEXT)
vocabulary = sorted(counts, key=lambda w: (-counts[w], w))
index = {w: i for i, w in enumerate(vocabulary)}
frequencies = torch.tensor([counts[w] for w in vocabulary], dtype=torch.float).pow(0.75)
frequencies /= frequencies.sum()
pairs = torch.tensor([
    (index[TEXT[i]], index[TEXT[j]])
    for i in range(len(TEXT)) for j in range(max(0, i - 2), min(len(TEXT), i + 3)) if i != j
])  # fmt: skip

model = SkipGram(len(vocabulary), 8)
optimizer = optim.SparseAdam(list(model.parameters()), lr=0.05)
for epoch in range(3):
    total = 0.0
    for batch in pairs[torch.randperm(len(pairs))].split(16):
        negative = torch.multinomial(frequencies, len(batch) * 3, replacement=True)
        optimizer.zero_grad()
        loss = model(batch[:, 0], batch[:, 1], negative.view(len(batch), 3))
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(epoch, f"{total:.5f}")
print(model.v_embeddings.weight.grad.to_dense().abs().sum(1))
optim.SGD(model.parameters(), 0.1).step()
optim.Adagrad(model.parameters(), 0.1).step()
fox, dog = (model.u_embeddings.weight[index[w]] for w in ("fox", "dog"))
print(f"{F.cosine_similarity(fox, dog, dim=0).item():.4f}")

bag = nn.EmbeddingBag(5, 3, mode="sum", sparse=True)
bag(torch.tensor([1, 2, 4, 1]), torch.tensor([0, 2])).sum().backward()
print(bag.weight.grad.to_dense())
