"""Optimizer kernels in JAX, which update parameters and their state.

A step has two parts. Its numbers, such as step sizes, depend on the learning rate and on step
counts. The optimizer computes them with NumPy before XLA runs: one line, ``optimizer_numbers``, for
all parameters. XLA runs the lines that update parameters. They take the numbers as an array, so new
numbers do not need a new program. Options that are not numbers, such as whether there is weight
decay, are constants of a program. One program is kept for each combination
(``Numbers.signature``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from retrograd import arrays
from retrograd.compiler._program import Kernel, Line, Program, Var
from retrograd.compiler.xla._table import lowering
from retrograd.optim._rules import TracedUpdate

np = arrays.programs.numpy
NUMBERS = "optimizer_numbers"  # the name of the line that NumPy runs
UPDATE = "optimizer_update"  # the name of lines that XLA runs
KERNELS: dict[str, Callable[..., Any]] = {}


# -- the numbers of a step -------------------------------------------------------------------


class Alike(NamedTuple):
    """Updates with the same options. Those with equal numbers in their states, such as step counts,
    pass equal numbers to their kernels. ``of`` has a row for each number of a state: its positions
    among the numbers of all states. ``shapes`` are None unless numbers depend on them."""

    update: TracedUpdate
    shapes: Any
    members: list[int]
    of: list[list[int]]


class Numbers:
    """The function that computes the numbers of all updates of a program. It takes the numbers in
    their states, and returns the new ones and an array. The array contains the index of the
    signature and the numbers that kernels take; equal updates share them."""

    def __init__(self, updates: list[TracedUpdate], shapes: list[Any]) -> None:
        self.count = len(updates)
        self.alike: list[Alike] = []
        by_key: dict[Any, Alike] = {}
        end = 0
        for k, (update, shape) in enumerate(zip(updates, shapes, strict=True)):
            if not update.optimizer._numbers_by_shape:
                shape = [None] * len(shape)
            key = k if update.others else (id(update.group), *update.names, *shape)
            if key not in by_key:
                by_key[key] = Alike(update, shape, [], [[] for _ in update.scalars])
                self.alike.append(by_key[key])
            by_key[key].members.append(k)
            for row in by_key[key].of:
                row.append(end)
                end += 1
        self.room = 1  # the length of the array if no two updates share numbers
        self.kinds: dict[Any, int] = {}  # kinds of updates: kernel, operands and other options
        self.signatures: dict[tuple[int, ...], int] = {}
        self.signature: list[Any] = []  # the one that lines are being lowered for

    def __call__(self, *scalars: Any) -> tuple[Any, ...]:
        held = [x.item() for x in scalars]
        rules: dict[int, Any] = {}
        written: list[Any] = [None] * len(scalars)
        numbers = [0.0]
        signature = [0] * (2 * self.count)
        needed = 1
        for alike in self.alike:
            update = alike.update
            rule = rules.get(id(update.group))
            if rule is None:
                rule = rules[id(update.group)] = update.optimizer._rule(update.group)
            for members, of in _equal_states(alike, held):
                counts = [arrays.writable(arrays.copy(scalars[row[0]])) for row in of]
                state = dict(zip(update.scalars, counts, strict=True))
                kind, later = _taken_apart(*update.deferred(rule, alike.shapes, state))
                number = self.kinds.setdefault(kind, len(self.kinds))
                for k in members:
                    signature[2 * k], signature[2 * k + 1] = number, len(numbers)
                for row, count in zip(of, counts, strict=True):
                    new = count[()]
                    for i in row:
                        written[i] = new
                numbers += later
                needed += len(later) * len(members)
        self.room = max(self.room, needed)
        chosen = self.signatures.setdefault(tuple(signature), len(self.signatures))
        room = np.zeros(self.room)
        room[: len(numbers)] = numbers
        room[0] = chosen
        return (*written, room)

    def choose(self, number: int) -> None:
        """Select the signature that lines are lowered for."""
        kinds = list(self.kinds)
        signature = list(self.signatures)[number]
        self.signature = [
            (*kinds[kind], start)
            for kind, start in zip(signature[::2], signature[1::2], strict=True)
        ]


def _equal_states(alike: Alike, held: list[Any]) -> Iterable[tuple[list[int], list[list[int]]]]:
    """Groups of updates whose states have equal numbers. Usually this is one group."""
    values = [[held[i] for i in row] for row in alike.of]
    if all([row.count(row[0]) == len(row) for row in values]):
        return [(alike.members, alike.of)]
    groups: dict[Any, tuple[list[int], list[list[int]]]] = {}
    for k, update in enumerate(alike.members):
        members, of = groups.setdefault(
            tuple([row[k] for row in values]), ([], [[] for _ in alike.of])
        )
        members.append(update)
        for row, positions in zip(of, alike.of, strict=True):
            row.append(positions[k])
    return groups.values()


def _taken_apart(kernel: Any, operands: Any, values: Any) -> tuple[Any, list[float]]:
    """The kind of an update, which is a constant of the program, and its numbers."""
    fixed = tuple([float if type(x) is float else x for x in values])
    positions = tuple([None if x is None else x.number for x in operands])
    later = [x if type(x) is float else 0.0 for x in values]
    return (kernel.__name__, positions, fixed), later


def is_update(line: Line) -> bool:
    """Whether XLA can run a line that updates a parameter."""
    update = line.operation.forward
    if not isinstance(update, TracedUpdate) or len(line.outputs) > len(line.writes):
        return False  # the first step of some optimizers creates their state
    shapes = [v.shape for v in line.args]
    ones = {i: arrays.writable(np.ones((), line.args[i + 2].dtype)) for i in update.scalars}
    kernel, _, _ = update.deferred(update.optimizer._rule(update.group), shapes, ones)
    return kernel.__name__ in KERNELS


def with_numbers(program: Program) -> Program:
    """The program, with updates divided into numbers and kernels."""
    new: dict[Line, list[Line]] = {}
    for lines in _groups_of_updates(program):
        new.update(_divided(lines))
    if not new:
        return program
    body = [x for line in program.lines for x in new.get(line, [line])]
    return Program(program.name, program.inputs, body, program.outputs, program.updates,
                   program.gradients)  # fmt: skip


def _groups_of_updates(program: Program) -> list[list[Line]]:
    """Groups of updates whose numbers are computed together, before the first update of a group.
    The numbers in their states have to be available there. If an optimizer makes two steps, the
    second begins a new group, because its step counts are results of the first."""
    groups: list[list[Line]] = []
    available = set(program.inputs)
    known: set[Var] = set()  # variables that are available where the last group begins
    for line in program.lines:
        if is_update(line):
            counts = [line.args[i + 2] for i in line.operation.forward.scalars]
            if not groups or not all([v in known or v.constant is not None for v in counts]):
                groups.append([])
                known = set(available)
            groups[-1].append(line)
        available.update(line.outputs)
    return groups


def _divided(lines: list[Line]) -> dict[Line, list[Line]]:
    """The lines that replace each update. A line before the first computes the numbers of all."""
    updates = [line.operation.forward for line in lines]
    numbers = Numbers(updates, [[tuple(v.shape) for v in line.args] for line in lines])
    scalars = [line.args[i + 2] for line in lines for i in line.operation.forward.scalars]
    *_, numbers_now = numbers(*[np.ones((), v.dtype) for v in scalars])
    values = Var("numbers", numbers_now)
    outputs: list[Var] = []
    new: dict[Line, list[Line]] = {}
    for k, (update, line) in enumerate(zip(updates, lines, strict=True)):
        positions = [0, *range(2, len(line.args))]
        held = {i + 2 for i in update.scalars}
        outputs += [v for i, v in zip(positions, line.outputs, strict=True) if i in held]
        rest = [v for i, v in zip(positions, line.outputs, strict=True) if i not in held]
        args = [None if i in held else x for i, x in enumerate(line.args)]
        options = {"numbers": values, "of": numbers, "which": k}
        new[line] = [Line(tuple(rest), Kernel(UPDATE, update), tuple(args), options, True,
                          line.place, line.backward)]  # fmt: skip
    new[lines[0]].insert(0, Line((*outputs, values), Kernel(NUMBERS, numbers), tuple(scalars),
                                 {}, True, lines[0].place, False))  # fmt: skip
    return new


@lowering(UPDATE)
def _update(*args: Any, numbers: Any, of: Numbers, which: int) -> list[Any]:
    """The new parameter and its new state."""
    name, positions, fixed, start = of.signature[which]
    values = [numbers[start + i] if x is float else x for i, x in enumerate(fixed)]
    results = updated(name, [None if i is None else args[i] for i in positions], values)
    written = (positions[0], *positions[2:])
    new = {i: y for i, y in zip(written, results, strict=True) if i is not None}
    return [as_given(new[i], x) for i, x in enumerate(args) if i != 1 and x is not None]


def updated(name: str, operands: list[Any], numbers: list[Any]) -> Any:
    """The results of a kernel for a parameter, its gradient and its state."""
    real = _real(operands[0].dtype)
    in_dtype = [x.astype(real) if hasattr(x, "astype") else x for x in numbers]
    return KERNELS[name](*[None if x is None else _as_real(x) for x in operands], *in_dtype)


_PARTS = {"complex64": "f4", "complex128": "f8"}


def _real(dtype: Any) -> Any:
    """The dtype that an update is computed in."""
    return np.dtype("f4" if dtype.itemsize == 2 else _PARTS.get(dtype.name, dtype))


def _as_real(x: Any) -> Any:
    """Complex numbers as independent pairs of real ones, and half precision as float32."""
    if x.dtype.kind == "c":
        return jnp.stack([x.real, x.imag], -1)
    return x.astype("float32") if x.dtype.itemsize == 2 else x


def as_given(y: Any, like: Any) -> Any:
    """A result in the shape and dtype of the parameter or state that it replaces."""
    if like.dtype.kind == "c":
        return y[..., 0] + 1j * y[..., 1]
    return jnp.reshape(y, like.shape).astype(like.dtype)


# -- the kernels -----------------------------------------------------------------------------
#
# Like NumPy's kernels in ``arrays/_updates.py``, each takes the parameter, the gradient, the state
# and numbers. It returns the new parameter and the new state.


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Declare the counterpart of the NumPy kernel with the same name."""
    KERNELS[function.__name__] = function
    return function


