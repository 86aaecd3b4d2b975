"""Sequences written backwards by nn.Transformer, with masks, and decoded greedily."""

import math

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

torch.manual_seed(3)
PAD, BOS, EOS = 0, 1, 2


class PositionalEncoding(nn.Module):
    def __init__(self, emb_size, dropout, maxlen=50):
        super().__init__()
        den = torch.exp(-torch.arange(0, emb_size, 2) * math.log(10000) / emb_size)
        pos = torch.arange(0, maxlen).reshape(maxlen, 1)
        embedding = torch.zeros((maxlen, emb_size))
        embedding[:, 0::2] = torch.sin(pos * den)
        embedding[:, 1::2] = torch.cos(pos * den)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("pos_embedding", embedding.unsqueeze(-2))

    def forward(self, token_embedding):
        return self.dropout(token_embedding + self.pos_embedding[: token_embedding.size(0), :])


class Seq2Seq(nn.Module):
    def __init__(self, words=12, size=16):
        super().__init__()
        self.transformer = nn.Transformer(
            d_model=size, nhead=4, num_encoder_layers=2, num_decoder_layers=2, dim_feedforward=32,
            dropout=0.1,
        )  # fmt: skip
        self.generator = nn.Linear(size, words)
        self.src_tok_emb, self.tgt_tok_emb = nn.Embedding(words, size), nn.Embedding(words, size)
        self.positional_encoding, self.scale = PositionalEncoding(size, 0.1), math.sqrt(size)

    def forward(self, src, trg, src_mask, tgt_mask, src_padding, tgt_padding, memory_padding):
        src_emb = self.positional_encoding(self.src_tok_emb(src.long()) * self.scale)
        tgt_emb = self.positional_encoding(self.tgt_tok_emb(trg.long()) * self.scale)
        outs = self.transformer(
            src_emb, tgt_emb, src_mask, tgt_mask, None, src_padding, tgt_padding, memory_padding
        )
        return self.generator(outs)

    def encode(self, src, src_mask):
        embedded = self.positional_encoding(self.src_tok_emb(src) * self.scale)
        return self.transformer.encoder(embedded, src_mask)

    def decode(self, tgt, memory, tgt_mask):
        embedded = self.positional_encoding(self.tgt_tok_emb(tgt) * self.scale)
        return self.transformer.decoder(embedded, memory, tgt_mask)


def create_mask(src, tgt):
    length = tgt.shape[0]
    tgt_mask = (torch.triu(torch.ones((length, length))) == 1).transpose(0, 1)
    src_mask = torch.zeros((src.shape[0], src.shape[0])).type(torch.bool)
    return src_mask, ~tgt_mask, (src == PAD).transpose(0, 1), (tgt == PAD).transpose(0, 1)


pairs = []
for _ in range(24):
    words = torch.randint(3, 12, (int(torch.randint(3, 7, ())),))
    pairs.append(tuple(torch.cat((torch.tensor([BOS]), w, torch.tensor([EOS])))
                       for w in (words, words.flip(0))))  # fmt: skip

model = Seq2Seq()
for p in model.parameters():
    if p.dim() > 1:
        nn.init.xavier_uniform_(p)
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98), eps=1e-9)
warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min((s + 1) / 4, (4 / (s + 1)) ** 0.5))


def collate(batch):
    return tuple(pad_sequence(x, padding_value=PAD) for x in zip(*batch, strict=True))


for epoch in range(3):
    model.train()
    total = 0.0
    for src, tgt in DataLoader(pairs, batch_size=8, shuffle=True, collate_fn=collate):
        masks = create_mask(src, tgt[:-1, :])
        logits = model(src, tgt[:-1, :], *masks, masks[2])
        optimizer.zero_grad()
        loss = criterion(logits.reshape(-1, logits.shape[-1]), tgt[1:, :].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        warmup.step()
        total += loss.item()
    print(epoch, f"{total:.4f}", f"{warmup.get_last_lr()[0]:.6f}")

model.eval()
with torch.no_grad():
    src = pairs[0][0].view(-1, 1)
    memory = model.encode(src, torch.zeros(len(src), len(src)).type(torch.bool))
    ys = torch.ones(1, 1).fill_(BOS).type(torch.long)
    for _ in range(6):
        mask = nn.Transformer.generate_square_subsequent_mask(ys.size(0))
        out = model.decode(ys, memory, mask).transpose(0, 1)
        prob = model.generator(out[:, -1])
        next_word = torch.max(prob, dim=1)[1].item()
        ys = torch.cat([ys, torch.ones(1, 1).type_as(src.data).fill_(next_word)], dim=0)
        if next_word == EOS:
            break
    print(ys.flatten().tolist(), [f"{x:.3f}" for x in prob[0].tolist()])
    attention = nn.MultiheadAttention(16, 4, kdim=8, vdim=6, add_bias_kv=True, add_zero_attn=True)
    query, key, value = torch.randn(3, 2, 16), torch.randn(4, 2, 8), torch.randn(4, 2, 6)
    out, weights = attention(query, key, value, average_attn_weights=False)
    print(out.shape, weights.shape, f"{out.abs().sum().item():.3f} {weights.std().item():.4f}")
print(list(model.state_dict())[:4], model.transformer.encoder.layers[0])
