# The optimizer of another model.
# ask: explain(model, loss, optimizer=optimizer)
# cause: not in the optimizer
# cure: make the optimizer with model.parameters()
import torch

model, other = torch.nn.Linear(2, 1), torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
before = model.bias.item()
loss = model(torch.ones(2)).sum()
loss.backward()
optimizer.step()
print(model.bias.item() - before)
