"""Properties of a node: its name, shapes, constants, options and memory.

A node never refers to its output, and keeps only those inputs that its rules need. So shapes come
from wherever they are known: the consumers of a result, saved values, or a recording of the forward
pass. Nothing here unpacks, frees or changes anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.autograd._history import CopySlices
from retrograd.autograd._node import FREED, NOWHERE, AccumulateGrad, Node
from retrograd.autograd._operation_node import OperationNode
from retrograd.autograd._saved import Packed
from retrograd.autograd._versions import UNCHANGING
from retrograd.autograd.function import FunctionCtx
from retrograd.ops._lifted import Lifted
from retrograd.ops._operation import Elementwise, Multilinear
from retrograd.viz._node_info import Described, recorded_info

Info = tuple[tuple[int, ...], str | None]  # a shape, and the name of a dtype


class Input(NamedTuple):
    """One input of a node that has a history or is a leaf."""

    node: Node
    number: int  # which output of that node
    position: int  # among the inputs


class Constant(NamedTuple):
    """A value that needs no gradient and that a node keeps, or a recording saw."""

    key: Any  # equal for the same value
    position: int
    info: Info | None
    value: Any  # a raw array, or None
    recorded: Described | None = None  # as a recording describes it
    missing: bool = False  # the node does not keep it, or no longer


class Saved(NamedTuple):
    """A value that a node keeps for its rule."""

    name: str
    value: Any  # a raw array; None if it is packed
    bytes: int


def label_of(node: Node) -> str:
    """The name of the operation: ``TanhBackward0`` is Tanh. The transpose of a linear operation, as
    it stands in the graph of a gradient, is named after it."""
    return _label(type(node).__name__)


@cache
def _label(name: str) -> str:
    transposed = name.endswith("_T")
    short = re.sub(r"Backwards?\d*(_T)?$", "", name) or name
    return f"{short} transposed" if transposed else short


def inputs_of(node: Node) -> Iterator[Input]:
    """Those inputs that have a history or are leaves."""
    extras = node.extras
    numbers = extras.next_numbers if extras is not None else None
    for position, origin in enumerate(node.next_nodes):
        if origin is not None and origin is not NOWHERE:
            yield Input(origin, (numbers[position] if numbers else None) or 0, position)


def is_leaf(node: Node) -> bool:
    """Whether a node accumulates the gradient of a leaf."""
    return isinstance(node, AccumulateGrad)


def is_freed(node: Node) -> bool:
    """Whether a backward pass has freed the node's saved values."""
    return node.saved is FREED


