"""Less common products: of vectors, Kronecker products, tensor contractions."""

from __future__ import annotations

import operator
from typing import Any

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.ops import linear as moving
from retrograd.ops import products
from retrograd.ops._dims import numel, one_dim
from retrograd.ops._operation import composite, raw
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel
from retrograd.ops.algebra._matrix import check_tensors
from retrograd.ops.copies import conj
from retrograd.ops.reductions import basic as reductions

# -- products of vectors ---------------------------------------------------------------------


vdot_of = composite(
    "vdot", lambda self, other: products.dot(conj(self), other),
    lambda self, other: arrays.matmul(arrays.conj(self), other), inputs=("self", "other"),
    rules={"self": lambda g, other: conj(g) * other, "other": lambda g, self: g * self},
    adjoint=True, check=kernel("dot", "b"),
)  # fmt: skip


@public("torch method", out="same")
def vdot(input: Any, other: Any) -> Any:
    """Computes the dot product of two vectors, the first of which is conjugated.

    Args:
        input: The first vector.
        other: The second vector.

    Returns:
        A tensor without dimensions.

    Example:
        >>> torch.vdot(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
        tensor(11.)
    """
    check_tensors("vdot", input=input, other=other)
    products.check_dot(input, other)
    return vdot_of(input, other)


@public("torch method", out="same")
def inner(input: Any, other: Any) -> Any:
    """Computes the dot products along the last dimensions of two tensors.

    Args:
        input: The first tensor.
        other: The second tensor, whose last dimension has the same size.

    Returns:
        A tensor with the other dimensions of ``input``, followed by those of ``other``.

    Example:
        >>> torch.inner(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 1.0]))
        tensor([3., 7.])
    """
    check_tensors("inner", input=input, other=other)
    if not input.shape or not other.shape:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    return tensordot(input, other, ([-1], [-1]))


@public("torch method", out="cast, apart")
def kron(input: Any, other: Any) -> Any:
    """Computes the Kronecker product: every element of ``input`` times ``other``, in blocks.

    Args:
        input: The first tensor.
        other: The second tensor.

    Returns:
        The product. The size of each dimension is the product of the two sizes.

    Example:
        >>> torch.kron(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 10.0]))
        tensor([ 1., 10.,  2., 20.])
    """
    check_tensors("kron", input=input, other=other)
    ndim = max(len(input.shape), len(other.shape))
    a = (1,) * (ndim - len(input.shape)) + tuple(input.shape)
    b = (1,) * (ndim - len(other.shape)) + tuple(other.shape)
    spread = moving.reshape(input, tuple(n for s in a for n in (s, 1)))
    blocks = moving.reshape(other, tuple(n for s in b for n in (1, s)))
    size = tuple(x * y for x, y in zip(a, b, strict=True))
    return moving.unsafe_view(spread * blocks, size=size)


# -- contracting dimensions ------------------------------------------------------------------


@public("torch")
def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    """Computes sums of products over several dimensions of two tensors.

    Args:
        a: The left tensor.
        b: The right tensor.
        dims: The number of dimensions to sum over, the last of ``a`` and the first of ``b``, or two
            lists of dimensions, one for each tensor.

    Returns:
        A tensor with the remaining dimensions of ``a``, followed by those of ``b``.

    Example:
        >>> torch.tensordot(torch.ones(2, 3), torch.ones(3, 2), dims=([0, 1], [1, 0]))
        tensor(6.)
    """
    check_tensors("tensordot", a=a, b=b)
    dims_a, dims_b = _contracted(a, b, dims)
    if len(dims_a) != len(dims_b):
        raise RuntimeError("both dimension lists should have same length")
    if raw(a).dtype != raw(b).dtype:
        raise RuntimeError("both inputs should have same dtype")
    plain_a = [one_dim(d, len(a.shape)) for d in dims_a]
    plain_b = [one_dim(d, len(b.shape)) for d in dims_b]
    for plain in (plain_a, plain_b):
        for d in plain:
            if plain.count(d) > 1:
                raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    for said_a, said_b, d, e in zip(dims_a, dims_b, plain_a, plain_b, strict=True):
        sizes = a.shape[d], b.shape[e]
        if 1 in sizes and sizes[0] != sizes[1]:  # as if it were repeated
            kind = dtypes.from_numpy_dtype(raw(a).dtype)
            a = reductions.sum(a, d, True, dtype=kind) if sizes[0] != 1 else a
            b = reductions.sum(b, e, True, dtype=kind) if sizes[1] != 1 else b
        elif sizes[0] != sizes[1]:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {sizes[0]} in dim "
                f"{said_a} and second has size {sizes[1]} in dim {said_b}"
            )
    return _as_one_product(a, b, plain_a, plain_b)


def _contracted(a: Any, b: Any, dims: Any) -> tuple[list[int], list[int]]:
    """The dimensions to contract, of each."""
    if hasattr(dims, "shape") and dims.shape:
        pairs = dims.tolist()
        return (pairs[0], pairs[1]) if isinstance(pairs[0], list) else ([pairs[0]], [pairs[1]])
    if isinstance(dims, (tuple, list)):
        first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
        return first, second
    if not hasattr(dims, "__index__"):
        raise RuntimeError(
            "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] "
            f"containing two lists, but got dims={dims}"
        )
    count = operator.index(dims)
    if count < 0:
        raise RuntimeError(f"tensordot expects dims >= 0, but got dims={count}")
    if count > min(len(a.shape), len(b.shape)):
        raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={count}")
    return list(range(-count, 0)), list(range(count))


def _as_one_product(a: Any, b: Any, dims_a: list[int], dims_b: list[int]) -> Any:
    """Both as matrices, multiplied."""
    rest_a = [d for d in range(len(a.shape)) if d not in dims_a]
    rest_b = [d for d in range(len(b.shape)) if d not in dims_b]
    rows, columns = [a.shape[d] for d in rest_a], [b.shape[d] for d in rest_b]
    inside = numel([a.shape[d] for d in dims_a])
    left = moving.permute(a, dims=(*rest_a, *dims_a))
    right = moving.permute(b, dims=(*dims_b, *rest_b))
    if not rest_a and not rest_b and a.shape:
        left, right = (moving.reshape(x, (inside,)) if x.ndim > 1 else x for x in (left, right))
        return moving.reshape(products.dot(left, right), ())
    left = moving.reshape(left, (numel(rows), inside))
    right = moving.reshape(right, (inside, numel(columns)))
    return moving.reshape(products._mm(left, right), (*rows, *columns))
