"""Arguments and results of functions that are transformed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.func._trees import flatten
from retrograd.tensor._tensor import Tensor

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
    found = tuple(args[n] for n in positions(argnums, len(args)))
    return found[0] if isinstance(argnums, int) else found


def replaced(args: tuple[Any, ...], argnums: Argnums, values: Any) -> tuple[Any, ...]:
    """``args`` with others at ``argnums``."""
    new = list(args)
    values = (values,) if isinstance(argnums, int) else values
    for n, value in zip(positions(argnums, len(args)), values, strict=True):
        new[n] = value
    return tuple(new)


def with_aux(output: Any, has_aux: bool, what: str) -> tuple[Any, Any]:
    """What a function returned, and beside it what is not to be differentiated."""
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
    """That no Tensor in a tree is complex: a Jacobian would not say what it is a derivative of."""
    for i, x in enumerate(flatten(values)[0]):
        if isinstance(x, Tensor) and x.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {role} to be real but received complex tensor at flattened "
                f"input idx: {i}"
            )
