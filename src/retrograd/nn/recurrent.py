"""Recurrent layers: RNN, LSTM and GRU over whole sequences."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

from retrograd.nn import init
from retrograd.nn.module import Module
from retrograd.nn.parameter import Parameter
from retrograd.nn.utils.rnn import PackedSequence
from retrograd.ops._sections import like
from retrograd.ops.networks import recurrent as networks
from retrograd.tensor._creation import empty

GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}
NETWORKS = {"RNN_TANH": networks.rnn_tanh, "RNN_RELU": networks.rnn_relu, "LSTM": networks.lstm,
            "GRU": networks.gru}  # fmt: skip


class Recurrent(Module):
    """The base of recurrent layers and cells."""

    hidden_size: int

    def reset_parameters(self) -> None:
        """Draw all parameters uniformly from ``[-b, b]``, with ``b = 1 / sqrt(hidden_size)``."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)


class RNNBase(Recurrent):
    """The base class of ``RNN``, ``LSTM`` and ``GRU``.

    Args:
        mode: "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional: see
            ``LSTM``.
        proj_size, device, dtype: see ``LSTM``.

    Shape:
        As ``LSTM`` or ``RNN``.

    Example:
        >>> output, h = torch.nn.RNNBase("GRU", 3, 5)(torch.ones(7, 2, 3))
        >>> output.shape, h.shape
        (torch.Size([7, 2, 5]), torch.Size([1, 2, 5]))
    """

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

    def _make_layer(self, layer: int, reverse: bool, **factory: Any) -> None:
        gates, output = GATES[self.mode] * self.hidden_size, self.proj_size or self.hidden_size
        below = output * (1 + self.bidirectional) if layer else self.input_size
        shapes: dict[str, Any] = {"weight_ih": (gates, below), "weight_hh": (gates, output)}
        if self.bias:
            shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        suffix = f"_l{layer}{'_reverse' if reverse else ''}"
        for name, shape in shapes.items():
            setattr(self, name + suffix, Parameter(empty(shape, **factory)))
        self._all_weights.append([name + suffix for name in shapes])

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters, as a list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Do nothing. In PyTorch, this rearranges the memory of parameters on GPUs."""

    # -- the forward pass ------------------------------------------------------------------------

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        states = None if hx is None else self._as_states(hx)
        if isinstance(input, PackedSequence):
            return self._packed(input, states)
        if input.dim() not in (2, 3):
            raise ValueError(self._not_a_sequence(input.dim()))
        x, unbatched = input, input.dim() == 2
        if states is not None:
            self._check_dims(states, unbatched)
        batch_dim = 0 if self.batch_first else 1
        if unbatched:
            x = x.unsqueeze(batch_dim)
            states = None if states is None else [s.unsqueeze(1) for s in states]
        self._check_input(x, 3)
        states = self._checked_states(states, x, x.shape[batch_dim])
        output, *ends = NETWORKS[self.mode](
            x, self._as_hx(states), self._flat_weights, self.bias, self.num_layers,
            self.dropout, self.training, self.bidirectional, self.batch_first,
        )  # fmt: skip
        if unbatched:
            output, ends = output.squeeze(batch_dim), [s.squeeze(1) for s in ends]
        return output, self._as_hx(ends)

    def _packed(self, input: PackedSequence, states: Any) -> tuple[PackedSequence, Any]:
        data, batch_sizes, order, inverse = input
        if states is not None and order is not None:
            states = [s.index_select(1, order) for s in states]
        self._check_input(data, 2)
        states = self._checked_states(states, data, int(batch_sizes[0]))
        output, *ends = NETWORKS[self.mode](
            data, batch_sizes, self._as_hx(states), self._flat_weights, self.bias,
            self.num_layers, self.dropout, self.training, self.bidirectional,
        )  # fmt: skip
        if inverse is not None:
            ends = [s.index_select(1, inverse) for s in ends]
        return PackedSequence(output, batch_sizes, order, inverse), self._as_hx(ends)

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name) for name in self._flat_weights_names]

    def _as_states(self, hx: Any) -> list[Any]:
        return [hx]

    def _as_hx(self, states: Any) -> Any:
        return states[0]

    def _state_sizes(self) -> list[int]:
        return [self.hidden_size]

    # -- checks ----------------------------------------------------------------------------------

    def _not_a_sequence(self, dims: int) -> str:
        return f"{self._get_name()}: Expected input to be 2D or 3D, got {dims}D instead"

    def _check_dims(self, states: list[Any], unbatched: bool) -> None:
        wanted, kind = (2, "unbatched") if unbatched else (3, "batched")
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
        defaults = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False,
                 "dropout": 0, "bidirectional": False}  # fmt: skip
        parts += [f"{n}={getattr(self, n)}" for n, v in defaults.items() if getattr(self, n) != v]
        return ", ".join(parts)


class RNN(RNNBase):
    """Elman network: ``h = tanh(W_ih x + b_ih + W_hh h + b_hh)`` for each element of a sequence.

    Args:
        input_size: size of the elements of the input.
        hidden_size: size of the hidden state.
        num_layers: number of stacked layers; each takes the hidden states of the one below.
        nonlinearity: "tanh" or "relu".
        batch_first: whether the batch is the first dimension of input and output, or the second.
        dropout: probability of dropout between layers in training.
        bidirectional: run over the sequence in both directions and concatenate the results.
        proj_size: not supported; see ``LSTM``.

    Shape:
        Input: ``(L, N, input_size)``, ``(N, L, input_size)`` if ``batch_first``,
        ``(L, input_size)``, or a ``PackedSequence``.
        hx: ``(D * num_layers, N, hidden_size)``, zeros by default; D is 2 if ``bidirectional``,
        else 1.
        Output: the hidden states of the last layer, ``(L, N, D * hidden_size)``, and the final
        hidden state of each layer, of the shape of ``hx``.

    Example:
        >>> layer = torch.nn.RNN(3, 5, num_layers=2)
        >>> output, h = layer(torch.ones(7, 2, 3))
        >>> output.shape, h.shape
        (torch.Size([7, 2, 5]), torch.Size([2, 2, 5]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
        bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, device: Any = None, dtype: Any = None, *,
        proj_size: int | None = None,
    ) -> None:  # fmt: skip
        _refuse_projection(proj_size)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias,
                         batch_first, dropout, bidirectional, 0, device, dtype)  # fmt: skip
        self.nonlinearity = nonlinearity

    def _not_a_sequence(self, dims: int) -> str:
        return f"RNN: Expected input to be 2D or 3D, got {dims}D tensor instead"


