"""``jacrev``, ``jacfwd`` and ``hessian``: all rows or columns at once.

A Jacobian is what the vectors of the standard basis are taken to, by products with it from the left
(``jacrev``) or from the right (``jacfwd``). The basis is one batch of vectors, so that takes one
pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from retrograd.autograd._batched import standard_basis, taken_out
from retrograd.autograd._levels import as_tensor, is_of, opened
from retrograd.autograd._wrap import wrap
from retrograd.autograd.forward_ad import checked_tangent
from retrograd.func._arguments import (
    Argnums,
    check_outputs,
    check_real,
    check_tensor,
    chosen,
    replaced,
    takes_arrays,
    with_aux,
)
from retrograd.func._forward import Moved
from retrograd.func._reverse import Recording
from retrograd.func._trees import flatten, tree_map, unflatten
from retrograd.func._vectorized import check_randomness
from retrograd.ops._batching import Batched, BatchLevel
from retrograd.ops.shapes import reshaping, slicing
from retrograd.tensor._tensor import Tensor


def jacrev(
    func: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False,
    chunk_size: int | None = None, _preallocate_and_copy: bool = False,
) -> Any:  # fmt: skip
    """Transforms a function into one that computes its Jacobian, by reverse mode.

    Reverse mode is faster than ``jacfwd`` if there are fewer outputs than inputs.

    Args:
        func: a function.
        argnums: index or indices of the arguments to differentiate with respect to: see ``grad``.
        has_aux: whether ``func`` returns a pair of results and other values, which are passed on.
        chunk_size: number of rows to compute at a time; all by default. Fewer take less memory.
            With 1, ``vmap`` is not used, so that ``backward`` of a custom Function may look at
            values.

    Returns:
        A function that returns, for each result of ``func`` and each argument, nested as they are,
        a tensor of the shape of the result followed by that of the argument.

    Example:
        >>> from retrograd.func import jacrev
        >>> jacrev(torch.exp)(torch.tensor([0.0, 1.0]))
        tensor([[1.0000, 0.0000],
                [0.0000, 2.7183]])
        >>> jacrev(lambda x, y: x.sum() * y, argnums=(0, 1))(torch.ones(2), torch.tensor([3.0]))
        (tensor([[3., 3.]]), tensor([[2.]]))
    """
    if chunk_size is not None and chunk_size < 1:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        check_real("jacrev", args, "inputs")
        recording = Recording(func, chosen(args, argnums), args, kwargs)
        with recording.running:
            output = func(*replaced(args, argnums, recording.tree), **kwargs)
        output, aux = with_aux(output, has_aux, "vjp(f, *primals)")
        outputs, shape = flatten(output)
        check_outputs(outputs, "vjp(f, *primals)")
        check_real("jacrev", outputs, "outputs")
        rows = _stacked_rows(recording, outputs, chunk_size)
        blocks = [_split_rows(x, outputs) for x in rows]  # by input, then by output
        of_outputs = [unflatten(list(part), recording.shape) for part in zip(*blocks)]  # noqa: B905
        tree = unflatten(of_outputs, shape)
        aux = recording.cut(aux) if has_aux else None
        recording.close()
        return (tree, aux) if has_aux else tree

    return takes_arrays(jacobian, argnums, has_aux)


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *,
    randomness: str = "error",
) -> Any:  # fmt: skip
    """Transforms a function into one that computes its Jacobian, by forward mode.

    Forward mode is faster than ``jacrev`` if there are fewer inputs than outputs.

    Args:
        func: a function. It runs once, under ``vmap``.
        argnums: index or indices of the arguments to differentiate with respect to: see ``grad``.
        has_aux: whether ``func`` returns a pair of results and other values, which are passed on.
        randomness: what random functions do: see ``vmap``.

    Returns:
        A function that returns the Jacobian, as that of ``jacrev`` does.

    Example:
        >>> from retrograd.func import jacfwd
        >>> jacfwd(lambda t: torch.stack([t**2, t**3]))(torch.tensor(2.0))
        tensor([ 4., 12.])
    """
    check_randomness(randomness)

    @wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        check_real("jacfwd", args, "inputs")
        inputs, shape = flatten(chosen(args, argnums))

        def arguments(duals: list[Any]) -> Any:
            return replaced(args, argnums, unflatten(duals, shape))

        def called(*args: Any) -> Any:
            return func(*args, **kwargs)

        for x in inputs:
            check_tensor(x)
            checked_tangent(x, x)
        count = sum(x.numel() for x in inputs)
        with opened(BatchLevel(count, randomness)) as level:
            directions = [wrap(Batched(level, e)) for e in standard_basis(inputs)]
            moved = Moved(called, inputs, directions, arguments, has_aux, args, kwargs)
            check_real("jacfwd", moved.values, "outputs")
            columns = [taken_out(level, t) for t in moved.filled()]
            aux = tree_map(lambda x: _shared(level, x), moved.aux)
        blocks = [unflatten(_split_columns(y, inputs), shape) for y in columns]
        tree = unflatten(blocks, moved.shape)
        return (tree, aux) if has_aux else tree

    return takes_arrays(jacobian, argnums, has_aux)


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Any:
    """Transforms a function into one that computes its second derivatives:
    ``jacfwd(jacrev(func))``.

    Args:
        func: a function, usually one that returns a tensor of one element.
        argnums: index or indices of the arguments to differentiate with respect to: see ``grad``.

    Returns:
        A function that returns the Hessian: a tensor of the shape of the result followed twice by
        that of the argument.

    Example:
        >>> from retrograd.func import hessian
        >>> hessian(lambda x: x[0] ** 2 * x[1])(torch.tensor([3.0, 5.0]))
        tensor([[10.,  6.],
                [ 6.,  0.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def _shared(level: BatchLevel, x: Any) -> Any:
    """What is in an aux. It does not depend on the directions, and is the same for all."""
    if not isinstance(x, Tensor) or not is_of(level, x):
        return x
    value, differs = level.below(x._data)
    return as_tensor(value)[0] if differs else as_tensor(value)


def _stacked_rows(recording: Recording, outputs: list[Any], chunk_size: int | None) -> list[Any]:
    """For each variable, the rows of the Jacobians of all outputs, flattened, one after another."""
    total = sum(y.numel() for y in outputs)
    chunks = []
    for first in range(0, max(total, 1), chunk_size or max(total, 1)):
        basis = standard_basis(outputs, first, chunk_size)
        if chunk_size == 1 and total:
            rows = recording.pull(outputs, [e[0] for e in basis])
            chunks.append([g[None] for g in flatten(rows)[0]])
        else:
            chunks.append(flatten(recording.pull(outputs, basis, batched=True))[0])
    if len(chunks) == 1:
        return chunks[0]
    return [slicing.cat(list(rows)) for rows in zip(*chunks, strict=True)]


def _split_rows(rows: Any, outputs: list[Any]) -> list[Any]:
    """The Jacobian of each output by one input, from all of them, one above the other."""
    of_output = slicing.split(rows, [y.numel() for y in outputs])
    pairs = zip(of_output, outputs, strict=True)
    return [x.reshape((*y.shape, *rows.shape[1:])) for x, y in pairs]


def _split_columns(columns: Any, inputs: list[Any]) -> list[Any]:
    """The Jacobian of one output by each input, from what each element moves the output by."""
    columns = reshaping.movedim(columns, 0, -1)
    by_input = slicing.split(columns, [x.numel() for x in inputs], dim=-1)
    pairs = zip(by_input, inputs, strict=True)
    return [as_tensor(y).reshape((*columns.shape[:-1], *x.shape)) for y, x in pairs]
