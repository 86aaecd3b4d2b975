"""``AdaptiveLogSoftmaxWithLoss``: a softmax for many classes, most of them rare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from retrograd.nn import functional as F
from retrograd.nn.containers import ModuleList, Sequential
from retrograd.nn.linear import Linear
from retrograd.nn.module import Module
from retrograd.tensor._creation import empty
from retrograd.tensor._tensor import Tensor


class _ASMoutput(NamedTuple):
    """The result of ``AdaptiveLogSoftmaxWithLoss``."""

    output: Tensor
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """Adaptive log-softmax: rare classes are grouped into clusters that use fewer features.

    Args:
        in_features: size of the input.
        n_classes: number of classes, sorted by frequency.
        cutoffs: the classes at which groups begin, increasing.
        div_value: by which factor the features of each group are fewer than those of the last.
        head_bias: whether the first part has a bias.
        device: the device of the parameters.
        dtype: dtype of the parameters.

    Shape:
        input: ``(N, in_features)`` or ``(in_features,)``. target: ``(N,)`` or ``()``.
        Output: ``output`` as target, ``loss`` a number.

    Example:
        >>> layer = torch.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10])
        >>> layer(torch.ones(3, 16), torch.tensor([0, 7, 19])).output.shape
        torch.Size([3])
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
        head_bias: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        increasing = cutoffs == sorted(set(cutoffs)) and min(cutoffs) > 0
        if not increasing or max(cutoffs) > n_classes - 1 or any(int(c) != c for c in cutoffs):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                "order, where each value is between 1 and n_classes-1"
            )
        factory = {"device": device, "dtype": dtype}
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **factory)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // div_value ** (i + 1))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(Sequential(
                Linear(in_features, hidden, bias=False, **factory),
                Linear(hidden, size, bias=False, **factory),
            ))  # fmt: skip

    def reset_parameters(self) -> None:
        """Reinitialize all parameters."""
        self.head.reset_parameters()
        for pair in self.tail:
            for layer in pair:
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        batched = target_.dim() > 0
        if target_.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if batched and input_.shape[0] != target_.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if input_.dim() != (2 if batched else 1):
            wanted = "1D target tensor expects 2D" if batched else "0D target tensor expects 1D"
            raise RuntimeError(
                f"{wanted} input tensors, but found inputs with size {list(input_.shape)}"
            )
        rows_in = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        output, used = rows_in.new_zeros(target.shape), 0
        indices = empty(target.shape[0], dtype=target.dtype, device=target.device)
        for i, high in enumerate(self.cutoffs):
            low = self.cutoffs[i - 1] if i else 0
            inside = (target >= low) & (target < high)
            rows = inside.nonzero().squeeze(1)
            if not rows.numel():
                continue
            if i == 0:
                indices.index_copy_(0, rows, target[inside])
            else:
                cluster: Any = self.tail[i - 1](rows_in.index_select(0, rows))
                relative = target[inside] - low
                local = F.log_softmax(cluster, dim=1).gather(1, relative.unsqueeze(1))
                indices.index_fill_(0, rows, self.shortlist_size + i - 1)
                output.index_copy_(0, rows, local.squeeze(1))
            used += rows.numel()
        if used != target.shape[0]:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        head = F.log_softmax(self.head(rows_in), dim=1)
        output = output + head.gather(1, indices.unsqueeze(1)).squeeze()
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        out = input.new_empty((head_output.shape[0], self.n_classes))
        head = F.log_softmax(head_output, dim=1)
        out[:, : self.shortlist_size] = head[:, : self.shortlist_size]
        for i in range(self.n_clusters):
            start, stop = self.cutoffs[i], self.cutoffs[i + 1]
            cluster = F.log_softmax(self.tail[i](input), dim=1)
            out[:, start:stop] = cluster + head[:, self.shortlist_size + i].unsqueeze(1)
        return out

    def log_prob(self, input: Tensor) -> Tensor:
        """Compute the log-probabilities of all classes.

        Args:
            input: the inputs, ``(N, in_features)``.

        Returns:
            A tensor ``(N, n_classes)``.
        """
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """Find the most probable class of each input.

        Args:
            input: the inputs, ``(N, in_features)``.

        Returns:
            The classes, ``(N,)``.
        """
        head_output = self.head(input)
        output = head_output.argmax(dim=1)
        in_tail = output >= self.shortlist_size
        if not in_tail.any():
            return output
        if in_tail.all():
            return self._get_full_log_prob(input, head_output).argmax(dim=1)
        whole = self._get_full_log_prob(input[in_tail], head_output[in_tail])
        output[in_tail] = whole.argmax(dim=1)
        return output


__all__ = ["AdaptiveLogSoftmaxWithLoss"]
