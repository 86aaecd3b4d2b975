"""One traced run of a function: its results, its side effects, and its program.

All tensors among the arguments and visible to the function hold traced values while it runs, and
their arrays again afterwards. Side effects are determined by comparing the state with that before
the run. Results and side effects are described by *templates*, which define how to construct them
from the outputs of the program (``_entry.py``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from retrograd import arrays
from retrograd._modes import within
from retrograd.arrays._generator import default_generator
from retrograd.autograd._backward import grad
from retrograd.autograd._history import meta_of
from retrograd.autograd._levels import opened
from retrograd.autograd._wrap import SPARSE, wrap
from retrograd.autograd.grad_mode import enable_grad
from retrograd.compiler._changing import RandomState
from retrograd.compiler._program import IN_LAYOUT, Program, Var
from retrograd.compiler._reasons import reason_against
from retrograd.compiler._templates import REMOVED, Change, Fixed, Known, Nest, New, Part, Pull, Same
from retrograd.compiler._traced import Memory, Traced
from retrograd.compiler._tracing import TraceLevel
from retrograd.compiler._watching import PLAIN, Held, Watch
from retrograd.func._trees import flatten, is_nest, taken_apart
from retrograd.tensor._tensor import Tensor

programs = arrays.programs


class Trace:
    """A run of a function under a ``TraceLevel``."""

    def __init__(
        self, function: Callable[..., Any], watch: Watch, names: Sequence[str], name: str,
        level: TraceLevel,
    ) -> None:  # fmt: skip
        self.function = function
        self.watch = watch
        self.name = name
        self.level = level
        level.options = watch.options
        self.reason: tuple[str, Any] | None = None  # why it cannot be used, and a location
        self.before = [arrays.copy(x._data) for x in watch.tensors]
        self.required = [x.requires_grad for x in watch.tensors]
        self.attributes = [dict(vars(x)) for x in watch.tensors]
        self.traced: list[Traced] = []
        self._histories: list[tuple[Any, Any, Any]] = []  # tensors, their nodes and metas
        self.inputs: list[Var] = []
        for tensor, name_ in zip(watch.tensors, names, strict=True):
            traced = self.level.given(tensor._data, name_)
            self.traced.append(traced)
            self.inputs.append(traced.var)
        self._memories = {t.memory: i for i, t in enumerate(self.traced)}
        self._of_views: set[Memory] = set()  # memory of which several results are views
        self.pull: Pull | None = None
        self.begin()

    def begin(self) -> None:
        """Start to describe the results and side effects of the run."""
        self.outputs: list[Var] = []
        self.values: list[Any] = []  # the values of the outputs in this run
        self._roots: set[Var] = set()
        self._bases: dict[Memory, tuple[New, Any]] = {}  # templates, and arrays
        self._viewed: set[Memory] = set()
        self._templates: dict[int, Any] = {}  # of tensors, by id
        # On a device: the bases of views whose base is not a tensor of the run, by output.
        self.wholes: dict[int, Any] = {}
        self.tensors: dict[int, Any] = {}  # new ones, by their output
        self.writes: list[tuple[int, int]] = []  # known tensor, output
        self.rebound: list[tuple[int, Any]] = []  # known tensor, template
        self.flags: list[tuple[int, bool]] = []  # known tensor, requires_grad
        self.changes: list[Change] = []
        self.result: Any = None  # a template
        self.shown: dict[str, Any] = {}  # known containers, by their names in templates
        self.recorded: list[tuple[Any, int]] = []  # results with a history, and their outputs
        self._concrete: list[tuple[Any, Any]] = []  # tensors, and the arrays that they get

    # -- the run -------------------------------------------------------------------------------

    def run(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call the function. Returns its result, as an eager call does."""
        watch = self.watch
        generators = [default_generator, *watch.generators]
        states = [g.saved() for g in generators]
        foreign = RandomState(watch.foreign_generators)
        self.level.generators = generators
        try:
            try:
                self.lift()
                for g in generators:
                    self.watch_seeds(g)
                with opened(self.level), within(pass_observer=self.level.watch_pass):
                    result = self.function(*args, **named)
                    self.describe(result)
            finally:
                self.settle()
        except BaseException:
            self.settle()  # again: an interrupt may have ended the first
            raise
        self.reason = reason_against(self, foreign.drawn_from(), result)
        if not any([line.draws for line in self.level.lines]):
            generators = []  # other threads may be drawing from them
        self._generators = (generators, states, [g.saved() for g in generators])
        return result

    def watch_seeds(self, generator: Any) -> None:
        """Record if the state of a generator is set, which no line does."""
        thread = threading.get_ident()

        def watched(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any) -> Any:
                if threading.get_ident() == thread:
                    self.level.look(f"setting a random generator, by {name}()")
                return method(*args)

            return call

        for name in _SEEDING:
            if hasattr(generator, name):
                vars(generator)[name] = watched(name, getattr(generator, name))

    def lift(self) -> None:
        """Let the tensors hold traced values. Those with a history are leaves during this run."""
        for tensor, traced in zip(self.watch.tensors, self.traced, strict=True):
            is_view = tensor._meta is not None and tensor._is_view()
            traced.has_history = tensor._node is not None or is_view
            tensor._data = traced
            if traced.has_history:
                self._histories.append((tensor, tensor._node, tensor._meta))
                required, known, is_leaf = tensor.requires_grad, tensor._meta, tensor.is_leaf
                tensor._node = tensor._meta = None
                meta = meta_of(tensor)
                meta.requires_grad = required
                if not is_leaf:
                    meta.post_hooks = {0: refuse_gradient}
                elif known is not None:  # a leaf that is a view
                    meta.grad, meta.hooks = known.grad, known.hooks
                    meta.post_hooks = known.post_hooks

    def describe(self, result: Any) -> None:
        """Record the results, and all changes of state."""
        if flatten(result)[1].leaf_count > 100_000:
            self.level.look("results of more than 100,000 parts")
        shared = -1
        while shared != len(self._of_views):  # again if several views of one memory were seen
            shared = len(self._of_views)
            self.begin()
            self.describe_once(result)
        if self.recorded:
            self.differentiate()

    def describe_once(self, result: Any) -> None:
        for held in self.watch.held:  # first: gradients get the memory layout of their leaves
            if held.kind == "grad":
                self.compare_grad(held)
        self.result = self.template(result, "the result")
        for held in self.watch.held:
            self.compare(held)
        for i, tensor in enumerate(self.watch.tensors):
            self.compare_tensor(i, tensor)

    def settle(self) -> None:
        """Let the tensors hold arrays again, and restore their histories."""
        for tensor, node, meta in self._histories:  # before other threads see the arrays
            if node is None and meta is not None and tensor._meta is not None:
                meta.grad = tensor._meta.grad
            tensor._node, tensor._meta = node, meta
        for tensor, array in self._concrete:
            tensor._data = array
        for tensor in self.watch.tensors:
            if isinstance(tensor._data, Traced):
                tensor._data = tensor._data.value
            grad = None if tensor._meta is None else tensor._meta.grad
            if grad is not None and type(grad) not in SPARSE and isinstance(grad._data, Traced):
                grad._data = grad._data.value
        for traced in self.traced:
            traced.has_history = False
        for g in self.level.generators:
            for name in _SEEDING:
                vars(g).pop(name, None)

    # -- templates -----------------------------------------------------------------------------

    def template(self, x: Any, what: str) -> Any:
        """The template of a value."""
        if isinstance(x, Tensor) and type(x) not in SPARSE:
            return self.tensor_template(x)
        if type(x) in PLAIN:
            return Fixed(x)
        local = self.watch.local_of(x)
        if local is not None:
            self.shown[local] = x
            return Same(local)
        if is_nest(x):
            return self.nest(x, what)
        if id(x) in self.watch._seen or isinstance(x, (type, arrays.dtypes.dtype)):
            return Fixed(x)
        if type(x).__module__.split(".")[0] == "retrograd" and (
            not hasattr(x, "__dict__") or type(x).__name__ == "device"
        ):  # fmt: skip
            return Fixed(x)  # a Size, a device
        if self.level.looked is None:
            self.level.look(f"a new {type(x).__name__} that is part of {what}")
        return Fixed(x)

    def nest(self, x: Any, what: str) -> Nest:
        """The template of a new container with the same contents."""
        members, shape = taken_apart(x)
        return Nest([self.template(member, what) for member in members], shape)

    def tensor_template(self, x: Any) -> Any:
        number = self.watch._numbers.get(id(x))
        if number is not None:
            return Known(number)
        if id(x) not in self._templates:
            self._templates[id(x)] = self.new_template(x)
        return self._templates[id(x)]

    def new_template(self, x: Any) -> Any:
        if type(x) is not Tensor or vars(x):
            self.level.look(f"a new {type(x).__name__} with a class or attributes of its own")
        data = x._data
        if not isinstance(data, Traced) or data.level is not self.level:
            data = self.level.constant(x)
        recorded = x._node is not None
        known = self._memories.get(data.memory)
        if recorded and known is not None and data.steps:  # writes to it change the other
            self.level.look("a new view of a tensor that requires grad")
        if not recorded and known is not None:
            self._concrete.append((x, data.value))
            return Part(Known(known), data.steps)
        if not recorded and data.memory in self._of_views and data.memory not in self._bases:
            whole = Traced(self.level, data.memory.value, data.memory.var, data.memory)
            var, value = self.owned(whole)
            self._bases[data.memory] = (New(self.output(var, value)), value)
        base, value = self._bases.get(data.memory, (None, None))
        if base is not None and not recorded:
            for step in data.steps:
                value = step(value)
            self._concrete.append((x, value))
            return Part(base, data.steps)
        var, value = (data.var, data.value) if known is not None else self.owned(data)
        output = self.output(var, value)
        self.tensors[output] = x
        if recorded:
            self.recorded.append((x, output))
            result = New(output, recorded=True)
            if not data.steps and known is None:  # which a detached tensor may share
                self._bases.setdefault(data.memory, (result, value))
            return result
        if data.memory in self._viewed:
            self._of_views.add(data.memory)
        self._concrete.append((x, value))
        result = New(output, requires_grad=x.requires_grad)
        if data.steps:
            self._viewed.add(data.memory)
        else:
            self._bases[data.memory] = (result, value)
        return result

    def parts(self) -> list[tuple[Any, Part]]:
        """The new tensors that are views of others, and their templates."""
        pairs = [(x, self._templates.get(id(x))) for x, _ in self._concrete]
        return [(x, template) for x, template in pairs if isinstance(template, Part)]

    def owned(self, data: Traced, like: Traced | None = None) -> tuple[Var, Any]:
        """A variable and an array that no other result refers to, in the layout of ``like``."""
        var, value = data.var, data.value
        fits = like is None or not isinstance(value, arrays.ndarray) or (
            value.strides == like.value.strides
        )  # fmt: skip
        fresh = var.constant is None and var.root not in self._roots
        fresh = fresh and var.root not in self.inputs and var.root.constant is None
        if fresh and like is not None and var.root.nbytes != var.nbytes:
            fresh = False  # a view of something larger, or with repeats
        if not (fresh and fits):
            if like is None:
                value = arrays.copy(value)
                var = self.level.copied(var, value)
            else:
                value = programs.in_layout_of(value, like.value)
                var = self.level.copied(
                    var, value, IN_LAYOUT, self.inputs[self._memories[like.memory]]
                )
        self._roots.add(var.root)
        return var, value

    def output(self, var: Var, value: Any) -> int:
        self.outputs.append(var)
        self.values.append(value)
        return len(self.outputs) - 1

    # -- changes -------------------------------------------------------------------------------

    def compare(self, held: Held) -> None:
        """Record the changes of a container."""
        if held.kind == "grad":
            return
        if held.kind == "cell":
            if held.container.cell_contents is not held.contents:
                new = self.template(held.container.cell_contents, "a captured variable")
                self.changes.append(Change(held, None, new))
            return
        if held.kind == "globals":
            used, stored = held.contents
            now = {n: held.container[n] for n in (*used, *stored) if n in held.container}
            self.compare_items(held, used, now)
            return
        if held.kind == "attributes of":
            old, known = held.contents
            now = {n: x for n, x in held.container.items() if n in old or n in known}
            self.compare_items(held, old, now)
            return
        if held.kind == "slots":
            now = {n: getattr(held.container, n) for n in held.contents[1]
                   if hasattr(held.container, n)}  # fmt: skip
            self.compare_items(held, held.contents[0], now)
            return
        if held.kind == "attributes":
            attributes = vars(held.container)
            now = {n: attributes[n] for n in held.contents if n in attributes}
            self.compare_items(held, held.contents, now)
            return
        if isinstance(held.container, list):
            same = len(held.container) == len(held.contents) and all(
                a is b for a, b in zip(held.container, held.contents, strict=True)
            )
            if not same:
                new = self.nest(held.container, "a captured list")
                self.changes.append(Change(held, slice(None), new))
            return
        if isinstance(held.container, set):
            if held.container != held.contents:
                new = self.nest(sorted(held.container, key=repr), "a captured set")
                self.changes.append(Change(held, None, new))
            return
        self.compare_items(held, held.contents, held.container)

    def compare_items(self, held: Held, old: dict[Any, Any], now: dict[Any, Any]) -> None:
        for key, value in now.items():
            if key not in old or old[key] is not value:
                if key in old and type(value) in PLAIN and _same(old[key], value):
                    continue
                self.changes.append(Change(held, key, self.template(value, _word(key))))
        for key in old:
            if key not in now:
                self.changes.append(Change(held, key, REMOVED))

    def compare_grad(self, held: Held) -> None:
        tensor = held.container
        grad_now = tensor._meta.grad
        if grad_now is held.contents:
            return
        if grad_now is None:
            self.changes.append(Change(held, None, Fixed(None)))
            return
        number = self.watch._numbers.get(id(grad_now))
        data = grad_now._data
        if number is not None or not isinstance(data, Traced) or grad_now._node is not None:
            self.changes.append(Change(held, None, self.template(grad_now, ".grad")))
            return
        leaf = self.traced[self.watch._numbers[id(tensor)]]
        base = self._bases.get(data.memory)
        if base is not None or data.memory in self._memories or data.steps:
            self.changes.append(Change(held, None, self.template(grad_now, ".grad")))
            return
        var, value = self.owned(data, leaf)
        var.name = f"{leaf.var.name}_grad"
        template = self._templates[id(grad_now)] = New(self.output(var, value))
        self.tensors[template.output] = grad_now
        self._concrete.append((grad_now, value))
        self._bases[data.memory] = (template, value)
        self.changes.append(Change(held, None, template))

    def compare_tensor(self, i: int, tensor: Any) -> None:
        """Record changes of a tensor: of its elements, its memory or ``requires_grad``."""
        traced, data = self.traced[i], tensor._data
        if tensor._node is not None:
            raise RuntimeError(
                "compile: the function writes a value with a history to a captured tensor. Write "
                "under torch.no_grad(), or return the new value."
            )
        if tensor.requires_grad != self.required[i]:
            self.flags.append((i, tensor.requires_grad))
        before, now = self.attributes[i], vars(tensor)
        if len(now) != len(before) or any(now.get(name) is not x for name, x in before.items()):
            self.level.look("setting an attribute of one")
        if traced.memory.version:
            self.writes.append((i, self.output(traced.memory.var, traced.value)))
        if data is not traced:
            shell = wrap(data)
            self.rebound.append((i, self.new_template(shell)))
            self._concrete.append((tensor, self._concrete[-1][1]))

    # -- derivatives from outside ----------------------------------------------------------------

    def differentiate(self) -> None:
        """The program that maps gradients of results to gradients of the inputs that require
        grad."""
        level = self.level
        start = len(level.lines)
        numbers = [i for i, x in enumerate(self.watch.tensors) if x.requires_grad]
        grads = []
        for x, output in self.recorded:
            data = x._data
            one = arrays.zeros(data.shape, data.dtype)
            grads.append(level.given(one, f"g{output}"))
        level.explains = False  # an error is stored without a location
        level.is_backward = True
        try:
            with enable_grad(), self.without_hooks(numbers):
                gradients = grad(
                    [x for x, _ in self.recorded], [self.watch.tensors[i] for i in numbers],
                    [wrap(g) for g in grads], allow_unused=True, retain_graph=True,
                )  # fmt: skip
        except RuntimeError as error:  # the graph was freed, or saved values were overwritten
            del level.lines[start:]
            self.pull = Pull(None, [], numbers, [], str(error))
            return
        finally:
            level.explains, level.is_backward = True, False
        lines = level.lines[start:]
        del level.lines[start:]
        outputs: list[Var] = []
        for g in gradients:
            if g is not None:
                outputs.append(g._data.var if isinstance(g._data, Traced)
                               else level.constant_of(g._data))  # fmt: skip
        computed = {v for line in lines for v in line.outputs}
        grad_vars = [g.var for g in grads]
        used = [v for line in lines for v in line.inputs] + outputs
        saved = list(dict.fromkeys(
            v for v in used if v not in computed and v not in grad_vars and v.constant is None
        ))  # fmt: skip
        program = Program(f"{self.name}_backward", [*saved, *grad_vars], lines, outputs)
        used_numbers = [i for i, g in zip(numbers, gradients, strict=True) if g is not None]
        if used_numbers:  # others may have a history, such as the results of the previous call
            self.pull = Pull(program, saved, used_numbers, [True] * len(used_numbers))
        else:
            self.pull = Pull(program, saved, numbers, [False] * len(numbers))

    @contextmanager
    def without_hooks(self, numbers: list[int]) -> Iterator[None]:
        """Without the hooks of leaves, which change a gradient when it arrives from the program."""
        metas = [meta_of(self.watch.tensors[i]) for i in numbers]
        registries = [meta.hooks for meta in metas if meta.hooks]  # nodes refer to them, too
        hooks = [dict(registry) for registry in registries]

        def restore() -> None:
            for registry, known in zip(registries, hooks, strict=True):
                registry.update(known)

        try:  # twice, because an interrupt can stop one
            try:
                for registry in registries:
                    registry.clear()
                yield
            finally:
                restore()
        finally:
            restore()

    # -- afterwards ------------------------------------------------------------------------------

    def make_program(self) -> Program:
        outputs = list(self.outputs)
        if self.pull is not None:
            outputs += self.pull.saved
        updates = [(self.inputs[i], self.outputs[output]) for i, output in self.writes]
        gradients = [
            (self.inputs[self.watch._numbers[id(change.held.container)]],
             self.outputs[change.template.output])
            for change in self.changes
            if change.held.kind == "grad" and isinstance(change.template, New)
        ]  # fmt: skip
        return Program(self.name, self.inputs, self.level.lines, outputs, updates, gradients)

    def verify(self, entry: Any) -> None:
        """Run the program on the state before the call, and compare the results with those of the
        function, which may do something that was not traced."""
        generators, states, after = self._generators
        for g, state in zip(generators, states, strict=False):
            g.restore(state)
        before = [arrays.writable(arrays.copy(self.before[i])) for i in entry.positions]
        results = entry.meaning(*before)
        drawn = [g.saved() for g in generators]
        for g, state in zip(generators, after, strict=True):
            g.restore(state)
        self.saved_values = results[len(self.outputs) :]
        pairs = [*zip(drawn, after, strict=True),
                 *zip(results[: len(self.outputs)], self.values, strict=True)]  # fmt: skip
        written = {i for i, _ in self.writes}
        pairs += [
            (b, t.memory.value)
            for i, (b, t) in enumerate(zip(self.before, self.traced, strict=True))
            if i not in written
        ]
        if not all(programs.same(a, b) for a, b in pairs):
            self.reason = (
                "its program has other results than the function. The function, or an operation "
                "in it, does something that cannot be traced.", None,
            )  # fmt: skip


def refuse_gradient(x: Any) -> None:
    """The hook of a tensor that has a history, after a gradient has arrived there."""
    raise RuntimeError(
        "compile: backward() in a compiled function reaches a tensor that was computed outside. "
        "Compute it in the function, or call backward() outside."
    )


_SEEDING = ("manual_seed", "seed", "restore", "set_state")


def _word(key: Any) -> str:
    return repr(key) if type(key) in (str, int) else "an entry of a dict"


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (a == b or repr(a) == repr(b))
