"""Nodes of the operations of the table: what they save, and the code that they run.

One class of nodes for each operation is made from its declaration. What a rule names is saved as a
bare array with its version counter; straight-line code unpacks it and calls the rules.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.autograd._node import (
    FREED,
    SECOND_BACKWARD,
    AccumulateGrad,
    CallableNode,
    Info,
    Node,
)
from retrograd.autograd._saved import Packed, modified, order_for_hooks, show_saved
from retrograd.autograd._versions import UNCHANGING
from retrograd.autograd._wrap import wrap
from retrograd.ops import copies, linear
from retrograd.ops._lifted import Lifted
from retrograd.ops._operands import Rule
from retrograd.ops._operation import Operation, raw


class OperationNode(CallableNode):
    """A node of an operation of the table. ``node_class`` makes one subclass for each."""

    __slots__ = ("infos", "options", "outputs")

    operation: ClassVar[Operation]
    options: dict[str, Any]
    infos: tuple[Info, ...]  # of the inputs
    outputs: tuple[Info, ...] | None  # of the outputs, where there are several

    def backward(self, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        # The first run of a kind of node compiles straight-line code for all later ones.
        cls = type(self)
        compiled = compile_backward(cls.operation)
        cls.backward = compiled  # type: ignore[method-assign]
        gradients: Sequence[Any] = compiled(self, g, next_nodes)
        return gradients

    def by_definition(
        self, g: Any, next_nodes: Sequence[Node | None], recorded: bool,
        saved: dict[str, Any] | None = None,
    ) -> Sequence[Any]:  # fmt: skip
        """Differentiate the definition of a composite. See ``_composites.by_definition``."""
        from retrograd.autograd._composites import by_definition  # loads more than most need

        return by_definition(self, g, next_nodes, recorded, saved)

    def backward_recorded(self, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        if self.operation.fused:
            return self.by_definition(g, next_nodes, recorded=True)
        options = getattr(self, "options", {})
        return self.apply_rules(g, next_nodes, {**options, **self.saved_as_tensors()})

    def backward_by_name(
        self, g: Any, next_nodes: Sequence[Node | None], recorded: bool
    ) -> Sequence[Any]:
        """As the two above, for values that need a step before they are used: to be unpacked by
        saved_tensors_hooks, or conjugated. (Rules give the transpose. Where numbers are complex,
        reverse mode needs the adjoint: the same rule on conjugated values.)"""
        saved = values = self.saved_as_tensors()  # once: a hook may refuse to unpack again
        if not recorded:
            values = {name: raw(value) for name, value in values.items()}
        if self.operation.fused and (recorded or any_lifted(g, *values.values())):
            return self.by_definition(g, next_nodes, recorded, saved)
        options = getattr(self, "options", {})
        if self.extras is not None and self.extras.conjugate:
            values = {name: _conjugate(value) for name, value in values.items()}
            options = {name: _conjugate(value) for name, value in options.items()}
        gradients = self.apply_rules(g, next_nodes, {**options, **values})
        if gradients is NotImplemented:
            return self.by_definition(g, next_nodes, recorded, saved)
        return gradients

    def apply_rules(
        self, g: Any, next_nodes: Sequence[Node | None], values: dict[str, Any]
    ) -> Sequence[Any]:
        """Call the rules on the values that they name."""
        operation = self.operation

        def call(rule: Rule, position: int) -> Any:
            shape = self.infos[position][0] if rule.names_shape else None
            transposed_next = is_transpose(next_nodes[position])
            return rule.function(g, *rule.arguments(values, shape, transposed_next))

        if operation.joint is not None:
            values["shapes"] = [shape for shape, _ in self.infos]
            values["needs"] = [n is not None for n in next_nodes]
            gradients: Sequence[Any] = call(operation.joint, 0)
            return gradients
        return tuple([
            None if n is None or rule is None else call(rule, i)
            for i, (n, rule) in enumerate(zip(next_nodes, operation.rules, strict=True))
        ])  # fmt: skip

    def widened(self, x: Any) -> Any:
        """A value, or several, as the rules take it: in a dtype that NumPy computes in."""
        return x

    def rounded(self, gradients: Sequence[Any]) -> Sequence[Any]:
        """What the rules give, in the dtypes of the inputs."""
        return gradients

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """As for every node, without the inputs that have no derivative by their nature (the
        condition of ``where``)."""
        pairs = super().next_functions
        if self.operation.joint:
            return pairs
        return tuple(p for p, rule in zip(pairs, self.operation.rules, strict=True) if rule)

    # -- saved values ------------------------------------------------------------------------

    def __dir__(self) -> list[str]:
        names = [n for n in super().__dir__() if "_saved_" not in n]
        saved = [f"{p}{n}" for n in self.operation.saves for p in ("_saved_", "_raw_saved_")]
        return [*names, *saved, *[f"_saved_{n}" for n in getattr(self, "options", ())]]

    def saved_as_tensors(self) -> dict[str, Any]:
        """The saved values as Tensors that stand where they stood in the graph."""
        if self.saved is FREED:
            raise RuntimeError(SECOND_BACKWARD)
        names = self.operation.saves
        return {names[i]: self.saved_tensor(i) for i in order_for_hooks(self.operation)}

    def saved_tensor(self, position: int) -> Any:
        if self.saved is FREED:
            raise RuntimeError(SECOND_BACKWARD)
        value, version, count = self.saved[3 * position : 3 * position + 3]
        if version.count != count:
            raise modified(self)
        node, number = self.origin_of_saved(position)
        if isinstance(value, Packed):
            value, version = value.tensor()._data, None
        if not arrays.is_raw(value) and not isinstance(value, Lifted):
            return value  # a Python number, or nothing because nobody needs it
        if isinstance(node, AccumulateGrad) and node.variable._data is value:
            return node.variable
        version = None if version is UNCHANGING else version
        if value.dtype.kind not in dtypes.INEXACT:
            node = number = None
        given = self.dtype_given(position)
        if given is None or given == value.dtype:
            if type(node) is AccumulateGrad:
                return node.twin(value, version)
            return wrap(value, node, number, version)
        # Saved as it was computed with, after promotion: in the graph that is a conversion.
        before = wrap(copies.to_dtype(value, dtype=given), node, number)
        return copies.to_dtype(before, dtype=value.dtype)

    def dtype_given(self, position: int) -> Any:
        """The dtype in which an input was given, which may differ from how it is saved."""
        name, infos = self.operation.saves[position], getattr(self, "infos", None)
        if infos is None or name not in self.operation.inputs:
            return None
        return infos[self.operation.inputs.index(name)][1]

    def origin_of_saved(self, position: int) -> tuple[Node | None, int | None]:
        """Which node, and which of its outputs, a saved value came from."""
        name, operation = self.operation.saves[position], self.operation
        if name in operation.inputs:
            i = operation.inputs.index(name)
            numbers = self.extras.next_numbers if self.extras else None
            return self.next_nodes[i], numbers[i] if numbers else None
        if len(operation.output_names) == 1:
            return self, None
        return self, operation.output_names.index(name)


def _conjugate(value: Any) -> Any:
    if isinstance(value, complex):
        return value.conjugate()
    complex_array = (
        isinstance(raw(value), (*arrays.RAW_TYPES, Lifted)) and raw(value).dtype.kind == "c"
    )
    return copies.conj(value) if complex_array else value


# -- running a node --------------------------------------------------------------------------


def run_rules(
    node: Node, g: Any, next_nodes: Sequence[Node | None], recorded: bool
) -> Sequence[Any]:
    """Run a node without its hooks: apply its rules, and bring each gradient to the shape and dtype
    of its input."""
    extras = node.extras
    received = bare_rules(node, g, next_nodes, recorded)
    return received if extras is None or extras.fit is None else fit_all(received, extras.fit)


def bare_rules(
    node: Node, g: Any, next_nodes: Sequence[Node | None], recorded: bool
) -> Sequence[Any]:
    """The gradients that the rules of a node return, unchanged."""
    extras = node.extras
    if (
        isinstance(node, OperationNode)
        and extras is not None
        and (extras.packed or extras.conjugate)
    ):
        return node.backward_by_name(g, next_nodes, recorded)
    return node.backward_recorded(g, next_nodes) if recorded else node.backward(g, next_nodes)


def fit_all(received: Sequence[Any], infos: Sequence[Any]) -> Sequence[Any]:
    """Bring each gradient to the shape and dtype of its input."""
    fitted = list(received)
    position = -1
    for g in fitted:
        position += 1  # as in the engine: faster than a zip
        info = infos[position]
        if g is not None and info is not None and (g.shape != info[0] or g.dtype is not info[1]):
            fitted[position] = fit(g, *info)
    return fitted


def spread(g: Any, shape: tuple[int, ...]) -> Any:
    """Bring a gradient to a shape that has more dimensions, or more elements along some: that of a
    value that was overwritten by a smaller one, or of a value with more dimensions than the slice
    that it was written to."""
    extra = len(g.shape) - len(shape)
    if extra >= 0:
        for m, n in zip(g.shape[extra:], shape):  # noqa: B905 - strict takes time here
            if m != n and n != 1:
                break
        else:  # what was broadcast: there is nothing but sums to take
            return linear.sum_to_shape(g, shape)
    else:
        g = linear.reshape(g, (1,) * -extra + tuple(g.shape))
        extra = 0
    most = tuple([1 if m == 1 else n for m, n in zip(g.shape[extra:], shape, strict=True)])
    g = g if tuple(g.shape) == most else linear.sum_to_shape(g, most)
    return g if most == shape else linear.expand(g, size=shape)


def fit(g: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Bring a gradient to a shape that was broadcast from and a dtype that was promoted from."""
    if g.shape != shape:
        g = spread(g, tuple(shape))
    if g.dtype is dtype:
        return g
    if raw(g).dtype.kind == "c" and dtype.kind != "c":
        g = copies.real(g)
    return g if raw(g).dtype == dtype else copies.to_dtype(g, dtype=dtype)


