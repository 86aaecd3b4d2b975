"""Products and solutions with sparse matrices: differentiable by the values and by the dense side,
to any order and under all transforms.

Gradients of ``Product`` lead to the entries that are stored, as those of ``torch.sparse.mm`` do.
Those of ``WholeProduct`` lead to all elements, as those of ``@`` do for a sparse matrix that was
made from a dense one."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.autograd._wrap import wrap
from retrograd.autograd.function import Function
from retrograd.ops._lifted import by_kernel
from retrograd.ops._operation import raw
from retrograd.ops.linear import stack
from retrograd.tensor._tensor import Tensor


def _by_entry(g: Tensor, x: Tensor, structure: Any) -> Tensor:
    """For each entry, the product of the row of ``g`` and the row of ``x`` that it connects."""
    rows, columns = wrap(structure.rows), wrap(structure.columns)
    return (g[rows] * x[columns].conj()).sum(1)


class _Batched:
    """Entries of a batch are further columns, unless the matrix differs between them."""

    @staticmethod
    def apply_to(function: Any, info: Any, in_dims: Any, args: Any) -> Any:
        values, dense, structure = args
        of_values, of_dense, _ = in_dims
        if of_values is None:
            wide = dense.movedim(of_dense, 1)  # (rows, batch, columns)
            product = function.apply(values, wide.reshape(wide.shape[0], -1), structure)
            return product.reshape(product.shape[0], info.batch_size, -1), 1
        entries = [
            function.apply(
                values.select(of_values, i),
                dense if of_dense is None else dense.select(of_dense, i), structure,
            )
            for i in range(info.batch_size)
        ]  # fmt: skip
        return stack(entries, dim=0), 0


class Product(Function):
    """A sparse matrix times a dense one."""

    @staticmethod
    def forward(values: Tensor, dense: Tensor, structure: Any) -> Tensor:
        result: Tensor = wrap(by_kernel(structure.times, raw(values), raw(dense)))
        return result

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        values, dense, ctx.structure = inputs
        ctx.save_for_backward(values, dense)
        ctx.save_for_forward(values, dense)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        values, dense = ctx.saved_tensors
        by_values, by_dense, _ = ctx.needs_input_grad
        return (
            _by_entry(g, dense, ctx.structure) if by_values else None,
            Product.apply(values.conj(), g, ctx.structure.transposed) if by_dense else None,
            None,
        )

    @staticmethod
    def jvp(ctx: Any, of_values: Any, of_dense: Any, _: Any) -> Any:
        values, dense = ctx.saved_tensors
        return _total(
            None if of_values is None else Product.apply(of_values, dense, ctx.structure),
            None if of_dense is None else Product.apply(values, of_dense, ctx.structure),
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any, **_: Any) -> Any:
        return _Batched.apply_to(Product, info, in_dims, args)


class Stored:
    """The entries of a matrix with values that are not differentiated."""

    def __init__(self, structure: Any, values: Any) -> None:
        self.structure, self.values = structure, values

    @property
    def adjoint(self) -> Stored:
        return Stored(self.structure.transposed, arrays.conj(self.values))


class WholeProduct(Function):
    """A sparse matrix times a dense one, differentiable by all elements of the matrix, stored or
    not: ``whole`` is the matrix in dense form, of which nothing but the history is looked at."""

    @staticmethod
    def forward(whole: Tensor, dense: Tensor, stored: Stored) -> Tensor:
        times = stored.structure.times
        result: Tensor = wrap(by_kernel(times, stored.values, raw(dense)))
        return result

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        whole, dense, ctx.stored = inputs
        ctx.save_for_backward(whole, dense)
        ctx.save_for_forward(whole, dense)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        whole, dense = ctx.saved_tensors
        by_whole, by_dense, _ = ctx.needs_input_grad
        return (
            g @ dense.mH if by_whole else None,
            WholeProduct.apply(whole.mH, g, ctx.stored.adjoint) if by_dense else None,
            None,
        )

    @staticmethod
    def jvp(ctx: Any, of_whole: Any, of_dense: Any, _: Any) -> Any:
        whole, dense = ctx.saved_tensors
        return _total(
            None if of_whole is None else of_whole @ dense,
            None if of_dense is None else WholeProduct.apply(whole, of_dense, ctx.stored),
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any, **_: Any) -> Any:
        return _Batched.apply_to(WholeProduct, info, in_dims, args)


class Solution(Function):
    """The solution of a linear system with a sparse matrix."""

    @staticmethod
    def forward(values: Tensor, right: Tensor, structure: Any) -> Tensor:
        result: Tensor = wrap(by_kernel(structure.solved, raw(values), raw(right)))
        return result

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        values, _, ctx.structure = inputs
        ctx.save_for_backward(values, output)
        ctx.save_for_forward(values, output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        values, solution = ctx.saved_tensors
        by_right = Solution.apply(values.conj(), g, ctx.structure.transposed)
        by_values = None
        if ctx.needs_input_grad[0]:
            by_values = -_by_entry(by_right, solution, ctx.structure)
        return by_values, by_right, None

    @staticmethod
    def jvp(ctx: Any, of_values: Any, of_right: Any, _: Any) -> Any:
        values, solution = ctx.saved_tensors
        moved = None if of_values is None else -Product.apply(of_values, solution, ctx.structure)
        return Solution.apply(values, _total(of_right, moved), ctx.structure)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any, **_: Any) -> Any:
        return _Batched.apply_to(Solution, info, in_dims, args)


def _total(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b
