"""Values of tensors on devices: views of device memory.

XLA's arrays are immutable, but a tensor's memory is not. ``Memory`` refers to the array with its
current contents, or to a ``Later`` if that is not computed yet (``_deferred.py``). A write replaces
that array by another. A value is all of a memory or a part of it, described by view operations.
These are evaluated inside the operation that uses the value, so that XLA need not copy it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn
from weakref import WeakValueDictionary

from retrograd import arrays
from retrograd.autograd._levels import as_tensor
from retrograd.compiler._program import Step
from retrograd.devices import _pending, _platforms
from retrograd.devices._deferred import Later
from retrograd.ops._lifted import Lifted, LooksAtValues

np = arrays.programs.numpy


class Memory:
    """Memory on a device. ``content`` is the XLA array of its current contents, or a ``Later``."""

    __slots__ = ("content", "device", "layout")

    def __init__(self, content: Any, device: Any) -> None:
        self.content = content
        self.device = device  # the device, as users name it
        self.layout: Any = None  # created on demand

    @property
    def array(self) -> Any:
        """The XLA array. If it is pending, it is computed now."""
        content = self.content
        if type(content) is not Later:
            return content
        array = content.read()
        if self.content is content:  # and no other thread has written
            self.content = array
        return array

    def hold(self, content: Any) -> None:
        """Replace the contents. On a mesh of devices, the sharding stays the same."""
        if self.device._mesh is not None and content.sharding != self.array.sharding:
            content = moved(content, self.array.sharding)
        self.content = content


class Kind:
    """The properties of an operand that a function is compiled for: its device, the shape and dtype
    of its memory, and the view operations applied to that. There is one object for each combination
    of properties, so kinds are compared and hashed by identity."""

    __slots__ = ("__weakref__", "device", "dtype", "shape", "traced")

    def __init__(self, device: Any, shape: tuple[int, ...], dtype: Any, traced: bool) -> None:
        self.device = device
        self.shape = shape
        self.dtype = dtype
        self.traced = traced  # whether the value exists only while JAX traces a function


# Values and the keys of caches refer to the kinds that are in use.
_kinds: WeakValueDictionary[Any, Kind] = WeakValueDictionary()


def find_kind(
    device: Any, shape: tuple[int, ...], dtype: Any, traced: bool = False, views: Any = None
) -> Kind:
    """The kind with these properties."""
    # The number of the dtype, because hashing a dtype is slow.
    key = (device, shape, dtype.num, traced, views)
    kind = _kinds.get(key)
    if kind is None:
        kind = _kinds[key] = Kind(device, tuple(shape), dtype, traced)
    return kind


def constant_key(x: Any) -> Any:
    """A key for an argument that is not an array. Floats are represented by their text, because NaN
    is not equal to itself."""
    if isinstance(x, (float, complex)):
        return (type(x), repr(x))
    if isinstance(x, slice):
        return (slice, x.start, x.stop, x.step)
    if type(x) in (list, tuple):
        return (type(x), *map(constant_key, x))
    if type(x) is dict:
        return (dict, *[(name, constant_key(value)) for name, value in x.items()])
    if acts_once(x):  # a new object in each call
        return type(x)
    return (type(x), x)


def acts_once(x: Any) -> bool:
    """Whether an option writes to tensors that it holds when an operation is first called with it,
    such as the running statistics of a batch norm."""
    return getattr(type(x), "acts_once", False)


def steps_key(steps: tuple[Step, ...]) -> Any:
    return tuple([
        (step.operation.name, step.number, constant_key(step.options)) for step in steps
    ])  # fmt: skip


class View(NamedTuple):
    """The description of a view of values of one kind."""

    shape: tuple[int, ...]
    dtype: Any
    steps: tuple[Step, ...]
    kind: Kind


class OnDeviceError(LooksAtValues):
    """A value on a device was used by code that needs an array on the CPU."""

    transform = "a device"


_marked: dict[int, Any] = {}


def marked(dtype: Any) -> Any:
    """A dtype that is equal to another but not the same object. The fast paths for the CPU compare
    dtypes by identity, so they leave values on devices to the general path without an additional
    check."""
    result = _marked.get(dtype.num)  # the number, because hashing a dtype is slow
    if result is None:
        result = _marked[dtype.num] = np.dtype(dtype, metadata={"on": "a device"})
    return result


class DeviceValue(Lifted):
    """All of a memory on a device, or a part of it.

    ``layout`` is an array in reserved memory that has the strides and the offset of the value. Its
    elements are never read. It is used to compute the layouts of views and to detect overlaps.
    """

    __slots__ = ("_kind", "_layout", "dtype", "memory", "shape", "steps")

    copied_on_write = True
    level: Any
    shape: tuple[int, ...]
    dtype: Any

    def __init__(self, memory: Memory, shape: Any, dtype: Any) -> None:
        self.level = Lifted.device_level
        self.memory = memory
        self.shape = shape
        self.dtype = marked(dtype)
        self.steps: tuple[Step, ...] = ()
        self._layout: Any = None
        self._kind: Kind | None = None

    @property
    def kind(self) -> Kind:
        """The properties that functions are compiled for."""
        if self._kind is None:
            content, views = self.memory.content, steps_key(self.steps) if self.steps else None
            traced = _pending.tracing.expected is not None
            self._kind = find_kind(self.memory.device, content.shape, marked(content.dtype), traced,
                                   views)  # fmt: skip
        return self._kind

    @property
    def layout(self) -> Any:
        """An array with the strides and the offset of the value. Its elements are meaningless."""
        if self._layout is None:
            memory = self.memory
            if memory.layout is None:
                memory.layout = arrays.layout.reserved(memory.content.shape, memory.content.dtype)
            layout = memory.layout
            for step in self.steps:
                layout = step(layout)
            self._layout = layout
        return self._layout

    def view(self, layout: Any, step: Step) -> View:
        """The description of a view of this value, given by its layout and its operation."""
        content, steps = self.memory.content, (*self.steps, step)
        kind = find_kind(self.memory.device, content.shape, marked(content.dtype), self.kind.traced,
                         steps_key(steps))  # fmt: skip
        return View(layout.shape, marked(layout.dtype), steps, kind)

    def part(self, view: View) -> DeviceValue:
        """A view of this value. This is ``__init__`` written out, to save time."""
        value = object.__new__(DeviceValue)
        value.level = self.level
        value.memory = self.memory
        value.shape, value.dtype, value.steps, value._kind = view
        value._layout = None
        return value

    @property
    def whole(self) -> DeviceValue:
        """The whole memory as a value."""
        content = self.memory.content
        return DeviceValue(self.memory, tuple(content.shape), content.dtype)

    def apart(self) -> DeviceValue:
        """The same contents in separate memory. If this is no view, nothing is copied, because
        arrays are immutable."""
        if self.steps:
            from retrograd.ops.copies import clone

            copy: DeviceValue = clone(self)
            return copy
        return DeviceValue(Memory(self.memory.content, self.memory.device), self.shape, self.dtype)

    @property
    def array(self) -> Any:
        """The XLA array of the elements."""
        return self.memory.array if not self.steps else self.apart().memory.array

    @property
    def content(self) -> Any:
        """The XLA array of the elements, or a ``Later``."""
        return self.memory.content if not self.steps else self.apart().memory.content

    @property
    def host(self) -> Any:
        """A copy of the elements as a NumPy array."""
        array = self.array
        _pending.check()
        return on_host(array)

    @property
    def inner(self) -> Any:
        copy = self.host
        copy.setflags(write=False)  # writes to a copy would be lost
        return copy

    @property
    def parts(self) -> tuple[Any, ...]:
        return ()  # the copy on the CPU does not count

    @property
    def shared(self) -> Any:
        return None

    @property
    def in_rows(self) -> bool:
        """Whether the value is known to be contiguous without computing its layout."""
        return self._layout is None and self.memory.layout is None and not self.steps

    @property
    def differs(self) -> bool:
        return False

    @property
    def strides(self) -> tuple[int, ...]:
        if self.in_rows:
            step, contiguous = int(self.dtype.itemsize), []
            for size in reversed(self.shape):
                contiguous.append(step)
                step *= max(size, 1)
            return tuple(reversed(contiguous))
        strides: tuple[int, ...] = self.layout.strides
        return strides

    def hold(self, as_tensor: Callable[[Any], Any]) -> None:
        pass

    def detached(self) -> Lifted:
        return self

    def as_gradient(self, like: Any = None) -> Lifted:
        gradient = self.apart()
        if isinstance(like, DeviceValue) and like.memory.device._mesh is not None:
            # The gradient gets the sharding of ``like``.
            gradient.memory.content, content = like.array, gradient.memory.content
            gradient.memory.hold(content)
        return gradient

    def placed(self, x: Any) -> Any:
        return put(x, self.memory.device)

    def plus(self, g: Any) -> Any:
        self.level.write(self, Lifted.operations["add"](self, g))
        return self

    def filled(self, value: Any) -> DeviceValue:
        """A new value of this shape and dtype, on the same device, filled with a number."""
        device = self.memory.device
        where = None if device._mesh is None else self.array.sharding
        return filled(self.shape, self.dtype, value, device, where)

    def update(self, kernel: Any, operands: Any, numbers: Any) -> None:
        """Apply an optimizer's kernel to this parameter and its state."""
        from retrograd.devices._updates import update

        update(kernel, operands, numbers)

    def flattened(self, parts: Any) -> DeviceValue:
        """One vector of the elements of several values."""
        from retrograd.devices._updates import flattened

        return flattened(parts)

    def add_flat_to(self, params: Any, size: Any) -> None:
        """Add ``size`` times the elements of this vector to those of several values."""
        from retrograd.devices._updates import add_flat

        add_flat(params, self, size)

    # -- elements ------------------------------------------------------------------------------

    def item(self) -> Any:
        return self.host.item()

    def tolist(self) -> Any:
        return self.host.tolist()

    def text(self, suffixes: str) -> str:
        return f"{repr(as_tensor(self.host))[:-1]}, device={str(self.memory.device)!r}{suffixes})"

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        operation = Lifted.operations.get(ufunc.__name__)
        if operation is None or method != "__call__" or named:
            if self.level.looks:
                return getattr(ufunc, method)(*map(seen, inputs), **named)
            self.refuse(ufunc.__name__)
        return operation(*inputs)

    def __array_function__(self, function: Any, *call: Any) -> Any:
        if not self.level.looks:
            self.refuse(function.__name__)
        _, args, named = call
        return function(*map(seen, args), **{name: seen(x) for name, x in named.items()})

    def __array__(self, *args: Any, **named: Any) -> Any:
        if not self.level.looks:
            self.refuse("conversion to an array")
        return self.host.__array__(*args)

    def __getitem__(self, index: Any) -> Any:
        if not self.level.looks:
            self.refuse("indexing")
        return self.host[index]

    def __bool__(self) -> bool:
        return bool(self.item())

    def refuse(self, what: str) -> NoReturn:
        raise OnDeviceError(
            f"a tensor on the device {self.memory.device} cannot be used by code that runs on the "
            f"CPU, such as NumPy and SciPy ({what}). Move it there first, with .cpu()."
        )


