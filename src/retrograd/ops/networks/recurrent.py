"""Recurrent networks: layers over whole sequences, stacked and in both directions, and cells for
single steps. They are what ``nn.LSTM`` and its kind call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from retrograd import arrays
from retrograd.ops import linear
from retrograd.ops._dims import broadcast, numel, one_dim
from retrograd.ops._operation import raw
from retrograd.ops._public import public
from retrograd.ops._sections import sections
from retrograd.ops.networks import _recurrence as recurrence
from retrograd.ops.networks import layers
from retrograd.ops.networks._recurrence import Sizes
from retrograd.ops.networks.dropout import torch_dropout
from retrograd.ops.shapes import reshaping


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
        result = recurrence.rnn(gates, states[0], w.hh, nonlinearity=nonlinearity,
                               batch_sizes=sizes, reverse=reverse)  # fmt: skip
        return (result,)

    return run


def _lstm_layer(
    x: Any, states: list[Any], w: Weights, sizes: Sizes, reverse: bool
) -> tuple[Any, ...]:
    gates = layers.linear(x, w.ih, _both_biases(w))
    result = recurrence.lstm(gates, *states, w.hh, w.projection, batch_sizes=sizes, reverse=reverse)
    return tuple(result[:2])


def _gru_layer(
    x: Any, states: list[Any], w: Weights, sizes: Sizes, reverse: bool
) -> tuple[Any, ...]:
    gates = layers.linear(x, w.ih, w.bias_ih)
    result = recurrence.gru(gates, *states, w.hh, w.bias_hh, batch_sizes=sizes, reverse=reverse)
    return (result[0],)


def _both_biases(w: Weights) -> Any:
    wanted = raw(w.ih).dtype
    for bias in (w.bias_ih, w.bias_hh):
        if bias is not None and raw(bias).dtype != wanted:
            word = arrays.dtypes.type_word
            raise RuntimeError(
                "self and mat2 must have the same dtype, but got "
                f"{word(raw(bias).dtype)} and {word(wanted)}"
            )
    if w.bias_ih is None or w.bias_hh is None:
        return w.bias_hh if w.bias_ih is None else w.bias_ih
    return w.bias_ih + w.bias_hh


def _last(x: Any, sizes: Sizes, reverse: bool) -> Any:
    """The rows that sequences end with, of all rows."""
    rows, batch = x.shape[-2], sizes[0]
    if reverse:
        return recurrence._rows(x, 0, batch)
    if batch == sizes[-1]:
        return recurrence._rows(x, rows - batch, rows)
    result, start, after = [], rows, 0
    for size in sizes[::-1]:
        start -= size
        if size > after:
            result.append(recurrence._rows(x, start + after, start + size))
        after = size
    return recurrence._all(result)


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
    if len(params) % each:
        raise RuntimeError("got an incorrect number of RNN parameters")
    if len(params) != count * each:
        raise RuntimeError("Expected more weights in stacked_rnn")
    results = []
    for start in range(0, len(params), each):
        own = list(params[start : start + each])
        projection = own.pop() if projected else None
        results.append(Weights(*own)._replace(projection=projection))
    return results


def _network(
    layer: Layer, input: Any, batch_sizes: Any, states: Sequence[Any], params: Sequence[Any],
    has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool,
    batch_first: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    projected = len(states) == 2 and _size(states[0], 2) != _size(states[1], 2)
    count = num_layers * (1 + bool(bidirectional))
    weights = _by_layer(params, has_biases, projected, count)
    for state in states:
        if _size(state, 0) % 2 and bidirectional:
            raise RuntimeError("Odd number of params or hiddens given to a bidirectional RNN")
        if state.shape[0] != count:
            raise RuntimeError("Expected more hidden states in stacked_rnn")
    options = (num_layers, dropout, train, bidirectional)
    if batch_sizes is not None:
        sizes = _packed_sizes(input, batch_sizes, states)
        rows = linear.slice_(input, where=(slice(0, sum(sizes)),))
        result, ends = _stacked(layer, rows, sizes, states, weights, *options)
        return result, *ends
    x = reshaping.transpose(input, 0, 1) if batch_first else input
    x = _as_batches(layer, x, tuple(states[0].shape[1:-1]))
    length, *batch, features = x.shape
    if not length:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    width = numel(batch)
    flat = linear.reshape(x, (length * width, features))
    states = [linear.reshape(s, (count, width, s.shape[-1])) for s in states]
    result, ends = _stacked(layer, flat, (width,) * length, states, weights, *options)
    result = linear.reshape(result, (length, *batch, result.shape[1]))
    ends = [linear.reshape(end, (count, *batch, end.shape[-1])) for end in ends]
    return reshaping.transpose(result, 0, 1) if batch_first else result, *ends


# -- shapes --------------------------------------------------------------------------------------


def _size(x: Any, dim: int) -> int:
    """The size of a dimension, or PyTorch's error if there is no such dimension."""
    if not x.shape:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return int(x.shape[one_dim(dim, len(x.shape))])


