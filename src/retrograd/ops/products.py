"""Matrix products: each linear in every one of its arrays."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.ops import linear
from retrograd.ops._arguments import Plug
from retrograd.ops._dims import broadcast, numel
from retrograd.ops._lifted import Lifted
from retrograd.ops._operands import Target
from retrograd.ops._operation import Multilinear, TensorLike, multilinear, raw
from retrograd.ops._public import public
from retrograd.ops._refusals import c_name, kernel

type_word = arrays.dtypes.type_word


def transposed(x: Any) -> Any:
    """The matrices of ``x``, rows for columns."""
    ndim = len(x.shape)
    return linear.transpose(x, dim0=ndim - 2, dim1=ndim - 1) if ndim > 2 else linear.t(x)


dot = multilinear(
    "dot", arrays.matmul,
    {"self": lambda g, tensor: g * tensor, "tensor": lambda g, self: g * self},
    check=kernel("dot", "b"), batch="product",
    words="Each vector gets the gradient times the other vector.",
)  # fmt: skip
mv: Multilinear = multilinear(
    "mv", arrays.matmul,
    {"self": lambda g, vec: _outer(g, vec), "vec": lambda g, self: mv(transposed(self), g)},
    check=kernel("addmv_impl_cpu", "b"), batch="product",
    words="The matrix gets the outer product of gradient and vector; the vector gets the "
          "transposed matrix times the gradient.",
)  # fmt: skip
mm: Multilinear = multilinear(
    "mm", arrays.mm,
    {"self": lambda g, mat2: mm(g, transposed(mat2)),
     "mat2": lambda g, self, transposed_next: transposed_mm(self, g, transposed_next)},
    check=kernel("addmm_impl_cpu_", "b"), batch="product",
    words="Matrix product: each factor gets the product of the gradient and the transpose of the "
          "other factor.",
)  # fmt: skip
bmm: Multilinear = multilinear(
    "bmm", arrays.matmul,
    {"self": lambda g, mat2: bmm(g, transposed(mat2)),
     "mat2": lambda g, self: bmm(transposed(self), g)},
    check=kernel("bmm", "b"), batch="product",
    words="A matrix product for each entry of the batch: each factor gets the gradient times the "
          "other factor, transposed.",
)  # fmt: skip


def transposed_mm(a: Any, b: Any, transposed_next: bool) -> Any:
    """The transpose of ``a`` times ``b``. If that is about to be transposed, it lies column by
    column in memory."""
    return linear.t(mm(linear.t(b), a)) if transposed_next else mm(linear.t(a), b)


def _outer(self: Any, vec2: Any) -> Any:
    return linear.reshape(self, (self.shape[0], 1)) * vec2


# -- what users call -------------------------------------------------------------------------


@public("torch method", alias="ger", out="cast, apart", announces=True)
def outer(self: Any, vec2: Any) -> Any:
    """Computes the outer product of two vectors.

    Args:
        input: The first vector.
        vec2: The second vector.

    Returns:
        A matrix with a row for each element of ``input`` and a column for each of ``vec2``.

    Example:
        >>> torch.outer(torch.tensor([1, 2]), torch.tensor([3, 4]))
        tensor([[3, 4],
                [6, 8]])
    """
    if not (hasattr(self, "shape") and hasattr(vec2, "shape")):
        raise _not_a_tensor("outer", input=self, vec2=vec2)
    for name, x in (("self", self), ("vec2", vec2)):
        if len(x.shape) != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {len(x.shape)}-D")
    return _outer(self, vec2)


@public("torch.dot method.dot", out="same")
def _dot(self: Any, tensor: Any) -> Any:
    """Computes the dot product of two vectors.

    Args:
        input: The first vector.
        tensor: The second vector, of the same length.

    Returns:
        A tensor without dimensions.

    Example:
        >>> torch.dot(torch.tensor([1., 2.]), torch.tensor([3., 4.]))
        tensor(11.)
    """
    if not (hasattr(self, "shape") and hasattr(tensor, "shape")):
        raise _not_a_tensor("dot", input=self, tensor=tensor)
    check_dot(self, tensor)
    return dot(self, tensor)


def check_dot(self: Any, tensor: Any) -> None:
    """Whether two tensors are vectors that can be multiplied."""
    a, b = raw(self), raw(tensor)
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
    if a.dtype != b.dtype:
        raise RuntimeError(
            "dot : expected both vectors to have same dtype, but found "
            f"{type_word(a.dtype)} and {type_word(b.dtype)}"
        )
    if a.shape != b.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{a.size}] and src [{b.size}] to have the "
            f"same number of elements, but got {a.size} and {b.size} elements respectively"
        )


@public("torch.mv method.mv", out="same")
def _mv(self: Any, vec: Any) -> Any:
    """Computes the product of a matrix and a vector.

    Args:
        input: The matrix.
        vec: The vector.

    Returns:
        A vector.

    Example:
        >>> torch.mv(torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([1., 1.]))
        tensor([3., 7.])
    """
    a, b = raw(self), raw(vec)
    if not (hasattr(a, "ndim") and hasattr(b, "ndim")):
        raise _not_a_tensor("mv", input=self, vec=vec)
    if a.ndim != 2 or b.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {a.ndim}, {b.ndim}")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({a.shape[0]}), mat ({_sizes(a)}), vec ({b.shape[0]})"
        )
    if a.dtype != b.dtype:
        words = type_word(b.dtype), type_word(a.dtype), type_word(b.dtype)
        raise RuntimeError(
            "addmv input tensors must have the same dtype, but got {}, {}, and {}".format(*words)
        )
    return mv(self, vec)


@public("torch.mm method.mm", out="same")
def _mm(self: Any, mat2: Any) -> Any:
    """Computes the product of two matrices, without broadcasting.

    Args:
        input: The left matrix.
        mat2: The right matrix.

    Returns:
        A matrix.

    Example:
        >>> torch.mm(torch.tensor([[1., 2.]]), torch.tensor([[3.], [4.]]))
        tensor([[11.]])
    """
    try:
        a, b = raw(self), raw(mat2)
    except NotImplementedError:  # sparse tensors have no array
        return Plug.override("mm", (self, mat2))
    if not (hasattr(a, "ndim") and hasattr(b, "ndim")):
        raise _not_a_tensor("mm", input=self, mat2=mat2)
    if a.ndim != 2 or b.ndim != 2:
        raise RuntimeError(f"{'mat2' if a.ndim == 2 else 'self'} must be a matrix")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({_sizes(a)} and {_sizes(b)})"
        )
    if a.dtype != b.dtype:
        raise RuntimeError(
            "expected m1 and m2 to have the same dtype, but got: "
            f"{c_name(a.dtype)} != {c_name(b.dtype)}"
        )
    return mm(self, mat2)


@public("torch.bmm method.bmm", out="same")
def _bmm(self: Any, mat2: Any) -> Any:
    """Computes the products of two batches of matrices.

    Args:
        input: The left matrices, a tensor with three dimensions.
        mat2: The right matrices, as many as in ``input``.

    Returns:
        The products, a tensor with three dimensions.

    Example:
        >>> torch.bmm(torch.tensor([[[1., 2.]]]), torch.tensor([[[3.], [4.]]]))
        tensor([[[11.]]])
    """
    a, b = raw(self), raw(mat2)
    if not (hasattr(a, "ndim") and hasattr(b, "ndim")):
        raise _not_a_tensor("bmm", input=self, mat2=mat2)
    if a.ndim != 3 or b.ndim != 3:
        raise RuntimeError(f"{'batch2' if a.ndim == 3 else 'batch1'} must be a 3D tensor")
    if b.shape[:2] != (a.shape[0], a.shape[2]):
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a.shape[0]}, "
            f"{a.shape[2]}] but got: [{b.shape[0]}, {b.shape[1]}]."
        )
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"expected scalar type {type_word(a.dtype)} but found {type_word(b.dtype)}"
        )
    return bmm(self, mat2)


def _not_a_tensor(name: str, **given: Any) -> TypeError:
    position, argument = next(
        (position, argument)
        for position, (argument, x) in enumerate(given.items())
        if not hasattr(x, "shape")
    )
    return TypeError(
        f"{name}(): argument '{argument}' (position {position + 1}) must be Tensor, not "
        f"{type(given[argument]).__name__}"
    )


def _sizes(x: Any) -> str:
    return "x".join(str(s) for s in x.shape)


@public("torch method", out="same", announces=True)
def matmul(self: Any, other: Any) -> Any:
    """Computes the matrix product, over batches if there are leading dimensions.

    A vector on the left counts as a row and one on the right as a column; that dimension is then
    removed from the result. The steps are those of PyTorch, since the graph shows them.

    Args:
        input: The left operand.
        other: The right operand. Leading dimensions are broadcast.

    Returns:
        The product: a scalar tensor for two vectors.

    Example:
        >>> torch.matmul(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 1.0]))
        tensor([3., 7.])
    """
    tensors = isinstance(self, TensorLike) and isinstance(other, TensorLike)
    try:
        a, b = (self._data, other._data) if tensors else (raw(self), raw(other))
    except AttributeError:  # sparse tensors have no array
        return Plug.override("matmul", (self, other))
    try:
        left, right = a.ndim, b.ndim
    except AttributeError:
        raise _not_a_tensor("matmul", input=self, other=other) from None
    if left == 2 and right == 2:
        if a.shape[1] != b.shape[0] or a.dtype is not b.dtype:
            return _mm(self, other)  # which says what is wrong
        # The operation would ask for tensors again, in a tenth of the time of a small product.
        direct = mm.function if tensors and type(self) is not Target else None
        return mm(self, other) if direct is None else direct(self, other)
    if not left or not right:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {left}D and {right}D"
        )
    if right == 1 and left <= 2:
        return _dot(self, other) if left == 1 else _mv(self, other)
    if left == 1 and right == 2:
        if _is_unseen(self) and a.shape[0] == b.shape[0] and a.dtype == b.dtype:
            return mv(linear.t(other), self)
        return linear.unsafe_squeeze(_mm(linear.unsqueeze(self, dim=0), other), dims=(0,))
    if _should_fold(self, other):
        return _folded(self, other)
    return _batched(self, other)


def _should_fold(self: Any, other: Any) -> bool:
    """Whether to make one product of a batch times a matrix or vector. If that requires grad it
    always pays: its gradient is then one product too, not a batch to be summed up."""
    left, right = raw(self).ndim, raw(other).ndim
    small, large = (other, self) if left >= right else (self, other)
    if min(left, right) > 2:
        return False
    if _requires_grad(small):
        return True
    if left == 2:
        return False
    layout = raw(large if left >= right else transposed(raw(large)))
    strides, shape = layout.strides, layout.shape
    return layout.size == 0 or all(
        strides[d] == strides[d + 1] * shape[d + 1] for d in range(len(shape) - 2)
    )


def _requires_grad(x: Any) -> bool:
    return bool(getattr(x, "requires_grad", False))


def _is_unseen(x: Any) -> bool:
    """Whether it is a value under a transform that is not recorded: no graph shows the steps."""
    data = raw(x)
    return isinstance(data, Lifted) and not data.level.shows_steps and not _requires_grad(x)


def _folded(self: Any, other: Any) -> Any:
    """One product with the rows of all matrices of a batch."""
    swapped = len(other.shape) > len(self.shape)
    batch, factor = (transposed(other), self) if swapped else (self, other)
    rows, width = tuple(batch.shape[:-1]), batch.shape[-1]
    flat = linear.reshape(batch, (numel(rows), width))
    if len(factor.shape) == 1:
        return linear.unsafe_view(_mv(flat, factor), size=rows)
    product = _mm(flat, linear.t(factor) if swapped else factor)
    product = linear.unsafe_view(product, size=(*rows, product.shape[-1]))
    return _contiguous(transposed(product)) if swapped else product


def _contiguous(x: Any) -> Any:
    return arrays.ascontiguous(x) if arrays.is_raw(x) else x.contiguous()


def _batched(self: Any, other: Any) -> Any:
    """Broadcast the batch dimensions, multiply as one batch, and restore them."""
    if len(self.shape) == len(other.shape) == 3 and self.shape[0] != other.shape[0]:
        # one matrix in disguise, whose gradient had better not be a batch
        if self.shape[0] == 1 and _requires_grad(self):
            return matmul(linear.squeeze_dim(self, dims=(0,)), other)
        if other.shape[0] == 1 and _requires_grad(other):
            return matmul(self, linear.squeeze_dim(other, dims=(0,)))
    elif len(self.shape) == len(other.shape) == 3 and (_is_unseen(self) or _is_unseen(other)):
        return _bmm(self, other)
    batch = broadcast(tuple(self.shape[:-2]), tuple(other.shape[:-2]))
    count = numel(batch)
    rows = self.shape[-2:] if len(self.shape) > 1 else (1, *self.shape)
    a = linear.reshape(linear.expand(self, size=(*batch, *rows)), (count, *rows))
    columns = other.shape[-2:]
    b = linear.reshape(linear.expand(other, size=(*batch, *columns)), (count, *columns))
    shape = (*batch, *self.shape[-2:-1], *(other.shape[-1:] if len(other.shape) > 1 else ()))
    if len(other.shape) > 1:
        return linear.unsafe_view(_bmm(a, b), size=shape)
    product = linear.squeeze_dim(_bmm(a, linear.unsqueeze(b, dim=2)), dims=(2,))
    return linear.unsafe_view(product, size=shape)
