"""Reading ``.pt`` files: zip files and the old format, as PyTorch's ``torch.save`` writes them."""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.files import _zip
from retrograd.files._format import FileFormatError, exactly
from retrograd.files._globals import StorageClass, find
from retrograd.files._storages import CallbackError, Memory, Storage, check_locations, target_of
from retrograd.files._unpickling import RefusedError, Unpickler

MAGIC = b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."  # the number that the old format begins with
FIRST = 32  # bytes that tell the formats apart
_PROTOCOL = 1001


def is_zip(start: bytes) -> bool:
    """Whether a file with these first bytes is a zip file, and not a long safetensors header."""
    return start.startswith(b"PK\3\4") and start[8:9] != b"{"


def is_legacy(start: bytes) -> bool:
    """Whether a file with these first bytes is in PyTorch's format before version 1.6."""
    return start[:1] == b"\x80" and MAGIC in start[:FIRST]


class Source:
    """Bytes of a file at any position.

    Args:
        file: an open file that can be searched.
        first: where it begins.
        size: how many bytes it has from there.
    """

    def __init__(self, file: Any, first: int, size: int) -> None:
        self.file, self.first, self.size = file, first, size

    def read(self, start: int, count: int) -> bytes:
        """Read bytes; ValueError at the end of the file."""
        if start < 0 or start + count > self.size:
            raise ValueError("it is cut off")
        self.file.seek(self.first + start)
        data = exactly(self.file, count)
        if len(data) < count:
            raise ValueError("it has become shorter while it was read")
        return data

    def array(self, start: int, count: int) -> Raw:
        """Bytes as an array of their own."""
        if start < 0 or start + count > self.size:
            raise ValueError("it is cut off")
        result: Any = arrays.empty((count,), dtypes.uint8.numpy)
        if count == 0:
            return result
        if not hasattr(self.file, "readinto"):
            return arrays.from_buffer(
                bytearray(self.read(start, count)), dtypes.uint8.numpy, count, 0
            )
        self.file.seek(self.first + start)
        rest = memoryview(result)
        while rest:
            got = self.file.readinto(rest)
            if not got:
                raise ValueError("it has become shorter while it was read")
            rest = rest[got:]
        return result


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Errors that say which file is wrong."""
    try:
        yield
    except CallbackError as error:
        raise error.__cause__ or error from None
    except RefusedError as error:
        raise RefusedError(f"{name} {error}") from None
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError, AttributeError,
            struct.error) as error:  # fmt: skip
        raise FileFormatError(f"{name} is damaged: {error}") from None


def _described(identity: Any) -> tuple[Storage, Any]:
    """The storage that a persistent id describes, and which part of it is meant."""
    if type(identity) is not tuple or len(identity) not in (5, 6):
        raise ValueError("a storage is described in the wrong way")
    word, kind, key, location, size, *view = identity
    strings = type(key) is str and type(location) is str
    if word not in ("storage", b"storage") or not isinstance(kind, StorageClass) or not strings:
        raise ValueError("a storage is described in the wrong way")
    if type(size) is not int or not 0 <= size < 1 << 62:
        raise ValueError("the size of a storage is wrong")
    return Storage(kind.kind, key, location, size), view[0] if view else None


# -- zip files ---------------------------------------------------------------------------------


class _Archive:
    """The members of a zip file in the folder that its data.pkl is in."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.members = _zip.members(source)
        roots = [name[: -len("data.pkl")] for name in self.members if name.endswith("/data.pkl")]
        roots = [root for root in roots if root.count("/") == 1]
        if len(roots) != 1:
            raise ValueError("it is a zip file, but has no data.pkl as torch.save writes it")
        self.root = roots[0]
        if f"{self.root}constants.pkl" in self.members:
            raise RefusedError(
                "is a TorchScript program, which retrograd does not run. Save its state in "
                "PyTorch: torch.save(torch.jit.load(path).state_dict(), 'state.pt')"
            )
        # PyTorch can be told not to compute checksums, which leaves zeros.
        self.sums = any(member.crc for member in self.members.values())

    def place(self, name: str) -> tuple[int, int, int | None]:
        """Where a member begins, its size, and its checksum."""
        member = self.members.get(self.root + name)
        if member is None:
            raise ValueError(f"it has no member {name[:100]!r}")
        start = _zip.data_start(self.source, self.root + name, member)
        return start, member.size, member.crc if self.sums else None

    def read(self, name: str) -> bytes:
        start, size, crc = self.place(name)
        data = self.source.read(start, size)
        self.check(name, data, crc)
        return data

    def check(self, name: str, data: Any, crc: int | None) -> None:
        if crc is not None and zlib.crc32(data) != crc:
            raise ValueError(f"the bytes of {name[:100]!r} were changed")

    def big_endian(self) -> bool:
        order = self.read("byteorder") if f"{self.root}byteorder" in self.members else b"little"
        if order not in (b"little", b"big"):
            raise ValueError("it has an unknown order of bytes")
        return order == b"big"