def _packed_sizes(rows: Any, batch_sizes: Any, states: Sequence[Any]) -> Sizes:
    """How many sequences there are in each step, checked against the rows and the states."""
    given = raw(batch_sizes)
    if given.dtype != "int64":
        raise RuntimeError(
            f"expected scalar type Long but found {arrays.dtypes.type_word(given.dtype)}"
        )
    if given.ndim != 1 or not given.size:
        raise RuntimeError("batch_sizes must be a vector with a number for each step")
    sizes = tuple(int(n) for n in given.tolist())
    if min(sizes) < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if any(later > size for size, later in pairwise(sizes)):
        raise RuntimeError("batch_sizes must not increase: the longest sequences come first")
    if len(rows.shape) != 2:
        raise RuntimeError(f"packed sequences must be a matrix, got {len(rows.shape)} dimensions")
    if sum(sizes) > rows.shape[0]:
        start = sum(sizes[:-1])
        raise RuntimeError(
            f"start ({start}) + length ({sizes[-1]}) exceeds dimension size ({rows.shape[0]})."
        )
    for state in states:
        _check_broadcast((sizes[0],), (_size(state, 1),))
        if state.shape[1] != sizes[0]:
            raise RuntimeError(
                f"Expected hidden states of {sizes[0]} sequences, got {state.shape[1]}"
            )
    return sizes


