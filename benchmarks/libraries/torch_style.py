"""The programs as PyTorch users write them. retrograd runs the same source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.libraries._inputs import Inputs

Run = Callable[[], tuple[object, ...]]


def chain(torch: Any, inputs: Inputs) -> Run:
    x = torch.tensor(inputs.chain_x, requires_grad=True)
    y = torch.tensor(inputs.chain_y, requires_grad=True)
    steps = inputs.chain_steps

    def run() -> tuple[object, ...]:
        x.grad = y.grad = None
        z = x
        for _ in range(steps):
            z = z * y
            z = z.tanh()
        loss = z.sum()
        loss.backward()
        return loss, x.grad, y.grad

    return run


def scalar(torch: Any, inputs: Inputs) -> Run:
    x = torch.tensor(inputs.scalar_x, requires_grad=True)
    y = torch.tensor(inputs.scalar_y, requires_grad=True)
    steps = inputs.scalar_steps

    def run() -> tuple[object, ...]:
        x.grad = y.grad = None
        z = x
        for _ in range(steps):
            c = (z * x + y).tanh()
            e = c * c + 1.0
            z = (e.log() * 0.5 - c).exp() / e
        z.backward()
        return z, x.grad, y.grad

    return run


def lstm(torch: Any, inputs: Inputs) -> Run:
    w_input = torch.tensor(inputs.lstm_input_weight, requires_grad=True)
    w_hidden = torch.tensor(inputs.lstm_hidden_weight, requires_grad=True)
    bias = torch.tensor(inputs.lstm_bias, requires_grad=True)
    steps = [torch.tensor(x) for x in inputs.lstm_inputs]
    start = torch.zeros(1, inputs.lstm_width)

    def run() -> tuple[object, ...]:
        w_input.grad = w_hidden.grad = bias.grad = None
        h = c = start
        for x in steps:
            gates = x @ w_input + h @ w_hidden + bias
            i, f, k, o = gates.chunk(4, dim=1)
            c = f.sigmoid() * c + i.sigmoid() * k.tanh()
            h = o.sigmoid() * c.tanh()
        loss = h.sum()
        loss.backward()
        return loss, w_input.grad, w_hidden.grad, bias.grad

    return run


def mlp(torch: Any, inputs: Inputs) -> Run:
    batch, one_hot = torch.tensor(inputs.mlp_batch), torch.tensor(inputs.mlp_one_hot)
    parameters = [
        torch.tensor(p, requires_grad=True) for layer in inputs.mlp_weights for p in layer
    ]
    w1, b1, w2, b2, w3, b3 = parameters
    rows = len(inputs.mlp_batch)

    def run() -> tuple[object, ...]:
        for p in parameters:
            p.grad = None
        h = (batch @ w1 + b1).relu()
        h = (h @ w2 + b2).relu()
        logits = h @ w3 + b3
        logits = logits - logits.detach().amax(1, keepdim=True)
        log_sums = logits.exp().sum(1, keepdim=True).log()
        loss = ((log_sums - logits) * one_hot).sum() / rows
        loss.backward()
        return loss, *[p.grad for p in parameters]

    return run


def programs(torch: Any, inputs: Inputs) -> dict[str, Run]:
    return {program.__name__: program(torch, inputs) for program in (chain, scalar, lstm, mlp)}


def to_numpy(value: Any) -> Any:
    return np.asarray(value.detach().numpy())
