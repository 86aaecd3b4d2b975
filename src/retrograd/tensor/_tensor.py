"""The Tensor that users hold.

Operations are attached to it as methods where the table is bound; here is what is about the
array itself: its shape and dtype, conversion, copying, printing.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from retrograd import arrays
from retrograd._modes import modes
from retrograd.arrays import Raw, dtypes
from retrograd.autograd._history import meta_of
from retrograd.autograd._levels import value_of
from retrograd.autograd._variable import Variable
from retrograd.autograd._wrap import Plug, wrap
from retrograd.ops._lifted import Lifted, device_value, memory_of, on_meta, tracer
from retrograd.tensor._device import CPU, META, array_and_device, placed
from retrograd.tensor._device import device as device
from retrograd.tensor._memory_formats import is_in_order, strided


class Size(tuple[int, ...]):
    """A shape, printed as PyTorch prints it.

    >>> Size((2, 3)), Size((2, 3)).numel()
    (torch.Size([2, 3]), 6)
    """

    __slots__ = ()

    def numel(self) -> int:
        """Returns the number of elements of a tensor of this shape.

        Returns:
            The product of the sizes.
        """
        count = 1
        for s in self:
            count *= s
        return count

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    def __add__(self, other: tuple[int, ...]) -> Size:  # type: ignore[override]
        return Size((*self, *other))

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Size: ...
    def __getitem__(self, index: SupportsIndex | slice) -> int | Size:
        picked: Any = tuple.__getitem__(self, index)
        return Size(picked) if isinstance(index, slice) else picked


if TYPE_CHECKING:  # the operations of the table are attached as methods at run time
    from retrograd.tensor._bound import Methods as _Base
    from retrograd.tensor._typing import Array
else:
    _Base = Variable


class Tensor(_Base):
    """An n-dimensional array that records the operations that it results from.

    Create tensors with ``tensor``, ``zeros``, ``from_numpy`` and similar functions.

    Args:
        *data: The sizes of a tensor, or one sequence of data. The dtype is the default
            floating-point dtype.

    Example:
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum()
        tensor(5., grad_fn=<SumBackward0>)
    """

    __slots__ = ()
    _shown_as = "tensor"  # how it is printed; a subclass is, by its name

    def __new__(cls, *data: Any) -> Any:
        # PyTorch's old constructor: of sizes, or of one piece of data.
        tensor = object.__new__(cls)
        if all(isinstance(d, int) for d in data):
            tensor._data = arrays.zeros(data or (0,), dtypes.default_float())
        elif isinstance(data[0], Tensor):
            tensor._data = data[0].detach()._data
        else:
            tensor._data = arrays.array(data[0], dtypes.default_float())
        tensor._node = tensor._version_counter = tensor._meta = None
        return tensor

    if TYPE_CHECKING:  # what _overrides adds

        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
        ) -> Any: ...

    # -- the array ---------------------------------------------------------------------------

    @property
    def data(self) -> Tensor:
        """The same memory without a history. Writes to it do not increment the version counter."""
        if not isinstance(self._data, Lifted):
            self._data = arrays.writable(self._data)
        elif self._data.level is not Lifted.device_level:
            return self.detach()
        result: Tensor = wrap(self._data)
        if self.is_inference():
            meta_of(result).inference = True
        if modes.observer is not None:
            modes.observer.left(self, result)
        return result

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            name = "numpy.ndarray" if arrays.is_raw(value) else type(value).__name__
            raise TypeError(f"Variable data has to be a tensor, but got {name}")
        if self.requires_grad and value._data.dtype.kind not in dtypes.INEXACT:
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex "
                "dtype"
            )
        before = self._data.shape, self._data.dtype
        self._data = value._data
        if self.requires_grad and before != (value._data.shape, value._data.dtype):
            from retrograd.autograd._unrecorded import note_change  # few programs need it

            note_change(self, before)

    @property
    def shape(self) -> Size:
        """The size of each dimension."""
        return Size(self._data.shape)

    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None) -> Size | int:
        """Returns the shape, or the size of one dimension.

        Args:
            dim: The dimension. By default, the shape is returned.

        Returns:
            The shape, or an integer.
        """
        return self.shape if dim is None else self.shape[dim]

    @property
    def dtype(self) -> dtypes.dtype:
        """The type of the elements."""
        return dtypes.from_numpy_dtype(self._data.dtype)

    @property
    def device(self) -> device:
        """The device that the tensor is on."""
        if not isinstance(self._data, Lifted):
            return CPU
        value = device_value(self._data)
        if value is not None:
            own: device = value.memory.device
            return own
        if (level := tracer()) is not None and level.device is not None:
            traced_for: device = level.device
            return traced_for
        return META if on_meta(self._data) else CPU

    @property
    def is_meta(self) -> bool:
        """Whether the tensor is on the device ``meta``, and so has no memory."""
        return isinstance(self._data, Lifted) and on_meta(self._data)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return int(self._data.ndim)

    def dim(self) -> int:
        """Returns the number of dimensions."""
        return int(self._data.ndim)

    ndimension = dim
    # Questions of programs that also run elsewhere.
    is_xpu = is_mps = False
    is_sparse = is_sparse_csr = is_mkldnn = is_quantized = is_nested = False
    layout = strided

    def get_device(self) -> int:
        """Returns the index of the device of the tensor.

        Returns:
            The index; -1 is that of the CPU.
        """
        index = self.device.index
        return -1 if index is None else index

    @property
    def is_cpu(self) -> bool:
        """Whether the tensor is on the CPU, as an array of NumPy."""
        return self.device.type == "cpu"

    @property
    def is_cuda(self) -> bool:
        """Whether the tensor is on a GPU."""
        return self.device.type == "cuda"

    def numel(self) -> int:
        """Returns the number of elements."""
        return int(self._data.size)

    nelement = numel

    @property
    def nbytes(self) -> int:
        """The number of bytes that the elements take."""
        return int(self._data.nbytes)

    @property
    def itemsize(self) -> int:
        """The number of bytes of one element."""
        return int(self._data.itemsize)

    def element_size(self) -> int:
        """Returns the number of bytes of one element."""
        return int(self._data.itemsize)

    @overload
    def stride(self, dim: None = None) -> tuple[int, ...]: ...
    @overload
    def stride(self, dim: int) -> int: ...
    def stride(self, dim: int | None = None) -> tuple[int, ...] | int:
        """Returns the distance in memory between neighbouring elements along a dimension.

        Args:
            dim: The dimension. By default, the strides of all dimensions are returned.

        Returns:
            The stride, or a tuple of them, in elements.
        """
        strides = arrays.strides(self._data)
        return strides if dim is None else strides[dim]

    def storage_offset(self) -> int:
        """Returns the index of the first element in the storage of the tensor."""
        return arrays.layout.offset(arrays.writable(memory_of(self)))

    def data_ptr(self) -> int:
        """Returns the address in memory of the first element."""
        if isinstance(self._data, Lifted):
            self._data.refuse("data_ptr()")
        self._data = arrays.writable(self._data)
        return int(self._data.__array_interface__["data"][0])

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Tests whether the elements are in row-major order in memory, without gaps.

        Args:
            memory_format: Another order to ask about, such as ``torch.channels_last``.
        """
        if memory_format is None or memory_format == "contiguous":
            return arrays.is_contiguous(self._data)
        return is_in_order(self._data, memory_format)

    def is_floating_point(self) -> bool:
        """Tests whether the dtype is a floating-point dtype."""
        return bool(self._data.dtype.kind in dtypes.FLOATS)

    def is_complex(self) -> bool:
        """Tests whether the dtype is a complex dtype."""
        return bool(self._data.dtype.kind == "c")

    # -- to Python and NumPy -----------------------------------------------------------------

    def numpy(self, *, force: bool = False) -> Array:
        """Returns the elements as a NumPy array that shares their memory.

        A tensor that requires grad must be detached first, unless recording is disabled.

        Args:
            force: Whether a tensor that requires grad is accepted as it is.
        """
        if self._data.dtype.kind == "V":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self._array(force)

    def _array(self, force: bool = False) -> Array:
        """As ``numpy``, of any dtype."""
        if modes.grad_enabled and not force and self.requires_grad:
            from retrograd.tensor._no_array import NO_ARRAY

            raise RuntimeError(NO_ARRAY)
        if isinstance(self._data, Lifted):
            own = self.device
            if force and device_value(self._data) is self._data:
                return self._data.host  # type: ignore[no-any-return]
            if own is not CPU:
                raise TypeError(
                    f"can't convert {own} device type tensor to numpy. Use Tensor.cpu() to copy "
                    "the tensor to host memory first."
                )
            shown: Array = self._data.__array__()
            return shown
        self._data = arrays.writable(self._data)
        array: Array = self._data
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if modes.grad_enabled and self.requires_grad:
            from retrograd.tensor._no_array import no_array

            raise no_array()
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    # NumPy's functions of tensors are ours: see numpy_protocols/.
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return Plug.protocols().array_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        return Plug.protocols().array_function(function, types, args, named)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """What a function that takes tensors for arrays makes of its result: a tensor, without
        history."""
        return wrap(array)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The functions of the array API standard, as ``retrograd.array_api``."""
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            raise ValueError(f"the array API of version {api_version!r} is not known")
        return Plug.array_api()

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """Returns the tensor on a device, by the name that the array API standard has for it.

        Args:
            device: The device. Only the CPU is supported.
            stream: Must be None, as the CPU has no streams.

        Returns:
            The tensor itself, if it is there already.
        """
        if stream is not None:
            raise ValueError("to_device: the CPU has no streams")
        return self.to(device)

    def __dlpack__(
        self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> Any:  # fmt: skip
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if stream is not None:
            raise BufferError("a tensor on the CPU cannot be exported on a stream")
        return arrays.to_dlpack(self.numpy(), max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    # NumPy must leave `array + tensor` to the tensor, which knows what to record.
    __array_priority__ = 1000

    def item(self) -> bool | int | float:
        """Returns the only element of the tensor as a Python number."""
        if self._data.size != 1:
            raise RuntimeError(
                f"a Tensor with {self._data.size} elements cannot be converted to Scalar"
            )
        if modes.observer is not None:
            return modes.observer.number(self, self._data.item())  # type: ignore[no-any-return]
        return self._data.item()  # type: ignore[no-any-return]

    def tolist(self) -> Any:
        """Returns the elements as nested lists of Python numbers.

        Returns:
            A list, or a number if the tensor has no dimensions.
        """
        return self._data.tolist()

    def _scalar(self) -> Any:
        if self._data.size != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        if self.requires_grad:
            warnings.warn(
                "Converting a tensor with requires_grad=True to a scalar may lead to unexpected "
                "behavior.\nConsider using tensor.detach() first.",
                UserWarning,
                stacklevel=3,
            )
        return self.item()

    def __float__(self) -> float:
        return float(self._scalar())

    def __int__(self) -> int:
        return int(self._scalar())

    def __complex__(self) -> complex:
        return complex(self._scalar())

    def __index__(self) -> int:
        if self._data.dtype.kind not in "biu" or self._data.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self._data.item())

    def __bool__(self) -> bool:
        if self._data.size > 1:
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        if self._data.size == 0:
            raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
        if isinstance(self._data, Lifted):
            return self._data.truth()
        return bool(self._data.item())

    def __len__(self) -> int:
        if not self._data.ndim:
            raise TypeError("len() of a 0-d tensor")
        return len(self._data)

    def __iter__(self) -> Iterator[Tensor]:
        if not self._data.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __reversed__(self) -> Tensor:
        return self.flip(0) if self._data.ndim else self

    def __contains__(self, element: Any) -> bool:
        if not isinstance(element, (Tensor, bool, int, float, complex)):
            raise RuntimeError(
                "Tensor.__contains__ only supports Tensor or scalar, but you passed in a "
                f"{type(element)}."
            )
        return bool((self == element).any().item())

    __hash__ = object.__hash__

    # -- copies ------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment.  If you were attempting to deepcopy a module, this may be "
                "because of a torch.nn.utils.weight_norm usage, see "
                "https://github.com/pytorch/pytorch/pull/103001"
            )
        if id(self) in memo:
            return memo[id(self)]  # type: ignore[no-any-return]
        copied: Tensor = object.__new__(type(self))
        lifted = isinstance(self._data, Lifted)  # on a device, say
        copied._data = self.detach().clone()._data if lifted else _deep_copy(self._data, memo)
        copied._node = copied._version_counter = copied._meta = None
        memo[id(self)] = copied
        if self.requires_grad:
            copied.requires_grad_()
        if self._meta is not None and self._meta.grad is not None:
            copied.grad = self._meta.grad.__deepcopy__(memo)
        if self.__dict__:
            import copy

            copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return copied

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # The history stays behind: what is loaded is a leaf, as in PyTorch.
        data, own = array_and_device(self._data)
        return _rebuild, (type(self), data, self.requires_grad, self.__dict__ or None, own)

    # -- printing ----------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from retrograd.tensor._notebook import html

        return html(self)

    def __repr__(self) -> str:
        try:
            node = self.grad_fn
            maker = None if node is None else type(node).__name__
        except RuntimeError:  # a view that must not be used since its base was written
            maker = "Invalid"
        suffixes = []
        if maker is not None:
            suffixes.append(f"grad_fn=<{maker}>")
        elif self.requires_grad:
            suffixes.append("requires_grad=True")
        if isinstance(value_of(self), Lifted):
            shown: str = self._data.text("".join(f", {suffix}" for suffix in suffixes))
            return shown
        default = dtypes.get_default_dtype()
        defaults = (default.numpy, default.to_complex().numpy)
        return arrays.formatting.format_array(
            self._data, suffixes=suffixes, prefix=f"{self._shown_as}(", default_dtypes=defaults
        )

    def __format__(self, spec: str) -> str:
        if not self._data.ndim:
            return self.item().__format__(spec)
        return object.__format__(self, spec)


def _deep_copy(data: Any, memo: dict[int, Any]) -> Any:
    """A copy in a new memory, which is shared with other copies as the old one is."""
    if not isinstance(data, arrays.ndarray):
        return arrays.copy(data)
    old = arrays.layout.memory(data)
    if any(step < 0 for step in old.strides):  # of NumPy's; copied the other way round
        return arrays.copy(data)
    if id(old) not in memo:
        memo[id(old)] = arrays.layout.copy_with_gaps(old)
    return arrays.layout.same_place(data, memo[id(old)])


def _rebuild(
    kind: type[Tensor], data: Raw, requires_grad: bool, attributes: Any, target: Any = None
) -> Tensor:
    tensor: Tensor = object.__new__(kind)
    tensor._data = data if target is None else placed(data, target)
    tensor._node = tensor._version_counter = tensor._meta = None
    if attributes:
        tensor.__dict__.update(attributes)
    if requires_grad:
        meta_of(tensor).requires_grad = True
    return tensor


for _class in (Tensor, Size, dtypes.dtype):
    _class.__module__ = "retrograd"  # where users find them
Plug.tensor = Tensor
