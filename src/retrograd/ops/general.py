"""Operations that fit no simpler family: their rules are written out."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._operation import Operation, raw
from retrograd.ops.elementwise import zeros_like

# -- products --------------------------------------------------------------------------------


def _prod(self: Raw) -> Raw:
    return arrays.prod(self)


def _prod_dim(self: Raw, dim: int, keepdim: bool) -> Raw:
    return arrays.prod(self, dim, keepdim)


def _product_of_others(self: Any, dim: int) -> Any:
    """For each element, the product of all the others along ``dim``: no division, so that zeros
    do no harm. From the left and from the right, each an exclusive running product."""
    size = self.shape[dim]
    pieces = [linear.select(self, dim=dim, index=i) for i in range(size)]
    left: list[Any] = [None] * size
    right: list[Any] = [None] * size
    for i in range(1, size):
        before, after = pieces[i - 1], pieces[size - i]
        left[i] = before if left[i - 1] is None else left[i - 1] * before
        right[size - 1 - i] = after if right[size - i] is None else right[size - i] * after
    others = [
        a * b if a is not None and b is not None else b if a is None else a
        for a, b in zip(left, right, strict=True)
    ]
    if size == 1:
        others = [zeros_like(pieces[0]) + 1]
    return linear.stack(others, dim=dim)


def _prod_rule(g: Any, self: Any, result: Any) -> Any:
    if not self.shape:
        return g
    if not _any_zero(self):
        return g * (result / self)
    return g * linear.reshape(_product_of_others(linear.reshape(self, (-1,)), 0), tuple(self.shape))


def _prod_dim_rule(g: Any, self: Any, result: Any, dim: int, keepdim: bool) -> Any:
    if not self.shape:
        return g
    if not keepdim:
        g, result = (linear.kept(x, self.shape, (dim,)) for x in (g, result))
    return g * (_product_of_others(self, dim) if _any_zero(self) else result / self)


def _any_zero(x: Any) -> bool:
    return bool(arrays.any(arrays.equal(raw(x), 0)))


prod_all = Operation("prod", _prod, inputs=("self",), rules={"self": _prod_rule}, dtypes="sum")
prod_dim = Operation(
    "prod_dim", _prod_dim, inputs=("self",), rules={"self": _prod_dim_rule}, node="ProdBackward1",
    dtypes="sum",
)  # fmt: skip