# -- straight-line code for each kind of node ------------------------------------------------


def backward_source(operation: Operation) -> str:
    """The ``backward`` of one operation: unpack what was saved, check that nobody has written it
    since, and call the rules. For ``mul`` that is

        def backward(node, g, next_nodes):
            self, w0, c0, other, w1, c1, = node.saved
            if w0.count != c0 or w1.count != c1: raise modified(node)
            n0, n1, = next_nodes
            return (None if n0 is None else (g * other),
                    None if n1 is None else (g * self))

    A rule as short as these is written out; others are called.
    """
    saves = operation.saves
    lines = ["def backward(node, g, next_nodes):"]
    if saves:
        unpacked = ", ".join(f"{name}, w{i}, c{i}" for i, name in enumerate(saves))
        changed = " or ".join(f"w{i}.count != c{i}" for i in range(len(saves)))
        lines += [f"    {unpacked}, = node.saved", f"    if {changed}: raise modified(node)"]
    if operation.fused:
        one = operation.output_names == ("result",)
        lifted = [f"isinstance({name}, Lifted)" for name in (("g", *saves) if one else saves)]
        lifted += [] if one else ["any_lifted(g)"]
        lines += [
            f"    if {' or '.join(lifted)}:",
            "        return node.by_definition(g, next_nodes, False)",
        ]

    def call(function: str, rule: Rule, position: int) -> str:
        values = {name: f"node.options[{name!r}]" for name in rule.names}
        values["shapes"] = "[shape for shape, _ in node.infos]"
        values["needs"] = "[n is not None for n in next_nodes]"
        values.update((name, name) for name in saves)
        shape, transposed_next = f"node.infos[{position}][0]", f"is_transpose(n{position})"
        arguments = rule.arguments(values, shape, transposed_next)
        short = SHORT_RULES.get(code_key(rule.function))
        if short is not None and arguments == list(rule.names):
            return f"({short})"
        return f"{function}({', '.join(['g', *arguments])})"

    if operation.joint and operation.fused:
        lines += [
            f"    gradients = {call('joint', operation.joint, 0)}",
            "    if gradients is not NotImplemented: return gradients",
            "    return node.by_definition(g, next_nodes, False)",
        ]
    elif operation.joint:
        lines.append(f"    return {call('joint', operation.joint, 0)}")
    else:
        nodes = ", ".join(f"n{i}" for i in range(len(operation.inputs)))
        results = [
            f"None if n{i} is None else {call(f'rule{i}', rule, i)}" if rule else "None"
            for i, rule in enumerate(operation.rules)
        ]
        lines += [f"    {nodes}, = next_nodes", f"    return {', '.join(results)},"]
    return "\n".join(lines) + "\n"


