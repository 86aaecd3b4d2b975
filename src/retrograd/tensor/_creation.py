"""Creation of tensors from data, and filled with one value."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from retrograd import arrays
from retrograd._modes import modes
from retrograd.arrays import Raw, dtypes
from retrograd.autograd._history import meta_of
from retrograd.autograd._wrap import Plug, wrap
from retrograd.ops._arguments import element
from retrograd.ops._lifted import Lifted, tracer
from retrograd.ops.copies import to_dtype
from retrograd.tensor._device import COMPUTES, CPU, device, is_meta, placed
from retrograd.tensor._memory_formats import check_strided, put_in_order, strided
from retrograd.tensor._tensor import Size, Tensor

# -- what all of them do ---------------------------------------------------------------------


def new_tensor(
    data: Raw, requires_grad: Any = False, device: Any = None, name: str = "tensor"
) -> Tensor:
    """A leaf."""
    now = modes.frame.states[-1]
    if device is not None or now.device is not None:
        data = placed(data, device)
    if not isinstance(requires_grad, bool):
        raise TypeError(
            f"{name}(): argument 'requires_grad' must be bool, not {type(requires_grad).__name__}"
        )
    if now.levels and (tracing := tracer()) is not None and arrays.is_raw(data):
        data = tracing.made(data)
    made: Tensor = wrap(data)
    if requires_grad:
        if data.dtype.kind not in dtypes.INEXACT:
            from retrograd.autograd._explaining._hints import of_integers

            raise of_integers(
                RuntimeError(
                    "Only Tensors of floating point and complex dtype can require gradients"
                ),
                data.dtype,
            )
        meta_of(made).requires_grad = True
    if now.inference:
        meta_of(made).inference = True
    return made


def allocated(
    fill: Callable[[tuple[int, ...], Any], Raw], shape: tuple[int, ...], dtype: Any, target: Any,
    value: Any = None,
) -> Any:  # fmt: skip
    """``fill(shape, dtype)``, or what stands for it on the meta device, where memory would be
    wasted. With ``value``, which all elements are to have, it is made on the device itself."""
    chosen = modes.frame.states[-1].device if target is None else target
    if chosen is None:
        return fill(shape, dtype)
    if is_meta(chosen):
        from retrograd.ops._meta_device import MetaValue

        return MetaValue(arrays.layout.reserved(shape, dtype))
    chosen = chosen if isinstance(chosen, device) else device(chosen)
    if value is None or chosen.type not in COMPUTES or tracer() is not None:
        return fill(shape, dtype)
    return Plug.devices().filled(shape, dtype, value, chosen)


_PYTHONS = {float: dtypes.float64, int: dtypes.int64, bool: dtypes.bool_,
            complex: dtypes.complex128}  # fmt: skip


def numpy_dtype(dtype: Any, default: Any = None, name: str = "tensor") -> Any:
    """The array library's name for a dtype; a default, or the default float, for None."""
    if dtype is None:
        return dtypes.default_float() if default is None else default
    if not isinstance(dtype, dtypes.dtype):
        if dtype not in _PYTHONS:
            raise TypeError(
                f"{name}(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}"
            )
        dtype = _PYTHONS[dtype]
    return dtype.numpy


def finished(
    name: str, data: Raw, out: Any, dtype: Any, requires_grad: Any = False, device: Any = None,
    keeps_shape: bool = False,
) -> Tensor:  # fmt: skip
    """A leaf, or ``data`` written over the tensor ``out``, which takes its shape, unless it may
    keep its own because it has as many elements."""
    if out is None:
        return new_tensor(data, requires_grad, device, name)
    if dtype is not None and dtype is not out.dtype:
        words = [dtypes.type_word(d.numpy) for d in (dtype, out.dtype)]
        raise RuntimeError(f"dtype {words[0]} does not match dtype of out parameter ({words[1]})")
    if modes.grad_enabled and out.requires_grad:
        raise RuntimeError(
            f"aten::{name}(): functions with out=... arguments don't support automatic "
            "differentiation, but one of the arguments requires grad."
        )
    if keeps_shape and arrays.asarray(out._data).size == data.size:
        data = arrays.reshape(data, out._data.shape)
    from retrograd.tensor._out import write_out

    write_out(out, wrap(data))
    written: Tensor = out
    return written


