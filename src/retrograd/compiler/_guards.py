"""The guard function: its code, and the comparisons that it calls.

``_watching.py`` writes the conditions under which a program can be used, a line for each. Here they
become one function, which runs before each call.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd.ops._lifted import device_value


class Condition(str):
    """The text of a condition under which a program can be used."""

    __slots__ = ()


def merged(lines: Sequence[str]) -> list[str]:
    """The lines of a guard function, with each run of conditions as one statement, which Python
    compiles in less time than several."""
    result: list[str] = []
    for together, some in itertools.groupby(lines, lambda line: type(line) is Condition):
        if together:
            conditions = " and ".join([f"({x})" if " or " in x else x for x in some])
            result.append(f"if not ({conditions}): return missed")
        else:
            result += some
    return result


def separate(count: int, on_device: set[int], written: list[int]) -> str:
    """The line that requires that the arrays ``d0``, ``d1``, ... that are written share no memory
    with others."""
    values = ", ".join(f"d{i}" for i in range(count))
    memories = ", ".join(
        f"d{i}.memory" if i in on_device else f"id(d{i} if d{i}.base is None else memory_of(d{i}))"
        for i in range(count)
    )
    return (f"if len({{{memories}}}) != {count} and not apart(({values}), {written}): "
            "return missed")  # fmt: skip


def function_of(
    name: str, lines: Sequence[str], then: Sequence[str], objects: dict[str, Any]
) -> Callable[..., Any]:
    """The guard function: it returns ``missed`` if a line of ``lines`` does or raises an error, and
    otherwise runs the lines ``then``. ``objects`` are what the lines refer to, by name."""
    body = "\n        ".join(lines)
    text = (
        f"def {name}(args, named):\n    try:\n        {body}\n"
        "    except (KeyError, IndexError, AttributeError, TypeError, ValueError):\n"
        "        return missed\n    " + "\n    ".join(then)
    )
    names = {"apart": apart_in_memory, "writable": arrays.writable,
             "memory_of": arrays.programs.memory_of, **objects}  # fmt: skip
    exec(compile(text, "<guards>", "exec"), names)
    function: Callable[..., Any] = names[name]
    return function


# -- comparisons -----------------------------------------------------------------------------


def fits(
    kind: Any, device: Any, dtype: Any, shape: tuple[int, ...], strides: Any, data: Any
) -> bool:  # fmt: skip
    """Whether a value on a device is of a kind or, because it is a view (``kind`` is None) or was
    computed by a view, has this device, dtype, shape and strides."""
    return (kind is not None and data.kind is kind) or (
        data.memory.device == device and data.dtype is dtype and data.shape == shape
        and data.strides == strides
    )  # fmt: skip


def apart_in_memory(values: Sequence[Any], written: Sequence[int]) -> bool:
    """Whether the written arrays share no memory with others."""
    memories = [id(arrays.programs.memory_of(x)) for x in values]
    if len(set(memories)) == len(memories):
        return True
    for i in written:
        others = [x for j, x in enumerate(values) if j != i and memories[j] == memories[i]]
        there = device_value(values[i])
        if others and (there is None or overlap_on_device(there, others)):
            return False
    return True


def overlap_on_device(value: Any, others: Sequence[Any]) -> bool:
    """Whether a value overlaps with other values in the same memory on a device. Values that do not
    overlap may be written independently."""
    return any(arrays.programs.overlap(value.layout, x.layout) for x in others)


def accumulator_has_hooks(meta: Any) -> bool:
    """Whether hooks are registered on the node that accumulates the gradient of a leaf."""
    node = None if meta.accumulator is None else meta.accumulator()
    extras = None if node is None else node.extras
    return extras is not None and bool(extras.pre_hooks or extras.post_hooks)