def seen(x: Any) -> Any:
    """A copy of a value as a NumPy array; for lists and tuples, of all values in them."""
    if isinstance(x, DeviceValue):
        return x.host
    if type(x) in (list, tuple):
        return type(x)(map(seen, x))
    return x


def on_host(array: Any) -> Any:
    """A copy of an XLA array as a NumPy array. All processes that hold parts of it must call this.
    """
    if not array.is_fully_addressable:
        if not array.is_fully_replicated:
            from retrograd.distributed import _mesh_waits

            _mesh_waits.agree_to_read(array)
            sharding = _platforms.jax().sharding
            array = moved(array, sharding.NamedSharding(array.sharding.mesh,
                                                        sharding.PartitionSpec()))  # fmt: skip
        _platforms.wait_for([array])
        array = array.addressable_data(0)
    return np.array(array)


# -- to and from devices ---------------------------------------------------------------------


def moved(array: Any, where: Any) -> Any:
    """An XLA array with another sharding. Its dtype is kept: by default, JAX converts float64 to
    float32."""
    jax = _platforms.jax()
    with jax.enable_x64(True):
        return _platforms.settled(jax.device_put(array, where))


def put(data: Any, device: Any, where: Any = None) -> DeviceValue:
    """A copy of an array, or of a value on another device, on the device ``device``. ``where`` is
    JAX's sharding for a mesh of devices."""
    jax = _platforms.jax()
    target = _platforms.target(device) if where is None else where
    if isinstance(data, DeviceValue) and not data.array.is_fully_addressable and where is None:
        data = data.host
    source = data.array if isinstance(data, DeviceValue) else np.array(data, order="C")
    with jax.enable_x64(True):
        if isinstance(data, DeviceValue) or getattr(target, "is_fully_addressable", True):
            array = _platforms.within_memory(jax.device_put, device, source, target)
        else:
            array = put_from_first([source], target)[0]
    if array is source:
        array = array.copy()
    return DeviceValue(Memory(array, numbered(device)), tuple(data.shape), data.dtype)


