"""The programs in JAX: dispatched operation by operation, and compiled as one function each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.libraries import functional
from benchmarks.libraries._inputs import Inputs

Run = Callable[[], tuple[object, ...]]


def _differentiated(loss: Callable[..., Any], wrt: int, arguments: list[Any], jit: bool) -> Run:
    """A run of ``loss`` and its gradients in the first ``wrt`` arguments."""
    function = jax.value_and_grad(loss, argnums=tuple(range(wrt)))
    if jit:
        function = jax.jit(function)

    def run() -> tuple[object, ...]:
        value, gradients = jax.block_until_ready(function(*arguments))
        return value, *gradients

    return run


def _scanned_lstm(cell: Callable[..., tuple[Any, Any]], steps: Any, start: Any) -> Any:
    """The loop as a scan: what one writes for the compiler, which would unroll a Python loop."""

    def loss(w_input: Any, w_hidden: Any, bias: Any) -> Any:
        def step(state: Any, x: Any) -> tuple[Any, None]:
            return cell(w_input, w_hidden, bias, *state, x), None

        (h, _), _ = jax.lax.scan(step, (start, start), steps)
        return jnp.sum(h)

    return loss


def programs(inputs: Inputs, *, jit: bool) -> dict[str, Run]:
    cell = functional.lstm_cell(jnp, jax.nn.sigmoid, inputs.lstm_width)
    start = jnp.zeros((1, inputs.lstm_width), jnp.float32)
    steps = [jnp.asarray(x) for x in inputs.lstm_inputs]
    lstm = (
        _scanned_lstm(cell, jnp.stack(steps), start)
        if jit
        else functional.lstm(jnp, cell, steps, start)
    )
    weights = [inputs.lstm_input_weight, inputs.lstm_hidden_weight, inputs.lstm_bias]
    layers = [p for layer in inputs.mlp_weights for p in layer]

    def make(loss: Callable[..., Any], wrt: list[Any], rest: tuple[Any, ...] = ()) -> Run:
        return _differentiated(loss, len(wrt), [jnp.asarray(a) for a in (*wrt, *rest)], jit)

    return {
        "chain": make(
            functional.chain(jnp, inputs.chain_steps), [inputs.chain_x, inputs.chain_y]
        ),
        "scalar": make(
            functional.scalar(jnp, inputs.scalar_steps), [inputs.scalar_x, inputs.scalar_y]
        ),
        "lstm": make(lstm, weights),
        "mlp": make(
            functional.mlp(jnp, jax.nn.relu, jax.lax.stop_gradient),
            layers, (inputs.mlp_batch, inputs.mlp_one_hot),
        ),
    }  # fmt: skip


def to_numpy(value: Any) -> Any:
    return np.asarray(value)
