"""``save`` and ``load``: trees with tensors, as PyTorch's files and as safetensors files."""

from __future__ import annotations

import io
import json
import math
import mmap as memory_maps
import os
import stat
import zlib
from collections.abc import Callable, Iterable
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.autograd._wrap import wrap
from retrograd.files import _format, _pickling, _pt
from retrograd.files._atomic import write_all, written_whole
from retrograd.files._format import DTYPES, NARROW, Entry, FileFormatError, Header
from retrograd.files._narrow import widened
from retrograd.files._sharing import shared, view_of
from retrograd.files._trees import Decoder, Encoder, flags_of, is_name
from retrograd.tensor._device import check_readable
from retrograd.tensor._tensor import Tensor

VERSION = 1
SKELETON = "retrograd"  # the key of the metadata under which the tree is
_NAMES = {dtype.name: name for name, dtype in DTYPES.items()}


# -- saving ------------------------------------------------------------------------------------


def save(obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = 2,
         _use_new_zipfile_serialization: bool = True, *,
         format: str | None = None) -> None:  # fmt: skip
    """Write tensors, or nested data with tensors, to a file that PyTorch's ``torch.load`` reads.

    A file at a path is replaced atomically. If its name ends with ``.safetensors``, it becomes a
    safetensors file instead. Loading a file cannot run code. With
    ``_use_new_zipfile_serialization=False``, the format is that of PyTorch before version 1.6.

    Args:
        obj: the data.
        f: a path or a file object.
        pickle_module: must be None.
        pickle_protocol: must be 2.
        format: ``"pt"`` or ``"safetensors"``. By default, the name of the file decides.

    Example:
        >>> import retrograd as torch, io
        >>> file = io.BytesIO()
        >>> torch.save({"weight": torch.ones(2), "step": 3}, file)
        >>> _ = file.seek(0)
        >>> torch.load(file)
        {'weight': tensor([1., 1.]), 'step': 3}
    """
    is_path = isinstance(f, (str, os.PathLike))
    if not is_path and not hasattr(f, "write"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
        )
    if isinstance(f, io.TextIOBase):
        raise TypeError("'f' is open for text. Open it in binary mode: open(path, 'wb')")
    if pickle_protocol != 2 or getattr(pickle_module, "__name__", "pickle") != "pickle":
        raise ValueError(
            "files are written with pickle protocol 2, and by no pickle module. Leave "
            "pickle_protocol and pickle_module out."
        )
    path = os.fsdecode(f) if is_path else ""
    # All that can be wrong with obj is found here, before a file is touched.
    pieces = _pieces(obj, path, format, _use_new_zipfile_serialization)
    if not is_path:
        _write(f, pieces)
        return
    with written_whole(path) as file:
        _write(file, pieces)


def _pieces(obj: Any, path: str, format: str | None, new: bool) -> Iterable[Any]:
    """The bytes of a file, piece by piece."""
    if format not in (None, "pt", "safetensors"):
        raise ValueError(f"format must be 'pt' or 'safetensors', not {format!r}")
    if format == "safetensors" or (format is None and path.endswith(".safetensors")):
        start, contents = _laid_out(obj)
        return (start, *(_bytes(array) for array in contents if array.size))
    if not new:
        return _pickling.legacy_pieces(obj)
    root = os.path.splitext(os.path.basename(path))[0] or "archive"
    return _pickling.zip_pieces(obj, root)


def _write(file: Any, pieces: Iterable[Any]) -> None:
    for piece in pieces:
        write_all(file, piece)


def _bytes(array: Raw) -> Any:
    return arrays.ascontiguous(array).reshape(-1).view("uint8")


def _sum(array: Raw) -> int:
    """A checksum of the elements."""
    return zlib.crc32(_bytes(array)) if array.size else 0


def _sum_of_header(skeleton: dict[str, Any], stored: dict[str, tuple[str, tuple[int, ...]]]) -> int:
    """A checksum of all else."""
    about = [skeleton["tree"], skeleton["tensors"], skeleton["sums"], list(stored.items())]
    return zlib.crc32(json.dumps(about).encode())