def size_of(name: str, given: tuple[Any, ...], size: Any = None) -> tuple[int, ...]:
    """``f(2, 3)``, ``f((2, 3))`` and ``f(size=(2, 3))`` alike."""
    if size is not None:
        given = (size,)
    if not given:
        raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
    if len(given) == 1 and (isinstance(given[0], bool) or not hasattr(given[0], "__index__")):
        if not isinstance(given[0], (list, tuple)):
            raise TypeError(
                f"{name}(): argument 'size' (position 1) must be tuple of ints, not "
                f"{type(given[0]).__name__}"
            )
        given = tuple(given[0])
    try:
        sizes = tuple([operator.index(s) for s in given])
    except TypeError:
        position, wrong = next(
            (n, s) for n, s in enumerate(given, 1) if not hasattr(s, "__index__")
        )  # fmt: skip
        raise TypeError(
            f"{name}(): argument 'size' failed to unpack the object at pos {position} with error "
            f'"type must be tuple of ints,but got {type(wrong).__name__}"'
        ) from None
    if sizes and min(sizes) < 0:
        if name == "zeros":
            raise RuntimeError("zeros: Dimension size must be non-negative.")
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {min(sizes)}: {list(sizes)}"
        )
    return sizes


# -- from data -------------------------------------------------------------------------------


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Creates a tensor from a copy of data.

    Args:
        data: A number, nested sequences of numbers, an array or a tensor.
        dtype: The dtype of the result. By default, it is inferred from the data.
        device: The device of the result. Only the CPU is supported.
        requires_grad: Whether operations on the result are recorded for autograd.
        pin_memory: Accepted for compatibility; it has no effect.

    Returns:
        A new leaf, without history.

    Example:
        >>> torch.tensor([1.0, 3.0], requires_grad=True)
        tensor([1., 3.], requires_grad=True)
    """
    return _copied("torch.tensor", data, dtype, device, requires_grad)


def _copied(name: str, data: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    if isinstance(data, Tensor):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use "
            "sourceTensor.detach().clone() or sourceTensor.detach().clone().requires_grad_(True), "
            f"rather than {name}(sourceTensor).",
            UserWarning,
            stacklevel=3,
        )
    wanted = None if dtype is None else numpy_dtype(dtype)
    return new_tensor(from_data(data, wanted), requires_grad, device)


def from_data(data: Any, dtype: Any) -> Raw:
    """A new array of the dtype given, or of PyTorch's choice for such data."""
    if isinstance(data, Tensor):
        data = data._data
    if isinstance(data, Lifted):
        return to_dtype(data.detached(), dtype=data.dtype if dtype is None else dtype)
    if not isinstance(data, (list, tuple)) and hasattr(data, "__array__"):
        data = arrays.asarray(data)  # of pandas, JAX and others
    if arrays.is_raw(data):
        check_array(data)
        return arrays.array(arrays.cast(data, dtype) if dtype is not None else data)
    flat, shape = flatten_data(data.tolist() if isinstance(data, memoryview) else data)
    if dtype is None:
        dtype = dtypes.result_type(flat) if flat else dtypes.default_float()
    flat = [x.item() if arrays.is_raw(x) else x for x in flat]
    if dtype.kind in "iu":
        flat = [_as_integer(x, dtype) for x in flat]
    elif dtype.kind in dtypes.FLOATS and any(isinstance(x, complex) for x in flat):
        raise TypeError("must be real number, not complex")
    return arrays.reshape(arrays.array(flat, dtype), shape)


def _as_integer(x: Any, dtype: Any) -> int:
    """``x`` as an element of an integer dtype; unsigned ones may wrap around once."""
    try:
        whole = operator.index(x) if not isinstance(x, (bool, float)) else int(x)
    except (ValueError, OverflowError):
        whole = 2**70  # not a number, or none of this size
    if isinstance(x, int) and not -(2**63) <= x < 2**64 - (2**63 if dtype.kind == "i" else 0):
        raise ValueError("Overflow when unpacking long long")
    bits = 8 * dtype.itemsize
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.kind == "i" else (
        -(1 << bits) + 1, (1 << bits) - 1)  # fmt: skip
    below_zero = isinstance(x, float) and dtype.kind == "u" and x < 0  # which does not wrap
    if below_zero or not least <= whole <= most:
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
    return whole % (1 << bits) if dtype.kind == "u" else whole


