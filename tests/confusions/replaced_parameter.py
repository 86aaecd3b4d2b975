# A parameter that was replaced.
# ask: explain(model, loss, optimizer=optimizer)
# cause: model.weight was replaced since the optimizer was made
# cure: make the optimizer after that
import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model.weight = torch.nn.Parameter(torch.zeros(1, 2))
loss = model(torch.ones(2)).sum()
loss.backward()
optimizer.step()
print(model.weight.tolist())
