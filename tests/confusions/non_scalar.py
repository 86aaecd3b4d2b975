# backward of a vector.
# cause: y has shape [3]. backward() starts from a single number
# cure: y.sum().backward()
# line: 9
import torch

x = torch.ones(3, requires_grad=True)
y = x * 2
y.backward()
