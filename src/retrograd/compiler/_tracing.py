"""Tracing: a level, like those of transforms, that records every operation.

A function is traced by running it once on its real values: its results and side effects are those
of an eager call. A traced value is an array and the variable that represents it in the program.
Code may read the array, to branch on it or convert it to a number. The level then records that the
program depends on values and cannot be used (``ProgramWriter.look``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar

from retrograd import arrays
from retrograd._modes import modes
from retrograd._source import user_place
from retrograd.autograd._levels import as_tensor
from retrograd.compiler._program import PUT, Kernel, Line, Step, Var, variables
from retrograd.compiler._traced import Traced
from retrograd.compiler._writer import ProgramWriter
from retrograd.ops._lifted import Lifted
from retrograd.ops._operation import TABLE, Operation, TensorLike, raw
from retrograd.ops._widened import is_narrow, run_widened

programs = arrays.programs


# Operations whose result sizes depend on the values of their arguments.
SIZED_BY_VALUES = frozenset({
    "nonzero", "nonzero_numpy", "unique", "unique_dim", "unique_consecutive", "repeat_interleave",
    "bincount", "weighed_bincount", "masked_select",
})  # fmt: skip


class TraceLevel(ProgramWriter):
    """The level of a function that is being traced. It is below all others.

    ``whole``: composites are single lines, which call their kernels. Otherwise composites are
    traced into their operations, except for those named in ``kernels``.
    """

    __slots__ = ("depends_on_numbers", "device", "generators", "is_backward", "kernels", "options",
                 "whole")  # fmt: skip

    name = "compile"
    traces: ClassVar[bool] = True
    shows_steps: ClassVar[bool] = True
    transparent: ClassVar[bool] = True  # the graph is recorded as in eager mode

    def __init__(self, whole: bool = True, kernels: Collection[str] = ()) -> None:
        super().__init__()
        self.generators: list[Any] = []  # of random numbers
        self.whole = whole
        self.kernels = kernels
        self.device: Any = None  # the device of the program, if it is not the CPU
        self.is_backward = False  # whether the program of the backward pass is traced
        self.depends_on_numbers = False  # of optimizers; if not, these may change
        self.options: dict[int, dict[str, Any]] = {}  # of groups before the call, by id

    def numbers(self) -> set[Var]:
        """The variables of numbers that optimizers update, such as step counts."""
        updates = [line for line in self.lines
                   if getattr(line.operation.forward, "updates_parameter", False)]  # fmt: skip
        return {v for line in updates for v in line.outputs if not v.shape}

    # -- control flow --------------------------------------------------------------------------

    def cond(self, *args: Any) -> Any:
        from retrograd.compiler import _control

        return _control.cond(self, *args)

    def while_loop(self, *args: Any) -> Any:
        from retrograd.compiler import _control

        return _control.while_loop(self, *args)

    def scan(self, *args: Any) -> Any:
        from retrograd.compiler import _control

        return _control.scan(self, *args)

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
        """The graph has the nodes of eager mode, so that gradients are None for the same inputs.
        Fused rules are not operations; without kernels, the definition is recorded instead."""
        return self.takes_whole(operation) or (operation.has_rules and not operation.fused)

    def run(self, operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        definition = operation.definition
        whole = self.whole or operation.name in self.kernels
        if definition is not None and (not whole or operation.forward is definition):
            if any([is_narrow(x) for x in args]):
                return self.run_widened(self.by_definition, operation, args, options)
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
            return self.run_widened(self.run_on_parts, operation, args, options)
        self.check_size(operation, [p for p, _ in pairs], {n: p for n, (p, _) in named.items()})
        try:
            if operation.heavy and values[0].size > arrays.LARGE:
                results = arrays.shared(operation.forward, values[0])
            else:
                results = operation.forward(*values, **{name: v for name, (_, v) in named.items()})
        except Exception:
            self.fail()
            raise
        several = isinstance(results, (tuple, list))
        outputs: list[Traced] = []
        for y in results if several else [results]:
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
        self, run: Callable[..., Any], operation: Any, args: tuple[Any, ...],
        options: dict[str, Any],
    ) -> Any:  # fmt: skip
        """An operation on bfloat16: lines that convert the operands to float32, the lines of
        ``run``, and lines that round the results."""

        def to_dtype(x: Any, dtype: Any) -> Any:
            return self.run_on_parts(TABLE["to_dtype"], (x,), {"dtype": dtype})

        args = tuple([self.constant(x) if isinstance(x, TensorLike) else x for x in args])
        return run_widened(run, to_dtype, operation, args, options)

    def run_elementwise(
        self, operation: Any, args: Sequence[Any], options: dict[str, Any]
    ) -> Traced:
        """Like ``run``, in fewer steps: the operation returns one array of a float dtype."""
        if operation.definition is not None or operation.heavy:
            whole: Traced = self.run(operation, tuple(args), options)
            return whole
        parts, values = [], []
        lines = self.lines
        for x in args:
            if type(x) is Traced and x.level is self:
                memory = x.memory
                known = x.seen == memory.version and memory.block is lines
                parts.append(x._var if known else x.var)
                values.append(x.value)
            else:
                part, value = self.known(x)
                parts.append(part)
                values.append(value)
        y = operation.forward(*values, **options)
        new = type(y) is not arrays.ndarray or y.base is None
        for value in values:
            new = new and value is not y
        if new:
            self._count += 1
            result = Traced(self, y, Var(f"t{self._count}", y))
        else:
            result = self.result(operation, y, args, values)
        node = self.node
        place = user_place(2) if node is None or node.code is None else (node.code, node.lasti)
        lines.append(Line((result._var,), operation, tuple(parts), options, False, place,
                          bool(modes.frame.tasks)))  # fmt: skip
        return result

    def check_size(self, operation: Any, args: Sequence[Any], options: dict[str, Any]) -> None:
        """Record a read of the values that determine the size of a result, since a program is only
        for one size."""
        if operation.name == "index":
            deciding = [x for x in options["where"] if isinstance(x, Var) and x.dtype.kind == "b"]
        elif operation.name in SIZED_BY_VALUES:
            deciding = list(variables(args))
        else:
            return
        if not self.are_constant(deciding):
            word = "indexing with a mask" if operation.name == "index" else f"{operation.name}()"
            self.look(f"{word}, whose result size depends on them")

    def are_constant(self, to_visit: list[Var]) -> bool:
        """Whether variables depend only on constants, and are the same in every run."""
        made_by: dict[Var, Line] = {}
        known = set(to_visit)
        while to_visit:
            var = to_visit.pop()
            if var.constant is not None:
                continue
            made_by = made_by or {v: line for line in self.lines for v in line.outputs}
            line = made_by.get(var)
            if line is None or line.effects:
                return False
            to_visit += [v for v in line.inputs if v not in known]
            known.update(line.inputs)
        return True

    def run_with_statistics(
        self, operation: Any, args: tuple[Any, ...], options: dict[str, Any], running: Any
    ) -> Any:
        """An operation that also updates running statistics, which are an option."""
        names = list(options)
        kept, count, given_count = running.kept, len(running.kept), len(args)
        running.kept = ()

        def update(*flat: Any) -> Any:
            statistics, rest = flat[:count], flat[count:]
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
        """A new traced value. If its memory is that of an argument or of another result, its
        variable is a view of that."""
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
            memory.var = new  # all of it is replaced by a value with the same layout
        else:
            memory.var = self.variable(old)
            options = {"views": target.steps} if target.steps else {}
            self.lines.append(Line((memory.var,), PUT, (old, new), options, True, place, backward))
        memory.version += 1

    def overwrite(
        self, name: str, function: Callable[..., Any], args: Sequence[Any], writes: Sequence[int]
    ) -> list[Traced]:
        """Run a function of arrays that overwrites some of them, as a line. It may return a tuple
        of new arrays, which are returned as traced values."""
        for position in writes:
            self.check_inside(args[position].memory)
            args[position].hold(as_tensor)
            if args[position].steps or args[position].memory.shared:
                self.look("a view that is written to as a whole")
        old = [x.var if isinstance(x, Traced) else x for x in args]
        returned = function(*[x.value if isinstance(x, Traced) else x for x in args]) or ()
        written = [self.variable(args[position].value) for position in writes]
        results = [Traced(self, y, self.variable(y)) for y in returned]
        outputs = (*written, *[y.var for y in results])
        kernel = Kernel(name, function, tuple(writes))
        # Before memory refers to the new variables, because an interrupt may come.
        self.lines.append(Line(outputs, kernel, tuple(old), {}, True, self.place(3),
                               bool(modes.frame.tasks)))  # fmt: skip
        for position, var in zip(writes, written, strict=True):
            args[position].memory.var = var
            args[position].memory.version += 1
        return results

    def take_in(self, tensor: Any) -> None:
        tensor._data = arrays.writable(tensor._data)
        if tensor._is_view():
            self.look("a view of a tensor from outside, by writing to it")
        self.unknown.append(tensor)
        tensor._data = self.made(tensor._data)

    def adopt(self, tensor: Any) -> None:
        self.look("a view of a tensor from outside, after writing to that")
        tensor._data = self.made(tensor._data)

    # -- calls that are not in the table -------------------------------------------------------

    def drawing(self, sample: Callable[[tuple[int, ...]], Any]) -> Callable[..., Traced]:
        """A function that draws random numbers, and writes a line that does so."""

        def draw(shape: tuple[int, ...]) -> Traced:
            # A checkpoint draws the same numbers as in the forward pass: it sets the generator,
            # which is no line. This program is for one call.
            if self.is_backward and self.looked is not None:
                return self.made(sample(shape))
            name = sample.__qualname__.split(".")[0].lstrip("_")
            result: Traced = self.run_on_parts(Kernel(name, sample, random=True), (shape,), {})
            return result

        return draw

    def fused_rules(
        self, node: Any, g: Any, next_nodes: Sequence[Any], saved: dict[str, Any] | None
    ) -> Any:
        """The gradients of a composite by its fused rules, each of which is a line. NotImplemented
        if its definition has to be differentiated instead."""
        extras, operation = node.extras, node.operation
        whole = self.whole or operation.name in self.kernels
        if not whole or (extras is not None and extras.conjugate):
            return NotImplemented
        values = node.saved_as_tensors() if saved is None else saved
        values = {**node.options, **{name: raw(x) for name, x in values.items()}}
        grads = g if type(g) is list else [g]
        lifted = [x for x in (*grads, *values.values()) if isinstance(x, Lifted)]
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
        """A line that calls a kernel that takes arrays only."""
        return self.rule(Kernel(kernel.__name__.lstrip("_"), kernel), args)

    def rule(self, kernel: Kernel, args: tuple[Any, ...]) -> Any:
        """A line that calls a rule on arrays. Some of the gradients may be None."""
        pairs = [self.known(x) for x in args]
        result = kernel.forward(*[v for _, v in pairs])
        if result is NotImplemented:
            return result
        several = isinstance(result, (tuple, list))
        gradients: list[Any] = []
        for y in result if several else [result]:
            gradient = None
            if y is not None:
                gradient = self.result(kernel, y, args, [v for _, v in pairs], gradients)
            gradients.append(gradient)
        kept = [y._var for y in gradients if y is not None]
        if several and len(kept) < len(gradients):
            kernel.forward = _WithoutNone(kernel.forward)
        if kept:
            self.lines.append(Line(tuple(kept), kernel, tuple([p for p, _ in pairs]), {}, several,
                                   self.place(4), bool(modes.frame.tasks)))  # fmt: skip
        return gradients if several else gradients[0]


class _WithoutNone:
    """A function that returns several values, without those that are None."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        return tuple([y for y in self.function(*args) if y is not None])
