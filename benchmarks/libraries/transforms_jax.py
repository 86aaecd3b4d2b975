"""Derivatives of functions in JAX, as they are or jitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def programs(jax: Any, given: dict[str, Any], jit: bool) -> dict[str, Callable[[], Any]]:
    np, lax = jax.numpy, jax.lax

    def arrays(value: Any) -> Any:
        return tuple(map(arrays, value)) if isinstance(value, list) else np.asarray(value)

    v = {name: arrays(value) for name, value in given.items()}
    a, b = v["a"], v["b"]

    def matrices(x: Any) -> Any:
        return np.tanh(x @ a) @ b + np.sin(x)

    def mlp(x: Any, weights: Any) -> Any:
        for w in weights[:-1]:
            x = np.tanh(x @ w)
        return x @ weights[-1]

    def loss(weights: Any) -> Any:
        return ((mlp(v["rows"], weights) - v["targets"]) ** 2).mean()

    def sample_loss(weights: Any, x: Any, label: Any) -> Any:
        return ((mlp(x, weights) - label) ** 2).sum()

    def conv_loss(weights: Any, image: Any, label: Any) -> Any:
        filters, dense = weights
        maps = jax.nn.relu(lax.conv(image[None], filters, (1, 1), "VALID"))
        pooled = lax.reduce_window(maps, -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return ((pooled.reshape(-1) @ dense - label) ** 2).sum()

    def small(x: Any) -> Any:
        for _ in range(25):
            x = np.sin(x * 0.9) + np.cos(x)
        return x

    def small_jvp(x: Any, t: Any) -> Any:
        return jax.jvp(small, (x,), (t,))

    gradient = jax.grad(loss)

    def ready(function: Callable[..., Any], *args: Any) -> Callable[[], Any]:
        compiled = jax.jit(function) if jit else function
        return lambda: jax.block_until_ready(compiled(*args))

    return {
        "function": ready(matrices, v["x"]),
        "jvp": ready(lambda x, t: jax.jvp(matrices, (x,), (t,)), v["x"], v["t"]),
        "gradient": ready(gradient, v["weights"]),
        "hvp": ready(
            lambda w, d: jax.jvp(gradient, (w,), (d,)), v["weights"], v["directions"]
        ),
        "jacrev": ready(jax.jacrev(lambda x: mlp(x, v["mlp"])), v["point"]),
        "jacfwd": ready(jax.jacfwd(lambda x: mlp(x, v["mlp"])), v["point"]),
        "hessian": ready(jax.hessian(lambda x: mlp(x, v["head"]).sum()), v["spot"]),
        "per_sample": ready(
            jax.vmap(jax.grad(sample_loss), (None, 0, 0)), v["small"], v["samples"], v["labels"]
        ),
        "per_sample_conv": ready(
            jax.vmap(jax.grad(conv_loss), (None, 0, 0)),
            (v["filters"], v["dense"]), v["images"], v["classes"],
        ),
        "small_jvp": ready(small_jvp, v["few"][0], v["few_directions"][0]),
        "small_vmap_jvp": ready(jax.vmap(small_jvp), v["few"], v["few_directions"]),
        "small_vmap_grad": ready(jax.vmap(jax.grad(lambda x: small(x).sum())), v["few"]),
    }  # fmt: skip
