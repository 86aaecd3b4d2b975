# A layer that is not used.
# ask: explain(model, loss)
# cause: unused: no recorded operation has used it
# cure: remove it, or use it in forward()
import torch

model = torch.nn.ModuleDict({"used": torch.nn.Linear(2, 1), "unused": torch.nn.Linear(2, 1)})
loss = model["used"](torch.ones(2)).sum()
loss.backward()
print(model["unused"].weight.grad)
