"""Calling a compiled program: check its guards, run it, and assemble the results."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd._modes import modes
from retrograd._source import user_place
from retrograd.arrays import dtypes
from retrograd.autograd._history import meta_of
from retrograd.autograd._node import SECOND_BACKWARD, CallableNode, orders
from retrograd.autograd._once_differentiable import once_differentiable
from retrograd.autograd._versions import version_of
from retrograd.autograd._wrap import Plug, wrap
from retrograd.autograd.function import Function
from retrograd.compiler import _cost, _printing, xla
from retrograd.compiler._passes import simplified
from retrograd.compiler._program import Program
from retrograd.compiler._templates import REMOVED, Change, Fixed, Known, Nest, New, Part, Same
from retrograd.compiler._tiles import with_tiles
from retrograd.compiler._trace import Trace
from retrograd.compiler._traced import Traced
from retrograd.func._trees import unflatten
from retrograd.ops._lifted import Lifted

# What a backend does to a program after all passes, and how it makes a function of that.
BACKENDS: dict[str, tuple[Callable[[Program], Program], Any]] = {
    "numpy": (with_tiles, _printing.function_of),
    "xla": (lambda program: program, xla.function_of),
    "device": (lambda program: program, xla.function_on_device),
}
MISSED = object()  # what a program gives for a call that it is not for


class Entry:
    """A program, its guards, and how to call it. With ``quiet``, mostly its arrays are wanted."""

    def __init__(self, trace: Trace, backend: str = "numpy", quiet: bool = False) -> None:
        if trace.level.device is not None:
            backend = "device"
        elif trace.reason is not None:  # the function stays eager
            backend = "numpy"
        prepared, function_of = BACKENDS[backend]
        program = trace.make_program()
        self.traced = _cost.Traced(program)
        self.program = prepared(simplified(program))
        used = {v for line in self.program.lines for v in line.inputs} | {*self.program.outputs}
        self.positions = [i for i, v in enumerate(self.program.inputs) if v in used]
        self.program.inputs = [self.program.inputs[i] for i in self.positions]
        self.function, written = function_of(self.program)
        # What the program means to the bit, which other backends give to rounding.
        self.meaning = self.function if backend == "numpy" else self.program.run
        self.pull = trace.pull
        self.backward = None
        if self.pull is not None and self.pull.program is not None:
            self.backward = function_of(prepared(simplified(self.pull.program)))[0]
        if backend == "device":  # also for results that do not depend on what is there
            self.function.device = trace.level.device
        self.modes = modes_now()
        self.count = len(trace.outputs)
        self.result = trace.result
        self.writes, self.rebound = trace.writes, trace.rebound
        self.flags, self.changes = trace.flags, [change.alone() for change in trace.changes]
        self.recorded = [output for _, output in trace.recorded]
        numbers = {v: i for i, v in enumerate(trace.inputs)}
        saved = [] if self.pull is None else self.pull.saved
        self.saved = [numbers.get(v) for v in saved]
        # Saved values may be views of these inputs, which must not be overwritten either.
        self.viewed = list(dict.fromkeys(
            [numbers[v.root] for v in saved if v not in numbers and v.root in numbers]
        ))  # fmt: skip
        # Saved values that share memory with results, which users may overwrite.
        roots = {v.root for v in self.program.outputs[: self.count]}
        self.copied = [i for i, v in enumerate(self.program.outputs[self.count :])
                       if v.root in roots and v.root not in self.program.inputs]  # fmt: skip
        watch = trace.watch
        changed = [c.held.local for c in self.changes]
        self._containers = list(dict.fromkeys([*changed, *trace.shown]))
        self._tensor_count = len(watch.tensors)
        self._order = None if self.pull or has_effects(self) else _order(self.result)
        device = self.function if backend == "device" else None
        finishing = None
        if self._order is None or not quiet:
            finishing = Finishing(self, watch.locals, device, watch.on_device)
        guards = (
            [i for i, _ in self.writes], [i for i, v in enumerate(trace.inputs) if v in written],
            trace.level.depends_on_numbers,
        )  # fmt: skip
        given = "".join([f"d{i}, " for i in self.positions])
        self._whole: Any = None
        self._finish: Any = None
        self._spares: Any = None
        needed = [*watch.locals, *self._containers]
        if finishing is not None and finishing.result is not None:
            if device is None and not quiet:  # one function does all that there is to a call
                names = {**finishing.names, "missed": MISSED, "run": self.function,
                         "modes_now": modes_now, "modes": self.modes}  # fmt: skip
                lines = ["if modes_now() != modes: return missed", f"values = run({given})",
                         *finishing.lines, f"return {finishing.result}"]  # fmt: skip
                self._whole = watch.guarded("call", lines, *guards, names)
                return
            needed = list(finishing.needed)
            self._finish = finishing.function()
            if device is not None and device.recycled:
                self._spares = spares_of(self, needed, device)
        found = "".join([f"{name}, " for name in needed])
        self.check = watch.guarded("check", [f"return ({given}), ({found})"], *guards,
                                   {"missed": None})  # fmt: skip
        # On a device, what straight lines finish need not be made values of first.
        self._run = self.function
        if self._finish is not None and backend == "device":
            self._run = self.function.arrays

    def call(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """What the function gives, or MISSED if the program is not for this call."""
        if self._whole is not None:
            return self._whole(args, named)
        found = self.check(args, named) if modes_now() == self.modes else None
        if found is None:
            return MISSED
        data, needed = found
        if self._spares is not None:
            spares = self._spares(*needed)
            return self._finish(self.function.arrays(*data, spares=spares), spares, *needed)
        values = self._run(*data)
        if self._finish is not None:
            return self._finish(values, (), *needed)
        return self.finish(needed[: self._tensor_count], needed[self._tensor_count :], values)

    def fits(self, args: tuple[Any, ...]) -> bool:
        """Whether the program is for a call with these arguments, apart from recording."""
        return modes_now()[1:] == self.modes[1:] and self.check(args, {}) is not None

    def arrays(self, args: tuple[Any, ...]) -> Any:
        """The raw arrays that the function gives as Tensors, one after the other, or MISSED if the
        program is not for this call, or for Tensors that are more than an array."""
        if self._order is None or modes_now() != self.modes:
            return MISSED
        found = self.check(args, {})
        if found is None:
            return MISSED
        values = self.function(*found[0])
        return [values[i] for i in self._order]

    def finish(self, known: Any, containers: Any, values: Any) -> Any:
        """Write the computed state, and assemble the result."""
        where = dict(zip(self._containers, containers, strict=True))
        maker = Maker(self, known, values, where)
        for i, output in self.writes:
            write_over(known[i], values[output])
        for i, template in self.rebound:
            known[i]._data = maker.make(template)._data
        for i, required in self.flags:
            known[i].requires_grad_(required)
        for change in self.changes:
            apply(change, where[change.held.local], maker)
        return maker.make(self.result)

    def first_result(self, trace: Trace, found: Any) -> Any:
        """What the traced call itself gives, where results have a history."""
        if not trace.recorded:
            return found
        known = trace.watch.tensors
        values = (*trace.values, *trace.saved_values)
        if (device := trace.level.device) is not None:
            values = tuple([
                trace.wholes[o]._data if o in trace.wholes else Plug.devices().put(y, device)
                for o, y in enumerate(values)
            ])
        maker = Maker(self, known, values, trace.shown)
        maker.made.update(
            (o, x) for o, x in trace.tensors.items() if all(x is not y for y, _ in trace.recorded)
        )
        maker.parts.update((id(template), x) for x, template in trace.parts())
        for change in trace.changes:
            if change.template is not REMOVED and has_history(change.template):
                apply(change, change.held.container, maker)
        return maker.make(self.result)


def has_effects(entry: Entry) -> bool:
    """Whether a program changes state."""
    return bool(entry.writes or entry.rebound or entry.flags or entry.changes)


def _order(result: Any) -> list[int] | None:
    """The numbers of the outputs that a result consists of; None if it is more than tensors that
    the program computes."""
    if isinstance(result, Nest):
        parts = [_order(x) for x in result.leaves]
        return None if None in parts else [i for part in parts for i in part or ()]
    plain = isinstance(result, New) and not result.requires_grad and not result.recorded
    return [result.output] if plain else None


class Maker:
    """Makes tensors of what a run of a program gave: the same one for the same output."""

    def __init__(
        self, entry: Entry, known: Any, values: Any, containers: dict[str, Any]
    ) -> None:
        self.entry = entry
        self.known = known
        self.values = values
        self.containers = containers  # that the function was given, by their local names
        self.made: dict[int, Any] = {}
        self.parts: dict[int, Any] = {}  # by their templates, of which each tensor has its own

    def make(self, template: Any) -> Any:
        kind = type(template)
        if kind is New:
            return self.new(template)
        if kind is Known:
            return self.known[template.number]
        if kind is Fixed:
            return template.value
        if kind is Same:
            return self.containers[template.local]
        if kind is Nest:
            return unflatten([self.make(leaf) for leaf in template.leaves], template.shape)
        if id(template) in self.parts:
            return self.parts[id(template)]
        base = self.make(template.of)
        base._data = arrays.writable(base._data)
        part = base._data
        for step in template.steps:
            part = step(part)
        made = self.parts[id(template)] = wrap(part, version=version_of(base))
        return made

    def new(self, template: New) -> Any:
        made = self.made.get(template.output)
        if made is None:
            if template.recorded:
                self.make_recorded()
                return self.made[template.output]
            made = self.made[template.output] = wrap(self.values[template.output])
            if template.requires_grad:
                meta_of(made).requires_grad = True
        return made

    def make_recorded(self) -> None:
        """All results that have a history, as those of one node."""
        pull, outputs = self.entry.pull, self.entry.recorded
        assert pull is not None
        if pull.program is None:
            for output in outputs:
                self.made[output] = undifferentiable(self.values[output], pull.error)
            return
        values = [self.values[output] for output in outputs]
        saved = list(self.values[self.entry.count :])
        for i in self.entry.copied:
            saved[i] = arrays.copy(saved[i])
        variables = [self.known[i] for i in pull.variables]
        known = [None if i is None else self.known[i] for i in self.entry.saved]
        viewed = [self.known[i] for i in self.entry.viewed]
        found = CompiledFunction.apply(self.entry, values, saved, known, viewed, *variables)
        self.made.update(zip(outputs, found, strict=True))


class BrokenGraph(CallableNode):
    """The node of a result whose graph cannot be gone through any more after the function: it was
    freed inside, say, or a value that it needs was overwritten."""

    __slots__ = ("error",)

    def __init__(self, error: str) -> None:
        self.error = error
        self.order = next(orders)
        self.next_nodes = ()
        self.saved = self.extras = self.code = None
        self.lasti = 0

    def backward(self, g: Any, next_nodes: Any) -> Any:
        raise RuntimeError(self.error)

    backward_recorded = backward


def undifferentiable(value: Any, error: str) -> Any:
    """A result whose graph leads nowhere."""
    return wrap(value, BrokenGraph(error))


def abandon(trace: Trace) -> None:
    """After an exception in a traced call: what it has stored meanwhile, in lists, attributes or
    the state of an optimizer, are tensors of arrays again, as they are after an eager call. Their
    graphs are of values of the trace, and lead nowhere."""
    device = trace.level.device
    numbers = trace.level.numbers()  # which an optimizer computes on the CPU
    for x in gc.get_objects():
        if Plug.tensor not in type(x).__mro__:
            continue
        data = getattr(x, "_data", None)
        if type(data) is Traced and data.level is trace.level:
            value = data.value
            # A constant may be the count of an optimizer that is about to begin. As any number, it
            # can be used with tensors on the device.
            is_count = data.var in numbers or (data.var.constant is not None and not data.var.shape)
            on_cpu = device is None or is_count
            x._data = value if on_cpu else Plug.devices().put(value, device)
            if x._node is not None:
                x._node = BrokenGraph(
                    "compile: there is no graph of this tensor, since an exception ended the call "
                    "that computed it while it was traced"
                )


class Finishing:
    """What ``Entry.finish`` does, as straight lines: ``result`` is an expression, or None where
    that takes more than setting gradients, attributes and items, and returning new tensors.
    ``needed`` are the tensors and containers that the lines use, by their names in the comparing
    function, and ``tensors`` are those of all tensors. ``device`` is the function of a program on a
    device, which then gives XLA's arrays, and ``there`` are the numbers of the tensors on it."""

    def __init__(self, entry: Entry, tensors: list[str], device: Any, there: set[int]) -> None:
        self.entry, self.tensors, self.device = entry, tensors, device
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "undifferentiable": undifferentiable, "write_over": write_over, "new": object.__new__,
            "Tensor": Plug.tensor, "user_place": user_place,
        }  # fmt: skip
        if device is not None:
            self.names.update(write_over=device.write_over, write_on_host=device.write_on_host,
                              on_device=device.value, as_gradients=device.as_gradients)  # fmt: skip
            if device.recycled:
                self.lines.append("gradients = as_gradients(values, spares)")
        self.made: dict[int, str] = {}
        self.needed: dict[str, None] = {}
        self.result: str | None = None
        if not (entry.rebound or entry.flags):
            self.write(there)
            if all([self.set(change) for change in entry.changes]):
                self.result = self.text(entry.result)

    def text(self, template: Any) -> str | None:
        """An expression for what a template describes."""
        kind = type(template)
        if kind is New and not template.requires_grad:
            return self.new(template)
        if kind is Known:
            known: str = self.tensors[template.number]
            self.needed[known] = None
            return known
        if kind is Fixed:
            name = f"f{len(self.names)}"
            self.names[name] = template.value
            return name
        if kind is Same:
            self.needed[template.local] = None
            return str(template.local)
        if kind is Nest and template.shape.kind in (tuple, list):
            parts = [self.text(leaf) for leaf in template.leaves]
            if None in parts:
                return None
            joined = "".join(f"{part}, " for part in parts)
            return f"[{joined}]" if template.shape.kind is list else f"({joined})"
        return None

    def new(self, template: New) -> str | None:
        """The name of a new tensor."""
        entry, device, k = self.entry, self.device, template.output
        if template.recorded and (entry.pull is None or entry.pull.program is not None):
            return None
        if k in self.made:
            return self.made[k]
        name = self.made[k] = f"r{k}"
        value = f"values[{k}]"
        if device is not None and k in device.recycled:
            value = f"gradients[{device.recycled.index(k)}]"
        elif device is not None and not device.stays[k]:
            v = entry.program.outputs[k]
            self.names.update({f"shape{k}": v.shape, f"dtype{k}": v.dtype})
            value = f"on_device({value}, values[-1], shape{k}, dtype{k})"
        if template.recorded:
            assert entry.pull is not None
            self.names["error"] = entry.pull.error
            self.lines.append(f"{name} = undifferentiable({value}, error)")
        else:
            self.lines.append(f"{name} = new(Tensor); {name}._data = {value}")
            self.lines.append(f"{name}._node = {name}._version_counter = {name}._meta = None")
        return name

    def write(self, there: set[int]) -> None:
        """Lines that write what the program computed over tensors."""
        entry, tensors = self.entry, self.tensors
        self.needed.update((tensors[i], None) for i, _ in entry.writes)
        if entry.writes:
            self.lines.append("place = user_place(2)")
        if entry.writes and self.device is not None:
            for name, on in (("write_over", True), ("write_on_host", False)):
                writes = [(i, output) for i, output in entry.writes if (i in there) is on]
                targets = "".join([f"{tensors[i]}, " for i, _ in writes])
                given = "".join([f"values[{output}], " for _, output in writes])
                self.lines.append(f"{name}(({targets}), ({given}), place)")
        else:
            self.lines += [f"write_over({tensors[i]}, values[{output}], place)"
                           for i, output in entry.writes]  # fmt: skip

    def set(self, change: Change) -> bool:
        """A line that sets an entry of a container; False if it takes more than that."""
        value = None if change.template is REMOVED else self.text(change.template)
        if value is None or change.held.kind in ("attributes", "slots", "set"):
            return False
        local = change.held.local
        self.needed[local] = None
        if change.held.kind == "grad":
            self.lines.append(f"{local}._meta.grad = {value}")
        elif change.held.kind == "cell":
            self.lines.append(f"{local}.cell_contents = {value}")
        else:
            name = f"k{len(self.names)}"
            self.names[name] = change.key
            self.lines.append(f"{local}[{name}] = {value}")
        return True

    def function(self) -> Any:
        """A function of what the program gave, spare values, and what is needed."""
        body = "\n    ".join([*self.lines, f"return {self.result}"])
        parameters = ", ".join(["values", "spares", *self.needed])
        exec(f"def finish({parameters}):\n    {body}\n", self.names)
        return self.names["finish"]