def code_key(function: Any) -> Any:
    """A key that is equal for functions that do the same, if they have no defaults and no
    closure."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_names or code.co_freevars or function.__defaults__:
        return None
    return code.co_code, code.co_consts, code.co_varnames


# The shortest rules, which take about as long to be called as to be evaluated.
SHORT_RULES = {
    code_key(rule): text
    for rule, text in (
        (lambda g: g, "g"), (lambda g: -g, "-g"), (lambda g, other: g * other, "g * other"),
        (lambda g, self: g * self, "g * self"), (lambda g, result: g * result, "g * result"),
        (lambda g, result: g - g * (result * result), "g - g * (result * result)"),
    )
}  # fmt: skip


def is_transpose(node: Node | None) -> bool:
    """Whether the gradient that goes to ``node`` is about to be transposed. The rule that computes
    it may then choose a memory layout that is row-major after the transposition, as parameters
    are."""
    return node is not None and node.operation is linear.t


def any_lifted(g: Any, *saved: Any) -> bool:
    """Whether the gradient of a result, or one of those of several, or a saved value is under a
    transform."""
    for x in (*(g if type(g) is list else (g,)), *saved):  # noqa: SIM110 - any() takes longer
        if isinstance(x, Lifted):
            return True
    return False


def compile_backward(operation: Operation) -> Callable[..., Any]:
    rules = {f"rule{i}": r for i, r in enumerate(operation.rules) if r}
    if operation.joint:
        rules["joint"] = operation.joint
    names: dict[str, Any] = {
        "modified": modified, "is_transpose": is_transpose, "any_lifted": any_lifted,
        "Lifted": Lifted,
    }  # fmt: skip
    names.update((name, rule.function) for name, rule in rules.items())
    source, file = backward_source(operation), f"<backward of {operation.name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), names)
    compiled: Callable[..., Any] = names["backward"]
    return compiled


def node_class(operation: Operation) -> type[OperationNode]:
    """The node class of an operation: PyTorch's name for it, and its rules."""
    arrays.allocator.keep_freed_memory()  # gradients come and go, all of a size
    show_saved(OperationNode, operation)
    return type(operation.node_name, (OperationNode,), {"__slots__": (), "operation": operation})


Operation.make_node_class = staticmethod(node_class)


def narrow_node_class(operation: Operation) -> type[OperationNode]:
    """The node class of an operation for operands of bfloat16."""
    from retrograd.autograd._narrow_nodes import NarrowNode  # few programs need it

    show_saved(OperationNode, operation)
    return type(operation.node_name, (NarrowNode,), {"__slots__": (), "operation": operation})


Operation.make_narrow_node_class = staticmethod(narrow_node_class)
