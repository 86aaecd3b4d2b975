"""The numbers that the programs start from: the same for every library."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Inputs:
    """What every program is given. All of it is float32."""

    chain_x: Array
    chain_y: Array
    chain_steps: int
    scalar_x: np.float32
    scalar_y: np.float32
    scalar_steps: int
    lstm_inputs: list[Array]  # one (1, width) row for each step
    lstm_input_weight: Array  # (width, 4 * width): input, forget, cell and output gates
    lstm_hidden_weight: Array
    lstm_bias: Array
    mlp_batch: Array
    mlp_one_hot: Array  # the right class of each row, as ones among zeros
    mlp_weights: list[tuple[Array, Array]]  # (matrix, bias) of each layer

    @property
    def lstm_width(self) -> int:
        return len(self.lstm_hidden_weight)


def make_inputs(
    *,
    chain_steps: int = 25,
    scalar_steps: int = 10,
    lstm_steps: int = 100,
    lstm_width: int = 32,
    mlp_rows: int = 32,
    mlp_sizes: tuple[int, ...] = (32, 64, 64, 10),
) -> Inputs:
    """The inputs of a full run; tests ask for smaller ones."""
    numbers = np.random.default_rng(0)

    def normal(*shape: int, scale: float = 1.0) -> Array:
        return (scale * numbers.standard_normal(shape)).astype(np.float32)

    return Inputs(
        chain_x=normal(10),
        # Factors a little above 1, so that values and gradients stay alive along the chain.
        chain_y=(1.2 + 0.2 * normal(10)).astype(np.float32),
        chain_steps=chain_steps,
        scalar_x=np.float32(0.7),
        scalar_y=np.float32(1.3),
        scalar_steps=scalar_steps,
        lstm_inputs=[normal(1, lstm_width) for _ in range(lstm_steps)],
        lstm_input_weight=normal(lstm_width, 4 * lstm_width, scale=lstm_width**-0.5),
        lstm_hidden_weight=normal(lstm_width, 4 * lstm_width, scale=lstm_width**-0.5),
        lstm_bias=normal(4 * lstm_width, scale=0.1),
        mlp_batch=normal(mlp_rows, mlp_sizes[0]),
        mlp_one_hot=np.eye(mlp_sizes[-1], dtype=np.float32)[
            numbers.integers(0, mlp_sizes[-1], mlp_rows)
        ],
        mlp_weights=[
            (normal(n, m, scale=(2 / n) ** 0.5), normal(m, scale=0.1))
            for n, m in itertools.pairwise(mlp_sizes)
        ],
    )
