"""Files of events as TensorBoard reads them: records of messages in Protocol Buffers' format."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
import zlib
from collections.abc import Iterable
from itertools import count
from typing import Any

_numbers = count()


# -- messages ------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    """An integer in groups of seven bits, the lowest first."""
    number &= 2**64 - 1  # a negative number is one of 64 bits
    pieces = bytearray()
    while number > 127:
        pieces.append(number & 127 | 128)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)


def integer(field: int, number: int) -> bytes:
    return varint(field << 3) + varint(number)


def double(field: int, number: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", number)


def single(field: int, number: float) -> bytes:
    return varint(field << 3 | 5) + struct.pack("<f", number)


def data(field: int, content: bytes | str) -> bytes:
    """Text, bytes, or another message."""
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def doubles(field: int, numbers: Iterable[float]) -> bytes:
    packed = [struct.pack("<d", number) for number in numbers]
    return data(field, b"".join(packed))


# -- values of a summary -------------------------------------------------------------------------


def scalar(tag: str, value: float) -> bytes:
    return data(1, tag) + single(2, value)


def image(tag: str, height: int, width: int, pixels: bytes) -> bytes:
    """A picture of three bytes for each pixel, row by row."""
    shape = integer(1, height) + integer(2, width) + integer(3, 3)
    return data(1, tag) + data(4, shape + data(4, png(height, width, pixels)))


def histogram(
    tag: str, facts: Iterable[float], limits: Iterable[float], counts: Iterable[float]
) -> bytes:
    """``facts``: the least and the largest number, how many there are, their sum and the sum of
    their squares."""
    start = b"".join([double(field, fact) for field, fact in enumerate(facts, 1)])
    return data(1, tag) + data(5, start + doubles(6, limits) + doubles(7, counts))


def text(tag: str, words: str) -> bytes:
    shown_by = data(1, data(1, "text"))
    strings, length = 7, data(2, data(2, integer(1, 1)))
    tensor = integer(1, strings) + length + data(8, words)
    return data(1, f"{tag}/text_summary") + data(8, tensor) + data(9, shown_by)


def png(height: int, width: int, pixels: bytes) -> bytes:
    """A PNG file of three bytes for each pixel."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checked = kind + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    rows = [b"\0" + pixels[i : i + 3 * width] for i in range(0, 3 * width * height, 3 * width)]
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"".join(rows))),
             chunk(b"IEND", b"")]  # fmt: skip
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


# -- records -------------------------------------------------------------------------------------


def _table() -> list[int]:
    results = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        results.append(n)
    return results


_TABLE = _table()


def checksum(content: bytes) -> int:
    """The checksum of records: CRC-32C, rotated and offset."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(content: bytes) -> bytes:
    """A message with its length and checksums."""
    length = struct.pack("<Q", len(content))
    ends = [struct.pack("<I", checksum(part)) for part in (length, content)]
    return length + ends[0] + content + ends[1]


class EventFile:
    """A file of events in a folder, which it makes. Threads may share it.

    Args:
        folder: The folder.
        suffix: The end of the name of the file.
    """

    def __init__(self, folder: str, suffix: str = "") -> None:
        os.makedirs(folder, exist_ok=True)
        now = time.time()
        name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}"
        self._lock = threading.Lock()
        path = os.path.join(folder, f"{name}.{next(_numbers)}{suffix}")
        self._file: Any = open(path, "wb")  # closed by close
        self._write(double(1, now) + data(3, "brain.Event:2"))

    def add(self, value: bytes, step: int | None, wall_time: float | None) -> None:
        """Write an event with a value of a summary."""
        event = double(1, time.time() if wall_time is None else wall_time)
        if step is not None:
            event += integer(2, int(step))
        self._write(event + data(5, data(1, value)))

    def _write(self, event: bytes) -> None:
        with self._lock:
            self._file.write(record(event))

    def flush(self) -> None:
        """Write all pending events."""
        with self._lock:
            if not self._file.closed:
                self._file.flush()

    def close(self) -> None:
        """End the file."""
        with self._lock:
            self._file.close()
