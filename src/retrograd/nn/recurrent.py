"""Recurrent layers, over whole sequences, and cells, for single steps."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any, ClassVar

from retrograd.nn import init
from retrograd.nn.module import Module
from retrograd.nn.parameter import Parameter
from retrograd.nn.utils.rnn import PackedSequence
from retrograd.ops.networks import recurrent as networks
from retrograd.tensor._creation import empty

GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}
NETWORKS = {"RNN_TANH": networks.rnn_tanh, "RNN_RELU": networks.rnn_relu, "LSTM": networks.lstm,
            "GRU": networks.gru}  # fmt: skip


class _Recurrent(Module):
    """What layers and cells share: where their weights start."""

    hidden_size: int

    def reset_parameters(self) -> None:
        """Draw all parameters from an interval that shrinks with the number of hidden units."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)


class RNNBase(_Recurrent):
    """What ``RNN``, ``LSTM`` and ``GRU`` share: layers of one or two directions, stacked."""

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1,
        bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, proj_size: int = 0, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_options()
        self.dropout = float(dropout)
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for reverse in (False, True) if bidirectional else (False,):
                self._make_layer(layer, reverse, device=device, dtype=dtype)
        self.reset_parameters()

    def _check_options(self) -> None:
        p = self.dropout
        if not isinstance(p, numbers.Number) or isinstance(p, bool) or not 0 <= p <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                "element being zeroed"
            )
        if p > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={p} and "
                f"num_layers={self.num_layers}",
                stacklevel=4,
            )
        for name, kind in (("bias", bool), ("batch_first", bool), ("input_size", int),
                           ("hidden_size", int)):  # fmt: skip
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise TypeError(
                    f"{name} should be of type {kind.__name__}, got: {type(value).__name__}"
                )
        for name in ("input_size", "hidden_size", "num_layers"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if self.proj_size < 0:
            raise ValueError(
                "proj_size should be a positive integer or zero to disable projections"
            )
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if self.mode not in GATES:
            raise ValueError(f"Unrecognized RNN mode: {self.mode}")

    def _make_layer(self, layer: int, reverse: bool, **made: Any) -> None:
        gates, shown = GATES[self.mode] * self.hidden_size, self.proj_size or self.hidden_size
        below = shown * (1 + self.bidirectional) if layer else self.input_size
        shapes: dict[str, Any] = {"weight_ih": (gates, below), "weight_hh": (gates, shown)}
        if self.bias:
            shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        suffix = f"_l{layer}{'_reverse' if reverse else ''}"
        for name, shape in shapes.items():
            setattr(self, name + suffix, Parameter(empty(shape, **made)))
        self._all_weights.append([name + suffix for name in shapes])

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters, a list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Nothing: there is no memory to rearrange."""

    # -- the forward pass ------------------------------------------------------------------------

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        states = None if hx is None else self._as_states(hx)
        if isinstance(input, PackedSequence):
            return self._packed(input, states)
        if input.dim() not in (2, 3):
            raise ValueError(self._not_a_sequence(input.dim()))
        x, alone = input, input.dim() == 2
        if states is not None:
            self._check_dims(states, alone)
        batch_dim = 0 if self.batch_first else 1
        if alone:
            x = x.unsqueeze(batch_dim)
            states = None if states is None else [s.unsqueeze(1) for s in states]
        self._check_input(x, 3)
        states = self._checked_states(states, x, x.shape[batch_dim])
        output, *ends = NETWORKS[self.mode](
            x, self._as_hx(states), self._flat_weights(), self.bias, self.num_layers,
            self.dropout, self.training, self.bidirectional, self.batch_first,
        )  # fmt: skip
        if alone:
            output, ends = output.squeeze(batch_dim), [s.squeeze(1) for s in ends]
        return output, self._as_hx(ends)

    def _packed(self, input: PackedSequence, states: Any) -> tuple[PackedSequence, Any]:
        data, batch_sizes, order, back = input
        if states is not None and order is not None:
            states = [s.index_select(1, order) for s in states]
        self._check_input(data, 2)
        states = self._checked_states(states, data, int(batch_sizes[0]))
        output, *ends = NETWORKS[self.mode](
            data, batch_sizes, self._as_hx(states), self._flat_weights(), self.bias,
            self.num_layers, self.dropout, self.training, self.bidirectional,
        )  # fmt: skip
        if back is not None:
            ends = [s.index_select(1, back) for s in ends]
        return PackedSequence(output, batch_sizes, order, back), self._as_hx(ends)

    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name) for names in self._all_weights for name in names]

    def _as_states(self, hx: Any) -> list[Any]:
        return [hx]

    def _as_hx(self, states: Any) -> Any:
        return states[0]

    def _state_sizes(self) -> list[int]:
        return [self.hidden_size]

    # -- checks ----------------------------------------------------------------------------------

    def _not_a_sequence(self, dims: int) -> str:
        return f"{self._get_name()}: Expected input to be 2D or 3D, got {dims}D instead"

    def _check_dims(self, states: list[Any], alone: bool) -> None:
        wanted, kind = (2, "unbatched") if alone else (3, "batched")
        if states[0].dim() != wanted:
            raise RuntimeError(
                f"For {kind} {wanted}-D input, hx should also be {wanted}-D but got "
                f"{states[0].dim()}-D tensor"
            )

    def _check_input(self, input: Any, dims: int) -> None:
        weight = getattr(self, self._all_weights[0][0])
        if input.dtype != weight.dtype:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: "
                f"model.to({input.dtype})"
            )
        if input.dim() != dims:
            raise RuntimeError(f"input must have {dims} dimensions, got {input.dim()}")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.shape[-1]}"
            )

    def _checked_states(self, states: Any, input: Any, batch: int) -> list[Any]:
        count, sizes = self.num_layers * (1 + self.bidirectional), self._state_sizes()
        if states is None:
            return [input.new_zeros((count, batch, size)) for size in sizes]
        for i, (state, size) in enumerate(zip(states, sizes, strict=True)):
            if tuple(state.shape) != (count, batch, size):
                which = "hidden" if len(sizes) == 1 else f"hidden[{i}]"
                raise RuntimeError(
                    f"Expected {which} size {(count, batch, size)}, got {list(state.shape)}"
                )
        return list(states)

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        usual = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False,
                 "dropout": 0, "bidirectional": False}  # fmt: skip
        parts += [f"{n}={getattr(self, n)}" for n, v in usual.items() if getattr(self, n) != v]
        return ", ".join(parts)


class RNN(RNNBase):
    """``h = tanh(W x + U h + b)`` for each element of a sequence, ``(length, batch, input)``.

    >>> import retrograd as torch
    >>> layer = torch.nn.RNN(3, 5, num_layers=2)
    >>> output, h = layer(torch.ones(7, 2, 3))
    >>> output.shape, h.shape
    (torch.Size([7, 2, 5]), torch.Size([2, 2, 5]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse_projection(kwargs)
        if len(args) > 3:
            nonlinearity, args = args[3], (*args[:3], *args[4:])
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity

    def _not_a_sequence(self, dims: int) -> str:
        return f"RNN: Expected input to be 2D or 3D, got {dims}D tensor instead"


class LSTM(RNNBase):
    """Long short-term memory: a cell beside the hidden state, with gates between them.

    >>> import retrograd as torch
    >>> layer = torch.nn.LSTM(3, 5, batch_first=True, bidirectional=True)
    >>> output, (h, c) = layer(torch.ones(2, 7, 3))
    >>> output.shape, c.shape
    (torch.Size([2, 7, 10]), torch.Size([2, 2, 5]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def _as_states(self, hx: Any) -> list[Any]:
        return list(hx)

    def _as_hx(self, states: Any) -> Any:
        return tuple(states)

    def _state_sizes(self) -> list[int]:
        return [self.proj_size or self.hidden_size, self.hidden_size]

    def _check_dims(self, states: list[Any], alone: bool) -> None:
        wanted, kind = (2, "unbatched") if alone else (3, "batched")
        if any(s.dim() != wanted for s in states):
            raise RuntimeError(
                f"For {kind} {wanted}-D input, hx and cx should also be {wanted}-D but got "
                f"({states[0].dim()}-D, {states[1].dim()}-D) tensors"
            )


class GRU(RNNBase):
    """Gated recurrent units: a hidden state that gates keep or renew."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)


def _refuse_projection(kwargs: dict[str, Any]) -> None:
    if "proj_size" in kwargs:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


# -- single steps ----------------------------------------------------------------------------------


class RNNCellBase(_Recurrent):
    """What cells share: parameters and the shapes of their inputs."""

    states: ClassVar[int] = 1
    bias_ih: Any
    bias_hh: Any

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates, made = num_chunks * hidden_size, {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(empty((gates, input_size), **made))
        self.weight_hh = Parameter(empty((gates, hidden_size), **made))
        for name in ("bias_ih", "bias_hh"):
            if bias:
                setattr(self, name, Parameter(empty(gates, **made)))
            else:
                self.register_parameter(name, None)
        self.reset_parameters()

    def _run(self, step: Any, input: Any, states: Any) -> list[Any]:
        """The new states. Without a batch, there is one while it is done."""
        if input.dim() not in (1, 2):
            raise ValueError(
                f"{self._get_name()}: Expected input to be 1D or 2D, got {input.dim()}D instead"
            )
        for i, state in enumerate(states or ()):
            if state.dim() not in (1, 2):
                which = "hidden" if self.states == 1 else f"hx[{i}]"
                raise ValueError(
                    f"{self._get_name()}: Expected {which} to be 1D or 2D, got {state.dim()}D "
                    "instead"
                )
        x, alone = input, input.dim() == 1
        if alone:
            x = x.unsqueeze(0)
            states = states and [s.unsqueeze(0) for s in states]
        if states is None:
            states = [x.new_zeros((x.shape[0], self.hidden_size))] * self.states
        found = step(x, states if self.states > 1 else states[0], self.weight_ih, self.weight_hh,
                     self.bias_ih, self.bias_hh)  # fmt: skip
        made = list(found) if self.states > 1 else [found]
        return [s.squeeze(0) for s in made] if alone else made

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        if self.bias is not True:
            parts.append(f"bias={self.bias}")
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            parts.append(f"nonlinearity={self.nonlinearity}")
        return ", ".join(parts)


class RNNCell(RNNCellBase):
    """``tanh(W x + U h + b)``, or ``relu`` of the same."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        step = networks.rnn_tanh_cell if self.nonlinearity == "tanh" else networks.rnn_relu_cell
        return self._run(step, input, None if hx is None else [hx])[0]


class LSTMCell(RNNCellBase):
    """One step of long short-term memory.

    >>> import retrograd as torch
    >>> cell = torch.nn.LSTMCell(3, 5)
    >>> h, c = cell(torch.ones(2, 3))
    >>> h, c = cell(torch.ones(2, 3), (h, c))
    >>> h.shape, c.shape
    (torch.Size([2, 5]), torch.Size([2, 5]))
    """

    states = 2

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        hidden, cell = self._run(networks.lstm_cell, input, None if hx is None else list(hx))
        return hidden, cell


class GRUCell(RNNCellBase):
    """One step of gated recurrent units."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        return self._run(networks.gru_cell, input, None if hx is None else [hx])[0]
