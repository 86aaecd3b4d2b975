"""What nodes save for their rules: values packed by hooks, how users see them, and the error for a
value that was written since."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from retrograd import _source, arrays
from retrograd._modes import modes, within
from retrograd.arrays import Raw
from retrograd.autograd._node import (
    AMBIGUOUS,
    FREED,
    NOWHERE,
    SECOND_BACKWARD,
    AccumulateGrad,
    Node,
)
from retrograd.autograd._versions import UNCHANGING, Version
from retrograd.autograd._wrap import Plug, wrap

if TYPE_CHECKING:
    from retrograd.autograd._operation_node import OperationNode
    from retrograd.ops._operation import Operation


# -- saved_tensors_hooks ---------------------------------------------------------------------


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


def pack_saved(node: OperationNode) -> None:
    """Pass what a node saved through the innermost pair of saved_tensors_hooks."""
    pack, unpack = modes.saved_tensor_hooks[-1]
    packed: list[Any] = [None, UNCHANGING, 0] * len(node.operation.saves)
    with within(saved_tensor_hooks=()):  # what a hook computes is not packed itself
        for i in order_for_hooks(node.operation):
            tensor = node.saved_tensor(i)
            is_tensor = isinstance(tensor, Plug.tensor)  # or a Python number, or nothing
            packed[3 * i] = pack_value(tensor, pack, unpack) if is_tensor else tensor
    node.saved = tuple(packed)
    node.extras_for_visit().packed = any(isinstance(x, Packed) for x in packed)


@functools.cache
def order_for_hooks(operation: Operation) -> list[int]:
    """The positions of saved values in the order in which PyTorch calls hooks: inputs by name, then
    outputs."""
    names = operation.saves
    return sorted(range(len(names)), key=lambda i: (names[i] not in operation.inputs, names[i]))


# -- what users see --------------------------------------------------------------------------


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
        node.extras_for_visit().packed = True


_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}  # as PyTorch's kernels are told them


def show_saved(cls: type[OperationNode], operation: Operation) -> None:
    """Give nodes of an operation ``_saved_name`` for what it saves and what it was called with,
    ``_raw_saved_name`` for what it saves, and ``_saved_name_sym_sizes`` for shapes of inputs."""
    for name in (*operation.saves, *operation.options):
        if not hasattr(cls, f"_saved_{name}"):
            setattr(cls, f"_saved_{name}", property(functools.partial(_shown, name)))
            setattr(cls, f"_raw_saved_{name}", property(functools.partial(_handle, name)))
    for name in operation.inputs:
        if not hasattr(cls, f"_saved_{name}_sym_sizes"):
            setattr(cls, f"_saved_{name}_sym_sizes", property(functools.partial(_sizes, name)))


def _shown(name: str, node: OperationNode) -> Any:
    if name not in node.operation.saves:
        options = getattr(node, "options", {})
        if name not in options:
            raise _missing(node, f"_saved_{name}")
        value = options[name]
        return _REDUCTIONS.get(value, value) if name == "reduction" else value
    saved = node.saved_tensor(node.operation.saves.index(name))
    return wrap(arrays.asarray(saved)) if isinstance(saved, (int, float, complex)) else saved


def _handle(name: str, node: OperationNode) -> SavedTensor:
    if name not in node.operation.saves:
        raise _missing(node, f"_raw_saved_{name}")
    return SavedTensor(node, node.operation.saves.index(name))


def _sizes(name: str, node: OperationNode) -> tuple[int, ...]:
    infos = getattr(node, "infos", None)
    if infos is None or name not in node.operation.inputs:
        raise _missing(node, f"_saved_{name}_sym_sizes")
    return tuple(infos[node.operation.inputs.index(name)][0])


def _missing(node: OperationNode, name: str) -> AttributeError:
    return AttributeError(f"'{node.name()}' object has no attribute '{name}'")


# -- values that were written ----------------------------------------------------------------


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
    sources = (("saved", node.source), ("changed", _source.describe(version.written_at)))
    lines = "".join(f"\n  {what} at {line}" for what, line in sources if line)
    kind = arrays.dtypes.type_word(value.dtype)
    error = RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [torch.{kind}Tensor {list(value.shape)}]"
        + (f", which is {maker}," if maker else "")
        + f" is at version {version.count}; expected version {count} instead. {hint}{lines}"
    )
    error.add_note("  What to do: write x = x + 1, not x += 1, or change a copy, x.clone().")
    return error
