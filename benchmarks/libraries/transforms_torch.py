"""Derivatives of functions with PyTorch's names, for PyTorch and for retrograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def programs(torch: Any, given: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    import importlib

    func = importlib.import_module(f"{torch.__name__}.func")
    functional = importlib.import_module(f"{torch.__name__}.nn.functional")

    def tensors(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(map(tensors, value))
        return torch.from_numpy(np.array(value))

    v = {name: tensors(value) for name, value in given.items()}
    a, b = v["a"], v["b"]

    def matrices(x: Any) -> Any:
        return torch.tanh(x @ a) @ b + torch.sin(x)

    def mlp(x: Any, weights: Any) -> Any:
        for w in weights[:-1]:
            x = torch.tanh(x @ w)
        return x @ weights[-1]

    def loss(weights: Any) -> Any:
        return ((mlp(v["rows"], weights) - v["targets"]) ** 2).mean()

    def sample_loss(weights: Any, x: Any, label: Any) -> Any:
        return ((mlp(x, weights) - label) ** 2).sum()

    def conv_loss(weights: Any, image: Any, label: Any) -> Any:
        filters, dense = weights
        maps = torch.relu(functional.conv2d(image.unsqueeze(0), filters))
        pooled = functional.max_pool2d(maps, 2).flatten()
        return ((pooled @ dense - label) ** 2).sum()

    def small(x: Any) -> Any:
        for _ in range(25):
            x = torch.sin(x * 0.9) + torch.cos(x)
        return x

    def small_jvp(x: Any, t: Any) -> Any:
        return func.jvp(small, (x,), (t,))

    gradient = func.grad(loss)
    jacobian = func.jacrev(lambda x: mlp(x, v["mlp"]))
    columns = func.jacfwd(lambda x: mlp(x, v["mlp"]))
    hessian = func.hessian(lambda x: mlp(x, v["head"]).sum())
    per_sample = func.vmap(func.grad(sample_loss), (None, 0, 0))
    per_sample_conv = func.vmap(func.grad(conv_loss), (None, 0, 0))
    small_vmap_jvp = func.vmap(small_jvp)
    small_vmap_grad = func.vmap(func.grad(lambda x: small(x).sum()))
    return {
        "function": lambda: matrices(v["x"]),
        "jvp": lambda: func.jvp(matrices, (v["x"],), (v["t"],)),
        "gradient": lambda: gradient(v["weights"]),
        "hvp": lambda: func.jvp(gradient, (v["weights"],), (v["directions"],)),
        "jacrev": lambda: jacobian(v["point"]),
        "jacfwd": lambda: columns(v["point"]),
        "hessian": lambda: hessian(v["spot"]),
        "per_sample": lambda: per_sample(v["small"], v["samples"], v["labels"]),
        "per_sample_conv": lambda: per_sample_conv(
            (v["filters"], v["dense"]), v["images"], v["classes"]
        ),
        "small_jvp": lambda: small_jvp(v["few"][0], v["few_directions"][0]),
        "small_vmap_jvp": lambda: small_vmap_jvp(v["few"], v["few_directions"]),
        "small_vmap_grad": lambda: small_vmap_grad(v["few"]),
    }
