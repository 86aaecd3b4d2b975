"""The safetensors format: eight bytes with the length of a header, the header, the tensors' bytes.

The header is JSON: for each tensor its dtype, its shape and where its bytes are, counted from the
end of the header. ``__metadata__`` in it holds strings. Nothing that a file says is believed before
it is checked, and no memory is asked for that the file itself does not have.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from retrograd.arrays import dtypes

if sys.byteorder != "little":  # as numbers are in the files
    raise ImportError("files are not supported on machines that are big-endian")

LONGEST_HEADER = 100_000_000  # what the safetensors package allows, too
MOST_DIMENSIONS = 64
METADATA = "__metadata__"
_LENGTH = 8

DTYPES = {
    "BOOL": dtypes.bool_, "U8": dtypes.uint8, "I8": dtypes.int8, "U16": dtypes.uint16,
    "I16": dtypes.int16, "F16": dtypes.float16, "BF16": dtypes.bfloat16,
    "U32": dtypes.uint32, "I32": dtypes.int32, "F32": dtypes.float32, "C64": dtypes.complex64,
    "U64": dtypes.uint64, "I64": dtypes.int64, "F64": dtypes.float64,
}  # fmt: skip
# What the elements of dtypes that there are not here are read as, before they become float32.
NARROW = {
    "F8_E4M3": dtypes.uint8, "F8_E5M2": dtypes.uint8,
    "F8_E4M3FNUZ": dtypes.uint8, "F8_E5M2FNUZ": dtypes.uint8, "F8_E8M0": dtypes.uint8,
}  # fmt: skip
_WIDTHS = {name: dtype.itemsize for name, dtype in (DTYPES | NARROW).items()}


class FileFormatError(RuntimeError):
    """A file is damaged, or has a format that ``load`` does not read."""


class Entry(NamedTuple):
    """One tensor of a file. Its bytes are ``start`` to ``stop`` after the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


class Header(NamedTuple):
    """What a file holds. The data begins ``data_start`` bytes after the file does."""

    entries: dict[str, Entry]
    metadata: dict[str, str]
    data_start: int
    data_size: int


# -- reading -----------------------------------------------------------------------------------


def read_header(file: Any, name: str, size: int | None) -> Header:
    """The header of a file, checked. ``size`` is that of the whole file, None if nobody knows."""
    start = exactly(file, _LENGTH)
    length = int.from_bytes(start, "little")
    most = LONGEST_HEADER if size is None else min(LONGEST_HEADER, size - _LENGTH)
    if len(start) < _LENGTH or length > most:
        raise FileFormatError(f"{name} {_what_else(start + exactly(file, 64))}")
    text = exactly(file, length)
    if len(text) < length:
        raise FileFormatError(f"{name} ends amid its header: {_DAMAGED}")
    if not text.startswith(b"{"):
        raise FileFormatError(f"{name} {_what_else(start + text)}")
    try:
        content = parse(text)
    except ValueError as error:
        raise FileFormatError(f"the header of {name} is invalid: {error}") from None
    metadata = _metadata(content.pop(METADATA, {}), name)
    entries = {key: _entry(key, about, name) for key, about in content.items()}
    data_size = _check_places(entries, name)
    if size is not None and _LENGTH + length + data_size != size:
        has = size - _LENGTH - length
        how = "is cut off" if has < data_size else "goes on too long"
        raise FileFormatError(
            f"{name} {how}: its tensors take {data_size} bytes, and after the header there are "
            f"{has}. {_DAMAGED}"
        )
    return Header(entries, metadata, _LENGTH + length, data_size)


_DAMAGED = "The file is damaged or was not copied as a whole; take another copy, or an older one."


def exactly(file: Any, count: int) -> bytes:
    """The next ``count`` bytes, or fewer at the end of the file. What is asked for in one piece is
    never much more than what came before, so a lie about the length costs nothing."""
    pieces: list[bytes] = []
    had = 0
    while had < count:
        piece = file.read(min(count - had, max(1 << 16, had)))
        if not piece:
            break
        pieces.append(piece)
        had += len(piece)
    return b"".join(pieces)


def parse(text: bytes | str) -> dict[str, Any]:
    """A JSON object. ValueError says what is wrong with it."""
    try:
        content = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 ({error.reason} at byte {error.start})") from None
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    return content


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        counted = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counted.items() if count > 1)
        raise ValueError(f"the key {twice[:100]!r} is there twice")
    return result


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _metadata(content: Any, name: str) -> dict[str, str]:
    strings = isinstance(content, dict) and all(isinstance(v, str) for v in content.values())
    if not strings:
        raise FileFormatError(f"the header of {name} is wrong: {METADATA} must hold strings only")
    result: dict[str, str] = content
    return result


