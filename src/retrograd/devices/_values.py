"""Values of tensors on devices: views of device memory.

XLA's arrays never change, and memory does. ``Memory`` refers to the array that holds its present
contents, or to what stands for an array that is not computed yet (``_deferred.py``); a write puts
another one in its place. A value is all of a memory, or a part of it, by
the views that lead there. Views are taken inside of the operation that uses them, where XLA need
not copy anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from retrograd import arrays
from retrograd.autograd._levels import as_tensor
from retrograd.compiler._program import Step
from retrograd.devices import _pending, _platforms
from retrograd.devices._deferred import Later
from retrograd.ops._lifted import Lifted, LooksAtValues

np = arrays.programs.numpy


class Memory:
    """Memory on a device. ``content`` is XLA's array of what it holds now, or stands for it."""

    __slots__ = ("content", "layout", "place")

    def __init__(self, content: Any, place: Any) -> None:
        self.content = content
        self.place = place  # the device, as users name it
        self.layout: Any = None  # made on demand

    @property
    def array(self) -> Any:
        """XLA's array, which is computed now if it has not been."""
        content = self.content
        if type(content) is not Later:
            return content
        array = content.read()
        if self.content is content:  # another thread may have written
            self.content = array
        return array

    def hold(self, content: Any) -> None:
        """Hold other contents, spread over a mesh of devices as they were."""
        if self.place._mesh is not None and content.sharding != self.array.sharding:
            content = moved(content, self.array.sharding)
        self.content = content


class Kind:
    """What compiled functions are compiled for of an operand: where it is, the shape and dtype of
    its memory, and the views taken of that. There is one object for each kind, so that two are
    compared, and hashed, by identity."""

    __slots__ = ("dtype", "place", "shape", "traced")

    def __init__(self, place: Any, shape: tuple[int, ...], dtype: Any, traced: bool) -> None:
        self.place = place
        self.shape = shape
        self.dtype = dtype
        self.traced = traced  # whether it is only known to a function that JAX is tracing


_kinds: dict[Any, Kind] = {}


def find_kind(
    place: Any, shape: tuple[int, ...], dtype: Any, traced: bool = False, views: Any = None
) -> Kind:
    """The one kind of these properties."""
    # A number for the dtype, as the hash of a dtype takes long to compute.
    key = (place, shape, dtype.num, traced, views)
    found = _kinds.get(key)
    if found is None:
        found = _kinds[key] = Kind(place, tuple(shape), dtype, traced)
    return found


def constant_key(x: Any) -> Any:
    """A key for an argument that is no array: floats by their text, as nan is not itself."""
    if isinstance(x, (float, complex)):
        return (type(x), repr(x))
    if isinstance(x, slice):
        return (slice, x.start, x.stop, x.step)
    if type(x) in (list, tuple):
        return (type(x), *map(constant_key, x))
    if type(x) is dict:
        return (dict, *[(name, constant_key(value)) for name, value in x.items()])
    if acts_once(x):  # another object in each call
        return type(x)
    return (type(x), x)


def acts_once(x: Any) -> bool:
    """Whether an option writes to tensors that it holds, when an operation is first called with it:
    the running statistics of a batch norm."""
    return getattr(type(x), "acts_once", False)


def steps_key(steps: tuple[Step, ...]) -> Any:
    return tuple([
        (step.operation.name, step.number, constant_key(step.options)) for step in steps
    ])  # fmt: skip


class View(NamedTuple):
    """What the views of values of one kind are like."""

    shape: tuple[int, ...]
    dtype: Any
    steps: tuple[Step, ...]
    kind: Kind


class OnDeviceError(LooksAtValues):
    """Code that needs an array on the CPU was given a value on a device."""

    transform = "a device"


_marked: dict[int, Any] = {}


def marked(dtype: Any) -> Any:
    """A dtype that is equal to another, but not the same object. Fast paths compare by identity,
    and so leave values on devices to the general path, without having to ask for them."""
    result = _marked.get(dtype.num)  # a number, as the hash of a dtype takes long to compute
    if result is None:
        result = _marked[dtype.num] = np.dtype(dtype, metadata={"on": "a device"})
    return result


