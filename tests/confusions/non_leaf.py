# The gradient of a result.
# ask: explain(y)
# cause: y is not a leaf
# cure: Call y.retain_grad() before backward()
# line: 9
import torch

x = torch.ones(3, requires_grad=True)
y = x * 2
y.sum().backward()
print(y.grad)
