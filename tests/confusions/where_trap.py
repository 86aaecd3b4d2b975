# where outside of sqrt.
# ask: anomaly
# cause: 0/0 at element [0]: the derivative of sqrt is infinite at 0
# cure: put the `where` inside
# line: 9
import torch

x = torch.tensor([0.0, 4.0], requires_grad=True)
y = torch.where(x > 0, x.sqrt(), torch.zeros(2))
y.sum().backward()
print(x.grad)
