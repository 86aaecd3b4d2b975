"""Gradients of each sample, ensembles on one set of weights, neural tangent kernels, Jacobians."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import (
    functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap,
)

torch.manual_seed(0)


class SimpleCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, 1)
        self.conv2 = nn.Conv2d(4, 4, 3, 1)
        self.fc1 = nn.Linear(16, 8)
        self.fc2 = nn.Linear(8, 3)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


# Gradients of each sample.
model = SimpleCNN()
data, targets = torch.randn(5, 1, 8, 8), torch.randint(0, 3, (5,))
params = {k: v.detach() for k, v in model.named_parameters()}
buffers = {k: v.detach() for k, v in model.named_buffers()}


def compute_loss(params, buffers, sample, target):
    predictions = functional_call(model, (params, buffers), (sample.unsqueeze(0),))
    return F.nll_loss(predictions, target.unsqueeze(0))


ft_sample_grads = vmap(grad(compute_loss), in_dims=(None, None, 0, 0))(params, buffers, data, targets)
for name, g in ft_sample_grads.items():
    print(name, tuple(g.shape), f"{g.norm().item():.5f}")
alone = torch.autograd.grad(F.nll_loss(model(data[2:3]), targets[2:3]), tuple(model.parameters()))
print(all(torch.allclose(a, g[2], atol=1e-5)
          for a, g in zip(alone, ft_sample_grads.values())))

# An ensemble, its structure without memory.
models = [nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2)) for _ in range(4)]
stacked, stacked_buffers = stack_module_state(models)
base = copy.deepcopy(models[0]).to("meta")


def fmodel(params, buffers, x):
    return functional_call(base, (params, buffers), (x,))


x = torch.randn(4, 3, 6)
by_vmap = vmap(fmodel)(stacked, stacked_buffers, x)
one_by_one = torch.stack([m(batch) for m, batch in zip(models, x)])
print(by_vmap.shape, torch.allclose(by_vmap, one_by_one, atol=1e-5), f"{by_vmap.sum().item():.5f}")

# Neural tangent kernels in two ways.
net = nn.Sequential(nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, 3))
net_params = {k: v.detach() for k, v in net.named_parameters()}


def fnet_single(params, x):
    return functional_call(net, params, (x.unsqueeze(0),)).squeeze(0)


x1, x2 = torch.randn(3, 4), torch.randn(2, 4)


def empirical_ntk_jacobian_contraction(params, x1, x2):
    jac1 = [j.flatten(2) for j in vmap(jacrev(fnet_single), (None, 0))(params, x1).values()]
    jac2 = [j.flatten(2) for j in vmap(jacrev(fnet_single), (None, 0))(params, x2).values()]
    return torch.stack([torch.einsum("Naf,Mbf->NMab", a, b) for a, b in zip(jac1, jac2)]).sum(0)


def empirical_ntk_ntvps(params, x1, x2):
    def get_ntk(x1, x2):
        def func_x1(params):
            return fnet_single(params, x1)

        def func_x2(params):
            return fnet_single(params, x2)

        output, vjp_fn = vjp(func_x1, params)

        def get_ntk_slice(vec):
            _, jvps = jvp(func_x2, (params,), vjp_fn(vec))
            return jvps

        basis = torch.eye(output.numel(), dtype=output.dtype).view(output.numel(), -1)
        return vmap(get_ntk_slice)(basis)

    return vmap(vmap(get_ntk, (None, 0)), (0, None))(x1, x2)


ntk = empirical_ntk_jacobian_contraction(net_params, x1, x2)
other = empirical_ntk_ntvps(net_params, x1, x2)
print(ntk.shape, torch.allclose(ntk, other, atol=1e-5), f"{ntk.diagonal(dim1=2, dim2=3).sum():.4f}")

# Jacobians and Hessians.
weight, bias = torch.randn(3, 4), torch.randn(3)


def predict(weight, bias, x):
    return F.linear(x, weight, bias).tanh()


point = torch.randn(4)
forward, backward = (j(predict, argnums=2)(weight, bias, point) for j in (jacfwd, jacrev))
print(torch.allclose(forward, backward, atol=1e-6), f"{forward.sum().item():.5f}")
print(f"{hessian(lambda x: predict(weight, bias, x).sum())(point).abs().sum().item():.5f}")
