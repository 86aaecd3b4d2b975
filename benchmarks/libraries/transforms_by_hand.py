"""What the derivatives are, worked out by hand in NumPy: what every library must compute."""

from __future__ import annotations

from typing import Any

import numpy as np


def expected(name: str, v: dict[str, Any]) -> list[np.ndarray]:
    """The first results of a program."""
    result: list[np.ndarray] = globals()[f"_{name}"](
        {n: [w.astype(float) for w in x] if isinstance(x, list) else x.astype(float)
         for n, x in v.items()}
    )  # fmt: skip
    return result


def _function(v: dict[str, Any]) -> list[np.ndarray]:
    return [np.tanh(v["x"] @ v["a"]) @ v["b"] + np.sin(v["x"])]


def _jvp(v: dict[str, Any]) -> list[np.ndarray]:
    y = np.tanh(v["x"] @ v["a"])
    moved = ((1 - y * y) * (v["t"] @ v["a"])) @ v["b"] + np.cos(v["x"]) * v["t"]
    return [*_function(v), moved]


def _layers(x: np.ndarray, weights: list[np.ndarray]) -> list[np.ndarray]:
    values = [x]
    for w in weights[:-1]:
        values.append(np.tanh(values[-1] @ w))
    return [*values, values[-1] @ weights[-1]]


def _gradient(v: dict[str, Any]) -> list[np.ndarray]:
    return _gradients(v["rows"], v["weights"], v["targets"])


def _gradients(x: Any, weights: list[np.ndarray], targets: Any) -> list[np.ndarray]:
    """Of the mean of squares, by each of the weights."""
    values = _layers(x, weights)
    g = 2 * (values[-1] - targets) / values[-1].size
    found = []
    for w, y, below in zip(reversed(weights), reversed(values[:-1]), range(len(weights))[::-1],
                           strict=True):  # fmt: skip
        found.append(y.T @ g)
        g = (g @ w.T) * (1 - y * y) if below else None
    return found[::-1]


def _hvp(v: dict[str, Any]) -> list[np.ndarray]:
    step = 1e-5
    ahead, behind = (
        _gradients(v["rows"], [w + s * d for w, d in zip(v["weights"], v["directions"],
                                                         strict=True)], v["targets"])
        for s in (step, -step)
    )  # fmt: skip
    moved = [(a - b) / (2 * step) for a, b in zip(ahead, behind, strict=True)]
    return [*_gradient(v), *moved]


def _jacrev(v: dict[str, Any]) -> list[np.ndarray]:
    values = _layers(v["point"], v["mlp"])
    jacobian = v["mlp"][-1].T
    for w, y in zip(v["mlp"][-2::-1], values[-2:0:-1], strict=True):
        jacobian = (jacobian * (1 - y * y)) @ w.T
    return [jacobian]


_jacfwd = _jacrev


def _hessian(v: dict[str, Any]) -> list[np.ndarray]:
    first, last = v["head"]
    y = np.tanh(v["spot"] @ first)
    return [(first * (-2 * y * (1 - y * y) * last[:, 0])) @ first.T]


def _per_sample(v: dict[str, Any]) -> list[np.ndarray]:
    first, last = v["small"]
    y = np.tanh(v["samples"] @ first)
    g = 2 * (y @ last - v["labels"])
    inner = (g @ last.T) * (1 - y * y)
    return [v["samples"][:, :, None] * inner[:, None, :], y[:, :, None] * g[:, None, :]]


def _per_sample_conv(v: dict[str, Any]) -> list[np.ndarray]:
    windows = np.lib.stride_tricks.sliding_window_view(v["images"][:, 0], (3, 3), (1, 2))
    maps = np.einsum("nijkl,fkl->nfij", windows, v["filters"][:, 0])
    blocks = np.maximum(maps, 0).reshape(32, 8, 6, 2, 6, 2).transpose(0, 1, 2, 4, 3, 5)
    blocks = blocks.reshape(32, 8, 6, 6, 4)
    largest = blocks.max(-1)
    flat = largest.reshape(32, -1)
    g = 2 * (flat @ v["dense"] - v["classes"])
    dense = flat[:, :, None] * g[:, None, :]
    back = (g @ v["dense"].T).reshape(32, 8, 6, 6, 1)
    first = np.arange(4) == blocks.argmax(-1)[..., None]
    spread = (back * first).reshape(32, 8, 6, 6, 2, 2).transpose(0, 1, 2, 4, 3, 5)
    spread = spread.reshape(32, 8, 12, 12) * (maps > 0)
    filters = np.einsum("nfij,nijkl->nfkl", spread, windows)
    return [filters[:, :, None], dense]


def _small(x: np.ndarray) -> list[np.ndarray]:
    """A value and its slope."""
    slope = np.ones_like(x)
    for _ in range(25):
        slope = slope * (0.9 * np.cos(0.9 * x) - np.sin(x))
        x = np.sin(0.9 * x) + np.cos(x)
    return [x, slope]


def _small_vmap_jvp(v: dict[str, Any]) -> list[np.ndarray]:
    value, slope = _small(v["few"])
    return [value, slope * v["few_directions"]]


def _small_jvp(v: dict[str, Any]) -> list[np.ndarray]:
    return [x[0] for x in _small_vmap_jvp(v)]


def _small_vmap_grad(v: dict[str, Any]) -> list[np.ndarray]:
    return _small(v["few"])[1:]
