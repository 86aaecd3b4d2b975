"""Jacobian-vector products as functions of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd.autograd._duals import Dual, DualLevel
from retrograd.autograd._levels import as_tensor, opened
from retrograd.autograd._wrap import wrap
from retrograd.func._reverse import with_aux
from retrograd.func._trees import flatten, flatten_as, tree_map, unflatten
from retrograd.tensor._tensor import Tensor


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False,
    has_aux: bool = False,
) -> Any:  # fmt: skip
    """The value of ``func`` at ``primals``, and how it moves when they move by ``tangents``.

    >>> import retrograd as torch
    >>> from retrograd.func import jvp
    >>> jvp(lambda x: x**3, (torch.tensor(2.0),), (torch.tensor(1.0),))
    (tensor(8.), tensor(12.))
    """
    points, shape = _points(primals, tangents)
    with opened(DualLevel()) as level:
        duals = [wrap(Dual(level, x, t)) for x, t in points]
        output = func(*unflatten(duals, shape))
        output, aux = with_aux(output, has_aux, "jvp(f, primals, tangents)")
        outputs, output_shape = flatten(output)
        for y in outputs:
            if not isinstance(y, Tensor):
                raise RuntimeError(
                    "jvp(f, primals, tangents): Expected f(*args) to return only tensors, got "
                    f"unsupported type {type(y)}"
                )
        values = [unpacked(level, y) for y in outputs]
        moved = [level.tangent_of(y._data) for y in outputs]
        if strict and None in [t if t is None else 0 for t in moved]:
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the "
                "inputs. This is not allowed with strict=True."
            )
    found = (
        unflatten(values, output_shape),
        unflatten([_tangent(t, y) for t, y in zip(moved, values, strict=True)], output_shape),
    )
    return (*found, tree_map(lambda x: unpacked(level, x), aux)) if has_aux else found


def unpacked(level: DualLevel, x: Any) -> Any:
    """The value of a Tensor, as the levels below know it."""
    return as_tensor(x._data.primal) if isinstance(x, Tensor) and level.owns(x._data) else x


def _tangent(t: Any, y: Any) -> Any:
    return y.new_zeros(y.shape) if t is None else as_tensor(t)


def _points(primals: Any, tangents: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """Values and tangents in pairs, checked against each other."""
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple):
            raise RuntimeError(
                f"jvp(f, primals, tangents): Expected {name} to be a tuple. E.g. it should be "
                "valid to call f(*primals)."
            )
    values, shape = flatten(primals)
    try:
        directions = flatten_as(shape, tangents)
    except ValueError as error:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python "
            f"structure. {error}"
        ) from None
    for x, t in zip(values, directions, strict=True):
        if not isinstance(x, Tensor) or not isinstance(t, Tensor):
            raise RuntimeError("jvp(f, primals, tangents): Expected all of them to be tensors")
        if x.shape != t.shape:
            raise RuntimeError(
                f"jvp(f, primals, tangents): Expected a tangent of shape {list(x.shape)}, got "
                f"{list(t.shape)}"
            )
    return list(zip(values, directions, strict=True)), shape
