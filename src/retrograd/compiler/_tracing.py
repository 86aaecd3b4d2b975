"""Tracing: a level, as those of transforms are, that writes every operation down.

A function is traced by running it once, on its real values: what it gives and what it changes is
what an eager call would have. A traced value is an array and the variable of the program that
stands for it. Whoever looks at the array, to branch or to make a number of it, gets to see it, and
the level notes that the program depends on values and cannot be used (``TraceLevel.look``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar

from retrograd import arrays
from retrograd._modes import modes
from retrograd._source import Place, user_place
from retrograd.autograd._levels import as_tensor
from retrograd.compiler._program import PUT, Kernel, Line, Step, Var, variables
from retrograd.compiler._traced import Traced
from retrograd.ops._lifted import Level, Lifted, LooksAtValues
from retrograd.ops._operation import TABLE, Operation, TensorLike, raw

programs = arrays.programs


# Operations whose results are as large as the values of their arguments say.
SIZED_BY_VALUES = frozenset({
    "nonzero", "nonzero_numpy", "unique", "unique_dim", "unique_consecutive", "repeat_interleave",
    "bincount", "weighed_bincount", "masked_select",
})  # fmt: skip


class Block(list[Line]):
    """Lines in the order that they are done: of a function, or of a branch or a body inside of it.
    What is inside of others has a higher number."""

    __slots__ = ("captured", "known", "number")

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.captured: dict[Any, int] = {}  # memory from outside, and how often it had changed
        self.known: dict[Var, Any] = {}  # variables from outside, and their values

    def note_captured(self, x: Traced) -> None:
        """Note that these lines use a value from outside."""
        self.known[x._var] = x.value
        if x.memory.block is not None:
            self.captured[x.memory] = x.memory.version


class WritesOutside(Exception):  # noqa: N818 - it says what code does
    """A branch or a body is about to write a tensor that it did not make."""


class TraceLevel(Level):
    """The level of a function that is being traced: below all others.

    ``whole``: composites are lines of their own, as kernels compute them; if not, they are written
    down as the operations that they are made of, except for those of the names ``kernels``.
    """

    __slots__ = (
        "_blocks",
        "_constants",
        "_count",
        "checked",
        "checking",
        "depends_on_numbers",
        "device",
        "generators",
        "kept",
        "kernels",
        "lines",
        "looked",
        "node",
        "thread",
        "unknown",
        "whole",
    )

    name = "compile"
    traces: ClassVar[bool] = True
    shows_steps: ClassVar[bool] = True
    transparent: ClassVar[bool] = True  # what is recorded inside is recorded as ever

    def __init__(self, whole: bool = True, kernels: Collection[str] = ()) -> None:
        super().__init__()
        self._blocks = 0
        self.lines = self.block()
        self.generators: list[Any] = []  # of random numbers
        self.whole = whole
        self.kernels = kernels
        self.node: Any = None  # of the graph, whose rules are running
        self.device: Any = None  # that the program is for, if it is not the CPU
        self.looked: tuple[str, Place] | None = None  # at which value, first, and where
        self.unknown: list[Any] = []  # tensors that came from nowhere that was looked at before
        self.kept: list[Any] = []  # arrays that constants were made of, so that ids stay theirs
        self._constants: dict[int, Var] = {}
        self._count = 0
        self.depends_on_numbers = False  # of optimizers, which may otherwise change
        self.checking = False  # what is looked at now is no more than checked
        self.checked = False
        self.thread = threading.get_ident()

    @property
    def closed(self) -> bool:
        """Whether the trace has ended, or this thread has no part in it, so that values are as
        after the end."""
        if super().closed:
            return True
        if threading.get_ident() == self.thread:
            return False
        frame: Any = modes.frame
        while frame is not None:  # a pass that the trace runs in a thread of its own has a part
            if any(self in state.levels for state in frame.states):
                return False
            frame = frame.outer
        return True

    # -- control flow --------------------------------------------------------------------------

    def block(self) -> Block:
        """New lines, inside of those that are being written."""
        self._blocks += 1
        return Block(self._blocks)

    def check_inside(self, memory: Any) -> None:
        """WritesOutside if some memory does not belong to the lines that are being written."""
        if memory.block is not self.lines:
            raise WritesOutside

    def cond(self, *given: Any) -> Any:
        from retrograd.compiler import _control

        return _control.cond(self, *given)

    def while_loop(self, *given: Any) -> Any:
        from retrograd.compiler import _control

        return _control.while_loop(self, *given)

    def scan(self, *given: Any) -> Any:
        from retrograd.compiler import _control

        return _control.scan(self, *given)

    # -- the user's code -----------------------------------------------------------------------

    def place(self, depth: int) -> Place:
        """The user's line that the program is at: in a backward pass, that of the node."""
        if self.node is not None and self.node.code is not None:
            return (self.node.code, self.node.lasti)
        return user_place(depth + 1)

    def watch_pass(self, task: Any, loop: Callable[[Any], Any]) -> Any:
        """Run a backward pass, and follow which node runs."""
        task.observer = self
        outer = self.node
        try:
            return loop(task)
        finally:
            self.node = outer

    def arrived(self, node: Any, grads: Any) -> None:
        self.node = node

    def begins(self, node: Any, grads: Any) -> None:
        self.node = node

    def gave(self, node: Any, grads: Any, received: Any) -> None:
        """The rules of a node have run, which ``ends`` says again."""

    def ends(self, node: Any, grads: Any, received: Any) -> None:
        """What is done from here on is done for the next node."""

    def look(self, how: str) -> None:
        """Note that a value was looked at: the program would depend on it."""
        if self.checking:
            self.checked = True
        elif self.looked is None:
            self.looked = (how, user_place(3))

    def check(
        self, check: Callable[..., None], values: Sequence[Any], options: dict[str, Any]
    ) -> None:
        """What an operation refuses. If that depends on values, the check is a line, too."""
        self.checking, self.checked = True, False
        try:
            check(*values, **options)
        except LooksAtValues:
            return
        finally:
            self.checking = False
        if not self.checked or any_above(self, [*values, *options.values()]):
            return
        named = {name: self.known(x)[0] for name, x in options.items()}
        args = tuple([self.known(x)[0] for x in values])
        self.lines.append(Line((), Kernel("check", check), args, named, False, self.place(3),
                               bool(modes.frame.tasks)))  # fmt: skip

    def check_values(self, check: Callable[..., None], args: Sequence[Any]) -> bool:
        """Call a check of values, as a line. False if they are above this level."""
        if any_above(self, args):
            return False
        pairs = [self.known(x) for x in args]
        check(*[v for _, v in pairs])
        kernel = Kernel(check.__name__.lstrip("_"), check)
        self.lines.append(Line((), kernel, tuple([p for p, _ in pairs]), {}, False, self.place(3),
                               bool(modes.frame.tasks)))  # fmt: skip
        return True

    # -- variables ---------------------------------------------------------------------------

    def variable(self, value: Any, root: Var | None = None) -> Var:
        self._count += 1
        return Var(f"t{self._count}", value, root)

    def given(self, value: Any, name: str) -> Traced:
        """A traced value that is an input of the program."""
        return Traced(self, value, Var(name, value))

    def constant_of(self, value: Any) -> Var:
        """The variable of an array that is the same in every run."""
        var = self._constants.get(id(value))
        if var is None:
            var = Var(f"c{len(self._constants)}", value)
            var.constant = value
            self._constants[id(value)] = var
            self.kept.append(value)
        return var

    def made(self, value: Any) -> Traced:
        """A traced value that holds a new array, which may be written: the constant is a copy."""
        return Traced(self, value, self.constant_of(arrays.copy(value)))

    def constant(self, x: Any) -> Traced:
        data = raw(x)
        if isinstance(data, Traced):
            if data.level is self:
                return data
            data = data.value
        if isinstance(x, TensorLike):
            if getattr(x, "requires_grad", False):
                raise RuntimeError(
                    "compile: the function used a tensor that requires grad and that is no "
                    "argument, and neither in its closure, its globals, nor in attributes of "
                    "objects there. Pass it as an argument."
                )
            self.unknown.append(x)
        return Traced(self, data, self.constant_of(data))

    def known(self, x: Any) -> tuple[Any, Any]:
        """An argument as the program has it, and its value."""
        kind = type(x)
        if kind is Traced and x.level is self:
            return x.var, x.value
        if kind in (list, tuple):
            pairs = [self.known(part) for part in x]
            return kind([p for p, _ in pairs]), kind([v for _, v in pairs])
        if isinstance(x, TensorLike) or kind is Traced:
            traced = self.constant(x)
            return traced.var, traced.value
        if arrays.is_raw(x):
            return self.constant_of(x), x
        return x, x

    # -- operations --------------------------------------------------------------------------

    @property
    def takes_kernels(self) -> bool:  # type: ignore[override]
        return self.whole

    def takes_whole(self, operation: Operation) -> bool:
        """A composite with rules has a node of its own, as in eager mode."""
        has_kernel = operation.forward is not operation.definition
        whole = self.whole or operation.name in self.kernels
        return whole and (has_kernel or operation.has_rules)

    def records_whole(self, operation: Operation) -> bool:
        """What is recorded is what eager mode records, so that gradients are there, or are None,
        for the same inputs. Fused rules are no operations, so that without kernels the definition
        is recorded in their place."""
        return self.takes_whole(operation) or (operation.has_rules and not operation.fused)

    def run(self, operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        definition = operation.definition
        whole = self.whole or operation.name in self.kernels
        if definition is not None and (not whole or operation.forward is definition):
            if any([is_narrow(x) for x in args]):
                return self.run_widened(operation, args, options, self.by_definition)
            return self.by_definition(operation, args, options)
        running = options.get("running")
        if running is not None:
            return self.run_with_statistics(operation, args, options, running)
        return self.run_on_parts(operation, args, options)

    def run_on_parts(self, operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        pairs = [self.known(x) for x in args]
        named = {name: self.known(x) for name, x in options.items()}
        values = [v for _, v in pairs]
        narrow = arrays.any_narrow(values) or arrays.any_narrow([v for _, v in named.values()])
        if narrow and not operation.moves_only:
            return self.run_widened(operation, args, options)
        self.check_size(operation, [p for p, _ in pairs], {n: p for n, (p, _) in named.items()})
        if operation.heavy and values[0].size > arrays.LARGE:
            found = arrays.shared(operation.forward, values[0])
        else:
            found = operation.forward(*values, **{name: v for name, (_, v) in named.items()})
        several = isinstance(found, (tuple, list))
        outputs: list[Traced] = []
        for y in found if several else [found]:
            outputs.append(self.result(operation, y, args, values, outputs))
        self.lines.append(Line(
            tuple([y._var for y in outputs]), operation, tuple([p for p, _ in pairs]),
            {name: p for name, (p, _) in named.items()}, several, self.place(2),
            bool(modes.frame.tasks),
        ))  # fmt: skip
        if operation.view:
            source = args[0]
            if not isinstance(source, Traced):
                source = self.constant(source)
            for i, y in enumerate(outputs):
                if y._var.root is not y._var:
                    step = Step(operation, options, i if several else None)
                    y.memory, y.steps = source.memory, (*source.steps, step)
                    y.seen = y.memory.version
        return tuple(outputs) if several else outputs[0]

    def run_widened(
        self, operation: Any, args: tuple[Any, ...], options: dict[str, Any],
        run: Callable[..., Any] | None = None,
    ) -> Any:  # fmt: skip
        """An operation on bfloat16: lines that convert operands to float32, that compute, and that
        round the results. ``run`` computes the operation, by default as one line."""
        run = self.run_on_parts if run is None else run

        def in_dtype(x: Any, old: Any, new: Any) -> Any:
            if type(x) in (list, tuple):
                return type(x)([in_dtype(part, old, new) for part in x])
            if not isinstance(x, (TensorLike, Traced, *arrays.RAW_TYPES)) or raw(x).dtype != old:
                return x
            return self.run_on_parts(TABLE["to_dtype"], (x,), {"dtype": new})

        args = tuple([self.constant(x) if isinstance(x, TensorLike) else x for x in args])
        wide, narrow = arrays.float32, arrays.narrow.dtype()
        return arrays.narrow.call(
            operation.name, lambda *a, **named: run(operation, a, named), args,
            options, lambda x: in_dtype(x, narrow, wide), lambda y: in_dtype(y, wide, narrow),
        )  # fmt: skip

    def run_elementwise(
        self, operation: Any, args: Sequence[Any], options: dict[str, Any]
    ) -> Traced:
        """As ``run``, in fewer steps: such an operation gives one array, of one float dtype."""
        if operation.definition is not None or operation.heavy:
            whole: Traced = self.run(operation, tuple(args), options)
            return whole
        parts, values = [], []
        for x in args:
            if type(x) is Traced and x.level is self:
                parts.append(x.var)
                values.append(x.value)
            else:
                part, value = self.known(x)
                parts.append(part)
                values.append(value)
        y = operation.forward(*values, **options)
        if type(y) is arrays.ndarray and (y.base is not None or any([y is x for x in values])):
            result = self.result(operation, y, args, values)
        else:
            result = Traced(self, y, self.variable(y))
        self.lines.append(Line((result._var,), operation, tuple(parts), options, False,
                               self.place(2), bool(modes.frame.tasks)))  # fmt: skip
        return result

    def check_size(self, operation: Any, args: Sequence[Any], options: dict[str, Any]) -> None:
        """Look at the values that decide how large a result is: programs are made for sizes."""
        if operation.name == "index":
            deciding = [x for x in options["where"] if isinstance(x, Var) and x.dtype.kind == "b"]
        elif operation.name in SIZED_BY_VALUES:
            deciding = list(variables(args))
        else:
            return
        if not self.are_constant(deciding):
            word = "indexing with a mask" if operation.name == "index" else f"{operation.name}()"
            self.look(f"{word}, which gives as many elements as they say")

    def are_constant(self, found: list[Var]) -> bool:
        """Whether variables are computed from constants alone, and are the same in every run."""
        made_by: dict[Var, Line] = {}
        known = set(found)
        while found:
            var = found.pop()
            if var.constant is not None:
                continue
            made_by = made_by or {v: line for line in self.lines for v in line.outputs}
            line = made_by.get(var)
            if line is None or line.effects:
                return False
            found += [v for v in line.inputs if v not in known]
            known.update(line.inputs)
        return True

    def run_with_statistics(
        self, operation: Any, args: tuple[Any, ...], options: dict[str, Any], running: Any
    ) -> Any:
        """An operation that also updates running statistics, which its option refers to."""
        names = list(options)
        kept, count, given_count = running.kept, len(running.kept), len(args)
        running.kept = ()

        def update(*given: Any) -> Any:
            statistics, rest = given[:count], given[count:]
            inputs, values = rest[:given_count], rest[given_count:]
            named = dict(zip(names, values, strict=True))
            named["running"] = running.of(statistics)
            return operation.compute(inputs, named)

        values = [None if name == "running" else options[name] for name in names]
        everything = [self.lifted(x) if arrays.is_raw(x) else x for x in (*kept, *args, *values)]
        return tuple(self.overwrite(operation.name, update, everything, range(count)))

    def result(
        self, operation: Any, value: Any, args: Sequence[Any], values: Sequence[Any],
        others: Sequence[Any] = (),
    ) -> Traced:  # fmt: skip
        """A new traced value. If it lies in the memory of an argument, or of another result, its
        variable says so."""
        source = None
        if isinstance(value, arrays.ndarray):
            memory = programs.memory_of(value)
            for x, v in zip(args, values, strict=True):
                if v is value or programs.memory_of(v) is memory:
                    source = x if isinstance(x, Traced) else None
                    break
        if source is None:
            source = next(
                (y for y in others if y is not None and programs.overlap(y.value, value)), None
            )
        root = None if source is None else source.var.root
        result = Traced(self, value, self.variable(value, root))
        if source is not None and not operation.view:
            result.memory.shared = True
        return result

    def viewed(self, var: Var, step: Step, value: Any, block: Any) -> Var:
        """The line that takes a view of what some memory holds now; ``value`` is that view. It goes
        where the memory was written, so that all that follows knows the view."""
        several = step.number is not None
        view = self.variable(value, var.root)
        operation: Any = step.operation
        if several:
            operation = Kernel(f"{operation.name}_{step.number}", step)
            operation.view = True
        block.append(Line((view,), operation, (var,), {} if several else step.options, False,
                          self.place(3), bool(modes.frame.tasks)))  # fmt: skip
        return view

    def below(self, x: Any) -> tuple[Any, bool]:
        return (x, True)

    def left_of(self, x: Any) -> Any:
        return as_tensor(x.value)

    # -- writes ------------------------------------------------------------------------------

    def write(self, target: Any, result: Any, moves: bool = True) -> None:
        memory = target.memory
        self.check_inside(memory)
        if memory.shared:
            self.look("memory that several tensors share without being views of each other")
        arrays.write(target.value, result.value)
        place, backward = self.place(2), bool(modes.frame.tasks)
        old, new = memory.var, result.var
        same = (new.shape, new.dtype, new.strides) == (old.shape, old.dtype, old.strides)
        if not target.steps and same and new.root is new:
            memory.var = new  # the whole of it, by a value that lies in memory just so
        else:
            memory.var = self.variable(old)
            options = {"views": target.steps} if target.steps else {}
            self.lines.append(Line((memory.var,), PUT, (old, new), options, True, place, backward))
        memory.version += 1

    def overwrite(
        self, name: str, function: Callable[..., Any], args: Sequence[Any], writes: Sequence[int]
    ) -> list[Traced]:
        """Run a function of arrays that overwrites some of them, as a line. It may return a tuple
        of new arrays, which are given back as traced values."""
        for position in writes:
            self.check_inside(args[position].memory)
            args[position].hold(as_tensor)
            if args[position].steps or args[position].memory.shared:
                self.look("a view that is written to as a whole")
        old = [x.var if isinstance(x, Traced) else x for x in args]
        returned = function(*[x.value if isinstance(x, Traced) else x for x in args]) or ()
        outputs = []
        for position in writes:
            memory = args[position].memory
            memory.var = self.variable(args[position].value)
            memory.version += 1
            outputs.append(memory.var)
        made = [Traced(self, y, self.variable(y)) for y in returned]
        outputs += [y.var for y in made]
        kernel = Kernel(name, function, tuple(writes))
        self.lines.append(Line(tuple(outputs), kernel, tuple(old), {}, True, self.place(3),
                               bool(modes.frame.tasks)))  # fmt: skip
        return made

    def take_in(self, tensor: Any) -> None:
        tensor._data = arrays.writable(tensor._data)
        if tensor._is_view():
            self.look("a view of a tensor from outside, by writing to it")
        self.unknown.append(tensor)
        tensor._data = self.made(tensor._data)

    def adopt(self, tensor: Any) -> None:
        self.look("a view of a tensor from outside, after writing to that")
        tensor._data = self.made(tensor._data)

    # -- what the table has no entry for -------------------------------------------------------

    def drawing(self, sample: Callable[[tuple[int, ...]], Any]) -> Callable[..., Traced]:
        """A function that draws random numbers, as one that is a line of the program."""

        def draw(shape: tuple[int, ...]) -> Traced:
            name = sample.__qualname__.split(".")[0].lstrip("_")
            result: Traced = self.run_on_parts(Kernel(name, sample, random=True), (shape,), {})
            return result

        return draw

    def fused_rules(
        self, node: Any, g: Any, next_nodes: Sequence[Any], saved: dict[str, Any] | None
    ) -> Any:
        """The gradients of a composite by its fused rules, each of which is a line; NotImplemented
        where it has to be differentiated by its definition."""
        extras, operation = node.extras, node.operation
        whole = self.whole or operation.name in self.kernels
        if not whole or (extras is not None and extras.conjugate):
            return NotImplemented
        values = node.saved_as_tensors() if saved is None else saved
        values = {**node.options, **{name: raw(x) for name, x in values.items()}}
        given = g if type(g) is list else [g]
        lifted = [x for x in (*given, *values.values()) if isinstance(x, Lifted)]
        if any(x.level is not self for x in lifted):
            return NotImplemented
        g = node.widened(g)
        values = {name: node.widened(x) for name, x in values.items()}
        values["shapes"] = [shape for shape, _ in node.infos]
        values["needs"] = needs = [n is not None for n in next_nodes]

        def call(name: str, rule: Any, position: int) -> Any:
            known = {**values, "shape": node.infos[position][0]}
            kernel = Kernel(f"{operation.name}_{name}", rule.function)
            return self.rule(kernel, (g, *[known[n] for n in rule.names]))

        if operation.joint is not None:
            return node.rounded(call("backward", operation.joint, 0))
        return node.rounded([
            call(f"gradient_of_{operation.inputs[i]}", rule, i) if rule and needed else None
            for i, (rule, needed) in enumerate(zip(operation.rules, needs, strict=True))
        ])  # fmt: skip

    def by_kernel(self, kernel: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """A kernel that takes arrays only, as a line."""
        return self.rule(Kernel(kernel.__name__.lstrip("_"), kernel), args)

    def rule(self, kernel: Kernel, args: tuple[Any, ...]) -> Any:
        """A rule on arrays. Of several gradients it may give, some may be None."""
        pairs = [self.known(x) for x in args]
        result = kernel.forward(*[v for _, v in pairs])
        if result is NotImplemented:
            return result
        several = isinstance(result, (tuple, list))
        gradients: list[Any] = []
        for y in result if several else [result]:
            made = None
            if y is not None:
                made = self.result(kernel, y, args, [v for _, v in pairs], gradients)
            gradients.append(made)
        kept = [y._var for y in gradients if y is not None]
        if several and len(kept) < len(gradients):
            kernel.forward = _WithoutNone(kernel.forward)
        if kept:
            self.lines.append(Line(tuple(kept), kernel, tuple([p for p, _ in pairs]), {}, several,
                                   self.place(4), bool(modes.frame.tasks)))  # fmt: skip
        return gradients if several else gradients[0]


def any_above(level: Level, values: Sequence[Any]) -> bool:
    """Whether some values belong to transforms inside of a function that is traced."""
    for x in values:
        if type(x) in (list, tuple):
            if any_above(level, x):
                return True
        elif isinstance(raw(x), Lifted) and raw(x).level is not level:
            return True
    return False


class _WithoutNone:
    """A function that gives several values, without those that are None."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        return tuple([y for y in self.function(*args) if y is not None])


def is_narrow(x: Any) -> bool:
    """Whether ``x`` holds numbers in bfloat16."""
    return getattr(getattr(raw(x), "dtype", None), "kind", "") == "V"
