"""Recurrent layers as operations: one node for all steps of a sequence.

Each is defined by what it does in a step. On arrays, the kernels of ``arrays/_recurrent`` do
everything. The same rules on Tensors, which give derivatives of derivatives and gradients under
transforms, go step by step here, with the derivatives of all steps computed at once. To
differentiate the definitions takes four times as long, and nodes would have to keep more. Rows are
laid out as there: step after step, the longest sequences first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.ops import linear, products
from retrograd.ops._lifted import by_kernel, on_arrays
from retrograd.ops._operation import composite, raw
from retrograd.ops._refusals import c_name
from retrograd.ops.algebra._matrix import total
from retrograd.ops.comparisons import le
from retrograd.ops.copies import zeros_like
from retrograd.ops.elementwise import relu, sigmoid
from retrograd.ops.piecewise import where
from retrograd.ops.pointwise.trigonometry import tanh

Sizes = tuple[int, ...]
_LINEAR_STEPS = "all steps are differentiated at once: four times faster than the definition"


def _check(*operands: Any, **options: Any) -> None:
    gates, hidden, *others = (raw(x) for x in operands if x is not None)
    weight = raw(operands[3 if len(operands) == 5 else 2])  # lstm has a cell before it
    for x in (hidden, *others):
        if x.dtype != gates.dtype:
            raise RuntimeError(
                "expected m1 and m2 to have the same dtype, but got: "
                f"{c_name(x.dtype)} != {c_name(gates.dtype)}"
            )
    if options.get("nonlinearity") == "relu" and gates.dtype.kind == "c":
        raise NotImplementedError("clamp is not supported for complex types")
    rows, features = hidden.shape[-2:]
    if weight.shape[-1] != features:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x{features} and "
            f"{weight.shape[-1]}x{weight.shape[-2]})"
        )
    if weight.shape[-2] != gates.shape[-1]:
        raise RuntimeError(
            f"The size of tensor a ({weight.shape[-2]}) must match the size of tensor b "
            f"({gates.shape[-1]}) at non-singleton dimension 1"
        )


# -- rows and steps ------------------------------------------------------------------------------


def _steps(x: Any, sizes: Sizes) -> list[Any]:
    return list(linear.split_with_sizes(x, sizes=sizes, dim=len(x.shape) - 2))


def _all(pieces: Sequence[Any]) -> Any:
    return pieces[0] if len(pieces) == 1 else linear.cat(pieces, dim=len(pieces[0].shape) - 2)


def _rows(x: Any, start: int, stop: int) -> Any:
    if start == 0 and stop == x.shape[-2]:
        return x
    return linear.slice_(x, where=(slice(None),) * (len(x.shape) - 2) + (slice(start, stop),))


def _parts(x: Any, count: int) -> list[Any]:
    """Equal parts of the last dimension."""
    n = x.shape[-1] // count
    return list(linear.split_with_sizes(x, sizes=(n,) * count, dim=len(x.shape) - 1))


def _side_by_side(parts: Sequence[Any]) -> Any:
    return linear.cat(parts, dim=len(parts[0].shape) - 1)


def _order(sizes: Sizes, reverse: bool) -> Sequence[int]:
    return range(len(sizes))[::-1] if reverse else range(len(sizes))


def _empty(count: int, sizes: Sizes) -> list[list[Any]]:
    """Lists with a place for each step."""
    return [[None] * len(sizes) for _ in range(count)]


def _begun(state: Any, initial: Any, size: int) -> Any:
    """The states that a step begins with, after one that left ``state``."""
    if state is None:
        return _rows(initial, 0, size)
    known = state.shape[-2]
    if known >= size:
        return _rows(state, 0, size)
    return _all([state, _rows(initial, known, size)])


def _previous(initial: Any, states: Any, sizes: Sizes, reverse: bool) -> Any:
    """For each row, the state that its step began with."""
    made = _steps(states, sizes)
    (result,) = _empty(1, sizes)
    state = None
    for t in _order(sizes, reverse):
        result[t] = _begun(state, initial, sizes[t])
        state = made[t]
    return _all(result)


class _Carried:
    """A gradient that is passed back from step to step. Sequences that begin in some step take
    theirs to the initial states."""

    def __init__(self) -> None:
        self.value: Any = None
        self.arrived: list[Any] = []

    def added_to(self, g: Any) -> Any:
        if self.value is None:
            return g
        size, known = self.value.shape[-2], g.shape[-2]
        if size > known:
            self.arrived.append(_rows(self.value, known, size))
            return g + _rows(self.value, 0, known)
        if size < known:
            shape = (*g.shape[:-2], known - size, g.shape[-1])
            return g + _all([self.value, linear.new_zeros(g, shape)])
        return g + self.value

    def leave(self) -> Any:
        return _all([self.value, *self.arrived[::-1]])


def _by_weight(of_rows: Any, states: Any) -> Any:
    return products.matmul(linear.transposed(of_rows), states)


def _or_zeros(g: Any, like: Any) -> Any:
    return zeros_like(like) if g is None else g


def _products_move(t: Any, states: Any) -> Any:
    """How the products of states and a weight move with the weight."""
    return None if t is None else products.matmul(states, linear.transposed(t))


def _moving(base: Any, like: Any, sizes: Sizes) -> list[Any]:
    return _steps(_or_zeros(base, like), sizes)


# -- one state, one nonlinearity -----------------------------------------------------------------


def _through(x: Any, output: Any, nonlinearity: str) -> Any:
    """What a change before the nonlinearity is after it, or a gradient the other way. As in
    ``relu``, nothing goes through at 0, not even what is infinite, and anything at NaN."""
    if nonlinearity == "relu":
        return where(le(output, 0), zeros_like(x), x)
    return x * (1 - output * output)


def _rnn_rule(
    g: Any, hidden: Any, weight: Any, result: Any, nonlinearity: str, batch_sizes: Sizes,
    reverse: bool,
) -> Sequence[Any]:  # fmt: skip
    if on_arrays(g, hidden, weight, result):
        return by_kernel(  # type: ignore[no-any-return]
            arrays.recurrent.rnn_gradients, g, result, hidden, weight, nonlinearity, batch_sizes,
            reverse,
        )  # fmt: skip
    outputs, given = (_steps(x, batch_sizes) for x in (result, g))
    (gradients,) = _empty(1, batch_sizes)
    carried = _Carried()
    for t in _order(batch_sizes, not reverse):
        gradients[t] = _through(carried.added_to(given[t]), outputs[t], nonlinearity)
        carried.value = products.matmul(gradients[t], weight)
    of_gates = _all(gradients)
    states = _previous(hidden, result, batch_sizes, reverse)
    return [of_gates, carried.leave(), _by_weight(of_gates, states)]


def _rnn_of(
    gates: Any, hidden: Any, weight: Any, nonlinearity: str, batch_sizes: Sizes, reverse: bool
) -> Any:
    given, transposed = _steps(gates, batch_sizes), linear.transposed(weight)
    bend = relu if nonlinearity == "relu" else tanh
    (shown,) = _empty(1, batch_sizes)
    state = None
    for t in _order(batch_sizes, reverse):
        state = _begun(state, hidden, batch_sizes[t])
        shown[t] = state = bend(given[t] + products.matmul(state, transposed))
    return _all(shown)


def _rnn_tangent(
    t: Any, hidden: Any, weight: Any, result: Any, nonlinearity: str, batch_sizes: Sizes,
    reverse: bool,
) -> Any:  # fmt: skip
    by_gates, by_hidden, by_weight = t
    states = _previous(hidden, result, batch_sizes, reverse)
    base = _moving(total(by_gates, _products_move(by_weight, states)), result, batch_sizes)
    outputs = _steps(result, batch_sizes)
    by_hidden, transposed = _or_zeros(by_hidden, hidden), linear.transposed(weight)
    (tangents,) = _empty(1, batch_sizes)
    state = None
    for step in _order(batch_sizes, reverse):
        state = _begun(state, by_hidden, batch_sizes[step])
        moved = base[step] + products.matmul(state, transposed)
        tangents[step] = state = _through(moved, outputs[step], nonlinearity)
    return _all(tangents)


rnn = composite(
    "rnn_layer", _rnn_of, arrays.recurrent.rnn, inputs=("gates", "hidden", "weight"),
    joint=_rnn_rule, jvp=_rnn_tangent, batch="leading", check=_check, reason=_LINEAR_STEPS,
    words="The gradient goes back through time, step by step.",
)  # fmt: skip

# -- long short-term memory ----------------------------------------------------------------------


def _lstm_derivatives(cells: Any, before: Any, active: Any) -> tuple[Any, Any, Any, Any]:
    """How the gates (in PyTorch's order) move with what is put into them; how cells move with the
    first three of them, and hidden states with the last and with the cells. And what hidden states
    are before a projection."""
    enter, forget, new, leave = _parts(active, 4)
    bent = tanh(cells)
    of_gates = [enter * (1 - enter), forget * (1 - forget), 1 - new * new, leave * (1 - leave)]
    onto = [d * x for d, x in zip(of_gates, (new, before, enter, bent), strict=True)]
    return of_gates, onto, (1 - bent * bent) * leave, bent * leave


def _lstm_rule(
    g: Any, hidden: Any, cell: Any, weight: Any, projection: Any, output: Any, cells: Any,
    active: Any, batch_sizes: Sizes, reverse: bool,
) -> Sequence[Any]:  # fmt: skip
    of_output, of_cells, of_active = g
    of_output = _or_zeros(of_output, output)
    values = (of_output, of_cells, hidden, cell, weight, projection, output, cells, active)
    if of_active is None and on_arrays(*values):
        return by_kernel(  # type: ignore[no-any-return]
            arrays.recurrent.lstm_gradients, of_output, of_cells, output, cells, active, hidden,
            cell, weight, projection, batch_sizes, reverse,
        )  # fmt: skip
    before = _previous(cell, cells, batch_sizes, reverse)
    derivatives, onto, into_cell, whole = _lstm_derivatives(cells, before, active)
    directly = None
    if of_active is not None:
        directly = of_active * _side_by_side(derivatives)
    pieces = [_steps(x, batch_sizes) for x in (*onto, into_cell, of_output)]
    forgets = _steps(_parts(active, 4)[1], batch_sizes)
    more = None if of_cells is None else _steps(of_cells, batch_sizes)
    apart = None if directly is None else _steps(directly, batch_sizes)
    of_gates, of_hidden = _empty(2, batch_sizes)
    hiddens, memories = _Carried(), _Carried()
    for t in _order(batch_sizes, not reverse):
        *three, last, inner, given = (x[t] for x in pieces)
        of_hidden[t] = given = hiddens.added_to(given)
        if projection is not None:
            given = products.matmul(given, projection)
        of_cell = memories.added_to(total(given * inner, None if more is None else more[t]))
        row = _side_by_side([*(of_cell * x for x in three), given * last])
        of_gates[t] = total(row, None if apart is None else apart[t])
        hiddens.value = products.matmul(of_gates[t], weight)
        memories.value = of_cell * forgets[t]
    rows, states = _all(of_gates), _previous(hidden, output, batch_sizes, reverse)
    of_projection = None if projection is None else _by_weight(_all(of_hidden), whole)
    return [rows, hiddens.leave(), memories.leave(), _by_weight(rows, states), of_projection]


def _lstm_of(
    gates: Any, hidden: Any, cell: Any, weight: Any, projection: Any, batch_sizes: Sizes,
    reverse: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    given, transposed = _steps(gates, batch_sizes), linear.transposed(weight)
    shown, memories, active = _empty(3, batch_sizes)
    state, memory = None, None
    for t in _order(batch_sizes, reverse):
        state = _begun(state, hidden, batch_sizes[t])
        memory = _begun(memory, cell, batch_sizes[t])
        enter, forget, new, leave = _parts(given[t] + products.matmul(state, transposed), 4)
        enter, forget, new, leave = sigmoid(enter), sigmoid(forget), tanh(new), sigmoid(leave)
        memories[t] = memory = forget * memory + enter * new
        active[t] = _side_by_side([enter, forget, new, leave])
        state = leave * tanh(memory)
        if projection is not None:
            state = products.matmul(state, linear.transposed(projection))
        shown[t] = state
    return _all(shown), _all(memories), _all(active)


def _lstm_tangent(
    t: Any, hidden: Any, cell: Any, weight: Any, projection: Any, output: Any, cells: Any,
    active: Any, batch_sizes: Sizes, reverse: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    by_gates, by_hidden, by_cell, by_weight, by_projection = t
    states, before = (
        _previous(x, y, batch_sizes, reverse) for x, y in ((hidden, output), (cell, cells))
    )
    derivatives, onto, into_cell, whole = _lstm_derivatives(cells, before, active)
    base = _moving(total(by_gates, _products_move(by_weight, states)), active, batch_sizes)
    pieces = [_steps(x, batch_sizes) for x in (*onto, into_cell, _parts(active, 4)[1])]
    by_hidden, by_cell = _or_zeros(by_hidden, hidden), _or_zeros(by_cell, cell)
    transposed = linear.transposed(weight)
    moved = _products_move(by_projection, whole)
    apart = None if moved is None else _steps(moved, batch_sizes)
    gates, memories, shown = _empty(3, batch_sizes)
    state, memory = None, None
    for step in _order(batch_sizes, reverse):
        state = _begun(state, by_hidden, batch_sizes[step])
        memory = _begun(memory, by_cell, batch_sizes[step])
        *four, inner, forget = (x[step] for x in pieces)
        gates[step] = base[step] + products.matmul(state, transposed)
        *three, last = (x * y for x, y in zip(_parts(gates[step], 4), four, strict=True))
        memories[step] = memory = total(memory * forget, *three)
        state = last + memory * inner
        if projection is not None:
            state = products.matmul(state, linear.transposed(projection))
        shown[step] = state = total(state, None if apart is None else apart[step])
    return _all(shown), _all(memories), _all(gates) * _side_by_side(derivatives)


lstm = composite(
    "lstm_layer", _lstm_of, arrays.recurrent.lstm,
    inputs=("gates", "hidden", "cell", "weight", "projection"),
    joint=_lstm_rule, outputs=("output", "cells", "active"), jvp=_lstm_tangent, batch="leading",
    check=_check, reason=_LINEAR_STEPS,
    words="The gradient goes back through time, step by step: through the gates of each step to "
          "its inputs, and through the state to the step before.",
)  # fmt: skip

# -- gated recurrent units -----------------------------------------------------------------------


def _gru_rule(
    g: Any, hidden: Any, weight: Any, bias: Any, output: Any, active: Any, seen: Any,
    batch_sizes: Sizes, reverse: bool,
) -> Sequence[Any]:  # fmt: skip
    of_output, of_active, of_seen = g
    of_output = _or_zeros(of_output, output)
    values = (of_output, hidden, weight, bias, output, active, seen)
    if of_active is None and of_seen is None and on_arrays(*values):
        return by_kernel(  # type: ignore[no-any-return]
            arrays.recurrent.gru_gradients, of_output, output, active, seen, hidden, weight, bias,
            batch_sizes, reverse,
        )  # fmt: skip
    reset, update, new = _parts(active, 3)
    states = _previous(hidden, output, batch_sizes, reverse)
    outer: list[Any] = [None] * 3 if of_active is None else _parts(of_active, 3)
    # Each step gets (reset, update, new) from hidden states, and what arrives from outside.
    derivatives = [reset * (1 - reset), update * (1 - update), 1 - new * new]
    named = {
        "kept": update, "into_new": 1 - update, "into_update": states - new, "seen": seen,
        "reset": reset, "derivative_reset": derivatives[0], "derivative_update": derivatives[1],
        "derivative_new": derivatives[2], "given": of_output, "of_reset": outer[0],
        "of_update": outer[1], "of_new": outer[2], "of_seen": of_seen,
    }  # fmt: skip
    pieces = {n: None if x is None else _steps(x, batch_sizes) for n, x in named.items()}
    of_gates, of_products = _empty(2, batch_sizes)
    carried = _Carried()
    for t in _order(batch_sizes, not reverse):
        at = {n: None if x is None else x[t] for n, x in pieces.items()}
        given = carried.added_to(at["given"])
        into_new = total(given * at["into_new"], at["of_new"]) * at["derivative_new"]
        into_update = total(given * at["into_update"], at["of_update"]) * at["derivative_update"]
        into_reset = total(into_new * at["seen"], at["of_reset"]) * at["derivative_reset"]
        into_seen = total(into_new * at["reset"], at["of_seen"])
        of_gates[t] = _side_by_side([into_reset, into_update, into_new])
        of_products[t] = _side_by_side([into_reset, into_update, into_seen])
        carried.value = given * at["kept"] + products.matmul(of_products[t], weight)
    rows = _all(of_products)
    of_bias = None
    if bias is not None:
        of_bias = linear.sum_dim(rows, dim=(len(rows.shape) - 2,), keepdim=False)
    return [_all(of_gates), carried.leave(), _by_weight(rows, states), of_bias]


def _gru_of(
    gates: Any, hidden: Any, weight: Any, bias: Any, batch_sizes: Sizes, reverse: bool
) -> tuple[Any, Any, Any]:
    given, transposed = _steps(gates, batch_sizes), linear.transposed(weight)
    wide = None if bias is None else linear.unsqueeze(bias, dim=len(bias.shape) - 1)
    shown, active, seen = _empty(3, batch_sizes)
    state = None
    for t in _order(batch_sizes, reverse):
        state = _begun(state, hidden, batch_sizes[t])
        old = _parts(total(products.matmul(state, transposed), wide), 3)
        own = _parts(given[t], 3)
        reset, update = sigmoid(own[0] + old[0]), sigmoid(own[1] + old[1])
        new = tanh(own[2] + reset * old[2])
        shown[t] = state = (1 - update) * new + update * state
        active[t], seen[t] = _side_by_side([reset, update, new]), old[2]
    return _all(shown), _all(active), _all(seen)


def _gru_tangent(
    t: Any, hidden: Any, weight: Any, bias: Any, output: Any, active: Any, seen: Any,
    batch_sizes: Sizes, reverse: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    by_gates, by_hidden, by_weight, by_bias = t
    states = _previous(hidden, output, batch_sizes, reverse)
    wide = None if by_bias is None else linear.unsqueeze(by_bias, dim=len(by_bias.shape) - 1)
    base = total(_products_move(by_weight, states), wide)
    base = _or_zeros(base, active) if wide is None else _or_zeros(None, active) + base
    reset, update, new = _parts(active, 3)
    named = (base, _or_zeros(by_gates, active), reset, reset * (1 - reset), update,
             update * (1 - update), 1 - new * new, states - new, seen)  # fmt: skip
    pieces = [_steps(x, batch_sizes) for x in named]
    by_hidden, transposed = _or_zeros(by_hidden, hidden), linear.transposed(weight)
    gates, olds, shown = _empty(3, batch_sizes)
    state = None
    for step in _order(batch_sizes, reverse):
        state = _begun(state, by_hidden, batch_sizes[step])
        product, given, r, dr, z, dz, dn, lead, old = (x[step] for x in pieces)
        pr, pz, pn = _parts(product + products.matmul(state, transposed), 3)
        gr, gz, gn = _parts(given, 3)
        moved_r, moved_z = (gr + pr) * dr, (gz + pz) * dz
        moved_n = (gn + moved_r * old + r * pn) * dn
        state = (1 - z) * moved_n + moved_z * lead + z * state
        gates[step], olds[step] = _side_by_side([moved_r, moved_z, moved_n]), pn
        shown[step] = state
    return _all(shown), _all(gates), _all(olds)


gru = composite(
    "gru_layer", _gru_of, arrays.recurrent.gru, inputs=("gates", "hidden", "weight", "bias"),
    joint=_gru_rule,
    outputs=("output", "active", "seen"), jvp=_gru_tangent, batch="leading", check=_check,
    reason=_LINEAR_STEPS,
    words="The gradient goes back through time, step by step, through the gates of each.",
)  # fmt: skip
