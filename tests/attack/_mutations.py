"""Ways to damage a file: bytes, stretches, lengths, and what its header says."""

from __future__ import annotations

import json
import zlib
from random import Random
from typing import Any

from ._pickles import change_pickle

NUMBERS = (0, 1, -1, 2, 7, 255, 256, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64,
           10**30, -(2**63), 0.5, 1e308, True, None)  # fmt: skip
STRINGS = ("", "x", "F32", "F64", "I64", "BOOL", "BF16", "F8_E4M3", "C64", "float32", "object",
           "__metadata__", "weight", "$tensor", "$dict", "$set", "\u0000", "é", "../x", "nan",
           "retrograd", "pt", "a" * 300)  # fmt: skip
TAGS = ("$tensor", "$tuple", "$size", "$set", "$frozenset", "$dict", "$OrderedDict", "$Counter",
        "$int", "$float", "$complex", "$bytes", "$dtype", "$device", "_metadata")  # fmt: skip


def mutated(random: Random, data: bytes, others: list[bytes]) -> tuple[bytes, str]:
    """A damaged copy of a file, and how it was damaged."""
    if random.random() < 0.35:
        is_pt = data.startswith((b"PK", b"\x80"))
        found = change_pickle(random, data) if is_pt else change_header(random, data)
        if found is not None:
            return found
    told = []
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        change = random.choice(CHANGES)
        data = change(random, data, others)
        told.append(change.__name__)
    return data, ", ".join(told)


# -- bytes ---------------------------------------------------------------------------------------


def place(random: Random, data: bytes) -> int:
    """A place in a file: often in its beginning, where the lengths are."""
    if random.random() < 0.2:
        return random.randrange(min(16, len(data)) or 1)
    return random.randrange(len(data) or 1)


def flip(random: Random, data: bytes, others: list[bytes]) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(random.choice((1, 1, 2, 8))):
        changed[place(random, changed)] ^= 1 << random.randrange(8)
    return bytes(changed)


def put_byte(random: Random, data: bytes, others: list[bytes]) -> bytes:
    changed = bytearray(data or b"\0")
    changed[place(random, changed)] = random.choice((0, 255, 0x7F, 0x80, *b'0129{}[]",:- '))
    return bytes(changed)


def truncate(random: Random, data: bytes, others: list[bytes]) -> bytes:
    return data[: place(random, data)]


def extend(random: Random, data: bytes, others: list[bytes]) -> bytes:
    more = random.choice((b"\0", bytes(8), random.randbytes(40), data))
    return data + more if random.random() < 0.7 else more + data


def delete(random: Random, data: bytes, others: list[bytes]) -> bytes:
    start = place(random, data)
    return data[:start] + data[start + random.choice((1, 2, 8, 100)) :]


def duplicate(random: Random, data: bytes, others: list[bytes]) -> bytes:
    start = place(random, data)
    end = start + random.choice((1, 2, 8, 100))
    return data[:end] + data[start:end] + data[end:]


def splice(random: Random, data: bytes, others: list[bytes]) -> bytes:
    """A stretch of another file in the place of one of this."""
    other = random.choice(others)
    length = random.choice((1, 8, 50, len(other)))
    start = place(random, data)
    source = place(random, other)
    return data[:start] + other[source : source + length] + data[start + length :]


def swap(random: Random, data: bytes, others: list[bytes]) -> bytes:
    a, b = sorted((place(random, data), place(random, data)))
    length = min(random.choice((1, 4, 16)), b - a)
    return (data[:a] + data[b : b + length] + data[a + length : b] + data[a : a + length]
            + data[b + length :])  # fmt: skip


def rewrite_length(random: Random, data: bytes, others: list[bytes]) -> bytes:
    """Another length of the header, or another integer where one could be."""
    number = int(random.choice([n for n in NUMBERS if isinstance(n, int) and n >= 0]))
    if random.random() < 0.5:
        number = max(0, int.from_bytes(data[:8], "little") + random.randint(-9, 9))
    size = random.choice((8, 8, 4))
    start = 0 if random.random() < 0.7 else place(random, data)
    return data[:start] + (number % 256**size).to_bytes(size, "little") + data[start + size :]


