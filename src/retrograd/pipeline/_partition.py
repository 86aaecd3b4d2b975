"""Partitioning a model into contiguous parts, minimizing the largest."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import retrograd as torch
from retrograd.pipeline._layers import Named, built, call, parameters_of
from retrograd.pipeline._stage import entered
from retrograd.pipeline._values import mapped, tensors_of

Partition = str | Sequence[int]


def partition(costs: Sequence[float], parts: int) -> list[int]:
    """Split a sequence of costs so that the largest sum of a part is as small as possible.

    Args:
        costs: the costs.
        parts: number of parts.

    Returns:
        The boundaries ``b``: part ``k`` is ``costs[b[k]:b[k + 1]]``.

    Example:
        >>> partition([1, 1, 1, 1, 4, 1], 3)
        [0, 4, 5, 6]
        >>> partition([1, 1, 1, 1], 2)
        [0, 2, 4]
    """
    count = len(costs)
    if not 1 <= parts <= count:
        raise ValueError(
            f"{count} layers cannot be cut into {parts} parts with a layer or more each"
        )
    if any(not cost >= 0 for cost in costs):
        raise ValueError(f"costs must be numbers of at least 0, not {list(costs)}")
    total = [0.0, *accumulate(map(float, costs))]
    # best[i]: the largest part of the best cut of the first i layers into k parts. It never gets
    # smaller with i, and a last part that begins at j gets smaller with j. So the best j is where
    # the two meet, and is found by halving.
    best = list(total)
    cuts: list[list[int]] = []
    for k in range(2, parts + 1):
        following, cut = [float("inf")] * (count + 1), [0] * (count + 1)
        for i in range(k, count + 1):
            meet = bisect_left(range(k - 1, i), True, key=lambda j: best[j] >= total[i] - total[j])
            options = [j for j in (k - 2 + meet, k - 1 + meet) if k - 1 <= j < i]
            cut[i] = min(options, key=lambda j: max(best[j], total[i] - total[j]))
            following[i] = max(best[cut[i]], total[i] - total[cut[i]])
        best = following
        cuts.append(cut)
    boundaries = [count]
    for cut in reversed(cuts):
        boundaries.append(cut[boundaries[-1]])
    return [0, *reversed(boundaries)]


def boundaries_of(
    how: Partition, layers: Sequence[Named], parts: int, skips: Sequence[tuple[int, int]],
    example: Any,
) -> list[int]:  # fmt: skip
    """The boundaries of the virtual stages of a model, by a partition method or as given."""
    if not isinstance(how, str):
        return _checked(how, len(layers), parts)
    if len(layers) < parts:
        raise ValueError(
            f"a model of {len(layers)} layers cannot be cut into {parts} stages with a layer or "
            "more each; use fewer stages or chunks, or give smaller layers"
        )
    if how == "uniform":
        return partition([1] * len(layers), parts)
    if how == "parameters":
        # Layers without parameters weigh a little, so that they are spread too.
        counts = [sum(p.numel() for p in parameters_of(layer).values()) for _, layer in layers]
        return partition([count + 1 / len(layers) for count in counts], parts)
    if how == "profile":
        if example is None:
            raise ValueError(
                'partition="profile" times the layers on an example: give one micro-batch of '
                "inputs as example=..."
            )
        return partition(profile(layers, example, skips=skips), parts)
    raise ValueError(
        f'partition must be "uniform", "parameters", "profile" or a list of boundaries, not {how!r}'
    )


def _checked(cuts: Sequence[int], layers: int, parts: int) -> list[int]:
    """Boundaries as a user gave them: with both ends, or only those between stages."""
    inner = [b for b in cuts if 0 < b < layers]
    complete = [0, *inner, layers]
    if list(cuts) not in (inner, complete) or inner != sorted(set(inner)):
        raise ValueError(
            f"boundaries must be layers in ascending order from 0 to {layers}, not {list(cuts)}"
        )
    if len(inner) != parts - 1:
        raise ValueError(
            f"{list(cuts)} cuts {layers} layers into {len(inner) + 1} parts, but there are "
            f"{parts} stages (with chunks, stages × chunks)"
        )
    return complete


# -- measuring ---------------------------------------------------------------------------------


def profile(
    layers: Sequence[Any], example: Any, *, skips: Sequence[tuple[int, int]] = (), rounds: int = 3
) -> list[float]:
    """Measure the time of the forward and backward pass of each layer.

    Args:
        layers: the layers.
        example: input of the first layer.
        skips: skip connections, as for ``Pipeline``.
        rounds: number of measurements, of which the shortest counts.

    Returns:
        Seconds for each layer.

    Example:
        >>> layers = [torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)]
        >>> len(profile(layers, torch.ones(8, 4)))
        3
    """
    result: list[float] = []
    values = {-1: example}
    needed_later = [{i for i, j in skips if j > at} for at in range(len(layers))]
    for number, layer_or_lazy in enumerate(layers):
        layer = layer_or_lazy[1] if isinstance(layer_or_lazy, tuple) else layer_or_lazy
        inputs = [values[number - 1], *(values[i] for i, j in skips if j == number)]
        output, seconds = _timed(built(layer, number, 0), inputs, rounds)
        result.append(seconds)
        values[number] = output
        values = {i: x for i, x in values.items() if i == number or i in needed_later[number]}
    return result


def _timed(layer: Callable[..., Any], inputs: list[Any], rounds: int) -> tuple[Any, float]:
    """What a layer gives, and the seconds both passes take. It is left as it was, but for what
    running it changes, such as the statistics of a normalization."""
    parameters = parameters_of(layer).values()
    before = [p.grad for p in parameters]
    shortest, output = float("inf"), None
    try:
        for _ in range(rounds):
            leaf_inputs = mapped(_as_a_result, inputs)
            start = time.perf_counter()
            with torch.enable_grad():
                output = call(layer, leaf_inputs[0], leaf_inputs[1:])
            roots = [x for x in tensors_of(output) if x.requires_grad]
            if roots:
                torch.autograd.backward(roots, [torch.ones_like(x) for x in roots])
            shortest = min(shortest, time.perf_counter() - start)
    finally:
        for p, grad in zip(parameters, before, strict=True):
            p.grad = grad
    return mapped(lambda x: x.detach(), output), shortest


def _as_a_result(x: Any) -> Any:
    """An input as if it came from a layer with parameters: a copy that may be written to."""
    if not (x.is_floating_point() or x.is_complex()):
        return x
    return entered(x.detach().clone().requires_grad_())
