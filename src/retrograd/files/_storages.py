"""Storages and tensors as PyTorch's files describe them.

A storage is a flat piece of memory of one dtype. A tensor is a storage with an offset, a shape and
strides, so that tensors which share memory share it after loading.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.autograd._wrap import Plug, wrap
from retrograd.files._format import NARROW, is_shape
from retrograd.files._narrow import widened
from retrograd.tensor._device import COMPUTES, check_readable, device, placed
from retrograd.tensor._tensor import Tensor


class Narrow(NamedTuple):
    """A dtype of PyTorch that NumPy lacks. Its elements are loaded as float32."""

    name: str
    code: str  # what safetensors calls it

    @property
    def itemsize(self) -> int:
        """The bytes of an element in a file."""
        return NARROW[self.code].itemsize

    def __repr__(self) -> str:
        return f"torch.{self.name}"


Kind = dtypes.dtype | Narrow

NARROW_KINDS = {
    name: Narrow(name, code) for name, code in (
        ("float8_e4m3fn", "F8_E4M3"), ("float8_e5m2", "F8_E5M2"),
        ("float8_e4m3fnuz", "F8_E4M3FNUZ"), ("float8_e5m2fnuz", "F8_E5M2FNUZ"),
        ("float8_e8m0fnu", "F8_E8M0"),
    )
}  # fmt: skip
# PyTorch's classes of storages, and the dtypes of their elements.
STORAGES: dict[str, Kind] = {
    "DoubleStorage": dtypes.float64, "FloatStorage": dtypes.float32, "HalfStorage": dtypes.float16,
    "LongStorage": dtypes.int64, "IntStorage": dtypes.int32, "ShortStorage": dtypes.int16,
    "CharStorage": dtypes.int8, "ByteStorage": dtypes.uint8, "BoolStorage": dtypes.bool_,
    "BFloat16Storage": dtypes.bfloat16, "ComplexFloatStorage": dtypes.complex64,
    "ComplexDoubleStorage": dtypes.complex128, "UntypedStorage": dtypes.uint8,
}  # fmt: skip


class Memory:
    """The bytes of a storage, and what they are as elements of several dtypes."""

    def __init__(self, data: Raw) -> None:
        self._data, self.nbytes = data, int(data.nbytes)  # flat, of uint8
        self._views: dict[tuple[Kind, bool, bool], Raw] = {}

    def elements(self, kind: Kind, conj: bool = False, neg: bool = False) -> Raw:
        """All the bytes as elements, made once for each dtype.

        What is computed here is computed of the whole storage, and never of a tensor, which can
        have more elements than there are in the file.
        """
        key = kind, conj, neg
        if key not in self._views:
            self._views[key] = self._computed(kind, conj, neg)
        return self._views[key]

    def _computed(self, kind: Kind, conj: bool, neg: bool) -> Raw:
        if conj or neg:
            result: Any = self.elements(kind)
            result = result.conj() if conj else result
            return -result if neg else result
        numpy_dtype = (NARROW[kind.code] if isinstance(kind, Narrow) else kind).numpy
        if self._data.nbytes % numpy_dtype.itemsize:
            raise ValueError(f"a storage of {self._data.nbytes} bytes is not of {kind}")
        if kind is dtypes.bool_ and self._data.size and self._data.max() > 1:
            raise ValueError("the booleans of a storage are not 0 or 1")
        array = self._data.view(numpy_dtype)
        return widened(array, kind.code) if isinstance(kind, Narrow) else array


class Storage:
    """A storage in a file. Its memory is None while only its size is to be found out.

    Args:
        kind: the dtype of the elements.
        key: its name in the file.
        location: the device that it was on.
        size: the number of elements.
    """

    def __init__(self, kind: Kind, key: str, location: str, size: int) -> None:
        self.kind, self.key, self.location, self.size = kind, key, location, size
        self.memory: Memory | None = None
        self.start = 0  # in elements

    def part(self, start: int, size: int) -> Storage:
        """A view of this storage, which old versions of PyTorch could make and save."""
        if not 0 <= start <= start + size <= self.size:
            raise ValueError("a view of a storage reaches beyond it")
        result = Storage(self.kind, self.key, self.location, size)
        result.memory, result.start = self.memory, self.start + start
        return result

    def __len__(self) -> int:
        return self.size

    def cpu(self) -> Storage:
        """The storage itself, for functions given as ``map_location``."""
        return self

    def cuda(self, *device: Any, **options: Any) -> Storage:
        """Raises the error that there is no such device."""
        check_readable("cuda")
        return self


# -- tensors -----------------------------------------------------------------------------------


# Stands for every tensor while the old format is read for the first time.
UNREAD: Tensor = wrap(arrays.zeros((), dtypes.float32.numpy))


def rebuilt(storage: Any, offset: Any, shape: Any, stride: Any, kind: Kind | None = None,
            requires_grad: Any = False, metadata: Any = None) -> Tensor:  # fmt: skip
    """A tensor in a storage."""
    if not isinstance(storage, Storage):
        raise ValueError("a tensor has no storage")
    kind = storage.kind if kind is None else kind
    _check_layout(offset, shape, stride, kind)
    if not (metadata is None or isinstance(metadata, dict)):
        raise ValueError("what is said about a tensor is wrong")
    bits = dict(metadata or {})
    conj, neg = bits.pop("conj", False), bits.pop("neg", False)
    if bits or type(conj) is not bool or type(neg) is not bool or type(requires_grad) is not bool:
        raise ValueError("what is said about a tensor is wrong")
    if storage.memory is None:
        return UNREAD
    size = storage.size * storage.kind.itemsize // kind.itemsize
    elements = storage.memory.elements(kind, conj, neg)
    start = storage.start * storage.kind.itemsize // kind.itemsize
    reach = sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
    if 0 in shape:
        array = arrays.empty(tuple(shape), elements.dtype)
    elif offset + reach >= size:
        raise ValueError("a tensor reaches beyond its storage")
    else:
        array = arrays.layout.as_strided(elements, tuple(shape), tuple(stride), start + offset)
    if not storage.location.startswith("cpu") and is_available(storage.location):
        array = placed(array, storage.location)
    tensor: Tensor = wrap(array)
    return with_gradient(tensor, requires_grad)


def _check_layout(offset: Any, shape: Any, stride: Any, kind: Kind) -> None:
    sequences = isinstance(shape, (tuple, list)) and isinstance(stride, (tuple, list))
    if not sequences or len(shape) != len(stride) or not is_shape(list(shape), kind.itemsize):
        raise ValueError("the shape and the strides of a tensor are wrong")
    if any(type(x) is not int or not 0 <= x < 1 << 62 for x in (*stride, offset)):
        raise ValueError("the strides or the offset of a tensor are wrong")


def with_gradient(tensor: Tensor, requires_grad: bool) -> Tensor:
    """The tensor as a leaf that requires a gradient, if it should."""
    if not requires_grad:
        return tensor
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(f"a tensor of {tensor.dtype} cannot require a gradient")
    return tensor.requires_grad_()


# -- devices -----------------------------------------------------------------------------------


class CallbackError(Exception):
    """An error of a function given as ``map_location``, which says nothing about the file."""


def is_available(location: str) -> bool:
    """Whether tensors can be put on a device that a file, or a user, names."""
    try:
        target = device(location)
    except RuntimeError:
        return False
    if target.type not in COMPUTES:
        return target.type == "cpu"
    count: int = Plug.devices().count(target.type)
    return count > (target.index or 0)


def check_locations(storages: list[Storage]) -> None:
    """RuntimeError if a storage is to be put on a device that is not there, in PyTorch's words."""
    for storage in storages:
        location = storage.location
        if is_available(location):
            continue
        if location.startswith("cuda"):
            raise RuntimeError(
                "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() "
                "is False. If you are running on a CPU-only machine, please use torch.load with "
                "map_location=torch.device('cpu') to map your storages to the CPU."
            )
        raise RuntimeError(
            f"the file has a storage of device {location[:40]!r}, which is not available: "
            "use torch.load with map_location='cpu'."
        )


def target_of(map_location: Any) -> Callable[[Storage], str]:
    """The function that says which device a storage goes to."""
    if map_location is None:
        return lambda storage: storage.location
    if isinstance(map_location, dict):
        return lambda storage: str(map_location.get(storage.location, storage.location))
    if isinstance(map_location, (str, bytes, device)):
        target = map_location.decode() if isinstance(map_location, bytes) else str(map_location)
        check_readable(target)
        return lambda storage: target

    def asked(storage: Storage) -> str:
        try:
            mapped = map_location(storage, storage.location)
        except Exception as error:
            raise CallbackError from error
        return storage.location if mapped is None else "cpu"

    return asked
