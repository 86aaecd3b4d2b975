"""``vmap``: applies a function to each entry of a batch at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from retrograd.autograd._batched import taken_out
from retrograd.autograd._levels import is_of, opened
from retrograd.autograd._wrap import wrap
from retrograd.func._arguments import as_array, as_tensor, is_array
from retrograd.func._trees import Shape, broadcast_to, describe, flatten, tree_map, unflatten
from retrograd.ops._batching import Batched, BatchLevel
from retrograd.ops.shapes import reshaping, slicing
from retrograd.tensor._rng import get_rng_state, set_rng_state
from retrograd.tensor._tensor import Tensor


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None,
) -> Any:  # fmt: skip
    """Transforms a function of single entries into one of batches, computed all at once.

    Args:
        func: a function of tensors, or of nested tuples, lists and dictionaries of tensors.
        in_dims: the batch dimension of the arguments: a number, or a tuple with one for each
            argument, nested as they are. None for what is the same for all entries, as keyword
            arguments always are.
        out_dims: the batch dimension of the results, likewise.
        randomness: what random functions do: "error" raises an error, "different" draws different
            numbers for each entry, "same" draws the same for all.
        chunk_size: number of entries to compute at a time; all by default. Fewer take less memory.

    Returns:
        A function of batches.

    Example:
        >>> from retrograd.func import vmap
        >>> vmap(torch.dot)(torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([[1., 1.], [0., 1.]]))
        tensor([3., 4.])
        >>> vmap(torch.dot, in_dims=(0, None))(torch.tensor([[1., 2.], [3., 4.]]), torch.ones(2))
        tensor([3., 7.])
        >>> vmap(lambda x: x * 2, in_dims=1, out_dims=1)(torch.tensor([[1., 2.], [3., 4.]]))
        tensor([[2., 4.],
                [6., 8.]])
    """
    check_randomness(randomness)
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @wraps(func)
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        mapped = Mapped(func, in_dims, out_dims, randomness)
        results = mapped.in_chunks(chunk_size, args, kwargs)
        return tree_map(as_array, results) if mapped.arrays else results

    return vectorized


def check_randomness(randomness: str) -> None:
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )


class Mapped:
    """A function and how it is to be mapped."""

    def __init__(
        self, func: Callable[..., Any], in_dims: Any, out_dims: Any, randomness: str
    ) -> None:
        self.func = func
        self.name = name_of(func)
        self.in_dims = in_dims
        self.out_dims = out_dims
        self.randomness = randomness
        self.arrays = False  # whether what is mapped over are arrays, and results are to be
        if any(not isinstance(d, int | None) for d in flatten(out_dims)[0]):
            raise ValueError(
                f"vmap({self.name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or "
                "a python collection of ints representing where in the outputs the vmapped "
                "dimension should appear."
            )

    def in_chunks(self, chunk_size: int | None, args: tuple[Any, ...], kwargs: Any) -> Any:
        values, dims, shape = self.arguments(args)
        size = self.batch_size(values, dims, shape)
        if chunk_size is None or not size:
            return self.call(size, values, dims, shape, kwargs)
        state = get_rng_state() if self.randomness == "same" else None
        chunks = []
        for first in range(0, size, chunk_size):
            count = min(chunk_size, size - first)
            part = [
                x if d is None else slicing.narrow(x, d, first, count)
                for x, d in zip(values, dims, strict=True)
            ]
            if state is not None:
                set_rng_state(state)
            chunks.append(self.call(count, part, dims, shape, kwargs))
        return self.joined(chunks)

    def joined(self, chunks: list[Any]) -> Any:
        """The results of all chunks as one."""
        columns = zip(*[flatten(chunk)[0] for chunk in chunks], strict=True)
        shape = flatten(chunks[0])[1]
        dims = self.output_dims(shape)
        pairs = zip(columns, dims, strict=True)
        return unflatten([x[0] if d is None else slicing.cat(list(x), d) for x, d in pairs], shape)

    def call(
        self, size: int, values: list[Any], dims: list[Any], shape: Shape, kwargs: dict[str, Any]
    ) -> Any:
        with opened(BatchLevel(size, self.randomness)) as level:
            lifted = [
                x if d is None else wrap(
                    Batched(level, reshaping.movedim(x, d, 0) if d else x, dim=d)
                )
                for x, d in zip(values, dims, strict=True)
            ]
            output = self.func(*unflatten(lifted, shape), **kwargs)
            return self.results(level, output)

    def arguments(self, args: tuple[Any, ...]) -> tuple[list[Any], list[Any], Shape]:
        """The leaves of the arguments, the dimension of each to map over, and their tree."""
        what = f"vmap({self.name}, in_dims={self.in_dims}, ...)(<inputs>)"
        if not isinstance(self.in_dims, int) and not isinstance(self.in_dims, tuple):
            raise ValueError(
                f"{what}: expected `in_dims` to be int or a (potentially nested) tuple matching "
                f"the structure of inputs, got: {type(self.in_dims)}."
            )
        if not args:
            raise ValueError(
                f"vmap({self.name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or "
                "you are trying to vmap over a function with no inputs. The latter is unsupported."
            )
        values, shape = flatten(args)
        dims = broadcast_to(self.in_dims, shape)
        if dims is None:
            raise ValueError(
                f"{what}: in_dims is not compatible with the structure of `inputs`. in_dims has "
                f"structure {describe(flatten(self.in_dims)[1])} but inputs has structure "
                f"{describe(shape)}."
            )
        mapped = [is_array(x) for x, d in zip(values, dims, strict=True) if d is not None]
        if any(mapped):
            self.arrays = all(mapped)
            pairs = zip(values, dims, strict=True)
            values = [x if d is None else as_tensor(x) for x, d in pairs]
        triples = zip(values, dims, argument_paths(shape), strict=True)
        return values, [_input_dim(what, x, d, path) for x, d, path in triples], shape

    def batch_size(self, values: list[Any], dims: list[Any], shape: Shape) -> int:
        mapped = [
            (x, d, path)
            for x, d, path in zip(values, dims, argument_paths(shape), strict=True)
            if d is not None
        ]
        sizes = [x.shape[d] for x, d, _ in mapped]
        if not sizes:
            raise ValueError(
                "vmap: Expected at least one Tensor to vmap over. All of in_dims="
                f"{self.in_dims} is None: call the function itself, or name a dimension."
            )
        if len(set(sizes)) > 1:
            each = "; ".join(
                f"{path} has shape {list(x.shape)} and in_dim={d}" for x, d, path in mapped
            )
            raise ValueError(
                "vmap: Expected all tensors to have the same size in the mapped dimension, got "
                f"sizes {sizes} for the mapped dimension: {each}. Use in_dims to name the right "
                "dimensions, None for what is the same for all entries."
            )
        return int(sizes[0])

    def results(self, level: BatchLevel, output: Any) -> Any:
        """Results with the batch dimension where it is wanted."""
        leaves, shape = flatten(output)
        dims = self.output_dims(shape)
        return unflatten(
            [self.result(level, y, d) for y, d in zip(leaves, dims, strict=True)], shape
        )

    def output_dims(self, shape: Shape) -> list[Any]:
        out_dims = self.out_dims
        if shape.kind is None and isinstance(out_dims, tuple) and len(out_dims) == 1:
            out_dims = out_dims[0]
        dims = broadcast_to(out_dims, shape)
        if dims is None:
            raise ValueError(
                f"vmap({self.name}, ..., out_dims={self.out_dims})(<inputs>): out_dims is not "
                "compatible with the structure of `outputs`. out_dims has structure "
                f"{describe(flatten(self.out_dims)[1])} but outputs has structure "
                f"{describe(shape)}."
            )
        return dims

    def result(self, level: BatchLevel, y: Any, dim: int | None) -> Any:
        if dim is None:
            if isinstance(y, Tensor) and is_of(level, y):
                value, differs = level.below(y._data)
                if differs:
                    raise ValueError(
                        f"vmap({self.name}, ...): `{self.name}` can not return a BatchedTensor "
                        "when out_dim is None: it has another value for each entry. Name the "
                        "dimension that the entries are to be stacked along."
                    )
                return value if isinstance(value, Tensor) else wrap(value)
            return y
        if not isinstance(y, Tensor):
            raise ValueError(
                f"vmap({self.name}, ...): `{self.name}` must only return Tensors, got type "
                f"{type(y)}. Did you mean to set out_dims= to None for output?"
            )
        stacked = taken_out(level, y)
        return reshaping.movedim(stacked, 0, dim) if dim else stacked


def _input_dim(what: str, x: Any, dim: Any, path: str) -> int | None:
    """The dimension of an argument to map over, counted from the front."""
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(
            f"{what}: Got in_dim={dim} for an input but in_dim must be either an integer dimension "
            f"or None. It is for {path}."
        )
    if not isinstance(x, Tensor):
        raise ValueError(
            f"{what}: Got in_dim={dim} for an input but the input is of type {type(x)}. We cannot "
            "vmap over non-Tensor arguments, please use None as the respective in_dim. It is "
            f"{path}."
        )
    if not -x.dim() <= dim < x.dim():
        raise ValueError(
            f"{what}: Got in_dim={dim} for some input, but that input is a Tensor of "
            f"dimensionality {x.dim()} so expected in_dim to satisfy -{x.dim()} <= in_dim < "
            f"{x.dim()}. It is {path}, of shape {list(x.shape)}."
        )
    return dim % x.dim()


def argument_paths(shape: Shape) -> list[str]:
    """Where each leaf of the arguments is: ``argument 0``, ``argument 1['a'][0]``."""
    results = []
    for i, argument in enumerate(shape.parts):
        results += [f"argument {i}{path}" for path in _paths(argument)]
    return results


def _paths(shape: Shape) -> Iterator[str]:
    if shape.kind is None:
        yield ""
    keys = shape.keys or range(len(shape.parts))
    for key, part in zip(keys, shape.parts, strict=True):
        for path in _paths(part):
            yield f"[{key!r}]{path}"


def name_of(func: Callable[..., Any]) -> str:
    """A function's name, for messages."""
    if isinstance(func, functools.partial):
        return f"functools.partial({name_of(func.func)}, ...)"
    return getattr(func, "__name__", None) or repr(func)