def _laid_out(obj: Any) -> tuple[bytes, list[Raw]]:
    """The first bytes of a file for ``obj``, and the arrays whose bytes follow."""
    encoder = Encoder()
    tree = encoder.encoded(obj)
    abouts = {name: flags_of(name, tensor) for name, tensor in encoder.tensors.items()}
    result = {name: tensor._array(force=True) for name, tensor in encoder.tensors.items()}
    flat = isinstance(obj, dict) and all(
        type(key) is str and isinstance(value, Tensor) for key, value in obj.items()
    )
    names = {*result, *obj} if flat else {*result}
    stretches, shared_parts = shared(result, names, not flat)
    for name, part in shared_parts.items():
        abouts[name] |= part
    if flat:  # other programs do not know of sharing: for them, every key has its own bytes
        also = {key: result[encoder.name_of(x)] for key, x in obj.items() if is_name(key)}
        written = result | also | stretches
    else:
        written = {k: x for k, x in result.items() if k not in shared_parts} | stretches
    table = {name: about for name, about in abouts.items() if about}
    stored = {name: _stored_as(array) for name, array in written.items()}
    metadata = {"format": "pt"} if flat else {"format": SKELETON}
    if table or not flat or type(obj) is not dict or tree != {k: {"$tensor": k} for k in result}:
        skeleton = {"version": VERSION, "tree": tree, "tensors": table}
        if not flat:
            skeleton["sums"] = {name: _sum(array) for name, array in written.items()}
            skeleton["sum"] = _sum_of_header(skeleton, stored)
        metadata[SKELETON] = json.dumps(skeleton, allow_nan=False, separators=(",", ":"))
    start, order = _format.header_bytes(((name, *at) for name, at in stored.items()), metadata)
    return start, [written[name] for name in order]


def _stored_as(array: Raw) -> tuple[str, tuple[int, ...]]:
    """The dtype and shape of an array in a file, which knows no complex128."""
    dtype = dtypes.from_numpy_dtype(array.dtype)
    if dtype is dtypes.complex128:
        return "F64", (*array.shape, 2)
    return _NAMES[dtype.name], array.shape


# -- loading -----------------------------------------------------------------------------------


def load(f: Any, map_location: Any = None, pickle_module: Any = None, *,
         weights_only: bool | None = True, mmap: bool | None = None,
         encoding: str = "utf-8") -> Any:  # fmt: skip
    """Reads a file written by ``save`` or PyTorch's ``torch.save``, or any safetensors file.

    Pickles are read by a reader that can run no code: it knows tensors, numbers, strings,
    collections of them, and nothing else. Elements in formats of eight bits (float8) become
    float32. A file that is damaged or in another format raises a
    ``retrograd.files.FileFormatError``.

    Args:
        f: a path or a file object.
        map_location: where to put tensors that were on other devices: a device, which must be the
            CPU, a dictionary of devices, or a function of a storage and the name of its device.
        pickle_module: must be None.
        weights_only: no effect, since files cannot run code.
        mmap: read elements from the file on first use. Writing to such a tensor does not change the
            file.
        encoding: that of strings in files that Python 2 wrote.

    Returns:
        The data.

    Example:
        >>> import retrograd as torch, io
        >>> file = io.BytesIO()
        >>> torch.save([torch.arange(3), (1, None)], file)
        >>> _ = file.seek(0)
        >>> torch.load(file)
        [tensor([0, 1, 2]), (1, None)]
    """
    _check_location(map_location)
    if isinstance(f, (str, os.PathLike)):
        return _load_path(os.fsdecode(f), bool(mmap), map_location, encoding)
    if mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    if not hasattr(f, "read"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'read' attribute"
        )
    if isinstance(f, io.TextIOBase):
        raise TypeError("'f' is open for text. Open it in binary mode: open(path, 'rb')")
    file_name = getattr(f, "name", None)
    name = file_name if isinstance(file_name, str) else f"the {type(f).__name__}"
    return _load_file(f, name, map_location, encoding)


def _check_location(location: Any) -> None:
    """There is only the CPU to load to."""
    if isinstance(location, dict):
        location = location.get("cpu")
    if location is not None and not callable(location):
        check_readable(location)


