"""The programs as pure functions of a NumPy-like module, for JAX and HIPS autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Loss = Callable[..., Any]


def chain(np: Any, steps: int) -> Loss:
    def loss(x: Any, y: Any) -> Any:
        z = x
        for _ in range(steps):
            z = z * y
            z = np.tanh(z)
        return np.sum(z)

    return loss


def scalar(np: Any, steps: int) -> Loss:
    def loss(x: Any, y: Any) -> Any:
        z = x
        for _ in range(steps):
            c = np.tanh(z * x + y)
            e = c * c + 1.0
            z = np.exp(np.log(e) * 0.5 - c) / e
        return z

    return loss


def lstm_cell(np: Any, sigmoid: Callable[[Any], Any], width: int) -> Callable[..., tuple[Any, Any]]:
    def cell(w_input: Any, w_hidden: Any, bias: Any, h: Any, c: Any, x: Any) -> tuple[Any, Any]:
        gates = x @ w_input + h @ w_hidden + bias
        i, f, k, o = (gates[:, n * width : (n + 1) * width] for n in range(4))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(k)
        return sigmoid(o) * np.tanh(c), c

    return cell


def lstm(np: Any, cell: Callable[..., tuple[Any, Any]], inputs: list[Any], start: Any) -> Loss:
    def loss(w_input: Any, w_hidden: Any, bias: Any) -> Any:
        h = c = start
        for x in inputs:
            h, c = cell(w_input, w_hidden, bias, h, c, x)
        return np.sum(h)

    return loss


def mlp(np: Any, relu: Callable[[Any], Any], constant: Callable[[Any], Any]) -> Loss:
    """``constant`` takes a value out of the differentiation."""

    def loss(w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, batch: Any, one_hot: Any) -> Any:
        h = relu(batch @ w1 + b1)
        h = relu(h @ w2 + b2)
        logits = h @ w3 + b3
        logits = logits - np.max(constant(logits), axis=1, keepdims=True)
        log_sums = np.log(np.sum(np.exp(logits), axis=1, keepdims=True))
        return np.sum((log_sums - logits) * one_hot) / len(batch)

    return loss