def _check_broadcast(given: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """Steps are added in place to what is made of the states, whose batch decides."""
    result = broadcast(wanted, given)
    if result != wanted:
        raise RuntimeError(
            f"output with shape {list(wanted)} doesn't match the broadcast shape {list(result)}"
        )


def _as_batches(layer: Layer, x: Any, batch: tuple[int, ...]) -> Any:
    """A sequence whose steps have the batch of the states, which may have any number of dimensions
    unless a step has several gates."""
    ndim = len(x.shape)
    if not ndim:
        raise RuntimeError(
            "both arguments to linear need to be at least 1D, but they are 0D and 2D"
        )
    if ndim == 1:
        raise RuntimeError("Expected a sequence of at least 2 dimensions in RNN, got 1")
    if layer is _gru_layer:
        one_dim(1, ndim - 1)
    if layer in (_gru_layer, _lstm_layer) and len(batch) != 1:
        one_dim(1, len(batch) + 1)
        raise RuntimeError(f"Expected hidden states of 3 dimensions, got {len(batch) + 2}")
    if tuple(x.shape[1:-1]) == batch:
        return x
    _check_broadcast(tuple(x.shape[1:-1]), batch)
    length, *given, features = x.shape
    ones = (1,) * (len(batch) - len(given))
    x = linear.reshape(x, (length, *ones, *given, features))
    return linear.expand(x, size=(length, *batch, features))


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


_NETWORK = """\
Called as ``{name}(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
batch_first)``, or as ``{name}(data, batch_sizes, hx, params, has_biases, num_layers, dropout,
train, bidirectional)`` for packed sequences. ``hx`` is {states}.
``params`` lists the weights and biases of all layers, in the order of the parameters of the module.

Args:
    *args: the arguments, in the order above.
    **named: the same arguments by name.

Returns:
    The hidden states of all steps, {last}.
"""
_ONE = {"states": "the first hidden states", "last": "and the last ones"}
_TWO = {
    "states": "the pair of the first hidden and cell states",
    "last": "the last hidden states, and the last cell states",
}


@public("torch")
@sections(_NETWORK, 0, name="lstm", **_TWO)
def lstm(*args: Any, **named: Any) -> tuple[Any, Any, Any]:
    """Long short-term memory network over sequences, as in ``nn.LSTM``.

    Example:
        >>> weights = [torch.ones(4, 1), torch.ones(4, 1)]
        >>> h = torch.zeros(1, 1, 1)
        >>> torch.lstm(torch.ones(2, 1, 1), (h, h), weights, False, 1, 0.0, False, False, False)[0]
        tensor([[[0.3696]],
        <BLANKLINE>
                [[0.6505]]])
    """
    result = _network(_lstm_layer, *_arguments("lstm", args, named, 2))
    return result[0], result[1], result[2]


@public("torch")
@sections(_NETWORK, 0, name="gru", **_ONE)
def gru(*args: Any, **named: Any) -> tuple[Any, Any]:
    """Gated recurrent unit network over sequences, as in ``nn.GRU``.

    Example:
        >>> weights = [torch.ones(3, 1), torch.ones(3, 1)]
        >>> h = torch.zeros(1, 1, 1)
        >>> output, last = torch.gru(
        ...     torch.ones(2, 1, 1), h, weights, False, 1, 0.0, False, False, False
        ... )
        >>> last
        tensor([[[0.3468]]])
    """
    result = _network(_gru_layer, *_arguments("gru", args, named, 1))
    return result[0], result[1]


@public("torch")
@sections(_NETWORK, 0, name="rnn_tanh", **_ONE)
def rnn_tanh(*args: Any, **named: Any) -> tuple[Any, Any]:
    """Elman network over sequences, with ``h = tanh(W x + U h + b)``, as in ``nn.RNN``.

    Example:
        >>> weights = [torch.ones(1, 1), torch.ones(1, 1)]
        >>> h = torch.zeros(1, 1, 1)
        >>> output, last = torch.rnn_tanh(
        ...     torch.ones(2, 1, 1), h, weights, False, 1, 0.0, False, False, False
        ... )
        >>> last
        tensor([[[0.9427]]])
    """
    result = _network(_rnn_layer("tanh"), *_arguments("rnn_tanh", args, named, 1))
    return result[0], result[1]


@public("torch")
@sections(_NETWORK, 0, name="rnn_relu", **_ONE)
def rnn_relu(*args: Any, **named: Any) -> tuple[Any, Any]:
    """Elman network over sequences, with ``h = relu(W x + U h + b)``, as in ``nn.RNN``.

    Example:
        >>> weights = [torch.ones(1, 1), torch.ones(1, 1)]
        >>> h = torch.zeros(1, 1, 1)
        >>> output, last = torch.rnn_relu(
        ...     torch.ones(2, 1, 1), h, weights, False, 1, 0.0, False, False, False
        ... )
        >>> last
        tensor([[[2.]]])
    """
    result = _network(_rnn_layer("relu"), *_arguments("rnn_relu", args, named, 1))
    return result[0], result[1]


# -- single steps --------------------------------------------------------------------------------


def _step(
    layer: Layer, input: Any, states: Sequence[Any], w: Weights, gates: int = 1
) -> tuple[Any, ...]:
    if gates == 1:  # there PyTorch looks at the weights first
        _check_weights(w, gates)
    _check_step(input, states, w)
    _check_weights(w, gates)
    return layer(input, list(states), w, (input.shape[0],), False)


def _check_step(input: Any, states: Sequence[Any], w: Weights) -> None:
    features, expected = _size(input, 1), _size(w.ih, 1)
    if features != expected:
        raise RuntimeError(f"input has inconsistent input_size: got {features} expected {expected}")
    rows, expected = _size(input, 0), _size(w.hh, 1)
    for number, state in enumerate(states):
        if rows != _size(state, 0):
            raise RuntimeError(
                f"Input batch size {rows} doesn't match hidden{number} batch size {state.shape[0]}"
            )
        if _size(state, 1) != expected:
            raise RuntimeError(
                f"hidden{number} has inconsistent hidden_size: got {state.shape[1]}, "
                f"expected {expected}"
            )
    for x in (input, *states):
        if len(x.shape) != 2:
            raise RuntimeError(f"a step takes matrices, got {len(x.shape)} dimensions")


def _check_weights(w: Weights, gates: int) -> None:
    wanted = gates * _size(w.hh, 1)
    for name, weight in (("weight_ih", w.ih), ("weight_hh", w.hh)):
        if _size(weight, 0) != wanted:
            raise RuntimeError(
                f"{name} first dim must be {gates} * hidden_size = {wanted}, "
                f"but got {weight.shape[0]}"
            )


_CELL = """\
Args:
    input: the input, of shape ``(N, input_size)``.
    hx: {states} of shape ``(N, hidden_size)``.
    w_ih: weight for the input, of shape ``({gates}hidden_size, input_size)``.
    w_hh: weight for the hidden state, of shape ``({gates}hidden_size, hidden_size)``.
    b_ih: bias for the input, of shape ``({gates}hidden_size,)``, or None.
    b_hh: bias for the hidden state, of shape ``({gates}hidden_size,)``, or None.

Returns:
    The next hidden state{next}.
"""


@public("torch")
@sections(
    _CELL, states="the hidden state and the cell state, both", gates="4 * ", next=" and cell state"
)
def lstm_cell(
    input: Any, hx: Sequence[Any], w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> tuple[Any, Any]:
    """One step of a long short-term memory network, as in ``nn.LSTMCell``.

    Example:
        >>> zero, weight = torch.zeros(1, 1), torch.ones(4, 1)
        >>> torch.lstm_cell(torch.ones(1, 1), (zero, zero), weight, weight)
        (tensor([[0.3696]]), tensor([[0.5568]]))
    """
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    result = _step(_lstm_layer, input, hx, Weights(w_ih, w_hh, b_ih, b_hh), 4)
    return result[0], result[1]


@public("torch")
@sections(_CELL, states="the hidden state,", gates="3 * ", next="")
def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """One step of a gated recurrent unit, as in ``nn.GRUCell``.

    Example:
        >>> zero, weight = torch.zeros(1, 1), torch.ones(3, 1)
        >>> torch.gru_cell(torch.ones(1, 1), zero, weight, weight)
        tensor([[0.2048]])
    """
    return _step(_gru_layer, input, (hx,), Weights(w_ih, w_hh, b_ih, b_hh), 3)[0]


@public("torch")
@sections(_CELL, states="the hidden state,", gates="", next="")
def rnn_tanh_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """One step of an Elman network: ``tanh(w_ih @ x + b_ih + w_hh @ h + b_hh)``.

    Example:
        >>> zero, weight = torch.zeros(1, 1), torch.ones(1, 1)
        >>> torch.rnn_tanh_cell(torch.ones(1, 1), zero, weight, weight)
        tensor([[0.7616]])
    """
    return _step(_rnn_layer("tanh"), input, (hx,), Weights(w_ih, w_hh, b_ih, b_hh))[0]


@public("torch")
@sections(_CELL, states="the hidden state,", gates="", next="")
def rnn_relu_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """One step of an Elman network: ``relu(w_ih @ x + b_ih + w_hh @ h + b_hh)``.

    Example:
        >>> zero, weight = torch.zeros(1, 1), torch.ones(1, 1)
        >>> torch.rnn_relu_cell(torch.ones(1, 1), zero, weight, weight)
        tensor([[1.]])
    """
    return _step(_rnn_layer("relu"), input, (hx,), Weights(w_ih, w_hh, b_ih, b_hh))[0]
