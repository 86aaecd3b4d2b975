"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops import linear, products
from retrograd.ops._batching import BatchLevel, folded, unfolded
from retrograd.ops._batching_declarations import own
from retrograd.ops._dims import one_dim
from retrograd.ops._lifted import device_value
from retrograd.ops._operands import is_differentiated
from retrograd.ops._operation import Operation, TensorLike, composite, raw
from retrograd.ops._public import public
from retrograd.ops._refusals import c_name, kernel
from retrograd.ops.comparisons import logical_not, ne
from retrograd.ops.copies import clone, to_dtype, zeros_like
from retrograd.ops.elementwise import add
from retrograd.ops.networks import dropout
from retrograd.ops.networks.softmax import softmax_backward, softmax_op
from retrograd.ops.piecewise import where
from retrograd.ops.pointwise.scalar_arithmetic import times as scaled
from retrograd.ops.reductions.statistics import logsumexp_op
from retrograd.ops.selecting import any_of

# -- the pieces --------------------------------------------------------------------------------


def _softmax_or_zeros(self: Any) -> Any:
    """Softmax along the last dimension, and zeros where that holds nothing but minus infinity."""
    last = len(self.shape) - 1
    none = logical_not(any_of(ne(raw(self), -math.inf), dim=(last,), keepdim=True))
    weights = softmax_op(where(none, zeros_like(self), self), dim=last)
    return where(none, zeros_like(weights), weights)


safe_softmax = composite(
    "safe_softmax", _softmax_or_zeros, lambda self: arrays.normalizing.safe_softmax(self),
    rules={"self": lambda g, result: softmax_backward(g, result, dim=len(result.shape) - 1)},
    check=kernel("softmax_lastdim_kernel_impl", "c"), batch="leading", symmetric=True,
)  # fmt: skip


# -- attention of many heads at once -----------------------------------------------------------


def _attention(
    query: Raw, key: Raw, value: Raw, attn_mask: Raw | None, is_causal: bool, scale: float
) -> tuple[Raw, Raw]:
    return arrays.normalizing.attention(query, key, value, attn_mask, is_causal, scale)


def _attention_of(
    query: Any, key: Any, value: Any, attn_mask: Any, is_causal: bool, scale: float
) -> tuple[Any, Any]:
    times = query.shape[1] // key.shape[1]
    keys, values = (_repeat_heads(x, times) for x in (key, value))
    scores = scaled(products.matmul(query, linear.transposed(keys)), number=scale)
    for mask in _masks(attn_mask, is_causal, scores):
        scores = scores + mask
    # Of a query that may look at no key, the logarithm is 0, as the kernel has it.
    allowed = ne(raw(scores), -math.inf)
    some, each = (any_of(allowed, dim=(3,), keepdim=keepdim) for keepdim in (False, True))
    total = logsumexp_op(where(each, scores, zeros_like(scores)), dim=(3,), keepdim=False)
    weights = safe_softmax(scores)
    if raw(weights).dtype != raw(values).dtype:  # bfloat16 operands with a float32 mask
        weights = to_dtype(weights, dtype=raw(values).dtype)
    weighted = products.matmul(weights, values)
    return weighted, where(some, total, zeros_like(total))


def _attention_rule(
    g: Any, query: Any, key: Any, value: Any, output: Any, logsumexp: Any, attn_mask: Raw | None,
    is_causal: bool, scale: float,
) -> Any:  # fmt: skip
    given, of_logarithm = g
    if of_logarithm is not None:
        return NotImplemented
    return arrays.normalizing.attention_gradients(
        given, query, key, value, output, logsumexp, attn_mask, is_causal, scale
    )


@own("a mask has fewer dimensions than the operands, and may be for each entry")
def _attention_of_many(
    level: BatchLevel, op: Operation, args: list[Any], options: dict[str, Any]
) -> Any:
    first, mask = args[0].shape[0], options["attn_mask"]
    if level.owns(mask) or (mask is not None and mask.ndim == 4 and mask.shape[0] > 1):
        rank = len(mask.shape)
        wide = linear.reshape(level.stacked(mask), (level.size, *(1,) * (4 - rank), *mask.shape))
        wide = linear.expand(wide, size=(level.size, first, *wide.shape[2:]))
        options = {**options, "attn_mask": raw(linear.reshape(wide, (-1, *wide.shape[2:])))}
    result = op(*(folded(level, x) for x in args), **options)
    return tuple(unfolded(level, y, first) for y in result)


