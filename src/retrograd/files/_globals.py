"""The names that a PyTorch pickle may contain, and the functions that replace them."""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Any

from retrograd.arrays import dtypes
from retrograd.files._storages import (
    NARROW_KINDS,
    STORAGES,
    UNREAD,
    Kind,
    Narrow,
    rebuilt,
    with_gradient,
)
from retrograd.files._unpickling import Allowed, RefusedError, Trusted, checked_key
from retrograd.tensor._tensor import Size, Tensor, device


class StorageClass:
    """One of PyTorch's classes of storages."""

    __slots__ = ("kind",)

    def __init__(self, kind: Kind) -> None:
        self.kind = kind


# -- data --------------------------------------------------------------------------------------


def _list(values: tuple[Any, ...]) -> list[Any]:
    """The only argument, if there is one, which must be a list or a tuple."""
    if len(values) > 1 or not all(isinstance(x, (list, tuple)) for x in values):
        raise ValueError("a collection is made of what is not a list")
    return list(values[0]) if values else []


def _set(*values: Any) -> set[Any]:
    return set(map(checked_key, _list(values)))


def _frozenset(*values: Any) -> frozenset[Any]:
    return frozenset(map(checked_key, _list(values)))


def _ordered_dict(*pairs: Any) -> OrderedDict[Any, Any]:
    return OrderedDict((checked_key(key), value) for key, value in _list(pairs))


def _counter(*counts: Any) -> Counter[Any]:
    if not counts:
        return Counter()
    if len(counts) > 1 or type(counts[0]) is not dict:
        raise ValueError("a Counter is made of what is not a dict")
    return Counter(counts[0])


def _encoded(text: Any, encoding: Any) -> bytes:
    if type(text) is not str or encoding not in ("latin1", "latin-1", "utf-8", "ascii"):
        raise ValueError("bytes are made of what is not text")
    return text.encode(encoding)


def _bytes() -> bytes:
    return b""


def _bytearray(*content: Any) -> bytearray:
    if content and type(content[0]) is bytes and len(content) == 1:
        return bytearray(content[0])
    return bytearray(_encoded(*content) if content else b"")  # a number would be a length


def _complex(real: Any, imag: Any) -> complex:
    if type(real) is not float or type(imag) is not float:
        raise ValueError("a complex number has two parts")
    return complex(real, imag)


def _size(*sizes: Any) -> Size:
    values = _list(sizes)
    if not all(type(x) is int for x in values):
        raise ValueError("a size has integers only")
    return Size(values)


def _device(kind: Any, index: Any = None) -> device:
    if type(kind) is not str or not (index is None or type(index) is int):
        raise ValueError("a device is described in the wrong way")
    try:
        return device(kind[:40], index)
    except RuntimeError as error:
        raise ValueError(f"it names an unknown device {kind[:40]!r}") from error


# -- tensors -----------------------------------------------------------------------------------


def _tensor_v2(storage: Any, offset: Any, shape: Any, stride: Any, requires_grad: Any = False,
               hooks: Any = None, metadata: Any = None) -> Tensor:  # fmt: skip
    return rebuilt(storage, offset, shape, stride, None, requires_grad, metadata)


def _tensor_v3(storage: Any, offset: Any, shape: Any, stride: Any, requires_grad: Any, hooks: Any,
               dtype: Any, metadata: Any = None) -> Tensor:  # fmt: skip
    if not isinstance(dtype, (dtypes.dtype, Narrow)):
        raise ValueError("a tensor has no dtype")
    return rebuilt(storage, offset, shape, stride, dtype, requires_grad, metadata)


def _parameter(data: Any, requires_grad: Any, hooks: Any = None, state: Any = None) -> Tensor:
    from retrograd.nn.parameter import Parameter

    if not isinstance(data, Tensor) or type(requires_grad) is not bool:
        raise ValueError("a parameter is made of what is not a tensor")
    parameter: Tensor = Parameter(data, requires_grad=False)
    return with_gradient(parameter, requires_grad)


def _layout(name: Any) -> str:
    return str(name)[:40]


def _sparse(layout: Any, data: Any) -> Any:
    from retrograd import sparse

    layouts = {f"torch.sparse_{name}": (3, 4) for name in ("csr", "csc", "bsr", "bsc")}
    tensors, most = {"torch.sparse_coo": (2, 4), **layouts}.get(layout, (0, 0))
    if type(data) is not tuple or not tensors < len(data) <= most:
        raise ValueError(f"a sparse tensor has the layout {str(layout)[:40]}, or no values")
    if not all(isinstance(x, Tensor) for x in data[:tensors]) or type(data[tensors]) is not Size:
        raise ValueError("a sparse tensor does not consist of tensors and a size")
    if data[0] is UNREAD:
        return UNREAD
    make = getattr(sparse, f"{layout.removeprefix('torch.')}_tensor")
    try:
        made = make(*data[: tensors + 1])
        in_order = tensors == 2 and data[3:] == (True,)
        return made.coalesce() if in_order else made  # the file may be wrong about it
    except (RuntimeError, IndexError, TypeError) as error:
        raise ValueError(f"a sparse tensor is wrong: {error}") from None


