"""Copies, conversions and parts: clone, to_dtype, copy, fill, conj, real, imag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops._arguments import element
from retrograd.ops._dims import broadcast
from retrograd.ops._lifted import Lifted, TensorLike
from retrograd.ops._operation import Constant, Linear, constant, elementwise, linear, raw


def is_complex(x: Any) -> bool:
    """Whether the values of ``x`` are complex numbers."""
    return bool(raw(x).dtype.kind == "c")

# -- complex parts ---------------------------------------------------------------------------

# These are linear over the real numbers.
conj: Linear = linear(
    "conj", arrays.conj, lambda g: conj(g), adjoint=True, broadcasts=True, node="ConjBackward0"
)
# Copies. What users call real and imag are views: see ``shapes.reshaping``.
real = linear(
    "real", arrays.real_part, lambda g: g, adjoint=True, broadcasts=True, dtypes="real"
)
imag = linear(
    "imag", arrays.imag_part, lambda g: g * 1j, adjoint=True, broadcasts=True, dtypes="real"
)

# -- copies ----------------------------------------------------------------------------------

clone = elementwise(
    "clone", arrays.copy, lambda g: g, rearranges=True,
    words="A copy passes the gradient unchanged.",
)  # fmt: skip


def index_for(index: Any, *operands: Any) -> Any:
    """The raw value of an index or mask, as an option of an operation on ``operands``. Where that
    may be recorded it is a copy: nodes do not notice when what an option came from is written."""
    may_be_recorded = any([isinstance(x, (TensorLike, Lifted)) for x in operands])
    return clone(raw(index)) if may_be_recorded else raw(index)


zeros_like: Constant = constant(
    "zeros_like", lambda self: arrays.zeros_like(self), batch="leading"
)


to_dtype: Linear = linear(
    "to_dtype",
    lambda self, dtype: arrays.copy(self) if self.dtype == dtype else arrays.cast(self, dtype),
    lambda g: g, node="ToCopyBackward0", adjoint=True, broadcasts=True,
    dtypes="free", rearranges=True,
    words="Only the dtype changes: the gradient passes, in the dtype of the input.",
)  # fmt: skip


def new_zeros(like: Any, shape: Sequence[int]) -> Any:
    """Zeros of the kind and dtype of ``like``."""
    if isinstance(like, Lifted) or arrays.is_raw(like):
        return arrays.zeros(tuple(shape), like.dtype)
    return like.new_zeros(shape)


# The result of these is broadcast when it is written over ``self``, whose gradient has its shape.


def _check_copy(self: Raw, src: Any) -> None:
    broadcast(self.shape, getattr(src, "shape", ()))


copy = Linear(
    "copy", lambda self, src: arrays.cast(arrays.asarray(src), self.dtype), inputs=("self", "src"),
    rules={"self": lambda g, shape: new_zeros(g, shape), "src": lambda g: g},
    dtypes="free", adjoint=True, broadcasts=True, node="CopyBackwards", check=_check_copy,
    batch="overwrite",
    words="The old values were overwritten and get zero; the source gets the whole gradient.",
)  # fmt: skip


def _fill(self: Raw, value: Any) -> Raw:
    return element(value, self.dtype)


fill = Linear(
    "fill", lambda self, value: arrays.cast(value, self.dtype), inputs=("self", "value"),
    rules={"self": lambda g, shape: new_zeros(g, shape), "value": lambda g: g},
    dtypes="free", adjoint=True, broadcasts=True, node="FillBackward3",
    writes="a value read before", batch="overwrite",
    words="The old values were overwritten and get zero; the value gets the sum of the gradient.",
)  # fmt: skip
fill_number = linear(
    "fill_number", _fill, lambda g, shape: new_zeros(g, shape), offset="value", broadcasts=True,
    dtypes="free", node="FillBackward2", writes="one value",
    batch="overwrite",
    words="The old values were overwritten: they get zero.",
)  # fmt: skip
zero = linear(
    "zero", lambda self: arrays.zeros_like(self), lambda g: zeros_like(g), broadcasts=True,
    writes="one value",
    words="The old values were overwritten: they get zero.",
)  # fmt: skip