def load_zip(source: Source, name: str, map_location: Any, encoding: str,
             mapped: Any = None) -> Any:  # fmt: skip
    """The contents of a zip file. ``mapped`` is the memory of the file, if it is to be shared."""
    memories: dict[str, Memory] = {}
    storages: list[Storage] = []
    target = target_of(map_location)
    with _named(name):
        archive = _Archive(source)
        swapped = archive.big_endian()

        def fetch(storage: Storage) -> Memory:
            member = f"data/{storage.key}"
            start, size, crc = archive.place(member)
            if mapped is not None and size and not swapped and not start % 16:
                return Memory(arrays.from_buffer(mapped, dtypes.uint8.numpy, size, start))
            data = source.array(start, size)
            if mapped is None:
                archive.check(member, data, crc)
            return Memory(_swapped(data, storage) if swapped else data)

        def persistent(identity: Any) -> Storage:
            storage, view = _described(identity)
            if view is not None:
                raise ValueError("a zip file has no views of storages")
            if storage.key not in memories:
                memories[storage.key] = fetch(storage)
            storage.memory = memories[storage.key]
            if storage.size * storage.kind.itemsize != storage.memory.nbytes:
                raise ValueError(f"the size of storage {storage.key[:40]!r} is wrong")
            storages.append(storage)
            storage.location = target(storage)
            return storage

        result = Unpickler(archive.read("data.pkl"), find, persistent, None, encoding).load()
    check_locations(storages)
    return result


def _swapped(data: Raw, storage: Storage) -> Raw:
    """The bytes of a machine that writes the first last, in our order."""
    width = storage.kind.itemsize // (2 if getattr(storage.kind, "is_complex", False) else 1)
    if data.size % width:
        raise ValueError(f"the size of storage {storage.key[:40]!r} is wrong")
    return arrays.ascontiguous(data.reshape(-1, width)[:, ::-1]).reshape(-1)


# -- the old format ----------------------------------------------------------------------------


def load_legacy(source: Source, name: str, map_location: Any, encoding: str) -> tuple[Any, int]:
    """The contents of a file in the old format, and where it ends.

    Five pickles come first, of which the fourth is the object and the fifth the keys of storages;
    then the storages. The object is read twice: the first time to find out how large its storages
    are, since what comes after it cannot be found otherwise.
    """
    sizes: dict[str, Storage] = {}
    used: list[Storage] = []
    memories: dict[str, Memory] = {}
    target = target_of(map_location)

    def measured(identity: Any) -> Storage:
        storage, _ = _described(identity)
        before = sizes.setdefault(storage.key, storage)
        if (before.kind, before.size) != (storage.kind, storage.size):
            raise ValueError("a storage is described in two ways")
        return storage

    def persistent(identity: Any) -> Storage:
        storage, view = _described(identity)
        if storage.key not in memories:
            raise ValueError("a storage is missing")
        storage.memory = memories[storage.key]
        used.append(storage)
        storage.location = target(storage)
        if view is None:
            return storage
        if type(view) is not tuple or len(view) != 3 or {type(x) for x in view[1:]} != {int}:
            raise ValueError("a view of a storage is described in the wrong way")
        return storage.part(view[1], view[2])

    with _named(name):
        reader = _Sequence(source, encoding)
        reader.next(_no_storage)
        if reader.next(_no_storage) != _PROTOCOL:
            raise ValueError("it is of an unknown version of PyTorch's old format")
        little = reader.next(_no_storage).get("little_endian", True)
        if little is not True:
            raise ValueError("it was written on a machine with another order of bytes")
        start = reader.at
        reader.next(measured)
        keys = reader.next(_no_storage)
        if type(keys) is not list or any(type(key) is not str for key in keys):
            raise ValueError("the keys of its storages are not a list of strings")
        end = _read_storages(source, reader.at, keys, sizes, memories)
        reader.at = start
        result = reader.next(persistent)
    check_locations(used)
    return result, end


def _no_storage(identity: Any) -> Any:
    raise ValueError("a storage is where none can be")


class _Sequence:
    """Pickles one after the other."""

    def __init__(self, source: Source, encoding: str) -> None:
        self.source, self.encoding = source, encoding
        self.data, self.at = b"", 0

    def next(self, persistent: Callable[[Any], Any]) -> Any:
        reader = Unpickler(self.data, find, persistent, self._more, self.encoding)
        reader.at = self.at
        result = reader.load()
        self.data, self.at = reader.data, reader.at
        return result

    def _more(self, count: int) -> bytes:
        have = len(self.data)
        piece = self.source.read(have, min(count, self.source.size - have))
        self.data += piece
        return piece


def _read_storages(source: Source, at: int, keys: list[str], sizes: dict[str, Storage],
                   memories: dict[str, Memory]) -> int:  # fmt: skip
    """Read the storages, which follow one another. Where the last one ends."""
    for key in keys:
        if key not in sizes or key in memories:
            raise ValueError("the keys of its storages are not those of its tensors")
        storage = sizes[key]
        if int.from_bytes(source.read(at, 8), "little", signed=True) != storage.size:
            raise ValueError(f"the size of storage {key[:40]!r} is wrong")
        count = storage.size * storage.kind.itemsize
        memories[key] = Memory(source.array(at + 8, count))
        at += 8 + count
    return at


# -- which of them -----------------------------------------------------------------------------


def load(file: Any, start: int, size: int, name: str, map_location: Any, encoding: str,
         mapped: Any = None) -> Any:  # fmt: skip
    """The contents of an open file of either kind, from a position on."""
    source = Source(file, start, size)
    with _named(name):
        first = source.read(0, min(size, FIRST))
    if is_zip(first):
        result = load_zip(source, name, map_location, encoding, mapped)
        file.seek(start + size)
        return result
    if mapped is not None:
        raise RuntimeError(
            "mmap can only be used with files saved with "
            f"`torch.save({name}, _use_new_zipfile_serialization=True)`, please torch.save your "
            "checkpoint with this option in order to use mmap."
        )
    result, end = load_legacy(source, name, map_location, encoding)
    file.seek(start + end)
    return result
