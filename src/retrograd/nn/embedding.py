"""Embeddings: rows of a table, selected by index."""

from __future__ import annotations

from typing import Any

from retrograd.autograd.grad_mode import no_grad
from retrograd.nn import functional as F
from retrograd.nn import init
from retrograd.nn.module import Module
from retrograd.nn.parameter import Parameter
from retrograd.ops._sections import like
from retrograd.tensor._creation import empty
from retrograd.tensor._tensor import Tensor


class _Table(Module):
    """The table of an embedding. The row ``padding_idx``, if there is one, gets no gradient."""

    weight: Any

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None,
        max_norm: float | None, norm_type: float, scale_grad_by_freq: bool, sparse: bool,
        weight: Any, freeze: bool, device: Any, dtype: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = self._row(padding_idx)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        shape = [num_embeddings, embedding_dim]
        if weight is None:
            table = empty(shape, device=device, dtype=dtype)
            self.weight = Parameter(table, requires_grad=not freeze)
            self.reset_parameters()
        else:
            if list(weight.shape) != shape:
                raise AssertionError(
                    "Shape of weight does not match num_embeddings and embedding_dim"
                )
            self.weight = Parameter(weight, requires_grad=not freeze)

    def _has_sparse_gradients(self) -> bool:
        return self.sparse and bool(self.weight.requires_grad)

    def _row(self, padding_idx: int | None) -> int | None:
        if padding_idx is None:
            return None
        if not -self.num_embeddings <= padding_idx < self.num_embeddings:
            raise AssertionError("Padding_idx must be within num_embeddings")
        return padding_idx % self.num_embeddings

    def reset_parameters(self) -> None:
        """Draw the table from the standard normal distribution, and zero the row of the padding."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def _describe(self, *shown: tuple[str, Any]) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        for name, usual in shown:
            value = getattr(self, name)
            if value != usual:
                parts.append(f"{name}={value!r}")
        return ", ".join(parts)


class Embedding(_Table):
    """Look up the rows of a learned table by index.

    Args:
        num_embeddings: number of rows.
        embedding_dim: size of each row.
        padding_idx: index of a row that starts as zeros and gets no gradient.
        max_norm: rows that are looked up and have a larger norm are scaled to this norm, in place.
        norm_type: order of the norm for ``max_norm``.
        scale_grad_by_freq: divide the gradient of a row by how often its index occurs in the batch.
        sparse: whether the gradient of the table is a sparse tensor of the rows that were looked
            up. SGD, Adagrad and SparseAdam accept such gradients.
        dtype: dtype of the table.

    Shape:
        Input: indices of any shape ``(*)``. Output: ``(*, embedding_dim)``.
        weight: ``(num_embeddings, embedding_dim)``.

    Example:
        >>> torch.nn.Embedding(10, 3)(torch.tensor([[1, 2], [4, 1]])).shape
        torch.Size([2, 2, 3])
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False, _weight: Any = None, _freeze: bool = False, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type,
                         scale_grad_by_freq, sparse, _weight, _freeze, device, dtype)  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return self._describe(
            ("padding_idx", None), ("max_norm", None), ("norm_type", 2.0),
            ("scale_grad_by_freq", False), ("sparse", False),
        )  # fmt: skip

    @classmethod
    def from_pretrained(
        cls, embeddings: Any, freeze: bool = True, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:  # fmt: skip
        """An embedding with a given table.

        Args:
            embeddings: the table, a matrix.
            freeze: whether the table is excluded from training.
            padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse: see ``Embedding``.

        Example:
            >>> table = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
            >>> torch.nn.Embedding.from_pretrained(table)(torch.tensor([1]))
            tensor([[3., 4.]])
        """
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        return cls(rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
                   _weight=embeddings, _freeze=freeze)  # fmt: skip


@like(Embedding)
class EmbeddingBag(_Table):
    """Sums, means or maxima of groups ("bags") of rows of a learned table.

    Computes the same as ``Embedding`` followed by a reduction, without storing the rows.

    Args:
        mode: "sum", "mean" or "max".
        include_last_offset: whether ``offsets`` ends with the total number of indices.
        padding_idx: index of a row that is left out of every bag.

    Shape:
        Input: indices, ``(B, N)`` for bags of one size, or ``(N,)`` with offsets.
        offsets: ``(B,)``, where each bag begins.
        per_sample_weights: the shape of the input; factors for the rows, for "sum" only.
        Output: ``(B, embedding_dim)``. weight: ``(num_embeddings, embedding_dim)``.

    Example:
        >>> table = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        >>> bag = torch.nn.EmbeddingBag.from_pretrained(table, mode="sum")
        >>> bag(torch.tensor([0, 1, 2]), torch.tensor([0, 2]))
        tensor([[4., 6.],
                [5., 6.]])
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False, _weight: Any = None, include_last_offset: bool = False,
        padding_idx: int | None = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type,
                         scale_grad_by_freq, sparse, _weight, False, device, dtype)  # fmt: skip
        self.mode = mode
        self.include_last_offset = include_last_offset

    def forward(
        self, input: Tensor, offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return self._describe(
            ("max_norm", None), ("norm_type", 2.0), ("scale_grad_by_freq", False), ("mode", None),
            ("padding_idx", None),
        )  # fmt: skip

    @classmethod
    def from_pretrained(
        cls, embeddings: Any, freeze: bool = True, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False, include_last_offset: bool = False, padding_idx: int | None = None,
    ) -> EmbeddingBag:  # fmt: skip
        """An ``EmbeddingBag`` with a given table.

        Args:
            embeddings: the table, a matrix.
            freeze: whether the table is excluded from training.
            max_norm, norm_type, scale_grad_by_freq, mode, sparse, include_last_offset, padding_idx:
                see ``EmbeddingBag``.

        Returns:
            The layer. See ``EmbeddingBag`` for an example.
        """
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        bag = cls(rows, columns, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings,
                  include_last_offset, padding_idx)  # fmt: skip
        bag.weight.requires_grad_(not freeze)
        return bag


__all__ = ["Embedding", "EmbeddingBag"]
