"""Softmax and log-softmax. Their rules are operations with their own rules."""

from __future__ import annotations

import warnings
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops._dims import one_dim
from retrograd.ops._operands import detached
from retrograd.ops._operation import Operation, Singular, composite, raw
from retrograd.ops._public import public
from retrograd.ops._randomness import drawn
from retrograd.ops._refusals import kernel
from retrograd.ops._sections import sections
from retrograd.ops.copies import to_dtype, zeros_like
from retrograd.ops.elementwise import add, exp, log
from retrograd.ops.linear import reshape, scatter_zeros, sum_dim
from retrograd.ops.selecting import amax_dim, argmax_at


def _total(x: Any, dim: int) -> Any:
    return sum_dim(x, dim=(dim,) if x.shape else (), keepdim=True)


def _from_largest(x: Any, dim: int) -> Any:
    """Values less the largest along ``dim``, whose exponentials do not overflow. The result does
    not depend on what is subtracted, so that is a constant."""
    if 0 in x.shape:
        return x
    return x - amax_dim(detached(x), dim=(dim,) if x.shape else (), keepdim=True)


def _ratio(x: Any, dim: int) -> Any:
    return x / _total(x, dim)


def _less_log_of_sum(x: Any, dim: int) -> Any:
    return x - log(_total(exp(x), dim))


def _check(name: str) -> Any:
    """A check for the dtypes of PyTorch's two kernels, one of which is for the last dimension."""

    def check(self: Raw, dim: int) -> None:
        if self.dtype.kind in dtypes.FLOATS:
            return
        last = "lastdim_" if dim >= self.ndim - 1 else ""
        kernel(f"{name}_{last}kernel_impl", "biuc")(self)

    return check


softmax_backward = composite(
    "softmax_backward",
    lambda grad_output, output, dim: output * (grad_output - _total(grad_output * output, dim)),
    arrays.rows.softmax_backward, inputs=("grad_output", "output"),
)  # fmt: skip
softmax_op = composite(
    "softmax", lambda self, dim: _ratio(exp(_from_largest(self, dim)), dim),
    arrays.rows.softmax, check=_check("softmax"), symmetric=True,
    rules={"self": lambda g, result, dim: softmax_backward(g, result, dim=dim)},
    words="The gradient minus its average, weighted by the probabilities, times the probabilities: "
          "only differences between the inputs matter.",
    singular=(Singular("result", (float("nan"),), "all elements of a row are -inf: 0/0",
                       "leave at least one element of each row unmasked"),),
)  # fmt: skip
log_softmax_backward = composite(
    "log_softmax_backward",
    lambda grad_output, output, dim: grad_output - exp(output) * _total(grad_output, dim),
    arrays.rows.log_softmax_backward, inputs=("grad_output", "output"),
)  # fmt: skip
log_softmax_op = composite(
    "log_softmax", lambda self, dim: _less_log_of_sum(_from_largest(self, dim), dim),
    arrays.rows.log_softmax, check=_check("log_softmax"),
    rules={"self": lambda g, result, dim: log_softmax_backward(g, result, dim=dim)},
    words="The gradient minus the probabilities times its sum: only differences between the inputs "
          "matter.",
    singular=(Singular("result", (float("nan"),), "all elements of a row are -inf: 0/0",
                       "leave at least one element of each row unmasked"),),
)  # fmt: skip


def _along(operation: Operation, input: Any, dim: int, dtype: Any) -> Any:
    wanted = getattr(dtype, "numpy", dtype)
    if dtype is not None and raw(input).dtype != wanted:
        input = to_dtype(input, dtype=wanted)
    return operation(input, dim=one_dim(dim, len(input.shape)))


def _named_dim(name: str, ndim: int, dim: int | None, stacklevel: int) -> int:
    if dim is not None:
        return dim
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=stacklevel + 1,
    )
    return 0 if ndim in (0, 1, 3) else 1


_SOFTMAX = """\
Args:
    input: the input, of any shape.
    dim: the dimension along which to normalize.
    dtype: dtype to convert the input to first.

Returns:
    A tensor of the shape of ``input``.
"""


