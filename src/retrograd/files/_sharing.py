"""Detects arrays that share memory, so that they share it again after loading.

Arrays whose stretches of memory overlap are a group. If all of a group are one and the same array
(tied weights), it is written once. If one of them spans all others, it is written, and the others
are described as views of it. Else the stretch of memory that they lie in is written.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.files._format import is_shape


class Span(NamedTuple):
    """An array with the first and the last byte of its memory."""

    start: int
    stop: int
    name: str
    array: Raw


def shared(
    arrays_by_name: dict[str, Raw], taken: set[str], stretches: bool
) -> tuple[dict[str, Raw], dict[str, Any]]:
    """What to write besides, or in the place of, arrays that share memory: stretches of memory by
    names that are not ``taken``; and for each array not to be read from its own bytes, what is.

    Without ``stretches``, one array alone is always written as it is, even if it repeats itself.
    """
    memory: dict[str, Raw] = {}
    described: dict[str, Any] = {}
    for group in groups(arrays_by_name):
        first = group[0]
        same_layout = all(_layout(member.array) == _layout(first.array) for member in group)
        if same_layout and not (stretches and _repeats(first)):
            described.update({member.name: {"memory": first.name} for member in group[1:]})
            continue
        start, stop = first.start, max(member.stop for member in group)
        whole = next((m for m in group if (m.start, m.stop) == (start, stop)
                      and m.array.flags.c_contiguous), None)  # fmt: skip
        name = whole.name if whole else _new_name(f"memory of {first.name}", taken | set(memory))
        if whole is None:
            memory[name] = stretch(group, start, stop)
        for member in group:
            if member is not whole:
                described[member.name] = {"memory": name, **_view(member, start)}
    return memory, described


def groups(arrays_by_name: dict[str, Raw]) -> list[list[Span]]:
    """Arrays by the stretches of memory that they lie in."""
    spans = []
    for name, array in arrays_by_name.items():
        if array.size:
            start, stop = _bounds(array)
            spans.append(Span(start, stop, name, array))
    groups: list[list[Span]] = []
    end = -1
    for span in sorted(spans, key=lambda span: (span.start, -span.stop)):  # stable: first is first
        if span.start < end:
            groups[-1].append(span)
        else:
            groups.append([span])
        end = max(end, span.stop)
    return groups


def _bounds(array: Raw) -> tuple[int, int]:
    start = stop = array.__array_interface__["data"][0]
    for size, stride in zip(array.shape, array.strides, strict=True):
        reach = (size - 1) * stride
        start, stop = start + min(reach, 0), stop + max(reach, 0)
    return start, stop + array.itemsize


def _layout(array: Raw) -> tuple[Any, ...]:
    interface = array.__array_interface__
    return interface["data"][0], array.shape, array.strides, array.dtype


def _repeats(span: Span) -> bool:
    return bool(span.stop - span.start < span.array.nbytes)


def _new_name(wanted: str, taken: set[str]) -> str:
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted} {number}"
    return name


def stretch(group: list[Span], start: int, stop: int) -> Raw:
    """The bytes from ``start`` to ``stop`` as far as they belong to the group, and zeros between:
    what else is in that memory is not for the file."""
    memory = arrays.zeros((stop - start,), dtypes.uint8.numpy)
    for member in group:
        once = tuple(slice(1 if stride == 0 else None) for stride in member.array.strides)
        view_of(memory, _view(member, start))[once] = member.array[once]
    return memory


def _view(span: Span, start: int) -> dict[str, Any]:
    array = span.array
    if any(stride % array.itemsize for stride in array.strides):
        raise ValueError(
            "some of the tensors share memory in steps that are not whole elements, which cannot "
            "be saved. Save clones of them."
        )
    return {
        "offset": span.start - start,
        "dtype": dtypes.from_numpy_dtype(array.dtype).name,
        "shape": list(array.shape),
        "stride": list(arrays.strides(array)),
    }


def view_of(memory: Raw, about: dict[str, Any]) -> Raw:
    """An array that a file describes as a view of another. ValueError if it cannot be one."""
    if set(about) != {"offset", "dtype", "shape", "stride"}:
        raise ValueError("a view has an offset, a dtype, a shape and a stride")
    offset, shape, stride = about["offset"], about["shape"], about["stride"]
    dtype = dtype_named(about["dtype"])
    integers = isinstance(stride, list) and all(type(x) is int for x in stride)
    if not is_shape(shape, dtype.itemsize) or not integers or len(stride) != len(shape):
        raise ValueError("the shape and the stride of a view are wrong")
    if type(offset) is not int or 0 in shape:
        raise ValueError("the offset of a view is wrong")
    reaches = [(size - 1) * step for size, step in zip(shape, stride, strict=True)]
    before = -sum(min(reach, 0) for reach in reaches)
    count = before + sum(max(reach, 0) for reach in reaches) + 1
    if offset < 0 or offset + count * dtype.itemsize > memory.nbytes:
        raise ValueError("a view reaches beyond the memory that it is of")
    size = count * dtype.itemsize
    flat = memory.reshape(-1).view("uint8")[offset : offset + size].view(dtype.numpy)
    return arrays.layout.as_strided(flat, tuple(shape), tuple(stride), before)


def dtype_named(name: Any) -> dtypes.dtype:
    """The dtype of that name. ValueError if there is none."""
    result = getattr(dtypes, name, None) if isinstance(name, str) else None
    if isinstance(result, dtypes.dtype) and result.name == name:
        return result
    if name == "bool":
        return dtypes.bool_
    raise ValueError(f"there is no dtype {str(name)[:40]!r}")


__all__ = ["dtype_named", "groups", "shared", "stretch", "view_of"]
