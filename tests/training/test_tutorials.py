"""Training scripts as tutorials of PyTorch write them. Each is run as it stands, and with nothing
but its import lines changed; both print the same, losses to four digits."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any

import pytest

CLASSIFIER = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split

torch.manual_seed(42)


class Shapes(Dataset):
    '''Noisy pictures, of one of five patterns each.'''

    def __init__(self, count, transform=None):
        patterns = torch.randn(5, 1, 8, 8)
        self.labels = torch.randint(0, 5, (count,))
        self.images = patterns[self.labels] + 2.0 * torch.randn(count, 1, 8, 8)
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, idx):
        image, label = self.images[idx], self.labels[idx]
        if self.transform:
            image = self.transform(image)
        return image, label


data = Shapes(500, transform=lambda image: (image - 0.1) / 2.2)
training_data, test_data = random_split(data, [400, 100])
train_dataloader = DataLoader(training_data, batch_size=32, shuffle=True)
test_dataloader = DataLoader(test_data, batch_size=64)

for X, y in test_dataloader:
    print(f"Shape of X [N, C, H, W]: {X.shape}")
    print(f"Shape of y: {y.shape} {y.dtype}")
    break

device = torch.device("cpu")


class NeuralNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.linear_relu_stack = nn.Sequential(
            nn.Linear(8 * 8, 64),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(64, 32),
            nn.ReLU(),
            nn.Linear(32, 5),
        )

    def forward(self, x):
        x = self.flatten(x)
        logits = self.linear_relu_stack(x)
        return logits


model = NeuralNetwork().to(device)
print(model)
print(sum(p.numel() for p in model.parameters() if p.requires_grad), "parameters")

loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=5e-2, momentum=0.9, weight_decay=1e-4)


def train(dataloader, model, loss_fn, optimizer):
    size = len(dataloader.dataset)
    model.train()
    for batch, (X, y) in enumerate(dataloader):
        X, y = X.to(device), y.to(device)

        # Compute prediction error
        pred = model(X)
        loss = loss_fn(pred, y)

        # Backpropagation
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        if batch % 5 == 0:
            loss, current = loss.item(), (batch + 1) * len(X)
            print(f"loss: {loss:.4f}  [{current:>5d}/{size:>5d}]")


def test(dataloader, model, loss_fn):
    size = len(dataloader.dataset)
    num_batches = len(dataloader)
    model.eval()
    test_loss, correct = 0, 0
    with torch.no_grad():
        for X, y in dataloader:
            X, y = X.to(device), y.to(device)
            pred = model(X)
            test_loss += loss_fn(pred, y).item()
            correct += (pred.argmax(1) == y).type(torch.float).sum().item()
    test_loss /= num_batches
    correct /= size
    print(f"Test Error: Accuracy: {(100 * correct):>0.1f}%, Avg loss: {test_loss:.4f}")


for t in range(4):
    print(f"Epoch {t + 1} -------------------------------")
    train(train_dataloader, model, loss_fn, optimizer)
    test(test_dataloader, model, loss_fn)
print("Done!")

model.eval()
x, y = test_data[0][0], test_data[0][1]
with torch.no_grad():
    pred = model(x)
    predicted, actual = pred[0].argmax(0).item(), y.item()
    print(f'Predicted: "{predicted}", Actual: "{actual}"')
"""