def spares_of(entry: Entry, needed: list[str], device: Any) -> Any:
    """A function of the tensors that ``finish`` takes, which gives the values of the gradients that
    are there before the call and that nobody can see afterwards; none if that is not so for all."""
    of = {change.template.output: change.held.local for change in entry.changes
          if change.held.kind == "grad" and type(change.template) is New}  # fmt: skip
    parts = "".join([f"spare({of[i]}), " if i in of else "None, " for i in device.recycled])
    names: dict[str, Any] = {"spare": device.spare, "alone": device.alone}
    exec(f"def spares({', '.join(needed)}):\n    return alone(({parts}))\n", names)
    return names["spares"]


class CompiledFunction(Function):
    """A program as one node of the graph: gradients are computed by a second program."""

    @staticmethod
    def forward(
        ctx: Any, entry: Entry, values: Any, saved: Any, known: Any, viewed: Any,
        *variables: Any,
    ) -> Any:  # fmt: skip
        ctx.entry = entry
        ctx.values = [None if k is not None else s for s, k in zip(saved, known, strict=True)]
        ctx.save_for_backward(*[k for k in known if k is not None], *viewed)
        ctx.set_materialize_grads(True)
        return tuple([wrap(x) for x in values])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        entry = ctx.entry
        if entry.backward is None:
            raise RuntimeError(SECOND_BACKWARD)
        known = iter(ctx.saved_tensors)
        saved = [next(known)._data if x is None else x for x in ctx.values]
        given = [g._data if isinstance(g._data, Lifted) else arrays.ascontiguous(g._data)
                 for g in grads]  # fmt: skip
        found = iter(entry.backward(*saved, *given))
        gradients = [
            wrap(_apart(next(found))) if some else None for some in entry.pull.outputs
        ]
        return (None, None, None, None, None, *gradients)


