"""Estimates the memory and traffic of a training step on each device of a mesh.

A model is called on the device ``meta``, which has shapes and no memory, with batches of two sizes.
What nodes save for the backward pass is added up; the rest follows from the sizes of parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from retrograd import arrays
from retrograd.autograd.graph import saved_tensors_hooks
from retrograd.nn import ModuleList
from retrograd.ops._lifted import memory_of
from retrograd.pipeline._drawing import in_bytes, short

WHY = {
    "data": "Each device has the whole model and a part of the batch. Gradients are added up.",
    "fsdp": "Parameters, gradients and optimizer state are split. The parameters of a block are "
    "gathered for its forward pass, and those that its backward pass needs are gathered again.",
    "tensor": "Layers are split by the plan, and each device has the whole batch. Partial results "
    "of split layers are added up.",
}
COMBINED = 30 * 2**20  # bytes of gradients that XLA adds up together, unsplit until then
FEW = 2  # samples in the batch that a model is called with
STATES = {"adamw": 2, "adam": 2, "momentum": 1, "sgd": 0}  # of the size of parameters


class Parameter(NamedTuple):
    """A parameter, its location, and how it is split."""

    shape: tuple[int, ...]
    nbytes: int
    unit: int  # the block that it is gathered with; 0 if it is in none
    again: bool  # whether the backward pass needs it
    is_split: bool  # by the plan for tensor parallel
    trained: bool  # whether it gets a gradient


class Measured(NamedTuple):
    """The memory that a model needs for a whole batch, and the data that it exchanges."""

    parameters: list[Parameter]
    buffers: int  # bytes, as all others
    inputs: int
    activations: int
    split_activations: int  # the part of these between layers that the plan splits
    added_up: int  # by the plan: outputs of layers, and gradients of their inputs


class Cost(NamedTuple):
    """Bytes on each device, and those that it sends in a step."""

    strategy: str
    parameters: Fraction
    gradients: Fraction
    state: Fraction
    gathered: Fraction  # parameters and gradients of other devices, at the same time
    activations: Fraction  # with the batch
    traffic: Fraction

    @property
    def memory(self) -> Fraction:
        return sum(self[1:6], Fraction(0))


class _Counting:
    """Adds up what nodes save while a model is called, and what split layers exchange."""

    def __init__(self, model: Any) -> None:
        self.parameters = {id(_memory(p)): p for p in model.parameters()}
        self.again: set[int] = set()
        # Memory, which is kept so that its id stays its own.
        self.seen = {id(_memory(x)): _memory(x) for x in model.buffers()}
        self.sizes = [0, 0]
        self.between = 0  # 1 between layers that are split, otherwise 0
        self.added_up = 0
        self.handles: list[Any] = []

    def pack(self, x: Any) -> Any:
        memory = _memory(x)
        if id(memory) in self.parameters:
            self.again.add(id(self.parameters[id(memory)]))
        elif id(memory) not in self.seen:
            self.seen[id(memory)] = memory
            self.sizes[self.between] += x.numel() * x.element_size()
        return x

    def watch(self, part: Any, style: Any) -> None:
        """Register hooks that add up the inputs and outputs of a split layer."""
        by_rows = bool(style.linear)

        def before(_: Any, args: Any, named: Any) -> None:
            if not by_rows:
                self.added_up += _bytes_of((*args, *named.values())[0])

        def after(_: Any, args: Any, output: Any) -> None:
            placement = style.outputs[0]  # None: the output stays split
            self.between = int(not by_rows and (placement is None or placement.is_shard()))
            if by_rows:
                self.added_up += _bytes_of(output)

        self.handles += [
            part.register_forward_pre_hook(before, with_kwargs=True),
            part.register_forward_hook(after),
        ]


def _memory(x: Any) -> Any:
    return arrays.programs.memory_of(memory_of(x))


def _bytes_of(x: Any) -> int:
    return int(x.numel() * x.element_size())


def measured(model: Any, batch: Sequence[Any], plan: dict[str, Any] | None = None) -> Measured:
    """The memory that a model needs, extrapolated from two small batches, because it grows linearly
    with the batch."""
    (size, *others) = {x.shape[0] if x.ndim else 0 for x in batch} or {0}
    if others or size <= FEW + 1:
        return _called(model, batch, plan)
    few, more = (_called(model, [x[:n] for x in batch], plan) for n in (FEW, FEW + 1))
    grown = [a + (b - a) * (size - FEW) for a, b in zip(few[2:], more[2:], strict=True)]
    return Measured(few.parameters, few.buffers, *grown)


def _called(model: Any, batch: Sequence[Any], plan: dict[str, Any] | None) -> Measured:
    """Measure one call of a model."""
    from retrograd.distributed.tensor.parallel import parts_at

    counting = _Counting(model)
    buffers = sum(map(_bytes_of, model.buffers()))
    split = {id(p) for _, p, _ in split_by(model, plan)}
    for path, style in (plan or {}).items():
        if hasattr(style, "linear"):
            for part in parts_at(model, path):
                counting.watch(part, style)
    try:
        with saved_tensors_hooks(counting.pack, lambda x: x):
            output = model(*batch)
    finally:
        for handle in counting.handles:
            handle.remove()
    blocks = [m for part in model.modules() if isinstance(part, ModuleList) for m in part]
    unit = {id(p): i + 1 for i, block in enumerate(blocks) for p in block.parameters()}
    parameters = [
        Parameter(tuple(p.shape), _bytes_of(p), unit.get(id(p), 0), id(p) in counting.again,
                  id(p) in split, p.requires_grad)
        for p in model.parameters()
    ]  # fmt: skip
    del output
    inputs = [x for x in batch if id(_memory(x)) not in counting.seen]
    return Measured(parameters, buffers, sum(map(_bytes_of, inputs)), sum(counting.sizes),
                    counting.sizes[1], counting.added_up)  # fmt: skip


def split_by(model: Any, plan: dict[str, Any] | None) -> Iterator[tuple[str, Any, int]]:
    """The parameters that a plan splits, with their names and the dimensions."""
    from retrograd.distributed.tensor.parallel import parts_at

    for path, style in (plan or {}).items():
        if not hasattr(style, "linear"):
            continue
        for part in parts_at(model, path):
            dim = style.linear if hasattr(part, "in_features") else style.embedding
            for name, p in part.named_parameters(recurse=False):
                if not (name == "bias" and style.linear):
                    yield f"{path}.{name}".lstrip("."), p, dim


def cost(strategy: str, what: Measured, devices: int, states: int) -> Cost:
    """The memory and traffic of a strategy on each device."""
    others = Fraction(devices - 1, devices)  # what a device gets from the others
    trained = [p for p in what.parameters if p.trained]

    def sizes(split: Callable[[Parameter], bool]) -> tuple[Fraction, Fraction, Fraction]:
        """Of parameters and buffers, gradients, and the optimizer's state."""
        gradients = _own(trained, devices, split)
        own = _own(what.parameters, devices, split)
        return own + what.buffers, gradients, states * gradients

    if strategy == "tensor":
        kept = what.activations - what.split_activations + Fraction(what.split_activations, devices)
        traffic = 2 * others * what.added_up
        return Cost(strategy, *sizes(lambda p: p.is_split), Fraction(0), kept + what.inputs,
                    traffic)  # fmt: skip
    activations = Fraction(what.activations + what.inputs, devices)
    if strategy == "data":
        whole = sum(p.nbytes for p in trained)
        return Cost(strategy, *sizes(lambda p: False), Fraction(0), activations,
                    2 * others * whole)  # fmt: skip
    parts = [p for p in what.parameters if is_divisible(p, devices)]
    units: dict[int, int] = {}
    for p in parts:
        units[p.unit] = units.get(p.unit, 0) + p.nbytes
    largest = max((size for number, size in units.items() if number), default=0)
    gathers = sum(p.nbytes * (1 + p.again) for p in parts)
    # A reduce-scatter for gradients that are split, and an all-reduce, twice the bytes, for others.
    sums = sum(p.nbytes * (2 - is_divisible(p, devices)) for p in trained)
    together = min(sum(p.nbytes for p in parts if p.trained), COMBINED)
    gathered = others * (units.get(0, 0) + largest + together)
    return Cost(strategy, *sizes(lambda p: is_divisible(p, devices)), gathered, activations,
                others * (gathers + sums))  # fmt: skip


