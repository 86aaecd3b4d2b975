"""Multi-head attention: projections, attention in each head, and an output projection.

The steps are PyTorch's, since the graph shows them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from retrograd.ops import linear, products
from retrograd.ops._operation import raw
from retrograd.ops._public import public
from retrograd.ops.networks import layers, padding
from retrograd.ops.networks.attention import scaled_dot_product_attention
from retrograd.ops.networks.dropout import dropout

_PART = ("query", "key", "value")


def _insist(fact: bool, words: str) -> None:
    """PyTorch's assertions about arguments, with its messages."""
    if not fact:
        raise AssertionError(words)


@public("functional")
def multi_head_attention_forward(
    query: Any, key: Any, value: Any, embed_dim_to_check: int, num_heads: int,
    in_proj_weight: Any, in_proj_bias: Any, bias_k: Any, bias_v: Any, add_zero_attn: bool,
    dropout_p: float, out_proj_weight: Any, out_proj_bias: Any, training: bool = True,
    key_padding_mask: Any = None, need_weights: bool = True, attn_mask: Any = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Any = None, k_proj_weight: Any = None,
    v_proj_weight: Any = None, static_k: Any = None, static_v: Any = None,
    average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Multi-head attention over projections of query, key and value.

    Args:
        query: queries, of shape ``(L, N, E)`` or ``(L, E)``.
        key: keys, of shape ``(S, N, E_k)`` or ``(S, E_k)``.
        value: values, of shape ``(S, N, E_v)`` or ``(S, E_v)``.
        embed_dim_to_check: the expected size ``E``.
        num_heads: number of heads; divides ``E``.
        in_proj_weight: weights of the projections of query, key and value, of shape ``(3 * E, E)``.
        in_proj_bias: biases of the projections, of shape ``(3 * E,)``, or None.
        bias_k: a key to append, of shape ``(1, 1, E)``, or None.
        bias_v: a value to append, of shape ``(1, 1, E)``, or None.
        add_zero_attn: append a key and a value of zeros.
        dropout_p: probability that an attention weight is dropped.
        out_proj_weight: weight of the output projection, of shape ``(E, E)``.
        out_proj_bias: bias of the output projection, of shape ``(E,)``, or None.
        training: whether to apply dropout.
        key_padding_mask: mask of shape ``(N, S)`` or ``(S,)``: True for keys to ignore, or numbers
            that are added to the scores.
        need_weights: also return the attention weights.
        attn_mask: mask of shape ``(L, S)`` or ``(N * num_heads, L, S)``: True where a query may not
            attend to a key, or numbers that are added to the scores.
        use_separate_proj_weight: use ``q_proj_weight``, ``k_proj_weight`` and ``v_proj_weight`` in
            place of ``in_proj_weight``.
        q_proj_weight: weight of shape ``(E, E)``.
        k_proj_weight: weight of shape ``(E, E_k)``.
        v_proj_weight: weight of shape ``(E, E_v)``.
        static_k: keys that are already projected, of shape ``(N * num_heads, S, E / num_heads)``.
        static_v: values that are already projected, of the same shape.
        average_attn_weights: return the mean of the attention weights over the heads.
        is_causal: hint that ``attn_mask`` is the causal mask.

    Returns:
        The output, of the shape of ``query``, and the attention weights, of shape ``(N, L, S)``
        (``(N, num_heads, L, S)`` if they are not averaged), or None.

    Example:
        >>> x, weight = torch.eye(2), torch.cat([torch.eye(2)] * 3)
        >>> result, weights = torch.nn.functional.multi_head_attention_forward(
        ...     x, x, x, 2, 1, weight, None, None, None, False, 0.0, torch.eye(2), None)
        >>> weights
        tensor([[0.6698, 0.3302],
                [0.3302, 0.6698]])
    """
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = (linear.unsqueeze(x, dim=1) for x in (query, key, value))
        if key_padding_mask is not None:
            key_padding_mask = linear.unsqueeze(key_padding_mask, dim=0)
    length, batch, size = query.shape
    width = key.shape[0]
    padding_mask = _added(key_padding_mask, "key_padding_mask", query, attn_mask)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and padding_mask is None and not need_weights:
        attn_mask = None  # the hint says it all
    else:
        attn_mask = _added(attn_mask, "attn_mask", query, None)
        is_causal = is_causal and padding_mask is None
    wanted = embed_dim_to_check
    _insist(size == wanted, f"was expecting embedding dimension of {wanted}, but got {size}")
    head = size // num_heads
    _insist(head * num_heads == size, f"embed_dim {size} not divisible by num_heads {num_heads}")
    weights = (q_proj_weight, k_proj_weight, v_proj_weight)
    if use_separate_proj_weight:
        q, k, v = _projected_apart(query, key, value, weights, in_proj_bias)
    else:
        q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias)
    masks = [_check_attn_mask(attn_mask, batch * num_heads, length, width), padding_mask]
    if bias_k is not None and bias_v is not None:
        _insist(static_k is None, "bias cannot be added to static key.")
        _insist(static_v is None, "bias cannot be added to static value.")
        k = linear.cat([k, bias_k.repeat(1, batch, 1)], dim=0)
        v = linear.cat([v, bias_v.repeat(1, batch, 1)], dim=0)
        masks = _one_wider(masks)
    else:
        _insist(bias_k is None, "bias_k is set but bias_v is None")
        _insist(bias_v is None, "bias_v is set but bias_k is None")
    heads = (batch * num_heads, head)
    q = _by_heads(q, *heads)
    k, v = (
        _by_heads(x, *heads) if static is None else _check_static(name, static, *heads)
        for name, x, static in (("static_k", k, static_k), ("static_v", v, static_v))
    )
    if add_zero_attn:
        k, v = (linear.cat([x, x.new_zeros((heads[0], 1, head))], dim=1) for x in (k, v))
        masks = _one_wider(masks)
    mask = _merged(masks, batch, num_heads, k.shape[1])
    p = dropout_p if training else 0.0
    if need_weights:
        return _with_weights(
            q, k, v, mask, p, is_causal, batch, (out_proj_weight, out_proj_bias),
            average_attn_weights, batched,
        )  # fmt: skip
    q, k, v = (linear.view(x, size=(batch, num_heads, x.shape[1], head)) for x in (q, k, v))
    if mask is not None:
        whole = mask.shape[0] == 1 and len(mask.shape) == 3
        shape = (batch, num_heads, mask.shape[1], k.shape[2])
        mask = mask.unsqueeze(0) if whole else linear.view(mask, size=shape)
    result = scaled_dot_product_attention(q, k, v, mask, p, is_causal)
    result = result.permute(2, 0, 1, 3).reshape(batch * length, size)
    result = layers.linear(result, out_proj_weight, out_proj_bias)
    result = linear.view(result, size=(length, batch, result.shape[1]))
    return result if batched else result.squeeze(1), None


def _with_weights(
    q: Any, k: Any, v: Any, mask: Any, p: float, is_causal: bool, batch: int,
    projection: tuple[Any, Any], average: bool, batched: bool,
) -> tuple[Any, Any]:  # fmt: skip
    """The result and the weights, which have to be computed one by one for that."""
    count, length, head = q.shape
    scaled, transposed = q * math.sqrt(1.0 / float(head)), k.transpose(-2, -1)
    _insist(not (is_causal and mask is None), "FIXME: is_causal not implemented for need_weights")
    if mask is not None:
        weights = mask.baddbmm(scaled, transposed)
    else:
        weights = products.bmm(scaled, transposed)
    weights = weights.softmax(-1)
    if p > 0:
        weights = dropout(weights, p)
    result = products.bmm(weights, v)
    result = result.transpose(0, 1).reshape(length * batch, head * (count // batch))
    result = layers.linear(result, *projection)
    result = linear.view(result, size=(length, batch, result.shape[1]))
    weights = linear.view(weights, size=(batch, count // batch, length, k.shape[1]))
    if average:
        weights = weights.mean(dim=1)
    return (result, weights) if batched else (result.squeeze(1), weights.squeeze(0))


# -- projections -------------------------------------------------------------------------------


def _projected(query: Any, key: Any, value: Any, weight: Any, bias: Any) -> Sequence[Any]:
    """The projections by weights that are one matrix. What is the same tensor is projected by one
    product."""
    _insist(key.shape == value.shape,
            f"key shape {key.shape} does not match value shape {value.shape}")  # fmt: skip
    _insist(weight is not None, "use_separate_proj_weight is False but in_proj_weight is None")
    size = query.shape[-1]
    if key is value and query is key:
        return _several(layers.linear(query, weight, bias), 3, size)
    if key is value:
        of_query, of_both = weight.split([size, size * 2])
        biases = (None, None) if bias is None else bias.split([size, size * 2])
        q = layers.linear(query, of_query, biases[0])
        return q, *_several(layers.linear(key, of_both, biases[1]), 2, size)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    parts = zip((query, key, value), weight.chunk(3), biases, strict=True)
    return [layers.linear(*part) for part in parts]


def _several(x: Any, count: int, size: int) -> Sequence[Any]:
    """Projections that lie side by side, each in a stretch of memory of its own."""
    apart = x.unflatten(-1, (count, size)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
    return [apart[i] for i in range(count)]


def _projected_apart(
    query: Any, key: Any, value: Any, weights: Sequence[Any], bias: Any
) -> Sequence[Any]:
    """The projections by a matrix for each; keys and values may be of other sizes."""
    _insist(key.shape[:2] == value.shape[:2], f"key's sequence and batch dims {key.shape[:2]} do "
            f"not match value's {value.shape[:2]}")  # fmt: skip
    for letter, weight in zip("qkv", weights, strict=True):
        _insist(weight is not None,
                f"use_separate_proj_weight is True but {letter}_proj_weight is None")  # fmt: skip
    biases = (None, None, None) if bias is None else bias.chunk(3)
    size = query.shape[-1]
    inputs = (query, key, value)
    for name, x, weight in zip(_PART, inputs, weights, strict=True):
        wanted = (size, x.shape[-1])
        _insist(tuple(weight.shape) == wanted,
                f"expecting {name} weights shape of {wanted}, but got {weight.shape}")  # fmt: skip
    for name, b in zip(_PART, biases, strict=True):
        _insist(b is None or tuple(b.shape) == (size,),
                f"expecting {name} bias shape of {(size,)}, but got {_shape(b)}")  # fmt: skip
    return [layers.linear(*part) for part in zip(inputs, weights, biases, strict=True)]


def _shape(x: Any) -> Any:
    return None if x is None else x.shape


def _by_heads(x: Any, count: int, head: int) -> Any:
    return linear.view(x, size=(x.shape[0], count, head)).transpose(0, 1)


def _check_static(name: str, x: Any, count: int, head: int) -> Any:
    for dim, wanted in ((0, count), (2, head)):
        _insist(x.shape[dim] == wanted,
                f"expecting {name}.size({dim}) of {wanted}, but got {x.shape[dim]}")  # fmt: skip
    return x


# -- masks -------------------------------------------------------------------------------------


def _added(mask: Any, name: str, query: Any, other: Any) -> Any:
    """A mask as numbers to add to the scores: ``-inf`` where a bool mask is True."""
    if mask is None:
        return None
    kind = raw(mask).dtype.kind
    _insist(kind in "bfV", f"only bool and floating types of {name} are supported")
    if other is not None and other.dtype != mask.dtype:
        warnings.warn(
            f"Support for mismatched {name} and attn_mask is deprecated. Use same type for both "
            "instead.",
            stacklevel=3,
        )
    return mask if kind != "b" else query.new_zeros(mask.shape).masked_fill(mask, -math.inf)


def _one_wider(masks: Sequence[Any]) -> list[Any]:
    """The masks extended by one key that all queries attend to."""
    return [m if m is None else padding.pad(m, (0, 1)) for m in masks]


def _merged(masks: Sequence[Any], batch: int, heads: int, width: int) -> Any:
    """One mask of the scores of each head."""
    mask, padding_mask = masks
    if padding_mask is None:
        return mask
    for dim, wanted in enumerate((batch, width)):
        size = padding_mask.shape[dim]
        name = f"key_padded_mask.shape[{dim}]"
        _insist(size == wanted, f"Expected {name} to be {wanted}, but got {size}")
    wide = linear.view(padding_mask, size=(batch, 1, 1, width)).expand(-1, heads, -1, -1)
    wide = wide.reshape(batch * heads, 1, width)
    return wide if mask is None else mask + wide


def _check_attn_mask(mask: Any, count: int, length: int, width: int) -> Any:
    if mask is None:
        return None
    ndim = len(mask.shape)
    if ndim not in (2, 3):
        raise RuntimeError(f"attn_mask's dimension {ndim} is not supported")
    wanted = (length, width) if ndim == 2 else (count, length, width)
    if tuple(mask.shape) != wanted:
        raise RuntimeError(
            f"The shape of the {ndim}D attn_mask is {mask.shape}, but should be {wanted}."
        )
    return linear.unsqueeze(mask, dim=0) if ndim == 2 else mask


def _check_shapes(
    query: Any, key: Any, value: Any, key_padding_mask: Any, attn_mask: Any, num_heads: int
) -> bool:
    """Whether there is a dimension for the batch; AssertionError for shapes that do not fit."""
    ndim = len(query.shape)
    _insist(ndim in (2, 3), "query should be unbatched 2D or batched 3D tensor but received "
            f"{ndim}-D query tensor")  # fmt: skip
    how = "batched (3-D)" if ndim == 3 else "unbatched (2-D)"
    _insist(
        len(key.shape) == len(value.shape) == ndim,
        f"For {how} `query`, expected `key` and `value` to be {ndim}-D but found "
        f"{len(key.shape)}-D and {len(value.shape)}-D tensors respectively",
    )
    if key_padding_mask is not None:
        result = len(key_padding_mask.shape)
        words = f"`None` or {ndim - 1}-D but found {result}-D tensor instead"
        _insist(result == ndim - 1, f"For {how} `query`, expected `key_padding_mask` to be {words}")
    if attn_mask is not None:
        result = len(attn_mask.shape)
        words = f"`None`, 2-D or 3-D but found {result}-D tensor instead"
        _insist(result in (2, 3), f"For {how} `query`, expected `attn_mask` to be {words}")
        wanted = (num_heads, query.shape[0], key.shape[0])
        fits = ndim == 3 or result == 2 or tuple(attn_mask.shape) == wanted
        _insist(fits, f"Expected `attn_mask` shape to be {wanted} but got {attn_mask.shape}")
    return ndim == 3