def _apart(x: Any) -> Any:
    """A gradient that nothing else refers to."""
    return x.as_gradient() if isinstance(x, Lifted) else arrays.copy(x)


def write_over(tensor: Any, value: Any, place: Any = None) -> None:
    """Write a value over that of a tensor from outside, and count the write, which is done at a
    place in the user's code."""
    data = tensor._data = arrays.writable(tensor._data)
    if isinstance(data, Lifted):  # on a device
        data.level.write(data, value)
    elif data is not value:
        arrays.write(data, getattr(value, "host", value))
    version = version_of(tensor)
    version.count += 1
    version.written_at = place or user_place(2)


def apply(change: Change, container: Any, maker: Maker) -> None:
    """Set an entry of a container."""
    kind, key = change.held.kind, change.key
    if change.template is REMOVED:
        if kind in ("attributes", "slots"):
            delattr(container, key)
        else:
            del container[key]
        return
    value = maker.make(change.template)
    if kind == "grad":
        meta_of(container).grad = value
    elif kind == "cell":
        container.cell_contents = value
    elif kind in ("attributes", "slots"):
        setattr(container, key, value)
    elif kind == "set":
        container.clear()
        container.update(value)
    else:
        container[key] = value


def has_history(template: Any) -> bool:
    if isinstance(template, Nest):
        return any(map(has_history, template.leaves))
    return (isinstance(template, New) and template.recorded) or (
        isinstance(template, Part) and has_history(template.of)
    )  # fmt: skip


def modes_now() -> tuple[Any, ...]:
    """The modes that affect operations."""
    state = modes.frame.states[-1]
    return (
        state.grad_enabled, state.inference, state.anomaly, state.device, dtypes.get_default_dtype()
    )  # fmt: skip
