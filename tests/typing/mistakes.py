"""Mistakes: type checkers must report every line marked so, and no other."""

import retrograd as torch
from retrograd import Tensor, nn
from retrograd.nn import functional as F
from retrograd.utils.data import DataLoader, TensorDataset

x = torch.ones(2, 3)
layer = nn.Linear(3, 4)

# arguments of the wrong type
torch.zeros("2")  # mistake: a size is a number
x.sum(dim="rows")  # mistake: a dimension is a number
torch.matmul(x, 3)  # mistake: a product of matrices
nn.Linear("3", 4)  # mistake: a size is a number
F.relu([1.0, 2.0])  # mistake: a list is no tensor
x["first"]  # mistake: an index is no name
x + "1"  # mistake: an operand is no text
torch.cat(x, "0")  # mistake: a dimension is a number
torch.optim.SGD(layer.parameters(), lr="fast")  # mistake: a rate is a number
torch.linalg.norm(x, dim="all")  # mistake: a dimension is a number
torch.fft.fft(x, n=2.5)  # mistake: a length is an integer
layer("x")  # mistake: a layer is called on a tensor
DataLoader(TensorDataset(x), batch_size="all")  # mistake: a size is a number

# names that do not exist
x.reshpae(6)  # mistake: misspelt
torch.rel(x)  # mistake: misspelt
F.crossentropy(x, x)  # mistake: misspelt
nn.Linaer(2, 3)  # mistake: misspelt
torch.sum(x, dims=0)  # mistake: misspelt keyword
F.cross_entropy(x, x, reducton="sum")  # mistake: misspelt keyword
nn.LSTM(3, 4, layers=2)  # mistake: misspelt keyword
torch.optim.Adam(layer.parameters(), rate=0.1)  # mistake: misspelt keyword
torch.special.gammma(x)  # mistake: no such function

# arguments that are missing, or too many
torch.gather(x, 0)  # mistake: no index
nn.Linear(3)  # mistake: no size of the output
x.transpose(0)  # mistake: one dimension
layer(x, x, x)  # mistake: a linear layer takes one tensor
torch.exp()  # mistake: nothing to take it of
nn.CrossEntropyLoss()(x)  # mistake: no target

# results taken for what they are not
values: Tensor = x.max(dim=0)  # mistake: a pair
size: int = x.shape  # mistake: a shape
flag: bool = x > 0  # mistake: a tensor
x.max(dim=0).sum()  # mistake: a pair
x.split(1).sum()  # mistake: a tuple
x.item().backward()  # mistake: a number
x.sort().value  # mistake: the name is values
x.grad.zero_()  # mistake: there may be no gradient
text: str = torch.linalg.svd(x).S  # mistake: a tensor
count: int = layer(x)  # mistake: a tensor