@public("torch method", out="same")
@sections(_SOFTMAX)
def softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """Softmax: ``exp(x) / sum(exp(x))`` along a dimension.

    Example:
        >>> torch.softmax(torch.tensor([0.0, 1.0, 1000.0, 1000.0]), 0)
        tensor([0.0000, 0.0000, 0.5000, 0.5000])
    """
    return _along(softmax_op, input, dim, dtype)


@public("torch method", out="same")
@sections(_SOFTMAX)
def log_softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """Logarithm of softmax: ``x - log(sum(exp(x)))`` along a dimension.

    It is computed without underflow.

    Example:
        >>> torch.log_softmax(torch.tensor([0.0, 1000.0]), 0)
        tensor([-1000.,     0.])
    """
    return _along(log_softmax_op, input, dim, dtype)


@public("special.softmax")
@sections(_SOFTMAX)
def special_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Softmax: ``exp(x) / sum(exp(x))`` along a dimension.

    Example:
        >>> torch.special.softmax(torch.tensor([0.0, 0.0]), 0)
        tensor([0.5000, 0.5000])
    """
    return _along(softmax_op, input, dim, dtype)


@public("special.log_softmax")
@sections(_SOFTMAX)
def special_log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Logarithm of softmax: ``x - log(sum(exp(x)))`` along a dimension.

    Example:
        >>> torch.special.log_softmax(torch.tensor([0.0, 0.0]), 0)
        tensor([-0.6931, -0.6931])
    """
    return _along(log_softmax_op, input, dim, dtype)


_FUNCTIONAL = """\
Args:
    input: the input, of any shape.
    dim: the dimension along which to normalize. Omitting it is deprecated.
    dtype: dtype to convert the input to first.

Returns:
    A tensor of the shape of ``input``.
"""


@public("functional.softmax")
@sections(_FUNCTIONAL)
def functional_softmax(
    input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Any:
    """Softmax: ``exp(x) / sum(exp(x))`` along a dimension.

    Example:
        >>> torch.nn.functional.softmax(torch.tensor([0.0, 0.0]), dim=0)
        tensor([0.5000, 0.5000])
    """
    return softmax(input, _named_dim("softmax", input.ndim, dim, _stacklevel), dtype)


@public("functional.log_softmax")
@sections(_FUNCTIONAL)
def functional_log_softmax(
    input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Any:
    """Logarithm of softmax: ``x - log(sum(exp(x)))`` along a dimension.

    Example:
        >>> torch.nn.functional.log_softmax(torch.tensor([0.0, 0.0]), dim=0)
        tensor([-0.6931, -0.6931])
    """
    return log_softmax(input, _named_dim("log_softmax", input.ndim, dim, _stacklevel), dtype)


@public("functional")
@sections(_FUNCTIONAL)
def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """Softmin: ``softmax(-x)`` along a dimension.

    Example:
        >>> torch.nn.functional.softmin(torch.tensor([0.0, 0.0]), 0)
        tensor([0.5000, 0.5000])
    """
    return softmax(-input, _named_dim("softmin", input.ndim, dim, _stacklevel), dtype)


@public("functional")
def gumbel_softmax(
    logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Any:
    """Differentiable sample of a categorical distribution: ``softmax((logits + noise) / tau)``.

    The noise is drawn from the Gumbel distribution.

    Args:
        logits: logarithms of probabilities, not necessarily normalized.
        tau: temperature: the lower, the closer the samples are to one-hot vectors.
        hard: return one-hot vectors, with the gradients of the soft samples.
        eps: no effect.
        dim: the dimension along which to normalize.

    Returns:
        Samples that add up to 1 along ``dim``, of the shape of ``logits``.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> torch.nn.functional.gumbel_softmax(torch.tensor([0.0, 10.0]), hard=True)
        tensor([0., 1.])
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=3)
    x = raw(logits)
    noise = drawn(x.shape, lambda size: arrays.random.exponential(size, x.dtype), x)
    soft = softmax((logits + -log(noise)) / tau, dim)
    if not hard:
        return soft
    values = raw(soft.detach())
    along, shape = one_dim(dim, values.ndim), tuple(values.shape) or (1,)
    indices = argmax_at(reshape(values, shape), dim=along, keepdim=True)
    ones = to_dtype(zeros_like(indices), dtype=values.dtype) + 1  # where the indices are
    chosen = scatter_zeros(ones, shape=shape, dim=along, indices=indices)
    return add(reshape(chosen, tuple(values.shape)) - values, soft)
