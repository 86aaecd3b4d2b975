"""Operations on a device. XLA compiles an operation when it is first called with operands of given
shapes and dtypes. The compiled function is cached."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

from retrograd import arrays
from retrograd.compiler._program import Line, Step, Var
from retrograd.compiler._tracing import SIZED_BY_VALUES
from retrograd.devices import _pending, _platforms
from retrograd.devices._caches import Cache
from retrograd.devices._deferred import Function
from retrograd.devices._signatures import common_device, is_large, keys_of, values_in
from retrograd.devices._values import DeviceValue, Kind, Memory, acts_once, find_kind, marked, seen
from retrograd.ops._lifted import Lifted, raw
from retrograd.ops._meta_device import result_of
from retrograd.ops._operation import TABLE, Operation, TensorLike

np = arrays.programs.numpy

_TAKES_INTS = frozenset({"add", "sub", "mul", "div", "rsub", "eq", "ne", "lt", "le", "gt", "ge"})
_TAKES_FLOATS = _TAKES_INTS | {
    "add_scaled", "sub_scaled", "plus_number", "minus_number", "times_number", "over_number",
    "addcmul", "addcdiv", "rsub_number", "lerp_number", "fill", "at_least", "bounded",
}  # fmt: skip
new = object.__new__
MOST = 100  # operations in one function; XLA takes long to compile more


def numbers_of(operation: Any) -> tuple[type, ...]:
    """The types of Python numbers that an operation takes as arguments of its compiled function. A
    call with another number then causes no new compilation. Other operations compile each number
    as a constant, for example because they check its value."""
    name = operation.name
    return (float, int) if name in _TAKES_INTS else (float,) if name in _TAKES_FLOATS else ()


class Given:
    """The position of an array or a number among the arguments of a compiled function."""

    __slots__ = ("layout", "number", "steps")

    def __init__(self, number: int, layout: Any, steps: tuple[Step, ...] = ()) -> None:
        self.number = number
        self.layout = layout  # the layout of the memory; None for a number
        self.steps = steps  # the view operations to apply to the memory


class Call(Function):
    """An operation, compiled for one signature."""

    __slots__ = ("in_doubt", "kinds", "numbers", "several")

    def __init__(self, operation: Any, args: Any, options: dict[str, Any], flat: list[Any]) -> None:
        from retrograd.compiler.xla import _table
        from retrograd.compiler.xla._narrow import PRODUCTS

        outputs = _outputs(operation, args, options)
        self.several = isinstance(outputs, (tuple, list))
        results = list(outputs) if self.several else [outputs]
        device = common_device((*args, *options.values()))
        super().__init__(operation.name, device)
        traced = _pending.tracing.expected is not None
        self.kinds = [find_kind(device, y.shape, marked(y.dtype), traced) for y in results]
        self.in_doubt = False
        counter: list[Any] = []
        numbers = numbers_of(operation)
        parts = _taken_apart(list(args), counter, numbers)
        named = _taken_apart(options, counter, numbers)
        if any([x.dtype.kind not in "iub" for x in values_in(args)]):
            parts, named = _with_large_as_float(parts), _with_large_as_float(named)
        vars_ = [Var("y", y) for y in results]
        # On a mesh, JAX moves numbers to the devices of the arrays.
        there = not traced and device._mesh is None
        self.numbers = [i for i, x in enumerate(flat) if there and is_number(x)]

        def function(*flat: Any) -> Any:
            known: dict[Var, Any] = {}
            variables = [_variable(part, flat, known) for part in parts]
            line = Line(tuple(vars_), operation, tuple(variables),
                        {name: _variable(part, flat, known) for name, part in named.items()},
                        self.several, (None, 0), False)  # fmt: skip
            if not operation.moves_only and operation.name not in PRODUCTS:
                for var, x in known.items():  # operations on bfloat16 compute in float32
                    known[var] = x.astype("float32") if x.dtype == "bfloat16" else x
            _table.doubts()
            from retrograd.compiler.xla._executable import run_line

            with _table.expectations() as expected, _table.on_mesh(device._mesh):
                run_line(line, known)
            conditions = _table.doubts()
            self.in_doubt, self.expects = bool(conditions), bool(expected)
            results = [known[v] for v in vars_]
            for several in (conditions, expected):
                if several:
                    jnp = _platforms.jax().numpy
                    results.append(jnp.stack([jnp.all(c) for c in several]).all())
            return tuple(results)

        if traced:
            self.function = inlined(function)
            return
        self.compile(function, self.placed([*flat]))
        # A condition on the result has to be read immediately.
        self.later = self.later and not self.in_doubt

    def placed(self, flat: list[Any]) -> list[Any]:
        """The arguments, with numbers converted to XLA arrays."""
        for i in self.numbers:
            flat[i] = number_on(flat[i], self.kinds[0].device)
        return flat

    def __call__(self, flat: list[Any], operands: Any = ()) -> Any:
        """New values, or NotImplemented if the lowering does not give valid results for these
        arguments."""
        if self.numbers:
            self.placed(flat)
        contents = self.contents(flat)
        if self.in_doubt:
            *contents, holds = contents
            if not holds:
                return NotImplemented
        if not self.several:
            return of_kind(self.kinds[0], contents[0])
        return tuple(map(of_kind, self.kinds, contents))


_numbers = Cache(1000)


def is_number(x: Any) -> bool:
    """Whether an argument is a Python number or a NumPy array without dimensions."""
    return type(x) in (float, int) or (arrays.is_raw(x) and x.ndim == 0)


def number_on(x: Any, device: Any) -> Any:
    """The XLA array of a number. That of a Python number is weakly typed: a result has the dtype of
    the other operand. Arrays are cached, because programs repeat a few numbers, and moving one to a
    device takes longer than a call."""
    is_raw = arrays.is_raw(x)
    number = (x.dtype.num, x.tobytes()) if is_raw else (type(x), x)
    array = _numbers.get((number, device))
    if array is None:
        jax = _platforms.jax()
        with jax.enable_x64(True):  # an array is copied, because it may be written to later
            data = np.array(x) if is_raw else jax.numpy.asarray(x)
            target = _platforms.target(device)
            array = _platforms.within_memory(jax.device_put, device, data, target)
        if type(x) is float and (x == 0 or x != x):
            return array  # no keys: 0.0 equals -0.0, and NaN not even itself
        _numbers[number, device] = array
    return array


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that runs on JAX's tracers, as a part of the function that is being traced."""

    def call(*flat: Any) -> Any:
        _pending.tracing.calls += 1
        if _pending.tracing.calls > MOST:
            raise _pending.CannotTraceError("it calls too many operations")
        return function(*flat)

    return call