def _load_path(path: str, mapped: bool, map_location: Any, encoding: str) -> Any:
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(_pt.FIRST)
        file.seek(0)
        memory = None
        if mapped and size:
            memory = memory_maps.mmap(file.fileno(), size, access=memory_maps.ACCESS_COPY)
        if _pt.is_zip(start) or _pt.is_legacy(start):
            return _pt.load(file, 0, size, path, map_location, encoding, memory)
        header = _format.read_header(file, path, size)
        if memory is not None:
            return _assembled(header, path, lambda entry: _mapped(memory, header, entry), False)
        return _assembled(
            header, path, lambda entry: _read(file, header.data_start, entry, path), True
        )


def open_regular(path: str) -> Any:
    """A file open for reading. Devices and pipes may never end, or never begin."""
    if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):
        raise FileFormatError(f"{path} is not a regular file. Open it, and give the file object.")
    return open(path, "rb")


def _load_file(file: Any, name: str, map_location: Any, encoding: str) -> Any:
    try:
        start = file.tell()
        end = file.seek(0, io.SEEK_END)
        file.seek(start)
    except (AttributeError, OSError, ValueError):  # it can only be read on
        start = end = None
    beginning = _format.exactly(file, _pt.FIRST)
    if _pt.is_zip(beginning) or _pt.is_legacy(beginning):
        if end is None:
            file, start = io.BytesIO(beginning + _format.exactly(file, 1 << 62)), 0
            end = file.seek(0, io.SEEK_END)
        return _pt.load(file, start, end - start, name, map_location, encoding)
    if end is None:
        file = _Rejoined(beginning, file)
    else:
        file.seek(start)
    if end is None or not hasattr(file, "readinto"):
        header = _format.read_header(file, name, None if end is None else end - start)
        data = _format.exactly(file, header.data_size + (end is None))
        if len(data) != header.data_size:
            how = "ends too early" if len(data) < header.data_size else "goes on too long"
            raise FileFormatError(f"{name} {how} for a file of {header.data_size} bytes of tensors")
        file, first = io.BytesIO(data), 0
    else:
        header = _format.read_header(file, name, end - start)
        first = start + header.data_start
    result = _assembled(header, name, lambda entry: _read(file, first, entry, name), True)
    file.seek(0, io.SEEK_END)
    return result


class _Rejoined:
    """A file that can only be read on, with the bytes that were read already."""

    def __init__(self, first: bytes, file: Any) -> None:
        self._first, self._file = first, file

    def read(self, count: int) -> Any:
        piece, self._first = self._first[:count], self._first[count:]
        return piece or self._file.read(count)


def _read(file: Any, data_start: int, entry: Entry, name: str) -> Raw:
    """The elements of an entry, read into memory of their own."""
    dtype = DTYPES.get(entry.dtype) or NARROW[entry.dtype]
    array = arrays.empty(entry.shape, dtype.numpy)
    if array.size:
        file.seek(data_start + entry.start)
        as_bytes: Any = array.reshape(-1).view("uint8")
        rest = memoryview(as_bytes)
        while rest:
            count = file.readinto(rest)
            if not count:
                raise FileFormatError(f"{name} has become shorter while it was read")
            rest = rest[count:]
    return array


def _mapped(memory: memory_maps.mmap, header: Header, entry: Entry) -> Raw:
    """The elements of an entry where they are in the file."""
    dtype = DTYPES.get(entry.dtype) or NARROW[entry.dtype]
    count = math.prod(entry.shape)
    if not count:
        return arrays.empty(entry.shape, dtype.numpy)
    array = arrays.from_buffer(memory, dtype.numpy, count, header.data_start + entry.start)
    return (array if array.flags.aligned else array.copy()).reshape(entry.shape)


# -- making the tree again ---------------------------------------------------------------------