def put_from_first(sources: Sequence[Any], where: Any) -> list[Any]:
    """Copies of contiguous NumPy arrays on a mesh of several processes. The arrays are overwritten
    by those of the first process. Then each process provides the parts on its own devices."""
    from retrograd.distributed import _mesh_waits

    if not where.addressable_devices:
        raise RuntimeError(
            "this process drives no device of the mesh (get_coordinate() is None), so it cannot "
            "move tensors to it"
        )
    _mesh_waits.copy_from_first(sources, where)
    make = _platforms.jax().make_array_from_callback
    return [make(x.shape, where, x.__getitem__) for x in sources]


def filled(
    shape: tuple[int, ...], dtype: Any, value: Any, device: Any, where: Any = None
) -> DeviceValue:
    """A new value filled with a number."""
    jax = _platforms.jax()
    target = _platforms.target(device) if where is None else where
    with jax.enable_x64(True):
        fill = lambda: jax.numpy.full(shape, value, dtype, device=target)
        array = _platforms.within_memory(fill, device)
    return DeviceValue(Memory(array, numbered(device)), shape, dtype)


_numbered: dict[tuple[str, int], Any] = {}  # one object for each device: faster to compare


def numbered(device: Any) -> Any:
    """A device with an index, as ``Tensor.device`` returns it."""
    if device.index is not None or device._mesh is not None:
        return device
    key = (device.type, _platforms.current(device.type))
    if key not in _numbered:
        _numbered[key] = type(device)(*key)
    return _numbered[key]