class DeviceValue(Lifted):
    """All of a memory on a device, or a part of it.

    ``layout`` is an array that lies in reserved memory just as the value would in the device's, and
    that is never looked at: it knows strides, offsets, and what overlaps what.
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
        """What compiled functions have to know of it."""
        if self._kind is None:
            content, views = self.memory.content, steps_key(self.steps) if self.steps else None
            traced = _pending.tracing.expected is not None
            self._kind = find_kind(self.memory.place, content.shape, marked(content.dtype), traced,
                                   views)  # fmt: skip
        return self._kind

    @property
    def layout(self) -> Any:
        """An array with the strides of the value. Its elements mean nothing."""
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
        """What a view of it is like, whose layout is given."""
        content, steps = self.memory.content, (*self.steps, step)
        kind = find_kind(self.memory.place, content.shape, marked(content.dtype), self.kind.traced,
                         steps_key(steps))  # fmt: skip
        return View(layout.shape, marked(layout.dtype), steps, kind)

    def part(self, view: View) -> DeviceValue:
        """A view of it. As ``__init__`` makes it, in less time."""
        value = object.__new__(DeviceValue)
        value.level = self.level
        value.memory = self.memory
        value.shape, value.dtype, value.steps, value._kind = view
        value._layout = None
        return value

    @property
    def whole(self) -> DeviceValue:
        """All of its memory."""
        content = self.memory.content
        return DeviceValue(self.memory, tuple(content.shape), content.dtype)

    def apart(self) -> DeviceValue:
        """The same contents in memory of their own. Nothing is copied: it is written elsewhere."""
        if self.steps:
            from retrograd.ops.copies import clone

            copy: DeviceValue = clone(self)
            return copy
        return DeviceValue(Memory(self.memory.content, self.memory.place), self.shape, self.dtype)

    @property
    def array(self) -> Any:
        """XLA's array of the elements."""
        return self.memory.array if not self.steps else self.apart().memory.array

    @property
    def content(self) -> Any:
        """XLA's array of the elements, or what stands for it."""
        return self.memory.content if not self.steps else self.apart().memory.content

    @property
    def host(self) -> Any:
        """The elements as a NumPy array, a copy."""
        array = self.array
        _pending.check()
        if not array.is_fully_addressable:  # other processes have some of it
            array = moved(array, _platforms.target(self.memory.place))
            return np.array(array.addressable_data(0))
        return np.array(array)

    @property
    def inner(self) -> Any:
        found = self.host
        found.setflags(write=False)  # what is written to a copy would be lost
        return found

    @property
    def parts(self) -> tuple[Any, ...]:
        return ()  # a copy on the CPU is none

    @property
    def shared(self) -> Any:
        return None

    @property
    def in_rows(self) -> bool:
        """Whether it is known to lie row by row in memory, without looking at strides."""
        return self._layout is None and self.memory.layout is None and not self.steps

    @property
    def differs(self) -> bool:
        return False

    @property
    def strides(self) -> tuple[int, ...]:
        if self.in_rows:
            step, found = int(self.dtype.itemsize), []
            for size in reversed(self.shape):
                found.append(step)
                step *= max(size, 1)
            return tuple(reversed(found))
        strides: tuple[int, ...] = self.layout.strides
        return strides

    def hold(self, as_tensor: Callable[[Any], Any]) -> None:
        pass

    def detached(self) -> Lifted:
        return self

    def as_gradient(self, like: Any = None) -> Lifted:
        found = self.apart()
        if isinstance(like, DeviceValue) and like.memory.place._mesh is not None:
            found.memory.content, content = like.array, found.memory.content
            found.memory.hold(content)
        return found

    def placed(self, x: Any) -> Any:
        return put(x, self.memory.place)

    def plus(self, g: Any) -> Any:
        self.level.write(self, Lifted.operations["add"](self, g))
        return self

    def filled(self, value: Any) -> DeviceValue:
        """A new value like this one, whose elements are all the same."""
        place = self.memory.place
        where = None if place._mesh is None else self.array.sharding
        return filled(self.shape, self.dtype, value, place, where)

    def update(self, kernel: Any, operands: Any, numbers: Any) -> None:
        """Do what a kernel of an optimizer does to this parameter and its state."""
        from retrograd.devices._updates import update

        update(kernel, operands, numbers)

    def flattened(self, parts: Any) -> DeviceValue:
        """The elements of this value and others, one after the other."""
        from retrograd.devices._updates import flattened

        return flattened(parts)

    def add_flat_to(self, params: Any, size: Any) -> None:
        """Add ``size`` times its elements to those of some values."""
        from retrograd.devices._updates import add_flat

        add_flat(params, self, size)

    # -- elements ------------------------------------------------------------------------------

    def item(self) -> Any:
        return self.host.item()

    def tolist(self) -> Any:
        return self.host.tolist()

    def text(self, suffixes: str) -> str:
        return f"{repr(as_tensor(self.host))[:-1]}, device='{self.memory.place}'{suffixes})"

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        operation = Lifted.operations.get(ufunc.__name__)
        if operation is None or method != "__call__" or named:
            if self.level.looks:
                return getattr(ufunc, method)(*map(seen, inputs), **named)
            self.refuse(ufunc.__name__)
        return operation(*inputs)

    def __array_function__(self, function: Any, *given: Any) -> Any:
        if not self.level.looks:
            self.refuse(function.__name__)
        _, args, named = given
        return function(*map(seen, args), **{name: seen(x) for name, x in named.items()})

    def __array__(self, *given: Any, **named: Any) -> Any:
        if not self.level.looks:
            self.refuse("the array")
        return self.host.__array__(*given)

    def __getitem__(self, index: Any) -> Any:
        if not self.level.looks:
            self.refuse("an element")
        return self.host[index]

    def __bool__(self) -> bool:
        return bool(self.item())

    def refuse(self, what: str) -> NoReturn:
        raise OnDeviceError(
            f"{what} of a tensor on the device {self.memory.place} is needed by code that computes "
            "with NumPy or SciPy. Move the tensor to the CPU first, with .cpu()."
        )


