"""Custom operations on Taylor series."""

from __future__ import annotations

from typing import Any

from retrograd.arrays import dtypes
from retrograd.autograd._forward import transposed_twice
from retrograd.autograd._levels import as_tensor, is_of
from retrograd.autograd._series import UNLIMITED, Series, SeriesLevel, integrated
from retrograd.autograd._wrap import Plug, wrap


def expanded(level: SeriesLevel, cls: Any, args: tuple[Any, ...]) -> Any:
    """The output of a custom operation on series: ``forward`` sees the values, and all orders
    follow from ``backward``, which has to be differentiable."""
    inputs = [a._data if is_of(level, a) else a for a in args]
    key = (cls, *map(id, inputs))
    if not level.depth or key not in level.cache:
        level.cache[key] = (_results(level, cls, inputs), inputs)
    results, _ = level.cache[key]
    several = isinstance(results, tuple)
    series = [y for y in (results if several else (results,)) if isinstance(y, Series)]
    if not level.depth:
        level.complete(series)
    outputs = tuple(wrap(y) if isinstance(y, Series) else y for y in results) if several else None
    return wrap(results) if outputs is None else outputs


def _results(level: SeriesLevel, cls: Any, inputs: list[Any]) -> Any:
    values = [as_tensor(x.known[0]) if level.owns(x) else x for x in inputs]
    output = cls.apply(*values)
    outputs = output if isinstance(output, tuple) else (output,)
    if any(y is x for y in outputs for x in values if isinstance(y, Plug.tensor)):
        raise RuntimeError(
            f"jet: {cls.__name__} returns an input, or writes one in place, which has no series. "
            "Return a new Tensor from forward()."
        )
    results = [Series(level, [y]) if isinstance(y, Plug.tensor) else y for y in outputs]
    moving = [level.owns(x) and x.moves for x in inputs]

    def tangents() -> Any:
        derivatives = [x.derivative if m else None for x, m in zip(inputs, moving, strict=True)]
        result = iter(transposed_twice(lambda xs: cls.apply(*xs), _tensors(inputs), derivatives))
        return [next(result) if isinstance(y, Series) else None for y in results]

    if any(moving):
        compute = integrated(level, tangents)
        order = min([x.order for x in inputs if level.owns(x)], default=UNLIMITED)
        for i, y in enumerate(results):
            if isinstance(y, Series) and y.dtype.kind in dtypes.INEXACT:
                y.order, y.compute = order, lambda k, i=i: compute(k, i)
    return tuple(results) if isinstance(output, tuple) else results[0]


def _tensors(inputs: list[Any]) -> list[Any]:
    return [wrap(x) if isinstance(x, Series) else x for x in inputs]


SeriesLevel.run_custom = expanded
