"""Comparisons, logic and bits: constant wherever they have a derivative at all."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.ops._operation import Constant, elementwise_constant
from retrograd.ops._refusals import kernel
from retrograd.ops.copies import zeros_like

_PAIR = ("self", "other")


def _comparison(
    name: str, sign: str, forward: Any, shown: str, check: Any = None, alias: str = ""
) -> Constant:
    """A comparison; ``shown`` is what its example prints. Its rules are for ``eq_`` and its kin,
    which write over a value."""
    rules = {n: (lambda g: zeros_like(g)) for n in _PAIR}
    return Constant(
        name, forward, inputs=_PAIR, rules=rules, node=f"{name.capitalize()}Backward1",
        dtypes="promote", broadcasts=True, check=check, public="torch method", alias=alias,
        in_place=True, accepts="tensor first", out="any", returns="A bool tensor",
        doc=f"The elementwise comparison ``input {sign} other``.",
        example=(f"torch.{name}(torch.tensor([1., 2., 3.]), 2.)", f"tensor([{shown}])"),
    )  # fmt: skip


def _logic(name: str, forward: Any, doc: str, shown: str) -> Constant:
    return elementwise_constant(
        name, forward, _PAIR, public="torch method", in_place=True, accepts="tensors", out="any",
        returns="A bool tensor", doc=doc,
        example=(f"torch.{name}(torch.tensor([1, 2, 0]), torch.tensor([3, 0, 0]))",
                 f"tensor([{shown}])"),
    )  # fmt: skip


def _bitwise(name: str, word: str, forward: Any, shown: str) -> Constant:
    return elementwise_constant(
        name, forward, _PAIR, dtypes="promote", check=kernel(f"{name}_cpu", "fc"),
        public="torch method", in_place=True, accepts="either", out="cast",
        doc=f"The bitwise {word} of two integer or bool tensors.",
        example=(f"torch.{name}(torch.tensor([6, 3]), torch.tensor([3, 3]))", f"tensor([{shown}])"),
    )  # fmt: skip


eq = _comparison("eq", "==", arrays.equal, "False,  True, False")
ne = _comparison("ne", "!=", arrays.not_equal, " True, False,  True", alias="not_equal")
lt = _comparison("lt", "<", arrays.less, " True, False, False", kernel("lt_cpu"), "less")
le = _comparison(
    "le", "<=", arrays.less_equal, " True,  True, False", kernel("le_cpu"), "less_equal"
)
gt = _comparison("gt", ">", arrays.greater, "False, False,  True", kernel("gt_cpu"), "greater")
ge = _comparison(
    "ge", ">=", arrays.greater_equal, "False,  True,  True", kernel("ge_cpu"), "greater_equal"
)
logical_and = _logic(
    "logical_and", arrays.logical_and, "Whether both elements are nonzero.", " True, False, False"
)
logical_or = _logic(
    "logical_or", arrays.logical_or, "Whether at least one of two elements is nonzero.",
    " True,  True, False",
)  # fmt: skip
logical_xor = _logic(
    "logical_xor", arrays.logical_xor, "Whether exactly one of two elements is nonzero.",
    "False,  True, False",
)  # fmt: skip
logical_not = elementwise_constant(
    "logical_not", arrays.logical_not,
    public="torch method", in_place=True, out="any",
    doc="Whether each element is zero.",
    example=("torch.logical_not(torch.tensor([0., 2.]))",
             "tensor([ True, False])"), returns="A bool tensor",
)  # fmt: skip
bitwise_and = _bitwise("bitwise_and", "AND", arrays.bitwise_and, "2, 3")
bitwise_or = _bitwise("bitwise_or", "OR", arrays.bitwise_or, "7, 3")
bitwise_xor = _bitwise("bitwise_xor", "exclusive OR", arrays.bitwise_xor, "5, 0")
bitwise_not = elementwise_constant(
    "bitwise_not", arrays.bitwise_not, check=kernel("bitwise_not_cpu", "fc"),
    public="torch method", in_place=True,
    doc="The bitwise complement of each element of an integer or bool tensor.",
    example=("torch.bitwise_not(torch.tensor([0, 5]))", "tensor([-1, -6])"),
)  # fmt: skip
isnan = elementwise_constant(
    "isnan", arrays.isnan,
    public="torch method", out="no",
    doc="Whether each element is NaN.",
    example=("torch.isnan(torch.tensor([1., torch.nan]))",
             "tensor([False,  True])"), returns="A bool tensor",
)  # fmt: skip
isinf = elementwise_constant(
    "isinf", arrays.isinf,
    public="torch method", out="no",
    doc="Whether each element is infinite.",
    example=("torch.isinf(torch.tensor([1., torch.inf]))",
             "tensor([False,  True])"), returns="A bool tensor",
)  # fmt: skip
isfinite = elementwise_constant(
    "isfinite", arrays.isfinite,
    public="torch method", out="no",
    doc="Whether each element is finite, that is, neither infinite nor NaN.",
    example=("torch.isfinite(torch.tensor([1., torch.inf]))",
             "tensor([ True, False])"), returns="A bool tensor",
)  # fmt: skip
