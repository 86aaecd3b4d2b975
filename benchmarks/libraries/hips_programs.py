"""The programs in HIPS autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd import value_and_grad
from autograd.tracer import getval

from benchmarks.libraries import functional
from benchmarks.libraries._inputs import Inputs

Run = Callable[[], tuple[object, ...]]


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + anp.exp(-x))


def _relu(x: Any) -> Any:
    return anp.maximum(x, 0)


def _differentiated(loss: Callable[..., Any], wrt: list[Any], rest: tuple[Any, ...] = ()) -> Run:
    """A run of ``loss`` and its gradients in the arguments ``wrt``."""
    function = value_and_grad(loss, argnum=tuple(range(len(wrt))))
    arguments = (*wrt, *rest)

    def run() -> tuple[object, ...]:
        value, gradients = function(*arguments)
        return value, *gradients

    return run


def programs(inputs: Inputs) -> dict[str, Run]:
    cell = functional.lstm_cell(anp, _sigmoid, inputs.lstm_width)
    start = np.zeros((1, inputs.lstm_width), np.float32)
    return {
        "chain": _differentiated(
            functional.chain(anp, inputs.chain_steps), [inputs.chain_x, inputs.chain_y]
        ),
        "scalar": _differentiated(
            functional.scalar(anp, inputs.scalar_steps), [inputs.scalar_x, inputs.scalar_y]
        ),
        "lstm": _differentiated(
            functional.lstm(anp, cell, inputs.lstm_inputs, start),
            [inputs.lstm_input_weight, inputs.lstm_hidden_weight, inputs.lstm_bias],
        ),
        "mlp": _differentiated(
            functional.mlp(anp, _relu, getval),
            [p for layer in inputs.mlp_weights for p in layer],
            (inputs.mlp_batch, inputs.mlp_one_hot),
        ),
    }


def to_numpy(value: Any) -> Any:
    return np.asarray(value)
