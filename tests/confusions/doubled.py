# Gradients that add up.
# ask: explain(w)
# cause: 2 backward passes have added to it
# cure: Set w.grad = None before each backward()
# line: 11
import torch

w = torch.ones(3, requires_grad=True)
for _ in range(2):
    loss = (w * 2).sum()
    loss.backward()
print(w.grad)
