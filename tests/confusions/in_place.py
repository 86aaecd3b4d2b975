# A value that is overwritten.
# cause: changed at
# cure: write x = x + 1, not x += 1
# line: 10
import torch

x = torch.ones(3, requires_grad=True)
y = x.exp()
loss = y.sum()
y += 1
loss.backward()
