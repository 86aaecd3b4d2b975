"""Writing ``.pt`` files that PyTorch reads, with ``weights_only=True`` too."""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple

from retrograd import arrays
from retrograd.arrays import RAW_TYPES, Raw, dtypes
from retrograd.files import _zip
from retrograd.files._pt import MAGIC
from retrograd.files._sharing import Span, groups, stretch
from retrograd.files._storages import STORAGES
from retrograd.files._trees import DEEPEST, flags_of, is_state_dict, place_of, reason_against
from retrograd.tensor._tensor import Size, Tensor, device

_STORAGE_OF = {kind: name for name, kind in STORAGES.items() if name != "UntypedStorage"}
_COLLECTIONS = {OrderedDict: "collections\nOrderedDict", Counter: "collections\nCounter",
                set: "__builtin__\nset", frozenset: "__builtin__\nfrozenset"}  # fmt: skip
_CONTAINERS = {list, tuple, Size, dict, *_COLLECTIONS}
_V2, _V3 = "torch._utils\n_rebuild_tensor_v2", "torch._utils\n_rebuild_tensor_v3"


class _Place(NamedTuple):
    """Where the elements of a tensor are."""

    key: int
    storage_size: int
    offset: int
    stride: tuple[int, ...]


class _Call(NamedTuple):
    """A value that is made by calling a function."""

    name: str
    arguments: tuple[Any, ...]


