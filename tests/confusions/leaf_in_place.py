# A step without an optimizer.
# cause: w is a leaf
# cure: with torch.no_grad():
# line: 9
import torch

w = torch.ones(3, requires_grad=True)
w.sum().backward()
w -= 0.1 * w.grad