def check_array(data: Raw) -> None:
    """Refuse arrays that no tensor can hold."""
    if not data.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion "
            "between byte orders is currently not supported."
        )
    if data.dtype.kind not in "biufc" or data.dtype.itemsize > 8 * (1 + (data.dtype.kind == "c")):
        raise TypeError(
            f"can't convert np.ndarray of type {data.dtype.type.__module__}."
            f"{data.dtype.type.__name__}. The only supported types are: float64, float32, float16, "
            "complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and "
            "bool."
        )


def flatten_data(data: Any) -> tuple[list[Any], tuple[int, ...]]:
    """The numbers in nested sequences, and the shape that the nesting spells."""
    shape: list[int] = []
    level: list[Any] = [data]
    while level and _is_sequence(level[0]):
        length = len(level[0])
        for x in level:
            if not _is_sequence(x):
                raise TypeError("not a sequence")
            if len(x) != length:
                raise ValueError(
                    f"expected sequence of length {length} at dim {len(shape)} (got {len(x)})"
                )
        shape.append(length)
        level = [y for x in level for y in x]
    return [_as_number(x, bool(shape)) for x in level], tuple(shape)


def _as_number(x: Any, nested: bool) -> Any:
    """An element of nested sequences, if it is a number."""
    if isinstance(x, (bool, int, float, complex)) or (arrays.is_raw(x) and not x.ndim):
        return x
    if isinstance(x, Tensor):
        if x.numel() != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        if isinstance(x._data, Lifted):
            return x.item()
        return x._data.reshape(()) if x._data.ndim else x._data
    if isinstance(x, (str, bytes)):
        kind = type(x).__name__
        raise (
            ValueError(f"too many dimensions '{kind}'")
            if nested
            else TypeError(f"new(): invalid data type '{kind}'")
        )
    if isinstance(x, (list, tuple)):
        raise TypeError(f"'{type(x).__name__}' object cannot be interpreted as an integer")
    raise RuntimeError(f"Could not infer dtype of {type(x).__name__}")


def _is_sequence(x: Any) -> bool:
    if isinstance(x, (list, tuple, range)):
        return True
    if arrays.is_raw(x):
        return bool(x.ndim)
    kind = type(x)
    return (
        hasattr(kind, "__len__") and hasattr(kind, "__getitem__")
        and not isinstance(x, (Tensor, str, bytes, Mapping))
    )  # fmt: skip


# -- filled ----------------------------------------------------------------------------------


# The options of functions that create tensors, and the lines of ``Args:`` about them.
MEANINGS = {
    "dtype": "The dtype of the result. The default is the default floating-point dtype.",
    "layout": "``torch.strided``; ``zeros`` and ``empty`` take sparse layouts, too.",
    "device": "The device of the result. Only the CPU is supported.",
    "pin_memory": "Accepted for compatibility; it has no effect.",
    "requires_grad": "Whether operations on the result are recorded for autograd.",
}
OPTIONS = "\n    ".join(f"{name}: {meaning}" for name, meaning in MEANINGS.items())


def _filled(
    fill: Callable[[tuple[int, ...], Any], Raw], value: int, name: str, what: str, example: str
) -> Callable[..., Tensor]:
    def function(
        *sizes: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
        device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
        memory_format: Any = None, names: Any = None,
    ) -> Tensor:  # fmt: skip
        shape, wanted = size_of(name, sizes, size), numpy_dtype(dtype, name=name)
        if layout is not None and layout != strided:
            if name == "ones":
                check_strided(name, layout)
            return Plug.sparse().empty(  # type: ignore[no-any-return]
                shape, layout, dtype=dtype, device=device, requires_grad=requires_grad
            )
        data = allocated(fill, shape, wanted, device, value)
        if memory_format is not None and not isinstance(data, Lifted):
            data = put_in_order(data, memory_format)
        return finished(name, data, out, dtype, requires_grad, device)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Creates {what} of a given shape.

