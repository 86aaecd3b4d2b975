"""The programs in MyGrad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mygrad as mg
import numpy as np
from mygrad.nnet.activations import relu, sigmoid

from benchmarks.libraries._inputs import Inputs

Run = Callable[[], tuple[object, ...]]


def chain(inputs: Inputs) -> Run:
    x, y = mg.tensor(inputs.chain_x), mg.tensor(inputs.chain_y)
    steps = inputs.chain_steps

    def run() -> tuple[object, ...]:
        x.null_grad()
        y.null_grad()
        z = x
        for _ in range(steps):
            z = z * y
            z = mg.tanh(z)
        loss = z.sum()
        loss.backward()
        return loss, x.grad, y.grad

    return run


def scalar(inputs: Inputs) -> Run:
    x, y = mg.tensor(inputs.scalar_x), mg.tensor(inputs.scalar_y)
    steps = inputs.scalar_steps
    one, half = np.float32(1), np.float32(0.5)  # a Python number would make everything float64

    def run() -> tuple[object, ...]:
        x.null_grad()
        y.null_grad()
        z = x
        for _ in range(steps):
            c = mg.tanh(z * x + y)
            e = c * c + one
            z = mg.exp(mg.log(e) * half - c) / e
        z.backward()
        return z, x.grad, y.grad

    return run


def lstm(inputs: Inputs) -> Run:
    width, steps = inputs.lstm_width, inputs.lstm_inputs
    weights = [
        mg.tensor(w)
        for w in (inputs.lstm_input_weight, inputs.lstm_hidden_weight, inputs.lstm_bias)
    ]
    w_input, w_hidden, bias = weights
    start = np.zeros((1, width), np.float32)
    quarters = [slice(n * width, (n + 1) * width) for n in range(4)]

    def run() -> tuple[object, ...]:
        for w in weights:
            w.null_grad()
        h: Any = start
        c: Any = start
        for x in steps:
            gates = mg.matmul(x, w_input) + mg.matmul(h, w_hidden) + bias
            i, f, k, o = (gates[:, quarter] for quarter in quarters)
            c = sigmoid(f) * c + sigmoid(i) * mg.tanh(k)
            h = sigmoid(o) * mg.tanh(c)
        loss = h.sum()
        loss.backward()
        return loss, *[w.grad for w in weights]

    return run


def mlp(inputs: Inputs) -> Run:
    batch, one_hot = inputs.mlp_batch, inputs.mlp_one_hot
    rows = np.float32(len(batch))
    parameters = [mg.tensor(p) for layer in inputs.mlp_weights for p in layer]
    w1, b1, w2, b2, w3, b3 = parameters

    def run() -> tuple[object, ...]:
        for p in parameters:
            p.null_grad()
        h = relu(mg.matmul(batch, w1) + b1)
        h = relu(h @ w2 + b2)
        logits = h @ w3 + b3
        logits = logits - logits.data.max(axis=1, keepdims=True)
        log_sums = mg.log(mg.exp(logits).sum(axis=1, keepdims=True))
        loss = ((log_sums - logits) * one_hot).sum() / rows
        loss.backward()
        return loss, *[p.grad for p in parameters]

    return run


def programs(inputs: Inputs) -> dict[str, Run]:
    return {program.__name__: program(inputs) for program in (chain, scalar, lstm, mlp)}


def to_numpy(value: Any) -> Any:
    return np.asarray(value.data if isinstance(value, mg.Tensor) else value)