attention = composite(
    "scaled_dot_product_attention", _attention_of, _attention, inputs=("query", "key", "value"),
    joint=_attention_rule, fused=True, outputs=("output", "logsumexp"), dtypes="free",
    node="ScaledDotProductFlashAttentionForCpuBackward0", batch=_attention_of_many,
    words="The values get the gradient, weighted by the attention; the scores get it through "
          "softmax, and pass it on to queries and keys as a matrix product does.",
)  # fmt: skip


def _repeat_heads(x: Any, times: int) -> Any:
    """Each head ``times`` times, one after the other."""
    if times == 1:
        return x
    dim, shape = len(x.shape) - 3, tuple(x.shape)
    wide = (*shape[: dim + 1], times, *shape[dim + 1 :])
    repeated = linear.expand(linear.unsqueeze(x, dim=dim + 1), size=wide)
    if isinstance(repeated, TensorLike):
        repeated = repeated.clone(memory_format="contiguous")  # type: ignore[attr-defined]
    return linear.reshape(repeated, (*shape[:dim], shape[dim] * times, *shape[dim + 1 :]))


def _masks(attn_mask: Raw | None, is_causal: bool, scores: Any) -> list[Raw]:
    """What is to be added to the scores."""
    result = [] if attn_mask is None else [attn_mask]
    if is_causal:
        result.append(_causal_mask(scores.shape[-2], scores.shape[-1], scores))
    return result


def _causal_mask(length: int, width: int, like: Any) -> Any:
    """Nothing for those before and with a query, ``-inf`` for those after it, on the device that
    ``like`` is on."""
    mask = _as_added(arrays.normalizing.triangle(length, width), raw(like).dtype)
    there = device_value(like)
    return mask if there is None else there.placed(mask)


def _as_added(mask: Raw, dtype: Any) -> Raw:
    """A mask of truths as numbers to be added."""
    zero, low = (arrays.asarray(x, dtype) for x in (0.0, -math.inf))
    return where(mask, zero, low)


# -- what users call ---------------------------------------------------------------------------


@public("functional")
def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """Scaled dot-product attention: ``softmax(query @ key.mT * scale + mask) @ value``.

    A query that is masked from every key gets zeros.

    Args:
        query: queries, of shape ``(..., L, E)``.
        key: keys, of shape ``(..., S, E)``.
        value: values, of shape ``(..., S, E_v)``.
        attn_mask: a mask that broadcasts to ``(..., L, S)``: True where a query may attend to a
            key, or numbers that are added to the scores.
        dropout_p: probability that an attention weight is dropped. It applies whenever it is above
            0.
        is_causal: attend only to keys at the same or an earlier position. Not with ``attn_mask``.
        scale: factor of the scores; ``1 / sqrt(E)`` by default.
        enable_gqa: grouped query attention: the query may have a multiple of the heads of key and
            value.

    Returns:
        The attended values, of shape ``(..., L, E_v)``.

    Example:
        >>> key, value = torch.eye(2), torch.tensor([[1.], [3.]])
        >>> torch.nn.functional.scaled_dot_product_attention(torch.zeros(1, 2), key, value)
        tensor([[2.]])
    """
    _check_attention(query, key, value, attn_mask)
    if 0 in (query.shape[-2], key.shape[-2], value.shape[-2]):
        return _of_nothing(query, key, value)
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else math.inf
    bias = attn_mask
    if attn_mask is not None and raw(attn_mask).dtype.kind == "b":
        bias = _as_added(raw(attn_mask), raw(query).dtype)
    if dropout_p == 0 and _as_one(query, key, value, attn_mask, enable_gqa):
        mask = None if bias is None else clone(raw(bias))
        return attention(query, key, value, attn_mask=mask, is_causal=bool(is_causal),
                         scale=scale)[0]  # fmt: skip
    return _composed(query, key, value, bias, dropout_p, is_causal, scale, enable_gqa)


