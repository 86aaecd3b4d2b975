"""Models of names, letter by letter: bigrams, a bag of words, an MLP, an RNN, a GRU."""

import torch
import torch.nn as nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

NAMES = "emma olivia ava isabella sophia charlotte mia amelia harper evelyn noah liam james".split()


class Names(Dataset):
    def __init__(self, words, length):
        self.words, self.length = words, length
        self.stoi = {c: i + 1 for i, c in enumerate(sorted(set("".join(words))))}

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        ix = torch.tensor([self.stoi[c] for c in self.words[index]], dtype=torch.long)
        x, y = torch.zeros(self.length + 1, dtype=torch.long), torch.zeros(self.length + 1,
                                                                           dtype=torch.long)
        x[1 : 1 + len(ix)] = ix
        y[: len(ix)] = ix
        y[len(ix) + 1 :] = -1
        return x, y


class Bigram(nn.Module):
    def __init__(self, vocab, length):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros((vocab, vocab)))

    def forward(self, x):
        return self.logits[x]


class BoW(nn.Module):
    def __init__(self, vocab, length, width=16):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.head = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, vocab))
        self.register_buffer("bias", torch.tril(torch.ones(length, length)).unsqueeze(0))

    def forward(self, x):
        b, t = x.size()
        e = self.wte(x) + self.wpe(torch.arange(t).unsqueeze(0))
        att = torch.zeros((b, t, t)).masked_fill(self.bias[:, :t, :t] == 0, float("-inf"))
        return self.head(e + F.softmax(att, dim=-1) @ e)


class MLP(nn.Module):
    def __init__(self, vocab, length, context=3, width=16):
        super().__init__()
        self.context, self.vocab = context, vocab
        self.wte = nn.Embedding(vocab + 1, width)
        self.mlp = nn.Sequential(nn.Linear(context * width, 2 * width), nn.Tanh(),
                                 nn.Linear(2 * width, vocab))

    def forward(self, x):
        embs = []
        for _ in range(self.context):
            embs.append(self.wte(x))
            x = torch.roll(x, 1, 1)
            x[:, 0] = self.vocab
        return self.mlp(torch.cat(embs, -1))


class Cell(nn.Module):
    def __init__(self, width, gated):
        super().__init__()
        self.gated = gated
        n = 2 * width
        self.xh = nn.Linear(n, width)
        if gated:
            self.xz, self.xr = nn.Linear(n, width), nn.Linear(n, width)

    def forward(self, x, h):
        xh = torch.cat([x, h], 1)
        if not self.gated:
            return F.tanh(self.xh(xh))
        r, z = F.sigmoid(self.xr(xh)), F.sigmoid(self.xz(xh))
        return (1 - z) * h + z * F.tanh(self.xh(torch.cat([x, r * h], 1)))


class RNN(nn.Module):
    def __init__(self, vocab, length, gated=False, width=16):
        super().__init__()
        self.start = nn.Parameter(torch.zeros(1, width))
        self.wte = nn.Embedding(vocab, width)
        self.cell, self.head = Cell(width, gated), nn.Linear(width, vocab)

    def forward(self, x):
        emb, h, hiddens = self.wte(x), self.start.expand((x.size(0), -1)), []
        for i in range(x.size(1)):
            h = self.cell(emb[:, i, :], h)
            hiddens.append(h)
        return self.head(torch.stack(hiddens, 1))


def train(name, make):
    torch.manual_seed(3407)
    data = Names(NAMES, max(map(len, NAMES)))
    vocab = len(data.stoi) + 1
    model = make(vocab, data.length + 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-2, weight_decay=0.01, eps=1e-8)
    loader = DataLoader(data, batch_size=4, shuffle=True)
    losses = []
    for epoch in range(3):
        for x, y in loader:
            logits = model(x.clone())
            loss = F.cross_entropy(logits.view(-1, vocab), y.view(-1), ignore_index=-1)
            model.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    print(name, " ".join(f"{x:.4f}" for x in losses))


train("bigram", Bigram)
train("bow", BoW)
train("mlp", MLP)
train("rnn", RNN)
train("gru", lambda vocab, length: RNN(vocab, length, gated=True))
