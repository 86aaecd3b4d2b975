"""Operations on integers and their bits: gcd, lcm, shifts."""

from __future__ import annotations

from retrograd.arrays import _pointwise as pointwise
from retrograd.ops._operation import elementwise_constant
from retrograd.ops._refusals import kernel

# -- integers and bits -----------------------------------------------------------------------

_PAIR = ("self", "other")
gcd = elementwise_constant(
    "gcd", pointwise.gcd, _PAIR, dtypes="promote", check=kernel("gcd_cpu", "bfc"),
    public="torch method", in_place="torch method", accepts="tensors", out="cast",
    doc="The greatest common divisor of two integer tensors.",
    example=("torch.gcd(torch.tensor([12, 18]), torch.tensor([8, 27]))", "tensor([4, 9])"),
)  # fmt: skip
lcm = elementwise_constant(
    "lcm", pointwise.lcm, _PAIR, dtypes="promote", check=kernel("lcm_cpu", "bfc"),
    public="torch method", in_place="torch method", accepts="tensors", out="cast",
    doc="The least common multiple of two integer tensors.",
    example=("torch.lcm(torch.tensor([4, 6]), torch.tensor([6, 9]))", "tensor([12, 18])"),
)  # fmt: skip
bitwise_left_shift = elementwise_constant(
    "bitwise_left_shift", pointwise.left_shift, _PAIR, dtypes="promote",
    check=kernel("lshift_cpu", "bfc"),
    public="torch method", in_place=True, accepts="either", out="cast",
    doc="The bits of ``input`` shifted left by ``other`` bits: ``input * 2**other``.",
    example=("torch.bitwise_left_shift(torch.tensor([1, 3]), torch.tensor([2, 1]))",
             "tensor([4, 6])"),
)  # fmt: skip
bitwise_right_shift = elementwise_constant(
    "bitwise_right_shift", pointwise.right_shift, _PAIR, dtypes="promote",
    check=kernel("rshift_cpu", "bfc"),
    public="torch method", in_place=True, accepts="either", out="cast",
    doc="The bits of ``input`` shifted right by ``other`` bits, with the sign kept.",
    example=("torch.bitwise_right_shift(torch.tensor([8, -8]), torch.tensor([2, 1]))",
             "tensor([ 2, -4])"),
)  # fmt: skip
