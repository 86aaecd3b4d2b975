"""Kernels of recurrent layers: all steps of a sequence, forward and backward.

Sequences are given in rows, ``(..., rows, features)``: those of the first step for all sequences of
the batch, then those of the second, and so on. Sequences are sorted by length, so that a step has
the first ``batch_sizes[t]`` of them. What does not need the last step's result is done for all rows
at once, before or after the loop; what is left are a few calls for each step.

NumPy is several times faster on contiguous arrays, in exponentials as in products, so that the
gates of a step are computed side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from retrograd.arrays._numpy import Raw

Sizes = tuple[int, ...]


def step_views(x: Raw, sizes: Sizes, behind: int = 1) -> list[Raw]:
    """The rows of each step. There are some dimensions ``behind`` that of the rows."""
    if len(sizes) == 1:
        return [x]
    if x.ndim == 1 + behind and sizes[0] == sizes[-1]:
        return list(x.reshape(len(sizes), sizes[0], *x.shape[1:]))
    rest, ends = (slice(None),) * behind, accumulate(sizes)
    return [x[(..., slice(end - n, end), *rest)] for end, n in zip(ends, sizes, strict=True)]


def _in_order(lists: Sequence[list[Raw]], reverse: bool) -> Any:
    return zip(*(x[::-1] if reverse else x for x in lists), strict=True)


def _first(initial: Raw, sizes: Sizes, reverse: bool) -> Raw:
    """The states that the first step begins with."""
    return initial[..., : sizes[-1] if reverse else sizes[0], :]


def _grown(state: Raw, initial: Raw, size: int) -> Raw:
    """The states that a step of some size begins with: some sequences may have ended, others may
    only begin, which they do from their initial state."""
    known = state.shape[-2]
    if known >= size:
        return state[..., :size, :]
    return np.concatenate((state, initial[..., known:size, :]), -2)


def previous(initial: Raw, states: Raw, sizes: Sizes, reverse: bool) -> Raw:
    """For each row, the state that its step began with."""
    size = sizes[0]
    if len(sizes) == 1:
        return initial
    if size == sizes[-1]:
        if reverse:
            return np.concatenate((states[..., size:, :], initial), -2)
        return np.concatenate((initial, states[..., : states.shape[-2] - size, :]), -2)
    out = np.empty_like(states)
    state = _first(initial, sizes, reverse)
    lists = [step_views(x, sizes) for x in (out, states)]
    for begun, made in _in_order(lists, reverse):
        begun[...] = _grown(state, initial, begun.shape[-2])
        state = made
    return out


def _transposed(x: Raw, sizes: Sizes) -> Raw:
    """The transpose of a weight, in memory of its own if it is used often enough."""
    transposed = np.swapaxes(x, -2, -1)
    return transposed if len(sizes) == 1 else np.ascontiguousarray(transposed)


def _open(gate: Raw, one: Raw) -> None:
    """``1 / (1 + exp(-x))`` in the place of ``x``."""
    np.negative(gate, out=gate)
    np.exp(gate, out=gate)
    np.add(gate, one, out=gate)
    np.reciprocal(gate, out=gate)


def _product(x: Raw) -> Callable[..., Raw]:
    """What multiplies matrices like ``x``; for one at a time there is a faster function."""
    return np.dot if x.ndim == 2 else np.matmul


def _room(like: Raw, state: Raw, size: int) -> Raw:
    """Memory for what is computed in a step, of as many features as ``like`` has."""
    return np.empty((*state.shape[:-2], size, like.shape[-1]), like.dtype)


class Carried:
    """A gradient on its way back from step to step, and what of it arrives at initial states."""

    __slots__ = ("arrived", "value")

    def __init__(self, initial: Raw) -> None:
        self.arrived = np.zeros(initial.shape, initial.dtype)
        self.value: Any = None

    def add_to(self, g: Raw) -> None:
        """Add the gradients from the later step. Sequences that begin in the later step are
        dropped."""
        value = self.value
        if value is None:
            return
        if value.shape == g.shape:
            np.add(g, value, out=g)
            return
        size, known = value.shape[-2], g.shape[-2]
        if size < known:
            g[..., :size, :] += value
        else:
            self.arrived[..., known:size, :] = value[..., known:, :]
            g += value[..., :known, :]

    def leave(self) -> Raw:
        self.arrived[..., : self.value.shape[-2], :] = self.value
        return self.arrived


def _weight_gradient(of_rows: Raw, states: Raw) -> Raw:
    return np.matmul(np.swapaxes(of_rows, -2, -1), states)


# -- one state, one nonlinearity -----------------------------------------------------------------


def _relu(x: Raw, out: Raw) -> None:
    np.maximum(x, 0, out=out)


NONLINEAR: dict[str, Callable[..., Any]] = {"tanh": np.tanh, "relu": _relu}


def rnn(
    gates: Raw, hidden: Raw, weight: Raw, nonlinearity: str, batch_sizes: Sizes, reverse: bool
) -> Raw:
    """``h = tanh(gates + h @ weight.T)`` in every step."""
    output = np.empty(gates.shape, gates.dtype)
    transposed = _transposed(weight, batch_sizes)
    apply, product = NONLINEAR[nonlinearity], _product(gates)
    state = _first(hidden, batch_sizes, reverse)
    lists = [step_views(x, batch_sizes) for x in (gates, output)]
    for given, out in _in_order(lists, reverse):
        if out.shape != state.shape:
            state = _grown(state, hidden, out.shape[-2])
        product(state, transposed, out=out)
        np.add(out, given, out=out)
        apply(out, out=out)
        state = out
    return output


def rnn_gradients(
    g: Raw, output: Raw, hidden: Raw, weight: Raw, nonlinearity: str, batch_sizes: Sizes,
    reverse: bool,
) -> tuple[Raw, Raw, Raw]:  # fmt: skip
    """The gradients of gates, initial state and weight."""
    of_gates, product = np.array(g, order="C"), _product(g)
    derivatives = 1 - output * output if nonlinearity == "tanh" else output <= 0  # false for NaN
    carried = Carried(hidden)
    lists = [step_views(x, batch_sizes) for x in (of_gates, derivatives)]
    for given, derivative in _in_order(lists, not reverse):
        carried.add_to(given)
        if nonlinearity == "tanh":
            np.multiply(given, derivative, out=given)
        else:
            given[derivative] = 0  # also what is infinite
        carried.value = product(given, weight)
    states = previous(hidden, output, batch_sizes, reverse)
    return of_gates, carried.leave(), _weight_gradient(of_gates, states)


# -- long short-term memory ----------------------------------------------------------------------


@np.errstate(over="ignore")  # a gate that is shut: one over infinity is the right zero
def lstm(
    gates: Raw, hidden: Raw, cell: Raw, weight: Raw, projection: Raw | None, batch_sizes: Sizes,
    reverse: bool,
) -> tuple[Raw, Raw, Raw]:  # fmt: skip
    """Hidden states, cells, and the gates as they were, in PyTorch's order: input, forget, what is
    new in the cells, output."""
    n, dtype = cell.shape[-1], gates.dtype
    active, transposed = np.array(gates, order="C"), _transposed(weight, batch_sizes)
    shape = (*gates.shape[:-1], n)
    cells, news, whole = np.empty(shape, dtype), np.empty(shape, dtype), np.empty(shape, dtype)
    output = whole if projection is None else _room(hidden, gates, shape[-2])
    project = None if projection is None else _transposed(projection, batch_sizes)
    product, one, room = _product(gates), np.ones((), dtype), np.empty(0, dtype)
    state, memory = (_first(x, batch_sizes, reverse) for x in (hidden, cell))
    parts = (active, *(active[..., i * n : (i + 1) * n] for i in range(4)), news, cells, whole,
             output)  # fmt: skip
    lists = [step_views(x, batch_sizes) for x in parts]
    for gate, enter, forget, fresh, leave, new, made, out, shown in _in_order(lists, reverse):
        if gate.shape != room.shape:
            size = gate.shape[-2]
            state, memory = _grown(state, hidden, size), _grown(memory, cell, size)
            room = _room(gates, gates, size)
        np.add(gate, product(state, transposed, out=room), out=gate)
        np.tanh(fresh, out=new)
        _open(gate, one)  # of what is new for nothing, which costs less than to leave it out
        np.multiply(forget, memory, out=made)
        np.multiply(enter, new, out=out)
        np.add(made, out, out=made)
        np.tanh(made, out=out)
        np.multiply(out, leave, out=out)
        if project is not None:
            product(out, project, out=shown)
        state, memory = shown, made
    active[..., 2 * n : 3 * n] = news
    return output, cells, active


def lstm_gradients(
    g: Raw, of_cells: Raw | None, output: Raw, cells: Raw, active: Raw, hidden: Raw, cell: Raw,
    weight: Raw, projection: Raw | None, batch_sizes: Sizes, reverse: bool,
) -> tuple[Raw, Raw, Raw, Raw, Raw | None]:  # fmt: skip
    """The gradients of gates, initial states, weight and projection."""
    n = cell.shape[-1]
    enter, forget, new, leave = (active[..., i * n : (i + 1) * n] for i in range(4))
    bent = np.tanh(cells)
    before = previous(cell, cells, batch_sizes, reverse)
    # By how much the gates' gradients are those of cells (three) and of hidden states (the last).
    of_gates = np.empty((*cells.shape[:-1], 4, n), cells.dtype)
    np.multiply(enter * (1 - enter), new, out=of_gates[..., 0, :])
    np.multiply(forget * (1 - forget), before, out=of_gates[..., 1, :])
    np.multiply(1 - new * new, enter, out=of_gates[..., 2, :])
    np.multiply(leave * (1 - leave), bent, out=of_gates[..., 3, :])
    of_memory = (1 - bent * bent) * leave  # the same for cells, of hidden states
    of_output, rows = np.array(g, order="C"), of_gates.reshape(active.shape)
    hiddens, memories, product = Carried(hidden), Carried(cell), _product(g)
    parts = (rows, rows[..., 3 * n :], of_memory, forget, of_output)
    lists = [step_views(x, batch_sizes) for x in parts]
    lists.append(lists[0] if of_cells is None else step_views(of_cells, batch_sizes))
    for wide_part in (of_gates[..., :3, :], of_memory[..., None, :]):
        lists.append(step_views(wide_part, batch_sizes, 2))
    for all_, last, inner, kept, given, more, three, wide in _in_order(lists, not reverse):
        hiddens.add_to(given)
        if projection is not None:
            given = product(given, projection)
        np.multiply(inner, given, out=inner)
        if of_cells is not None:
            np.add(inner, more, out=inner)
        memories.add_to(inner)
        np.multiply(three, wide, out=three)
        np.multiply(last, given, out=last)
        hiddens.value = product(all_, weight)
        memories.value = np.multiply(inner, kept)
    states = previous(hidden, output, batch_sizes, reverse)
    of_projection = None
    if projection is not None:
        of_projection = _weight_gradient(of_output, bent * leave)
    return (rows, hiddens.leave(), memories.leave(), _weight_gradient(rows, states),
            of_projection)  # fmt: skip


# -- gated recurrent units -----------------------------------------------------------------------


@np.errstate(over="ignore")
def gru(
    gates: Raw, hidden: Raw, weight: Raw, bias: Raw | None, batch_sizes: Sizes, reverse: bool
) -> tuple[Raw, Raw, Raw]:
    """Hidden states; the gates as they were: reset, update, what is new; and what the reset gate
    was multiplied with."""
    n, dtype = hidden.shape[-1], gates.dtype
    two, new = (np.array(x, order="C") for x in (gates[..., : 2 * n], gates[..., 2 * n :]))
    offset = np.zeros(n, dtype)
    if bias is not None:
        np.add(two, bias[..., None, : 2 * n], out=two)
        offset = bias[..., None, 2 * n :]
    transposed = _transposed(weight, batch_sizes)
    output, seen = np.empty_like(new), np.empty_like(new)
    product, one, room = _product(gates), np.ones((), dtype), np.empty(0, dtype)
    for_gates, for_new = room, room
    state = _first(hidden, batch_sizes, reverse)
    parts = (two, two[..., :n], two[..., n:], new, seen, output)
    lists = [step_views(x, batch_sizes) for x in parts]
    for gate, reset, update, fresh, old, out in _in_order(lists, reverse):
        if gate.shape != for_gates.shape:
            state = _grown(state, hidden, gate.shape[-2])
            room = _room(gates, gates, gate.shape[-2])
            for_gates, for_new = room[..., : 2 * n], room[..., 2 * n :]
        product(state, transposed, out=room)
        np.add(gate, for_gates, out=gate)
        _open(gate, one)
        np.add(for_new, offset, out=old)
        np.multiply(reset, old, out=out)
        np.add(fresh, out, out=fresh)
        np.tanh(fresh, out=fresh)
        np.subtract(state, fresh, out=out)
        np.multiply(out, update, out=out)
        np.add(out, fresh, out=out)
        state = out
    return output, np.concatenate((two, new), -1), seen


def gru_gradients(
    g: Raw, output: Raw, active: Raw, seen: Raw, hidden: Raw, weight: Raw, bias: Raw | None,
    batch_sizes: Sizes, reverse: bool,
) -> tuple[Raw, Raw, Raw, Raw | None]:  # fmt: skip
    """The gradients of gates, initial state, weight and bias."""
    n = hidden.shape[-1]
    reset, update, new = (active[..., i * n : (i + 1) * n] for i in range(3))
    states = previous(hidden, output, batch_sizes, reverse)
    # By how much the gradients of products with the weight are those of hidden states.
    of_products = np.empty((*seen.shape[:-1], 3, n), seen.dtype)
    into_new = (1 - update) * (1 - new * new)
    np.multiply(into_new * seen, reset * (1 - reset), out=of_products[..., 0, :])
    np.multiply(states - new, update * (1 - update), out=of_products[..., 1, :])
    np.multiply(into_new, reset, out=of_products[..., 2, :])
    of_output, rows = np.array(g, order="C"), of_products.reshape(active.shape)
    carried, product = Carried(hidden), _product(g)
    lists = [step_views(x, batch_sizes) for x in (rows, update, of_output)]
    lists += [step_views(x, batch_sizes, 2) for x in (of_products, of_output[..., None, :])]
    for all_, kept, given, three, wide in _in_order(lists, not reverse):
        carried.add_to(given)
        np.multiply(three, wide, out=three)
        back = product(all_, weight)
        carried.value = np.add(back, np.multiply(given, kept), out=back)
    of_gates = rows.copy()
    np.multiply(into_new, of_output, out=of_gates[..., 2 * n :])
    of_bias = None if bias is None else rows.sum(-2)
    return of_gates, carried.leave(), _weight_gradient(rows, states), of_bias
