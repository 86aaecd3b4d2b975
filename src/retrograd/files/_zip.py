"""Zip files in PyTorch's format: uncompressed, aligned members.

Nothing that a file says about itself is believed before it is checked. Members must not overlap, so
reading all of them takes no more memory than the file has bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

ALIGNMENT = 64
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END = struct.Struct("<4sHHHHIIH")
_END_64 = struct.Struct("<4sQHHIIQQQQ")
_LOCATOR_64 = struct.Struct("<4sIQI")
_LONGEST_COMMENT = 65535
_MOST_32, _MOST_16 = 0xFFFFFFFF, 0xFFFF  # these values say: see the 64-bit fields
_UTF_8 = 0x800
_FIRST_DAY = 33  # the first of January 1980


class Member(NamedTuple):
    """One file in a zip file: where its header is, where the next begins, its size and checksum,
    and whether its bytes are there as they are."""

    header: int
    limit: int
    size: int
    crc: int
    plain: bool


# -- reading -----------------------------------------------------------------------------------


def members(source: Any) -> dict[str, Member]:
    """The members of a zip file by name. ``source`` has a ``size`` and ``read(start, count)``.

    ValueError says what is wrong with the file.
    """
    count, start, size = _directory(source)
    data = source.read(start, size)
    entries: dict[str, tuple[int, int, int, bool]] = {}
    at = 0
    for _ in range(count):
        if size - at < _CENTRAL.size:
            raise ValueError("its directory is cut off")
        name, entry, at = _entry(data, at)
        if name in entries:
            raise ValueError(f"the member {name[:100]!r} is there twice")
        entries[name] = entry
    if at != size:
        raise ValueError("its directory goes on too long")
    return _without_overlap(entries, start)


def _directory(source: Any) -> tuple[int, int, int]:
    """How many entries the directory has, where it starts and how long it is."""
    length = min(source.size, _END.size + _LONGEST_COMMENT)
    tail = source.read(source.size - length, length)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _END.size:
        raise ValueError("it has no directory. It is cut off, or was not copied as a whole")
    _, _, _, _, count, size, start, _ = _END.unpack_from(tail, at)
    end = source.size - length + at
    if count == _MOST_16 or size == _MOST_32 or start == _MOST_32:
        count, size, start, end = _directory_64(source, end)
    if start + size > end:
        raise ValueError("its directory is not where it should be")
    return count, start, size


def _directory_64(source: Any, end: int) -> tuple[int, int, int, int]:
    if end < _LOCATOR_64.size:
        raise ValueError("its directory is missing")
    signature, _, at, _ = _LOCATOR_64.unpack(source.read(end - _LOCATOR_64.size, _LOCATOR_64.size))
    if signature != b"PK\6\7" or at + _END_64.size > end:
        raise ValueError("its directory is missing")
    signature, *_, count, size, start = _END_64.unpack(source.read(at, _END_64.size))
    if signature != b"PK\6\6":
        raise ValueError("its directory is missing")
    return count, size, start, at


def _entry(data: bytes, at: int) -> tuple[str, tuple[int, int, int, bool], int]:
    """An entry of the directory: the name, (header, size, crc, plain), and where the next is."""
    (signature, _, _, flags, method, _, _, crc, stored, size, name_length, extra_length,
     comment_length, _, _, _, header) = _CENTRAL.unpack_from(data, at)  # fmt: skip
    extra_at = at + _CENTRAL.size + name_length
    end = extra_at + extra_length + comment_length
    if signature != b"PK\1\2" or end > len(data):
        raise ValueError("its directory is damaged")
    name = data[at + _CENTRAL.size : extra_at].decode("utf-8", "backslashreplace")
    extra = data[extra_at : extra_at + extra_length]
    if _MOST_32 in (size, stored, header):
        size, stored, header = _wide_fields(extra, [size, stored, header])
    plain = method == 0 and not flags & 1 and stored == size
    return name, (header, stored, crc, plain), end


def _wide_fields(extra: bytes, values: list[int]) -> list[int]:
    """The values with those put in that need 64 bits."""
    while len(extra) >= 4:
        kind, length = struct.unpack_from("<HH", extra)
        content, extra = extra[4 : 4 + length], extra[4 + length :]
        if kind == 1:
            wanted = sum(value == _MOST_32 for value in values)
            if len(content) < 8 * wanted:
                break
            wide = iter(struct.unpack_from(f"<{wanted}Q", content))
            return [next(wide) if value == _MOST_32 else value for value in values]
    raise ValueError("its directory lacks the sizes of large members")


def _without_overlap(entries: dict[str, tuple[int, int, int, bool]], end: int) -> dict[str, Member]:
    in_order = sorted(entries.items(), key=lambda item: item[1][0], reverse=True)
    result: dict[str, Member] = {}
    limit = end
    for name, (header, size, crc, plain) in in_order:
        if header + _LOCAL.size + size > limit:
            raise ValueError(f"the member {name[:100]!r} reaches into the next one")
        result[name] = Member(header, limit, size, crc, plain)
        limit = header
    return {name: result[name] for name in entries}


def data_start(source: Any, name: str, member: Member) -> int:
    """Where the bytes of a member begin."""
    if not member.plain:
        raise ValueError(
            f"the member {name[:100]!r} is compressed or encrypted, which torch.save never does"
        )
    header = source.read(member.header, _LOCAL.size)
    signature, *_, name_length, extra_length = _LOCAL.unpack(header)
    start: int = member.header + _LOCAL.size + name_length + extra_length
    if signature != b"PK\3\4" or start + member.size > member.limit:
        raise ValueError(f"the member {name[:100]!r} is not where it should be")
    return start


# -- writing -----------------------------------------------------------------------------------


def pieces(contents: Iterable[tuple[str, Any]], most_32: int = _MOST_32) -> Iterator[Any]:
    """The bytes of a zip file with these members (name, bytes), piece by piece.

    ``most_32`` is what fits into 32 bits; tests make it less.
    """
    directory: list[bytes] = []
    at = 0
    for name, content in contents:
        data = memoryview(content).cast("B") if len(content) else b""
        encoded, crc, size = name.encode(), zlib.crc32(data), len(data)
        large = size >= most_32
        wide = struct.pack("<HHQQ", 1, 16, size, size) if large else b""
        used = at + _LOCAL.size + len(encoded) + len(wide)
        padding = -(used + 4) % ALIGNMENT
        extra = wide + struct.pack("<2sH", b"FB", padding) + b"Z" * padding
        short = _MOST_32 if large else size
        version = 45 if large or at >= most_32 else 0
        yield _LOCAL.pack(b"PK\3\4", version, _UTF_8, 0, 0, _FIRST_DAY, crc, short, short,
                          len(encoded), len(extra)) + encoded + extra  # fmt: skip
        yield data
        directory.append(_directory_entry(encoded, crc, size, at, version, most_32))
        at = used + 4 + padding + size
    yield b"".join(directory) + _end(len(directory), sum(map(len, directory)), at, most_32)


def _directory_entry(name: bytes, crc: int, size: int, at: int, version: int,
                     most_32: int) -> bytes:  # fmt: skip
    wide = b""
    short_size, short_at = size, at
    if size >= most_32:
        wide, short_size = struct.pack("<QQ", size, size), _MOST_32
    if at >= most_32:
        wide, short_at = wide + struct.pack("<Q", at), _MOST_32
    extra = struct.pack("<HH", 1, len(wide)) + wide if wide else b""
    header = _CENTRAL.pack(
        b"PK\1\2", version, version, _UTF_8, 0, 0, _FIRST_DAY, crc, short_size, short_size,
        len(name), len(extra), 0, 0, 0, 0, short_at,
    )  # fmt: skip
    return header + name + extra


def _end(count: int, size: int, start: int, most_32: int) -> bytes:
    wide = b""
    short_count, short_size, short_start = count, size, start
    if count >= _MOST_16 or size >= most_32 or start >= most_32:
        wide = _END_64.pack(b"PK\6\6", _END_64.size - 12, 45, 45, 0, 0, count, count, size, start)
        wide += _LOCATOR_64.pack(b"PK\6\7", 0, start + size, 1)
        short_count, short_size, short_start = _MOST_16, _MOST_32, _MOST_32
    return wide + _END.pack(b"PK\5\6", 0, 0, short_count, short_count, short_size, short_start, 0)
