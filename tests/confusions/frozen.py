# A frozen model.
# cause: All parameters of model are frozen
# cure: call model.requires_grad_()
# line: 11
import torch

model = torch.nn.Linear(2, 1)
for parameter in model.parameters():
    parameter.requires_grad = False
loss = model(torch.ones(2)).sum()
loss.backward()
