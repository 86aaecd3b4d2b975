"""Comparisons, logic and bits: constant wherever they have a derivative at all."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.ops._operation import Constant, elementwise_constant
from retrograd.ops._refusals import kernel
from retrograd.ops.copies import zeros_like

# -- comparisons and logic: constant wherever they have a derivative at all ------------------

_PAIR = ("self", "other")


def _comparison(name: str, forward: Any, check: Any = None, **face: Any) -> Constant:
    """A comparison. Its rules are for ``eq_`` and its kin, which write over a value."""
    rules = {n: (lambda g: zeros_like(g)) for n in _PAIR}
    return Constant(name, forward, inputs=_PAIR, rules=rules, node=f"{name.capitalize()}Backward1",
                    dtypes="promote", broadcasts=True, check=check, public="torch method",
                    in_place=True, accepts="tensor first", out="any", **face)  # fmt: skip


def _logic(name: str, forward: Any, doc: str) -> Constant:
    return elementwise_constant(
        name, forward, _PAIR, public="torch method", in_place=True, accepts="tensors", out="any",
        doc=doc,
    )  # fmt: skip


def _bitwise(name: str, forward: Any, doc: str) -> Constant:
    return elementwise_constant(
        name, forward, _PAIR, dtypes="promote", check=kernel(f"{name}_cpu", "fc"),
        public="torch method", in_place=True, accepts="either", out="cast", doc=doc,
    )  # fmt: skip


eq = _comparison(
    "eq", arrays.equal,
    doc="""The elementwise comparison ``input == other``.

    Returns:
        A bool tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> torch.eq(torch.tensor([1., 2.]), torch.tensor([1., 3.]))
    tensor([ True, False])
    """,
)  # fmt: skip
ne = _comparison(
    "ne", arrays.not_equal,
    alias="not_equal",
    doc="""The elementwise comparison ``input != other``.

    Returns:
        A bool tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> torch.ne(torch.tensor([1., 2.]), torch.tensor([1., 3.]))
    tensor([False,  True])
    """,
)  # fmt: skip
lt: Constant = _comparison(
    "lt", arrays.less, kernel("lt_cpu"),
    alias="less",
    doc="""The elementwise comparison ``input < other``.

    Returns:
        A bool tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> torch.lt(torch.tensor([1., 2.]), torch.tensor([1., 3.]))
    tensor([False,  True])
    """,
)  # fmt: skip
le = _comparison(
    "le", arrays.less_equal, kernel("le_cpu"),
    alias="less_equal",
    doc="""The elementwise comparison ``input <= other``.

    Returns:
        A bool tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> torch.le(torch.tensor([1., 2.]), torch.tensor([1., 3.]))
    tensor([True, True])
    """,
)  # fmt: skip
gt: Constant = _comparison(
    "gt", arrays.greater, kernel("gt_cpu"),
    alias="greater",
    doc="""The elementwise comparison ``input > other``.

    Returns:
        A bool tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> torch.gt(torch.tensor([1., 2.]), torch.tensor([1., 0.]))
    tensor([False,  True])
    """,
)  # fmt: skip
ge = _comparison(
    "ge", arrays.greater_equal, kernel("ge_cpu"),
    alias="greater_equal",
    doc="""The elementwise comparison ``input >= other``.

    Returns:
        A bool tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> torch.ge(torch.tensor([1., 2.]), torch.tensor([1., 3.]))
    tensor([ True, False])
    """,
)  # fmt: skip
logical_and = _logic(
    "logical_and", arrays.logical_and,
    doc="""Whether both elements are nonzero.

    Returns:
        A bool tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> torch.logical_and(torch.tensor([1, 2, 0]), torch.tensor([3, 0, 0]))
    tensor([ True, False, False])
    """,
)  # fmt: skip
logical_or = _logic(
    "logical_or", arrays.logical_or,
    doc="""Whether at least one of two elements is nonzero.

    Returns:
        A bool tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> torch.logical_or(torch.tensor([1, 2, 0]), torch.tensor([3, 0, 0]))
    tensor([ True,  True, False])
    """,
)  # fmt: skip
logical_xor = _logic(
    "logical_xor", arrays.logical_xor,
    doc="""Whether exactly one of two elements is nonzero.

    Returns:
        A bool tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> torch.logical_xor(torch.tensor([1, 2, 0]), torch.tensor([3, 0, 0]))
    tensor([False,  True, False])
    """,
)  # fmt: skip
logical_not = elementwise_constant(
    "logical_not", arrays.logical_not,
    public="torch method", in_place=True, out="any",
    doc="""Whether each element is zero.

    Returns:
        A bool tensor of the same shape as ``input``.

    >>> torch.logical_not(torch.tensor([0., 2.]))
    tensor([ True, False])
    """,
)  # fmt: skip
bitwise_and = _bitwise(
    "bitwise_and", arrays.bitwise_and,
    doc="""The bitwise AND of two integer or bool tensors.

    >>> torch.bitwise_and(torch.tensor([6, 3]), torch.tensor([3, 3]))
    tensor([2, 3])
    """,
)  # fmt: skip
bitwise_or = _bitwise(
    "bitwise_or", arrays.bitwise_or,
    doc="""The bitwise OR of two integer or bool tensors.

    >>> torch.bitwise_or(torch.tensor([6, 3]), torch.tensor([3, 3]))
    tensor([7, 3])
    """,
)  # fmt: skip
bitwise_xor = _bitwise(
    "bitwise_xor", arrays.bitwise_xor,
    doc="""The bitwise exclusive OR of two integer or bool tensors.

    >>> torch.bitwise_xor(torch.tensor([6, 3]), torch.tensor([3, 3]))
    tensor([5, 0])
    """,
)  # fmt: skip
bitwise_not = elementwise_constant(
    "bitwise_not", arrays.bitwise_not, check=kernel("bitwise_not_cpu", "fc"),
    public="torch method", in_place=True,
    doc="""The bitwise complement of each element of an integer or bool tensor.

    >>> torch.bitwise_not(torch.tensor([0, 5]))
    tensor([-1, -6])
    """,
)  # fmt: skip
isnan = elementwise_constant(
    "isnan", arrays.isnan,
    public="torch method", out="no",
    doc="""Whether each element is NaN.

    Returns:
        A bool tensor of the same shape as ``input``.

    >>> torch.isnan(torch.tensor([1., torch.nan]))
    tensor([False,  True])
    """,
)  # fmt: skip
isinf = elementwise_constant(
    "isinf", arrays.isinf,
    public="torch method", out="no",
    doc="""Whether each element is infinite.

    Returns:
        A bool tensor of the same shape as ``input``.

    >>> torch.isinf(torch.tensor([1., torch.inf]))
    tensor([False,  True])
    """,
)  # fmt: skip
isfinite = elementwise_constant(
    "isfinite", arrays.isfinite,
    public="torch method", out="no",
    doc="""Whether each element is finite, that is, neither infinite nor NaN.

    Returns:
        A bool tensor of the same shape as ``input``.

    >>> torch.isfinite(torch.tensor([1., torch.inf]))
    tensor([ True, False])
    """,
)  # fmt: skip
