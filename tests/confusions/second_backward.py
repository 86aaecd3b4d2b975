# A second backward.
# cause: The graph was used, and freed, by the first backward
# cure: compute the loss again
# line: 9
import torch

w = torch.ones(3, requires_grad=True)
loss = w.exp().sum()
loss.backward()
loss.backward()
