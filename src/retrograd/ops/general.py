"""Operations that fit no simpler family: their rules are written out."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._operation import Operation, TensorLike, raw

# -- products --------------------------------------------------------------------------------


def _prod(self: Raw) -> Raw:
    return arrays.statistics.prod(self, None, False)


def _prod_dim(self: Raw, dim: int, keepdim: bool) -> Raw:
    return arrays.statistics.prod(self, dim if self.ndim else None, keepdim)


def _product_of_others(self: Any, dim: int) -> Any:
    from retrograd.ops.reductions import (
        scans,  # loaded only once a product has zeros among its factors
    )

    return scans.product_of_others(self, dim)


def _prod_rule(g: Any, self: Any, result: Any) -> Any:
    if not self.shape:
        return g
    if not _any_zero(self):
        return g * (result / self)
    if not isinstance(g, TensorLike) and arrays.equal(raw(self), 0).sum() > 1:
        return arrays.zeros_like(self)  # whatever the other factors are, NaN included
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
