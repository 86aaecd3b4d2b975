# A tensor made of tensors.
# cause: by torch.tensor(): it copies the values, without their history
# cure: torch.stack([...]) for a list of tensors
# line: 8
import torch

w = torch.ones(2, requires_grad=True)
loss = torch.tensor([w.sum().item(), w.prod().item()]).sum()
loss.backward()
