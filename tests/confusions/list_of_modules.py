# Modules in a list.
# cause: model.layers is a plain list of Linears
# cure: use nn.ModuleList
# line: 15
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [torch.nn.Linear(2, 2) for _ in range(3)]


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
