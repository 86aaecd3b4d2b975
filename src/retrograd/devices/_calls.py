"""Operations on a device: each is compiled by XLA when it is first called with operands of some
shapes and dtypes, and kept for the next call like it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

from retrograd import arrays
from retrograd.compiler._program import Line, Step, Var
from retrograd.compiler._tracing import SIZED_BY_VALUES
from retrograd.devices import _pending, _platforms
from retrograd.devices._deferred import Function
from retrograd.devices._signatures import keys_of, place_in
from retrograd.devices._values import DeviceValue, Kind, Memory, acts_once, find_kind, marked, seen
from retrograd.ops._lifted import Lifted, raw
from retrograd.ops._meta_device import result_of
from retrograd.ops._operation import TABLE, Operation, TensorLike

np = arrays.programs.numpy

# Operations whose numbers may be other ones in the next call, without being compiled again.
TAKES_NUMBERS = frozenset({
    "add", "sub", "mul", "div", "add_scaled", "sub_scaled", "plus_number", "minus_number",
    "times_number", "over_number", "addcmul", "addcdiv", "rsub", "rsub_number", "lerp_number",
    "eq", "ne", "lt", "le", "gt", "ge", "fill", "at_least", "bounded",
})  # fmt: skip
new = object.__new__
MOST = 100  # operations in one function: XLA's compiler takes long for many


class Given:
    """The position of an array, or of a number, among those that a compiled function takes."""

    __slots__ = ("layout", "number", "steps")

    def __init__(self, number: int, layout: Any, steps: tuple[Step, ...] = ()) -> None:
        self.number = number
        self.layout = layout  # of the memory that the steps start from; None for a number
        self.steps = steps


class Call(Function):
    """An operation, compiled for one signature."""

    __slots__ = ("in_doubt", "kinds", "numbers", "several")

    def __init__(self, operation: Any, args: Any, options: dict[str, Any], flat: list[Any]) -> None:
        from retrograd.compiler.xla import _table
        from retrograd.compiler.xla._narrow import PRODUCTS

        outputs = _outputs(operation, args, options)
        self.several = isinstance(outputs, (tuple, list))
        results = list(outputs) if self.several else [outputs]
        place = place_in((*args, *options.values()))
        super().__init__(operation.name, place)
        traced = _pending.tracing.expected is not None
        self.kinds = [find_kind(place, y.shape, marked(y.dtype), traced) for y in results]
        self.in_doubt = False
        counter: list[Any] = []
        given = _taken_apart(list(args), counter, operation.name in TAKES_NUMBERS)
        named = _taken_apart(options, counter, operation.name in TAKES_NUMBERS)
        vars_ = [Var("y", y) for y in results]
        # On a mesh, JAX puts numbers where the arrays are.
        there = not traced and place._mesh is None
        self.numbers = [i for i, x in enumerate(flat) if there and is_number(x)]

        def function(*flat: Any) -> Any:
            known: dict[Var, Any] = {}
            variables = [_variable(part, flat, known) for part in given]
            line = Line(tuple(vars_), operation, tuple(variables),
                        {name: _variable(part, flat, known) for name, part in named.items()},
                        self.several, (None, 0), False)  # fmt: skip
            if not operation.moves_only and operation.name not in PRODUCTS:
                for var, x in known.items():  # bfloat16 is computed with in float32
                    known[var] = x.astype("float32") if x.dtype == "bfloat16" else x
            _table.doubts()
            from retrograd.compiler.xla._executable import run_line

            with _table.expectations() as expected:
                run_line(line, known)
            conditions = _table.doubts()
            self.in_doubt, self.expects = bool(conditions), bool(expected)
            found = [known[v] for v in vars_]
            for several in (conditions, expected):
                if several:
                    jnp = _platforms.jax().numpy
                    found.append(jnp.stack([jnp.all(c) for c in several]).all())
            return tuple(found)

        if traced:
            self.function = inlined(function)
            return
        self.compile(function, self.placed([*flat]))
        self.later = self.later and not self.in_doubt  # or somebody has to look

    def placed(self, flat: list[Any]) -> list[Any]:
        """Arguments with numbers as XLA's arrays."""
        for i in self.numbers:
            flat[i] = number_on(flat[i], self.kinds[0].place)
        return flat

    def __call__(self, flat: list[Any], operands: Any = ()) -> Any:
        """New values, or NotImplemented if the answer is not to be trusted."""
        if self.numbers:
            self.placed(flat)
        found = self.contents(flat)
        if self.in_doubt:
            *found, holds = found
            if not holds:
                return NotImplemented
        if not self.several:
            return of_kind(self.kinds[0], found[0])
        return tuple(map(of_kind, self.kinds, found))


