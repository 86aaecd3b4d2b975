"""Recurrent cells: single steps of recurrent layers."""

from __future__ import annotations

from typing import Any, ClassVar

from retrograd.nn.parameter import Parameter
from retrograd.nn.recurrent import Recurrent
from retrograd.ops.networks import recurrent as networks
from retrograd.tensor._creation import empty
from retrograd.tensor._tensor import Tensor


class RNNCellBase(Recurrent):
    """The base class of recurrent cells.

    Args:
        input_size: size of the input.
        hidden_size: size of the hidden state.
        num_chunks: number of gates, whose weights are stacked in one matrix.

    Example:
        >>> torch.nn.RNNCellBase(3, 5, bias=True, num_chunks=4).weight_ih.shape
        torch.Size([20, 3])
    """

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
        gates, factory = num_chunks * hidden_size, {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(empty((gates, input_size), **factory))
        self.weight_hh = Parameter(empty((gates, hidden_size), **factory))
        for name in ("bias_ih", "bias_hh"):
            if bias:
                setattr(self, name, Parameter(empty(gates, **factory)))
            else:
                self.register_parameter(name, None)
        self.reset_parameters()

    def _run(self, step: Any, input: Any, states: Any) -> list[Tensor]:
        """Compute the new states by ``step``, which takes batches only."""
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
        x, unbatched = input, input.dim() == 1
        if unbatched:
            x = x.unsqueeze(0)
            states = states and [s.unsqueeze(0) for s in states]
        if states is None:
            states = [x.new_zeros((x.shape[0], self.hidden_size))] * self.states
        result = step(x, states if self.states > 1 else states[0], self.weight_ih, self.weight_hh,
                      self.bias_ih, self.bias_hh)  # fmt: skip
        results = list(result) if self.states > 1 else [result]
        return [s.squeeze(0) for s in results] if unbatched else results

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        if self.bias is not True:
            parts.append(f"bias={self.bias}")
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            parts.append(f"nonlinearity={self.nonlinearity}")
        return ", ".join(parts)


class RNNCell(RNNCellBase):
    """One step of an Elman network: ``tanh(W_ih x + b_ih + W_hh h + b_hh)``.

    Args:
        input_size: size of the input.
        hidden_size: size of the hidden state.
        nonlinearity: "tanh" or "relu".

    Shape:
        Input: ``(N, input_size)`` or ``(input_size,)``.
        hx and output: ``(N, hidden_size)`` or ``(hidden_size,)``; zeros by default.

    Example:
        >>> torch.nn.RNNCell(3, 5)(torch.ones(2, 3)).shape
        torch.Size([2, 5])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        step = networks.rnn_tanh_cell if self.nonlinearity == "tanh" else networks.rnn_relu_cell
        (state,) = self._run(step, input, None if hx is None else [hx])
        return state


class LSTMCell(RNNCellBase):
    """One step of an ``LSTM``.

    Args:
        input_size: size of the input.
        hidden_size: size of the hidden state and the cell state.

    Shape:
        Input: ``(N, input_size)`` or ``(input_size,)``.
        hx and output: pairs ``(h, c)`` of ``(N, hidden_size)`` or ``(hidden_size,)``; zeros by
        default.

    Example:
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

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        hidden, cell = self._run(networks.lstm_cell, input, None if hx is None else list(hx))
        return hidden, cell


class GRUCell(RNNCellBase):
    """One step of a ``GRU``.

    Args:
        input_size: size of the input.
        hidden_size: size of the hidden state.

    Shape:
        Input: ``(N, input_size)`` or ``(input_size,)``.
        hx and output: ``(N, hidden_size)`` or ``(hidden_size,)``; zeros by default.

    Example:
        >>> torch.nn.GRUCell(3, 5)(torch.ones(2, 3)).shape
        torch.Size([2, 5])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        (state,) = self._run(networks.gru_cell, input, None if hx is None else [hx])
        return state


__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]
