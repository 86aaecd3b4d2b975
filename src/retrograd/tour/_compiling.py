"""Programs of the tour that no note has: functions and their derivatives, compiled."""

from __future__ import annotations

from retrograd.tour._programs import Note, Program

COMPILING = Note(
    "Compiling. The derivative as a program",
    (
        Program(
            "A gradient that can be read",
            "torch.compile runs a function once, notes every operation, and makes a program of\n"
            "them. Of a gradient, too: forward and backward pass are plain NumPy.",
            """\
import retrograd as torch
from retrograd.func import grad

def loss(w, x):
    h = torch.tanh(x @ w)
    return (h * h).sum()

slope = torch.compile(grad(loss))
w, x = torch.ones(3, 2), torch.ones(4, 3)
print(slope(w, x).equal(grad(loss)(w, x)))
print(slope)
""",
        ),
        Program(
            "One program for both branches",
            "An if that looks at the values of a tensor cannot be part of a program. torch.cond\n"
            "can: its gradient is an if with the gradients of the branches.",
            """\
def size(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin().sum(), lambda x: (x * x).sum(), (x,))

slope = torch.compile(grad(size))
print(slope(torch.ones(2)), slope(-torch.ones(2)))
print(len(slope.entries), "program:")
print(slope)
""",
            continues=True,
        ),
        Program(
            "A loop, and the loop of its gradient",
            "torch.scan carries a value from slice to slice. Its gradient goes through the slices\n"
            "in the other direction, with the carried values that were kept.",
            """\
def decay(rate, xs):
    def step(total, x):
        total = total * rate + x
        return total, total

    total, sums = torch.scan(step, torch.tensor(0.0), xs)
    return sums.sum()

slope = torch.compile(grad(decay))
print(slope(torch.tensor(0.5), torch.ones(100)))
print(slope)
""",
            continues=True,
        ),
        Program(
            "A training step",
            "Parameters, gradients and the state of the optimizer are inputs and outputs of the\n"
            "program. After the step they are what eager mode would have left.",
            """\
import retrograd as torch

torch.manual_seed(0)
x = torch.linspace(-1, 1, 20)[:, None]
y = 3 * x + 1
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)

@torch.compile
def step():
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss

for i in range(100):
    loss = step()
print(f"loss {loss:.4f}, {model.weight.item():.3f} * x + {model.bias.item():.3f}")
print(step.cost)
""",
        ),
    ),
)
