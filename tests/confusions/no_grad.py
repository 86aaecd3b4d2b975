# Computed in no_grad.
# cause: by torch.no_grad(): nothing is recorded in the block
# cure: compute it outside of the block
# line: 9
import torch

w = torch.ones(3, requires_grad=True)
with torch.no_grad():
    h = w.exp()
loss = h.sum()
loss.backward()
