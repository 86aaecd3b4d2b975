"""A language model of words: an LSTM or a Transformer, with truncated backpropagation."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = ("a cat sat on the mat and the dog sat on the log and a bird sang to the cat " * 6).split()


class RNNModel(nn.Module):
    def __init__(self, rnn_type, ntoken, ninp=12, nhid=12, nlayers=2, dropout=0.2, tie=True):
        super().__init__()
        self.drop, self.encoder = nn.Dropout(dropout), nn.Embedding(ntoken, ninp)
        self.rnn = getattr(nn, rnn_type)(ninp, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        if tie:
            self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        self.rnn_type, self.nhid, self.nlayers, self.ntoken = rnn_type, nhid, nlayers, ntoken

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(input)), hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.ntoken)
        return F.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        zeros = weight.new_zeros(self.nlayers, bsz, self.nhid)
        return (zeros, zeros.clone()) if self.rnn_type == "LSTM" else zeros


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=64):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len, dtype=torch.float).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0).transpose(0, 1))

    def forward(self, x):
        return x + self.pe[: x.size(0), :]


class TransformerModel(nn.Transformer):
    def __init__(self, ntoken, ninp=12, nhead=2, nhid=24, nlayers=1):
        super().__init__(d_model=ninp, nhead=nhead, dim_feedforward=nhid,
                         num_encoder_layers=nlayers, num_decoder_layers=1, dropout=0.1)
        self.pos, self.input_emb, self.ninp = PositionalEncoding(ninp), nn.Embedding(ntoken, ninp), ninp
        self.out = nn.Linear(ninp, ntoken)

    def forward(self, src):
        mask = self.generate_square_subsequent_mask(len(src))
        src = self.pos(self.input_emb(src) * math.sqrt(self.ninp))
        output = self.out(self.encoder(src, mask=mask))
        return F.log_softmax(output, dim=-1).view(-1, output.size(-1))


def repackage_hidden(h):
    return h.detach() if isinstance(h, torch.Tensor) else tuple(repackage_hidden(v) for v in h)


words = sorted(set(TEXT))
ids = torch.tensor([words.index(w) for w in TEXT]).type(torch.int64)
bsz, bptt = 4, 5
data = ids.narrow(0, 0, len(ids) // bsz * bsz).view(bsz, -1).t().contiguous()
for kind in ("LSTM", "GRU", "RNN", "Transformer"):
    torch.manual_seed(1111)
    transformer = kind == "Transformer"
    model = TransformerModel(len(words)) if transformer else RNNModel(kind, len(words))
    hidden = None if transformer else model.init_hidden(bsz)
    criterion, total = nn.NLLLoss(), 0.0
    model.train()
    for i in range(0, data.size(0) - 1, bptt):
        seq_len = min(bptt, len(data) - 1 - i)
        source, target = data[i : i + seq_len], data[i + 1 : i + 1 + seq_len].reshape(-1)
        model.zero_grad()
        if transformer:
            output = model(source)
        else:
            hidden = repackage_hidden(hidden)
            output, hidden = model(source, hidden)
        loss = criterion(output, target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            if p.grad is not None:
                p.data.add_(p.grad, alpha=-5.0)
        total += loss.item()
    print(f"{kind} loss {total:.4f} ppl {math.exp(loss.item()):.3f}")
