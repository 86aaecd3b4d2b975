"""Helpers that distributions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import retrograd as torch

__all__ = ["broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits",
           "tril_matrix_to_vec", "vec_to_tril_matrix"]  # fmt: skip

euler_constant = 0.5772156649015329
Number = (bool, int, float, complex)


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Expand numbers and tensors to a common shape.

    Args:
        *values: numbers, which get the dtype of the first tensor, and tensors.

    Returns:
        The tensors.

    Example:
        >>> broadcast_all(1.0, torch.zeros(2))
        (tensor([1., 1.]), tensor([0., 0.]))
    """
    if not all(isinstance(v, (torch.Tensor, *Number)) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
            "__torch_function__."
        )
    given = [v for v in values if isinstance(v, torch.Tensor)]
    dtype = given[0].dtype if given else torch.get_default_dtype()
    device = given[0].device if given else None
    tensors = [
        v if isinstance(v, torch.Tensor) else torch.tensor(v, dtype=dtype, device=device)
        for v in values
    ]
    return tuple(torch.broadcast_tensors(*tensors))


def formula(of: Callable[[Any], Any], doc: str | None = None) -> Any:
    """A property in one line: ``mean = formula(lambda self: self.loc)``."""
    of.__doc__ = doc
    return _Formula(of)


class _Formula(property):
    def __set_name__(self, owner: type, name: str) -> None:
        of: Any = self.fget
        if of.__name__ == "<lambda>":  # ``help`` finds the text of the base class by these
            of.__name__, of.__qualname__ = name, f"{owner.__qualname__}.{name}"


def standard_normal(shape: Any, like: Any) -> Any:
    """Standard normal numbers in the dtype of a tensor, on its device."""
    return _standard_normal(shape, like.dtype, like.device)


def standard_uniform(shape: Any, like: Any) -> Any:
    """Numbers from [0, 1) in the dtype of a tensor, on its device."""
    return torch.rand(shape, dtype=like.dtype, device=like.device)


def unfilled(shape: Any, like: Any) -> Any:
    """A new tensor with the dtype of another, on its device, to be filled with random numbers."""
    return torch.empty(shape, dtype=like.dtype, device=like.device)


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Any:
    """The same by PyTorch's name and arguments, which other packages know."""
    return torch.empty(shape, dtype=dtype, device=device).normal_()


def sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last ``dim`` dimensions."""
    return value if dim == 0 else value.reshape((*value.shape[:-dim], -1)).sum(-1)


_sum_rightmost = sum_rightmost  # PyTorch's name


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Probabilities of logits.

    Args:
        logits: log-odds, or log-probabilities up to a constant along the last dimension.
        is_binary: whether they are log-odds.

    Returns:
        The probabilities.

    Example:
        >>> logits_to_probs(torch.zeros(2))
        tensor([0.5000, 0.5000])
    """
    return torch.sigmoid(logits) if is_binary else torch.softmax(logits, dim=-1)


def clamp_probs(probs: Any) -> Any:
    """Probabilities that are neither 0 nor 1.

    Args:
        probs: the probabilities.

    Returns:
        The probabilities, between the precision of the dtype and 1 minus that.

    Example:
        >>> clamp_probs(torch.tensor([0.0, 0.5]))
        tensor([1.1921e-07, 5.0000e-01])
    """
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Logits of probabilities.

    Args:
        probs: the probabilities.
        is_binary: whether log-odds are wanted, or log-probabilities.

    Returns:
        The logits.

    Example:
        >>> probs_to_logits(torch.tensor([0.5]), is_binary=True)
        tensor([0.])
    """
    inside = clamp_probs(probs)
    return torch.log(inside) - torch.log1p(-inside) if is_binary else torch.log(inside)


class lazy_property:  # noqa: N801 - PyTorch's name
    """A property that is computed when it is first read, with gradients, and then kept.

    Args:
        wrapped: the method that computes it.

    Example:
        >>> class Square:
        ...     @lazy_property
        ...     def area(self): return torch.tensor(4.0)
        >>> Square().area
        tensor(4.)
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with torch.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The lower triangle of matrices as vectors.

    Args:
        mat: the matrices.
        diag: the diagonal up to which elements are taken.

    Example:
        >>> tril_matrix_to_vec(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([1., 3., 4.])
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = torch.tril_indices(n, n, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """Lower triangular matrices of vectors.

    Args:
        vec: the elements, row after row.
        diag: the diagonal up to which they go.

    Returns:
        The matrices.

    Example:
        >>> vec_to_tril_matrix(torch.tensor([1.0, 3.0, 4.0]))
        tensor([[1., 0.],
                [3., 4.]])
    """
    count, odd = vec.shape[-1], 1 + 2 * diag
    size = (-odd + (odd**2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(size) - size > torch.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    n = round(size)
    rows, columns = torch.tril_indices(n, n, diag)
    result = vec.new_zeros((*vec.shape[:-1], n, n))
    result[..., rows, columns] = vec
    return result
