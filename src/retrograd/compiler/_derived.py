"""Functions derived from functions of tensors: gradients, tangents and batches with respect to some
of the arguments, for some of the outputs. All functions return lists of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd.func._forward import jvp
from retrograd.func._reverse import vjp
from retrograd.func._vectorized import vmap

Fn = Callable[..., Any]


def with_all(fn: Fn, args: Sequence[Any], indices: Sequence[int], outputs: Sequence[int]) -> Fn:
    """A function of the arguments at ``indices``, which returns some of the outputs, and then the
    list of all outputs."""

    def of_some(*moving: Any) -> Any:
        inputs = list(args)
        for index, x in zip(indices, moving, strict=True):
            inputs[index] = x
        results = fn(*inputs)
        return tuple([results[i] for i in outputs]), results

    return of_some


def part_of(fn: Fn, args: Sequence[Any], indices: Sequence[int], outputs: Sequence[int]) -> Fn:
    """A function of the arguments at ``indices``, which returns some of the outputs."""
    every = with_all(fn, args, indices, outputs)
    return lambda *moving: every(*moving)[0]


def pulled(fn: Fn, count: int, indices: Sequence[int], outputs: Sequence[int]) -> Fn:
    """A function from all arguments and the gradients of some outputs to the gradients of the
    arguments at ``indices``."""

    def gradients(*inputs: Any) -> Any:
        args, grads = inputs[:count], inputs[count:]
        if not indices or not outputs:
            return [args[i].new_zeros(args[i].shape) for i in indices]
        part = part_of(fn, args, indices, outputs)
        return list(vjp(part, *[args[i] for i in indices])[1](tuple(grads)))

    return gradients


def pushed(
    fn: Fn, count: int, indices: Sequence[int], outputs: Sequence[int], values: bool = False
) -> Fn:
    """A function from all arguments and the tangents of those at ``indices`` to the tangents of
    some outputs; with ``values``, to all outputs and then these tangents."""

    def moved(*inputs: Any) -> Any:
        args, tangents = inputs[:count], inputs[count:]
        if not values:
            part = part_of(fn, args, indices, outputs)
            return list(jvp(part, tuple([args[i] for i in indices]), tuple(tangents))[1])
        every = with_all(fn, args, indices, outputs)
        primals = tuple([args[i] for i in indices])
        _, moving, every_output = jvp(every, primals, tuple(tangents), has_aux=True)
        return [*every_output, *moving]

    return moved


def batched(fn: Fn, dims: Sequence[Any], info: Any) -> Fn:
    """A function from batches to batches along the first dimension."""
    if any(d is not None for d in dims):
        mapped: Fn = vmap(fn, in_dims=tuple(dims), randomness=info.randomness)
        return mapped
    return lambda *args: [in_front(y, None, info) for y in fn(*args)]


def in_front(x: Any, dim: int | None, info: Any) -> Any:
    """A value with its batch dimension in front, expanded if it is the same for all entries."""
    return x.movedim(dim, 0) if dim is not None else x.expand(info.batch_size, *x.shape)


def spread(values: Sequence[Any], indices: Sequence[int], count: int) -> list[Any]:
    """A list of ``count`` entries: the values at their indices, and otherwise None."""
    results: list[Any] = [None] * count
    for index, x in zip(indices, values, strict=True):
        results[index] = x
    return results


def one_of(name: str) -> str:
    """The name of a slice: ``x`` for one of ``xs``.

    >>> one_of("xs"), one_of("states"), one_of("t12")
    ('x', 'state', 't12')
    """
    return name[:-1] if name.endswith("s") and len(name) > 1 else name


def is_float(x: Any) -> bool:
    """Whether a tensor has a dtype with derivatives."""
    return x._data.dtype.kind in "fc"