def seen(x: Any) -> Any:
    """A value as a NumPy array; lists of values likewise."""
    if isinstance(x, DeviceValue):
        return x.host
    if type(x) in (list, tuple):
        return type(x)(map(seen, x))
    return x


# -- to and from devices ---------------------------------------------------------------------


def moved(array: Any, where: Any) -> Any:
    """An array of XLA, spread over devices as a sharding says. It keeps its dtype: JAX gives
    float32 for float64 where nobody says otherwise."""
    jax = _platforms.jax()
    with jax.enable_x64(True):
        return jax.device_put(array, where)


def put(data: Any, place: Any, where: Any = None) -> DeviceValue:
    """A copy of an array, or of a value on another device, on a device, or on those of a mesh as
    ``where`` says, a sharding of JAX."""
    jax = _platforms.jax()
    target = _platforms.target(place) if where is None else where
    if isinstance(data, DeviceValue) and not data.array.is_fully_addressable and where is None:
        data = data.host
    given = data.array if isinstance(data, DeviceValue) else np.array(data)
    with jax.enable_x64(True):
        if isinstance(data, DeviceValue) or getattr(target, "is_fully_addressable", True):
            found = _platforms.within_memory(jax.device_put, place, given, target)
        else:  # other processes put the rest there
            found = jax.make_array_from_callback(given.shape, target, given.__getitem__)
    if found is given:
        found = found.copy()
    return DeviceValue(Memory(found, numbered(place)), tuple(data.shape), data.dtype)


def filled(
    shape: tuple[int, ...], dtype: Any, value: Any, place: Any, where: Any = None
) -> DeviceValue:
    """A new value whose elements are all the same."""
    jax = _platforms.jax()
    target = _platforms.target(place) if where is None else where
    with jax.enable_x64(True):
        fill = lambda: jax.numpy.full(shape, value, dtype, device=target)
        found = _platforms.within_memory(fill, place)
    return DeviceValue(Memory(found, numbered(place)), shape, dtype)


_places: dict[tuple[str, int], Any] = {}  # one object for each, which is compared sooner


def numbered(place: Any) -> Any:
    """A device with its index, as tensors know it."""
    if place.index is not None or place._mesh is not None:
        return place
    key = (place.type, _platforms.current(place.type))
    if key not in _places:
        _places[key] = type(place)(*key)
    return _places[key]