Args:
    *sizes: The shape, as integers or as one sequence.
    size: The shape as a sequence, passed by keyword.
    out: The tensor to write the result to.
    {OPTIONS}
    memory_format: The order of elements in memory, such as ``torch.channels_last``.
    names: Accepted for compatibility; it has no effect.

Returns:
    The tensor.

Example:
    >>> {example}
"""
    return function


zeros = _filled(
    arrays.zeros, 0, "zeros", "a tensor of zeros", "torch.zeros(2)\n    tensor([0., 0.])"
)
ones = _filled(arrays.ones, 1, "ones", "a tensor of ones", "torch.ones(2)\n    tensor([1., 1.])")
empty = _filled(
    arrays.empty, 0, "empty", "an uninitialized tensor",
    "torch.empty(2, 3).shape\n    torch.Size([2, 3])",
)  # fmt: skip


def full(size: Sequence[int], fill_value: Any, *, out: Any = None, dtype: Any = None,
         layout: Any = None, device: Any = None, pin_memory: bool = False,
         requires_grad: bool = False, names: Any = None) -> Tensor:  # fmt: skip
    """Creates a tensor filled with one value.

    Args:
        size: The shape of the result.
        fill_value: The value.
        out: The tensor to write the result to.
        dtype: The dtype of the result. By default, it is inferred from the value.
        layout: ``torch.strided``.
        device: The device of the result. Only the CPU is supported.
        pin_memory: Accepted for compatibility; it has no effect.
        requires_grad: Whether operations on the result are recorded for autograd.
        names: Accepted for compatibility; it has no effect.

    Example:
        >>> torch.full((2,), 3)
        tensor([3, 3])
    """
    if not isinstance(size, (tuple, list)):
        raise TypeError(
            f"full(): argument 'size' (position 1) must be tuple of ints, not {type(size).__name__}"
        )
    check_strided("full", layout)
    value = checked_fill_value("full", fill_value)
    wanted = numpy_dtype(dtype, dtypes.result_type([value]), "full")
    if out is not None:
        wanted = out._data.dtype
    data = arrays.full(size_of("full", (tuple(size),)), element(value, wanted), wanted)
    return finished("full", data, out, dtype, requires_grad, device)


def checked_fill_value(name: str, value: Any) -> Any:
    """A number, or what a tensor without dimensions holds."""
    if isinstance(value, Tensor) and not value.ndim:
        return value.item() if isinstance(value._data, Lifted) else value._data
    if arrays.is_raw(value) and not value.ndim:
        return value.item()
    if not isinstance(value, (bool, int, float, complex)):
        raise TypeError(
            f"{name}(): argument 'fill_value' (position 2) must be Number, not "
            f"{type(value).__name__}"
        )
    return value


def scalar_tensor(s: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
                  pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Creates a tensor without dimensions from a number.

    Args:
        s: The number.
        dtype: The dtype of the result. The default is the default floating-point dtype.
        layout: ``torch.strided``.
        device: The device of the result. Only the CPU is supported.
        pin_memory: Accepted for compatibility; it has no effect.
        requires_grad: Whether operations on the result are recorded for autograd.

    Example:
        >>> torch.scalar_tensor(3)
        tensor(3.)
    """
    data = element(s, numpy_dtype(dtype, name="scalar_tensor"))
    return new_tensor(data, requires_grad, device, "scalar_tensor")


