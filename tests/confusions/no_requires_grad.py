# Nothing requires grad.
# cause: Nothing that it was computed from requires grad
# cure: requires_grad=True
# line: 9
import torch

w = torch.ones(3)
loss = (w * 2).sum()
loss.backward()
