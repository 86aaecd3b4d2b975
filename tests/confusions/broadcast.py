# (n, 1) and (n,) in a loss.
# cause: Input [4, 1] and target [4] broadcast to [4, 4]
# cure: use target.unsqueeze(-1)
import torch

model = torch.nn.Linear(3, 1)
inputs, target = torch.ones(4, 3), torch.ones(4)
loss = torch.nn.functional.mse_loss(model(inputs), target)
print(loss.shape)
