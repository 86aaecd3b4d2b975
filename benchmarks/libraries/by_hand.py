"""The programs in NumPy, forward and backward written out by hand.

This is the bar: what a tape without any overhead would execute. Each step is written with the
cheapest NumPy calls there are for it (array constants instead of Python numbers, in-place
operations on what is not needed again). What the code does not do is rearrange the program, say by
collecting the derivatives of all steps of a loop into one array operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.libraries._inputs import Inputs

Run = Callable[[], tuple[object, ...]]

ONE = np.ones((), np.float32)


def chain(inputs: Inputs) -> Run:
    x, y, steps = inputs.chain_x, inputs.chain_y, inputs.chain_steps
    ones = np.ones_like(x)
    tanh = np.tanh

    def run() -> tuple[object, ...]:
        z = x
        values = [z]
        for _ in range(steps):
            z = tanh(z * y)
            values.append(z)
        loss = np.add.reduce(z)

        g = ones
        grad_y = np.zeros_like(y)
        result = values.pop()
        while values:
            operand = values.pop()
            g = g * (ones - result * result)
            grad_y += g * operand
            g *= y
            result = operand
        return loss, g, grad_y

    return run


def scalar(inputs: Inputs) -> Run:
    x, y, steps = inputs.scalar_x, inputs.scalar_y, inputs.scalar_steps
    one, half, zero = np.float32(1), np.float32(0.5), np.float32(0)
    tanh, log, exp = np.tanh, np.log, np.exp

    def run() -> tuple[object, ...]:
        z = x
        saved = []
        for _ in range(steps):
            c = tanh(z * x + y)
            e = c * c + one
            m = exp(log(e) * half - c)
            saved.append((z, c, e, m))
            z = m / e

        g, grad_x, grad_y = one, zero, zero
        loss = z
        while saved:
            z, c, e, m = saved.pop()
            g_m = g / e
            g_exponent = g_m * m
            g_e = g_exponent * half / e - g_m * (m / e)
            g_c = g_e * (c + c) - g_exponent
            g_sum = g_c * (one - c * c)
            grad_y += g_sum
            grad_x += g_sum * z
            g = g_sum * x
        return loss, grad_x + g, grad_y

    return run


def lstm(inputs: Inputs) -> Run:
    width = inputs.lstm_width
    w_input, w_hidden, bias = (
        inputs.lstm_input_weight, inputs.lstm_hidden_weight, inputs.lstm_bias
    )  # fmt: skip
    i, f, k, o = (slice(n * width, (n + 1) * width) for n in range(4))
    start = np.zeros((1, width), np.float32)
    exp, tanh, divide, negative = np.exp, np.tanh, np.divide, np.negative

    def run() -> tuple[object, ...]:
        h = c = start
        saved = []
        for x in inputs.lstm_inputs:
            gates = x @ w_input
            gates += h @ w_hidden
            gates += bias
            cell = tanh(gates[:, k])
            negative(gates, gates)  # sigmoid of all four quarters, though one of them is not used
            exp(gates, gates)
            gates += ONE
            divide(ONE, gates, gates)
            new_c = gates[:, f] * c
            new_c += gates[:, i] * cell
            squashed = tanh(new_c)
            saved.append((x, h, c, gates, cell, squashed))
            h = gates[:, o] * squashed
            c = new_c
        loss = np.add.reduce(h, None)

        grad_input, grad_hidden = np.zeros_like(w_input), np.zeros_like(w_hidden)
        grad_bias = np.zeros((1, 4 * width), np.float32)
        input_major = w_hidden.T
        g_h: Any = np.ones_like(start)
        g_c = np.zeros_like(start)
        while saved:
            x, h, c, gates, cell, squashed = saved.pop()
            output = gates[:, o]
            g_c += g_h * output * (ONE - squashed * squashed)
            g = gates - gates * gates
            g[:, i] *= g_c * cell
            g[:, f] *= g_c * c
            g[:, k] = g_c * gates[:, i] * (ONE - cell * cell)
            g[:, o] *= g_h * squashed
            grad_input += x.T * g
            grad_hidden += h.T * g
            grad_bias += g
            g_c *= gates[:, f]
            g_h = g @ input_major
        return loss, grad_input, grad_hidden, grad_bias[0]

    return run


def mlp(inputs: Inputs) -> Run:
    batch, one_hot = inputs.mlp_batch, inputs.mlp_one_hot
    (w1, b1), (w2, b2), (w3, b3) = inputs.mlp_weights
    rows = np.float32(len(batch))
    zero = np.zeros((), np.float32)
    maximum, add = np.maximum, np.add

    def run() -> tuple[object, ...]:
        h1 = batch @ w1
        h1 += b1
        maximum(h1, zero, out=h1)
        h2 = h1 @ w2
        h2 += b2
        maximum(h2, zero, out=h2)
        logits = h2 @ w3
        logits += b3
        logits -= maximum.reduce(logits, 1, keepdims=True)
        chosen = add.reduce(logits * one_hot, None)
        g = np.exp(logits, logits)
        sums = add.reduce(g, 1, keepdims=True)
        loss = (add.reduce(np.log(sums), None) - chosen) / rows

        g /= sums
        g -= one_hot
        g /= rows
        grad_w3, grad_b3 = h2.T @ g, add.reduce(g, 0)
        g = g @ w3.T
        g *= h2 > zero
        grad_w2, grad_b2 = h1.T @ g, add.reduce(g, 0)
        g = g @ w2.T
        g *= h1 > zero
        return loss, batch.T @ g, add.reduce(g, 0), grad_w2, grad_b2, grad_w3, grad_b3

    return run


def programs(inputs: Inputs) -> dict[str, Run]:
    return {program.__name__: program(inputs) for program in (chain, scalar, lstm, mlp)}


def to_numpy(value: object) -> object:
    return value