def _composed(
    query: Any, key: Any, value: Any, bias: Any, dropout_p: float, is_causal: bool, scale: float,
    enable_gqa: bool,
) -> Any:  # fmt: skip
    """Attention step by step, in PyTorch's steps, which the graph shows."""
    given = raw(query).dtype
    if given.name in ("float16", "bfloat16"):
        query, key, value = (to_dtype(x, dtype=arrays.float32) for x in (query, key, value))
    if is_causal:
        if bias is not None:
            raise RuntimeError(
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
                "is_causal=True"
            )
        bias = _causal_mask(query.shape[-2], key.shape[-2], query)
    if enable_gqa:
        key, value = _same_heads(query, key, value)
    root = math.sqrt(abs(scale))
    query = scaled(query, number=-root if scale < 0 else root)
    scores = products.matmul(query, scaled(linear.transposed(key), number=root))
    if bias is not None:
        if len(bias.shape) > len(scores.shape):
            shape = [*bias.shape[: len(bias.shape) - len(scores.shape)], *scores.shape]
            raise RuntimeError(
                f"output with shape {list(scores.shape)} doesn't match the broadcast shape {shape}"
            )
        scores = add(scores, bias)
    weights = safe_softmax(scores)
    if dropout_p > 0:
        weights = dropout.torch_dropout(weights, dropout_p, True)
    result = products.matmul(weights, value)
    return result if raw(result).dtype == given else to_dtype(result, dtype=given)


def _same_heads(query: Any, key: Any, value: Any) -> tuple[Any, Any]:
    heads, *others = (x.shape[one_dim(-3, len(x.shape))] for x in (query, key, value))
    if any(heads % n for n in others):
        raise RuntimeError(
            "Number of heads in key and value must divide the number of heads in \nquery"
        )
    return _repeat_heads(key, heads // others[0]), _repeat_heads(value, heads // others[1])


def _as_one(query: Any, key: Any, value: Any, attn_mask: Any, enable_gqa: bool) -> bool:
    """Whether one operation does it all: for four dimensions, sizes that fit, and a mask that
    nobody wants the gradient of."""
    q, k, v = raw(query), raw(key), raw(value)
    if not q.ndim == k.ndim == v.ndim == 4 or not q.shape[3] == k.shape[3] == v.shape[3] > 0:
        return False
    if any(x.strides[3] != x.itemsize for x in (q, k, v)) or q.dtype.kind not in dtypes.FLOATS:
        return False
    same_heads = q.shape[1] == k.shape[1] == v.shape[1]
    grouped = enable_gqa and k.shape[1] == v.shape[1] and q.shape[1] % k.shape[1] == 0
    if not q.shape[0] == k.shape[0] == v.shape[0] or not (same_heads or grouped):
        return False
    if attn_mask is None or k.shape[2] != v.shape[2]:
        return bool(k.shape[2] == v.shape[2])
    if raw(attn_mask).ndim == 0:
        raise IndexError("Dimension specified as -2 but tensor has no dimensions")
    one_dim(-2, raw(attn_mask).ndim)
    free = raw(attn_mask).ndim in (2, 4) and not is_differentiated(attn_mask)
    scores = (*q.shape[:3], k.shape[2])
    fits = all(a in (1, b) for a, b in zip(raw(attn_mask).shape[::-1], scores[::-1], strict=False))
    return free and fits


def _of_nothing(query: Any, key: Any, value: Any) -> Any:
    """Zeros that depend on all the same."""
    total = scaled((query.sum() + key.sum()) + value.sum(), number=0)
    shape = (*query.shape[:-1], value.shape[-1])
    return query.new_zeros(shape) + total


def _check_attention(query: Any, key: Any, value: Any, attn_mask: Any) -> None:
    for position, (name, x) in enumerate((("query", query), ("key", key), ("value", value))):
        if not hasattr(x, "shape"):
            raise TypeError(
                f"scaled_dot_product_attention(): argument '{name}' (position {position + 1}) must "
                f"be Tensor, not {type(x).__name__}"
            )
    q, k, v = raw(query), raw(key), raw(value)
    names = [c_name(x.dtype) for x in (q, k, v)]
    if len(set(names)) > 1:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: {} "
            "key.dtype: {} and value.dtype: {} instead.".format(*names)
        )
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{q.ndim} key.dim: {k.ndim} and value.dim: {v.ndim} instead."
        )
    if attn_mask is None:
        return
    mask = raw(attn_mask)
    if mask.dtype.name not in ("bool", "float32") and mask.dtype != q.dtype:
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {c_name(mask.dtype)} and  query.dtype: {names[0]} instead."
        )