class _Tensors:
    """The tensors of a file by name, each read when it is first asked for."""

    def __init__(self, header: Header, fetch: Callable[[Entry], Raw], table: Any,
                 sums: Any = None) -> None:  # fmt: skip
        if not isinstance(table, dict) or not all(isinstance(x, dict) for x in table.values()):
            raise ValueError("the table of tensors is not one")
        self.header, self.fetch, self.table, self.sums = header, fetch, table, sums
        self.made: dict[str, Tensor] = {}
        self.read: dict[str, Raw] = {}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.made:
            self.made[name] = self._make(name, dict(self.table.get(name, {})))
        return self.made[name]

    def _make(self, name: str, about: dict[str, Any]) -> Tensor:
        flags = {key: about.pop(key, False) for key in ("parameter", "requires_grad", "complex")}
        if not all(isinstance(flag, bool) for flag in flags.values()):
            raise ValueError(f"the table is wrong about tensor {name[:100]!r}")
        memory = about.pop("memory", name)
        array = self._array(memory)
        if about:
            array = view_of(array, about)
        elif flags["complex"]:
            if array.dtype != dtypes.float64.numpy or array.shape[-1:] != (2,):
                raise ValueError(f"tensor {name[:100]!r} is not of pairs of float64")
            array = array.reshape(-1).view("complex128").reshape(array.shape[:-1])
        if array.dtype == dtypes.bool_.numpy and array.size and array.view("uint8").max() > 1:
            raise ValueError(f"the booleans of tensor {name[:100]!r} are not 0 or 1")
        tensor: Tensor = wrap(array)
        if flags["requires_grad"] and not (tensor.is_floating_point() or tensor.is_complex()):
            raise ValueError(f"tensor {name[:100]!r} of {tensor.dtype} cannot require a gradient")
        if flags["parameter"]:
            from retrograd.nn.parameter import Parameter

            tensor = Parameter(tensor, requires_grad=False)
        return tensor.requires_grad_() if flags["requires_grad"] else tensor

    def _array(self, name: Any) -> Raw:
        entry = self.header.entries.get(name) if isinstance(name, str) else None
        if entry is None:
            raise ValueError(f"there is no tensor {str(name)[:100]!r}")
        if name not in self.read:
            array = self.fetch(entry)
            if self.sums is not None and _sum(array) != self.sums[name]:
                raise ValueError(f"the elements of tensor {name[:100]!r} were changed")
            self.read[name] = widened(array, entry.dtype) if entry.dtype in NARROW else array
        return self.read[name]


def _assembled(header: Header, name: str, fetch: Callable[[Entry], Raw], sums: bool) -> Any:
    """The tree of a file; without a skeleton, a dict of its tensors."""
    try:
        skeleton = _skeleton(header, name)
        if skeleton is None:
            tensors = _Tensors(header, fetch, {})
            return {key: tensors[key] for key in header.entries}
        checked = skeleton.get("sums") if sums else None
        tensors = _Tensors(header, fetch, skeleton["tensors"], checked)
        return Decoder(tensors.__getitem__).decoded(skeleton["tree"])
    except (ValueError, OverflowError, RecursionError) as error:
        raise FileFormatError(f"{name} is damaged: {error}") from None


def _skeleton(header: Header, name: str) -> dict[str, Any] | None:
    text = header.metadata.get(SKELETON)
    if text is None:
        if SKELETON in header.metadata.get("format", ""):  # also if it ends in something else
            raise ValueError("the tree is missing")
        return None
    skeleton = _format.parse(text)
    version = skeleton.get("version")
    if type(version) is int and version > VERSION:
        raise FileFormatError(
            f"{name} is of version {version} of retrograd's files, and this retrograd reads up to "
            f"{VERSION}. Install a newer one."
        )
    summed = header.metadata.get("format") == SKELETON or "sums" in skeleton
    expected = {"version", "tree", "tensors"} | ({"sums", "sum"} if summed else set())
    if version != VERSION or set(skeleton) != expected:
        raise ValueError(f"it must have {', '.join(sorted(expected))}")
    if summed:
        stored = {key: entry[:2] for key, entry in header.entries.items()}
        if skeleton["sum"] != _sum_of_header(skeleton, stored):
            raise ValueError("the header was changed")
        if not isinstance(skeleton["sums"], dict) or set(skeleton["sums"]) != set(stored):
            raise ValueError("there are not the right checksums")
    return skeleton


def peek(path: str, *keys: str) -> Any:
    """A value of a file's tree by its path, without reading tensors; None if it does not exist."""
    with open_regular(path) as file:
        header = _format.read_header(file, path, os.fstat(file.fileno()).st_size)
    try:
        result: Any = (_skeleton(header, path) or {}).get("tree")
        for key in keys:
            result = result.get(key) if isinstance(result, dict) else None
        return Decoder(lambda name: wrap(arrays.zeros((), dtypes.float32.numpy))).decoded(result)
    except (ValueError, OverflowError, RecursionError) as error:
        raise FileFormatError(f"{path} is damaged: {error}") from None


__all__ = ["FileFormatError", "load", "save"]