class Pickler:
    """Makes the pickle of a tree. Storages are numbered, and are written elsewhere.

    Args:
        legacy: whether the old format is written, which describes storages with one entry more.
    """

    def __init__(self, legacy: bool = False) -> None:
        self._legacy = legacy
        self._pieces: list[bytes] = [b"\x80\x02"]
        self._memo: dict[int, int] = {}
        self._texts: dict[str, int] = {}  # strings and names by what they are
        self._count = 0  # of memo entries
        self._kept: list[Any] = []  # while an id is in the memo, the object must live
        self._holes: list[tuple[int, Tensor, Raw]] = []  # where tensors go

    def pickled(self, value: Any) -> tuple[bytes, list[Raw]]:
        """The pickle, and the storages as flat arrays."""
        self._write(value, ())
        self._pieces.append(b".")
        storages, places = _laid_out([array for _, _, array in self._holes])
        for (hole, tensor, array), where in zip(self._holes, places, strict=True):
            self._pieces[hole] = self._tensor_pickle(tensor, array, where)
        return b"".join(self._pieces), storages

    # -- pieces --------------------------------------------------------------------------------

    def _put(self) -> int:
        index = self._count
        self._count += 1
        put = b"q" + bytes([index]) if index < 256 else b"r" + struct.pack("<I", index)
        self._pieces.append(put)
        return index

    def _get(self, index: int) -> None:
        self._pieces.append(
            b"h" + bytes([index]) if index < 256 else b"j" + struct.pack("<I", index)
        )

    def _text(self, text: str) -> None:
        if text in self._texts:
            self._get(self._texts[text])
            return
        self._pieces.append(_text(text))
        self._texts[text] = self._put()

    def _name(self, name: str) -> None:
        """A name to look up: a module and a name in it."""
        self._pieces.append(_name(name))

    def _remember(self, value: Any) -> None:
        self._memo[id(value)] = self._put()
        self._kept.append(value)

    # -- values --------------------------------------------------------------------------------

    def _write(self, value: Any, path: tuple[Any, ...]) -> None:
        """Write a value. TypeError names the path of what cannot be saved."""
        kind = type(value)
        if id(value) in self._memo:
            self._get(self._memo[id(value)])
        elif value is None or kind in (bool, int, float):
            self._pieces.append(_number(value))
        elif kind is str:
            self._text(value)
        elif kind.__module__ == "retrograd.sparse":
            self._sparse(value)
        elif isinstance(value, Tensor):
            self._tensor(value, path)
        elif kind in _ATOMS:
            self._call(*_ATOMS[kind](value))
        elif len(path) > DEEPEST:
            raise ValueError(
                f"cannot save {place_of(path[:3])}...: it is nested more than {DEEPEST} deep"
            )
        elif kind in _CONTAINERS or is_state_dict(value):
            self._collection(value, kind, path)
        elif issubclass(kind, RAW_TYPES[1]) and type(value.item()) in (bool, int, float, complex,
                                                                       str, bytes):  # fmt: skip
            self._write(value.item(), path)  # a NumPy number is saved as Python's
        elif kind is _Call:
            self._call(value.name, *value.arguments)
        elif isinstance(value, dtypes.dtype):
            self._name(f"torch\n{value.name}")
        else:
            raise TypeError(f"cannot save {place_of(path)}, {reason_against(value)}")

    def _call(self, name: str, *arguments: Any) -> None:
        self._name(name)
        self._pieces.append(b"(")
        for argument in arguments:
            self._write(argument, ())
        self._pieces.append(b"tR")

    def _sparse(self, matrix: Any) -> None:
        """A sparse tensor, as PyTorch writes it: its layout, indices, values and size."""
        size, layout = Size(matrix.shape), str(matrix.layout)
        if matrix.is_sparse:
            parts: tuple[Any, ...] = (
                matrix._indices(), matrix._values(), size, matrix.is_coalesced()
            )  # fmt: skip
        elif layout in ("torch.sparse_csr", "torch.sparse_bsr"):
            parts = (matrix.crow_indices(), matrix.col_indices(), matrix.values(), size)
        else:
            parts = (matrix.ccol_indices(), matrix.row_indices(), matrix.values(), size)
        self._kept.append(parts)
        named = _Call("torch.serialization\n_get_layout", (layout,))
        self._call("torch._utils\n_rebuild_sparse_tensor", named, parts)
        self._remember(matrix)

    def _collection(self, value: Any, kind: type, path: tuple[Any, ...]) -> None:
        if kind is list:
            self._pieces.append(b"]")
            self._remember(value)
            self._items(value, path, b"e")
        elif kind is tuple or kind is Size:
            if kind is Size:
                self._name("torch\nSize")
            self._items(value, path, b"t", always=True)
            if kind is Size:
                self._pieces.append(b"\x85R")
            if id(value) in self._memo:  # it contains itself, through a list
                raise ValueError(f"cannot save {place_of(path)}: it contains itself")
            self._remember(value)
        elif kind in (set, frozenset):
            self._name(_COLLECTIONS[kind])
            self._pieces.append(b"]")
            self._items([_key(x, path) for x in value], path, b"e")
            self._pieces.append(b"\x85R")
            self._remember(value)
        else:
            self._mapping(value, kind, path)

    def _mapping(self, value: Any, kind: type, path: tuple[Any, ...]) -> None:
        if kind is dict:
            self._pieces.append(b"}")
        elif kind is Counter:
            self._call(_COLLECTIONS[Counter])
        else:  # a module's state is an OrderedDict with an attribute
            self._call(_COLLECTIONS[OrderedDict])
        self._remember(value)
        if value:
            self._pieces.append(b"(")
            for key, item in value.items():
                self._write(_key(key, path), (*path, key))
                self._write(item, (*path, key))
            self._pieces.append(b"u")
        attributes = vars(value) if isinstance(value, OrderedDict) else None
        if attributes:
            if set(attributes) - {"_metadata"}:
                raise TypeError(f"cannot save the attributes of the OrderedDict {place_of(path)}")
            self._write(dict(attributes), (*path, "attributes"))
            self._pieces.append(b"b")

    def _items(self, items: Any, path: tuple[Any, ...], end: bytes, always: bool = False) -> None:
        if not items and not always:
            return
        self._pieces.append(b"(")
        for i, item in enumerate(items):
            self._write(item, (*path, i))
        self._pieces.append(end)

    # -- tensors -------------------------------------------------------------------------------

    def _tensor(self, tensor: Tensor, path: tuple[Any, ...]) -> None:
        """Leave a hole for a tensor: which of them share memory is known at the end only."""
        flags_of(place_of(path), tensor)
        self._holes.append((len(self._pieces), tensor, tensor._array(force=True)))
        self._pieces.append(b"")
        self._remember(tensor)

    def _tensor_pickle(self, tensor: Tensor, array: Raw, where: _Place) -> bytes:
        dtype = dtypes.from_numpy_dtype(array.dtype)
        flags = flags_of("", tensor)
        requires_grad = bool(flags.get("requires_grad"))
        class_of = _STORAGE_OF.get(dtype)
        storage_class = f"torch\n{class_of}" if class_of else "torch.storage\nUntypedStorage"
        size = where.storage_size * (1 if class_of else dtype.itemsize)
        place = _text(location_of(tensor))
        identity = [_text("storage"), _name(storage_class), _text(str(where.key)), place,
                    _number(size), *([b"N"] if self._legacy else [])]  # fmt: skip
        parts = [b"(", *identity, b"tQ", _number(where.offset), _numbers(array.shape),
                 _numbers(where.stride), _number(requires_grad and "parameter" not in flags),
                 _NO_HOOKS]  # fmt: skip
        if class_of is None:
            parts.append(_name(f"torch\n{dtype.name}"))
        result = _name(_V2 if class_of else _V3) + b"(" + b"".join(parts) + b"tR"
        if "parameter" in flags:
            made = _name("torch._utils\n_rebuild_parameter")
            result = made + b"(" + result + _number(requires_grad) + _NO_HOOKS + b"tR"
        return result


def location_of(tensor: Tensor) -> str:
    """The device that a file says a tensor was on: a GPU, which PyTorch knows too, or the CPU."""
    return str(tensor.device) if tensor.is_cuda else "cpu"


def _name(name: str) -> bytes:
    return b"c" + name.encode() + b"\n"


def _text(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) >= 1 << 32:
        raise ValueError("a string of 4 GB or more cannot be saved")
    return b"X" + struct.pack("<I", len(encoded)) + encoded