def info_of(value: Any) -> Info | None:
    """Shape and dtype of a raw array."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    return None if shape is None or dtype is None else info(shape, dtype)


def info(shape: Any, dtype: Any) -> Info:
    """A shape and a raw dtype, as they are shown."""
    name = None if dtype is None else dtypes.from_numpy_dtype(dtype).name
    return tuple(int(s) for s in shape), name


def array_of(value: Any) -> Any:
    """A raw array whose values can be read; None under a transform."""
    return value if arrays.is_raw(value) and not isinstance(value, Lifted) else None


# -- saved values ----------------------------------------------------------------------------


def entries_of(node: Node) -> Iterator[tuple[str, Any, Any, Any]]:
    """What a node has saved: the name, the value, packed as it may be, its version counter, and the
    count at the time. Nothing, once a pass has freed it."""
    if isinstance(node, CopySlices):
        yield from entries_of(node.write)
    elif node.saved is FREED or node.saved is None:
        return
    elif isinstance(node, OperationNode):
        saved = node.saved
        yield from zip(node.operation.saves, saved[::3], saved[1::3], saved[2::3], strict=True)
    elif isinstance(node, FunctionCtx):
        for i, (value, version, count, *_) in enumerate(node.saved):
            yield f"saved_tensors[{i}]", value, version, count


def saved_of(node: Node) -> list[Saved]:
    """The values that a node keeps, with their names and sizes."""
    result = []
    for name, value, *_ in entries_of(node):
        if isinstance(value, Packed):
            result.append(Saved(name, None, 0))
            continue
        value = getattr(value, "_data", value)
        if getattr(value, "shape", None) is not None:
            result.append(Saved(name, array_of(value), int(value.nbytes)))
    return result


def memory(nodes: list[Node]) -> list[int | None]:
    """The bytes that each of some nodes keeps. What several keep is counted for the first."""
    counted: set[int] = set()
    sizes: list[int | None] = []
    for node in nodes:
        if node.saved is None and not isinstance(node, CopySlices):
            sizes.append(None)
            continue
        size = 0
        for _, value, size_of_value in saved_of(node):
            whole = value if getattr(value, "base", None) is None else value.base
            if id(whole) not in counted or value is None:
                counted.add(id(whole))
                size += size_of_value
        sizes.append(size)
    return sizes


# -- constants and options -------------------------------------------------------------------


def constants_of(node: Node) -> list[Constant]:
    """The inputs that need no gradient, as far as they are known."""
    recorded = recorded_info(node)
    if recorded is not None:
        return [
            Constant(("recorded", d.identity), i, (tuple(d.shape), d.dtype), None, d)
            for i, d in enumerate(recorded.inputs)
            if d is not None and d.constant
        ]
    if isinstance(node, CopySlices):
        return constants_of(node.write)
    if isinstance(node, FunctionCtx):
        kept = node.saved is not FREED and node.saved is not None
        return [c for c in _kept_by_function(node) if c is not None] if kept else []
    if not isinstance(node, OperationNode):
        return []
    result = _kept_by_operation(node)
    known = {constant.position for constant in result}
    return [*result, *(c for c in _not_kept(node) if c.position not in known)]


def _kept_by_operation(node: OperationNode) -> list[Constant]:
    """The inputs of an operation that need no gradient and that its rule needs."""
    result, inputs = [], node.operation.inputs
    for name, value, version, _ in entries_of(node):
        if name not in inputs or node.next_nodes[inputs.index(name)] is not None:
            continue
        if getattr(value, "shape", None) is not None and not _is_number(value, version):
            position = inputs.index(name)
            result.append(Constant(id(value), position, info_of(value), array_of(value)))
    return result


def _not_kept(node: OperationNode) -> Iterator[Constant]:
    """The inputs that need no gradient and that no rule needs. Some of them may have been numbers:
    of these only nodes that note the shapes of inputs know it."""
    inputs, infos, numbers = node.operation.inputs, _infos(node), _numbers(node)
    for position, origin in enumerate(node.next_nodes):
        if origin is not None or (inputs != ("tensors",) and inputs[position] in numbers):
            continue
        given = infos[position] if position < len(infos) else None
        if infos and (given is None or given[1] is None):
            continue
        known = None if given is None else info(*given)
        yield Constant((id(node), position), position, known, None, None, True)


def _kept_by_function(node: FunctionCtx) -> Iterator[Constant | None]:
    """Tensors without a history that a custom Function saved: inputs, or values of its own."""
    for value, _, _, number, _ in node.saved:
        if number is None and hasattr(value, "_data") and not value.requires_grad:
            data = value._data
            yield Constant(id(data), len(node.next_nodes), info_of(data), array_of(data))


def options_of(node: Node) -> list[str]:
    """Options and numbers that an operation was given, in words: ``exponent=2``."""
    if isinstance(node, CopySlices):
        return [f"write: {label_of(node.write)}", *options_of(node.write)]
    if not isinstance(node, OperationNode):
        return []
    words = []
    operation = node.operation
    for name, value in _numbers(node).items():
        if name in operation.inputs and array_of(value) is not None:
            words.append(f"{name}={_number(value.item())}")
    for name, value in (getattr(node, "options", None) or {}).items():
        text = option_text(value)
        if text is not None and (name, text) not in _USUAL:
            words.append(f"{name}={text}")
    return words


_USUAL = {("alpha", "1"), ("beta", "1"), ("ignore_index", "-100")}  # the default


def option_text(value: Any) -> str | None:
    """An option as short text; None if it is too long or uninformative."""
    if value is None or value is False:
        return None
    if isinstance(value, (bool, str)):
        text = str(value)
    elif isinstance(value, (int, float, complex)):
        text = _number(value)
    elif isinstance(value, (tuple, list)) and all(isinstance(v, int) for v in value):
        text = str(tuple(value)) if len(value) != 1 else str(value[0])
    else:
        return None
    return text if len(text) <= 24 else None


def _number(value: Any) -> str:
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e9 else f"{value:.4g}"
    return str(value)


# -- shapes ----------------------------------------------------------------------------------


def outputs_of(node: Node) -> dict[int, Info]:
    """Shapes of a node's outputs as far as it knows them itself."""
    recorded = recorded_info(node)
    if recorded is not None:
        return {k: (tuple(d.shape), d.dtype) for k, d in enumerate(recorded.outputs)}
    if isinstance(node, FunctionCtx):
        return {k: info(*i) for k, i in enumerate(node.output_infos) if i[1] is not None}
    if isinstance(node, CopySlices):
        dtype = next((i[1] for i in getattr(node.write, "infos", ()) if i[1] is not None), None)
        return {0: info(node.part.shape, dtype)}
    if not isinstance(node, OperationNode):
        return {}
    outputs = getattr(node, "outputs", None)
    if outputs is not None:
        return {k: info(*i) for k, i in enumerate(outputs) if i[1] is not None}
    return _one_output(node)


