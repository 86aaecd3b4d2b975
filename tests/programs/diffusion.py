"""A small diffusion model: a U-Net with attention and times, an average of it, and samples."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

torch.manual_seed(0)
STEPS = 20


class Residual(nn.Module):
    def __init__(self, inputs, outputs, times) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, inputs), nn.GroupNorm(4, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(times, 2 * outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()
        nn.init.zeros_(self.conv2.weight)

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.time(F.silu(t))[:, :, None, None].chunk(2, 1)
        return self.skip(x) + self.conv2(F.silu(self.norm2(h) * (1 + scale) + shift))


class Attention(nn.Module):
    def __init__(self, channels) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(1, channels)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1, bias=False)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        parts = self.qkv(self.norm(x)).reshape(b, 3, 2, c // 2, h * w).transpose(-1, -2)
        mixed = F.scaled_dot_product_attention(*parts.unbind(1))
        return x + self.out(mixed.transpose(-1, -2).reshape(b, c, h, w))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.times = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.left = Residual(8, 8, 32)
        self.down = nn.Conv2d(8, 16, 3, 2, 1)
        self.middle, self.attention = Residual(16, 16, 32), Attention(16)
        self.up = nn.ConvTranspose2d(16, 8, 4, 2, 1)
        self.right = Residual(16, 8, 32)
        self.last = nn.Conv2d(8, 1, 1)

    def forward(self, x, t):
        angles = t[:, None].float() * torch.exp(-math.log(1e4) * torch.arange(8) / 8)
        t = self.times(torch.cat([angles.sin(), angles.cos()], -1))
        left = self.left(self.first(x), t)
        middle = self.attention(self.middle(self.down(left), t))
        return self.last(self.right(torch.cat([self.up(middle), left], 1), t))


noise = torch.linspace(1e-4, 0.05, STEPS)
kept = torch.cumprod(1 - noise, 0)
model = UNet()
average = copy.deepcopy(model).eval()
optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
images = torch.rand(8, 1, 8, 8) * 2 - 1
print(sum(p.numel() for p in model.parameters()), "parameters")
for step in range(8):
    t, e = torch.randint(0, STEPS, (8,)), torch.randn_like(images)
    noisy = kept[t].sqrt().view(-1, 1, 1, 1) * images + (1 - kept[t]).sqrt().view(-1, 1, 1, 1) * e
    loss = F.mse_loss(model(noisy, t), e)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.5f}")
    with torch.no_grad():
        for old, new in zip(average.parameters(), model.parameters(), strict=True):
            old.lerp_(new, 0.1)


@torch.no_grad()
def sample(count):
    x = torch.randn(count, 1, 8, 8)
    for i in reversed(range(STEPS)):
        e = average(x, torch.full((count,), i))
        x = (x - noise[i] / (1 - kept[i]).sqrt() * e) / (1 - noise[i]).sqrt()
        x = x + noise[i].sqrt() * torch.randn_like(x) if i else x
    return x


drawn = sample(2)
print(f"samples: mean {drawn.mean().item():.4f}, deviation {drawn.std().item():.4f}")
