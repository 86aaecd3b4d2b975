"""The table of lowerings: for each primitive operation, a function that computes with JAX what its
kernel computes with NumPy.

A lowering takes the arguments of the kernel: JAX arrays, numbers, and options by name. If it has a
parameter ``line``, it also gets the line of the program, which has the shapes, dtypes and layouts
of its inputs and outputs. Its results are cast to the dtypes of the outputs, so it may ignore JAX's
type promotion.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from retrograd.compiler._program import Line

LOWERINGS: dict[str, Callable[..., Any]] = {}
# Operations without a lowering, and the reason. Their kernels run between two parts of the program.
ON_HOST: dict[str, str] = {}
_WANT_LINE: set[str] = set()


def lowering(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function as the lowering of one operation or several."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        code = getattr(function, "__code__", None)
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code else ()
        for name in names:
            assert name not in LOWERINGS, f"{name} has two lowerings"
            LOWERINGS[name] = function
            if "line" in arguments:
                _WANT_LINE.add(name)
        return function

    return declare


def lowerings(**functions: Callable[..., Any]) -> None:
    """Declare several lowerings by name."""
    for name, function in functions.items():
        lowering(name)(function)


def on_host(reason: str, *names: str) -> None:
    """Declare operations that have no lowering, and why."""
    ON_HOST.update(dict.fromkeys(names, reason))


class _Stated(threading.local):
    """The conditions that lowerings have stated in a thread, and the mesh they compute on."""

    def __init__(self) -> None:
        self.mesh: Any = None
        self.doubts: list[Any] = []
        self.expected: list[Any] | None = None


_stated = _Stated()


def trust(condition: Any) -> None:
    """State a condition under which the result of a lowering equals that of NumPy. If it is false,
    for example because a matrix has no inverse, the program runs again on NumPy, which raises the
    errors and returns the values of eager mode."""
    _stated.doubts.append(condition)


def doubts() -> list[Any]:
    """The conditions stated since the last call."""
    results, _stated.doubts = _stated.doubts, []
    return results


def expect(condition: Callable[[], Any]) -> None:
    """State a requirement on operands that XLA does not check, such as indices in range. Programs
    ignore it, because they check indices in separate lines. Eager operations on devices use it."""
    if _stated.expected is not None:
        _stated.expected.append(condition())


@contextmanager
def expectations() -> Iterator[list[Any]]:
    """A block in which the requirements of lowerings are appended to a list."""
    outer, expected = _stated.expected, list[Any]()
    _stated.expected = expected
    try:
        yield expected
    finally:
        _stated.expected = outer


@contextmanager
def on_mesh(mesh: Any) -> Iterator[None]:
    """A context in which lowerings compute on a mesh of devices; on one device if it is None."""
    outer, _stated.mesh = _stated.mesh, mesh
    try:
        yield
    finally:
        _stated.mesh = outer


def is_on_mesh() -> bool:
    """Whether lowerings compute on a mesh of devices."""
    return _stated.mesh is not None


def gathered_except(x: Any, *dims: int) -> Any:
    """On a mesh, an array that is split along some dimensions at most. All others are gathered on
    each device."""
    if _stated.mesh is None:
        return x
    import jax

    free = jax.sharding.PartitionSpec.UNCONSTRAINED
    spec = jax.sharding.PartitionSpec(*[free if d in dims else None for d in range(x.ndim)])
    where = jax.sharding.NamedSharding(_stated.mesh._jax_mesh, spec)
    return jax.lax.with_sharding_constraint(x, where)


@contextmanager
def aside() -> Iterator[list[Any]]:
    """A block whose conditions are collected in a separate list."""
    before = doubts()
    conditions: list[Any] = []
    try:
        yield conditions
    finally:
        conditions += doubts()
        _stated.doubts.extend(before)


def lowered(line: Line, args: list[Any], options: dict[str, Any]) -> list[Any]:
    """The outputs of a line, given the values of its arguments and options."""
    name = line.operation.name
    if name in _WANT_LINE:
        options = {**options, "line": line}
    result = LOWERINGS[name](*args, **options)
    outputs = list(result) if line.several else [result]
    assert len(outputs) == len(line.outputs), f"the lowering of {name} gives {len(outputs)} results"
    return outputs