def noise(random: Random, data: bytes, others: list[bytes]) -> bytes:
    start = place(random, data)
    length = random.choice((1, 4, 30, 300))
    return data[:start] + random.randbytes(length) + data[start + length :]


CHANGES = (flip, flip, put_byte, truncate, extend, delete, duplicate, splice, swap, rewrite_length,
           noise)  # fmt: skip


# -- the header ----------------------------------------------------------------------------------


def change_header(random: Random, data: bytes) -> tuple[bytes, str] | None:
    """Change what the header says, such that it stays JSON; often with checksums made to fit, so
    that what is read after them is tested too."""
    length = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + length])
        skeleton = json.loads(header["__metadata__"]["retrograd"])
    except (ValueError, KeyError, TypeError, RecursionError):
        skeleton = None
        try:
            header = json.loads(data[8 : 8 + length])
        except (ValueError, RecursionError):
            return None
    if not isinstance(header, dict):
        return None
    told = []
    for _ in range(random.choice((1, 1, 2, 3))):
        if skeleton is not None and random.random() < 0.7:
            told.append("tree: " + change_json(random, skeleton))
        else:
            told.append("header: " + change_json(random, header))
    if skeleton is not None and isinstance(header.get("__metadata__"), dict):
        if random.random() < 0.8:
            forge(skeleton, header)
            told.append("checksum made to fit")
        header["__metadata__"]["retrograd"] = json.dumps(skeleton)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :], "; ".join(told)


def forge(skeleton: Any, header: dict[str, Any]) -> None:
    """Make the checksum of a tree that was changed right."""
    try:
        stored = [[name, [entry["dtype"], entry["shape"]]] for name, entry in header.items()
                  if name != "__metadata__"]  # fmt: skip
        about = [skeleton["tree"], skeleton["tensors"], skeleton["sums"], stored]
        skeleton["sum"] = zlib.crc32(json.dumps(about).encode())
    except (KeyError, TypeError):
        return  # it has no such places any more


def change_json(random: Random, tree: Any) -> str:
    """Change something somewhere in a tree of JSON."""
    places: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in items:
            places.append((node, key))
            if isinstance(value, (dict, list)):
                waiting.append(value)
    if not places:
        return "nothing"
    node, key = random.choice(places)
    kind = random.choice(("put", "put", "put", "remove", "rename", "copy", "wrap", "more"))
    if kind == "put":
        node[key] = another(random, node[key])
    elif kind == "remove":
        del node[key]
    elif kind == "rename" and isinstance(node, dict):
        node[random.choice((*STRINGS, *TAGS))] = node.pop(key)
    elif kind == "copy":
        other, at = random.choice(places)
        if at in other if isinstance(other, dict) else at < len(other):
            node[key] = json.loads(json.dumps(other[at]))
    elif kind == "wrap":
        node[key] = {random.choice(TAGS): node[key]}
    elif isinstance(node, list):
        node.insert(random.randint(0, len(node)), another(random, node[key]))
    else:
        node[random.choice((*STRINGS, *TAGS))] = another(random, node[key])
    return f"{kind} {key!r}"


def another(random: Random, value: Any) -> Any:
    """Something else in the place of a value."""
    if isinstance(value, int) and not isinstance(value, bool) and random.random() < 0.4:
        return value + random.choice((-8, -1, 1, 4, 8))
    if isinstance(value, list) and random.random() < 0.4:
        return random.choice(([], value[::-1], value + value, value[1:], [*value, 0]))
    return random.choice((random.choice(NUMBERS), random.choice(STRINGS), [], {}, [0], [[1]],
                          {"$tensor": "x"}))  # fmt: skip
