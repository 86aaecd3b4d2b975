"""A small GPT: training with clipped gradients, a checkpoint, resuming from it, and autocast."""

import argparse
import math
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = "the quick brown fox jumps over the lazy dog. " * 20


class Attention(nn.Module):
    def __init__(self, width, heads, length, dropout):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.drop = nn.Dropout(dropout)
        self.heads = heads
        mask = torch.tril(torch.ones(length, length)).view(1, 1, length, length)
        self.register_buffer("mask", mask)

    def forward(self, x):
        batch, time, width = x.size()
        q, k, v = self.qkv(x).split(width, dim=2)
        q, k, v = (t.view(batch, time, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        if self.training:
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            scores = scores.masked_fill(self.mask[:, :, :time, :time] == 0, float("-inf"))
            y = self.drop(F.softmax(scores, dim=-1)) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(batch, time, width))


class Block(nn.Module):
    def __init__(self, width, heads, length, dropout):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads, length, dropout)
        self.mlp = nn.ModuleDict(dict(
            up=nn.Linear(width, 4 * width), act=nn.GELU(approximate="tanh"),
            down=nn.Linear(4 * width, width),
        ))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        m = self.mlp
        return x + m.down(m.act(m.up(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self, vocab, length=16, width=24, heads=3, layers=2, dropout=0.1):
        super().__init__()
        self.length = length
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(vocab, width), wpe=nn.Embedding(length, width),
            h=nn.ModuleList([Block(width, heads, length, dropout) for _ in range(layers)]),
            ln_f=nn.LayerNorm(width),
        ))
        self.lm_head = nn.Linear(width, vocab, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.apply(self._init)
        for name, p in self.named_parameters():
            if name.endswith("out.weight"):
                torch.nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * layers))

    def _init(self, module):
        if isinstance(module, nn.Linear):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if module.bias is not None:
                torch.nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def optimizer(self, lr):
        params = {n: p for n, p in self.named_parameters() if p.requires_grad}
        groups = [
            {"params": [p for p in params.values() if p.dim() >= 2], "weight_decay": 0.1},
            {"params": [p for p in params.values() if p.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))

    def forward(self, idx, targets=None):
        device = idx.device
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=device)
        x = self.transformer.wte(idx) + self.transformer.wpe(pos)
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1),
                                   ignore_index=-1)
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, count, temperature=1.0, top_k=None):
        for _ in range(count):
            logits, _ = self(idx[:, -self.length :])
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                v, _ = torch.topk(logits, top_k)
                logits[logits < v[:, [-1]]] = -float("inf")
            idx = torch.cat((idx, torch.multinomial(F.softmax(logits, dim=-1), 1)), dim=1)
        return idx


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    steps = parser.parse_args().steps
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.manual_seed(1337)
    chars = sorted(set(TEXT))
    data = torch.tensor([chars.index(c) for c in TEXT], dtype=torch.long)
    model = GPT(len(chars)).to(device)
    print(f"{sum(p.numel() for p in model.parameters())} parameters")
    optimizer = model.optimizer(1e-2)

    def batch():
        starts = torch.randint(len(data) - model.length, (4,))
        x = torch.stack([data[i : i + model.length] for i in starts])
        y = torch.stack([data[i + 1 : i + 1 + model.length] for i in starts])
        return x.to(device), y.to(device)

    def rate(step):
        return 1e-2 * 0.5 * (1 + math.cos(math.pi * step / steps))

    path = os.path.join(tempfile.mkdtemp(), "ckpt.pt")
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        for micro in range(2):
            _, loss = model(*batch())
            (loss / 2).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step} loss {loss.item():.4f} norm {norm.item():.3f}")
        if step == steps // 2:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "step": step, "rng": torch.get_rng_state()}, path)
    checkpoint = torch.load(path, map_location=device)
    again = GPT(len(chars))
    again.load_state_dict(checkpoint["model"])
    optimizer = again.optimizer(1e-2)
    optimizer.load_state_dict(checkpoint["optimizer"])
    torch.set_rng_state(checkpoint["rng"])
    model = again
    for step in range(checkpoint["step"] + 1, steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        for micro in range(2):
            _, loss = model(*batch())
            (loss / 2).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"again step {step} loss {loss.item():.4f}")
    scaler = torch.amp.GradScaler(device, enabled=device == "cuda")
    for step in range(3):  # in lower precision
        with torch.autocast(device_type=device, dtype=torch.bfloat16):
            logits, loss = model(*batch())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        print(f"autocast step {step} loss {loss.item():.2f}", logits.dtype)
    model.eval()
    start = torch.tensor([[chars.index("t")]])
    said = model.generate(start, 20, temperature=0.8, top_k=5)[0].tolist()
    print("".join(chars[i] for i in said))


if __name__ == "__main__":
    main()
