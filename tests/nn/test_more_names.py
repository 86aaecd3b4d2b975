"""Lazy modules, pruning, adaptive softmax, fractional pooling and the names of PyTorch's files of
modules, beside PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
from _side_by_side import outcome

import retrograd

LIBRARY = "import importlib; prune = importlib.import_module(f'{torch.__name__}.nn.utils.prune')\n"
PROGRAMS = {
    "LazyLinear": """
layer = nn.LazyLinear(3)
before = repr(layer), list(layer.state_dict()), [type(p).__name__ for p in layer.parameters()]
y = layer(torch.ones(2, 5))
before, y, repr(layer), type(layer).__name__, layer.weight, y.sum().backward(), layer.bias.grad
""",
    "LazyLinear without bias": "nn.LazyLinear(3, bias=False)(torch.ones(2, 5)).sum().item()",
    "shape of a lazy parameter": "nn.LazyLinear(3).weight.shape",
    "LazyConv2d": """
layer = nn.LazyConv2d(4, 3, padding=1)
before = repr(layer)
before, layer(torch.ones(1, 3, 4, 4)).shape, repr(layer), layer.weight, list(layer.state_dict())
""",
    "LazyConv1d, of a wrong input": "nn.LazyConv1d(4, 3)(torch.ones(1, 3, 5, 5))",
    "LazyConvTranspose2d": """
layer = nn.LazyConvTranspose2d(4, 3)
repr(layer), layer(torch.ones(1, 3, 5, 5)).shape, repr(layer), layer.weight
""",
    "LazyBatchNorm1d": """
layer = nn.LazyBatchNorm1d()
repr(layer), layer(torch.tensor([[1.0, 2.0], [3.0, 6.0]])), repr(layer), layer.running_mean
""",
    "LazyInstanceNorm1d": """
layer = nn.LazyInstanceNorm1d()
repr(layer), layer(torch.ones(4, 3, 5)).shape, repr(layer), list(layer.state_dict())
""",
    "a state for a lazy module": """
layer, other = nn.LazyLinear(3), nn.Linear(4, 3)
layer.load_state_dict(other.state_dict())
x = torch.ones(1, 4)
torch.equal(layer(x), other(x)), repr(layer)
""",
    "a lazy model": """
model = nn.Sequential(nn.LazyConv2d(2, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
model(torch.ones(2, 1, 8, 8)), model, sum(p.numel() for p in model.parameters())
""",
    "AdaptiveLogSoftmaxWithLoss": """
layer = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10])
out = layer(torch.randn(4, 8), torch.tensor([0, 7, 19, 3]))
out.loss.backward()
found = layer.log_prob(torch.ones(2, 8)).sum(1), layer.predict(torch.randn(5, 8))
out, found, layer.head.weight.grad
""",
    "AdaptiveLogSoftmaxWithLoss, refused": "nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 30])",
    "FractionalMaxPool2d": """
x = torch.randn(2, 2, 7, 6, requires_grad=True)
y, where = nn.FractionalMaxPool2d(2, output_ratio=0.5, return_indices=True)(x)
y.sum().backward()
y.tolist(), where, x.grad
""",
    "fractional_max_pool3d": "F.fractional_max_pool3d(torch.randn(1, 2, 5, 6, 7), 2, (3, 3, 4))",
    "FractionalMaxPool2d of nothing": "nn.FractionalMaxPool2d(2)",
    "l1_unstructured": LIBRARY + """
layer = nn.Linear(4, 3)
prune.l1_unstructured(layer, "weight", amount=0.5)
once = layer.weight.detach().clone()
prune.random_unstructured(layer, "bias", amount=1)
prune.ln_structured(layer, "weight", amount=1, n=2, dim=0)
names = sorted(layer.state_dict())
y = layer(torch.ones(1, 4))
y.sum().backward()
found = once, names, y, layer.weight_orig.grad, layer.bias, prune.is_pruned(layer)
prune.remove(layer, "weight")
found, layer.weight, [n for n, _ in layer.named_parameters()]
""",
    "global_unstructured": LIBRARY + """
