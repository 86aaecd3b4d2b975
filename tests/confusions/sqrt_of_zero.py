# The distance of equal points.
# ask: anomaly
# cause: The derivative of sqrt is infinite at 0
# cure: (x + 1e-12).sqrt()
# line: 10
import torch

a = torch.ones(2, requires_grad=True)
b = torch.ones(2)
distance = ((a - b) ** 2).sum().sqrt()
distance.backward()
print(a.grad)
