"""Recurrent networks: layers over whole sequences, stacked and in both directions, and cells for
single steps. They are what ``nn.LSTM`` and its kind call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from retrograd.ops import linear
from retrograd.ops._operation import raw
from retrograd.ops.networks import _recurrence as recurrence
from retrograd.ops.networks import layers
from retrograd.ops.networks._recurrence import Sizes
from retrograd.ops.networks.dropout import torch_dropout


class Weights(NamedTuple):
    """The parameters of a layer in one direction."""

    ih: Any
    hh: Any
    bias_ih: Any = None
    bias_hh: Any = None
    projection: Any = None


Layer = Callable[[Any, list[Any], Weights, Sizes, bool], tuple[Any, ...]]

# -- one layer, one direction: hidden states of all rows, and cells if it has any ----------------


def _rnn_layer(nonlinearity: str) -> Layer:
    def run(x: Any, states: list[Any], w: Weights, sizes: Sizes, reverse: bool) -> tuple[Any, ...]:
        gates = layers.linear(x, w.ih, _both_biases(w))
        found = recurrence.rnn(gates, states[0], w.hh, nonlinearity=nonlinearity,
                               batch_sizes=sizes, reverse=reverse)  # fmt: skip
        return (found,)

    return run


def _lstm_layer(
    x: Any, states: list[Any], w: Weights, sizes: Sizes, reverse: bool
) -> tuple[Any, ...]:
    gates = layers.linear(x, w.ih, _both_biases(w))
    found = recurrence.lstm(gates, *states, w.hh, w.projection, batch_sizes=sizes, reverse=reverse)
    return tuple(found[:2])


def _gru_layer(
    x: Any, states: list[Any], w: Weights, sizes: Sizes, reverse: bool
) -> tuple[Any, ...]:
    gates = layers.linear(x, w.ih, w.bias_ih)
    found = recurrence.gru(gates, *states, w.hh, w.bias_hh, batch_sizes=sizes, reverse=reverse)
    return (found[0],)


def _both_biases(w: Weights) -> Any:
    return None if w.bias_ih is None else w.bias_ih + w.bias_hh


def _last(x: Any, sizes: Sizes, reverse: bool) -> Any:
    """The rows that sequences end with, of all rows."""
    rows, batch = x.shape[-2], sizes[0]
    if reverse:
        return recurrence._rows(x, 0, batch)
    if batch == sizes[-1]:
        return recurrence._rows(x, rows - batch, rows)
    found, start, after = [], rows, 0
    for size in sizes[::-1]:
        start -= size
        if size > after:
            found.append(recurrence._rows(x, start + after, start + size))
        after = size
    return recurrence._all(found)


# -- layers, stacked -----------------------------------------------------------------------------


def _stacked(
    layer: Layer, x: Any, sizes: Sizes, states: Sequence[Any], weights: list[Weights],
    num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """All rows of the last layer, and for each kind of state the last of all layers."""
    directions = (False, True) if bidirectional else (False,)
    each = [linear.unbind(s, dim=0) for s in states]
    ends: list[list[Any]] = [[] for _ in states]
    for number in range(num_layers):
        shown = []
        for reverse in directions:
            place = number * len(directions) + reverse
            made = layer(x, [s[place] for s in each], weights[place], sizes, reverse)
            shown.append(made[0])
            for kind, rows in zip(ends, made, strict=True):
                kind.append(_last(rows, sizes, reverse))
        x = shown[0] if len(shown) == 1 else linear.cat(shown, dim=1)
        if train and dropout and number < num_layers - 1:
            x = torch_dropout(x, dropout, True)
    return x, [linear.stack(kind, dim=0) for kind in ends]


def _by_layer(
    params: Sequence[Any], has_biases: bool, projected: bool, count: int
) -> list[Weights]:
    each = 2 + 2 * has_biases + projected
    if len(params) != count * each:
        raise RuntimeError("got an incorrect number of RNN parameters")
    found = []
    for start in range(0, len(params), each):
        own = list(params[start : start + each])
        projection = own.pop() if projected else None
        found.append(Weights(*own)._replace(projection=projection))
    return found


def _network(
    layer: Layer, input: Any, batch_sizes: Any, states: Sequence[Any], params: Sequence[Any],
    has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool,
    batch_first: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    projected = len(states) == 2 and states[0].shape[2] != states[1].shape[2]
    weights = _by_layer(params, has_biases, projected, num_layers * (1 + bool(bidirectional)))
    options = (num_layers, dropout, train, bidirectional)
    if batch_sizes is not None:
        sizes = tuple(int(n) for n in raw(batch_sizes).tolist())
        found, ends = _stacked(layer, input, sizes, states, weights, *options)
        return found, *ends
    x = linear.transpose(input, dim0=0, dim1=1) if batch_first else input
    length, batch, features = x.shape
    if not length:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    flat = linear.reshape(x, (length * batch, features))
    found, ends = _stacked(layer, flat, (batch,) * length, states, weights, *options)
    found = linear.reshape(found, (length, batch, found.shape[1]))
    return linear.transpose(found, dim0=0, dim1=1) if batch_first else found, *ends


_PLAIN = ("input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional",
          "batch_first")  # fmt: skip
_PACKED = ("data", "batch_sizes", *_PLAIN[1:-1])


def _arguments(name: str, args: tuple[Any, ...], named: dict[str, Any], states: int) -> list[Any]:
    """The arguments of one of the two ways of calling: with a tensor for all sequences, or with
    packed rows and how many sequences there are in each step."""
    lists = [i for i, x in enumerate(args) if isinstance(x, (list, tuple))]
    packed = "batch_sizes" in named or bool(lists and lists[0] > (1 if states == 2 else 2))
    names = _PACKED if packed else _PLAIN
    given = {**dict(zip(names, args, strict=False)), **named}
    if len(args) > len(names) or given.keys() != set(names):
        raise TypeError(f"{name}() received an invalid combination of arguments")
    if not packed:
        given["batch_sizes"] = None
    hx = given["hx"] if states == 2 else (given["hx"],)
    if len(hx) != states:
        raise RuntimeError(f"{name} expects two hidden states")
    first = given["data" if packed else "input"]
    return [first, given["batch_sizes"], hx, *(given[n] for n in _PLAIN[2:] if n in given)]


def lstm(*args: Any, **named: Any) -> tuple[Any, Any, Any]:
    """Long short-term memory: ``lstm(input, (h, c), params, has_biases, num_layers, dropout, train,
    bidirectional, batch_first)``, or with ``data, batch_sizes`` of packed sequences first. The
    result, and the last hidden states and cells.

    >>> import retrograd as torch
    >>> weights = [torch.ones(4, 1), torch.ones(4, 1)]
    >>> h = torch.zeros(1, 1, 1)
    >>> torch.lstm(torch.ones(2, 1, 1), (h, h), weights, False, 1, 0.0, False, False, False)[0]
    tensor([[[0.3696]],
    <BLANKLINE>
            [[0.6505]]])
    """
    found = _network(_lstm_layer, *_arguments("lstm", args, named, 2))
    return found[0], found[1], found[2]


def gru(*args: Any, **named: Any) -> tuple[Any, Any]:
    """Gated recurrent units, called as ``lstm`` is, with one state ``h``: the result, and the last
    hidden states."""
    found = _network(_gru_layer, *_arguments("gru", args, named, 1))
    return found[0], found[1]


def rnn_tanh(*args: Any, **named: Any) -> tuple[Any, Any]:
    """A network with ``h = tanh(W x + U h + b)``, called as ``gru`` is."""
    found = _network(_rnn_layer("tanh"), *_arguments("rnn_tanh", args, named, 1))
    return found[0], found[1]


def rnn_relu(*args: Any, **named: Any) -> tuple[Any, Any]:
    """A network with ``h = relu(W x + U h + b)``, called as ``gru`` is."""
    found = _network(_rnn_layer("relu"), *_arguments("rnn_relu", args, named, 1))
    return found[0], found[1]


# -- single steps --------------------------------------------------------------------------------


def _step(
    layer: Layer, input: Any, states: Sequence[Any], w: Weights, gates: int = 1
) -> tuple[Any, ...]:
    _check_step(input, states, w, gates)
    return layer(input, list(states), w, (input.shape[0],), False)


def _check_step(input: Any, states: Sequence[Any], w: Weights, gates: int) -> None:
    (rows, features), outer, inner = raw(input).shape, raw(w.ih).shape, raw(w.hh).shape
    if features != outer[1]:
        raise RuntimeError(f"input has inconsistent input_size: got {features} expected {outer[1]}")
    for number, state in enumerate(states):
        batch, size = raw(state).shape
        if batch != rows:
            raise RuntimeError(
                f"Input batch size {rows} doesn't match hidden{number} batch size {batch}"
            )
        if size != inner[1]:
            raise RuntimeError(
                f"hidden{number} has inconsistent hidden_size: got {size}, expected {inner[1]}"
            )
    wanted = gates * inner[1]
    for name, shape in (("weight_ih", outer), ("weight_hh", inner)):
        if shape[0] != wanted:
            times = f"{gates} * " if gates > 1 else ""
            raise RuntimeError(
                f"{name} first dim must be {times}hidden_size = {wanted}, but got {shape[0]}"
            )


def lstm_cell(
    input: Any, hx: Sequence[Any], w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> tuple[Any, Any]:
    """One step of long short-term memory: the hidden states and the cells after it.

    >>> import retrograd as torch
    >>> zero, weight = torch.zeros(1, 1), torch.ones(4, 1)
    >>> torch.lstm_cell(torch.ones(1, 1), (zero, zero), weight, weight)
    (tensor([[0.3696]]), tensor([[0.5568]]))
    """
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    found = _step(_lstm_layer, input, hx, Weights(w_ih, w_hh, b_ih, b_hh), 4)
    return found[0], found[1]


def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """One step of gated recurrent units: the hidden states after it."""
    return _step(_gru_layer, input, (hx,), Weights(w_ih, w_hh, b_ih, b_hh), 3)[0]


def rnn_tanh_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """``tanh(w_ih @ x + b_ih + w_hh @ h + b_hh)`` for each row."""
    return _step(_rnn_layer("tanh"), input, (hx,), Weights(w_ih, w_hh, b_ih, b_hh))[0]


def rnn_relu_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """``relu(w_ih @ x + b_ih + w_hh @ h + b_hh)`` for each row."""
    return _step(_rnn_layer("relu"), input, (hx,), Weights(w_ih, w_hh, b_ih, b_hh))[0]
