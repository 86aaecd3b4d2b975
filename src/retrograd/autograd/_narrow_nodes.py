"""Nodes of operations on bfloat16, whose rules run in float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.autograd._node import Node
from retrograd.autograd._operation_node import OperationNode, spread
from retrograd.autograd._wrap import SPARSE
from retrograd.ops import copies
from retrograd.ops._lifted import Lifted
from retrograd.ops._operation import TensorLike


class NarrowNode(OperationNode):
    """A node of an operation on bfloat16 operands. Its rules run in float32, as kernels do, and
    their results are rounded once."""

    __slots__ = ()

    def backward(self, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        return self.backward_by_name(g, next_nodes, recorded=False)

    def apply_rules(
        self, g: Any, next_nodes: Sequence[Node | None], values: dict[str, Any]
    ) -> Sequence[Any]:
        gradients = g if type(g) is list else [g]
        if any([isinstance(x, TensorLike) for x in gradients]):  # recorded, operation by operation
            return super().apply_rules(g, next_nodes, values)
        wide = {name: _widened(value) for name, value in values.items()}
        return self.rounded(super().apply_rules(_widened(g), next_nodes, wide))

    def widened(self, x: Any) -> Any:
        return _widened(x)

    def rounded(self, gradients: Sequence[Any]) -> Sequence[Any]:
        return gradients if gradients is NotImplemented else [
            x if x is None or info[1] is None or info[1].kind != "V" else _narrow_gradient(x, *info)
            for x, info in zip(gradients, self.infos, strict=True)
        ]


def _widened(x: Any) -> Any:
    """``x`` in float32 if it is an array of bfloat16, under transforms or not, or such arrays in a
    list."""
    if type(x) in (list, tuple):
        return type(x)([_widened(part) for part in x])
    if isinstance(x, Lifted):
        return copies.to_dtype(x, dtype=arrays.float32) if x.dtype.kind == "V" else x
    return arrays.narrow.widened(x)


def _narrow_gradient(g: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """A gradient that was computed in float32, of the shape and dtype of its input."""
    if g.shape != shape:  # the result of a kernel, which another one sums
        g = spread(_widened(_cast(g, dtype)), shape)
    return _cast(g, dtype)


def _cast(x: Any, dtype: Any) -> Any:
    if type(x) in SPARSE:
        return x.to(dtypes.from_numpy_dtype(dtype))
    return copies.to_dtype(x, dtype=dtype) if isinstance(x, Lifted) else arrays.cast(x, dtype)
