"""``torch.quasirandom``: Sobol sequences."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.autograd._wrap import wrap
from retrograd.tensor._creation import zeros
from retrograd.tensor._randoms import randint
from retrograd.tensor._rng import Generator
from retrograd.tensor._tensor import Tensor

__all__ = ["SobolEngine"]


class SobolEngine:
    """Generates points of a Sobol sequence, which fill the unit cube more evenly than random ones.

    Args:
        dimension: The number of coordinates.
        scramble: Whether to scramble the sequence: every point is then distributed uniformly.
        seed: The seed of the scrambling. By default, the global generator is used.

    Example:
        >>> torch.quasirandom.SobolEngine(dimension=2).draw(4)
        tensor([[0.0000, 0.0000],
                [0.5000, 0.5000],
                [0.7500, 0.2500],
                [0.2500, 0.7500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]"
            )
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.sobolstate: Tensor = wrap(arrays.sobol.direction_numbers(dimension))
        self.shift = zeros(dimension, dtype=self.sobolstate.dtype)
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def _scramble(self) -> None:
        generator = None
        if self.seed is not None:
            generator = Generator()
            generator.manual_seed(self.seed)
        bits = randint(2, (self.dimension, self.MAXBIT), generator=generator)
        powers = [2**i for i in range(self.MAXBIT)]
        self.shift = (bits * bits.new_tensor(powers)).sum(1)
        size = (self.dimension, self.MAXBIT, self.MAXBIT)
        matrices = randint(2, size, generator=generator)
        numbers = arrays.sobol.scrambled(self.sobolstate.numpy(), matrices.numpy())
        self.sobolstate = wrap(numbers)

    def _advance(self, n: int) -> Any:
        """The integers of the next points after the first one."""
        if n < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {n}: [{n}, {self.dimension}]"
            )
        start = max(self.num_generated - 1, 0)
        state = self.sobolstate.numpy()
        points: Tensor = wrap(arrays.sobol.following(self.quasi.numpy(), state, start, n))
        if n:
            self.quasi = points[-1].clone()
        return points

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """Returns the next points.

        Args:
            n: Their number.
            out: A tensor to write the result to.
            dtype: The dtype of the result; by default, the default floating-point dtype.

        Returns:
            A tensor of shape ``(n, dimension)``.
        """
        dtype = arrays.dtypes.get_default_dtype() if dtype is None else dtype
        first = self.num_generated == 0
        points = self._advance(n - first).to(dtype) * 2.0**-self.MAXBIT
        result: Tensor = points
        if first:
            result = points.new_empty(n, self.dimension)
            result[0], result[1:] = self._first_point[0].to(dtype), points
        self.num_generated += n
        if out is not None:
            resized: Tensor = out.resize_as_(result).copy_(result)
            return resized
        return result

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """Returns the next ``2**m`` points.

        Args:
            m: The exponent.
            out: A tensor to write the result to.
            dtype: The dtype of the result; by default, the default floating-point dtype.

        Returns:
            A tensor of shape ``(2**m, dimension)``.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Starts again with the first point.

        Returns:
            The engine itself.
        """
        self.quasi = self.shift.clone()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skips points of the sequence.

        Args:
            n: Their number.

        Returns:
            The engine itself.
        """
        self._advance(n - (self.num_generated == 0))
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        text = [f"dimension={self.dimension}"]
        if self.scramble:
            text += ["scramble=True"]
        if self.seed is not None:
            text += [f"seed={self.seed}"]
        return f"{type(self).__name__}({', '.join(text)})"
