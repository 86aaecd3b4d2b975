"""Names of PyTorch's older interface: ``FloatTensor`` and its relatives, storages, settings."""

from __future__ import annotations

import warnings
from typing import Any

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.autograd._history import meta_of
from retrograd.ops._lifted import Lifted
from retrograd.tensor._creation import empty, tensor
from retrograd.tensor._device import CPU, device
from retrograd.tensor._tensor import Size, Tensor


class TensorType(type):
    """The class of ``FloatTensor`` and its relatives: they make tensors of a dtype, and tensors of
    that dtype are instances of them."""

    dtype: dtypes.dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype

    def __call__(cls, *data: Any, device: Any = None, size: Any = None) -> Tensor:
        if size is not None:
            data = tuple(size)
        if len(data) == 1 and not isinstance(data[0], int):
            if isinstance(data[0], Size):
                return empty(data[0], dtype=cls.dtype, device=device)
            if isinstance(data[0], Tensor):
                if data[0].dtype is not cls.dtype:
                    raise TypeError(
                        f"expected {cls.__name__} (got {data[0].type().removeprefix('torch.')})"
                    )
                return data[0].detach()
            return tensor(data[0], dtype=cls.dtype, device=device)
        return empty(*(data or (0,)), dtype=cls.dtype, device=device)

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>"


DTYPES = {
    "FloatTensor": dtypes.float32, "DoubleTensor": dtypes.float64, "HalfTensor": dtypes.float16,
    "BFloat16Tensor": dtypes.bfloat16,
    "LongTensor": dtypes.int64, "IntTensor": dtypes.int32, "ShortTensor": dtypes.int16,
    "CharTensor": dtypes.int8, "ByteTensor": dtypes.uint8, "BoolTensor": dtypes.bool_,
    "ComplexFloatTensor": dtypes.complex64, "ComplexDoubleTensor": dtypes.complex128,
}  # fmt: skip
for _name, _dtype in DTYPES.items():
    globals()[_name] = TensorType(
        _name, (), {"__module__": "retrograd", "dtype": _dtype,
                    "__doc__": f"""Tensors of {_dtype}: called with sizes or data, it makes one.

Example:
    >>> isinstance(torch.zeros(2, dtype={_dtype}), torch.{_name})
    True
"""},
    )  # fmt: skip


def dtype_of(kind: Any) -> dtypes.dtype:
    """The dtype for a dtype, a class such as ``LongTensor``, or its name."""
    if isinstance(kind, dtypes.dtype):
        return kind
    if isinstance(kind, TensorType):
        return kind.dtype
    if kind is Tensor:
        return dtypes.get_default_dtype()
    name = kind.removeprefix("torch.") if isinstance(kind, str) else ""
    if name == "Tensor":
        return dtypes.get_default_dtype()
    if name not in DTYPES:
        raise ValueError(f"invalid type: '{kind}'")
    return DTYPES[name]


def set_default_tensor_type(t: Any) -> None:
    """Sets the default floating-point dtype by the class of its tensors, or its name.

    Args:
        t: ``torch.FloatTensor`` or ``torch.DoubleTensor``, or one of their names.

    Example:
        >>> torch.set_default_tensor_type(torch.FloatTensor)
    """
    dtypes.set_default_dtype(dtype_of(t))


# -- storages --------------------------------------------------------------------------------


def _in_memory(source: Any, dtype: dtypes.dtype) -> Any:
    """The array that a storage is made of, or a new one."""
    if arrays.is_raw(source):
        return source
    made = empty(source, dtype=dtype) if isinstance(source, int) else tensor(source, dtype=dtype)
    return made._data


class UntypedStorage:
    """The memory of a tensor, as bytes. It only describes memory: read and write it through
    tensors.

    Args:
        source: The memory of a tensor, the number of bytes of a new memory, or what to put there.

    Example:
        >>> torch.ones(3).untyped_storage().nbytes()
        12
    """

    __module__ = "retrograd"

    def __init__(self, source: Any = 0) -> None:
        self._memory = arrays.layout.memory(_in_memory(source, dtypes.uint8))

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return arrays.layout.address(self._memory)

    def nbytes(self) -> int:
        """The number of bytes."""
        return int(arrays.layout.memory_size(self._memory) * self._memory.itemsize)

    def size(self) -> int:
        """The number of bytes."""
        return self.nbytes()

    __len__ = size

    @property
    def device(self) -> device:
        """The device: the CPU."""
        return CPU

    is_cuda = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self.data_ptr() == other.data_ptr()

    def __hash__(self) -> int:
        return hash(self.data_ptr())

    def _values(self, dtype: Any) -> Any:
        return arrays.layout.whole_memory(self._memory, dtype)

    def tolist(self) -> list[Any]:
        """The bytes as numbers."""
        result: list[Any] = self._values(arrays.uint8).tolist()
        return result

    def is_shared(self) -> bool:
        """Whether other processes have the memory, too.

        Returns:
            True after ``share_memory_``.
        """
        return arrays.sharing.memory_of(self._memory) is not None

    def __repr__(self) -> str:
        return f"[torch.storage.UntypedStorage(device=cpu) of size {self.nbytes()}]"


