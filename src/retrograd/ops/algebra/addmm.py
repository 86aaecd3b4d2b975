"""Fused sums and products: addmm, addmv, addr, baddbmm, addbmm."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd._modes import modes
from retrograd.arrays import Raw
from retrograd.ops import linear as moving
from retrograd.ops import products
from retrograd.ops._arguments import element, older_factors
from retrograd.ops._batching import BatchLevel, bare, definition_on, folded, unfolded
from retrograd.ops._batching_declarations import own
from retrograd.ops._dims import numel, one_dim
from retrograd.ops._operands import Target
from retrograd.ops._operation import Operation, composite, raw
from retrograd.ops._public import public
from retrograd.ops._refusals import c_name, check_alpha, kernel
from retrograd.ops._sections import like
from retrograd.ops.algebra._matrix import check_tensors, transposed, type_word
from retrograd.ops.shapes import reshaping


def _scaled_sum(self: Raw, product: Raw, beta: Any, alpha: Any) -> Raw:
    """``beta * self + alpha * product``, in the memory of the product where there is one. A beta of
    zero means that what ``self`` holds does not count, not even NaN."""
    same = isinstance(product, arrays.ndarray) and product.dtype == self.dtype
    if same and type(alpha) is type(beta) is int and alpha == beta == 1:  # most calls
        return arrays.add_to(product, self, product)
    as_number: Any = arrays.asarray
    if product.dtype.kind in "biu":
        beta, alpha, as_number = int(beta), int(alpha), element
    if alpha != 1:
        product = product * as_number(alpha, product.dtype)
    if beta == 0:
        return product
    if beta != 1:
        self = self * as_number(beta, product.dtype)
    if isinstance(product, arrays.ndarray) and product.dtype == self.dtype:
        return arrays.add_to(product, self, product)
    return self + product


def _addr(self: Raw, vec1: Raw, vec2: Raw, beta: Any, alpha: Any) -> Raw:
    column = arrays.reshape(vec1, (vec1.shape[0], 1))
    if vec1.dtype.kind == "b":
        return self | (column & vec2) if beta else column & vec2
    return _scaled_sum(self, column * vec2, beta, alpha)


def _scaled(x: Any, factor: Any) -> Any:
    return x if type(factor) is int and factor == 1 else x * factor


def _affine(
    name: str, product: Any, factors: tuple[str, str], first: Any, second: Any,
    kernel: Any = None, **declared: Any,
) -> Operation:  # fmt: skip
    """``beta * self + alpha * product(a, b)``, with the transposes of the product in each factor.
    The kernel adds in the memory of the product."""
    multiply = product.forward if isinstance(product, Operation) else product

    def definition(self: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
        result = product(a, b)
        kind = raw(result).dtype.kind
        if kind in "biu":
            beta, alpha = int(beta), 1 if kind == "b" else int(alpha)
        result = _scaled(result, alpha)
        return result if beta == 0 else _scaled(self, beta) + result

    def forward(self: Raw, a: Raw, b: Raw, beta: Any = 1, alpha: Any = 1) -> Raw:
        if kernel is not None:
            result: Raw = kernel(self, a, b, beta, alpha)
            return result
        return _scaled_sum(self, multiply(a, b), beta, alpha)

    return composite(
        name, definition, forward, inputs=("self", *factors),
        rules={"self": lambda g, beta: _scaled(g, beta), factors[0]: first, factors[1]: second},
        broadcasts=True, **declared,
    )  # fmt: skip


@own("rows of all entries are one matrix if all have the same added")
def _addmm_batch(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    """Rows that all have the same added to them, and are multiplied by the same, are one matrix."""
    self, a, b = args
    if level.owns(self) or level.owns(b) or (len(self.shape) == 2 and self.shape[0] != 1):
        return definition_on(level, op, args, options)
    given = bare([self, folded(level, a), b])
    return unfolded(level, op(*given, **options), a.shape[0])


def _outer(a: Any, b: Any) -> Any:
    return moving.reshape(a, (a.shape[0], 1)) * b


def _added_up(a: Any, b: Any) -> Any:
    """The sum of the products of two batches: one product, of the matrices of the first side by
    side with those of the second on top of each other."""
    count, rows, width = a.shape
    wide = moving.reshape(moving.permute(a, dims=(1, 0, 2)), (rows, count * width))
    return products.mm(wide, moving.reshape(b, (count * width, b.shape[2])))


addmm_of = _affine(
    "addmm", products.mm, ("mat1", "mat2"),
    lambda g, mat2, alpha: _scaled(products.mm(g, moving.t(mat2)), alpha),
    lambda g, mat1, alpha, transposed_next: _scaled(
        products.transposed_mm(mat1, g, transposed_next), alpha),
    batch=_addmm_batch,
    check=kernel("addmm_impl_cpu_", "b"),
    words="The added term (the bias) gets the gradient itself; each factor of the matrix product "
          "gets it times the other factor, transposed.",
)  # fmt: skip
addmv_of = _affine(
    "addmv", products.mv, ("mat", "vec"),
    lambda g, vec, alpha: _scaled(_outer(g, vec), alpha),
    lambda g, mat, alpha: _scaled(products.mv(moving.t(mat), g), alpha),
    check=kernel("addmv_impl_cpu", "b"),
)  # fmt: skip
addr_of = _affine(
    "addr", _outer, ("vec1", "vec2"),
    lambda g, vec2, alpha: _scaled(products.mv(g, vec2), alpha),
    lambda g, vec1, alpha: _scaled(products.mv(moving.t(g), vec1), alpha),
    _addr, dtypes="promote",
)  # fmt: skip
baddbmm_of = _affine(
    "baddbmm", products.bmm, ("batch1", "batch2"),
    lambda g, batch2, alpha: _scaled(products.bmm(g, transposed(batch2)), alpha),
    lambda g, batch1, alpha: _scaled(products.bmm(transposed(batch1), g), alpha),
    check=kernel("baddbmm", "b"),
    words="The added term gets the gradient itself; each factor of the matrix products gets it "
          "times the other factor, transposed.",
)  # fmt: skip
addbmm_of = _affine(
    "addbmm", _added_up, ("batch1", "batch2"),
    lambda g, batch2, alpha: _scaled(g @ transposed(batch2), alpha),
    lambda g, batch1, alpha: _scaled(transposed(batch1) @ g, alpha),
    check=kernel("addmm_impl_cpu_", "b"),
)  # fmt: skip


def _check_room(self: Any, size: tuple[int, ...]) -> None:
    """Whether ``self`` can be added to a result of this size, or be written by it."""
    if isinstance(self, Target):
        if tuple(self.shape) != size:
            raise RuntimeError(
                f"Bad in-place call: input tensor size {list(self.shape)} and output tensor size "
                f"{list(size)} should match"
            )
    elif not _broadcasts(tuple(self.shape), size):
        reshaping.expand(raw(self), *size)  # which says what is wrong


def _broadcasts(shape: tuple[int, ...], size: tuple[int, ...]) -> bool:
    pairs = zip(reversed(shape), reversed(size), strict=False)
    return len(shape) <= len(size) and all(s in (1, n) for s, n in pairs)


@public("torch method", in_place=True, out="same")
def addmm(
    input: Any, mat1: Any, mat2: Any, *_older: Any, beta: Any = 1, alpha: Any = 1
) -> Any:
    """Computes ``beta * input + alpha * (mat1 @ mat2)``.

    Args:
        input: The matrix to add to, which is broadcast to the shape of the product. It is ignored
            if ``beta`` is 0.
        mat1: The left matrix.
        mat2: The right matrix.
        beta: The factor of ``input``.
        alpha: The factor of the product.

    Returns:
        The sum.

    Example:
        >>> torch.addmm(torch.ones(2), torch.eye(2), torch.eye(2), alpha=3)
        tensor([[4., 1.],
                [1., 4.]])
    """
    if _older:
        older = older_factors("addmm", "mat1 mat2", input, mat1, mat2, *_older)
        input, mat1, mat2, beta, alpha = older
    check_tensors("addmm", input=input, mat1=mat1, mat2=mat2)
    self, a, b = raw(input), raw(mat1), raw(mat2)
    m, n = a.shape, b.shape
    if not (  # a bias that is added to each row: most calls
        len(m) == len(n) == 2 and m[1] == n[0] and self.shape == (n[1],)
        and self.dtype is b.dtype is a.dtype and type(input) is not Target
    ):  # fmt: skip
        _check_addmm(input, a, b)
    return addmm_of(input, mat1, mat2, beta=beta, alpha=alpha)


def _check_addmm(input: Any, a: Raw, b: Raw) -> None:
    for name, x in (("mat1", a), ("mat2", b)):
        if x.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix, got {x.ndim}-D tensor")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[0]}x{b.shape[1]})"
        )
    _check_room(input, (a.shape[0], b.shape[1]))
    _check_addmm_dtypes(raw(input), a, b)


def _check_addmm_dtypes(self: Raw, a: Raw, b: Raw) -> None:
    for name, x in (("self", self), ("mat1", a)):
        if x.dtype != b.dtype and modes.autocast is None:  # which will make them the same
            raise RuntimeError(
                f"{name} and mat2 must have the same dtype, but got {type_word(x.dtype)} and "
                f"{type_word(b.dtype)}"
            )


@public("torch method", in_place="torch method", out="same")
@like(addmm)
def addmv(
    input: Any, mat: Any, vec: Any, *_older: Any, beta: Any = 1, alpha: Any = 1
) -> Any:
    """Computes ``beta * input + alpha * (mat @ vec)``.

    Args:
        input: The vector to add to, which is broadcast to the shape of the product. It is ignored
            if ``beta`` is 0.
        mat: The matrix.
        vec: The vector.

    Example:
        >>> torch.addmv(torch.ones(2), torch.eye(2), torch.tensor([1.0, 2.0]))
        tensor([2., 3.])
    """
    if _older:
        older = older_factors("addmv", "mat vec", input, mat, vec, *_older)
        input, mat, vec, beta, alpha = older
    check_tensors("addmv", input=input, mat=mat, vec=vec)
    self, a, b = raw(input), raw(mat), raw(vec)
    if a.ndim != 2 or b.ndim != 1 or self.ndim > 1:
        raise RuntimeError(
            f"vector + matrix @ vector expected, got {self.ndim}, {a.ndim}, {b.ndim}"
        )
    if a.shape[1] != b.shape[0] or (self.ndim == 1 and self.shape[0] not in (1, a.shape[0])):
        raise RuntimeError(
            f"size mismatch, got input ({numel(self.shape)}), mat ({a.shape[0]}x{a.shape[1]}), "
            f"vec ({b.shape[0]})"
        )
    _check_room(input, a.shape[:1])
    if not self.dtype == a.dtype == b.dtype:
        words = [type_word(x.dtype) for x in (self, a, b)]
        raise RuntimeError(
            f"addmv input tensors must have the same dtype, but got {words[0]}, {words[1]}, and "
            f"{words[2]}"
        )
    return addmv_of(input, mat, vec, beta=beta, alpha=alpha)


@public("torch method", in_place=True, out="same")
@like(addmm)
def addr(
    input: Any, vec1: Any, vec2: Any, *_older: Any, beta: Any = 1, alpha: Any = 1
) -> Any:
    """Computes ``beta * input + alpha * outer(vec1, vec2)``.

    Args:
        vec1: The first vector.
        vec2: The second vector.

    Example:
        >>> torch.addr(torch.zeros(2, 2), torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
        tensor([[3., 4.],
                [6., 8.]])
    """
    if _older:
        older = older_factors("addr", "vec1 vec2", input, vec1, vec2, *_older)
        input, vec1, vec2, beta, alpha = older
    check_tensors("addr", input=input, vec1=vec1, vec2=vec2)
    for name, x in (("vec1", vec1), ("vec2", vec2)):
        if len(x.shape) != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {len(x.shape)}-D")
    if isinstance(input, Target) and input.ndim != 2:
        raise RuntimeError(f"2D tensor expected, got {input.ndim}D tensor for input")
    _check_room(input, (vec1.shape[0], vec2.shape[0]))
    common = arrays.dtypes.result_type([raw(x) for x in (input, vec1, vec2)])
    check_alpha(common, alpha)
    check_beta(common, beta)
    return addr_of(input, vec1, vec2, beta=beta, alpha=alpha)


def check_beta(common: Any, beta: Any) -> None:
    """As ``check_alpha``, for the other factor."""
    try:
        check_alpha(common, beta)
    except RuntimeError as error:
        raise RuntimeError(str(error).replace("alpha", "beta")) from None


@public("torch method", in_place=True, out="same")
def baddbmm(
    input: Any, batch1: Any, batch2: Any, *_older: Any, beta: Any = 1, alpha: Any = 1
) -> Any:
    """Computes ``beta * input + alpha * (batch1 @ batch2)`` for batches of matrices.

    Args:
        input: The batch to add to, which is broadcast to the shape of the products. It is ignored
            if ``beta`` is 0.
        batch1: The batch of left matrices.
        batch2: The batch of right matrices.
        beta: The factor of ``input``.
        alpha: The factor of the products.

    Returns:
        The sums, one for each matrix of the batch.

    Example:
        >>> torch.baddbmm(torch.ones(1, 1, 1), torch.ones(1, 1, 2), torch.ones(1, 2, 1))
        tensor([[[3.]]])
    """
    if _older:
        older = older_factors("baddbmm", "batch1 batch2", input, batch1, batch2, *_older)
        input, batch1, batch2, beta, alpha = older
    check_tensors("baddbmm", input=input, batch1=batch1, batch2=batch2)
    self, a, b = raw(input), raw(batch1), raw(batch2)
    if not isinstance(input, Target) and a.ndim and b.ndim > 2:
        _check_room(input, (*a.shape[:2], b.shape[2]))
    for name, x in (("batch1", a), ("batch2", b)):
        if x.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if b.shape[:2] != (a.shape[0], a.shape[2]):
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a.shape[0]}, "
            f"{a.shape[2]}] but got: [{b.shape[0]}, {b.shape[1]}]."
        )
    _check_room(input, (*a.shape[:2], b.shape[2]))
    if not self.dtype == a.dtype == b.dtype:
        words = [c_name(x.dtype) for x in (self, a, b)]
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {words[0]}, batch1: {words[1]}, batch2: "
            f"{words[2]}"
        )
    return baddbmm_of(input, batch1, batch2, beta=beta, alpha=alpha)


@public("torch method", in_place=True, out="same")
def addbmm(
    input: Any, batch1: Any, batch2: Any, *_older: Any, beta: Any = 1, alpha: Any = 1
) -> Any:
    """Computes ``beta * input + alpha * sum(batch1 @ batch2)``, summed over the batch.

    Args:
        input: The matrix to add to, which is broadcast to the shape of the products. It is ignored
            if ``beta`` is 0.
        batch1: The batch of left matrices.
        batch2: The batch of right matrices.
        beta: The factor of ``input``.
        alpha: The factor of the sum of the products.

    Returns:
        One matrix.

    Example:
        >>> torch.addbmm(torch.ones(1, 1), torch.ones(3, 1, 2), torch.ones(3, 2, 1))
        tensor([[7.]])
    """
    if _older:
        older = older_factors("addbmm", "batch1 batch2", input, batch1, batch2, *_older)
        input, batch1, batch2, beta, alpha = older
    check_tensors("addbmm", input=input, batch1=batch1, batch2=batch2)
    a, b = raw(batch1), raw(batch2)
    size = (a.shape[one_dim(1, a.ndim)], b.shape[one_dim(2, b.ndim)])
    if not isinstance(input, Target):
        _check_room(input, size)
    for name, x in (("batch1", a), ("batch2", b)):
        if x.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if a.shape[0] != b.shape[0]:
        raise RuntimeError(
            f"batch1 and batch2 must have same number of batches, got {a.shape[0]} and {b.shape[0]}"
        )
    if a.shape[2] != b.shape[1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for bmm ({a.shape[1]}x{a.shape[2]} and "
            f"{b.shape[1]}x{b.shape[2]})"
        )
    _check_room(input, size)
    _check_addmm_dtypes(raw(input), a, b)
    return addbmm_of(input, batch1, batch2, beta=beta, alpha=alpha)