def of_kind(kind: Kind, content: Any) -> DeviceValue:
    """A new value of a kind. The constructors are written out, which takes half the time."""
    memory = new(Memory)
    memory.content = content
    memory.device = kind.device
    memory.layout = None
    value = new(DeviceValue)
    value.level = Lifted.device_level
    value.memory = memory
    value.shape = kind.shape
    value.dtype = kind.dtype
    value.steps = ()
    value._layout = None
    value._kind = kind
    return value


def _outputs(operation: Any, args: Any, options: dict[str, Any]) -> Any:
    """Arrays with the shapes and dtypes of an operation's results."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return result_of(operation, tuple(_layouts(list(args))), _layouts(options))
        except (MemoryError, OSError) as error:  # the address space is too small for the result
            device = common_device((*args, *options.values()))
            raise _platforms.out_of_memory(device, error) from None
        except Exception:  # the shape depends on values: compute it on the CPU, once
            return operation.compute(seen(list(args)), {n: seen(x) for n, x in options.items()})


def _layouts(x: Any) -> Any:
    if isinstance(x, TensorLike):
        x = x._data
    if isinstance(x, DeviceValue):
        return x.layout
    if type(x) in (list, tuple):
        return type(x)(map(_layouts, x))
    return {name: _layouts(value) for name, value in x.items()} if type(x) is dict else x


def _taken_apart(x: Any, count: list[Any], numbers: tuple[type, ...] = ()) -> Any:
    """Arguments in which ``Given`` replaces what is passed to the compiled function, in the order
    of ``_signatures.py:keys_of``."""
    if isinstance(x, TensorLike):
        x = x._data
    if isinstance(x, DeviceValue):
        assert x.layout is not None  # this also creates the layout of the memory
        count.append(None)
        return Given(len(count) - 1, x.memory.layout, x.steps)
    if arrays.is_raw(x):
        count.append(None)
        return Given(len(count) - 1, np.empty(x.shape, x.dtype))
    if type(x) in numbers and not is_large(x):
        count.append(None)
        return Given(len(count) - 1, None)
    if type(x) in (list, tuple):
        return type(x)([_taken_apart(part, count, numbers) for part in x])
    if type(x) is dict:
        return {name: _taken_apart(part, count, numbers) for name, part in x.items()}
    return x


def _with_large_as_float(x: Any) -> Any:
    """Arguments in which integers of more than 64 bits are floats."""
    if type(x) in (list, tuple):
        return type(x)(map(_with_large_as_float, x))
    if type(x) is dict:
        return {name: _with_large_as_float(value) for name, value in x.items()}
    return float(x) if is_large(x) else x


def _variable(part: Any, flat: Any, known: dict[Var, Any]) -> Any:
    """The variable of an argument, whose value is stored in ``known``."""
    if type(part) in (list, tuple):
        return type(part)([_variable(x, flat, known) for x in part])
    if not isinstance(part, Given):
        return part
    value, layout = flat[part.number], part.layout
    if layout is None:
        return value
    var = Var("x", layout)
    known[var] = _platforms.jax().numpy.asarray(value)
    for step in part.steps:
        var = viewed(var, step, layout, known)
        layout = step(layout)
    return var


def viewed(var: Var, step: Step, layout: Any, known: dict[Var, Any]) -> Var:
    """A view of a variable, computed by the lowering of the view operation."""
    from retrograd.compiler.xla._executable import run_line
    from retrograd.compiler.xla._table import LOWERINGS

    several = step.number is not None
    layouts = step.operation.forward(layout, **step.options)
    outputs = tuple([Var("x", y) for y in (layouts if several else [layouts])])
    if step.operation.name in LOWERINGS:
        run_line(Line(outputs, step.operation, (var,), step.options, several, (None, 0), False),
                 known)  # fmt: skip
        return outputs[step.number or 0]
    numbers = np.arange(known[var].size).reshape(known[var].shape)
    view = outputs[step.number or 0]
    known[view] = known[var].reshape(-1)[step(numbers)]
    return view


# -- the cache of compiled functions ---------------------------------------------------------

NEW: Any = object()
# By signature. None if NumPy computes the operation, or a composite runs its definition.
_calls = Cache()


def find(operation: Any, args: Any, options: dict[str, Any]) -> tuple[Any, list[Any]]:
    """The compiled function for a call, and its arguments: arrays and numbers. The function is
    compiled if there is none in the cache. It is None if XLA cannot compute the operation."""
    flat: list[Any] = []
    numbers = numbers_of(operation)
    key: Any = (operation, *keys_of(args, flat, numbers))
    if options:
        key = (key, *options, *keys_of(options.values(), flat, numbers))
    call = _calls.get(key, NEW)
    if call is NEW:
        call = _calls[key] = compiled(operation, args, options, flat)
    return call, flat


def compiled(operation: Any, args: Any, options: dict[str, Any], flat: list[Any]) -> Any:
    """A newly compiled function for a call: of the operation's lowering, or of the definition of a
    composite. None if there is neither."""
    if is_known(operation) and not sized_by_values(operation, options):
        try:
            return Call(operation, args, options, flat)
        except (NotImplementedError, _platforms.jax().errors.JAXTypeError):
            return None  # XLA has no such operation
    whole = operation.definition is not None and TABLE.get(operation.name) is operation
    return fused(operation, args, options, flat) if whole else None


def fused(operation: Any, args: Any, options: dict[str, Any], flat: list[Any]) -> Any:
    """A composite as one compiled function; None if its definition cannot be traced."""
    from retrograd.devices._fused import Fused

    if any(map(acts_once, options.values())):
        return None
    count = len(args)

    def function(*values: Any) -> Any:
        named = dict(zip(options, values[count:], strict=True))
        return Lifted.device_level.by_definition(operation, values[:count], named)

    try:
        return Fused(operation.name, function, [*args, *options.values()], flat)
    except Exception:  # the definition runs next, and raises the error again if it is the user's
        return None


def sized_by_values(operation: Any, options: dict[str, Any]) -> bool:
    """Whether the size of the result depends on values, which XLA does not support."""
    if operation.name == "index":
        return any(getattr(raw(x), "dtype", None) == np.dtype(bool) for x in options["where"])
    return operation.name in SIZED_BY_VALUES or operation.random


def written(target: DeviceValue, value: Any) -> Any:
    """The contents of a memory after a write to a part of it: an XLA array or a ``Later``."""
    from retrograd.compiler._program import PUT
    from retrograd.compiler.xla._table import lowered

    flat: list[Any] = [target.memory.content]
    key = ("put", target.kind, *keys_of((value,), flat))
    function: Any = _calls.get(key)
    device = target.memory.device
    if is_number(flat[-1]) and device._mesh is None and not target.kind.traced:
        flat[-1] = number_on(flat[-1], device)
    if function is None:
        common_device((target, value))  # raises an error if they are on two devices
        parts = _taken_apart([value], [None])
        steps = target.steps

        def put(base: Any, *flat: Any) -> Any:
            known: dict[Var, Any] = {}
            var = _variable(parts[0], (base, *flat), known)
            line = Line((), PUT, (), {}, True, (None, 0), False)
            line.outputs = (var,)
            return (lowered(line, [base, known[var]], {"views": steps})[0],)

        function = Function("put", device)
        if target.kind.traced:
            function.function = inlined(put)
        else:
            function.compile(put, flat)
        _calls[key] = function
    return function.contents(flat)[0]


@cache
def is_known(operation: Any) -> bool:
    """Whether an operation of the table has a lowering. (The lowering ``put`` belongs to a line of
    programs, not to the composite of that name.)"""
    from retrograd.compiler.xla import COMPOSITES
    from retrograd.compiler.xla._table import LOWERINGS

    own = isinstance(operation, Operation) and TABLE.get(operation.name) is operation
    whole = own and (operation.definition is None or operation.name in COMPOSITES)
    return whole and operation.name in LOWERINGS