_numbers: dict[tuple[Any, Any], Any] = {}
_MOST_NUMBERS = 1000


def is_number(x: Any) -> bool:
    """Whether an argument is a Python float, or an array of NumPy without dimensions."""
    return type(x) is float or (arrays.is_raw(x) and x.ndim == 0)


def number_on(x: Any, place: Any) -> Any:
    """XLA's array of a number. That of a float takes the dtype of what it is combined with.
    Programs use the same few numbers again and again, and moving one to a device takes longer than
    a call."""
    is_float = type(x) is float
    number = x if is_float else (x.dtype.num, x.tobytes())
    found = _numbers.get((number, place))
    if found is None:
        jax = _platforms.jax()
        with jax.enable_x64(True):  # of an array a copy, as others may write to it
            data = jax.numpy.asarray(x) if is_float else np.array(x)
            found = jax.device_put(data, _platforms.target(place))
        if is_float and (x == 0 or x != x):  # zeros are equal whatever their sign, and nan is not
            return found
        if len(_numbers) >= _MOST_NUMBERS:
            _numbers.clear()
        _numbers[number, place] = found
    return found


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of JAX's tracers as a part of one that is being traced."""

    def call(*flat: Any) -> Any:
        _pending.tracing.calls += 1
        if _pending.tracing.calls > MOST:
            raise _pending.CannotTraceError("it calls too many operations")
        return function(*flat)

    return call