def _entry(key: str, about: Any, name: str) -> Entry:
    def wrong(what: str) -> FileFormatError:
        return FileFormatError(f"the header of {name} is wrong about tensor {key[:100]!r}: {what}")

    if not isinstance(about, dict) or set(about) != {"dtype", "shape", "data_offsets"}:
        raise wrong("it must have a dtype, a shape and data_offsets, and nothing else")
    dtype, shape, offsets = about["dtype"], about["shape"], about["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _WIDTHS:
        raise wrong(f"dtype {str(dtype)[:40]!r} is not one of {', '.join(_WIDTHS)}")
    if not is_shape(shape, _WIDTHS[dtype]):
        raise wrong(f"its shape is {str(shape)[:100]}, which no tensor can have")
    if not is_naturals(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise wrong(f"its data_offsets are {str(offsets)[:100]}, not a start and an end")
    needed = math.prod(shape) * _WIDTHS[dtype]
    if offsets[1] - offsets[0] != needed:
        raise wrong(f"it has {offsets[1] - offsets[0]} bytes, but its shape needs {needed}")
    return Entry(dtype, tuple(shape), *offsets)


def is_naturals(value: Any) -> bool:
    """Whether something is a list of integers from zero up."""
    return isinstance(value, list) and all(type(x) is int and x >= 0 for x in value)


def is_shape(value: Any, itemsize: int) -> bool:
    """Whether an array can have this shape. Sizes of zero do not make the others smaller."""
    if not is_naturals(value) or len(value) > MOST_DIMENSIONS:
        return False
    return bool(math.prod(max(s, 1) for s in value) * itemsize < 1 << 63)


def _check_places(entries: dict[str, Entry], name: str) -> int:
    """The tensors lie one after the other, without gaps. How many bytes they take."""
    end = 0
    for key, entry in sorted(entries.items(), key=lambda item: item[1][2:]):
        if entry.start != end:
            how = "overlap" if entry.start < end else "leave a gap"
            raise FileFormatError(
                f"the header of {name} is wrong: tensor {key[:100]!r} begins at byte "
                f"{entry.start} and the one before ends at {end}, so that they {how}"
            )
        end = entry.stop
    return end


def _what_else(start: bytes) -> str:
    """What a file that is not safetensors seems to be, and what to do."""
    if start.startswith((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")):
        return (
            "is a pickle, but not one that torch.save wrote. Reading a pickle can run any code "
            "that is in it, so retrograd reads those of torch.save only, and runs nothing. If you "
            "trust the file, read it with pickle.load, and write its tensors with torch.save."
        )
    if start.startswith(b"version https://git-lfs"):
        return "is a pointer of Git LFS, not the file itself. Get that with git lfs pull."
    if not start:
        return "is empty. " + _DAMAGED
    return (
        f"is not a safetensors file, nor one of torch.save (it begins with {start[:8]!r}), or is "
        "damaged."
    )


# -- writing -----------------------------------------------------------------------------------


def header_bytes(tensors: Iterable[tuple[str, str, tuple[int, ...]]],
                 metadata: dict[str, str]) -> tuple[bytes, list[str]]:  # fmt: skip
    """The first bytes of a file of tensors (name, dtype, shape), and the names in the order in
    which their bytes follow: wide elements first, so that all are aligned."""
    names = list(tensors)
    content: dict[str, Any] = {METADATA: metadata} if metadata else {}
    content |= {name: {"dtype": dtype, "shape": list(shape)} for name, dtype, shape in names}
    order = sorted(names, key=lambda tensor: -_WIDTHS[tensor[1]])
    offset = 0
    for name, dtype, shape in order:
        end = offset + math.prod(shape) * _WIDTHS[dtype]
        content[name]["data_offsets"] = [offset, end]
        offset = end
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + _LENGTH) % 64)
    if len(text) > LONGEST_HEADER:
        raise ValueError(
            f"all that is not tensors takes {len(text)} bytes, more than the {LONGEST_HEADER} that "
            "a safetensors file may have. Put long lists of numbers into tensors."
        )
    return len(text).to_bytes(_LENGTH, "little") + text, [name for name, _, _ in order]
