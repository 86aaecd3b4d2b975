"""Nodes of the operations of the table: what they save, and the code that they run.

One class of nodes for each operation is made from its declaration. What a rule names is saved as a
bare array with its version counter; straight-line code unpacks it and calls the rules.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from retrograd import _source, arrays
from retrograd._modes import modes
from retrograd.arrays import Raw
from retrograd.autograd._node import (
    AMBIGUOUS,
    FREED,
    NOWHERE,
    SECOND_BACKWARD,
    AccumulateGrad,
    CallableNode,
    Info,
    Node,
)
from retrograd.autograd._versions import UNCHANGING, Version
from retrograd.autograd._wrap import wrap
from retrograd.ops import elementwise, linear
from retrograd.ops._lifted import Lifted
from retrograd.ops._operation import Operation, Rule, raw


class Packed:
    """A saved value as a pack hook left it."""

    __slots__ = ("packed", "unpack")

    def __init__(self, packed: Any, unpack: Callable[[Any], Any]) -> None:
        self.packed = packed
        self.unpack = unpack

    def tensor(self) -> Any:
        result = self.unpack(self.packed)
        if not hasattr(result, "_node"):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(result).__name__}"
            )
        return result


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

    # Differentiates the definition of a composite; supplied by ``_composites``.
    by_definition: ClassVar[Callable[..., Sequence[Any]]]

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
        found = self.apply_rules(g, next_nodes, {**options, **values})
        if found is NotImplemented:
            return self.by_definition(g, next_nodes, recorded, saved)
        return found

    def apply_rules(
        self, g: Any, next_nodes: Sequence[Node | None], values: dict[str, Any]
    ) -> Sequence[Any]:
        operation = self.operation

        def run(rule: Rule, position: int) -> Any:
            shapes = {"shape": self.shape_of_input(position)} if "shape" in rule.names else {}
            known = {**values, **shapes}
            if "turned" in rule.names:  # as in a pass that is neither recorded nor packed
                known["turned"] = is_turn(next_nodes[position])  # type: ignore[arg-type]
            return rule.function(g, *[known[name] for name in rule.names])

        if operation.joint:
            values["shapes"] = [shape for shape, _ in self.infos]
            values["needs"] = [n is not None for n in next_nodes]
            gradients: Sequence[Any] = run(operation.joint, 0)
            return gradients
        return tuple(
            None if n is None or rule is None else run(rule, i)
            for i, (n, rule) in enumerate(zip(next_nodes, operation.rules, strict=True))
        )

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """As for every node, without the inputs that have no derivative by their nature (the
        condition of ``where``)."""
        pairs = super().next_functions
        if self.operation.joint:
            return pairs
        return tuple(p for p, rule in zip(pairs, self.operation.rules, strict=True) if rule)

    def shape_of_input(self, position: int) -> tuple[int, ...]:
        return self.infos[position][0]

    # -- saved values ------------------------------------------------------------------------

    def __dir__(self) -> list[str]:
        names = [n for n in super().__dir__() if "_saved_" not in n]
        saved = [f"{p}{n}" for n in self.operation.saves for p in ("_saved_", "_raw_saved_")]
        return [*names, *saved]

    def saved_as_tensors(self) -> dict[str, Any]:
        """The saved values as Tensors that stand where they stood in the graph."""
        if self.saved is FREED:
            raise RuntimeError(SECOND_BACKWARD)
        return {name: self.saved_tensor(i) for i, name in enumerate(self.operation.saves)}

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
        if value.dtype.kind not in "fc":
            node = number = None
        given = self.dtype_given(position)
        if given is None or given == value.dtype:
            return wrap(value, node, number, version)
        # Saved as it was computed with, after promotion: in the graph that is a conversion.
        before = wrap(elementwise.to_dtype(value, dtype=given), node, number)
        return elementwise.to_dtype(before, dtype=value.dtype)

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
    return elementwise.conj(value) if complex_array else value


class SavedTensor:
    """One saved value of a node, on which a pair of hooks can be set."""

    __slots__ = ("_node", "_position")

    def __init__(self, node: OperationNode, position: int) -> None:
        self._node = node
        self._position = position

    def register_hooks(self, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
        """Replace the value by ``pack(value)`` now, and unpack it whenever it is used."""
        node, at = self._node, 3 * self._position
        if node.saved is FREED:
            raise RuntimeError(SECOND_BACKWARD)
        if isinstance(node.saved[at], Packed):
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. "
                "Hint: only one pair of hooks is allowed at a time."
            )
        packed = pack_value(node.saved_tensor(self._position), pack, unpack)
        saved = list(node.saved)
        saved[at : at + 3] = [packed, UNCHANGING, 0]
        node.saved = tuple(saved)
        node.careful().packed = True


def pack_value(tensor: Any, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> Packed:
    """What is saved of a tensor when hooks are on."""
    if not isinstance(tensor, (int, float, complex)):
        before = tensor._version
        packed = pack(tensor)
        if tensor._version != before:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as "
                "input to pack hook cannot be modified by in-place operations as this can lead to "
                "unexpected side-effects. Please open an issue if you need to perform in-place "
                "operations on the input to a pack hook."
            )
        return Packed(packed, unpack)
    return Packed(tensor, lambda value: value)


def modified(node: OperationNode) -> RuntimeError:
    """The error for a saved value that was written since, naming the lines that did both."""
    saves, rules = node.operation.saves, node.operation.rules
    in_order_of_use = [n for rule in rules if rule for n in rule.names if n in saves] or saves
    position = next(
        i
        for i in map(saves.index, in_order_of_use)
        if node.saved[3 * i + 1].count != node.saved[3 * i + 2]
    )
    value, version, count = node.saved[3 * position : 3 * position + 3]
    origin, number = node.origin_of_saved(position)
    if origin is NOWHERE:
        return RuntimeError(
            "A view was created in no_grad mode and its base or another view of its base has been "
            f"modified inplace with grad mode enabled. {AMBIGUOUS}"
        )
    maker = None
    if origin is not None and not isinstance(origin, AccumulateGrad):
        maker = maker_of(origin, number or 0)
    return modified_error(node, value, version, count, maker)


def maker_of(node: Node, number: int) -> str:
    """Where a value came from, in the words of errors."""
    return f"output {number} of {node.name().removesuffix('0').replace('Backward', '')}"


def modified_error(
    node: Node, value: Raw, version: Version, count: int, maker: str | None = None
) -> RuntimeError:
    """PyTorch's message, and two lines more: where the value was saved and where changed."""
    hint = (
        "Hint: the backtrace further above shows the operation that failed to compute its "
        "gradient. The variable in question was changed in there or anywhere later. Good luck!"
        if modes.anomaly
        else "Hint: enable anomaly detection to find the operation that failed to compute its "
        "gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False)."
    )
    places = (("saved", node.source), ("changed", _source.describe(version.written_at)))
    lines = "".join(f"\n  {what} at {line}" for what, line in places if line)
    kind = arrays.dtypes.type_word(value.dtype)
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [torch.{kind}Tensor {list(value.shape)}]"
        + (f", which is {maker}," if maker else "")
        + f" is at version {version.count}; expected version {count} instead. {hint}{lines}"
    )


