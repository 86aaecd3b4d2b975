"""Attention as one operation, and its derivative as one.

On GPUs, kernels of cuDNN compute both, for operands in half precision and without a mask other than
the causal one. JAX provides the second kernel only as the derivative of the first; this is the only
place where JAX differentiates. Otherwise attention is computed by matrix products and a softmax.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from retrograd.compiler.xla._table import lowering

LARGEST_HEAD = 128  # the limit of cuDNN's kernels


class _Tracing(threading.local):
    """While a thread traces a program, the derivative of each fused call, by the ids of its
    operands, which are kept alive."""

    derivatives: dict[tuple[int, ...], tuple[tuple[Any, Any], Any]] | None = None


_tracing = _Tracing()


@contextmanager
def remembered() -> Iterator[None]:
    """A context in which the derivative of a fused call reuses its intermediate results."""
    outer, _tracing.derivatives = _tracing.derivatives, {}
    try:
        yield
    finally:
        _tracing.derivatives = outer


def is_fused(q: Any, k: Any, mask: Any) -> bool:
    """Whether cuDNN has a kernel for these operands."""
    two_bytes = q.dtype in (jnp.bfloat16, jnp.float16) and k.dtype == q.dtype
    head = q.shape[3]
    return (
        jax.default_backend() == "gpu" and two_bytes and mask is None
        and q.shape[2] == k.shape[2] and head <= LARGEST_HEAD and not head % 8
    )  # fmt: skip


def fused(q: Any, k: Any, v: Any, is_causal: bool, scale: float) -> tuple[Any, Any]:
    """Attention by cuDNN's kernel, and its vector-Jacobian product."""

    def call(q: Any, k: Any, v: Any) -> Any:
        heads_last = [jnp.swapaxes(x, 1, 2) for x in (q, k, v)]
        y = jax.nn.dot_product_attention(
            *heads_last, is_causal=is_causal, scale=scale, implementation="cudnn"
        )
        return jnp.swapaxes(y, 1, 2)

    key = (id(q), id(k), id(v))
    known = {} if _tracing.derivatives is None else _tracing.derivatives
    if key not in known:
        known[key] = (jax.vjp(call, q, k, v), (q, k, v))
    return known[key][0]


@lowering("scaled_dot_product_attention")
def _attention(
    query: Any, key: Any, value: Any, attn_mask: Any, is_causal: bool, scale: float
) -> tuple[Any, Any]:
    weights, logarithm = _weights(query, key, attn_mask, is_causal, scale)
    if is_fused(query, key, attn_mask):  # the weights are then unused, and XLA removes them
        return fused(query, key, value, is_causal, scale)[0], logarithm
    return _product(weights, _of_all_heads(value, query)), logarithm


@lowering("scaled_dot_product_attention_backward")
def _attention_backward(
    g: Any, query: Any, key: Any, value: Any, output: Any, logsumexp: Any, attn_mask: Any,
    is_causal: bool, scale: float,
) -> tuple[Any, Any, Any]:  # fmt: skip
    gradient = g[0]
    if is_fused(query, key, attn_mask):
        pull = fused(query, key, value, is_causal, scale)[1]
        gradients: tuple[Any, Any, Any] = pull(gradient.astype(query.dtype))
        return gradients
    weights, _ = _weights(query, key, attn_mask, is_causal, scale)
    keys, values = (_of_all_heads(x, query) for x in (key, value))
    inner = jnp.sum(gradient.astype("float32") * output.astype("float32"), -1, keepdims=True)
    if weights.dtype == jnp.float64:
        inner = jnp.sum(gradient * output, -1, keepdims=True)
    scores = weights * (_product(gradient, _swapped(values)) - inner) * scale
    return (
        _product(scores, keys),
        _over_heads(_product(_swapped(scores), query), key),
        _over_heads(_product(_swapped(weights), gradient), value),
    )


def _weights(q: Any, k: Any, mask: Any, is_causal: bool, scale: float) -> tuple[Any, Any]:
    """The weights of the values, and the logarithms of the sums of exponentials. Both are 0 where
    all keys are masked."""
    scores = _product(q, _swapped(_of_all_heads(k, q))) * scale
    if mask is not None:
        scores = scores + mask
    if is_causal:
        allowed = jnp.tri(scores.shape[-2], scores.shape[-1], dtype=bool)
        scores = jnp.where(allowed, scores, -jnp.inf)
    top = jnp.max(scores, -1, keepdims=True, initial=-jnp.inf)
    top = jnp.where(top == -jnp.inf, 0, top)
    parts = jnp.exp(scores - top)
    total = jnp.sum(parts, -1, keepdims=True)
    none = total == 0
    logarithm = jnp.where(none, 0, jnp.log(jnp.where(none, 1, total)) + top)
    return jnp.where(none, 0, parts / jnp.where(none, 1, total)), logarithm[..., 0]


def _product(x: Any, y: Any) -> Any:
    """A batched matrix product. If one operand is bfloat16, so is the other, even if it was
    converted to float32. Sums are accumulated in float32."""
    if jnp.bfloat16 in (x.dtype, y.dtype):
        x, y = x.astype(jnp.bfloat16), y.astype(jnp.bfloat16)
        return jnp.matmul(x, y, preferred_element_type=jnp.float32)
    return jnp.matmul(x, y, precision=lax.Precision.HIGHEST)


def _swapped(x: Any) -> Any:
    return jnp.swapaxes(x, -1, -2)


def _of_all_heads(x: Any, query: Any) -> Any:
    """Keys or values, repeated for the query heads that share them."""
    times = query.shape[1] // x.shape[1]
    return x if times == 1 else jnp.repeat(x, times, axis=1)


def _over_heads(gradient: Any, x: Any) -> Any:
    """A gradient, summed over the query heads that share keys or values."""
    rows, heads = gradient.shape[0], x.shape[1]
    if gradient.shape[1] == heads:
        return gradient
    return gradient.reshape(rows, heads, -1, *gradient.shape[2:]).sum(2)