class TypedStorage(UntypedStorage):
    """The memory that a tensor is part of, as elements of its dtype.

    Args:
        source: The memory of a tensor, the number of elements of a new memory, or the elements.
        dtype: The dtype of a new memory; by default, the default dtype.

    Example:
        >>> torch.arange(4)[2:].storage().tolist()
        [0, 1, 2, 3]
    """

    def __init__(self, source: Any = 0, dtype: dtypes.dtype | None = None) -> None:
        kind = dtype or dtypes.get_default_dtype()
        self._memory = arrays.layout.memory(_in_memory(source, kind))

    @property
    def dtype(self) -> dtypes.dtype:
        """The dtype of the elements."""
        return dtypes.from_numpy_dtype(self._memory.dtype)

    def size(self) -> int:
        """The number of elements."""
        return arrays.layout.memory_size(self._memory)

    __len__ = size
    __hash__ = UntypedStorage.__hash__

    def tolist(self) -> list[Any]:
        """The elements as numbers."""
        result: list[Any] = self._values(self._memory.dtype).tolist()
        return result

    def __getitem__(self, index: Any) -> Any:
        return self._values(self._memory.dtype)[index].tolist()

    def __iter__(self) -> Any:
        return iter(self.tolist())

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes.

        Returns:
            An ``UntypedStorage``.
        """
        return UntypedStorage(self._memory)

    def element_size(self) -> int:
        """The number of bytes of an element."""
        return int(self._memory.itemsize)

    def __repr__(self) -> str:
        lines = "".join(f" {x}\n" for x in self.tolist())
        return (f"{lines}[torch.storage.TypedStorage(dtype={self.dtype}, device=cpu) of size "
                f"{self.size()}]")  # fmt: skip


class StorageType(type):
    """The class of ``FloatStorage`` and similar storage types."""

    dtype: dtypes.dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype

    def __call__(cls, source: Any = 0) -> TypedStorage:
        return TypedStorage(source, cls.dtype)

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>"


for _name, _dtype in DTYPES.items():
    _name = _name.replace("Tensor", "Storage")
    globals()[_name] = StorageType(
        _name, (), {"__module__": "retrograd", "dtype": _dtype,
                    "__doc__": f"""Storages of {_dtype}: called with a size or data, it makes one.

Example:
    >>> isinstance(torch.zeros(2, dtype={_dtype}).storage(), torch.{_name})
    True
"""},
    )  # fmt: skip


def is_storage(obj: Any) -> bool:
    """Tests whether an object is a storage.

    Args:
        obj: The object.

    Example:
        >>> torch.is_storage(torch.ones(1).storage())
        True
    """
    return isinstance(obj, UntypedStorage)


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchanges two tensors: each variable that held one holds the other afterwards.

    Args:
        t1: A tensor.
        t2: Another tensor.

    Example:
        >>> a, b = torch.zeros(1), torch.ones(2)
        >>> torch.utils.swap_tensors(a, b)
        >>> a
        tensor([1., 1.])
    """
    for t in (t1, t2):
        if isinstance(t._data, Lifted):
            raise RuntimeError("swap_tensors: not inside of a transform")
    kinds = type(t1), type(t2)
    t1.__class__, t2.__class__ = kinds[1], kinds[0]
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for name in ("_data", "_node", "_version_counter", "_meta"):
        first, second = getattr(t1, name), getattr(t2, name)
        setattr(t1, name, second)
        setattr(t2, name, first)
    for t in (t1, t2):
        meta = meta_of(t)
        accumulator = meta.ending() if meta.ending is not None else None
        if accumulator is not None:
            accumulator.variable = t


