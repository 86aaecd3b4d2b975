"""Values that represent arrays inside a transform: dual numbers, batches of values.

Each transform that is open has a *level*. A value lifted to a level is made of parts that belong
to the levels below: Tensors, which may be lifted themselves. An operation is run by the highest
level among its arguments, for which everything lower is a constant; that level does what it has to
do with operations on the parts, and these are then a matter of the levels below. So transforms
nest in any order without knowing of each other.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from retrograd import arrays
from retrograd._modes import call_below, modes, within
from retrograd.arrays import LARGE, Raw, is_raw, shared
from retrograd.arrays import float32 as FLOAT32
from retrograd.arrays import float64 as FLOAT64


class TensorLike:
    """The base class of Tensor: operations on instances are recorded, not merely computed."""

    __slots__ = ("_data",)

    _data: Raw

    @property
    def _is_plain(self) -> bool:
        """Whether it is nothing but a value: not recorded, and no view that may change."""
        return True


def raw(x: Any) -> Raw:
    """The array that a Tensor holds, or a raw array itself."""
    return x._data if isinstance(x, TensorLike) else x


class LooksAtValues(TypeError, AttributeError):  # noqa: N818 - it says what code does
    """Code that needs values was given one whose values are not available."""

    operation: str | None = None  # the one that was to be done
    transform: str = "vmap"  # the one under which the value is


class Lifted:
    """A value of a level. Operators and operations accept it, but it is not an array: anything that
    needs an array is refused."""

    __slots__ = ("level",)

    level: Level
    # The float dtype, if the value is *bare*: made of nothing but arrays of one float dtype, or of
    # Tensors that are nothing more. What elementwise operations do to it depends on no mode. Kinds
    # of values that may be bare have a slot for it.
    bare_dtype: Any = None
    # Whether ``as_gradient`` gives a value that can be written without a change to this one.
    copied_on_write: ClassVar[bool] = False
    operations: ClassVar[dict[str, Any]] = {}  # by NumPy's names; supplied by ``operators``
    device_level: ClassVar[Any] = None  # of values on devices; supplied by ``devices``

    @property
    def moves(self) -> bool:
        """Whether it has a tangent."""
        return False

    @property
    def inner(self) -> Any:
        """A part with the same dtype and, apart from the batch dimension, the same shape."""
        raise NotImplementedError

    @property
    def layout(self) -> Any:
        """A part with the same memory layout, whose elements are not used."""
        return self.inner

    @property
    def parts(self) -> tuple[Any, ...]:
        """The values of lower levels that it consists of."""
        return (self.inner,)

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = raw(self.inner).shape
        return shape

    @property
    def dtype(self) -> Any:
        """As arrays have it."""
        dtype = self.bare_dtype
        return raw(self.inner).dtype if dtype is None else dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        count = 1
        for s in self.shape:
            count *= s
        return count

    @property
    def itemsize(self) -> int:
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides of the value; of a batch, those of an entry."""
        return tuple(raw(self.inner).strides)

    @property
    def shared(self) -> Any:
        """The innermost array if all entries of batches share it, otherwise None."""
        inner: Any = raw(self.inner)
        return inner.shared if isinstance(inner, Lifted) else inner

    @property
    def differs(self) -> bool:
        """Whether it may differ between the entries of a batch."""
        inner: Any = raw(self.inner)
        return isinstance(inner, Lifted) and inner.differs

    def inside(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a part of a value of some size."""
        return size

    def hold(self, as_tensor: Callable[[Any], Any]) -> None:
        """Make a Tensor of the part that is written when the value is, so that views of it share
        its memory."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self.shape[0]

    def reshape(self, *shape: Any) -> Any:
        """The ``reshape`` of arrays, which is all that some code needs."""
        return Lifted.operations["reshape"](self, shape)

    __hash__ = object.__hash__

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        operation = Lifted.operations.get(ufunc.__name__)
        if operation is None or method != "__call__" or named or self.level.closed:
            self.refuse(ufunc.__name__)
        return operation(*inputs)

    def __array_function__(self, function: Any, *given: Any) -> Any:
        self.refuse(function.__name__)

    def __array__(self, *given: Any, **named: Any) -> Any:
        self.refuse("the array")

    if TYPE_CHECKING:  # the other attributes of arrays, which are refused (see below)

        def __getattr__(self, name: str) -> Any: ...

    def __getitem__(self, index: Any) -> Any:
        self.refuse("an element")

    def __bool__(self) -> bool:
        self.refuse("the truth")

    def item(self) -> Any:
        """The only element as a number, if values are known."""
        self.refuse("the number")

    def truth(self) -> bool:
        """Whether the only element is true, if values are known."""
        return bool(self.item())

    def tolist(self) -> Any:
        """The elements as a list, if values are known."""
        self.refuse("the elements")

    def as_gradient(self, like: Any = None) -> Lifted:
        """The value as a gradient that nobody else may write, for a leaf that holds ``like``."""
        return self

    def placed(self, x: Raw) -> Any:
        """A gradient that is an array, for a leaf that holds this value."""
        return x

    def plus(self, g: Any) -> Any:
        """The sum of this value, the ``.grad`` of a leaf, and a gradient that has arrived."""
        return Lifted.operations["add"](self, g)

    def detached(self) -> Lifted:
        """The same value without history and without derivatives."""
        raise NotImplementedError

    def text(self, suffixes: str) -> str:
        """The text that a Tensor of this value prints."""
        raise NotImplementedError

    def afterwards(self, operation: Any, *args: Any) -> Any:
        """Arithmetic on this value after its transform has ended."""
        self.refuse("arithmetic")

    def refuse(self, what: str) -> NoReturn:
        error = LooksAtValues(f"{what} of a value under {self.level.name}")
        error.transform = self.level.name
        raise error


def _refused(name: str) -> property:
    def refuse(x: Lifted) -> Any:
        x.refuse(name)

    return property(refuse)


# Properties, because a ``__getattr__`` makes Python take six times as long to read any attribute.
for _name in dir(arrays.ndarray):
    if not _name.startswith("__") and not hasattr(Lifted, _name):
        setattr(Lifted, _name, _refused(_name))


class Level:
    """One open transform."""

    __slots__ = ("number", "opened_by")

    name: ClassVar[str] = "a transform"
    differentiates: ClassVar[bool] = False  # whether it takes derivatives along
    # Whether what is recorded on values of this level leads on to what its constants came from.
    transparent: ClassVar[bool] = False
    without_memory: ClassVar[bool] = False  # whether its values have no elements at all
    traces: ClassVar[bool] = False  # whether it writes down what is done, as a program
    shows_steps: ClassVar[bool] = False  # whether it matters which operations a function calls
    takes_kernels: bool  # of such a level: whether a line may be a kernel
    # Whether a tensor from outside can be written with what the transform is about.
    takes_in: ClassVar[bool] = True
    # What it does to custom operations, unless ``autograd._custom_transforms`` knows.
    run_custom: ClassVar[Callable[[Any, Any, tuple[Any, ...]], Any] | None] = None
    _numbers = itertools.count(1)  # what is opened later, and so inside, has a higher number

    def __init__(self) -> None:
        if not Lifted.operations:  # with the first level comes arithmetic of lifted values
            importlib.import_module("retrograd.ops.operators")
            arrays.allocator.keep_freed_memory()  # batches and tangents come and go
        self.number = next(Level._numbers)
        self.opened_by: Any = None  # a weak reference to the key of the block it is open in

    @property
    def closed(self) -> bool:
        """Whether the transform has ended."""
        return self.opened_by is not None and self.opened_by() is None

    def run(self, operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """An operation on arguments of which some are lifted to this level.

        While it does that, only the transforms outside are open.
        """
        if operation.definition is not None and not self.takes_whole(operation):
            return self.by_definition(operation, args, options)
        try:
            now = modes.frame.states[-1]
            if now.only_levels and self.looks_at_no_mode(operation) and bare_level(args) is self:
                return self.run_on_parts(operation, args, options)
            running = now.running
            if running is not None and self in running.unrecorded and now.grad_enabled:
                with within(grad_enabled=False):
                    return self.run(operation, args, options)
            return call_below(self.number, self.run_on_parts, operation, args, options)
        except LooksAtValues as error:
            error.operation = error.operation or operation.name
            raise

    def apply(self, operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """As ``run``, for operands of a Tensor's operation, which have been checked."""
        return self.run(operation, args, options)

    def fast_path(self, operation: Any) -> Callable[..., Any] | None:
        """A function that calls an operation on Tensors of this level, and leaves what it does not
        know to the general path, if there is one."""
        return None

    def node_class(self, operation: Any, narrow: bool) -> Any:
        """The class of nodes that record an operation; ``narrow``: on operands of bfloat16."""
        return operation.narrow_node_class if narrow else operation.node_class

    def looks_at_no_mode(self, operation: Any) -> bool:
        """Whether an operation on bare values needs nothing but operations on their parts, so that
        it does not matter which transforms are open meanwhile."""
        return False

    def look(self, how: str) -> None:
        """Called when code reads a value of this level."""

    def check_devices(self, operands: Sequence[Any]) -> None:
        """RuntimeError if operands are not on the device of this level."""

    def with_recorded_numbers(self, operands: list[Any]) -> list[Any]:
        """The operands. On a device, numbers from the CPU that require grad are moved there by a
        recorded operation, so that their gradients are on the CPU, too."""
        return operands

    def check(
        self, check: Callable[..., None], values: Sequence[Any], options: dict[str, Any]
    ) -> None:
        """What an operation refuses, where a check of it looks at values."""

    def takes_whole(self, operation: Any) -> bool:
        """Whether the level handles a composite as a whole, without its definition."""
        return False

    def records_whole(self, operation: Any) -> bool:
        """Whether a composite is recorded as one node rather than as the operations of its
        definition."""
        return self.takes_whole(operation)

    def by_definition(self, operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run a composite as the operations of its definition."""
        result = operation.definition(*args, **options)
        if isinstance(result, (tuple, list)):
            return tuple([self.lifted(y) for y in result])
        return self.lifted(result)

    def lifted(self, x: Any) -> Lifted:
        """A value of this level: ``x`` itself, or a constant if it does not depend on the
        transform."""
        return x if isinstance(x, Lifted) and x.level is self else self.constant(x)

    def run_on_parts(self, operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """As ``run``, by operations on the parts of what is lifted."""
        raise NotImplementedError

    def run_elementwise(
        self, operation: Any, args: Sequence[Any], options: dict[str, Any]
    ) -> Lifted:
        """As ``run``, for an elementwise operation on bare values: no mode is looked at."""
        raise NotImplementedError

    def below(self, x: Any) -> tuple[Any, bool]:
        """A value as the levels below know it, and whether it depends on what the transform is
        about. Below a trace and the meta device there are no levels: values are what they are."""
        raise NotImplementedError

    def take_in(self, tensor: Any) -> None:
        """Lift a tensor from outside, which is about to be written, to this level."""
        raise NotImplementedError

    def adopt(self, tensor: Any) -> None:
        """Lift a view to this level whose base has been lifted since the view was taken."""
        raise NotImplementedError

    def check_write(self, target: Any, result: Any) -> None:
        """RuntimeError if a result cannot be written over a value."""

    def write(self, target: Any, result: Any, moves: bool = True) -> None:
        """Write a result over a value, in the memory of its parts; with its derivatives, unless
        these are not to move, at this level or below."""
        raise NotImplementedError

    def left_of(self, x: Any) -> Any:
        """What a value becomes when the transform has ended."""
        raise RuntimeError(
            "Either your tensor may have escaped from inside a function being vmapped and this is "
            f"a user error, or there is an internal error: a value was used outside of the "
            f"function under {self.name} that computed it. Return it from that function instead."
        )

    def constant(self, x: Any) -> Lifted:
        """A value of a lower level as a constant of this level."""
        raise NotImplementedError

    def ones_like(self, x: Any) -> Lifted:
        """Ones of the shape and dtype of a value of this level, on its device."""
        ones, there = arrays.ones(x.shape, x.dtype), device_value(x)
        return self.constant(ones if there is None else there.placed(ones))


# -- elementwise operations on bare values -----------------------------------------------------


def bare_dtype_of(x: Any) -> Any:
    """The float dtype of a bare value: an array, or a lifted value of nothing but arrays, perhaps
    in a Tensor that is not recorded. None if it is anything else."""
    if isinstance(x, TensorLike):
        if not x._is_plain:
            return None
        x = x._data
    if isinstance(x, Lifted):
        return x.bare_dtype
    dtype = x.dtype if is_raw(x) else None
    return dtype if dtype is FLOAT32 or dtype is FLOAT64 else None


def bare_level(args: Iterable[Any]) -> Level | None:
    """The innermost transform among arguments that are bare values of one dtype, and Python
    numbers. None if they are not, or if none of them is lifted."""
    level: Level | None = None
    dtype = None
    for x in args:
        if isinstance(x, Lifted):
            own = x.bare_dtype
            if level is None or x.level.number > level.number:
                level = x.level
        elif type(x) is float or type(x) is int:
            continue
        else:
            own = getattr(x, "dtype", None)
        if own is None or (dtype is not None and own is not dtype):
            return None
        dtype = own
    return level


def run_on_bare(operation: Any, args: Sequence[Any], options: dict[str, Any]) -> Any:
    """An operation on bare values of one dtype, and Python numbers."""
    level: Level | None = None
    for x in args:
        if isinstance(x, Lifted) and (level is None or x.level.number > level.number):
            level = x.level
    if level is None:
        if operation.heavy and args[0].size > LARGE:
            return shared(operation.forward, args[0])
        return operation.forward(*args, **options)
    if operation.of_elements:
        return level.run_elementwise(operation, args, options)
    return level.run(operation, tuple(args), options)


def tracer() -> Any:
    """The level that records a program, if one is open. It is below all others."""
    levels = modes.levels
    return levels[0] if levels and levels[0].traces else None


def highest_level(values: Iterable[Any]) -> Level | None:
    """The innermost transform among those that some values, or lists of them, belong to."""
    highest: Level | None = None
    for x in values:
        if isinstance(x, Lifted):
            level: Level | None = x.level
        elif type(x) in (list, tuple):
            level = highest_level(x)
        else:
            continue
        if level is not None and (highest is None or level.number > highest.number):
            highest = level
    return highest


def descending(x: Any) -> Iterator[tuple[Level, Any, bool]]:
    """The levels of a value from the highest down, each with the value as the levels below know it
    and whether it depends on what the transform is about."""
    while isinstance(x, Lifted):
        part, depends = x.level.below(x)
        yield x.level, part, depends
        if part is x:
            return
        x = raw(part)


class LazyTangent:
    """A tangent that is computed on demand: of a result that users do not see and few rules need. A
    ``jvp`` may return it."""

    __slots__ = ("compute",)

    def __init__(self, compute: Callable[[], Any]) -> None:
        self.compute = compute


def bare(x: Any, looks: bool = True) -> Any:
    """The innermost array of a value, with all batch dimensions in front: for checks that apply to
    every entry alike. What is computed from it has no derivative. ``looks``: whether its values are
    used, or only its layout."""
    x = raw(x)
    while isinstance(x, Lifted):
        if looks:
            x.level.look("its values")
        x = raw(x.inner)
    return x


def memory_of(x: Any) -> Any:
    """The innermost array of a value, to ask where it lies in memory and never for its elements."""
    x = raw(x)
    while isinstance(x, Lifted):
        x = raw(x.layout)
    return x


def layout_of(x: Any) -> Any:
    """An array with the memory layout of a value; None if that is unknown."""
    x = raw(x)
    if not isinstance(x, Lifted):
        return x
    return x.inner if x.level.traces else None


def on_meta(x: Any) -> bool:
    """Whether a value, at the bottom of all transforms, is on the meta device: has no memory."""
    x = raw(x)
    while isinstance(x, Lifted):
        if not x.level.number:
            return x.level.without_memory
        x = raw(x.inner)
    return False


def device_value(x: Any) -> Any:
    """What a value, at the bottom of all transforms, holds on a device; None on the CPU."""
    x = raw(x)
    while isinstance(x, Lifted):
        if not x.level.number:
            return None if x.level.without_memory else x
        x = raw(x.inner)
    return None


def checked_by_line(check: Callable[..., None], *args: Any) -> bool:
    """Whether a program is being written down, and a check of values has become a line of it:
    ``check(*args)``, which has passed. It raises an exception for what it refuses."""
    level = tracer()
    return level is not None and level.check_values(check, args)


def on_arrays(*values: Any) -> bool:
    """Whether a kernel that takes arrays only can be called with some values by ``by_kernel``: all
    are arrays, or values that a program is made of."""
    for x in values:
        if isinstance(x, TensorLike):
            return False
        if isinstance(x, Lifted) and not (x.level.traces and x.level.takes_kernels):
            return False
    return True


def by_kernel(kernel: Callable[..., Any], *args: Any) -> Any:
    """A kernel that takes arrays only. In a program it is a line."""
    for x in args:
        if isinstance(x, Lifted):
            level = tracer()
            if level is None:
                x.refuse("the array")
            return level.by_kernel(kernel, args)
    return kernel(*args)


def bare_option(x: Any) -> Any:
    """An option as operations take it: indices and masks as raw values, not Tensors."""
    if type(x) is tuple:
        return tuple([raw(part) for part in x])
    return raw(x)
