# A loss of predicted labels.
# cause: it returns indices, and integers have no derivative
# cure: cross_entropy
# line: 9
import torch

scores = torch.ones(2, 3, requires_grad=True)
labels = torch.tensor([0, 1])
predicted = scores.argmax(dim=1)
loss = (predicted - labels).float().abs().mean()
loss.backward()
