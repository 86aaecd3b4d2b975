# Values taken by .data.
# ask: explain(w, loss)
# cause: by .data: it is the values without their history
# cure: use the tensor itself, without .data
# line: 10
import torch

w = torch.ones(3, requires_grad=True)
scale = torch.ones(3, requires_grad=True)
h = w.data * 2
loss = (h * scale).sum()
loss.backward()
print(w.grad)
