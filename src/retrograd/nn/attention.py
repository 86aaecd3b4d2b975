"""Attention of several heads, as a layer."""

from __future__ import annotations

from typing import Any

from retrograd.nn import functional as F
from retrograd.nn import init
from retrograd.nn.linear import Linear
from retrograd.nn.module import Module
from retrograd.nn.parameter import Parameter
from retrograd.tensor._creation import empty


class NonDynamicallyQuantizableLinear(Linear):
    """A linear layer, by the name that PyTorch prints."""


class MultiheadAttention(Module):
    """Means of values, weighted in each head by how well projected keys fit projected queries.

    >>> import retrograd as torch
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
        made = {"device": device, "dtype": dtype}
        widths = {"q": embed_dim, "k": self.kdim, "v": self.vdim}
        apart: dict[str, Any] = {f"{n}_proj_weight": (embed_dim, w) for n, w in widths.items()}
        as_one = {"in_proj_weight": (3 * embed_dim, embed_dim)}
        there, absent = (as_one, apart) if self._qkv_same_embed_dim else (apart, as_one)
        for name, shape in there.items():
            setattr(self, name, Parameter(empty(shape, **made)))
        for name in absent:
            self.register_parameter(name, None)
        if bias:
            self.in_proj_bias = Parameter(empty(3 * embed_dim, **made))
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **made)
        for name in ("bias_k", "bias_v"):
            here = add_bias_kv
            setattr(self, name, Parameter(empty((1, 1, embed_dim), **made)) if here else None)
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
        self, query: Any, key: Any, value: Any, key_padding_mask: Any = None,
        need_weights: bool = True, attn_mask: Any = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:  # fmt: skip
        """The result, and the weights if they are needed: their mean over the heads, or those of
        each. In masks of truths, ``True`` means not to look there; others are added to scores."""
        turned = self.batch_first and query.dim() == 3
        if turned:
            query, key, value = _transposed(query, key, value)
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
        return result.transpose(1, 0) if turned else result, weights


def _transposed(*tensors: Any) -> list[Any]:
    """The first two dimensions swapped. What is given several times stays one tensor, which is
    projected at once."""
    found: dict[int, Any] = {}
    return [found.setdefault(id(x), x.transpose(1, 0)) for x in tensors]