def _number(value: bool | int | float | None) -> bytes:
    if value is None:
        return b"N"
    if type(value) is bool:
        return b"\x88" if value else b"\x89"
    if type(value) is float:
        return b"G" + struct.pack(">d", value)
    if 0 <= value < 256:
        return b"K" + bytes([int(value)])
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    data = int(value).to_bytes(int(value).bit_length() // 8 + 1, "little", signed=True)
    if len(data) < 256:
        return b"\x8a" + bytes([len(data)]) + data
    return b"\x8b" + struct.pack("<i", len(data)) + data


def _numbers(values: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(map(_number, values)) + b"t"


_NO_HOOKS = _name(_COLLECTIONS[OrderedDict]) + b")R"

_ATOMS: dict[type, Any] = {
    complex: lambda value: ("__builtin__\ncomplex", value.real, value.imag),
    bytes: lambda value: ("_codecs\nencode", value.decode("latin1"), "latin1"),
    bytearray: lambda value: ("__builtin__\nbytearray", bytes(value)),
    device: lambda value: ("torch\ndevice", value.type,
                           *(() if value.index is None else (value.index,))),
}  # fmt: skip


def _key(key: Any, path: tuple[Any, ...]) -> Any:
    """A key or an element of a set, which must not be a tensor: in a file these are not the same
    object any more."""
    waiting = [key]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Tensor):
            raise TypeError(f"cannot save {place_of(path)}: a tensor is a key or in a set there")
        if type(item) in (tuple, frozenset):
            waiting.extend(item)
    return key


# -- storages ----------------------------------------------------------------------------------


def _laid_out(raw_arrays: list[Raw]) -> tuple[list[Raw], list[_Place]]:
    """Storages for arrays, which share one where they share memory."""
    storages: list[Raw] = []
    places: dict[int, _Place] = {}
    named: dict[str, Raw] = {}
    for i, array in enumerate(raw_arrays):
        if array.size and all(step >= 0 and not step % array.itemsize for step in array.strides):
            named[str(i)] = array
        else:  # PyTorch has no steps backwards
            own = arrays.ascontiguous(array)
            places[i] = _Place(len(storages), own.size, 0, arrays.strides(own))
            storages.append(own.reshape(-1))
    for group in groups(named):
        memory, start = _memory_of(group)
        for span in group:
            offset, rest = divmod(span.start - start, span.array.itemsize)
            if rest or span.array.dtype != memory.dtype:
                raise RuntimeError(
                    "Cannot save multiple tensors or storages that view the same data as different "
                    "types. Save clones of them."
                )
            places[int(span.name)] = _Place(
                len(storages), memory.size, offset, arrays.strides(span.array)
            )
        storages.append(memory)
    return storages, [places[i] for i in range(len(raw_arrays))]


def _memory_of(group: list[Span]) -> tuple[Raw, int]:
    """The memory that a group of arrays lies in, and its address."""
    start, stop = group[0].start, max(span.stop for span in group)
    for span in group:
        if (span.start, span.stop) == (start, stop) and span.array.flags.c_contiguous:
            return span.array.reshape(-1), start
    first = group[0].array
    if (stop - start) % first.itemsize:
        raise RuntimeError(
            "Cannot save multiple tensors or storages that view the same data as different types. "
            "Save clones of them."
        )
    memory: Any = stretch(group, start, stop)
    return memory.view(first.dtype), start


# -- files -------------------------------------------------------------------------------------


def zip_pieces(obj: Any, root: str) -> Iterator[Any]:
    """The bytes of a zip file, piece by piece. All that can be wrong with ``obj`` is found before
    the first."""
    pickled, storages = Pickler().pickled(obj)
    contents: list[tuple[str, Any]] = [
        ("data.pkl", pickled), (".format_version", b"1"),
        (".storage_alignment", str(_zip.ALIGNMENT).encode()), ("byteorder", b"little"),
        *((f"data/{i}", _bytes(storage)) for i, storage in enumerate(storages)),
        ("version", b"3\n"),
    ]  # fmt: skip
    return _zip.pieces((f"{root}/{name}", content) for name, content in contents)


def legacy_pieces(obj: Any) -> Iterator[Any]:
    """The bytes of a file in the format before version 1.6 of PyTorch."""
    pickled, storages = Pickler(legacy=True).pickled(obj)
    sizes = {"short": 2, "int": 4, "long": 4}
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": sizes}
    keys = [str(i) for i in range(len(storages))]
    first = [b"\x80\x02" + MAGIC, *(Pickler().pickled(x)[0] for x in (1001, system)), pickled]
    first.append(Pickler().pickled(keys)[0])

    def pieces() -> Iterator[Any]:
        yield b"".join(first)
        for storage in storages:
            typed = dtypes.from_numpy_dtype(storage.dtype) in _STORAGE_OF
            count = storage.size if typed else storage.nbytes
            yield struct.pack("<q", count)
            yield _bytes(storage)

    return pieces()


def _bytes(array: Raw) -> Any:
    return arrays.ascontiguous(array).reshape(-1).view("uint8") if array.size else b""
