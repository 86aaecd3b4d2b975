# The logarithm of probability 0.
# ask: anomaly
# cause: 0/0 at element [0]: log is -inf at 0
# cure: add a small number first, (x + 1e-12).log()
# line: 10
import torch

p = torch.tensor([0.0, 1.0], requires_grad=True)
target = torch.tensor([0.0, 1.0])
loss = -(target * p.log()).sum()
loss.backward()
print(p.grad)