SINE = """
import math

import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)

# Windows of a sine wave, and what comes after each.
t = torch.linspace(0, 8 * math.pi, 200)
wave = torch.sin(t) + 0.05 * torch.randn(200)
window = 20
inputs = wave.unfold(0, window, 1)[:-1].unsqueeze(-1)
targets = wave[window:].unsqueeze(-1)
train_set = TensorDataset(inputs[:140], targets[:140])
train_loader = DataLoader(train_set, batch_size=20, shuffle=True, drop_last=True)


class Forecaster(nn.Module):
    def __init__(self, hidden_size=16, num_layers=2):
        super().__init__()
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.lstm = nn.LSTM(1, hidden_size, num_layers, batch_first=True)
        self.fc = nn.Linear(hidden_size, 1)

    def forward(self, x):
        h0 = torch.zeros(self.num_layers, x.size(0), self.hidden_size)
        c0 = torch.zeros(self.num_layers, x.size(0), self.hidden_size)
        out, (hn, cn) = self.lstm(x, (h0, c0))
        return self.fc(out[:, -1, :])


model = Forecaster()
print(model)
criterion = nn.MSELoss()
optimizer = optim.Adam(model.parameters(), lr=0.01)
scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)

for epoch in range(6):
    model.train()
    running_loss = 0.0
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        running_loss += loss.item() * x.size(0)
    scheduler.step()
    lr = scheduler.get_last_lr()[0]
    print(f"Epoch [{epoch + 1}/6], Loss: {running_loss / len(train_set):.4f}, lr: {lr:.4f}")

model.eval()
with torch.no_grad():
    held_out = criterion(model(inputs[140:]), targets[140:])
    print(f"Held-out loss: {held_out.item():.4f}")

    # Feed predictions back in.
    sequence = inputs[140:141]
    future = []
    for _ in range(10):
        step = model(sequence)
        future.append(step.item())
        sequence = torch.cat([sequence[:, 1:], step.unsqueeze(1)], dim=1)
print("Future:", ", ".join(f"{value:.4f}" for value in future))


# The same with cells, in double precision, and an optimizer that evaluates the loss many times.
class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(1, 12)
        self.linear = nn.Linear(12, 1)

    def forward(self, input, future=0):
        outputs = []
        h_t = torch.zeros(input.size(0), 12, dtype=torch.double)
        for input_t in input.split(1, dim=1):
            h_t = self.cell(input_t, h_t)
            output = self.linear(h_t)
            outputs += [output]
        for i in range(future):
            h_t = self.cell(output, h_t)
            output = self.linear(h_t)
            outputs += [output]
        return torch.cat(outputs, dim=1)


seq = Cells()
seq.double()
x = torch.stack([torch.sin(torch.arange(25, dtype=torch.double) / 3 + p) for p in range(4)])
optimizer = optim.LBFGS(seq.parameters(), lr=0.8, max_iter=8)
for i in range(3):
    print("STEP: ", i)

    def closure():
        optimizer.zero_grad()
        out = seq(x[:, :-1])
        loss = criterion(out, x[:, 1:])
        print(f"loss: {loss.item():.4f}")
        loss.backward()
        return loss

    optimizer.step(closure)
with torch.no_grad():
    pred = seq(x[:, :-1], future=3)
    print(pred[:, -3:])
"""

GAN = """
import io

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.parametrizations import spectral_norm
from torch.optim.lr_scheduler import CosineAnnealingLR, ExponentialLR
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(999)
nz, ngf, ndf, num_epochs = 8, 6, 6, 3

# Crosses at random places, blurred.
images = torch.full((96, 1, 8, 8), -1.0)
for image in images:
    row, column = torch.randint(1, 7, (2,)).tolist()
    image[0, row, :] = 0.8
    image[0, :, column] = 0.8
images = F.avg_pool2d(images, 3, stride=1, padding=1)
dataloader = DataLoader(TensorDataset(images), batch_size=16, shuffle=True, num_workers=0)


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1 and hasattr(m.weight, "data"):
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 2, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf, 1, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, input):
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            spectral_norm(nn.Conv2d(1, ndf, 4, 2, 1)),
            nn.LeakyReLU(0.2, inplace=True),
            spectral_norm(nn.Conv2d(ndf, ndf * 2, 4, 2, 1)),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 2, 1, 2, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, input):
        return self.main(input)


def build():
    netG, netD = Generator(), Discriminator()
    netG.apply(weights_init)
    optimizerD = optim.Adam(netD.parameters(), lr=0.004, betas=(0.5, 0.999))
    optimizerG = optim.Adam(netG.parameters(), lr=0.002, betas=(0.5, 0.999))
    schedulerD = ExponentialLR(optimizerD, gamma=0.9)
    schedulerG = CosineAnnealingLR(optimizerG, T_max=num_epochs)
    return netG, netD, optimizerD, optimizerG, schedulerD, schedulerG


parts = netG, netD, optimizerD, optimizerG, schedulerD, schedulerG = build()
print(netG)
print(netD)
criterion = nn.BCELoss()
fixed_noise = torch.randn(4, nz, 1, 1)
real_label, fake_label = 1.0, 0.0


def train_epoch(epoch, netG, netD, optimizerD, optimizerG, schedulerD, schedulerG):
    for i, (real,) in enumerate(dataloader):
        # (1) Update D network: maximize log(D(x)) + log(1 - D(G(z)))
        netD.zero_grad()
        b_size = real.size(0)
        label = torch.full((b_size,), real_label, dtype=torch.float)
        output = netD(real).view(-1)
        errD_real = criterion(output, label)
        errD_real.backward()
        D_x = output.mean().item()

        noise = torch.randn(b_size, nz, 1, 1)
        fake = netG(noise)
        label.fill_(fake_label)
        output = netD(fake.detach()).view(-1)
        errD_fake = criterion(output, label)
        errD_fake.backward()
        D_G_z1 = output.mean().item()
        errD = errD_real + errD_fake
        clip_grad_norm_(netD.parameters(), 1.0)
        optimizerD.step()

        # (2) Update G network: maximize log(D(G(z)))
        netG.zero_grad()
        label.fill_(real_label)
        output = netD(fake).view(-1)
        errG = criterion(output, label)
        errG.backward()
        D_G_z2 = output.mean().item()
        norm = clip_grad_norm_(netG.parameters(), 0.5)
        optimizerG.step()

        if i % 2 == 0:
            print(
                f"[{epoch}/{num_epochs}][{i}/{len(dataloader)}]"
                f" Loss_D: {errD.item():.4f} Loss_G: {errG.item():.4f} norm: {norm:.4f}"
                f" D(x): {D_x:.4f} D(G(z)): {D_G_z1:.4f} / {D_G_z2:.4f}"
            )
    schedulerD.step()
    schedulerG.step()
    print(f"lr: {optimizerD.param_groups[0]['lr']:.6f} {optimizerG.param_groups[0]['lr']:.6f}")


train_epoch(0, *parts)

buffer = io.BytesIO()
torch.save(
    {
        "epoch": 1,
        "netG": netG.state_dict(),
        "netD": netD.state_dict(),
        "optimizers": [optimizerD.state_dict(), optimizerG.state_dict()],
        "schedulers": [schedulerD.state_dict(), schedulerG.state_dict()],
    },
    buffer,
)
rng = torch.get_rng_state()
for epoch in range(1, num_epochs):
    train_epoch(epoch, *parts)
with torch.no_grad():
    samples = netG.eval()(fixed_noise)
print(f"{samples.mean().item():.4f} {samples.std().item():.4f}")

# Once more from the checkpoint, in other objects.
buffer.seek(0)
checkpoint = torch.load(buffer)
resumed = build()
resumed[0].load_state_dict(checkpoint["netG"])
print(resumed[1].load_state_dict(checkpoint["netD"]))
for optimizer, state in zip(resumed[2:4], checkpoint["optimizers"]):
    optimizer.load_state_dict(state)
for scheduler, state in zip(resumed[4:], checkpoint["schedulers"]):
    scheduler.load_state_dict(state)
torch.set_rng_state(rng)
for epoch in range(checkpoint["epoch"], num_epochs):
    train_epoch(epoch, *resumed)
with torch.no_grad():
    again = resumed[0].eval()(fixed_noise)
print("the same:", torch.equal(samples, again))
assert all(torch.equal(a, b) for a, b in zip(netD.parameters(), resumed[1].parameters()))
"""

