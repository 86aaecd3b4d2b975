# A step in NumPy.
# cause: an array does not record what is computed with it
# cure: pass the tensor itself to functions of torch
# line: 9
import numpy as np
import torch

w = torch.ones(3, requires_grad=True)
h = np.exp(w.detach().numpy())
loss = torch.from_numpy(h).sum()
loss.backward()
