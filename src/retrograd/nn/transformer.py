"""Transformers: encoders and decoders of attention and feed-forward layers."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from retrograd.nn import functional as F
from retrograd.nn import init
from retrograd.nn.activations import GELU, ReLU
from retrograd.nn.attention import MultiheadAttention
from retrograd.nn.containers import ModuleList
from retrograd.nn.dropout import Dropout
from retrograd.nn.linear import Linear
from retrograd.nn.module import Module
from retrograd.nn.normalization import LayerNorm
from retrograd.tensor._creation import full
from retrograd.tensor._tensor import Tensor


def _subsequent_mask(size: int, device: Any = None, dtype: Any = None) -> Any:
    return full((size, size), -math.inf, dtype=dtype, device=device).triu(1)


def _is_causal(mask: Any, hint: bool | None, size: int) -> bool:
    """The caller's hint or, without one, whether the mask is the causal mask."""
    if hint is not None or mask is None:
        return hint is True
    causal = _subsequent_mask(size, mask.device, mask.dtype)
    return tuple(mask.shape) == tuple(causal.shape) and bool((mask == causal).all())


def _length(x: Any, batch_first: bool) -> int:
    return int(x.shape[1 if batch_first and x.dim() == 3 else 0])


def _copies(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


def _activation(activation: Any) -> Callable[..., Any]:
    if not isinstance(activation, str):
        return activation  # type: ignore[no-any-return]
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(F, activation)  # type: ignore[no-any-return]


# -- layers ----------------------------------------------------------------------------------------


class _Layer(Module):
    """The base of encoder and decoder layers. Each block has a dropout and a norm: ``norm1`` is the
    norm of the first block.
    """

    self_attn: Any
    dropout1: Any

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Any = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        options = {"bias": bias, "device": device, "dtype": dtype}
        for name in self.attentions:
            own = MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, **options)
            setattr(self, name, own)
        self.linear1 = Linear(d_model, dim_feedforward, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **options)
        self.norm_first = norm_first
        blocks = range(1, len(self.attentions) + 2)
        for number in blocks:
            setattr(self, f"norm{number}", LayerNorm(d_model, layer_norm_eps, **options))
        for number in blocks:
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = _activation(activation)

    attentions: tuple[str, ...] = ("self_attn",)

    def _residual(
        self, x: Tensor, number: int, block: Callable[..., Tensor], *args: Any
    ) -> Tensor:
        """Add the result of a block to its input, with the norm before the block or after the sum.
        """
        norm: Callable[[Tensor], Tensor] = getattr(self, f"norm{number}")
        if self.norm_first:
            return x + block(norm(x), *args)
        return norm(x + block(x, *args))

    def _sa_block(self, x: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool) -> Any:
        attended = self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False,
            is_causal=is_causal,
        )  # fmt: skip
        return self.dropout1(attended[0])

    def _ff_block(self, x: Any) -> Any:
        result = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return getattr(self, f"dropout{len(self.attentions) + 1}")(result)


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with a residual connection and a norm.

    Args:
        d_model: size of the elements of the sequence.
        nhead: number of attention heads.
        dim_feedforward: size of the hidden layer of the feed-forward network.
        dropout: probability of dropout, in attention and after each part.
        activation: "relu", "gelu", or a function.
        layer_norm_eps: ``eps`` of the norms.
        batch_first: whether the batch is the first dimension, or the second.
        norm_first: normalize before each part, rather than after the residual is added.
        bias: whether linear layers and norms have a bias.

    Shape:
        src and output: ``(L, N, d_model)``, or ``(N, L, d_model)`` if ``batch_first``, or
        ``(L, d_model)``. src_mask: ``(L, L)``. src_key_padding_mask: ``(N, L)``.

    Example:
        >>> layer = torch.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
        >>> layer(torch.ones(3, 5, 8)).shape
        torch.Size([3, 5, 8])
    """

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Any = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps,
                         batch_first, norm_first, bias, device, dtype)  # fmt: skip
        act, kinds = self.activation, ((F.relu, ReLU), (F.gelu, GELU))
        which = [act is function or isinstance(act, kind) for function, kind in kinds]
        self.activation_relu_or_gelu = which.index(True) + 1 if any(which) else 0

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None, is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        x = self._residual(src, 1, self._sa_block, src_mask, src_key_padding_mask, is_causal)
        return self._residual(x, 2, self._ff_block)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output ("memory"), and a feed-forward network.

    Each part has a residual connection and a norm.

    Args:
        d_model, nhead, dim_feedforward, dropout, activation: see ``TransformerEncoderLayer``.
        layer_norm_eps, batch_first, norm_first, bias, device, dtype: likewise.

    Shape:
        tgt and output: ``(T, N, d_model)``, or ``(N, T, d_model)`` if ``batch_first``, or
        ``(T, d_model)``. memory: ``(S, N, d_model)``, likewise. tgt_mask: ``(T, T)``.
        memory_mask: ``(T, S)``.

    Example:
        >>> layer = torch.nn.TransformerDecoderLayer(8, 2, dim_feedforward=16)
        >>> layer(torch.ones(3, 1, 8), torch.ones(5, 1, 8)).shape
        torch.Size([3, 1, 8])
    """

    attentions = ("self_attn", "multihead_attn")
    multihead_attn: Any
    dropout2: Any

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        x = self._residual(tgt, 1, self._sa_block, tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        x = self._residual(x, 2, self._mha_block, memory, memory_mask, memory_key_padding_mask,
                        memory_is_causal)  # fmt: skip
        return self._residual(x, 3, self._ff_block)

    def _mha_block(
        self, x: Any, mem: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool
    ) -> Any:
        attended = self.multihead_attn(
            x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask,
            need_weights=False, is_causal=is_causal,
        )  # fmt: skip
        return self.dropout2(attended[0])


# -- stacks of them --------------------------------------------------------------------------------


class TransformerEncoder(Module):
    """A stack of encoder layers.

    There are no nested tensors: ``enable_nested_tensor`` and ``mask_check`` have no effect.

    Args:
        encoder_layer: the layer, which is copied ``num_layers`` times.
        num_layers: number of layers.
        norm: applied to the result of the last layer.
        enable_nested_tensor: no effect.
        mask_check: no effect.

    Shape:
        As ``encoder_layer``. The mask is the argument ``mask`` of the call.

    Example:
        >>> layer = torch.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16)
        >>> encoder = torch.nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        >>> encoder(torch.ones(5, 1, 8)).shape
        torch.Size([5, 1, 8])
    """

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None,
        enable_nested_tensor: bool = True, mask_check: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = False
        self.mask_check = mask_check

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:  # fmt: skip
        length = _length(src, self.layers[0].self_attn.batch_first)
        causal = _is_causal(mask, is_causal, length)
        x = src
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=causal,
                      src_key_padding_mask=src_key_padding_mask)  # fmt: skip
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """A stack of decoder layers.

    Args:
        decoder_layer: the layer, which is copied ``num_layers`` times.
        num_layers: number of layers.
        norm: applied to the result of the last layer.

    Shape:
        As ``decoder_layer``.

    Example:
        >>> layer = torch.nn.TransformerDecoderLayer(8, 2, dim_feedforward=16)
        >>> decoder = torch.nn.TransformerDecoder(layer, 2)
        >>> decoder(torch.ones(3, 1, 8), torch.ones(5, 1, 8)).shape
        torch.Size([3, 1, 8])
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        length = _length(tgt, self.layers[0].self_attn.batch_first)
        causal = _is_causal(tgt_mask, tgt_is_causal, length)
        x = tgt
        for layer in self.layers:
            x = layer(
                x, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """An encoder-decoder transformer.

    Args:
        d_model, nhead, dim_feedforward, dropout, activation: see ``TransformerEncoderLayer``.
        layer_norm_eps, batch_first, norm_first, bias, device, dtype: likewise.
        num_encoder_layers: number of encoder layers.
        num_decoder_layers: number of decoder layers.
        custom_encoder: module to use as the encoder.
        custom_decoder: module to use as the decoder.

    Shape:
        src: ``(S, N, d_model)``, tgt and output: ``(T, N, d_model)``; the batch is first if
        ``batch_first``, or absent. src_mask: ``(S, S)``. tgt_mask: ``(T, T)``.
        memory_mask: ``(T, S)``. src_key_padding_mask and memory_key_padding_mask: ``(N, S)``.
        tgt_key_padding_mask: ``(N, T)``.

    Example:
        >>> model = torch.nn.Transformer(8, 2, 1, 1, dim_feedforward=16, batch_first=True)
        >>> mask = model.generate_square_subsequent_mask(3)
        >>> model(torch.ones(1, 5, 8), torch.ones(1, 3, 8), tgt_mask=mask).shape
        torch.Size([1, 3, 8])
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6,
        num_decoder_layers: int = 6, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Any = F.relu, custom_encoder: Any = None, custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False,
        bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps,
                   batch_first, norm_first, bias, device, dtype)  # fmt: skip
        norm_options = {"bias": bias, "device": device, "dtype": dtype}
        if custom_encoder is None:
            layer: Module = TransformerEncoderLayer(*options)
            norm = LayerNorm(d_model, layer_norm_eps, **norm_options)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, norm)
        self.encoder = custom_encoder
        if custom_decoder is None:
            layer = TransformerDecoderLayer(*options)
            norm = LayerNorm(d_model, layer_norm_eps, **norm_options)
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, norm)
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None, tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        batch_dim = 0 if self.batch_first else 1
        if src.dim() == 3 and src.shape[batch_dim] != tgt.shape[batch_dim]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask,
            is_causal=src_is_causal,
        )  # fmt: skip
        result: Tensor = self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )  # fmt: skip
        return result

    @staticmethod
    def generate_square_subsequent_mask(size: int, device: Any = None, dtype: Any = None) -> Any:
        """A causal mask: minus infinity above the diagonal, zero elsewhere.

        Args:
            size: length of the sequence.
            device: must be the CPU.
            dtype: dtype of the mask.

        Returns:
            A matrix of shape ``(size, size)`` to add to attention scores.

        Example:
            >>> torch.nn.Transformer.generate_square_subsequent_mask(2)
            tensor([[0., -inf],
                    [0., 0.]])
        """
        return _subsequent_mask(size, device, dtype)


__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip
