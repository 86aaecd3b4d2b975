"""Arguments and results of transformed functions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

from retrograd import arrays
from retrograd.autograd._levels import value_of
from retrograd.autograd._wrap import wrap
from retrograd.func._trees import flatten, tree_map, unflatten
from retrograd.tensor._tensor import Tensor

Transform = TypeVar("Transform", bound=Callable[..., Any])
Argnums = int | tuple[int, ...]


def positions(argnums: Argnums, count: int) -> tuple[int, ...]:
    """The positions that ``argnums`` means among ``count`` arguments."""
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    for n in numbers:
        if not isinstance(n, int):
            raise RuntimeError(f"argnum must be int, got: {type(n)}")
        if not -count <= n < count:
            raise RuntimeError(
                f"Got argnum={n}, but only {count} positional inputs. Arguments given by keyword "
                "cannot be differentiated by."
            )
    positions = tuple(n % count for n in numbers)
    if len(set(positions)) != len(positions):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return positions


def chosen(args: tuple[Any, ...], argnums: Argnums) -> Any:
    """The arguments at ``argnums``: one, or a tuple."""
    selected = tuple(args[n] for n in positions(argnums, len(args)))
    return selected[0] if isinstance(argnums, int) else selected


def replaced(args: tuple[Any, ...], argnums: Argnums, values: Any) -> tuple[Any, ...]:
    """``args`` with others at ``argnums``."""
    new = list(args)
    values = (values,) if isinstance(argnums, int) else values
    for n, value in zip(positions(argnums, len(args)), values, strict=True):
        new[n] = value
    return tuple(new)


def with_aux(output: Any, has_aux: bool, what: str) -> tuple[Any, Any]:
    """The outputs of a function, and its auxiliary data, which are not differentiated."""
    if not has_aux:
        return output, None
    if not (isinstance(output, tuple) and len(output) == 2):
        raise RuntimeError(
            f"{what}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return output


def check_outputs(outputs: Sequence[Any], what: str) -> None:
    """That a function returned Tensors, and at least one."""
    if not outputs or (len(outputs) == 1 and outputs[0] is None):
        raise RuntimeError(
            f"{what}: Expected f to be a function that has non-empty output (got output = "
            f"{list(outputs)})"
        )
    for y in outputs:
        if not isinstance(y, Tensor):
            raise RuntimeError(
                f"{what}: expected f(*primals) to return only tensors, got unsupported type "
                f"{type(y)}"
            )


def check_tensor(x: Any) -> None:
    """That something to differentiate by is a Tensor."""
    if not isinstance(x, Tensor):
        raise ValueError(
            f"Thing passed to transform API must be Tensor, got {type(x)}. Leave it out of what is "
            "differentiated: by argnums, or by functools.partial."
        )


def check_real(name: str, values: Any, role: str) -> None:
    """Raise an error if a Tensor in a tree is complex: its Jacobian would be ambiguous."""
    for i, x in enumerate(flatten(values)[0]):
        if isinstance(x, Tensor) and x.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {role} to be real but received complex tensor at flattened "
                f"input idx: {i}"
            )


# -- arrays in place of tensors --------------------------------------------------------------


class Given:
    """Arguments of which some are arrays: tensors that take their place, and how to give arrays
    back. A derivative is of the kind of what it is taken by; other results are arrays if no tensor
    was given. What has a history, or belongs to a transform around this one, stays a tensor."""

    def __init__(self, tree: Any) -> None:
        leaves, shape = flatten(tree)
        self.are_arrays = [is_array(x) for x in leaves]
        self.no_tensors = not any(isinstance(x, Tensor) for x in leaves)
        self.tree = unflatten([as_tensor(x) for x in leaves], shape)

    def values(self, tree: Any) -> Any:
        """Results that are not derivatives."""
        return tree_map(as_array, tree) if self.no_tensors else tree

    def derivatives(self, tree: Any) -> Any:
        """Derivatives by all arguments in turn, of one result after another."""
        leaves, shape = flatten(tree)
        kinds = itertools.cycle(self.are_arrays)
        return unflatten([as_array(x) if k else x for x, k in zip(leaves, kinds)], shape)  # noqa: B905


def is_array(x: Any) -> bool:
    return arrays.is_raw(x) and x.dtype.kind in "fcbiuV"


def as_tensor(x: Any) -> Any:
    """A tensor that shares the memory of an array; other values unchanged."""
    return wrap(arrays.writable(x)) if is_array(x) else x


def as_array(x: Any) -> Any:
    """The array of a tensor; other values unchanged."""
    plain = isinstance(x, Tensor) and not x.requires_grad and arrays.is_raw(value_of(x))
    return x._array() if plain else x


def has_arrays(tree: Any) -> bool:
    return not isinstance(tree, Tensor) and any(is_array(x) for x in flatten(tree)[0])


def gives_arrays(transform: Transform) -> Transform:
    """A transform that takes a function and where to evaluate it, made to take and give arrays."""

    @wraps(transform)
    def called(func: Callable[..., Any], *args: Any, **named: Any) -> Any:
        if not has_arrays((args, named)):
            return transform(func, *args, **named)
        given = Given((args, named))
        args, named = given.tree
        return given.values(transform(func, *args, **named))

    return cast(Transform, called)


def takes_arrays(
    derivative: Callable[..., Any], argnums: Argnums, paired: bool
) -> Callable[..., Any]:
    """A function that computes derivatives, made to take and give arrays as well. ``paired``: its
    result is a pair of derivatives and other results."""

    @wraps(derivative)
    def called(*args: Any, **kwargs: Any) -> Any:
        if not any(has_arrays(x) for x in args) or not has_arrays(chosen(args, argnums)):
            return derivative(*args, **kwargs)
        given = Given(chosen(args, argnums))
        result = derivative(*replaced(args, argnums, given.tree), **kwargs)
        if not paired:
            return given.derivatives(result)
        return given.derivatives(result[0]), given.values(result[1])

    return called