def _wanted(param: Any, grad: Any, decay: Any, maximize: bool) -> Any:
    grad = -grad if maximize else grad
    return grad if decay is None else param * decay + grad


def _lerp(x: Any, to: Any, weight: Any) -> Any:
    difference = to - x
    return jnp.where(weight < 0.5, x + difference * weight, to - difference * (1 - weight))


def _squares(squares: Any, grad: Any, keep: Any, rest: Any) -> Any:
    return squares * keep + grad * grad * rest


@kernel
def sgd(
    param: Any, grad: Any, buffer: Any, lr: Any, momentum: Any, rest: Any, decay: Any, first: bool,
    nesterov: bool, maximize: bool,
) -> Any:  # fmt: skip
    wanted = _wanted(param, grad, decay, maximize)
    if buffer is None:
        return param - wanted * lr, None
    buffer = wanted if first else buffer * momentum + wanted * rest
    return param - (buffer * momentum + wanted if nesterov else buffer) * lr, buffer


@kernel
def adam(
    param: Any, grad: Any, average: Any, squares: Any, largest: Any, size: Any, rest1: Any,
    beta2: Any, rest2: Any, eps: Any, decay: Any, shrink: Any, maximize: bool,
) -> Any:  # fmt: skip
    param = param if shrink is None else param * shrink
    wanted = _wanted(param, grad, decay, maximize)
    squares = _squares(squares, wanted, beta2, rest2)
    average = _lerp(average, wanted, rest1)
    largest = None if largest is None else jnp.maximum(largest, squares)
    spread = jnp.sqrt(squares if largest is None else largest) + eps
    return param - average / spread * size, average, squares, largest


