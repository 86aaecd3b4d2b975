"""Multi-head attention."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from retrograd.nn import functional as F
from retrograd.nn import init
from retrograd.nn.linear import Linear
from retrograd.nn.module import Module
from retrograd.nn.parameter import Parameter
from retrograd.tensor._creation import empty
from retrograd.tensor._tensor import Tensor


class NonDynamicallyQuantizableLinear(Linear):
    """``Linear`` under the name that PyTorch prints for the output projection."""


class MultiheadAttention(Module):
    """Scaled dot-product attention in several heads.

    Queries, keys and values are projected; each head computes
    ``softmax(q @ k.T / sqrt(head_dim)) @ v`` for its part of the projections; the results of all
    heads are concatenated and projected once more.

    Args:
        embed_dim: size of queries and results.
        num_heads: number of heads; divides ``embed_dim``.
        dropout: probability that an attention weight is zeroed in training.
        bias: whether the projections have a bias.
        add_bias_kv: append a learned key and value to the sequence.
        add_zero_attn: append a key and value of zeros to the sequence.
        kdim: size of keys, if other than ``embed_dim``.
        vdim: size of values, if other than ``embed_dim``.
        batch_first: whether the batch is the first dimension, ``(N, L, E)``, or the second.

    Shape:
        query: ``(L, N, embed_dim)``, or ``(N, L, embed_dim)`` if ``batch_first``, or
        ``(L, embed_dim)``. key: ``(S, N, kdim)``, value: ``(S, N, vdim)``, likewise.
        key_padding_mask: ``(N, S)``. attn_mask: ``(L, S)`` or ``(N * num_heads, L, S)``.
        Output: the attention, of the query's shape, and the weights, ``(N, L, S)``,
        ``(N, num_heads, L, S)`` without averaging, or None.

    Example:
        >>> attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        >>> x = torch.ones(3, 5, 8)
        >>> result, weights = attention(x, x, x)
        >>> result.shape, weights.shape
        (torch.Size([3, 5, 8]), torch.Size([3, 5, 5]))
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
        add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
        vdim: int | None = None, batch_first: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        factory = {"device": device, "dtype": dtype}
        widths = {"q": embed_dim, "k": self.kdim, "v": self.vdim}
        separate: dict[str, Any] = {f"{n}_proj_weight": (embed_dim, w) for n, w in widths.items()}
        joint = {"in_proj_weight": (3 * embed_dim, embed_dim)}
        used, unused = (joint, separate) if self._qkv_same_embed_dim else (separate, joint)
        for name, shape in used.items():
            setattr(self, name, Parameter(empty(shape, **factory)))
        for name in unused:
            self.register_parameter(name, None)
        if bias:
            self.in_proj_bias = Parameter(empty(3 * embed_dim, **factory))
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **factory)
        for name in ("bias_k", "bias_v"):
            bias_kv = Parameter(empty((1, 1, embed_dim), **factory)) if add_bias_kv else None
            setattr(self, name, bias_kv)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Attend from ``query`` to ``key`` and ``value``.

        Args:
            query, key, value: see "Shape" of the class.
            key_padding_mask: True for keys to ignore, or numbers to add to the scores.
            need_weights: return the attention weights, too.
            attn_mask: True for pairs to ignore, or numbers to add to the scores.
            average_attn_weights: average the weights over the heads.
            is_causal: says that ``attn_mask`` is the causal mask; needs ``attn_mask``.

        Returns:
            The result, and the weights or None.
        """
        transposed = self.batch_first and query.dim() == 3
        if transposed:
            query, key, value = _sequence_first(query, key, value)
        result, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight,
            self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout,
            self.out_proj.weight, self.out_proj.bias, training=self.training,
            key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight, k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight, average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )  # fmt: skip
        return result.transpose(1, 0) if transposed else result, weights


def _sequence_first(*tensors: Any) -> list[Any]:
    """Swap the first two dimensions. A tensor that is given more than once stays one tensor, so
    that it is projected by one product."""
    swapped: dict[int, Any] = {}
    return [swapped.setdefault(id(x), x.transpose(1, 0)) for x in tensors]


# -- how attention is computed, of which there is one way ----------------------------------------


class SDPBackend(enum.Enum):
    """PyTorch's backends of ``scaled_dot_product_attention``; here they are all the same."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Choose how attention is computed. There is one way, so nothing changes.

    Args:
        backends: an ``SDPBackend``, or several.
        set_priority: accepted for compatibility.
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not chosen:
        raise RuntimeError("No backends specified")
    yield


__all__ = ["MultiheadAttention"]