def _one_output(node: OperationNode) -> dict[int, Info]:
    operation = node.operation
    for name, value, *_ in entries_of(node):
        if name in operation.output_names and (result := info_of(value)) is not None:
            return {operation.output_names.index(name): result}
    given = _given(node)
    options = getattr(node, "options", None) or {}
    if "size" in options and given:
        return {0: (tuple(options["size"]), given[0][1])}
    elementwise = isinstance(operation, Elementwise) or operation.name in ("mul", "div")
    if elementwise and given and len(given) == len(node.next_nodes):
        shape = _broadcast([i[0] for i in given])
        if shape is not None:
            return {0: (shape, None if len({i[1] for i in given}) > 1 else given[0][1])}
    return {}


def _given(node: OperationNode) -> list[Info]:
    """Shapes of the inputs, if the node has them."""
    return [info(*i) for i in _infos(node) if i is not None and i[1] is not None]


def _infos(node: OperationNode) -> tuple[Any, ...]:
    """Shapes and raw dtypes of the inputs: as given, or those that gradients are brought to."""
    fit = node.extras.fit if node.extras is not None else None
    return getattr(node, "infos", None) or fit or ()


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    length = max(map(len, shapes))
    columns = zip(*[(1,) * (length - len(s)) + s for s in shapes], strict=True)
    result = []
    for sizes in columns:
        larger = {s for s in sizes if s != 1}
        if len(larger) > 1:
            return None
        result.append(larger.pop() if larger else 1)
    return tuple(result)


def input_infos(node: Node) -> list[Info | None]:
    """Shapes of a node's inputs, in the order of ``next_nodes``, as far as it knows them."""
    recorded = recorded_info(node)
    if recorded is not None and len(recorded.inputs) == len(node.next_nodes):
        return [None if d is None else (tuple(d.shape), d.dtype) for d in recorded.inputs]
    count = len(node.next_nodes)
    if isinstance(node, FunctionCtx):
        infos = [info(*i) for i in node.input_infos if i is not None]
        return [*infos, *[None] * (count - len(infos))][:count]
    if isinstance(node, CopySlices):
        own = next(iter(outputs_of(node).values()), None)
        return [own, *input_infos(node.write)[1:]][:count]
    if not isinstance(node, OperationNode):
        return [None] * count
    known: list[Info | None] = [None] * count
    for i, given in enumerate(_infos(node)[:count]):
        known[i] = info(*given) if given is not None and given[1] is not None else None
    for name, value, *_ in entries_of(node):
        if name in node.operation.inputs:
            i = node.operation.inputs.index(name)
            known[i] = known[i] or info_of(value)
    return known


def keeps_shape(node: Node) -> bool:
    """Whether a node's output certainly has the shape of each of its inputs: an elementwise
    operation that had nothing to broadcast."""
    if not isinstance(node, OperationNode):
        return False
    kind = isinstance(node.operation, Elementwise) or (
        isinstance(node.operation, Multilinear) and node.operation.name == "mul"
    )
    return kind and (node.extras is None or node.extras.fit is None) and _alone(node)


def _alone(node: OperationNode) -> bool:
    """Whether only inputs with a history can determine the shape: a constant may be larger, a
    number is not."""
    constants = [name for name, origin in zip(node.operation.inputs, node.next_nodes, strict=False)
                 if origin is None]  # fmt: skip
    return len(node.next_nodes) == 1 or _numbers(node).keys() >= set(constants)


def _numbers(node: OperationNode) -> dict[str, Any]:
    """The saved values that are known to have been Python numbers, by name."""
    return {n: value for n, value, version, _ in entries_of(node) if _is_number(value, version)}


def _is_number(value: Any, version: Any) -> bool:
    return version is UNCHANGING and getattr(value, "shape", None) == ()