model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
prune.global_unstructured([(model[0], "weight"), (model[1], "weight")],
                          pruning_method=prune.L1Unstructured, amount=0.4)
[layer.weight_mask for layer in model]
""",
    "random_structured": LIBRARY
    + "prune.random_structured(nn.Linear(4, 6), 'weight', amount=2, dim=0).weight_mask",
    "custom_from_mask": LIBRARY
    + "prune.custom_from_mask(nn.Linear(2, 1), 'weight', torch.tensor([[1, 0]])).weight",
    "nothing to remove": LIBRARY + "prune.remove(nn.Linear(2, 2), 'weight')",
    "too much to prune": LIBRARY + "prune.l1_unstructured(nn.Linear(2, 2), 'weight', amount=1.5)",
    "pruning two times": LIBRARY + """
layer = nn.Linear(6, 1)
prune.l1_unstructured(layer, "weight", amount=2)
prune.l1_unstructured(layer, "weight", amount=2)
layer.weight_mask, len(layer._forward_pre_hooks)
""",
    "a model of one's own pruning": LIBRARY + """
class Every(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"
    def compute_mask(self, t, default_mask):
        mask = default_mask.clone()
        mask.view(-1)[::2] = 0
        return mask
layer = nn.Linear(4, 1)
Every.apply(layer, "weight")
layer.weight_mask
""",
    "DataParallel": """
model = nn.DataParallel(nn.Linear(3, 2))
model(torch.ones(1, 3)), list(model.state_dict()), model.module
""",
    "base classes": """
conv, norm, loss = nn.modules.conv, nn.modules.batchnorm, nn.modules.loss
class Mine(loss._Loss):
    def forward(self, a, b):
        return (a - b).sum()
found = Mine(reduction="sum"), Mine(reduction="sum")(torch.ones(2), torch.zeros(2))
keys = nn.Linear(2, 1).load_state_dict({}, strict=False)
[issubclass(nn.Conv2d, conv._ConvNd), issubclass(nn.BatchNorm2d, norm._BatchNorm),
 issubclass(nn.ConvTranspose1d, conv._ConvTransposeNd), issubclass(nn.Dropout2d,
 nn.modules.dropout._DropoutNd), nn.modules.utils._pair(3), nn.modules.utils._triple((1, 2, 3)),
 isinstance(keys, nn.modules.module._IncompatibleKeys), nn.modules.linear.Linear is nn.Linear,
 nn.modules.activation.ReLU is nn.ReLU, found, str(keys)]
""".replace("\n issub", " issub").replace("\n nn.m", " nn.m").replace("\n isin", " isin"),
    "attention": "nn.attention.SDPBackend.MATH.name, nn.attention.SDPBackend.FLASH_ATTENTION.value",
    "consume_prefix": """
state = nn.DataParallel(nn.Linear(1, 1)).state_dict()
nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
list(state)
""",
}


@pytest.mark.parametrize("code", PROGRAMS.values(), ids=PROGRAMS)
def test_as_in_pytorch(torch: Any, code: str) -> None:
    assert outcome(retrograd, code) == outcome(torch, code)


def test_sdpa_kernel_changes_nothing() -> None:
    q = retrograd.ones(1, 2, 4)
    with retrograd.nn.attention.sdpa_kernel(retrograd.nn.attention.SDPBackend.MATH):
        inside = retrograd.nn.functional.scaled_dot_product_attention(q, q, q)
    assert retrograd.equal(inside, q)


def test_functional_call_by_its_older_name() -> None:
    from retrograd.nn.utils.stateless import functional_call

    layer = retrograd.nn.Linear(2, 1)
    given = {"weight": retrograd.ones(1, 2), "bias": retrograd.ones(1)}
    assert functional_call(layer, given, (retrograd.ones(1, 2),)).item() == 3.0
