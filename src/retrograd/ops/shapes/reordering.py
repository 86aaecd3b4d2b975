"""Reordering of dimensions and elements: swapdims, adjoint, roll, rot90, fliplr, unflatten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.ops import linear
from retrograd.ops._arguments import check_int
from retrograd.ops._batching_declarations import Dims
from retrograd.ops._dims import as_shape, infer, numel, one_dim
from retrograd.ops._operation import Linear, raw
from retrograd.ops._operation import linear as declare
from retrograd.ops._public import public
from retrograd.ops.copies import conj
from retrograd.ops.shapes import reshaping

# -- one dimension as several, and back ------------------------------------------------------


@public("torch method")
def unflatten(input: Any, dim: int, sizes: Sequence[int]) -> Any:
    """Splits one dimension into several.

    Args:
        dim: The dimension to split.
        sizes: The sizes of the new dimensions. One of them may be -1, which is inferred.

    Returns:
        A view of ``input`` in which the new dimensions replace ``dim``.

    Example:
        >>> torch.zeros(2, 6).unflatten(1, (3, -1)).shape
        torch.Size([2, 3, 2])
    """
    wanted, ndim = as_shape((sizes,)), len(input.shape)
    if not wanted:
        raise RuntimeError("unflatten: sizes must be non-empty")
    plain = one_dim(dim, ndim)
    size = input.shape[plain] if ndim else 1
    try:
        full = infer(wanted, size)
    except RuntimeError as error:
        if "is invalid" in str(error):
            raise RuntimeError(
                f"unflatten: Provided sizes {list(wanted)} don't multiply up to the size of dim "
                f"{plain} ({size}) in the input tensor"
            ) from None
        raise RuntimeError(f"unflatten got an unexpected error:\n{error}") from None
    if not ndim:
        raise RuntimeError("unflatten got an unexpected error:\na scalar has no dimensions")
    return reshaping.view(input, (*input.shape[:plain], *full, *input.shape[plain + 1 :]))


@public("torch method")
def ravel(input: Any) -> Any:
    """Flattens a tensor to one dimension.

    Returns:
        A 1-D tensor with the elements of ``input`` in row-major order. It is a view if ``input`` is
        contiguous.

    Example:
        >>> torch.ravel(torch.tensor([[1, 2], [3, 4]]))
        tensor([1, 2, 3, 4])
    """
    return linear.view(input.contiguous(), size=(numel(input.shape),))


@public("torch method", in_place=True)
def swapaxes(input: Any, axis0: int, axis1: int) -> Any:
    """Swaps two dimensions; the same as ``transpose``.

    Args:
        axis0: The first dimension.
        axis1: The second dimension.

    Returns:
        A view of ``input`` with the two dimensions swapped.

    Example:
        >>> torch.swapaxes(torch.zeros(2, 3), 0, 1).shape
        torch.Size([3, 2])
    """
    return reshaping.transpose(input, axis0, axis1)


@public("torch method")
def adjoint(input: Any) -> Any:
    """Transposes the last two dimensions and takes the complex conjugate.

    Args:
        input: A matrix, or a batch of matrices.

    Returns:
        The conjugate transpose of each matrix. For real matrices it is a view.

    Example:
        >>> torch.adjoint(torch.tensor([[1 + 2j, 3j]]))
        tensor([[1.-2.j],
                [0.-3.j]])
    """
    ndim = len(input.shape)
    if ndim == 1:
        raise RuntimeError(
            "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor."
        )
    transposed = reshaping.transpose(input, -2, -1) if ndim else reshaping.transpose(input, 0, 0)
    return conj(transposed) if raw(input).dtype.kind == "c" else transposed




@public("torch method")
def fliplr(input: Any) -> Any:
    """Reverses the order of the columns, that is, of dimension 1.

    Args:
        input: A tensor with at least two dimensions.

    Returns:
        A copy with the columns in reverse order.

    Example:
        >>> torch.fliplr(torch.tensor([[1, 2], [3, 4]]))
        tensor([[2, 1],
                [4, 3]])
    """
    if len(input.shape) < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return linear.flip(input, dims=(1,))


@public("torch method")
def flipud(input: Any) -> Any:
    """Reverses the order of the rows, that is, of dimension 0.

    Args:
        input: A tensor with at least one dimension.

    Returns:
        A copy with the rows in reverse order.

    Example:
        >>> torch.flipud(torch.tensor([[1, 2], [3, 4]]))
        tensor([[3, 4],
                [1, 2]])
    """
    if not input.shape:
        raise RuntimeError("Input must be >= 1-d.")
    return linear.flip(input, dims=(0,))


roll_by: Linear = declare(
    "roll", lambda self, shifts, dims: arrays.layout.roll(self, shifts, dims),
    lambda g, shifts, dims: roll_by(g, shifts=tuple(-s for s in shifts), dims=dims),
    batch=Dims(),
    words="The gradient is rolled back.",
)  # fmt: skip
rot90_by: Linear = declare(
    "rot90", lambda self, k, dims: arrays.layout.rot90(self, k, dims),
    lambda g, k, dims: rot90_by(g, k=-k, dims=dims),
)  # fmt: skip


@public("torch method")
def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    """Shifts elements along dimensions; those shifted past the end re-enter at the start.

    Args:
        shifts: The number of positions to shift by: an integer, or one for each of ``dims``.
        dims: The dimensions to shift along. By default, the tensor is flattened, shifted, and given
            its shape back.

    Example:
        >>> torch.roll(torch.tensor([1, 2, 3]), 1)
        tensor([3, 1, 2])
    """
    by = as_shape((shifts,))
    along = () if dims is None else as_shape((dims,))
    if not by:
        raise RuntimeError("`shifts` required")
    if not along and len(by) == 1:
        return roll_by(input, shifts=by, dims=None)
    if len(by) != len(along):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(by)}, dims:{len(along)}"
        )
    plain = tuple(one_dim(d, len(input.shape)) for d in along)
    if not input.shape:
        raise IndexError(f"Dimension specified as {along[0]} but tensor has no dimensions")
    return roll_by(input, shifts=by, dims=plain)


@public("torch method")
def rot90(input: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    """Rotates a tensor by 90 degrees in the plane of two dimensions.

    Args:
        k: The number of rotations. A negative number rotates in the opposite direction.
        dims: The two dimensions of the plane. The rotation is from the first towards the second.

    Returns:
        The rotated tensor.

    Example:
        >>> torch.rot90(torch.tensor([[1, 2], [3, 4]]))
        tensor([[2, 4],
                [1, 3]])
    """
    check_int("rot90", "k", 2, k)
    given, ndim = as_shape((dims,)), len(input.shape)
    if len(given) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(given)}")
    if ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {ndim}")
    first, second = (one_dim(d, ndim) for d in given)
    if first == second:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {given[0]} and dim1 = "
            f"{given[1]}"
        )
    return rot90_by(input, k=int(k), dims=(first, second))
