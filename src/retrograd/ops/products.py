"""Matrix products: each linear in every one of its arrays."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.ops import linear, shaping
from retrograd.ops._operation import multilinear


def _mt(x: Any) -> Any:
    """The matrices of ``x`` transposed."""
    ndim = len(x.shape)
    return linear.transpose(x, dim0=ndim - 2, dim1=ndim - 1) if ndim > 2 else linear.t(x)


dot = multilinear(
    "dot", arrays.matmul,
    {"self": lambda g, tensor: g * tensor, "tensor": lambda g, self: g * self},
)  # fmt: skip
mv = multilinear(
    "mv", arrays.matmul,
    {"self": lambda g, vec: outer(g, vec), "vec": lambda g, self: mv(_mt(self), g)},
)  # fmt: skip
mm = multilinear(
    "mm", arrays.matmul,
    {"self": lambda g, mat2: mm(g, _mt(mat2)), "mat2": lambda g, self: mm(_mt(self), g)},
)  # fmt: skip
bmm = multilinear(
    "bmm", arrays.matmul,
    {"self": lambda g, mat2: bmm(g, _mt(mat2)), "mat2": lambda g, self: bmm(_mt(self), g)},
)  # fmt: skip


def outer(self: Any, vec2: Any) -> Any:
    """The product of every element of one vector with every one of another."""
    return linear.reshape(self, (-1, 1)) * vec2


def _sizes(x: Any) -> str:
    return "x".join(str(s) for s in x.shape)


def _check_mm(a: Any, b: Any) -> None:
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({_sizes(a)} and {_sizes(b)})"
        )


def _check_dtypes(a: Any, b: Any) -> None:
    if a.dtype != b.dtype:
        words = [arrays.dtypes.type_word(getattr(x.dtype, "numpy", x.dtype)) for x in (a, b)]
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {words[0].lower()} != "
            f"{words[1].lower()}"
        )


def matmul(self: Any, other: Any) -> Any:
    """The matrix product, over leading batch dimensions if there are any.

    Vectors count as a row on the left and as a column on the right, and lose that dimension.
    """
    left, right = len(self.shape), len(other.shape)
    if not left or not right:
        raise RuntimeError(
            "both arguments to matmul need to be at least 1D, but they are "
            f"{left}D and {right}D"
        )
    _check_dtypes(self, other)
    if left == 1 and right == 1:
        return _dot(self, other)
    if left == 2 and right == 2:
        _check_mm(self, other)
        return mm(self, other)
    if left == 2 and right == 1:
        return _mv(self, other)
    if left == 1 and right == 2:
        product = mm(linear.unsqueeze(self, dim=0), other) if _fits(self, other) else None
        return linear.squeeze_dim(product, dims=(0,))
    return _batched(self, other)


def _fits(a: Any, b: Any) -> bool:
    if a.shape[-1] != b.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input (1x{a.shape[0]}), mat ({_sizes(b)})"
        )
    return True


def _dot(self: Any, tensor: Any) -> Any:
    if len(self.shape) != 1 or len(tensor.shape) != 1:
        raise RuntimeError(
            f"1D tensors expected, but got {len(self.shape)}D and {len(tensor.shape)}D tensors"
        )
    if tuple(self.shape) != tuple(tensor.shape):
        n, m = self.shape[0], tensor.shape[0]
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{n}] and src [{m}] to have the same "
            f"number of elements, but got {n} and {m} elements respectively"
        )
    return dot(self, tensor)


def _mv(self: Any, vec: Any) -> Any:
    if len(self.shape) != 2 or len(vec.shape) != 1:
        raise RuntimeError(
            "vector + matrix @ vector expected, got "
            f"{len(vec.shape)}, {len(self.shape)}, {len(vec.shape)}"
        )
    if self.shape[1] != vec.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({self.shape[0]}), mat ({_sizes(self)}), "
            f"vec ({vec.shape[0]})"
        )
    return mv(self, vec)


def _mm(self: Any, mat2: Any) -> Any:
    for name, x in (("self", self), ("mat2", mat2)):
        if len(x.shape) != 2:
            raise RuntimeError(f"{name} must be a matrix")
    _check_dtypes(self, mat2)
    _check_mm(self, mat2)
    return mm(self, mat2)


def _bmm(self: Any, mat2: Any) -> Any:
    for name, x in (("batch1", self), ("batch2", mat2)):
        if len(x.shape) != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    _check_dtypes(self, mat2)
    b, n, k = self.shape
    if tuple(mat2.shape[:2]) != (b, k):
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{b}, {k}] "
            f"but got: [{mat2.shape[0]}, {mat2.shape[1]}]."
        )
    return bmm(self, mat2)


def _batched(self: Any, other: Any) -> Any:
    """Broadcast the batch dimensions, multiply as one batch, and restore them."""
    a = linear.unsqueeze(self, dim=0) if len(self.shape) == 1 else self
    b = linear.unsqueeze(other, dim=1) if len(other.shape) == 1 else other
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: "
            f"[{a.shape[0]}, {a.shape[-1]}] but got: [{b.shape[0]}, {b.shape[-2]}]."
        )
    rows, columns = a.shape[-2], b.shape[-1]
    if len(b.shape) == 2 and len(a.shape) > 2:  # one matrix for the whole batch: one big product
        product = mm(shaping.reshape(a, (-1, a.shape[-1])), b)
        product = shaping.reshape(product, (*a.shape[:-1], columns))
    else:
        batch = _broadcast_batch(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
        a = shaping.reshape(shaping.expand(a, (*batch, *a.shape[-2:])), (-1, *a.shape[-2:]))
        b = shaping.reshape(shaping.expand(b, (*batch, *b.shape[-2:])), (-1, *b.shape[-2:]))
        product = shaping.reshape(bmm(a, b), (*batch, rows, columns))
    if len(self.shape) == 1:
        product = linear.squeeze_dim(product, dims=(len(product.shape) - 2,))
    if len(other.shape) == 1:
        product = linear.squeeze_dim(product, dims=(len(product.shape) - 1,))
    return product


def _broadcast_batch(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return tuple(arrays.broadcast_shapes(a, b))
    except ValueError:
        n = max(len(a), len(b))
        a, b = (1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b
        d = next(d for d in range(n - 1, -1, -1) if a[d] != b[d] and 1 not in (a[d], b[d]))
        raise RuntimeError(
            f"The size of tensor a ({a[d]}) must match the size of tensor b ({b[d]}) "
            f"at non-singleton dimension {d}"
        ) from None