def _of_type(function: Any, kind: Any, arguments: Any, state: Any = None) -> Tensor:
    """A tensor with attributes, which are not kept: tensors have none here."""
    known = isinstance(function, Allowed) and function in _TENSOR_MAKERS
    if not known or kind is not _TENSOR or type(arguments) is not tuple:
        raise ValueError("a tensor is of an unknown type")
    made: Tensor = function.make(*arguments)
    return made


def _refusing(what: str) -> Any:
    def refuse(*arguments: Any) -> Any:
        raise RefusedError(f"has {what}, which retrograd does not have. Save it as a dense tensor")

    return refuse


_TENSOR = Allowed("torch.Tensor", _refusing("a tensor of PyTorch before version 0.4"))
_MAKERS = [
    Allowed("torch._utils._rebuild_tensor", _tensor_v2),
    Allowed("torch._utils._rebuild_tensor_v2", _tensor_v2),
    Allowed("torch._utils._rebuild_tensor_v3", _tensor_v3),
    Allowed("torch._utils._rebuild_parameter", _parameter),
    Allowed("torch._utils._rebuild_parameter_with_state", _parameter),
    Allowed("torch._utils._rebuild_sparse_tensor", _sparse),
    Allowed("torch._utils._rebuild_qtensor", _refusing("a quantized tensor")),
    Allowed("torch._utils._rebuild_nested_tensor", _refusing("a nested tensor")),
    Allowed("torch._utils._rebuild_meta_tensor_no_storage", _refusing("a meta tensor")),
]
_TENSOR_MAKERS = frozenset(_MAKERS)
ALLOWED: dict[str, Any] = {
    allowed.name: allowed
    for allowed in (
        *_MAKERS, _TENSOR,
        Allowed("torch._tensor._rebuild_from_type_v2", _of_type),
        Allowed("torch.serialization._get_layout", _layout),
        Allowed("torch.Size", _size, copies=True),
        Allowed("torch.device", _device),
        Allowed("collections.OrderedDict", _ordered_dict, copies=True),
        Allowed("collections.Counter", _counter, copies=True),
        Allowed("builtins.set", _set, copies=True),
        Allowed("builtins.frozenset", _frozenset, copies=True),
        Allowed("builtins.complex", _complex),
        Allowed("builtins.bytes", _bytes),
        Allowed("builtins.bytearray", _bytearray, copies=True),
        Allowed("_codecs.encode", _encoded, copies=True),
    )
}  # fmt: skip
ALLOWED |= {f"torch.{dtype.name}": dtype for dtype in (*dtypes._ALL, dtypes.bfloat16)}
ALLOWED |= {f"torch.{name}": kind for name, kind in NARROW_KINDS.items()}
ALLOWED |= {f"torch.{name}": StorageClass(kind) for name, kind in STORAGES.items()}
ALLOWED |= {f"torch.storage.{name}": StorageClass(kind) for name, kind in STORAGES.items()}
# Devices have classes of storages of their own in files of old versions.
ALLOWED |= {f"torch.cuda.{name}": StorageClass(kind) for name, kind in STORAGES.items()}


TRUSTED: dict[str, Trusted] = {}  # what the user has passed to add_safe_globals, by full name


def find(module: str, name: str) -> Any:
    """Look up a name of a pickle. Raises RefusedError, with advice, unless it is data."""
    if module == "__builtin__":
        module = "builtins"
    if module == "torch.nn.parameter" and name == "Parameter":
        return _TENSOR
    result = ALLOWED.get(f"{module}.{name}") or TRUSTED.get(f"{module}.{name}")
    if result is None:
        full = f"{module}.{name}"[:200]
        raise RefusedError(
            f"has objects of {full}.\nWeights only load failed: Unsupported global: GLOBAL {full} "
            "was not an allowed global by default. Reading it could run code, which retrograd "
            "never does, with weights_only=False either. Files can hold tensors, numbers, strings "
            "and collections of them, and objects of classes that you trust:\n"
            "    torch.serialization.add_safe_globals([...])\n"
            "If it is a whole module, save its state in PyTorch:\n"
            "    torch.save(model.state_dict(), 'state.pt')\n"
            "and load that into a module made here:\n"
            "    model.load_state_dict(torch.load('state.pt'))"
        )
    return result