def typename(obj: Any, /) -> str:
    """Returns the name of the type of an object, with its module.

    Args:
        obj: The object.

    Returns:
        The name; of a tensor, that of its dtype, such as ``"torch.FloatTensor"``.

    Example:
        >>> torch.typename(torch.ones(1))
        'torch.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(kind, "__module__", "")
    return kind.__qualname__ if module in ("", "builtins") else f"{module}.{kind.__qualname__}"


# -- settings that change nothing ------------------------------------------------------------

_settings: dict[str, Any] = {
    "deterministic": 0, "precision": "highest", "warn_always": False, "interop": 1,
}  # fmt: skip


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Says whether operations have to give the same results each time. They do anyway.

    Args:
        mode: Whether they have to.
        warn_only: Accepted for compatibility.

    Example:
        >>> torch.use_deterministic_algorithms(False)
    """
    _settings["deterministic"] = (1 if warn_only else 2) if mode else 0


def are_deterministic_algorithms_enabled() -> bool:
    """Returns the setting of ``use_deterministic_algorithms``.

    Example:
        >>> torch.are_deterministic_algorithms_enabled()
        False
    """
    return bool(_settings["deterministic"])


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether ``use_deterministic_algorithms`` was set to warn only.

    Example:
        >>> torch.is_deterministic_algorithms_warn_only_enabled()
        False
    """
    return bool(_settings["deterministic"] == 1)


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Says what to do about operations that may give other results each time. There are none.

    Args:
        debug_mode: ``"default"``, ``"warn"`` or ``"error"``, or 0, 1 or 2.

    Example:
        >>> torch.set_deterministic_debug_mode(0)
    """
    words = {"default": 0, "warn": 1, "error": 2}
    if isinstance(debug_mode, str) and debug_mode not in words:
        raise RuntimeError(
            "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got "
            f"{debug_mode}"
        )
    _settings["deterministic"] = words.get(debug_mode, debug_mode)  # type: ignore[arg-type]


def get_deterministic_debug_mode() -> int:
    """Returns the setting of ``set_deterministic_debug_mode``, as a number.

    Returns:
        0, 1 or 2.

    Example:
        >>> torch.get_deterministic_debug_mode()
        0
    """
    return int(_settings["deterministic"])


def set_float32_matmul_precision(precision: str) -> None:
    """Says how precisely matrices of float32 are to be multiplied. It is always the highest.

    Args:
        precision: ``"highest"``, ``"high"`` or ``"medium"``.

    Example:
        >>> torch.set_float32_matmul_precision("highest")
    """
    if precision not in ("highest", "high", "medium"):
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current"
            "setFloat32MatmulPrecision call has no effect.",
            stacklevel=2,
        )
        return
    _settings["precision"] = precision


def get_float32_matmul_precision() -> str:
    """Returns the setting of ``set_float32_matmul_precision``.

    Example:
        >>> torch.get_float32_matmul_precision()
        'highest'
    """
    return str(_settings["precision"])


def set_warn_always(b: bool, /) -> None:
    """Says whether warnings that come once are to come each time. They are not.

    Args:
        b: Whether they are to.

    Example:
        >>> torch.set_warn_always(False)
    """
    _settings["warn_always"] = bool(b)


def is_warn_always_enabled() -> bool:
    """Returns the setting of ``set_warn_always``.

    Example:
        >>> torch.is_warn_always_enabled()
        False
    """
    return bool(_settings["warn_always"])


def set_flush_denormal(mode: bool) -> bool:
    """Says whether very small numbers are to be zero. NumPy keeps them.

    Args:
        mode: Whether they are to be zero.

    Returns:
        False: this cannot be chosen.

    Example:
        >>> torch.set_flush_denormal(True)
        False
    """
    return False


def set_num_interop_threads(num: int) -> None:
    """Says how many operations may run at once. One does.

    Args:
        num: How many.

    Example:
        >>> torch.set_num_interop_threads(1)
    """
    _settings["interop"] = int(num)


def get_num_interop_threads() -> int:
    """Returns the setting of ``set_num_interop_threads``.

    Example:
        >>> torch.get_num_interop_threads()
        1
    """
    return int(_settings["interop"])


__all__ = [
    "TypedStorage", "UntypedStorage", "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode", "get_float32_matmul_precision", "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled", "is_storage", "is_warn_always_enabled",
    "set_default_tensor_type", "set_deterministic_debug_mode", "set_float32_matmul_precision",
    "set_flush_denormal", "set_num_interop_threads", "set_warn_always", "swap_tensors", "typename",
    "use_deterministic_algorithms",
]  # fmt: skip