# -- straight-line code for each kind of node ------------------------------------------------


def backward_source(operation: Operation) -> str:
    """The ``backward`` of one operation: unpack what was saved, check that nobody has written it
    since, and call the rules. For ``mul`` that is

        def backward(node, g, next_nodes):
            self, w0, c0, other, w1, c1, = node.saved
            if w0.count != c0 or w1.count != c1: raise modified(node)
            n0, n1, = next_nodes
            return (None if n0 is None else rule0(g, other),
                    None if n1 is None else rule1(g, self))
    """
    saves = operation.saves
    lines = ["def backward(node, g, next_nodes):"]
    if saves:
        unpacked = ", ".join(f"{name}, w{i}, c{i}" for i, name in enumerate(saves))
        changed = " or ".join(f"w{i}.count != c{i}" for i in range(len(saves)))
        lines += [f"    {unpacked}, = node.saved", f"    if {changed}: raise modified(node)"]
    if operation.fused:
        lines += [
            f"    if any_lifted({', '.join(['g', *saves])}):",
            "        return node.by_definition(g, next_nodes, False)",
        ]

    def argument(name: str, position: int) -> str:
        special = {
            "shape": f"node.infos[{position}][0]",
            "turned": f"is_turn(n{position})",
            "shapes": "[shape for shape, _ in node.infos]",
            "needs": "[n is not None for n in next_nodes]",
        }
        return name if name in saves else special.get(name, f"node.options[{name!r}]")

    def call(function: str, rule: Rule, position: int) -> str:
        return f"{function}({', '.join(['g', *(argument(n, position) for n in rule.names)])})"

    if operation.joint and operation.fused:
        lines += [
            f"    found = {call('joint', operation.joint, 0)}",
            "    if found is not NotImplemented: return found",
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


def is_turn(node: Node) -> bool:
    """Whether a gradient is about to be transposed. The rule that makes it may then make it such
    that it ends up row by row in memory, as parameters lie there."""
    return node.operation is linear.t


def any_lifted(g: Any, *saved: Any) -> bool:
    """Whether the gradient of a result, or one of those of several, or a saved value is under a
    transform."""
    gradients = g if type(g) is list else (g,)
    return any([isinstance(x, Lifted) for x in (*gradients, *saved)])


def compile_backward(operation: Operation) -> Callable[..., Any]:
    rules = {f"rule{i}": r for i, r in enumerate(operation.rules) if r}
    if operation.joint:
        rules["joint"] = operation.joint
    names: dict[str, Any] = {"modified": modified, "is_turn": is_turn, "any_lifted": any_lifted}
    names.update((name, rule.function) for name, rule in rules.items())
    source, file = backward_source(operation), f"<backward of {operation.name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), names)
    compiled: Callable[..., Any] = names["backward"]
    return compiled


_kept: list[bool] = []


def node_class(operation: Operation) -> type[OperationNode]:
    """The node class of an operation: PyTorch's name for it, and its rules."""
    if not _kept:
        _kept.append(arrays.allocator.keep_freed_memory())  # gradients come and go, all of a size
    for name in operation.saves:
        _show_saved(name)
    return type(operation.node_name, (OperationNode,), {"__slots__": (), "operation": operation})


Operation.make_node_class = staticmethod(node_class)


def _show_saved(name: str) -> None:
    """Give nodes that save ``name`` the attributes ``_saved_name`` and ``_raw_saved_name``."""

    def position(node: OperationNode, prefix: str) -> int:
        if name not in node.operation.saves:
            raise AttributeError(f"'{node.name()}' object has no attribute '{prefix}{name}'")
        return node.operation.saves.index(name)

    def value(node: OperationNode) -> Any:
        saved = node.saved_tensor(position(node, "_saved_"))
        return wrap(arrays.asarray(saved)) if isinstance(saved, (int, float, complex)) else saved

    def handle(node: OperationNode) -> SavedTensor:
        return SavedTensor(node, position(node, "_raw_saved_"))

    if not hasattr(OperationNode, f"_saved_{name}"):
        setattr(OperationNode, f"_saved_{name}", property(value))
        setattr(OperationNode, f"_raw_saved_{name}", property(handle))