@kernel
def adamax(
    param: Any, grad: Any, average: Any, largest: Any, size: Any, rest1: Any, beta2: Any, eps: Any,
    decay: Any, maximize: bool,
) -> Any:  # fmt: skip
    wanted = _wanted(param, grad, decay, maximize)
    average = _lerp(average, wanted, rest1)
    largest = jnp.maximum(largest * beta2, jnp.abs(wanted) + eps)
    return param - average / largest * size, average, largest


@kernel
def nadam(
    param: Any, grad: Any, average: Any, squares: Any, of_grad: Any, of_average: Any, rest1: Any,
    beta2: Any, rest2: Any, unbias: Any, eps: Any, decay: Any, shrink: Any, maximize: bool,
) -> Any:  # fmt: skip
    param = param if shrink is None else param * shrink
    wanted = _wanted(param, grad, decay, maximize)
    squares = _squares(squares, wanted, beta2, rest2)
    average = _lerp(average, wanted, rest1)
    spread = jnp.sqrt(squares) * unbias + eps
    return param - (average * of_average + wanted * of_grad) / spread, average, squares


@kernel
def radam(
    param: Any, grad: Any, average: Any, squares: Any, size: Any, rest1: Any, beta2: Any,
    rest2: Any, eps: Any, decay: Any, shrink: Any, maximize: bool,
) -> Any:  # fmt: skip
    param = param if shrink is None else param * shrink
    wanted = _wanted(param, grad, decay, maximize)
    squares = _squares(squares, wanted, beta2, rest2)
    average = _lerp(average, wanted, rest1)
    step = average if eps is None else average / (jnp.sqrt(squares) + eps)
    return param - step * size, average, squares


@kernel
def rmsprop(
    param: Any, grad: Any, squares: Any, average: Any, buffer: Any, lr: Any, alpha: Any, rest: Any,
    eps: Any, momentum: Any, decay: Any, maximize: bool,
) -> Any:  # fmt: skip
    wanted = _wanted(param, grad, decay, maximize)
    squares = _squares(squares, wanted, alpha, rest)
    spread = squares
    if average is not None:
        average = _lerp(average, wanted, rest)
        spread = squares - average * average
    step = wanted / (jnp.sqrt(spread) + eps)
    if buffer is not None:
        step = buffer = buffer * momentum + step
    return param - step * lr, squares, average, buffer