@like(RNN)
class LSTM(RNNBase):
    """Long short-term memory.

    For each element ``x`` of a sequence, with sigmoid gates ``i``, ``f``, ``o``, each of
    ``W_ih x + b_ih + W_hh h + b_hh``, and ``g`` the tanh of such a sum::

        c = f * c + i * g
        h = o * tanh(c)

    Args:
        hidden_size: size of the hidden state and the cell state.
        proj_size: project the hidden state to this size, if positive.

    Shape:
        Input: ``(L, N, input_size)``, ``(N, L, input_size)`` if ``batch_first``,
        ``(L, input_size)``, or a ``PackedSequence``.
        hx: a pair ``(h, c)``, zeros by default: ``(D * num_layers, N, H)`` and
        ``(D * num_layers, N, hidden_size)``; H is ``proj_size`` if positive, else ``hidden_size``,
        and D is 2 if ``bidirectional``, else 1.
        Output: the hidden states of the last layer, ``(L, N, D * H)``, and the final states.

    Example:
        >>> layer = torch.nn.LSTM(3, 5, batch_first=True, bidirectional=True)
        >>> output, (h, c) = layer(torch.ones(2, 7, 3))
        >>> output.shape, c.shape
        (torch.Size([2, 7, 10]), torch.Size([2, 2, 5]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        proj_size: int = 0, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, proj_size, device, dtype)  # fmt: skip

    def _as_states(self, hx: Any) -> list[Any]:
        return list(hx)

    def _as_hx(self, states: Any) -> Any:
        return tuple(states)

    def _state_sizes(self) -> list[int]:
        return [self.proj_size or self.hidden_size, self.hidden_size]

    def _check_dims(self, states: list[Any], unbatched: bool) -> None:
        wanted, kind = (2, "unbatched") if unbatched else (3, "batched")
        if any(s.dim() != wanted for s in states):
            raise RuntimeError(
                f"For {kind} {wanted}-D input, hx and cx should also be {wanted}-D but got "
                f"({states[0].dim()}-D, {states[1].dim()}-D) tensors"
            )


@like(RNN)
class GRU(RNNBase):
    """Gated recurrent unit.

    For each element ``x`` of a sequence, with sigmoid gates ``r`` and ``z``, each of
    ``W_ih x + b_ih + W_hh h + b_hh``::

        n = tanh(W_in x + b_in + r * (W_hn h + b_hn))
        h = (1 - z) * n + z * h

    Shape:
        As ``RNN``.

    Example:
        >>> output, h = torch.nn.GRU(3, 5)(torch.ones(7, 2, 3))
        >>> output.shape, h.shape
        (torch.Size([7, 2, 5]), torch.Size([1, 2, 5]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        device: Any = None, dtype: Any = None, *, proj_size: int | None = None,
    ) -> None:  # fmt: skip
        _refuse_projection(proj_size)
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, 0, device, dtype)  # fmt: skip


def _refuse_projection(proj_size: int | None) -> None:
    if proj_size is not None:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


__all__ = ["GRU", "LSTM", "RNN", "RNNBase"]