def is_divisible(p: Parameter, devices: int) -> bool:
    """Whether a parameter has a dimension with equal parts, as ``fully_shard`` asks."""
    return any(size and not size % devices for size in p.shape)


def _own(parameters: Sequence[Parameter], devices: int, split: Any) -> Fraction:
    sizes = [Fraction(p.nbytes, devices if split(p) else 1) for p in parameters]
    return sum(sizes, Fraction(0))


# -- words -------------------------------------------------------------------------------------


def table(costs: Sequence[Cost], bandwidth: Fraction | None) -> str:
    """A table with a row for each strategy and columns for its memory and traffic per device."""
    lines = [["strategy", "parameters", "gradients", "optimizer", "gathered", "activations",
              "memory", "traffic", *(["time"] if bandwidth else [])]]  # fmt: skip
    for row in costs:
        sizes = [*row[1:6], row.memory, row.traffic]
        time = [f"{short(1000 * row.traffic / bandwidth)} ms"] if bandwidth else []
        lines.append([row.strategy, *map(in_bytes, sizes), *time])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "   ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
        for line in lines
    )


def legend(bandwidth: Fraction | None) -> list[str]:
    """The meanings of the columns."""
    return [
        "parameters   with buffers, such as the statistics of a normalization",
        "gathered     parameters gathered from other devices, and gradients before they are added "
        "up, at the peak",
        "activations  values saved for the backward pass, and the batch; XLA's temporary values "
        "can take up to 40 % more",
        "traffic      bytes that a device sends in a step",
        *(["time         of the traffic at the given bandwidth, without overlap with computation"]
          if bandwidth else []),
    ]  # fmt: skip


def advice(costs: Sequence[Cost], limit: Fraction | None) -> list[str]:
    """Descriptions of the strategies, and which one fits into the memory."""
    lines = [f"{row.strategy}: {WHY[row.strategy]}" for row in costs]
    if limit is None:
        return lines
    fitting = [row for row in costs if row.memory <= limit]
    if fitting:
        best = min(fitting, key=lambda row: row.traffic)
        return [*lines, f"Of those that fit into {in_bytes(limit)}, {best.strategy} sends the "
                f"least: {in_bytes(best.traffic)} a step."]  # fmt: skip
    least = min(costs, key=lambda row: row.memory)
    return [*lines, f"None fits into {in_bytes(limit)}: {least.strategy} needs the least, "
            f"{in_bytes(least.memory)}. Use more devices, a smaller batch, or recomputation."]