def of_kind(kind: Kind, content: Any) -> DeviceValue:
    """A new value of a kind. As its class would make it, in half the time."""
    memory = new(Memory)
    memory.content = content
    memory.place = kind.place
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
    """Arrays of the shapes and dtypes that an operation gives."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return result_of(operation, tuple(_layouts(list(args))), _layouts(options))
        except (MemoryError, OSError) as error:  # there are not even that many addresses
            place = place_in((*args, *options.values()))
            raise _platforms.out_of_memory(place, error) from None
        except Exception:  # values matter, and zeros will not do: as on the CPU, once
            return operation.compute(seen(list(args)), {n: seen(x) for n, x in options.items()})


def _layouts(x: Any) -> Any:
    if isinstance(x, TensorLike):
        x = x._data
    if isinstance(x, DeviceValue):
        return x.layout
    if type(x) in (list, tuple):
        return type(x)(map(_layouts, x))
    return {name: _layouts(value) for name, value in x.items()} if type(x) is dict else x


def _taken_apart(x: Any, count: list[Any], numbers: bool) -> Any:
    """Arguments with ``Given`` in place of what compiled functions take, in the same order as
    ``Signature`` notes it."""
    if isinstance(x, TensorLike):
        x = x._data
    if isinstance(x, DeviceValue):
        assert x.layout is not None  # which makes that of the memory
        count.append(None)
        return Given(len(count) - 1, x.memory.layout, x.steps)
    if arrays.is_raw(x):
        count.append(None)
        return Given(len(count) - 1, np.empty(x.shape, x.dtype))
    if type(x) is float and numbers:
        count.append(None)
        return Given(len(count) - 1, None)
    if type(x) in (list, tuple):
        return type(x)([_taken_apart(part, count, numbers) for part in x])
    if type(x) is dict:
        return {name: _taken_apart(part, count, numbers) for name, part in x.items()}
    return x


def _variable(part: Any, flat: Any, known: dict[Var, Any]) -> Any:
    """A variable that stands for an argument, whose value is noted."""
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
    """The view of a variable, by the lowering of the view operation."""
    from retrograd.compiler.xla._executable import run_line
    from retrograd.compiler.xla._table import LOWERINGS

    several = step.number is not None
    found = step.operation.forward(layout, **step.options)
    outputs = tuple([Var("x", y) for y in (found if several else [found])])
    if step.operation.name in LOWERINGS:
        run_line(Line(outputs, step.operation, (var,), step.options, several, (None, 0), False),
                 known)  # fmt: skip
        return outputs[step.number or 0]
    numbers = np.arange(known[var].size).reshape(known[var].shape)
    view = outputs[step.number or 0]
    known[view] = known[var].reshape(-1)[step(numbers)]
    return view


# -- the calls that were made before ---------------------------------------------------------

NEW: Any = object()
_calls: dict[Any, Any] = {}  # None: NumPy does it, or a composite is done by its definition


def find(operation: Any, args: Any, options: dict[str, Any]) -> tuple[Any, list[Any]]:
    """The compiled function for a call, made if it is new, and the arrays and numbers to call it
    with. None if there is no such function."""
    flat: list[Any] = []
    numbers = operation.name in TAKES_NUMBERS
    key: Any = (operation, *keys_of(args, flat, numbers))
    if options:
        key = (key, *options, *keys_of(options.values(), flat, numbers))
    call = _calls.get(key, NEW)
    if call is NEW:
        call = _calls[key] = made(operation, args, options, flat)
    return call, flat


def made(operation: Any, args: Any, options: dict[str, Any], flat: list[Any]) -> Any:
    """A function compiled for a call: of the lowering, or of the definition of a composite."""
    if is_known(operation) and not sized_by_values(operation, options):
        try:
            return Call(operation, args, options, flat)
        except (NotImplementedError, _platforms.jax().errors.JAXTypeError):
            return None  # XLA has nothing for it
    whole = operation.definition is not None and TABLE.get(operation.name) is operation
    return fused(operation, args, options, flat) if whole else None


def fused(operation: Any, args: Any, options: dict[str, Any], flat: list[Any]) -> Any:
    """A composite as one function; None if its definition cannot be traced."""
    from retrograd.devices._fused import Fused

    if any(map(acts_once, options.values())):
        return None
    count = len(args)

    def function(*values: Any) -> Any:
        named = dict(zip(options, values[count:], strict=True))
        return Lifted.device_level.by_definition(operation, values[:count], named)

    try:
        return Fused(operation.name, function, [*args, *options.values()], flat)
    except Exception:  # whatever it is, the definition runs next, and raises it if it is real
        return None


def sized_by_values(operation: Any, options: dict[str, Any]) -> bool:
    """Whether the size of the result depends on values, which XLA must not."""
    if operation.name == "index":
        return any(getattr(raw(x), "dtype", None) == np.dtype(bool) for x in options["where"])
    return operation.name in SIZED_BY_VALUES or operation.random


def written(target: DeviceValue, value: Any) -> Any:
    """XLA's array of a memory after a write to a part of it, or what stands for it."""
    from retrograd.compiler._program import PUT
    from retrograd.compiler.xla._table import lowered

    flat: list[Any] = [target.memory.content]
    key = ("put", target.kind, *keys_of((value,), flat, False))
    function: Any = _calls.get(key)
    place = target.memory.place
    if is_number(flat[-1]) and place._mesh is None and not target.kind.traced:
        flat[-1] = number_on(flat[-1], place)
    if function is None:
        place_in((target, value))  # for the error if they are on two devices
        given = _taken_apart([value], [None], False)
        steps = target.steps

        def put(base: Any, *flat: Any) -> Any:
            known: dict[Var, Any] = {}
            var = _variable(given[0], (base, *flat), known)
            line = Line((), PUT, (), {}, True, (None, 0), False)
            line.outputs = (var,)
            return (lowered(line, [base, known[var]], {"views": steps})[0],)

        function = Function("put", place)
        if target.kind.traced:
            function.function = inlined(put)
        else:
            function.compile(put, flat)
        _calls[key] = function
    return function.contents(flat)[0]


@cache
def is_known(operation: Any) -> bool:
    """Whether an operation has a lowering: it is one of the table's. (The line ``put`` of programs
    has one, too, and is not the composite of that name.)"""
    from retrograd.compiler.xla import COMPOSITES
    from retrograd.compiler.xla._table import LOWERINGS

    own = isinstance(operation, Operation) and TABLE.get(operation.name) is operation
    whole = own and (operation.definition is None or operation.name in COMPOSITES)
    return whole and operation.name in LOWERINGS