@kernel
def adagrad(
    param: Any, grad: Any, total: Any, size: Any, eps: Any, decay: Any, maximize: bool
) -> Any:
    wanted = _wanted(param, grad, decay, maximize)
    total = total + wanted * wanted
    return param - wanted / (jnp.sqrt(total) + eps) * size, total


@kernel
def adadelta(
    param: Any, grad: Any, squares: Any, steps: Any, lr: Any, rho: Any, rest: Any, eps: Any,
    decay: Any, maximize: bool,
) -> Any:  # fmt: skip
    wanted = _wanted(param, grad, decay, maximize)
    squares = _squares(squares, wanted, rho, rest)
    step = jnp.sqrt(steps + eps) / jnp.sqrt(squares + eps) * wanted
    return param - step * lr, squares, _squares(steps, step, rho, rest)


@kernel
def rprop(
    param: Any, grad: Any, previous: Any, sizes: Any, shrink: Any, grow: Any, smallest: Any,
    largest: Any, maximize: bool,
) -> Any:  # fmt: skip
    wanted = -grad if maximize else grad
    factor = wanted * previous
    sign_changed = factor < 0
    sizes = sizes * jnp.where(sign_changed, shrink, jnp.where(factor > 0, grow, 1))
    sizes = jnp.clip(sizes, smallest, largest)
    previous = jnp.where(sign_changed, 0, wanted)
    sign = jnp.where(jnp.isnan(previous), 0, jnp.sign(previous))
    return param - sign * sizes, previous, sizes


@kernel
def asgd(
    param: Any, grad: Any, average: Any, lr: Any, shrink: Any, mu: Any, decay: Any, maximize: bool
) -> Any:
    param = param * shrink - _wanted(param, grad, decay, maximize) * lr
    return param, param if mu is None else average + (param - average) * mu


@kernel
def adafactor(
    param: Any, grad: Any, row: Any, column: Any, variance: Any, lr: Any, weight: Any, eps: Any,
    least: Any, threshold: Any, shrink: Any, maximize: bool,
) -> Any:  # fmt: skip
    tiny = float(np.finfo(param.dtype).eps) if eps is None else eps
    size = jnp.maximum(least, _typical(param)) * lr
    param = param if shrink is None else param * shrink
    wanted = -grad if maximize else grad
    squares = wanted * wanted
    if row is None:
        variance = variance + (squares - variance) * weight
        scale = variance
    else:
        row = row + (jnp.mean(squares, -1, keepdims=True) - row) * weight
        column = column + (jnp.mean(squares, -2, keepdims=True) - column) * weight
        scale = _product(row, column)
        scale = scale / jnp.maximum(jnp.mean(row, -2, keepdims=True), tiny)
    step = wanted / jnp.sqrt(jnp.maximum(scale, tiny * tiny))
    step = step * (size / jnp.maximum(1.0, _typical(step) / threshold))
    return param - step, row, column, variance


@kernel
def muon(
    param: Any, grad: Any, buffer: Any, size: Any, shrink: Any, momentum: Any, nesterov: bool,
    coefficients: tuple[float, float, float], steps: int, eps: Any,
) -> Any:  # fmt: skip
    buffer = _lerp(buffer, grad, 1 - momentum)
    wanted = _lerp(grad, buffer, momentum) if nesterov else buffer
    step = _orthogonal(wanted, coefficients, steps, eps).astype(param.dtype)
    return param * shrink - step * size, buffer


def _orthogonal(x: Any, coefficients: tuple[float, float, float], steps: int, eps: Any) -> Any:
    """Like ``orthogonal`` in ``arrays/_updates.py``, where the rounding is explained."""
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    x = _to_eight_bits((x.T if tall else x).astype("float32"))
    norm = _to_eight_bits(jnp.sqrt(jnp.sum(x * x)))
    x = _to_eight_bits(x / jnp.maximum(norm, jnp.asarray(eps, "float32")))
    for _ in range(steps):
        gram = _to_eight_bits(_product(x, x.T))
        change = _to_eight_bits(c * _product(gram, gram) + b * gram)
        x = _to_eight_bits(_product(change, x) + a * x)
    return x.T if tall else x


def _product(x: Any, y: Any) -> Any:
    return jnp.matmul(x, y, precision="highest")


def _to_eight_bits(x: Any) -> Any:
    """Round to the 8 significant bits of bfloat16."""
    return jax.lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)


@kernel
def lerp(param: Any, to: Any, weight: Any) -> Any:
    return (_lerp(param, to, weight),)


def _typical(x: Any) -> Any:
    """The root mean square of all elements."""
    return jnp.sqrt(jnp.sum(x * x) / max(x.size, 1))
