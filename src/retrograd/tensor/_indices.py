"""Functions of shapes alone: triangular indices, and broadcasting of shapes."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.ops._arguments import check_int
from retrograd.ops._dims import as_shape
from retrograd.tensor._creation import new_tensor, numpy_dtype
from retrograd.tensor._tensor import Size, Tensor


def _triangle(name: str, side: str, example: str) -> Any:
    def function(
        row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None,
        layout: Any = None,
    ) -> Tensor:  # fmt: skip
        for place, (said, number) in enumerate((("row", row), ("col", col), ("offset", offset)), 1):
            check_int(name, said, place, number)
        for size, said in ((row, "row"), (col, "col")):
            if size < 0:
                raise RuntimeError(f"{said} must be non-negative, got{size}")
        result = arrays.layout.triangle(row, col, offset, name == "tril_indices")
        result = arrays.cast(result, numpy_dtype(dtype, arrays.int64, name))
        return new_tensor(result, False, device)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Returns the indices of the elements on and {side} a diagonal of a matrix.

Args:
    row: The number of rows of the matrix.
    col: The number of columns of the matrix.
    offset: Which diagonal: 0 is the main diagonal, positive numbers are above it, negative ones
        below.
    dtype: The dtype of the indices. The default is int64.
    device: The device of the result. Only the CPU is supported.
    layout: Accepted for compatibility; every tensor is strided.

Returns:
    A tensor of two rows: the row indices and the column indices.

Example:
    >>> torch.{name}(2, 2)
    {example}
"""
    return function


tril_indices = _triangle(
    "tril_indices", "below", "tensor([[0, 1, 1],\n            [0, 0, 1]])"
)
triu_indices = _triangle(
    "triu_indices", "above", "tensor([[0, 0, 1],\n            [0, 1, 1]])"
)


def broadcast_shapes(*shapes: Any) -> Size:
    """Computes the shape that shapes are broadcast to.

    Args:
        *shapes: The shapes: sequences of integers, or integers.

    Returns:
        The common shape.

    Example:
        >>> torch.broadcast_shapes((2, 1), (3,))
        torch.Size([2, 3])
    """
    common: list[int] = []
    for number, given in enumerate(shapes):
        shape = (given,) if isinstance(given, int) else as_shape((given,))
        common[:0] = [1] * (len(shape) - len(common))
        for d in range(-1, -1 - len(shape), -1):
            if shape[d] < 0:
                raise ValueError("Attempting to broadcast a dimension with negative length!")
            if shape[d] != 1 and common[d] not in (1, shape[d]):
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {shape[d]} at {d}! Mismatching "
                    f"argument at index {number} had {shape}; but expected shape should be "
                    f"broadcastable to {common}"
                )
            common[d] = shape[d] if common[d] == 1 else common[d]
    return Size(common)