SCRIPTS = {"classifier": CLASSIFIER, "sine": SINE, "gan": GAN}
IMPORTS = [
    (r"^import torch$", "import retrograd as torch"),
    (r"^(import|from) torch\b", r"\1 retrograd"),
]


def with_other_imports(script: str) -> str:
    for old, new in IMPORTS:
        script = re.sub(old, new, script, flags=re.MULTILINE)
    return script


def printed(script: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(script, "<tutorial>", "exec"), {"__name__": "__main__"})
    return out.getvalue()


def split(text: str) -> tuple[str, list[float]]:
    """The words, and the numbers that have a fraction."""
    pattern = r"-?\d+\.\d+"
    return re.sub(pattern, "#", text), [float(found) for found in re.findall(pattern, text)]


@pytest.fixture(scope="module")
def ours() -> Any:
    return {name: printed(with_other_imports(script)) for name, script in SCRIPTS.items()}


@pytest.mark.parametrize("name", SCRIPTS)
def test_only_import_lines_differ(name: str) -> None:
    before, after = SCRIPTS[name].splitlines(), with_other_imports(SCRIPTS[name]).splitlines()
    changed = [old for old, new in zip(before, after, strict=True) if old != new]
    assert changed
    assert all(re.match(r"(import|from) torch", line) for line in changed)
    assert "torch" not in {line.split()[1] for line in after if line.startswith(("import", "from"))}


@pytest.mark.parametrize("name", SCRIPTS)
def test_prints_what_pytorch_prints(name: str, ours: dict[str, str]) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the reference to compare with")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small sums, for which several wait for each other
    try:
        theirs = printed(SCRIPTS[name])
    finally:
        torch.set_num_threads(threads)
    words, numbers = split(ours[name])
    their_words, their_numbers = split(theirs)
    assert words == their_words
    assert len(numbers) > 15
    assert numbers == pytest.approx(their_numbers, rel=0, abs=1.01e-4)


def test_the_models_have_learned(ours: dict[str, str]) -> None:
    accuracies = [float(x) for x in re.findall(r"Accuracy: ([\d.]+)%", ours["classifier"])]
    assert accuracies[-1] > 85
    losses = [float(x) for x in re.findall(r"Epoch \[.*Loss: ([\d.]+)", ours["sine"])]
    assert losses[-1] < losses[0] / 5
    assert "the same: True" in ours["gan"]