def eye(n: int, m: int | None = None, *, out: Any = None, dtype: Any = None, layout: Any = None,
        device: Any = None, pin_memory: bool = False,
        requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Creates a matrix with ones on the diagonal and zeros elsewhere.

    Args:
        n: The number of rows.
        m: The number of columns. The default is ``n``.
        out: The tensor to write the result to.
        dtype: The dtype of the result.
        layout: ``torch.strided``.
        device: The device of the result. Only the CPU is supported.
        pin_memory: Accepted for compatibility; it has no effect.
        requires_grad: Whether operations on the result are recorded for autograd.

    Returns:
        An ``n`` by ``m`` matrix.

    Example:
        >>> torch.eye(2)
        tensor([[1., 0.],
                [0., 1.]])
    """
    check_strided("eye", layout)
    m = n if m is None else m
    for position, (letter, size) in enumerate((("n", n), ("m", m)), 1):
        if not hasattr(size, "__index__"):
            raise TypeError(
                f"eye(): argument '{letter}' (position {position}) must be int, not "
                f"{type(size).__name__}"
            )
        if size < 0:
            raise RuntimeError(f"{letter} must be greater or equal to 0, got {size}")
    data = arrays.eye(n, m, dtype=numpy_dtype(dtype, name="eye"))
    return finished("eye", data, out, dtype, requires_grad, device)


def device_like(input: Tensor, device: Any) -> Any:
    """The device of what is made like a tensor: that of the tensor, unless one is given."""
    chosen = modes.frame.states[-1].device
    if device is None and (chosen is not None or isinstance(input._data, Lifted)):
        return input.device
    return device


def for_each_entry(like: Tensor, data: Raw) -> Any:
    """New data for a tensor, for each entry if that is one of a batch: what is made like something
    that is batched can then be written with what is."""
    if not isinstance(like._data, Lifted):
        return data
    from retrograd.ops._batching import batched_on, batches_of  # loaded with the transforms

    def repeated(shape: tuple[int, ...]) -> Raw:
        memory = arrays.empty(shape, data.dtype)
        arrays.write(memory, data)
        return memory

    return batched_on(batches_of(like._data), data.shape, repeated)


# -- of a tensor's own kind ------------------------------------------------------------------


def _new(fill: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def method(self: Tensor, *args: Any, **options: Any) -> Tensor:
        if options.get("dtype") is None:
            options["dtype"] = self.dtype
        options["device"] = device_like(self, options.get("device"))
        made = fill(*args, **options)
        if isinstance(self._data, Lifted) and not isinstance(made._data, Lifted):
            return new_tensor(for_each_entry(self, made._data), made.requires_grad, CPU)
        return made

    name = fill.__name__
    method.__doc__ = f"""Creates a tensor as ``torch.{name}`` does, by default of the same dtype.

Args:
    *args: The arguments of ``torch.{name}``.
    **options: The options of ``torch.{name}``. The default of ``dtype`` is that of this tensor.

Returns:
    A new leaf.
"""
    return method


def new(self: Tensor, *args: Any, device: Any = None, **named: Any) -> Tensor:
    """Creates a tensor of the dtype of this tensor.

    Args:
        input: The input tensor.
        *args: A sequence of data, a tensor, or the sizes of an uninitialized tensor.
        device: The device of the result. Only the CPU is supported.
        **named: The sizes as ``size``.

    Returns:
        A new tensor.

    Example:
        >>> torch.ones(1).new([1, 2])
        tensor([1., 2.])
    """
    if len(args) == 1 and isinstance(args[0], Tensor):
        return new_tensor(args[0]._data, device=device)
    if len(args) == 1 and isinstance(args[0], (list, tuple)) and not isinstance(args[0], Size):
        return tensor(args[0], dtype=self.dtype, device=device)
    size = named.get("size", args or (0,))
    return empty(size[0] if isinstance(size[0], Size) else size, dtype=self.dtype, device=device)


def new_tensor_like(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Creates a tensor from a copy of data, by default of the dtype of this tensor.

    Args:
        data: A number, nested sequences of numbers, an array or a tensor.
        dtype: The dtype of the result.
        device: The device of the result. Only the CPU is supported.
        requires_grad: Whether operations on the result are recorded for autograd.
        layout: ``torch.strided``.
        pin_memory: Accepted for compatibility; it has no effect.

    Returns:
        A new leaf, without history.
    """
    kind = self.dtype if dtype is None else dtype
    device = device_like(self, device)
    made = _copied("tensor.new_tensor", data, kind, device, requires_grad)
    if isinstance(self._data, Lifted) and not isinstance(made._data, Lifted):
        return new_tensor(for_each_entry(self, made._data), made.requires_grad, CPU)
    return made


_FILLS: dict[str, Callable[..., Tensor]] = {
    "new_zeros": zeros, "new_ones": ones, "new_empty": empty, "new_full": full
}  # fmt: skip
for _name, _fill in _FILLS.items():
    setattr(Tensor, _name, _new(_fill))
new_tensor_like.__name__ = new_tensor_like.__qualname__ = "new_tensor"
Tensor.new_tensor = new_tensor_like  # type: ignore[assignment, method-assign]
Tensor.new = new  # type: ignore[assignment, method-assign]
