"""The programs in tinygrad, which is lazy: a run ends when everything asked for is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tinygrad import Tensor, TinyJit

from benchmarks.libraries._inputs import Inputs

Run = Callable[[], tuple[object, ...]]
Loss = Callable[..., Any]


def chain(inputs: Inputs) -> tuple[Loss, list[Any], list[Any]]:
    def loss(x: Any, y: Any) -> Any:
        z = x
        for _ in range(inputs.chain_steps):
            z = z * y
            z = z.tanh()
        return z.sum()

    return loss, [inputs.chain_x, inputs.chain_y], []


def scalar(inputs: Inputs) -> tuple[Loss, list[Any], list[Any]]:
    def loss(x: Any, y: Any) -> Any:
        z = x
        for _ in range(inputs.scalar_steps):
            c = (z * x + y).tanh()
            e = c * c + 1.0
            z = (e.log() * 0.5 - c).exp() / e
        return z

    return loss, [np.asarray(inputs.scalar_x), np.asarray(inputs.scalar_y)], []


def lstm(inputs: Inputs) -> tuple[Loss, list[Any], list[Any]]:
    def loss(w_input: Any, w_hidden: Any, bias: Any, start: Any, *steps: Any) -> Any:
        h = c = start
        for x in steps:
            gates = x @ w_input + h @ w_hidden + bias
            i, f, k, o = gates.chunk(4, dim=1)
            c = f.sigmoid() * c + i.sigmoid() * k.tanh()
            h = o.sigmoid() * c.tanh()
        return h.sum()

    weights = [inputs.lstm_input_weight, inputs.lstm_hidden_weight, inputs.lstm_bias]
    return loss, weights, [np.zeros((1, inputs.lstm_width), np.float32), *inputs.lstm_inputs]


def mlp(inputs: Inputs) -> tuple[Loss, list[Any], list[Any]]:
    rows = len(inputs.mlp_batch)

    def loss(w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, batch: Any, one_hot: Any) -> Any:
        h = (batch @ w1 + b1).relu()
        h = (h @ w2 + b2).relu()
        logits = h @ w3 + b3
        logits = logits - logits.detach().max(axis=1, keepdim=True)
        log_sums = logits.exp().sum(axis=1, keepdim=True).log()
        return ((log_sums - logits) * one_hot).sum() / rows

    parameters = [p for layer in inputs.mlp_weights for p in layer]
    return loss, parameters, [inputs.mlp_batch, inputs.mlp_one_hot]


def _differentiated(loss: Loss, wrt: list[Any], rest: list[Any], jit: bool) -> Run:
    arguments = [Tensor(a).clone().realize() for a in (*wrt, *rest)]
    count = len(wrt)

    def run(*tensors: Any) -> tuple[object, ...]:
        value = loss(*tensors)
        results = (value, *value.gradient(*tensors[:count]))
        Tensor.realize(*results)
        return results

    function = TinyJit(run) if jit else run
    return lambda: function(*arguments)


def programs(inputs: Inputs, *, jit: bool) -> dict[str, Run]:
    return {
        program.__name__: _differentiated(*program(inputs), jit)
        for program in (chain, scalar, lstm, mlp)
    }


def to_numpy(value: Any) -> Any:
    return value.numpy()
