# Integers that require grad.
# cause: The tensor has dtype int64
# cure: write the numbers as 1.0
# line: 7
import torch

w = torch.tensor([1, 2, 3], requires_grad=True)
