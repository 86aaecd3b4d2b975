"""Operations that fit no simpler family: their rules are written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import comparisons, copies, linear, piecewise, selecting
from retrograd.ops._batching_declarations import AllElements
from retrograd.ops._dims import numel
from retrograd.ops._operands import is_lifted
from retrograd.ops._operation import TensorLike, raw, reduction

# -- products --------------------------------------------------------------------------------


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
    if is_lifted(self):
        return g * _others_or_ratio(self, result, _others_of_all)
    if not _any_zero(self):
        return g * (result / self)
    if not isinstance(g, TensorLike) and arrays.equal(raw(self), 0).sum() > 1:
        return arrays.zeros_like(self)  # whatever the other factors are, NaN included
    return g * _others_of_all(self)


def _others_of_all(self: Any) -> Any:
    others = _product_of_others(linear.reshape(self, (numel(self.shape),)), 0)
    return linear.reshape(others, tuple(self.shape))


def _others_or_ratio(self: Any, result: Any, others: Callable[[Any], Any]) -> Any:
    """The product of the others, where nobody can tell whether there are zeros: as a ratio if there
    are none, as that rounds, and passes on NaN, as it does elsewhere."""
    zero = comparisons.eq(self, 0)
    everywhere = tuple(range(len(self.shape)))
    any_zero = selecting.any_of(raw(zero), dim=everywhere, keepdim=True)
    harmless = piecewise.where(zero, copies.zeros_like(self) + 1, self)
    return piecewise.where(any_zero, others(self), result / harmless)


def _prod_dim_rule(g: Any, self: Any, result: Any, dim: int, keepdim: bool) -> Any:
    if not self.shape:
        return g
    if not keepdim:
        g, result = (linear.kept(x, self.shape, (dim,)) for x in (g, result))
    if is_lifted(self):
        return g * _others_or_ratio(self, result, lambda x: _product_of_others(x, dim))
    return g * (_product_of_others(self, dim) if _any_zero(self) else result / self)


def _any_zero(x: Any) -> bool:
    return bool(arrays.any(arrays.equal(raw(x), 0)))


prod_all = reduction(
    "prod", lambda self: arrays.statistics.prod(self, None, False), _prod_rule, dtypes="sum",
    batch=AllElements("prod_dim", row=1),
    words="Each element gets the gradient times the product of all the others.",
)  # fmt: skip
prod_dim = reduction("prod_dim", _prod_dim, _prod_dim_rule, node="ProdBackward1", dtypes="sum")
