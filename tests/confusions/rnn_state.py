# A hidden state that is carried over.
# cause: h is carried over from before the first backward
# cure: h = h.detach()
# line: 10
import torch

cell = torch.nn.RNNCell(2, 2)
h = torch.zeros(1, 2)
for _ in range(2):
    h = cell(torch.ones(1, 2), h)
    loss = h.sum()
    loss.backward()
