"""Functions made of functions of tensors, which give a list of tensors: gradients, tangents and
batches of some of their arguments and outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd.func._forward import jvp
from retrograd.func._reverse import vjp
from retrograd.func._vectorized import vmap

Fn = Callable[..., Any]


def with_all(fn: Fn, args: Sequence[Any], places: Sequence[int], outputs: Sequence[int]) -> Fn:
    """A function of some of the arguments, which gives some of the outputs, and all of them
    beside."""

    def of_some(*moving: Any) -> Any:
        given = list(args)
        for place, x in zip(places, moving, strict=True):
            given[place] = x
        found = fn(*given)
        return tuple([found[i] for i in outputs]), found

    return of_some


def part_of(fn: Fn, args: Sequence[Any], places: Sequence[int], outputs: Sequence[int]) -> Fn:
    """A function of some of the arguments, which gives some of the outputs."""
    every = with_all(fn, args, places, outputs)
    return lambda *moving: every(*moving)[0]


def pulled(fn: Fn, count: int, places: Sequence[int], outputs: Sequence[int]) -> Fn:
    """A function of arguments, and of gradients of some outputs, that gives the gradients of some
    of the arguments."""

    def gradients(*given: Any) -> Any:
        args, grads = given[:count], given[count:]
        if not places or not outputs:
            return [args[i].new_zeros(args[i].shape) for i in places]
        part = part_of(fn, args, places, outputs)
        return list(vjp(part, *[args[i] for i in places])[1](tuple(grads)))

    return gradients


def pushed(
    fn: Fn, count: int, places: Sequence[int], outputs: Sequence[int], values: bool = False
) -> Fn:
    """A function of arguments, and of tangents of some of them, that gives the tangents of some
    outputs; with ``values``, after all outputs."""

    def moved(*given: Any) -> Any:
        args, tangents = given[:count], given[count:]
        if not values:
            part = part_of(fn, args, places, outputs)
            return list(jvp(part, tuple([args[i] for i in places]), tuple(tangents))[1])
        every = with_all(fn, args, places, outputs)
        primals = tuple([args[i] for i in places])
        _, moving, found = jvp(every, primals, tuple(tangents), has_aux=True)
        return [*found, *moving]

    return moved


def batched(fn: Fn, dims: Sequence[Any], info: Any) -> Fn:
    """A function of batches, which gives batches along the first dimension."""
    if any(d is not None for d in dims):
        mapped: Fn = vmap(fn, in_dims=tuple(dims), randomness=info.randomness)
        return mapped
    return lambda *args: [in_front(y, None, info) for y in fn(*args)]


def in_front(x: Any, dim: int | None, info: Any) -> Any:
    """A value with its batch dimension in front, expanded if it is the same for all entries."""
    return x.movedim(dim, 0) if dim is not None else x.expand(info.batch_size, *x.shape)


def spread(found: Sequence[Any], places: Sequence[int], count: int) -> list[Any]:
    """Values at their places among so many, of which the others are None."""
    results: list[Any] = [None] * count
    for place, x in zip(places, found, strict=True):
        results[place] = x
    return results


def one_of(name: str) -> str:
    """A name for a slice: ``x`` for one of ``xs``.

    >>> one_of("xs"), one_of("states"), one_of("t12")
    ('x', 'state', 't12')
    """
    return name[:-1] if name.endswith("s") and len(name) > 1 else name


def is_float(x: Any) -> bool:
    """Whether a tensor has derivatives."""
    return x._data.dtype.kind in "fc"
