"""Operands of operations, and the values that rules look up in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from retrograd import arrays
from retrograd.ops._lifted import Lifted, TensorLike, raw


class Target(TensorLike):
    """Stands for a tensor that is to be written: an operation called on it is not run but returned,
    as what to write. So a function that ends in one operation defines its in-place method too."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self._data = tensor._data

    @property
    def shape(self) -> Any:
        return self._data.shape

    @property
    def ndim(self) -> int:
        return int(self._data.ndim)

    @property
    def dtype(self) -> Any:
        return self.tensor.dtype

    @property
    def requires_grad(self) -> bool:
        return bool(self.tensor.requires_grad)


FLOAT32, FLOAT64 = arrays.float32, arrays.float64
NUMBERS = frozenset({float, int, bool, str, type(None)})
ARRAYS_AND_NUMBERS = frozenset({float, int, *arrays.RAW_CLASSES})


def unrecorded(values: Iterable[Any], converts: bool = True) -> list[Any] | None:
    """Values without the Tensors round them, if that makes no difference to an operation that gives
    no views: none of them is recorded, and all are of one float dtype, so that none is converted.
    None if it does. What is computed on bare values skips all that is about recording.
    ``converts``: whether the operation would convert values of several dtypes to one."""
    results: list[Any] = []
    dtype = None
    for x in values:
        if isinstance(x, TensorLike):
            if not x._is_plain:
                return None
            x = x._data
        kind = type(x)
        if kind is float or kind is int or x is None:
            results.append(x)
            continue
        own = getattr(x, "dtype", None)
        if dtype is None and (own is FLOAT32 or own is FLOAT64):
            dtype = own
        elif own is None or own.kind == "c" or (converts and (own is not dtype or dtype is None)):
            return None
        if isinstance(x, Lifted) and x.level.closed:
            return None
        results.append(x)
    return results


def is_bare(x: Any) -> bool:
    """Whether a part of a lifted value is an array that nobody records, with or without a Tensor
    round it."""
    if isinstance(x, TensorLike):
        return x._is_plain and arrays.is_raw(x._data)
    return arrays.is_raw(x)


def is_lifted(x: Any) -> bool:
    """Whether ``x`` stands for an array under a transform. Code that branches on values must then
    take the path that is right for all of them."""
    return isinstance(raw(x), Lifted)


def detached(x: Any) -> Any:
    """The value of ``x`` without its history and its tangent."""
    if isinstance(x, TensorLike):
        return x.detach()  # type: ignore[attr-defined]
    return x.detached() if isinstance(x, Lifted) else x


def is_differentiated(x: Any) -> bool:
    """Whether a transform or a backward pass differentiates with respect to ``x``."""
    while True:
        if getattr(x, "requires_grad", False):
            return True
        data = raw(x)
        if not isinstance(data, Lifted):
            return False
        if data.moves:
            return True
        x = data.layout


def code_of(function: Callable[..., Any]) -> Any:
    """The code that says what the arguments of a function are called. A function that stands for
    another one has that as ``written_as``, and a decorated one as ``__wrapped__``."""
    inner = getattr(function, "written_as", None) or getattr(function, "__wrapped__", function)
    return getattr(inner, "__code__", None)


class Rule:
    """A derivative rule and the names of what it needs besides ``g``."""

    __slots__ = ("function", "names", "names_shape")

    def __init__(self, function: Callable[..., Any]) -> None:
        code = code_of(function)
        self.function = function
        self.names = code.co_varnames[1 : code.co_argcount]
        self.names_shape = "shape" in self.names

    def arguments(
        self, values: Mapping[str, Any], shape: Any = None, transposed_next: Any = False
    ) -> list[Any]:
        """What the rule names besides ``g``: inputs, outputs and options out of ``values``, the
        shape of the input that it is for, and whether its gradient is about to be transposed."""
        return [
            shape if name == "shape"
            else transposed_next if name == "transposed_next"
            else values[name]
            for name in self.names
        ]  # fmt: skip
