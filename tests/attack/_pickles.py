"""Ways to damage a ``.pt`` file: the instructions of its pickle, with checksums that fit."""

from __future__ import annotations

import io
import pickletools
import struct
import zipfile
from random import Random

NUMBERS = (0, 1, 2, 3, 255, 256, 2**31 - 1, 2**32, 2**61, 2**62, 2**63 - 1, 2**63, 2**64, -1, -8,
           -(2**63))  # fmt: skip
NAMES = ("os system", "builtins eval", "__builtin__ exec", "torch Tensor", "torch Size",
         "torch float32", "torch bfloat16", "torch FloatStorage", "torch.storage UntypedStorage",
         "torch BoolStorage", "torch device", "torch._utils _rebuild_tensor_v2",
         "torch._utils _rebuild_tensor_v3", "torch._utils _rebuild_parameter",
         "torch._tensor _rebuild_from_type_v2", "torch._utils _rebuild_sparse_tensor",
         "collections OrderedDict", "collections Counter", "__builtin__ set", "builtins bytearray",
         "builtins complex", "_codecs encode", "torch.nn.parameter Parameter", "posix system",
         "torch.jit._pickle build_intlist", "copyreg _reconstructor")  # fmt: skip
STRINGS = ("", "0", "1", "99", "../../x", "cpu", "cuda:0", "meta", "storage", "a" * 300, "\u00e9")


def change_pickle(random: Random, data: bytes) -> tuple[bytes, str] | None:
    """Change instructions of the pickle of a file. None if it is not a whole ``.pt`` file."""
    if data.startswith(b"PK"):
        return _in_zip(random, data)
    start = _object_of(data)
    if start is None:
        return None
    stop = start + _length(data[start:])
    changed, told = changed_instructions(random, data[start:stop])
    return data[:start] + changed + data[stop:], f"{told}; checksum made to fit"


def _in_zip(random: Random, data: bytes) -> tuple[bytes, str] | None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            contents = {name: archive.read(name) for name in archive.namelist()}
        name = next(name for name in contents if name.endswith("data.pkl"))
    except (zipfile.BadZipFile, StopIteration):
        return None
    contents[name], told = changed_instructions(random, contents[name])
    if random.random() < 0.2:
        other = random.choice(list(contents))
        change = random.choice(("remove", "shorten", "extend", "rename"))
        content = contents.pop(other)
        if change != "remove":
            other = other + "x" if change == "rename" else other
            contents[other] = {"shorten": content[:-1], "extend": content + b"\0"}.get(
                change, content
            )
        told += f"; {change} {other}"
    file = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if random.random() < 0.02 else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", kind) as archive:
        for member, content in contents.items():
            archive.writestr(member, content)
    return file.getvalue(), f"{told}; checksum made to fit"


def _object_of(data: bytes) -> int | None:
    """Where the object is in a file of the old format: after three pickles."""
    at = 0
    try:
        for _ in range(3):
            at += _length(data[at:])
    except ValueError:
        return None
    return at


def _length(data: bytes) -> int:
    for _, _, at in pickletools.genops(data):
        assert at is not None
        last = at
    return last + 1


def instructions(pickled: bytes) -> list[bytes]:
    """The instructions of a pickle, with their arguments."""
    starts = [at for _, _, at in pickletools.genops(pickled) if at is not None]
    return [pickled[a:b] for a, b in zip(starts, [*starts[1:], len(pickled)], strict=True)]


def changed_instructions(random: Random, pickled: bytes) -> tuple[bytes, str]:
    """A pickle with some instructions changed, and how."""
    listed = instructions(pickled)
    told = []
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at = random.randrange(1, len(listed))
        kind = random.choice(("other", "other", "remove", "repeat", "insert", "swap", "copy"))
        if kind == "other":
            listed[at] = another(random, listed[at])
        elif kind == "remove":
            del listed[at]
        elif kind == "repeat":
            listed[at:at] = listed[at : at + random.choice((1, 3, 10))] * random.choice((1, 2, 50))
        elif kind == "insert":
            listed.insert(at, any_instruction(random))
        elif kind == "swap":
            other = random.randrange(1, len(listed))
            listed[at], listed[other] = listed[other], listed[at]
        else:
            listed[at] = random.choice(listed)
        told.append(kind)
        if len(listed) < 3:
            break
    return b"".join(listed), "pickle: " + ", ".join(told)


def another(random: Random, instruction: bytes) -> bytes:
    """An instruction of the same kind with another argument, or any."""
    code = instruction[:1]
    if code in b"KMJ\x8a" and random.random() < 0.8:
        return number(random.choice(NUMBERS))
    if code == b"X" and random.random() < 0.8:
        return text(random.choice(STRINGS))
    if code == b"c" and random.random() < 0.8:
        return name(random)
    if code in b"qh" and random.random() < 0.8:
        return code + bytes([random.randrange(256)])
    return any_instruction(random)


def any_instruction(random: Random) -> bytes:
    kind = random.randrange(6)
    if kind == 0:
        return number(random.choice(NUMBERS))
    if kind == 1:
        return text(random.choice(STRINGS))
    if kind == 2:
        return name(random)
    if kind == 3:
        return random.choice((b"X\xff\xff\xff\xff", b"\x8b\xff\xff\xff\x7f", b"r\xff\xff\xff\xff",
                              b"j\xff\xff\xff\xff", b"\x8d" + b"\xff" * 8, b"T\xff\xff\xff\x7f",
                              b"\x95" + bytes(8), b"G" + b"\x7f\xf0" + bytes(6)))  # fmt: skip
    if kind == 4:
        return bytes([random.randrange(256)])
    return random.choice([b"(", b")", b"]", b"}", b"t", b"\x85", b"\x86", b"\x87", b"R", b"b", b"Q",
                          b"s", b"u", b"a", b"e", b"N", b"\x88", b"0", b"1", b"2", b"\x81", b"\x90",
                          b"\x91", b"\x93", b"\x94", b"\x8f", b"."])  # fmt: skip


def number(value: int) -> bytes:
    data = value.to_bytes(9, "little", signed=True)
    return b"\x8a\x09" + data


def text(value: str) -> bytes:
    encoded = value.encode()
    return b"X" + struct.pack("<I", len(encoded)) + encoded


def name(random: Random) -> bytes:
    return b"c" + random.choice(NAMES).replace(" ", "\n").encode() + b"\n"
